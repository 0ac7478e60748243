//! What applying an entry will look at, for a shell that has it read into memory first: the loop that applies must not
//! wait for the disk.
//!
//! It is only ever about time: whatever is read here is read again when the entry is applied.

use super::Shard;
use super::evaluate::{command, transaction};
use crate::format::entry::{Args, CollectFrom, EncodedCommand, Item, decode};
use crate::shard_handle::ShardHandle;
use crate::space::apply::EntrySpace;
use crate::{Evaluation, Fault, Held, ReadSpace, SnapshotSpace};
use replica::{Entry, has_commands};
use resp::Reply;
use resp::table;
use vocab::limits::{APPLY_BACKLOG_BYTES_MAX, WARM_BYTES_MAX};

/// What a shell answers that is asked whether entries can be applied now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmth {
    /// The first of them: no write waits for the disk.
    Unknown,
    /// All of them: what they will find is in memory.
    Warm,
    /// Not yet: what they will find is being read, and `MultiRaft::warmed` will tell.
    Awaited,
}

/// Which entries wait.
#[derive(Default)]
pub(super) struct Warming {
    /// Up to here they can be applied.
    warm: u64,
    /// Up to here they are waited for.
    awaited: Option<u64>,
}

impl Warming {
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited.is_some()
    }
}

impl Shard {
    /// Whether the first of `committed` has to wait until what it will find is in memory.
    pub(super) fn waits_for_rows(&mut self, committed: &[Entry], effects: &mut dyn super::Effects) -> bool {
        let first = committed[0].index;
        if self.broken.is_some() || self.warming.warm >= first {
            return false;
        }
        if self.warming.is_awaited() {
            return true;
        }
        let mut bytes = 0;
        let fitting = committed.iter().take_while(|entry| {
            let fits = bytes < WARM_BYTES_MAX;
            bytes += entry.data.len();
            fits
        });
        let entries = &committed[..fitting.count()];
        let last = entries.last().map_or(first, |entry| entry.index);
        match effects.warm(&self.view, entries) {
            Warmth::Unknown => self.warming.warm = first,
            Warmth::Warm => self.warming.warm = last,
            Warmth::Awaited => self.warming.awaited = Some(last),
        }
        self.warming.is_awaited()
    }

    /// What was waited for is in memory; true if there is something to apply now.
    pub fn warmed(&mut self) -> bool {
        let awaited = self.warming.awaited.take();
        self.warming.warm = awaited.unwrap_or(self.warming.warm);
        awaited.is_some()
    }

    /// Whether so much waits to be applied that no more should come.
    pub(crate) fn is_behind(&self) -> bool {
        let waiting = || self.collected.iter().flat_map(|turn| &turn.committed).map(|entry| entry.data.len());
        self.warming.is_awaited() && waiting().sum::<usize>() > APPLY_BACKLOG_BYTES_MAX
    }
}

/// What a write will find, to be read before it is applied.
pub struct ColdItem {
    /// Of its entry; none if it is not in one yet.
    index: Option<u64>,
    now_ms: u64,
    evaluation: Evaluation,
    what: What,
}

enum What {
    Commands(Vec<EncodedCommand>),
    Housekeeping,
    Collect(CollectFrom),
}

/// How far the reading of a `ColdItem` has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmed {
    /// All that is known of is in memory.
    Done,
    /// It would have to wait for the disk.
    Lacking,
    /// What else it will find is only known by doing it: `ColdItem::read_rest`.
    More,
}

/// The items of entries whose keys are not all at hand.
#[must_use]
pub fn cold_items(view: &ShardHandle, entries: &[Entry]) -> Vec<ColdItem> {
    let mut cold = Vec::new();
    for entry in entries.iter().filter(|entry| has_commands(entry)) {
        // What cannot be read is found out when it is applied.
        let Ok((now_ms, items)) = decode(&entry.data) else { continue };
        let evaluation = items.evaluation();
        let mut push = |what| cold.push(ColdItem { index: Some(entry.index), now_ms, evaluation, what });
        for item in items.map_while(Result::ok) {
            let commands = match item {
                Item::Command(args) => vec![args],
                Item::Transaction { commands, .. } => commands,
                Item::Housekeeping => {
                    push(What::Housekeeping);
                    continue;
                }
                Item::Collect(from) => {
                    push(What::Collect(from));
                    continue;
                }
                _ => continue,
            };
            if !commands.iter().all(|args| is_at_hand(view, args)) {
                let commands = commands.iter().map(|args| EncodedCommand::new(args)).collect();
                push(What::Commands(commands));
            }
        }
    }
    cold
}

fn keys_of<'a>(args: &'a Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    let positions = table::resolve(args).ok().and_then(|spec| spec.keys(args).ok());
    positions.into_iter().flatten().map(|at| args[at])
}

/// Whether the row cache has all that a command will look at.
fn is_at_hand(view: &ShardHandle, args: &Args<'_>) -> bool {
    keys_of(args).all(|key| view.cached_kind(key).is_some_and(|kind| kind.is_none_or(|kind| !kind.is_large())))
}

impl ColdItem {
    /// Of a command that is in no entry yet: the records of its keys.
    #[must_use]
    pub fn of(command: EncodedCommand, now_ms: u64) -> Self {
        Self { index: None, now_ms, evaluation: Evaluation::Second, what: What::Commands(vec![command]) }
    }

    /// The keys that are known to be looked up.
    pub fn each_key(&self, mut each: impl FnMut(&[u8])) {
        let What::Commands(commands) = &self.what else { return };
        for command in commands {
            keys_of(&command.args()).for_each(&mut each);
        }
    }

    /// Reads the records of its keys; with `held` it does not wait for the disk, and tells there what it lacks.
    pub fn read(&self, view: &ShardHandle, held: Option<&mut Held>) -> Warmed {
        let What::Commands(commands) = &self.what else { return Warmed::More };
        let waits = held.is_none();
        let rows = match held {
            Some(held) => SnapshotSpace::without_waiting(view, self.now_ms, 0, held),
            None => SnapshotSpace::new(view, self.now_ms, 0),
        };
        let (mut rows, mut large) = (rows.bringing_in(), false);
        for command in commands {
            for key in keys_of(&command.args()) {
                match rows.get(key) {
                    Err(Fault::WouldBlock) => return Warmed::Lacking,
                    // A failure shows when the entry is applied.
                    Ok(None) | Err(_) => {}
                    Ok(Some(record)) => large |= record.view().kind.is_large(),
                }
                // The cache has not taken it: it is read again, so the kernel should have it.
                if !waits && !view.is_cached(key) {
                    return Warmed::Lacking;
                }
            }
        }
        if large && self.index.is_some() { Warmed::More } else { Warmed::Done }
    }

    /// Finds the rows that are not records by doing what the entry says, for nothing. For a thread that may wait.
    pub fn read_rest(&self, view: &ShardHandle) {
        let Some(index) = self.index else { return };
        let mut space = EntrySpace::new(view, index, self.now_ms, self.evaluation);
        // A failure shows when the entry is applied.
        match &self.what {
            What::Housekeeping => _ = space.housekeep(),
            What::Collect(from) => _ = space.collect(from),
            What::Commands(commands) => {
                let commands: Vec<Args<'_>> = commands.iter().map(EncodedCommand::args).collect();
                let mut reply = Reply::default();
                let _ = match &commands[..] {
                    [args] => command(&mut space, args, None, &mut reply),
                    commands => transaction(&mut space, &[], commands, &[], &mut reply),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::EntryBuilder;
    use std::sync::Arc;
    use storage::{EngineKind, RowCache, SharedResources, StorageOptions, open_engine};
    use vocab::ShardId;

    fn entry(index: u64, commands: &[&str]) -> Entry {
        let mut builder = EntryBuilder::new();
        for command in commands {
            builder.command(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        }
        Entry { index, data: builder.seal(1_000).into(), ..Entry::default() }
    }

    #[test]
    fn what_was_warmed_is_cold_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let resources = SharedResources::new(StorageOptions::default());
        let tree = open_engine(EngineKind::Memory, folder.path(), &resources).unwrap();
        let view = ShardHandle::open(ShardId(1), (0, 16383), tree, Arc::new(RowCache::new(1 << 20))).unwrap();
        let mut space = EntrySpace::new(&view, 1, 1_000, Evaluation::Second);
        let fields: Vec<String> = (0..300).map(|n| format!("f{n} v")).collect();
        let large = format!("HSET large {}", fields.join(" "));
        for command in ["SET a 1", "HSET small f v", &large] {
            super::super::evaluate::command(
                &mut space,
                &command.split(' ').map(str::as_bytes).collect::<Vec<_>>(),
                None,
                &mut Reply::default(),
            )
            .unwrap();
        }
        space.commit();
        view.cache().clear_shard(1);
        let entries =
            [entry(2, &["SET a 2", "SET new 1"]), entry(3, &["HSET small f w"]), entry(4, &["INCR a", "NIL"])];
        let cold = cold_items(&view, &entries);
        assert_eq!(cold.len(), 4, "what has no keys is at hand");
        let warm = |item: &ColdItem| match item.read(&view, None) {
            Warmed::More => item.read_rest(&view),
            warmed => assert_eq!(warmed, Warmed::Done),
        };
        cold.iter().for_each(warm);
        assert!(cold_items(&view, &entries).is_empty());
        // Elements are not in the cache, so the answer is unknown.
        let large = [entry(2, &["HSET large f7 w"])];
        (0..2).for_each(|_| cold_items(&view, &large).iter().for_each(warm));
        assert_eq!(cold_items(&view, &large).len(), 1);
        assert_eq!(view.engine().applied_index(), 1, "it was done");
    }
}
