//! What a start would make of a shard, in memory: its tree with the entries of the log applied above.

use super::overlay::Overlay;
use crate::format::entry::{Item, decode};
use crate::shard::{ReplyBounds, clear, command, transaction};
use crate::{EntrySpace, Fault, ShardHandle};
use replica::{Entry, has_commands};
use resp::{Proto, Reply};
use std::sync::Arc;
use storage::{Engine, Inspection, RowCache, Snapshot, WriteBatch};
use vocab::ShardId;

/// Bytes of rows that are kept at hand.
const ROW_CACHE_BYTES: usize = 1 << 20;

/// A shard's tree with the log's entries applied above it, in memory.
pub struct Replay {
    view: Arc<ShardHandle>,
}

impl Replay {
    /// Begins with the tree as its files have it.
    pub fn begin(shard: ShardId, slots: (u16, u16), tree: Inspection) -> storage::Result<Self> {
        let tree: Arc<dyn Engine> = Arc::new(Overlay::new(tree));
        let view = ShardHandle::open(shard, slots, tree, Arc::new(RowCache::new(ROW_CACHE_BYTES)))?;
        Ok(Self { view })
    }

    /// Applies the next entry; the error says why that cannot be done.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), String> {
        let result = if has_commands(entry) {
            self.apply_items(entry)
        } else {
            self.view.engine().apply(entry.index, WriteBatch::default());
            Ok(())
        };
        result.map_err(|why| format!("entry {} cannot be applied: {why}", entry.index))
    }

    /// The shard as it is now.
    #[must_use]
    pub fn snapshot(&self) -> Box<dyn Snapshot + '_> {
        self.view.snapshot()
    }

    fn apply_items(&self, entry: &Entry) -> Result<(), String> {
        let (now_ms, items) = decode(&entry.data)?;
        let mut space = EntrySpace::new(&self.view, entry.index, now_ms, items.evaluation());
        let mut reply = Reply::new(Proto::Resp2);
        reply.discard(true);
        let mut bounds = ReplyBounds::of_entry(items.evaluation());
        for item in items {
            reply.buf.clear();
            reply.limit(bounds.of_item());
            let done = match item? {
                Item::Command(args) => command(&mut space, &args, None, &mut reply),
                Item::Transaction { watches, commands } => {
                    transaction(&mut space, &watches, &commands, &[], &mut reply)
                }
                Item::Housekeeping => space.housekeep(),
                Item::Collect(from) => space.collect(&from).map(drop),
                Item::Clear => clear(&self.view, entry.index).map_err(Fault::from),
                // No record depends on the map, nor on what is compared.
                Item::Change(_) | Item::KeptChange(_) | Item::Mark(_) | Item::Seal => Ok(()),
                Item::Split(split) => {
                    let slots = split.slots.into();
                    let applied = self.view.applied_slots();
                    if applied.can_spare(&slots) || applied.has_none_of(&slots) {
                        self.view.give_away(&slots);
                    }
                    Ok(())
                }
            };
            done.map_err(|fault| match fault {
                Fault::Storage(error) => error.to_string(),
                Fault::Remote(text) => text,
                Fault::WouldBlock => "a read would not wait for the disk".to_owned(),
            })?;
            bounds.spend(reply.spent());
        }
        space.commit();
        Ok(())
    }
}
