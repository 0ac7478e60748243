//! Raft's own invariants, held against what every node's log is told to hold and what every replica says of itself.
//!
//! - Election safety: one leader a term.
//! - One vote a term, over restarts too.
//! - Log matching: two logs that have an entry of one index and term have the same entry, and the same before it.
//! - Leader completeness: who is elected holds every committed entry.
//! - State machine safety: what is committed at an index never changes, on any replica.
//! - A replica's applied ≤ committed, and neither goes back while it runs.
//!
//! <https://raft.github.io/raft.pdf>, figure 3

use crate::check::acknowledged::Values;
use crate::check::collections::CollectionLog;
use crate::request;
use replica::{Entry, LogStore, Op, ReplicaStatus};
use std::collections::BTreeMap;
use vocab::{ReplicaId, ShardId};
use xxhash_rust::xxh3::Xxh3;

/// Everything that is known of one group.
#[derive(Default)]
pub struct Group {
    /// By term.
    leaders: BTreeMap<u64, ReplicaId>,
    /// By replica and term.
    votes: BTreeMap<(ReplicaId, u64), u64>,
    /// By index and term: a hash, and the term of the entry before, where it was seen.
    entries: BTreeMap<(u64, u64), (u64, Option<u64>)>,
    /// By index: the term.
    committed: BTreeMap<u64, u64>,
    values: Values,
    /// By index: the leader's clock in the entry, in ms.
    clocks: BTreeMap<u64, u64>,
    collections: CollectionLog,
    seen: BTreeMap<ReplicaId, Seen>,
}

/// What a replica last said of itself.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    committed: u64,
    applied: u64,
    /// Committed entries up to here have been compared.
    compared: u64,
}

fn hash(entry: &Entry) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&[entry.get_entry_type() as u8]);
    hash.update(&entry.context);
    hash.update(&[0]);
    hash.update(&entry.data);
    hash.digest()
}

impl Group {
    /// The values of committed entries.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// By the index of a committed entry: the clock that it carries, in ms.
    #[must_use]
    pub fn clocks(&self) -> &BTreeMap<u64, u64> {
        &self.clocks
    }

    /// What its committed entries did to collections.
    #[must_use]
    pub fn collections(&self) -> &CollectionLog {
        &self.collections
    }

    /// The group of a shard that is split off this one's at entry `index` of `term`: its log begins there, and what was
    /// committed before is its own too.
    #[must_use]
    pub fn split_off(&self, index: u64, term: u64) -> Self {
        let before = |values: &BTreeMap<u64, u64>| values.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>();
        Self {
            committed: BTreeMap::from([(index, term)]),
            values: before(&self.values).into_iter().filter(|(_, at)| *at < index).collect(),
            clocks: before(&self.clocks).into_iter().filter(|(at, _)| *at < index).collect(),
            collections: self.collections.before(index),
            ..Self::default()
        }
    }

    /// A replica goes on as the group's only one, with what is in `log`: what was committed and is not there is lost, and
    /// so is all that happened in terms later than `heard`, its own before it was told to. Answers the last entry that is not.
    pub fn recovered(&mut self, shard: ShardId, (heard, last): (u64, u64), log: &dyn LogStore) -> u64 {
        let truncated = log.state(shard).ok().flatten().map_or(0, |state| state.truncated.0);
        let held = |index: u64, term: u64| {
            index <= truncated || fetch(shard, index, index + 1, log).first().is_some_and(|entry| entry.term == term)
        };
        let mut committed = self.committed.range(..=last).rev();
        let cut = committed.find(|(index, term)| held(**index, **term)).map_or(0, |(index, _)| *index);
        self.committed.retain(|index, _| *index <= cut);
        self.values.retain(|_, index| *index <= cut);
        self.clocks.retain(|index, _| *index <= cut);
        self.collections = self.collections.before(cut + 1);
        self.entries.retain(|(index, term), _| *index <= cut || *term <= heard);
        self.leaders.retain(|term, _| *term <= heard);
        self.votes.retain(|(_, term), _| *term <= heard);
        cut
    }

    /// How many terms had a leader.
    #[must_use]
    pub fn terms(&self) -> u64 {
        self.leaders.len() as u64
    }

    /// A replica's log is told to hold something.
    pub fn wrote(&mut self, replica: ReplicaId, op: &Op) -> Result<(), String> {
        match op {
            Op::Entries(entries) => {
                let mut before: Option<&Entry> = None;
                for entry in entries {
                    let term_before = before.map(|before| before.term);
                    self.matching(replica, entry, term_before)?;
                    before = Some(entry);
                }
                Ok(())
            }
            Op::HardState(state) if state.vote != 0 => {
                let first = *self.votes.entry((replica, state.term)).or_insert(state.vote);
                if first != state.vote {
                    return Err(format!(
                        "replica {replica} votes for {first} and for {} in term {}",
                        state.vote, state.term
                    ));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn matching(&mut self, replica: ReplicaId, entry: &Entry, term_before: Option<u64>) -> Result<(), String> {
        let (index, term) = (entry.index, entry.term);
        let (first, before) = self.entries.entry((index, term)).or_insert((hash(entry), term_before));
        if *first != hash(entry) {
            return Err(format!("replica {replica} has another entry {index} of term {term} than others"));
        }
        match (*before, term_before) {
            (Some(one), Some(other)) if one != other => Err(format!(
                "entry {index} of term {term} stands after one of term {one}, and of {other} on replica {replica}"
            )),
            (None, Some(_)) => {
                *before = term_before;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A replica begins to run.
    pub fn began(&mut self, replica: ReplicaId) {
        self.seen.remove(&replica);
    }

    /// A replica has done something; `log` is that of its node.
    pub fn did(
        &mut self,
        shard: ShardId,
        replica: ReplicaId,
        status: &ReplicaStatus,
        log: &dyn LogStore,
    ) -> Result<(), String> {
        let mut seen = self.seen.get(&replica).copied().unwrap_or_default();
        if status.applied > status.committed || status.applied < seen.applied || status.committed < seen.committed {
            return Err(format!("replica {replica} of shard {shard} was at {seen:?}, is at {status:?}"));
        }
        if status.leads {
            self.led(shard, replica, status, log)?;
        }
        (seen.committed, seen.applied) = (status.committed, status.applied);
        if seen.compared < status.applied {
            seen.compared = self.compare(shard, replica, seen.compared, status.applied, log)?;
        }
        self.seen.insert(replica, seen);
        Ok(())
    }

    fn led(
        &mut self,
        shard: ShardId,
        replica: ReplicaId,
        status: &ReplicaStatus,
        log: &dyn LogStore,
    ) -> Result<(), String> {
        let term = status.term;
        match self.leaders.get(&term) {
            Some(&first) if first != replica => {
                return Err(format!("shard {shard} has two leaders in term {term}: replicas {first} and {replica}"));
            }
            Some(_) => return Ok(()),
            None => {}
        }
        self.leaders.insert(term, replica);
        let Some((&index, &committed_term)) = self.committed.last_key_value() else { return Ok(()) };
        // One that was deposed long ago and only now looks at itself was elected before later terms committed.
        if committed_term > term {
            return Ok(());
        }
        if status.last < index {
            return Err(format!(
                "replica {replica} leads in term {term} and lacks the committed entry {index}: {status:?}"
            ));
        }
        match fetch(shard, index, index + 1, log).first() {
            Some(entry) if entry.term != committed_term => Err(format!(
                "replica {replica} leads in term {term}, and its entry {index} is of term {}, the committed one of {committed_term}",
                entry.term
            )),
            _ => Ok(()),
        }
    }

    /// Compares what a replica holds to be committed; answers up to where it could be.
    fn compare(
        &mut self,
        shard: ShardId,
        replica: ReplicaId,
        compared: u64,
        committed: u64,
        log: &dyn LogStore,
    ) -> Result<u64, String> {
        let Ok(Some(state)) = log.state(shard) else { return Ok(compared) };
        let low = (compared + 1).max(state.truncated.0 + 1).max(state.bounds.0);
        let high = committed.min(state.bounds.1) + 1;
        if low >= high {
            // Not written yet, or below a snapshot.
            return Ok(compared.max(state.truncated.0.min(committed)));
        }
        for entry in fetch(shard, low, high, log) {
            let (index, term) = (entry.index, entry.term);
            self.matching(replica, &entry, None)?;
            match self.committed.get(&index) {
                Some(&first) if first != term => {
                    return Err(format!(
                        "entry {index} of shard {shard} was committed of term {first}, and is of term {term} on replica {replica}"
                    ));
                }
                Some(_) => {}
                None => {
                    self.committed.insert(index, term);
                    if shard != ShardId::META && replica::has_commands(&entry) {
                        let (clock_ms, values) =
                            request::values_of(&entry.data).map_err(|e| format!("entry {index}: {e}"))?;
                        self.clocks.insert(index, clock_ms);
                        self.note(values, index)?;
                        self.collections.note(index, &entry.data).map_err(|e| format!("entry {index}: {e}"))?;
                    }
                }
            }
        }
        Ok(high - 1)
    }

    /// Of a request that was sent again, the first entry counts: the others must not be applied.
    fn note(&mut self, values: Vec<(u64, bool)>, index: u64) -> Result<(), String> {
        for (value, again) in values {
            let first = *self.values.entry(value).and_modify(|first| *first = index.min(*first)).or_insert(index);
            if first != index && !again {
                return Err(format!("the write of value {value} is in entry {first} and in entry {index}"));
            }
        }
        Ok(())
    }
}

fn fetch(shard: ShardId, low: u64, high: u64, log: &dyn LogStore) -> Vec<Entry> {
    log.fetch(shard, low, high, u64::MAX).unwrap_or_default()
}

#[cfg(test)]
#[path = "raft_tests.rs"]
mod tests;
