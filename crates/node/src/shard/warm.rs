//! What applying an entry will look at, for a shell that has it read into memory first: the loop that applies must not
//! wait for the disk.
//!
//! It is only ever about time: whatever is read here is read again when the entry is applied.

use super::Shard;
use super::apply::{run, transaction};
use crate::entry::{Args, EncodedCommand, Item, decode};
use crate::entry_space::EntrySpace;
use crate::view::ShardView;
use crate::{Kind, SnapshotSpace, Space};
use replica::{Entry, has_commands};
use resp::Reply;
use resp::table;
use vocab::limits::{APPLY_BACKLOG_BYTES_MAX, WARM_BYTES_MAX};

/// What a shell answers that is asked whether entries can be applied now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmth {
    /// The first of them: nobody waits for the disk.
    Unknown,
    /// All of them: what they will find is in memory.
    Warm,
    /// Not yet: what they will find is being read, and `Core::warmed` will tell.
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

impl Shard {
    /// Whether the first of `committed` has to wait until what it will find is in memory.
    pub(super) fn waits_for_rows(&mut self, committed: &[Entry], effects: &mut dyn super::Effects) -> bool {
        let first = committed[0].index;
        if self.broken.is_some() || self.warming.warm >= first {
            return false;
        }
        if self.warming.awaited.is_some() {
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
        self.warming.awaited.is_some()
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
        self.warming.awaited.is_some() && waiting().sum::<usize>() > APPLY_BACKLOG_BYTES_MAX
    }
}

/// One thing to be read before an entry is applied.
pub struct ColdItem {
    index: u64,
    now_ms: u64,
    what: What,
}

enum What {
    Commands(Vec<EncodedCommand>),
    Housekeeping,
}

/// The items of entries whose keys are not all at hand.
#[must_use]
pub fn cold_items(view: &ShardView, entries: &[Entry]) -> Vec<ColdItem> {
    let mut cold = Vec::new();
    for entry in entries.iter().filter(|entry| has_commands(entry)) {
        // What cannot be read is found out when it is applied.
        let Ok((now_ms, items)) = decode(&entry.data) else { continue };
        for item in items.map_while(Result::ok) {
            let commands = match item {
                Item::Command(args) => vec![args],
                Item::Transaction { commands, .. } => commands,
                Item::Housekeeping => {
                    cold.push(ColdItem { index: entry.index, now_ms, what: What::Housekeeping });
                    continue;
                }
                _ => continue,
            };
            if !commands.iter().all(|args| is_at_hand(view, args)) {
                let commands = commands.iter().map(|args| EncodedCommand::new(args)).collect();
                cold.push(ColdItem { index: entry.index, now_ms, what: What::Commands(commands) });
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
fn is_at_hand(view: &ShardView, args: &Args<'_>) -> bool {
    keys_of(args).all(|key| view.cached_kind(key).is_some_and(|kind| kind != Some(Kind::SpreadHash)))
}

impl ColdItem {
    /// Reads what it will find. For a thread that may wait.
    pub fn warm(&self, view: &ShardView) {
        // A failure shows when the entry is applied.
        match &self.what {
            What::Housekeeping => _ = EntrySpace::new(view, self.index, self.now_ms).housekeep(),
            What::Commands(commands) => self.warm_commands(view, commands),
        }
    }

    fn warm_commands(&self, view: &ShardView, commands: &[EncodedCommand]) {
        let commands: Vec<Args<'_>> = commands.iter().map(EncodedCommand::args).collect();
        let mut spreads = false;
        let mut rows = SnapshotSpace::new(view, self.now_ms, 0);
        for key in commands.iter().flat_map(keys_of) {
            spreads |= rows.get(key).is_ok_and(|found| found.is_some_and(|record| record.view().spread().is_some()));
        }
        if spreads {
            // Elements are found by doing it, for nothing.
            let mut space = EntrySpace::new(view, self.index, self.now_ms);
            let mut reply = Reply::default();
            let _ = match &commands[..] {
                [args] => run(&mut space, args, &mut reply),
                commands => transaction(&mut space, &[], commands, &mut reply),
            };
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
        let view = ShardView::open(ShardId(1), (0, 16383), tree, Arc::new(RowCache::new(1 << 20))).unwrap();
        let mut space = EntrySpace::new(&view, 1, 1_000);
        let fields: Vec<String> = (0..300).map(|n| format!("f{n} v")).collect();
        let large = format!("HSET large {}", fields.join(" "));
        for command in ["SET a 1", "HSET small f v", &large] {
            run(&mut space, &command.split(' ').map(str::as_bytes).collect::<Vec<_>>(), &mut Reply::default()).unwrap();
        }
        space.commit();
        view.cache().clear_shard(1);
        let entries =
            [entry(2, &["SET a 2", "SET new 1"]), entry(3, &["HSET small f w"]), entry(4, &["INCR a", "NIL"])];
        let cold = cold_items(&view, &entries);
        assert_eq!(cold.len(), 4, "what has no keys is at hand");
        cold.iter().for_each(|item| item.warm(&view));
        assert!(cold_items(&view, &entries).is_empty());
        // Elements are not in the cache, so nobody knows.
        let spread = [entry(2, &["HSET large f7 w"])];
        (0..2).for_each(|_| cold_items(&view, &spread).iter().for_each(|item| item.warm(&view)));
        assert_eq!(cold_items(&view, &spread).len(), 1);
        assert_eq!(view.engine().applied_index(), 1, "it was done");
    }
}
