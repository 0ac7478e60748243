//! One replica of one shard: raft-rs, driven by its caller, who writes what it asks and tells it when that is done.
//!
//! Invariants: truncated ≤ flushed by the tree ≤ applied ≤ committed ≤ last. An entry is applied once, in order, after
//! it is committed; it is committed after it is persisted here (and by a majority).

use crate::error::{Error, Result};
use crate::log_store::{GroupState, Log, LogWrite};
use crate::tail::Tail;
use raft::eraftpb::{ConfState, Entry, EntryType, Message};
use raft::{Config, RawNode, StateRole, Storage};
use std::collections::VecDeque;
use std::sync::Arc;
use vocab::{NodeId, ShardId};

/// Bytes of committed entries that one turn hands out at the most.
const COMMITTED_BYTES_MAX: u64 = 8 << 20;
/// Bytes of entries that may wait for their commit.
const UNCOMMITTED_BYTES_MAX: u64 = 512 << 20;

/// What one turn of a replica asks of its caller.
#[derive(Debug, Default)]
pub struct Turn {
    /// To be given back to `persisted` once the log write that this turn was added to is done. 0: nothing was added.
    pub number: u64,
    /// Entries to apply now, in order. Those without data are the group's own.
    pub committed: Vec<Entry>,
    /// Messages for other replicas.
    pub messages: Vec<Message>,
}

/// Where a replica stands, for INFO and `inspect`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// The term.
    pub term: u64,
    /// Whether this replica leads.
    pub leader: bool,
    /// Last entry that the tree's files made unnecessary.
    pub truncated: u64,
    /// Last applied entry.
    pub applied: u64,
    /// Last committed entry.
    pub committed: u64,
    /// Last entry.
    pub last: u64,
}

/// One replica of one shard.
pub struct Replica {
    shard: ShardId,
    raw: RawNode<Tail>,
    applied: u64,
    /// The term of the last entry applied since the replica was opened; 0 before the first.
    applied_term: u64,
    /// Entries up to here have been given to the log.
    handed: u64,
    /// The newest turn whose log write is not done; 0 when all are.
    outstanding: u64,
    /// Messages that may go out once the turn of that number is persisted.
    held: VecDeque<(u64, Vec<Message>)>,
}

impl Replica {
    /// Makes the group known to the log, with `voter` as its only member, if the log has never seen it.
    pub fn bootstrap(log: &Log, shard: ShardId, voter: NodeId) -> Result<()> {
        if log.state(shard)?.is_some() {
            return Ok(());
        }
        let conf_state = ConfState { voters: vec![voter.0], ..ConfState::default() };
        let mut write = LogWrite::default();
        write.conf_state(shard, &conf_state)?;
        log.write(&mut write, true)
    }

    /// Opens the replica of `node`, whose tree holds everything up to `applied`.
    pub fn open(log: Arc<Log>, shard: ShardId, node: NodeId, state: GroupState, applied: u64) -> Result<Self> {
        let last = state.bounds.1.max(state.truncated.0);
        if applied > last {
            return Err(Error::Corrupt(format!(
                "the tree of shard {shard} holds entry {applied}, the log ends at {last}: log files are missing"
            )));
        }
        if applied < state.truncated.0 || applied + 1 < state.bounds.0 {
            return Err(Error::Corrupt(format!(
                "the tree of shard {shard} ends at entry {applied}, the log begins at {}: what is between is lost",
                state.bounds.0
            )));
        }
        let mut state = state;
        // What the tree holds was committed, even if the log never heard of it.
        state.hard_state.commit = state.hard_state.commit.max(applied).max(state.truncated.0);
        let config = Config {
            id: node.0,
            election_tick: 10,
            heartbeat_tick: 2,
            applied,
            check_quorum: true,
            pre_vote: true,
            max_size_per_msg: 1 << 20,
            max_inflight_msgs: 256,
            max_uncommitted_size: UNCOMMITTED_BYTES_MAX,
            max_committed_size_per_ready: COMMITTED_BYTES_MAX,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let tail = Tail::open(log, shard, state)?;
        let handed = tail.last_index().map_err(|e| raft_error(shard, &e))?;
        let raw = RawNode::new(&config, tail, &logger).map_err(|e| raft_error(shard, &e))?;
        Ok(Self { shard, raw, applied, applied_term: 0, handed, outstanding: 0, held: VecDeque::new() })
    }

    /// Stands for election now rather than after a timeout: right for a group of one.
    pub fn campaign(&mut self) -> Result<()> {
        self.raw.campaign().map_err(|e| raft_error(self.shard, &e))
    }

    /// Time passes: one tick of the group's clock.
    pub fn tick(&mut self) -> bool {
        self.raw.tick()
    }

    /// Takes a message of another replica.
    pub fn step(&mut self, message: Message) -> Result<()> {
        self.raw.step(message).map_err(|e| raft_error(self.shard, &e))
    }

    /// Whether this replica leads its group.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.raw.raft.state == StateRole::Leader
    }

    /// Whether everything committed when this replica began to lead is applied: only then may it answer reads. That is
    /// so from the first entry of its own term on. What is committed and not yet applied was acknowledged to nobody.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.is_leader() && self.applied_term == self.raw.raft.term
    }

    /// Proposes an entry; answers the index it will have if this term commits it.
    pub fn propose(&mut self, data: Vec<u8>) -> Result<u64> {
        match self.raw.propose(Vec::new(), data) {
            Ok(()) => Ok(self.raw.raft.raft_log.last_index()),
            Err(raft::Error::ProposalDropped) if self.is_leader() => Err(Error::Busy),
            Err(_) => Err(Error::NotLeader),
        }
    }

    /// The next turn, if there is anything to do. What must be written is added to `write`.
    pub fn turn(&mut self, write: &mut LogWrite) -> Result<Option<Turn>> {
        if !self.raw.has_ready() {
            return Ok(None);
        }
        let mut ready = self.raw.ready();
        if let Some(e) = self.raw.store().take_failure() {
            return Err(e);
        }
        let mut number = 0;
        let entries = ready.take_entries();
        if !entries.is_empty() {
            write.entries(self.shard, &entries)?;
            self.handed = entries.last().map_or(self.handed, |entry| entry.index);
            self.raw.mut_store().append(entries);
            number = ready.number();
        }
        // The commit index alone need not be written: it is found again by the next election.
        if let Some(hard_state) = ready.hs()
            && ready.must_sync()
        {
            write.hard_state(self.shard, hard_state)?;
            number = ready.number();
        }
        let messages = ready.take_messages();
        let held = ready.take_persisted_messages();
        let committed = ready.take_committed_entries();
        let ready_number = ready.number();
        self.raw.advance_append_async(ready);
        if number != 0 {
            self.outstanding = number;
        }
        let mut turn = Turn { number, committed, messages };
        if self.outstanding == 0 {
            self.raw.on_persist_ready(ready_number);
            turn.messages.extend(held);
        } else if !held.is_empty() {
            self.held.push_back((self.outstanding, held));
        }
        Ok(Some(turn))
    }

    /// The log holds everything of the turns up to `number`. Answers the messages that waited for that.
    pub fn persisted(&mut self, number: u64) -> Vec<Message> {
        self.raw.on_persist_ready(number);
        if self.outstanding <= number {
            self.outstanding = 0;
        }
        let mut messages = Vec::new();
        while self.held.front().is_some_and(|(after, _)| *after <= number) {
            messages.extend(self.held.pop_front().map(|(_, held)| held).unwrap_or_default());
        }
        messages
    }

    /// Entries up to `last` have been applied to the tree.
    pub fn applied(&mut self, last: &Entry) {
        let index = last.index;
        assert!(index >= self.applied, "applied goes back from {} to {index}", self.applied);
        self.applied = index;
        self.applied_term = last.term;
        self.raw.advance_apply_to(index);
        self.raw.mut_store().forget(index);
    }

    /// Truncates the log up to what the tree has flushed; true if something was added to `write`.
    pub fn truncate(&mut self, flushed: u64, write: &mut LogWrite) -> Result<bool> {
        let (truncated, _) = self.raw.store().truncated();
        let index = flushed.min(self.applied);
        if index <= truncated {
            return Ok(false);
        }
        let term = self.raw.raft.raft_log.term(index).map_err(|e| raft_error(self.shard, &e))?;
        write.truncate(self.shard, index, term)?;
        self.raw.mut_store().truncated_to(index, term);
        Ok(true)
    }

    /// Makes sure that the log will not lose what is committed. With `nosync` it might, and nothing durable may be done
    /// that follows from it: a tree that is ahead of its log cannot be opened.
    pub fn sync_log(&self) -> Result<()> {
        self.raw.store().log().sync()
    }

    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        let raft = &self.raw.raft;
        ReplicaStatus {
            term: raft.term,
            leader: self.is_leader(),
            truncated: self.raw.store().truncated().0,
            applied: self.applied,
            committed: raft.raft_log.committed,
            last: raft.raft_log.last_index(),
        }
    }

    /// Checks what must always hold; called after every step in tests and simulation.
    pub fn validate(&self) {
        let status = self.status();
        assert!(status.truncated <= status.applied, "{status:?}");
        assert!(status.applied <= status.committed, "{status:?}");
        assert!(status.committed <= status.last, "{status:?}");
        assert!(self.handed <= status.last, "{status:?}");
    }

    /// The shard that this is a replica of.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.shard
    }
}

/// Whether an entry carries commands (rather than being the group's own).
#[must_use]
pub fn has_commands(entry: &Entry) -> bool {
    entry.get_entry_type() == EntryType::EntryNormal && !entry.data.is_empty()
}

fn raft_error(shard: ShardId, error: &raft::Error) -> Error {
    Error::Corrupt(format!("shard {shard}: {error}"))
}
