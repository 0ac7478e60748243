//! A log in memory, for tests and the simulator: it behaves like the one on disk, and has the accidents that a disk has.
//!
//! What was written and not synced is lost by a crash, from some write on: the log is one file, so what comes after a
//! lost write is lost too.

use crate::error::{Error, Result};
use crate::log_store::{GroupState, LogStore};
use crate::log_write::{LogWrite, Op};
use parking_lot::{Mutex, MutexGuard};
use raft::eraftpb::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use vocab::ShardId;

/// A log in memory that loses and damages entries as a disk does.
#[derive(Debug, Default)]
pub struct MemoryLog {
    state: Mutex<LogState>,
}

#[derive(Debug, Default)]
struct LogState {
    /// What is read.
    written: Groups,
    /// What a crash leaves.
    synced: Groups,
    /// What lies between the two.
    unsynced: VecDeque<LogWrite>,
    next_sync_fails: bool,
    poisoned: bool,
    full: bool,
    corrupt: BTreeSet<(ShardId, u64)>,
}

type Groups = BTreeMap<ShardId, Group>;

#[derive(Clone, Debug, Default)]
struct Group {
    state: GroupState,
    /// Those from `first` on.
    entries: VecDeque<Entry>,
    first: u64,
}

impl MemoryLog {
    /// The machine crashes: of what was not synced, only the first `kept` writes are still there. Poison is gone, as a
    /// start from what is on the disk finds no trace of it.
    pub fn crash_keeping(&self, kept: usize) {
        let mut state = self.lock();
        let kept = kept.min(state.unsynced.len());
        for write in state.unsynced.drain(..kept).collect::<Vec<_>>() {
            apply(&mut state.synced, &write);
        }
        state.unsynced.clear();
        state.written = state.synced.clone();
        state.poisoned = false;
        state.next_sync_fails = false;
    }

    /// The machine crashes, and everything that was not synced is lost.
    pub fn crash(&self) {
        self.crash_keeping(0);
    }

    /// How many writes are not synced.
    #[must_use]
    pub fn unsynced(&self) -> usize {
        self.lock().unsynced.len()
    }

    /// The next fsync fails, which poisons the log until it crashes.
    pub fn fail_next_sync(&self) {
        self.lock().next_sync_fails = true;
    }

    /// Whether an fsync has failed.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.lock().poisoned
    }

    /// The disk has no room, or has it again. A write that finds none fails and leaves nothing: the one on disk waits
    /// instead, so a caller that wants that behaviour asks first.
    pub fn set_full(&self, full: bool) {
        self.lock().full = full;
    }

    /// Whether the disk has no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.lock().full
    }

    /// An entry goes bad: reading it is an error.
    pub fn corrupt(&self, shard: ShardId, index: u64) {
        self.lock().corrupt.insert((shard, index));
    }

    /// The disk is replaced by an empty one.
    pub fn wipe(&self) {
        *self.lock() = LogState::default();
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock()
    }
}

impl LogStore for MemoryLog {
    fn state(&self, shard: ShardId) -> Result<Option<GroupState>> {
        Ok(self.lock().written.get(&shard).map(Group::told))
    }

    fn fetch(&self, shard: ShardId, low: u64, high: u64, bytes_max: u64) -> Result<Vec<Entry>> {
        let state = self.lock();
        let missing = || Error::Corrupt(format!("entries {low}..{high} of shard {shard} are not all there"));
        if let Some((_, index)) = state.corrupt.range((shard, low)..(shard, high)).next() {
            return Err(Error::Corrupt(format!("entry {index} of shard {shard} is damaged")));
        }
        let group = state.written.get(&shard).ok_or_else(missing)?;
        if low < group.first || high > group.first + group.entries.len() as u64 {
            return Err(missing());
        }
        let range = (low - group.first) as usize..(high - group.first) as usize;
        let mut bytes = 0;
        let mut found = Vec::new();
        for entry in group.entries.range(range) {
            bytes += entry.data.len() as u64;
            if bytes > bytes_max && !found.is_empty() {
                break;
            }
            found.push(entry.clone());
        }
        Ok(found)
    }

    fn write(&self, write: LogWrite, sync: bool) -> Result<()> {
        {
            let mut state = self.lock();
            state.check()?;
            if state.full {
                return Err(Error::Io("no room on the device".to_owned()));
            }
            apply(&mut state.written, &write);
            for (shard, op) in write.ops() {
                // What is written anew is whole.
                if let (Op::Entries(entries), Some(first)) = (op, first_of(op)) {
                    let gone = (*shard, first)..=(*shard, first + entries.len() as u64 - 1);
                    state.corrupt.retain(|place| !gone.contains(place));
                }
            }
            state.unsynced.push_back(write);
        }
        if sync { self.sync() } else { Ok(()) }
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.lock();
        state.check()?;
        if std::mem::take(&mut state.next_sync_fails) {
            state.poisoned = true;
            return state.check();
        }
        for write in std::mem::take(&mut state.unsynced) {
            apply(&mut state.synced, &write);
        }
        Ok(())
    }

    fn groups(&self) -> Vec<ShardId> {
        self.lock().written.keys().copied().collect()
    }
}

impl LogState {
    fn check(&self) -> Result<()> {
        if self.poisoned { Err(Error::Poisoned("an fsync failed".to_owned())) } else { Ok(()) }
    }
}

impl Group {
    fn told(&self) -> GroupState {
        let truncated = self.state.truncated.0;
        let bounds = if self.entries.is_empty() {
            (truncated + 1, truncated)
        } else {
            (self.first, self.first + self.entries.len() as u64 - 1)
        };
        GroupState { bounds, ..self.state.clone() }
    }

    fn append(&mut self, entries: &[Entry]) {
        let Some(from) = entries.first().map(|entry| entry.index) else { return };
        if self.entries.is_empty() {
            self.first = from;
        }
        let kept = from.checked_sub(self.first).filter(|&kept| kept <= self.entries.len() as u64);
        let kept = kept.expect("entries follow those before without a hole");
        self.entries.truncate(kept as usize);
        self.entries.extend(entries.iter().cloned());
    }
}

fn first_of(op: &Op) -> Option<u64> {
    match op {
        Op::Entries(entries) => entries.first().map(|entry| entry.index),
        _ => None,
    }
}

fn apply(groups: &mut Groups, write: &LogWrite) {
    for (shard, op) in write.ops() {
        if *op == Op::Remove {
            groups.remove(shard);
            continue;
        }
        let group = groups.entry(*shard).or_default();
        match op {
            Op::Entries(entries) => group.append(entries),
            Op::HardState(state) => group.state.hard_state = state.clone(),
            Op::Members { conf_state, index } => {
                group.state.conf_state = (**conf_state).clone();
                group.state.conf_index = *index;
            }
            Op::Truncate { index, term } => {
                group.state.truncated = (*index, *term);
                let gone = (index + 1).saturating_sub(group.first).min(group.entries.len() as u64);
                group.entries.drain(..gone as usize);
                group.first += gone;
            }
            Op::Install(install) => {
                *group = Group {
                    state: GroupState {
                        replica: install.replica,
                        hard_state: install.hard_state.clone(),
                        conf_state: install.conf_state.clone(),
                        conf_index: install.index,
                        truncated: (install.index, install.term),
                        bounds: (0, 0),
                    },
                    ..Group::default()
                };
            }
            Op::Remove => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SHARD: ShardId = ShardId(3);

    fn append(log: &MemoryLog, index: u64, term: u64, sync: bool) -> Result<()> {
        let mut write = LogWrite::default();
        write.entries(SHARD, vec![Entry { index, term, ..Entry::default() }]);
        log.write(write, sync)
    }

    fn terms(log: &MemoryLog) -> Vec<u64> {
        let (first, last) = log.state(SHARD).unwrap().unwrap().bounds;
        log.fetch(SHARD, first, last + 1, u64::MAX).unwrap().iter().map(|entry| entry.term).collect()
    }

    #[test]
    fn a_crash_takes_what_was_not_synced() {
        let log = MemoryLog::default();
        append(&log, 1, 1, false).unwrap();
        append(&log, 2, 1, true).unwrap();
        append(&log, 3, 1, false).unwrap();
        append(&log, 2, 2, false).unwrap();
        assert_eq!((terms(&log), log.unsynced()), (vec![1, 2], 2));
        log.crash_keeping(1);
        assert_eq!(terms(&log), [1, 1, 1], "the write before the last survived, what it replaced is back");
        append(&log, 4, 2, false).unwrap();
        log.crash();
        assert_eq!(terms(&log), [1, 1, 1]);
    }

    #[test]
    fn accidents() {
        let log = MemoryLog::default();
        append(&log, 1, 1, true).unwrap();
        log.set_full(true);
        assert!(matches!(append(&log, 2, 1, false), Err(Error::Io(_))));
        log.set_full(false);
        log.corrupt(SHARD, 1);
        assert!(matches!(log.fetch(SHARD, 1, 2, 0), Err(Error::Corrupt(_))));
        append(&log, 1, 2, true).unwrap();
        assert_eq!(terms(&log), [2], "what is written anew is whole");
        log.fail_next_sync();
        assert!(matches!(append(&log, 2, 2, true), Err(Error::Poisoned(_))));
        assert!(matches!(append(&log, 2, 2, false), Err(Error::Poisoned(_))), "for good");
        log.crash();
        append(&log, 2, 3, true).unwrap();
        assert_eq!(terms(&log), [2, 3]);
    }
}
