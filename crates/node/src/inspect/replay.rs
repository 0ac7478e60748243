//! What a start would make of a shard, in memory: its tree with the entries of the log applied above.

use super::overlay::Overlay;
use crate::ShardHandle;
use crate::format::entry::{Item, decode};
use crate::shard::{Evaluated, Proposer, clear, evaluate_items};
use crate::space::apply::Place;
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
        let (now_ms, mut items) = decode(&entry.data)?;
        if !items.is_sole() {
            let (no_clients, mut reply) = (std::iter::empty(), Reply::new(Proto::Resp2));
            let (at, how) = ((entry.index, now_ms), (Place::Aside, Proposer::default()));
            let done =
                evaluate_items(&self.view, at, &items, (no_clients, &[]), &mut reply, how, &mut Evaluated::default());
            return done.map_err(|error| error.to_string());
        }
        match items.next().transpose()? {
            Some(Item::Clear) => clear(&self.view, entry.index).map_err(|error| error.to_string())?,
            Some(Item::Split(split)) => {
                let slots = split.slots.into();
                let applied = self.view.applied_slots();
                if applied.can_spare(&slots) || applied.has_none_of(&slots) {
                    self.view.give_away(&slots);
                }
            }
            // No record depends on the map, nor on what is compared.
            _ => {}
        }
        self.view.engine().apply(entry.index, WriteBatch::default());
        Ok(())
    }
}
