//! What raft-rs reads its log from: the newest entries in memory, older ones in the shared log.

use crate::error::Error;
use crate::log_store::{GroupState, LogStore};
use crate::ready::SnapshotPoint;
use raft::eraftpb::{ConfState, Entry, HardState, Message, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use vocab::ShardId;

/// Invariants: `entries` are contiguous and end at `last`; `truncated.0 < first entry held anywhere`.
pub(crate) struct RaftStorage {
    log: Arc<dyn LogStore>,
    shard: ShardId,
    hard_state: HardState,
    conf_state: ConfState,
    truncated: (u64, u64),
    last: (u64, u64),
    /// Index and term of the last entry applied.
    applied: (u64, u64),
    entries: VecDeque<Entry>,
    terms: Terms,
    /// Why entries could not be read. raft-rs would end the process; its caller asks instead, and refuses to go on.
    failure: RefCell<Option<Error>>,
    /// Entries that were read from the log for followers, in order; none but while these are sent.
    fetched: Vec<Entry>,
    /// A follower lacks entries that are to be read from the log, and was sent none.
    lacking: Cell<bool>,
}

impl RaftStorage {
    pub(crate) fn open(log: Arc<dyn LogStore>, shard: ShardId, state: GroupState, applied: u64) -> crate::Result<Self> {
        let last = state.bounds.1.max(state.truncated.0);
        let mut tail = Self {
            log,
            shard,
            hard_state: state.hard_state,
            conf_state: state.conf_state,
            truncated: state.truncated,
            last: (last, 0),
            applied: (0, 0),
            entries: VecDeque::new(),
            terms: Terms::default(),
            failure: RefCell::new(None),
            fetched: Vec::new(),
            lacking: Cell::new(false),
        };
        tail.last.1 = tail.stored_term(last)?;
        tail.terms = Terms::between(tail.truncated, tail.last);
        tail.applied = (applied, tail.stored_term(applied)?);
        Ok(tail)
    }

    fn stored_term(&self, index: u64) -> crate::Result<u64> {
        if index == self.truncated.0 {
            return Ok(self.truncated.1);
        }
        Ok(self.log.fetch(self.shard, index, index + 1, 1)?.pop().map_or(0, |entry| entry.term))
    }

    /// Takes entries that are on their way to the log. They may replace the end of what is there.
    pub(crate) fn append(&mut self, entries: &[Entry]) {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return };
        let newest = (last.index, last.term);
        assert!(first.index > self.truncated.0, "an entry below the truncation point");
        assert!(first.index <= self.last.0 + 1, "a gap in the log: {} after {}", first.index, self.last.0);
        while self.entries.back().is_some_and(|entry| entry.index >= first.index) {
            self.entries.pop_back();
        }
        entries.iter().for_each(|entry| self.terms.append(entry.index, entry.term));
        self.entries.extend(entries.iter().cloned());
        self.last = newest;
    }

    /// Entries up to `index` have been applied: memory need not have them any more, the log does.
    pub(crate) fn applied_to(&mut self, index: u64, term: u64) {
        self.applied = (index, term);
        self.forget(index);
    }

    /// The log begins anew after a snapshot, holding no entry.
    pub(crate) fn restart(&mut self, point: &SnapshotPoint) {
        self.entries.clear();
        self.truncated = (point.index, point.term);
        self.last = self.truncated;
        self.terms = Terms::between(self.last, self.last);
        self.conf_state = point.conf_state.clone();
    }

    pub(crate) fn set_conf_state(&mut self, state: ConfState) {
        self.conf_state = state;
    }

    pub(crate) fn conf_state(&self) -> &ConfState {
        &self.conf_state
    }

    /// The state of the shard as of now, without its rows.
    pub(crate) fn snapshot_point(&self) -> SnapshotPoint {
        let (index, term) = self.applied;
        SnapshotPoint { index, term, conf_state: self.conf_state.clone() }
    }

    fn forget(&mut self, index: u64) {
        while self.entries.front().is_some_and(|entry| entry.index <= index) {
            self.entries.pop_front();
        }
    }

    pub(crate) fn truncated_to(&mut self, index: u64, term: u64) {
        self.truncated = (index, term);
        self.terms.forget(index);
        self.forget(index);
    }

    pub(crate) fn truncated(&self) -> (u64, u64) {
        self.truncated
    }

    pub(crate) fn log(&self) -> &Arc<dyn LogStore> {
        &self.log
    }

    /// Why entries could not be read, if they could not.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.failure.borrow_mut().take()
    }

    /// Entries that were read for followers; none: they are sent.
    pub(crate) fn set_fetched(&mut self, entries: Vec<Entry>) {
        self.fetched = entries;
    }

    /// Whether entry `index` was read for followers.
    pub(crate) fn has_fetched(&self, index: u64) -> bool {
        self.fetched_at(index).is_some()
    }

    fn fetched_at(&self, index: u64) -> Option<usize> {
        let at = index.checked_sub(self.fetched.first()?.index)? as usize;
        (at < self.fetched.len()).then_some(at)
    }

    /// The log could not be read.
    pub(crate) fn fail(&self, error: Error) {
        *self.failure.borrow_mut() = Some(error);
    }

    /// Whether entries for a follower were to be read from the log since this was last set, and were not.
    pub(crate) fn lacking(&self) -> &Cell<bool> {
        &self.lacking
    }

    /// The first entry that is in memory.
    pub(crate) fn memory_first(&self) -> u64 {
        self.entries.front().map_or(self.last.0 + 1, |entry| entry.index)
    }
}

/// The first of `entries`, at least one, up to about so many bytes as raft-rs counts them.
fn some_of<'a>(entries: impl Iterator<Item = &'a Entry>, bytes_max: u64) -> Vec<Entry> {
    let (mut found, mut bytes) = (Vec::with_capacity(entries.size_hint().0), 0u64);
    for entry in entries {
        bytes += entry.data.len() as u64 + 8;
        if bytes > bytes_max && !found.is_empty() {
            break;
        }
        found.push(entry.clone());
    }
    found
}

impl Storage for RaftStorage {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(self.hard_state.clone(), self.conf_state.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.truncated.0 {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        assert!(high <= self.last.0 + 1, "entries up to {high} asked for, the last is {}", self.last.0);
        let bytes_max = max_size.into().unwrap_or(u64::MAX);
        let memory_first = self.memory_first();
        if low < memory_first {
            let high = high.min(memory_first);
            // For a follower that is behind, which may lack a lot: a little at a time, read by another thread.
            if context.can_async() {
                let Some(at) = self.fetched_at(low) else {
                    self.lacking.set(true);
                    return Err(raft::Error::Store(StorageError::LogTemporarilyUnavailable));
                };
                return Ok(some_of(self.fetched[at..].iter().take((high - low) as usize), bytes_max));
            }
            let fetched = self.log.fetch(self.shard, low, high, bytes_max);
            return Ok(fetched.unwrap_or_else(|e| {
                self.fail(e);
                Vec::new()
            }));
        }
        let from = (low - memory_first) as usize;
        let to = (high - memory_first) as usize;
        Ok(some_of(self.entries.range(from..to), bytes_max))
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.truncated.0 {
            return Ok(self.truncated.1);
        }
        if index == self.last.0 {
            return Ok(self.last.1);
        }
        if index < self.truncated.0 {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        if index > self.last.0 {
            return Err(raft::Error::Store(StorageError::Unavailable));
        }
        let memory_first = self.memory_first();
        if index >= memory_first {
            return Ok(self.entries[(index - memory_first) as usize].term);
        }
        if let Some(term) = self.terms.of(index) {
            return Ok(term);
        }
        let fetched = self.log.fetch(self.shard, index, index + 1, 1);
        match fetched.map(|mut entries| entries.pop()) {
            Ok(Some(entry)) => Ok(entry.term),
            Ok(None) => Err(raft::Error::Store(StorageError::Unavailable)),
            // raft-rs would end the process over any other error.
            Err(e) => {
                self.fail(e);
                Ok(0)
            }
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.truncated.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last.0)
    }

    fn snapshot(&self, _request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        let point = self.snapshot_point();
        if point.index == 0 {
            return Err(raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        let mut message = Message::default();
        point.put_into(&mut message);
        Ok(message.take_snapshot())
    }
}

/// The terms of a log's entries, as far as this process has seen them: no entry is read for its term alone.
/// Runs of entries of one term: the index of the first, and the term; both rise. The last run goes on to the last entry.
#[derive(Default)]
pub(crate) struct Terms {
    runs: VecDeque<(u64, u64)>,
}

impl Terms {
    /// Of a log of which two entries are known, index and term each. Between two of one term all are of that term.
    pub(crate) fn between(first: (u64, u64), last: (u64, u64)) -> Self {
        let known = if first.1 == last.1 { first } else { last };
        Self { runs: VecDeque::from([known]) }
    }

    /// Entry `index` is the last one now.
    pub(crate) fn append(&mut self, index: u64, term: u64) {
        while self.runs.back().is_some_and(|(first, _)| *first >= index) {
            self.runs.pop_back();
        }
        if self.runs.back().is_none_or(|(_, last)| *last != term) {
            self.runs.push_back((index, term));
        }
    }

    /// The term of entry `index`, which is there, if it is known.
    pub(crate) fn of(&self, index: u64) -> Option<u64> {
        let behind = self.runs.partition_point(|(first, _)| *first <= index);
        Some(self.runs.get(behind.checked_sub(1)?)?.1)
    }

    /// Entries up to `index` are not asked for any more.
    pub(crate) fn forget(&mut self, index: u64) {
        while self.runs.get(1).is_some_and(|(next, _)| *next <= index) {
            self.runs.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Prng;

    /// Against a plain list, while leaders replace the end of the log and its beginning is truncated.
    #[test]
    fn terms_are_those_of_the_entries() {
        for seed in 0..200 {
            let mut prng = Prng::new(seed);
            let mut plain = vec![1u64; 10];
            let mut terms = Terms::between((3, 1), (9, 1));
            let (mut truncated, mut term) = (3, 1);
            for _ in 0..100 {
                match prng.below(10) {
                    0 => {
                        term += 1;
                        let kept = truncated + 1 + prng.below((plain.len() - truncated) as u64) as usize;
                        plain.truncate(kept);
                    }
                    1 => {
                        truncated += prng.below((plain.len() - truncated) as u64) as usize;
                        terms.forget(truncated as u64);
                    }
                    _ => {}
                }
                plain.push(term);
                terms.append(plain.len() as u64 - 1, term);
                for (index, expected) in plain.iter().enumerate().skip(truncated) {
                    assert_eq!(terms.of(index as u64), Some(*expected), "entry {index}, seed {seed}");
                }
            }
        }
        let terms = Terms::between((3, 1), (9, 2));
        assert_eq!([8, 9, 10].map(|index| terms.of(index)), [None, Some(2), Some(2)], "what is between is not known");
    }
}
