//! Prefetches: what applying an entry will look at is read into memory first, since the loop that applies must not wait
//! for the disk.
//!
//! From memory, rows are fetched into the processor's caches, for all shards side by side (docs/adr/0018).
//!
//! It is only ever about time: whatever is read here is read again when the entry is applied.

use super::evaluate::{command, transaction};
use crate::format::entry::{Args, CollectFrom, EncodedCommand, Item, decode, first_keys};
use crate::format::keys;
use crate::shard_handle::ShardHandle;
use crate::space::apply::EntrySpace;
use crate::{Evaluation, Fault, Held, ReadSpace, SnapshotSpace};
use replica::{Entry, has_commands};
use resp::Reply;
use resp::table;
use std::collections::HashMap;
use std::ops::Range;
use storage::{Lines, Step};
use vocab::limits::APPLY_INLINE_ARGUMENTS_MAX;

/// Keys of a round that are fetched at once: of more, the first would be gone from the processor's caches again.
const FETCH_MAX: usize = 256;
/// The longest command that is compared with others of its entry, in arguments and bytes.
const REPEATED_ARGUMENTS_MAX: usize = 4;
const REPEATED_BYTES_MAX: usize = 512;

/// What a write will find, to be read before it is applied.
pub struct PrefetchItem {
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

/// How far the reading of a `PrefetchItem` has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetched {
    /// All that is known of is in memory.
    Done,
    /// It would have to wait for the disk.
    Lacking,
    /// What else it will find is only known by doing it: `PrefetchItem::read_rest`.
    More,
}

/// The items of entries whose keys are not all in the row cache. A command that an entry has several times is one item: what the
/// second of two pops finds is known only behind the first.
pub(super) fn items_of(handle: &ShardHandle, entries: &[Entry]) -> Vec<PrefetchItem> {
    let mut found = Vec::new();
    let mut repeated: HashMap<Args<'_>, usize> = HashMap::new();
    for entry in entries.iter().filter(|entry| has_commands(entry)) {
        // What cannot be read is found out when it is applied.
        let Ok((now_ms, items)) = decode(&entry.data) else { continue };
        let evaluation = items.evaluation();
        repeated.clear();
        let item_of = |what| PrefetchItem { index: Some(entry.index), now_ms, evaluation, what };
        // What has more is evaluated by a thread, which may wait for the disk.
        for item in items.within(APPLY_INLINE_ARGUMENTS_MAX).map_while(Result::ok) {
            let commands = match item {
                Item::Command(args) => vec![args],
                Item::Transaction { commands, .. } => commands,
                Item::Housekeeping => {
                    found.push(item_of(What::Housekeeping));
                    continue;
                }
                Item::Collect(from) => {
                    found.push(item_of(What::Collect(from)));
                    continue;
                }
                _ => continue,
            };
            if !commands.iter().all(|args| is_cached(handle, args)) {
                let encoded = commands.iter().map(|args| EncodedCommand::new(args));
                let short = short_of(&commands);
                match short.and_then(|args| repeated.get(args)).map(|at| &mut found[*at].what) {
                    Some(What::Commands(together)) => together.extend(encoded),
                    _ => {
                        found.push(item_of(What::Commands(encoded.collect())));
                        let _ = short.map(|args| repeated.insert(args.clone(), found.len() - 1));
                    }
                }
            }
        }
    }
    found
}

fn keys_of<'a>(args: &'a Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    let positions = table::resolve(args).ok().and_then(|spec| spec.keys(args).ok());
    positions.unwrap_or_default().map(|at| args[at])
}

/// A command by itself that is short enough to be compared with others of its entry.
fn short_of<'c, 'a>(commands: &'c [Args<'a>]) -> Option<&'c Args<'a>> {
    let [args] = commands else { return None };
    (args.len() <= REPEATED_ARGUMENTS_MAX && args.iter().map(|arg| arg.len()).sum::<usize>() <= REPEATED_BYTES_MAX)
        .then_some(args)
}

/// Whether the row cache has all that a command will look at.
fn is_cached(handle: &ShardHandle, args: &Args<'_>) -> bool {
    keys_of(args).all(|key| handle.cached_kind(key).is_some_and(|kind| kind.is_none_or(|kind| !kind.is_large())))
}

impl PrefetchItem {
    /// Of a command that is in no entry yet: the records of its keys.
    #[must_use]
    pub fn of(command: EncodedCommand, now_ms: u64) -> Self {
        Self { index: None, now_ms, evaluation: Evaluation::Second, what: What::Commands(vec![command]) }
    }

    /// How many arguments its commands have: as many keys may be looked up.
    #[must_use]
    pub fn arguments(&self) -> usize {
        match &self.what {
            What::Commands(commands) => commands.iter().map(EncodedCommand::arguments).sum(),
            What::Housekeeping | What::Collect(_) => 0,
        }
    }

    /// The keys that are known to be looked up.
    pub fn each_key(&self, mut each: impl FnMut(&[u8])) {
        let What::Commands(commands) = &self.what else { return };
        for command in commands {
            keys_of(&command.args()).for_each(&mut each);
        }
    }

    /// Reads the records of its keys; with `held` it does not wait for the disk, and tells there what it lacks.
    pub fn read(&self, handle: &ShardHandle, held: Option<&mut Held>) -> Prefetched {
        let What::Commands(commands) = &self.what else { return Prefetched::More };
        let waits = held.is_none();
        let rows = match held {
            Some(held) => SnapshotSpace::without_waiting(handle, self.now_ms, 0, held),
            None => SnapshotSpace::new(handle, self.now_ms, 0),
        };
        let (mut rows, mut large) = (rows.bringing_in(), false);
        for command in commands {
            for key in keys_of(&command.args()) {
                match rows.stored(key) {
                    Err(Fault::WouldBlock) => return Prefetched::Lacking,
                    // A failure shows when the entry is applied.
                    Ok(None) | Err(_) => {}
                    Ok(Some(record)) => large |= record.view().kind.is_large(),
                }
                // The cache has not taken it: it is read again, so the kernel should have it.
                if !waits && !handle.is_cached(key) {
                    return Prefetched::Lacking;
                }
            }
        }
        if large && self.index.is_some() { Prefetched::More } else { Prefetched::Done }
    }

    /// Finds the rows that are not records by doing what the entry says, for nothing. For a thread that may wait.
    pub fn read_rest(&self, handle: &ShardHandle) {
        let Some(index) = self.index else { return };
        let mut space = EntrySpace::new(handle, index, self.now_ms, self.evaluation);
        // A failure shows when the entry is applied.
        match &self.what {
            What::Housekeeping => _ = space.housekeep(),
            What::Collect(from) => _ = space.collect(from),
            What::Commands(commands) => {
                let commands: Vec<Args<'_>> = commands.iter().map(EncodedCommand::args).collect();
                let mut reply = Reply::default();
                reply.discard(true);
                let _ = match &commands[..] {
                    [args] => command(&mut space, args, None, &mut reply),
                    commands => transaction(&mut space, &[], commands, &[], &mut reply),
                };
            }
        }
    }
}

/// The keys of one round, by what finds their rows.
#[derive(Default)]
pub(crate) struct CpuPrefetch {
    /// Their hashes in the row cache.
    rows: Vec<u64>,
    /// Their hashes in the trees of their shards.
    trees: Vec<u64>,
    tree_key: Vec<u8>,
    lines: Lines,
}

impl CpuPrefetch {
    /// Begins a round.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.trees.clear();
    }

    /// Adds the keys that applying `entries` will look at; answers which of the round's they are.
    pub(crate) fn add<'a>(&mut self, handle: &ShardHandle, entries: impl Iterator<Item = &'a Entry>) -> Range<usize> {
        let (first, shard) = (self.rows.len(), handle.id().0);
        // Loops by hand: each entry comes by here, and adapters within each other cost more than what they walk over.
        'round: for entry in entries.filter(|entry| has_commands(entry)) {
            for key in first_keys(&entry.data) {
                if self.rows.len() == FETCH_MAX {
                    break 'round;
                }
                self.rows.push(handle.cache().hash(shard, key));
                keys::record_into(&mut self.tree_key, key);
                self.trees.push(handle.engine().hash(&self.tree_key));
            }
        }
        first..self.rows.len()
    }

    /// Notes what is looked at for these of the round's keys, for one step.
    pub(crate) fn note(&mut self, handle: &ShardHandle, keys: Range<usize>, step: Step) {
        handle.cache().note(&self.rows[keys.clone()], step, &mut self.lines);
        handle.engine().note(&self.trees[keys], step, &mut self.lines);
    }

    /// Fetches the noted addresses.
    pub(crate) fn fetch(&mut self) {
        self.lines.fetch();
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
    fn what_was_prefetched_is_not_asked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let resources = SharedResources::new(StorageOptions::default());
        let tree = open_engine(EngineKind::Memory, folder.path(), &resources).unwrap();
        let handle = ShardHandle::open(ShardId(1), (0, 16383), tree, Arc::new(RowCache::new(1 << 20))).unwrap();
        let mut space = EntrySpace::new(&handle, 1, 1_000, Evaluation::Second);
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
        handle.cache().clear_shard(1);
        let entries =
            [entry(2, &["SET a 2", "SET new 1"]), entry(3, &["HSET small f w"]), entry(4, &["INCR a", "NIL"])];
        let lacking = items_of(&handle, &entries);
        assert_eq!(lacking.len(), 4, "what has no keys needs no rows");
        let prefetch = |item: &PrefetchItem| match item.read(&handle, None) {
            Prefetched::More => item.read_rest(&handle),
            prefetched => assert_eq!(prefetched, Prefetched::Done),
        };
        lacking.iter().for_each(prefetch);
        assert!(items_of(&handle, &entries).is_empty());
        // What pops find is known one after the other.
        let pops = entry(2, &["LPOP l", "SET a 1", "LPOP l", "LPOP m"]);
        assert_eq!(items_of(&handle, &[pops.clone(), pops]).len(), 4);
        // Elements are not in the cache, so the answer is unknown.
        let large = [entry(2, &["HSET large f7 w"])];
        (0..2).for_each(|_| items_of(&handle, &large).iter().for_each(prefetch));
        assert_eq!(items_of(&handle, &large).len(), 1);
        assert_eq!(handle.engine().applied_index(), 1, "it was done");
    }
}
