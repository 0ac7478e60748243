//! One replica of one shard: raft-rs, driven by its caller, who writes what it asks and tells it when that is done.
//!
//! Invariants: truncated ≤ flushed by the tree ≤ applied ≤ committed ≤ last. An entry is applied once, in order, after
//! it is committed; it is committed after it is persisted here (and by a majority).

use crate::election::{ELECTION_TICKS, ElectionTimer, HEARTBEAT_TICKS, NEVER_TICKS};
use crate::error::{Error, Result};
use crate::log_store::{GroupState, LogStore};
use crate::log_write::{LogWrite, SYNC};
use crate::members::Members;
use crate::progress::LogMarks;
use crate::snapshot::{Installing, restart_after};
use crate::tail::Tail;
use crate::turn::{ReplicaStatus, SnapshotPoint, Turn};
use raft::eraftpb::{Entry, EntryType, HardState, Message, MessageType};
use raft::{Config, RawNode, Ready, StateRole, Storage};
use std::collections::VecDeque;
use std::sync::Arc;
use vocab::{ReplicaId, ShardId, limits};

/// Bytes of committed entries that one turn hands out at the most.
const COMMITTED_BYTES_MAX: u64 = 8 << 20;
/// Bytes of entries that may wait for their commit.
const UNCOMMITTED_BYTES_MAX: u64 = 512 << 20;

/// One replica of one shard.
pub struct Replica {
    shard: ShardId,
    pub(crate) raw: RawNode<Tail>,
    pub(crate) applied: u64,
    /// Of a leader: followers are told that entries up to here are committed, and of none after.
    pub(crate) told_max: u64,
    /// The term of the last entry applied since the replica was opened; 0 before the first.
    applied_term: u64,
    /// Entries up to here have been given to the log.
    handed: u64,
    /// Committed entries up to here have been handed out.
    delivered: u64,
    /// The newest turn whose log write is not done; 0 when all are.
    outstanding: u64,
    /// The newest turn that wrote a term or a vote, while that is not done: until then nothing is sent.
    vote_outstanding: u64,
    /// Term and vote that were given to the log last.
    voted: (u64, u64),
    /// The commit index that was last written.
    commit_written: u64,
    /// Messages that may go out once the turn of that number is persisted.
    held: VecDeque<(u64, Vec<Message>)>,
    pub(crate) timer: ElectionTimer,
    /// A term, and up to where entries are known to be those of its leader since the replica was opened.
    pub(crate) verified: (u64, u64),
    pub(crate) installing: Option<Installing>,
    pub(crate) marks: LogMarks,
    pub(crate) keep_bytes: u64,
    /// Up to where the log has been told who the members are.
    pub(crate) members_noted: u64,
    /// Why the log could not be read, if it could not: nothing is done any more.
    failed: Option<String>,
}

impl Replica {
    /// Makes the group known to the log, as its replica `me`, if the log does not know it: see [`LogWrite::begin`].
    pub fn bootstrap(
        log: &dyn LogStore,
        shard: ShardId,
        me: ReplicaId,
        voters: &[ReplicaId],
        learners: &[ReplicaId],
    ) -> Result<()> {
        if log.state(shard)?.is_some() {
            return Ok(());
        }
        let mut write = LogWrite::default();
        write.begin(shard, me, voters, learners);
        log.write(write, true)
    }

    /// Opens a replica whose tree holds everything up to `applied`. `installed` is the snapshot that the tree was last
    /// made from, if it was. All chance is drawn from `seed`.
    pub fn open(
        log: Arc<dyn LogStore>,
        shard: ShardId,
        state: GroupState,
        applied: u64,
        installed: Option<&SnapshotPoint>,
        seed: u64,
    ) -> Result<Self> {
        let mut state = state;
        if let Some(point) = installed {
            restart_after(&*log, shard, &mut state, applied, point)?;
        }
        check_bounds(shard, &state, applied)?;
        let was_member = state.hard_state.term > 0;
        // What the tree holds was committed, even if the log never heard of it.
        state.hard_state.commit = state.hard_state.commit.max(applied).max(state.truncated.0);
        state.hard_state.commit = state.hard_state.commit.min(state.bounds.1.max(state.truncated.0));
        let voted = (state.hard_state.term, state.hard_state.vote);
        let (me, conf_index) = (state.replica, state.conf_index);
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let tail = Tail::open(log, shard, state, applied)?;
        let handed = tail.last_index().map_err(|e| raft_error(shard, &e))?;
        let raw = RawNode::new(&config(me, applied), tail, &logger).map_err(|e| raft_error(shard, &e))?;
        let mut replica = Self {
            shard,
            raw,
            applied,
            told_max: applied,
            applied_term: 0,
            handed,
            delivered: applied,
            outstanding: 0,
            vote_outstanding: 0,
            voted,
            commit_written: 0,
            held: VecDeque::new(),
            timer: ElectionTimer::new(seed, was_member),
            verified: (0, 0),
            installing: None,
            marks: LogMarks::default(),
            keep_bytes: limits::LOG_KEEP_BYTES,
            members_noted: conf_index,
            failed: None,
        };
        replica.catch_up_members()?;
        Ok(replica)
    }

    /// Whether this replica leads its group.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.raw.raft.state == StateRole::Leader
    }

    /// Whether it stands for election, and others may have voted for it.
    #[must_use]
    pub fn is_candidate(&self) -> bool {
        self.raw.raft.state == StateRole::Candidate
    }

    /// Whether everything committed when this replica began to lead is applied: only then may it answer reads. That is
    /// so from the first entry of its own term on. What is committed since and not yet applied here was acknowledged to
    /// nobody, and no follower shows it: see `lets_tell`.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.is_leader() && self.applied_term == self.raw.raft.term
    }

    /// Who leads, as far as this replica knows.
    #[must_use]
    pub fn leader(&self) -> Option<ReplicaId> {
        Some(ReplicaId(self.raw.raft.leader_id)).filter(|id| id.0 != raft::INVALID_ID)
    }

    /// The term.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.raw.raft.term
    }

    /// The shard that this is a replica of.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Which replica it is.
    #[must_use]
    pub fn me(&self) -> ReplicaId {
        ReplicaId(self.raw.raft.id)
    }

    /// Whether a turn would have something to do.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        // A snapshot waits until the entries handed out before it are applied.
        let behind = self.raw.snap().is_some() && self.delivered > self.applied;
        !self.awaits_rows() && !behind && self.raw.has_ready()
    }

    /// Proposes an entry; answers the index it will have, and the term that must commit it. With `sync`, no replica
    /// counts it as held before it is on its disk.
    pub fn propose(&mut self, data: Vec<u8>, sync: bool) -> Result<(u64, u64)> {
        if data.len() > limits::ENTRY_BYTES_MAX {
            return Err(Error::TooLarge(data.len()));
        }
        let context = if sync { SYNC } else { &[] };
        self.propose_entry(Entry { data: data.into(), context: context.into(), ..Entry::default() })
    }

    pub(crate) fn propose_entry(&mut self, entry: Entry) -> Result<(u64, u64)> {
        self.check()?;
        // raft-rs would pass it on to the leader.
        if !self.is_leader() {
            return Err(Error::NotLeader);
        }
        let mut message = Message { from: self.raw.raft.id, entries: vec![entry].into(), ..Message::default() };
        message.set_msg_type(MessageType::MsgPropose);
        match self.raw.raft.step(message) {
            Ok(()) => Ok((self.raw.raft.raft_log.last_index(), self.term())),
            Err(_) if self.is_transferring() => Err(Error::HandingOver),
            Err(_) => Err(Error::Busy),
        }
    }

    /// Asks the others whether this replica still leads: the answer is in a turn's `read_states`, with `context`, which
    /// must differ from all that are under way. False if it cannot be asked now; there may be no answer either.
    pub fn read_index(&mut self, context: u64) -> bool {
        let raft = &self.raw.raft;
        if !self.is_leader()
            || self.has_failed()
            || !raft.commit_to_current_term()
            || raft.pending_read_count() >= limits::READ_ROUNDS_MAX
        {
            return false;
        }
        self.raw.read_index(context.to_le_bytes().to_vec());
        true
    }

    /// The next turn, if there is anything to do. What must be written is added to `write`.
    pub fn turn(&mut self, write: &mut LogWrite) -> Result<Option<Turn>> {
        self.check()?;
        if !self.has_ready() {
            return Ok(None);
        }
        let mut ready = self.raw.ready();
        self.check()?;
        let raft_number = ready.number();
        let snapshot = self.accept(&ready);
        let mut number = if snapshot.is_some() { raft_number } else { 0 };
        let entries = ready.take_entries();
        if let Some(last) = entries.last() {
            self.handed = last.index;
            let bytes = entries.iter().map(|entry| entry.data.len() as u64).sum();
            self.marks.note(last.index, bytes, self.keep_bytes);
            self.raw.mut_store().append(&entries);
            write.entries(self.shard, entries);
            number = raft_number;
        }
        // The commit index is written with other things only: what it lacks is found again by the next election.
        let is_told_late = self.raw.raft.raft_log.committed > self.commit_written;
        if ready.must_sync() && (ready.hs().is_some() || is_told_late) {
            let mut hard_state = self.raw.raft.hard_state();
            self.commit_written = hard_state.commit;
            if snapshot.is_some() {
                // Should its rows never be installed, the log holds other entries up to there, which are not committed.
                hard_state.commit = self.applied;
            }
            self.write_hard_state(&hard_state, raft_number, write);
            number = raft_number;
        }
        let role_changed = ready.ss().is_some();
        let read_states = ready.take_read_states().iter().map(context_of).collect();
        let committed = ready.take_committed_entries();
        self.delivered = committed.last().map_or(self.delivered, |entry| entry.index);
        let (messages, held) = (ready.take_messages(), ready.take_persisted_messages());
        self.raw.advance_append_async(ready);
        if number != 0 {
            self.outstanding = number;
        }
        let messages = self.sendable(raft_number, messages, held);
        Ok(Some(Turn { number, committed, messages, read_states, role_changed, snapshot }))
    }

    /// A snapshot that raft-rs has accepted: from here on the log begins after it.
    fn accept(&mut self, ready: &Ready) -> Option<SnapshotPoint> {
        if ready.snapshot().is_empty() {
            return None;
        }
        let point = SnapshotPoint::from(ready.snapshot().get_metadata());
        self.raw.mut_store().restart(&point);
        self.handed = point.index;
        self.members_noted = point.index;
        self.marks = LogMarks::default();
        self.installing = Some(Installing { point: point.clone(), number: ready.number(), done: false });
        Some(point)
    }

    fn write_hard_state(&mut self, state: &HardState, number: u64, write: &mut LogWrite) {
        let voted = (state.term, state.vote);
        if voted != self.voted {
            self.voted = voted;
            self.vote_outstanding = number;
        }
        write.hard_state(self.shard, state.clone(), self.vote_outstanding == number);
    }

    /// Which messages may go out now; the others wait for the log. A leader's wait only for its term, and so do
    /// answers that say no more than that a leader was heard.
    fn sendable(&mut self, raft_number: u64, mut now: Vec<Message>, mut held: Vec<Message>) -> Vec<Message> {
        self.tell_no_more(now.iter_mut().chain(&mut held));
        if self.outstanding == 0 {
            self.raw.on_persist_ready(raft_number);
            now.append(&mut held);
            return now;
        }
        if self.vote_outstanding != 0 {
            held.append(&mut now);
        } else if !held.is_empty() {
            let heard = |message: &Message| message.get_msg_type() == MessageType::MsgHeartbeatResponse;
            let (free, rest): (Vec<_>, Vec<_>) = held.into_iter().partition(heard);
            now.extend(free);
            held = rest;
        }
        if !held.is_empty() {
            self.held.push_back((self.outstanding, held));
        }
        now
    }

    /// The log holds everything of the turns up to `number`. Answers the messages that waited for that.
    pub fn persisted(&mut self, number: u64) -> Vec<Message> {
        let number = match &self.installing {
            // The rows are not there yet, whatever else was written.
            Some(installing) if !installing.done => number.min(installing.number - 1),
            _ => number,
        };
        self.raw.on_persist_ready(number);
        if let Some(installing) = self.installing.take_if(|installing| installing.number <= number) {
            let SnapshotPoint { index, term, .. } = installing.point;
            self.applied_at(index, term);
        }
        if self.outstanding <= number {
            self.outstanding = 0;
        }
        if self.vote_outstanding <= number {
            self.vote_outstanding = 0;
        }
        let mut messages = Vec::new();
        while self.held.front().is_some_and(|(after, _)| *after <= number) {
            messages.extend(self.held.pop_front().map(|(_, held)| held).unwrap_or_default());
        }
        messages
    }

    /// Entries up to `last` have been applied to the tree.
    pub fn applied(&mut self, last: &Entry) {
        self.applied_at(last.index, last.term);
    }

    fn applied_at(&mut self, index: u64, term: u64) {
        assert!(index >= self.applied, "applied goes back from {} to {index}", self.applied);
        self.applied = index;
        self.applied_term = term;
        self.lets_tell(index);
        self.raw.mut_store().applied_to(index, term);
        self.raw.advance_apply_to(index);
    }

    /// Makes sure that the log will not lose what is committed. With `nosync` it might, and nothing durable may be done
    /// that follows from it: a tree that is ahead of its log cannot be opened.
    pub fn sync_log(&self) -> Result<()> {
        self.raw.store().log().sync()
    }

    /// Whether nothing will happen unless somebody wants something, so that its clock may stand still. The leader:
    /// every other replica has everything, and knows that it is committed. A follower: it has applied all it has.
    #[must_use]
    pub fn can_rest(&self) -> bool {
        let raft = &self.raw.raft;
        let last = raft.raft_log.last_index();
        let idle = self.applied == last
            && raft.raft_log.committed == last
            && self.outstanding == 0
            && self.installing.is_none()
            && self.leader().is_some()
            && !self.has_ready();
        if !self.is_leader() {
            return idle;
        }
        let settled = !self.is_transferring()
            && !raft.has_pending_conf()
            && self.raw.store().conf_state().voters_outgoing.is_empty();
        idle && settled && self.serves() && self.followers().iter().all(|follower| follower.matched == last)
    }

    /// Whether it leads, and a round of `read_index` is not answered yet.
    #[must_use]
    pub fn awaits_round(&self) -> bool {
        self.is_leader() && self.raw.raft.pending_read_count() > 0
    }

    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        let raft = &self.raw.raft;
        let members = self.raw.store().conf_state();
        ReplicaStatus {
            term: raft.term,
            leads: self.is_leader(),
            leader: self.leader(),
            voters: members.voters.len(),
            learners: members.learners.len(),
            truncated: self.raw.store().truncated().0,
            applied: self.applied,
            committed: raft.raft_log.committed,
            last: raft.raft_log.last_index(),
        }
    }

    /// Who belongs to the group.
    #[must_use]
    pub fn members(&self) -> Members {
        Members::from(self.raw.store().conf_state())
    }

    /// Checks what must always hold; called after every step in tests and simulation.
    pub fn validate(&self) {
        let status = self.status();
        assert!(status.committed <= status.last, "{status:?}");
        assert!(self.voted.0 <= status.term, "{status:?} voted {:?}", self.voted);
        assert!(self.vote_outstanding <= self.outstanding, "{status:?}");
        assert!(
            self.held.is_empty() || self.outstanding > 0 || self.awaits_rows(),
            "{status:?}: held back for nothing"
        );
        if self.is_leader() {
            assert_eq!(status.leader, Some(self.me()), "{status:?}");
            assert!(self.raw.raft.promotable(), "{status:?} leads and has no vote");
            let ahead = self.followers().into_iter().find(|follower| follower.matched > status.last);
            assert!(ahead.is_none(), "{status:?}: {ahead:?}");
        }
        if self.installing.is_some() || self.raw.snap().is_some() {
            return;
        }
        assert!(status.truncated <= status.applied, "{status:?}");
        assert!(status.applied <= status.committed, "{status:?}");
        assert!(self.handed <= status.last, "{status:?}");
        let noted = Members::from(self.raw.store().conf_state());
        let used = Members::from(&self.raw.raft.prs().conf().to_conf_state());
        assert_eq!(noted, used, "members");
    }

    /// Whether a snapshot's rows are still to be installed.
    fn awaits_rows(&self) -> bool {
        self.installing.as_ref().is_some_and(|installing| !installing.done)
    }

    /// Whether the log could not be read.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// An error if the log could not be read, now or before.
    pub(crate) fn check(&mut self) -> Result<()> {
        if let Some(e) = self.raw.store().take_failure() {
            self.failed.get_or_insert(e.to_string());
            return Err(e);
        }
        self.failed.as_ref().map_or(Ok(()), |detail| Err(Error::Corrupt(detail.clone())))
    }
}

fn config(me: ReplicaId, applied: u64) -> Config {
    Config {
        id: me.0,
        election_tick: ELECTION_TICKS,
        min_election_tick: NEVER_TICKS,
        max_election_tick: NEVER_TICKS + 1,
        heartbeat_tick: HEARTBEAT_TICKS,
        // Followers learn of a commit with the next entries, or with the next tick: see `tick`.
        skip_bcast_commit: true,
        applied,
        check_quorum: true,
        pre_vote: true,
        max_size_per_msg: 1 << 20,
        max_inflight_msgs: 256,
        max_uncommitted_size: UNCOMMITTED_BYTES_MAX,
        max_committed_size_per_ready: COMMITTED_BYTES_MAX,
        ..Config::default()
    }
}

/// Whether log and tree meet.
fn check_bounds(shard: ShardId, state: &GroupState, applied: u64) -> Result<()> {
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
    Ok(())
}

fn context_of(state: &raft::ReadState) -> u64 {
    state.request_ctx[..].try_into().map_or(0, u64::from_le_bytes)
}

/// Whether an entry carries commands (rather than being the group's own).
#[must_use]
pub fn has_commands(entry: &Entry) -> bool {
    entry.get_entry_type() == EntryType::EntryNormal && !entry.data.is_empty()
}

pub(crate) fn raft_error(shard: ShardId, error: &raft::Error) -> Error {
    Error::Corrupt(format!("shard {shard}: {error}"))
}
