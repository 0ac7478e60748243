//! Which files are to be rewritten, or removed, to free the room of dropped prefixes.
//!
//! A prefix is looked at once its drop is in files. From then on only tables that existed at that moment can hold rows of
//! it: compaction drops such rows, and no entry writes new ones. The collector notes these tables, and forgets the prefix
//! when none of them is left.
//!
//! A table that has rows of one dropped prefix alone is removed without being read. What is left is rewritten, a level at
//! a time, once it is a good part of the tree, so that rewriting costs a bounded multiple of what it frees.

use super::blob::Handle;
use super::table::Blocks;
use crate::Slice;
use crate::dropped::{DroppedPrefixes, prefix_end};
use lsm_tree::{InternalValue, Table, ValueType};
use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;

/// A level is rewritten when dropped rows take more than one byte of so many of the tree...
const TREE_PART: u64 = 8;
/// ... or when so many prefixes are pending.
const PREFIXES_MAX: usize = 16 * 1024;
/// Pending prefixes at which writers are held up.
pub(super) const PREFIXES_DEBT: usize = 256 * 1024;
/// New prefixes that one step looks at.
const STEP_PREFIXES: usize = 256;
/// Rows of a prefix that are counted in a table, before their bytes are estimated.
const COUNTED_ROWS: usize = 256;

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing, for now.
    Nothing,
    /// There are more prefixes to look at.
    GoOn,
    /// Remove the tables that hold keys of this prefix alone.
    Cut(Slice),
    /// Rewrite the first level that has one of these tables.
    Rewrite { tables: HashSet<u64> },
    /// No file has rows of these any more.
    Forget(Vec<Slice>),
}

/// What a plan is made for.
pub(super) struct Dropping<'a> {
    /// The dropped prefixes that its files may have rows of.
    pub(super) dropped: &'a DroppedPrefixes<u64>,
    pub(super) tables: Vec<(&'a Table, &'a Blocks)>,
    /// What all its files take.
    pub(super) disk_bytes: u64,
}

/// The dropped prefixes of one tree that are being collected.
#[derive(Default)]
pub(super) struct Collector(Mutex<CollectorState>);

#[derive(Default)]
struct CollectorState {
    pending: BTreeMap<Slice, Vec<Leftover>>,
    /// Bytes of all leftovers.
    bytes: u64,
    /// The tables and the number of prefixes that the last plan was made for, if there was nothing to do.
    idle: Option<(HashSet<u64>, usize)>,
}

/// A table that has rows of a dropped prefix.
struct Leftover {
    table: u64,
    /// About how many bytes of it these are.
    bytes: u64,
    /// All its keys have the prefix.
    is_whole: bool,
}

impl Collector {
    /// What to do for a tree. No compaction of it is under way.
    pub(super) fn plan(&self, tree: &Dropping<'_>) -> Plan {
        let mut state = self.0.lock().expect("nothing panics while it is held");
        let tables: HashSet<u64> = tree.tables.iter().map(|(table, _)| table.id()).collect();
        if state.idle.as_ref().is_some_and(|(known, count)| *known == tables && *count == tree.dropped.len()) {
            return Plan::Nothing;
        }
        state.idle = None;
        if state.note_new(tree) {
            return Plan::GoOn;
        }
        let plan = state.plan(tree, &tables);
        if plan == Plan::Nothing {
            state.idle = Some((tables, tree.dropped.len()));
        }
        plan
    }

    /// About how many bytes dropped rows take in files, as far as they have been looked at.
    pub(super) fn bytes(&self) -> u64 {
        self.0.lock().expect("nothing panics while it is held").bytes
    }
}

impl CollectorState {
    /// Looks at some prefixes that were dropped since the last step; true if there are more of them.
    fn note_new(&mut self, tree: &Dropping<'_>) -> bool {
        self.pending.retain(|prefix, _| tree.dropped.contains(prefix));
        let new = tree.dropped.iter().map(|(prefix, _)| prefix).filter(|prefix| !self.pending.contains_key(*prefix));
        let new: Vec<Slice> = new.take(STEP_PREFIXES).cloned().collect();
        let more = new.len() == STEP_PREFIXES;
        for prefix in new {
            let leftovers = tree.tables.iter().filter_map(|(table, blocks)| Leftover::of(table, blocks, &prefix));
            self.pending.insert(prefix.clone(), leftovers.collect());
        }
        more
    }

    fn plan(&mut self, tree: &Dropping<'_>, tables: &HashSet<u64>) -> Plan {
        let mut gone = Vec::new();
        self.bytes = 0;
        for (prefix, leftovers) in &mut self.pending {
            leftovers.retain(|leftover| tables.contains(&leftover.table));
            self.bytes += leftovers.iter().map(|leftover| leftover.bytes).sum::<u64>();
            if leftovers.is_empty() {
                gone.push(prefix.clone());
            }
        }
        if !gone.is_empty() {
            return Plan::Forget(gone);
        }
        let mut pending = self.pending.iter();
        if let Some((prefix, _)) = pending.find(|(_, leftovers)| leftovers.iter().any(|leftover| leftover.is_whole)) {
            return Plan::Cut(prefix.clone());
        }
        if self.bytes < tree.disk_bytes / TREE_PART && self.pending.len() < PREFIXES_MAX {
            return Plan::Nothing;
        }
        let wanted: HashSet<u64> = self.pending.values().flatten().map(|leftover| leftover.table).collect();
        Plan::Rewrite { tables: wanted }
    }
}

impl Leftover {
    /// What `table` has of `prefix`, if anything.
    fn of(table: &Table, blocks: &Blocks, prefix: &Slice) -> Option<Self> {
        let end = prefix_end(prefix);
        let (min, max) = (table.metadata.key_range.min(), table.metadata.key_range.max());
        if max < prefix || !end.is_empty() && min >= &end {
            return None;
        }
        let id = table.id();
        if min.starts_with(prefix) && max.starts_with(prefix) {
            return Some(Self { table: id, bytes: table.metadata.file_size, is_whole: true });
        }
        let mut bytes = 0;
        for (count, row) in table.range(prefix.clone()..).enumerate() {
            match row {
                Ok(row) if !row.key.user_key.starts_with(prefix) => break,
                Ok(row) if count < COUNTED_ROWS => bytes += bytes_of(&row),
                Ok(_) => {
                    bytes = bytes.max(blocks.bytes_between(table, prefix, &end));
                    break;
                }
                // A compaction that meets the damage names it.
                Err(_) => {
                    bytes = table.metadata.file_size;
                    break;
                }
            }
        }
        (bytes > 0).then_some(Self { table: id, bytes, is_whole: false })
    }
}

/// What a row takes on disk.
fn bytes_of(row: &InternalValue) -> u64 {
    let key = &row.key.user_key;
    let apart = || Handle::decode(&row.value).map_or(0, |handle| handle.record_bytes(key));
    let value = if row.key.value_type == ValueType::Indirection { apart() } else { row.value.len() };
    (key.len() + value) as u64
}

/// How far collection is behind, as `Engine::debt` has it.
pub(super) fn debt(dropped: &DroppedPrefixes<u64>) -> f64 {
    dropped.len() as f64 / PREFIXES_DEBT as f64
}
