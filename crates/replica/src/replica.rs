//! One replica of one shard: raft-rs, driven by its caller, who writes what it asks and tells it when that is done.
//!
//! Invariants: truncated ≤ flushed by the tree ≤ applied ≤ committed ≤ last. An entry is applied once, in order, after
//! it is committed; it is committed after it is persisted here (and by a majority).

use crate::election::{ELECTION_TICKS, ElectionTimer, HEARTBEAT_TICKS, NEVER_TICKS};
use crate::error::{Error, Result, raft_error};
use crate::kept_log::{Fed, KeptLog};
use crate::log_read::{LogEntries, LogRead};
use crate::log_store::{GroupState, LogStore};
use crate::log_write::{Install, LogGate, LogWrite, SYNC, is_member_change};
use crate::member_change::{change_entry, leave_alone};
use crate::members::{MemberChange, Members, decode_conf_change};
use crate::message_validation::{Validation, Verified, inspect, is_of_leader};
use crate::progress::{followers, next_in_log};
use crate::raft_storage::RaftStorage;
use crate::ready::{FollowerState, Ready, ReplicaStatus, SnapshotPoint};
use crate::resends::Resends;
use crate::snapshot::{Installing, restart_after};
use bytes::Bytes;
use raft::eraftpb::{Entry, Message, MessageType};
use raft::{Config, RawNode, StateRole, Storage};
use std::sync::Arc;
use vocab::{ReplicaId, ShardId, limits};

/// Bytes of committed entries that are handed out at once.
const COMMITTED_BYTES_MAX: u64 = 8 << 20;
/// Bytes of entries that may wait for their commit.
const UNCOMMITTED_BYTES_MAX: u64 = 512 << 20;

/// By so much the term of a replica that goes on alone is raised: more terms than it can have missed.
const TERMS_MISSED_MAX: u64 = 1 << 20;

/// One replica of one shard.
pub struct Replica {
    shard: ShardId,
    raw: RawNode<RaftStorage>,
    applied: u64,
    /// Of a leader: followers are told that entries up to here are committed, and of none after.
    told_max: u64,
    /// The commit index as this leader last told it without entries.
    told: u64,
    /// The term of the last entry applied since the replica was opened; 0 before the first.
    applied_term: u64,
    /// Entries up to here have been given to the log.
    handed: u64,
    /// Committed entries up to here have been handed out.
    delivered: u64,
    gate: LogGate,
    resends: Resends,
    timer: ElectionTimer,
    verified: Verified,
    installing: Option<Installing>,
    kept: KeptLog,
    /// Entries for followers are being read from the log.
    reads_log: bool,
    /// Up to where the log has been told who the members are.
    members_noted: u64,
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
        state.meets(shard, applied)?;
        let was_member = state.hard_state.term > 0;
        // What the tree holds was committed, even if the log never heard of it.
        state.hard_state.commit = state.hard_state.commit.max(applied).max(state.truncated.0);
        state.hard_state.commit = state.hard_state.commit.min(state.bounds.1.max(state.truncated.0));
        let voted = (state.hard_state.term, state.hard_state.vote);
        let (me, conf_index) = (state.replica, state.conf_index);
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let storage = RaftStorage::open(log, shard, state, applied)?;
        let handed = storage.last_index().map_err(|e| raft_error(shard, &e))?;
        let raw = RawNode::new(&config(me, applied), storage, &logger).map_err(|e| raft_error(shard, &e))?;
        let mut replica = Self {
            shard,
            raw,
            applied,
            told_max: applied,
            told: 0,
            applied_term: 0,
            handed,
            delivered: applied,
            gate: LogGate::new(voted),
            resends: Resends::default(),
            timer: ElectionTimer::new(seed, was_member),
            verified: Verified::default(),
            installing: None,
            kept: KeptLog::default(),
            reads_log: false,
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
    /// no client, and no follower shows it: see `lets_tell`.
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

    /// Whether a snapshot was received that is to be installed once the entries before it are applied.
    #[must_use]
    pub fn has_snapshot(&self) -> bool {
        self.raw.snap().is_some()
    }

    /// Whether `ready` would have something to do.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        // A snapshot waits until the entries handed out before it are applied.
        let behind = self.raw.snap().is_some() && self.delivered > self.applied;
        !self.awaits_rows() && !behind && self.raw.has_ready()
    }

    /// Proposes an entry; answers the index it will have, and the term that must commit it. With `sync`, no replica
    /// counts it as held before it is on its disk.
    pub fn propose(&mut self, data: impl Into<Bytes>, sync: bool) -> Result<(u64, u64)> {
        let data = data.into();
        if data.len() > limits::ENTRY_BYTES_MAX {
            return Err(Error::TooLarge(data.len()));
        }
        let context = if sync { SYNC } else { &[] };
        self.propose_entry(Entry { data, context: context.into(), ..Entry::default() })
    }

    fn propose_entry(&mut self, entry: Entry) -> Result<(u64, u64)> {
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

    /// Asks the others whether this replica still leads: the answer is in `Ready::read_states`, with `context`, which
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

    /// Takes a message of another replica. An error other than `Malformed` means that this replica cannot go on.
    pub fn step(&mut self, mut message: Message) -> Result<()> {
        self.check()?;
        inspect(self.me(), &message)?;
        if self.must_ignore(&message) {
            return Ok(());
        }
        if is_of_leader(&message, self.term()) {
            self.timer.promise();
        }
        let is_installing = self.is_installing();
        let mut validation =
            Validation { shard: self.shard, raw: &mut self.raw, verified: &mut self.verified, is_installing };
        let admission = match validation.admit(&mut message) {
            Ok(admission) => admission,
            // It may be the log that cannot be read.
            Err(e) => return Err(self.check().err().unwrap_or(e)),
        };
        if !admission.takes {
            return Ok(());
        }
        self.resends.heard(&message);
        match self.raw.step(message) {
            // From a replica that is no member any more.
            Ok(()) | Err(raft::Error::StepPeerNotFound) => {}
            Err(e) => return Err(Error::Malformed(e.to_string())),
        }
        if admission.tells_where {
            self.say_where_it_is();
        }
        self.check()
    }

    /// The leader believes that this replica holds more than is certain since it was opened: its answer says so.
    fn say_where_it_is(&mut self) {
        let last = self.raw.raft.raft_log.last_index();
        let kind = MessageType::MsgHeartbeatResponse;
        if let Some(answer) = self.raw.raft.msgs.last_mut().filter(|answer| answer.get_msg_type() == kind) {
            answer.reject = true;
            answer.reject_hint = last;
        }
    }

    /// Whether what is to be done next has anything for the log: entries, a term or vote, or a snapshot.
    #[must_use]
    pub fn needs_log(&self) -> bool {
        let raft = &self.raw.raft;
        let has_entries = !raft.raft_log.unstable_entries().is_empty();
        has_entries || raft.raft_log.unstable.snapshot.is_some() || !self.gate.has_voted((raft.term, raft.vote))
    }

    /// What is to be done next, if there is anything. What must be written is added to `write`.
    pub fn ready(&mut self, write: &mut LogWrite) -> Result<Option<Ready>> {
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
            self.kept.note(last.index, bytes);
            self.raw.mut_store().append(&entries);
            write.entries(self.shard, entries);
            number = raft_number;
        }
        // The commit index is written with other things only: what it lacks is found again by the next election.
        let is_told_late = self.gate.lacks_commit(self.raw.raft.raft_log.committed);
        if ready.must_sync() && (ready.hs().is_some() || is_told_late) {
            let mut hard_state = self.raw.raft.hard_state();
            let known = hard_state.commit;
            if snapshot.is_some() {
                // Should its rows never be installed, the log holds other entries up to there, which are not committed.
                hard_state.commit = self.applied;
            }
            self.gate.write_hard_state(self.shard, hard_state, known, raft_number, write);
            number = raft_number;
        }
        let role_changed = ready.ss().is_some();
        let read_states = ready.take_read_states().iter().map(context_of).collect();
        let committed = ready.take_committed_entries();
        self.delivered = committed.last().map_or(self.delivered, |entry| entry.index);
        let (messages, held) = (ready.take_messages(), ready.take_persisted_messages());
        self.raw.advance_append_async(ready);
        if number != 0 {
            self.gate.begun(number);
        }
        let messages = self.sendable(raft_number, messages, held);
        Ok(Some(Ready { number, committed, messages, read_states, role_changed, snapshot }))
    }

    /// A snapshot that raft-rs has accepted: from here on the log begins after it.
    fn accept(&mut self, ready: &raft::Ready) -> Option<SnapshotPoint> {
        if ready.snapshot().is_empty() {
            return None;
        }
        let point = SnapshotPoint::from(ready.snapshot().get_metadata());
        self.raw.mut_store().restart(&point);
        self.handed = point.index;
        self.members_noted = point.index;
        self.kept.restart();
        self.installing = Some(Installing { point: point.clone(), number: ready.number(), done: false });
        Some(point)
    }

    /// Which messages may go out now; the others wait for the log.
    fn sendable(&mut self, raft_number: u64, mut now: Vec<Message>, mut held: Vec<Message>) -> Vec<Message> {
        self.tell_no_more(now.iter_mut().chain(&mut held));
        now.retain(|message| self.resends.lets_out(message));
        if self.gate.is_clear() {
            self.raw.on_persist_ready(raft_number);
            now.append(&mut held);
            return now;
        }
        self.gate.sendable(now, held)
    }

    /// The log holds everything up to `number`. Answers the messages that waited for that.
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
        self.gate.persisted(number)
    }

    /// Takes the messages that may go out though neither the log takes a write now nor `ready` tells anything: heartbeats and
    /// their answers, and what asks and tells whether a vote would be given.
    pub fn take_unlogged(&mut self) -> Vec<Message> {
        let voted = (self.raw.raft.term, self.raw.raft.vote);
        let mut taken = self.gate.take_unlogged(voted, &mut self.raw.raft.msgs);
        self.tell_no_more(taken.iter_mut());
        taken
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

    /// The log that holds its entries.
    #[must_use]
    pub fn log(&self) -> &Arc<dyn LogStore> {
        self.raw.store().log()
    }

    /// Makes sure that the log will not lose what is committed. With `nosync` it might, and nothing durable may be done
    /// that follows from it: a tree that is ahead of its log cannot be opened.
    pub fn sync_log(&self) -> Result<()> {
        self.raw.store().log().sync()
    }

    /// Whether nothing will happen unless something is asked of it, so that its clock may stand still. The leader:
    /// every other replica has everything, and knows that it is committed. A follower: it has applied all it has.
    #[must_use]
    pub fn can_hibernate(&self) -> bool {
        let raft = &self.raw.raft;
        let last = raft.raft_log.last_index();
        let idle = self.applied == last
            && raft.raft_log.committed == last
            && self.gate.is_clear()
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
            last_term: raft.raft_log.term(raft.raft_log.last_index()).unwrap_or(0),
        }
    }

    /// Who belongs to the group.
    #[must_use]
    pub fn members(&self) -> Members {
        Members::from(self.raw.store().conf_state())
    }

    /// Time passes: one tick of the group's clock. True if there may be something to do.
    pub fn tick(&mut self) -> bool {
        if self.has_failed() {
            return false;
        }
        self.timer.tick();
        self.resends.tick();
        let ready = self.raw.tick() | self.tell_commit();
        let raft = &self.raw.raft;
        if self.is_leader() || !self.timer.is_due(raft.election_elapsed) || !raft.promotable() || !self.may_stand() {
            return ready;
        }
        self.timer.draw();
        self.raw.raft.election_elapsed = 0;
        // It fails only for a reason that `ready` reports.
        self.raw.campaign().is_ok() || ready
    }

    /// Its group has only just been made out of another one: it has made no promises, whatever its term is.
    pub fn begin_anew(&mut self) {
        self.timer.speak();
    }

    /// The leader was not heard of for so long that this replica may vote for another, though its clock stood still.
    pub fn end_promise(&mut self) {
        self.timer.end_promise();
        if !self.is_leader() {
            self.raw.raft.election_elapsed = self.raw.raft.election_elapsed.max(ELECTION_TICKS);
        }
    }

    /// A follower is alive and may be slow: until this leader looks again it counts as one that has answered.
    pub fn excuse(&mut self, follower: ReplicaId) {
        if self.is_leader()
            && let Some(progress) = self.raw.raft.mut_prs().get_mut(follower.0)
        {
            progress.recent_active = true;
        }
    }

    /// Sends a sign of life to all followers now, if this replica leads.
    pub fn ping(&mut self) {
        if self.is_leader() && !self.has_failed() {
            self.raw.ping();
        }
    }

    /// Tells followers of what was committed since they were last told, if entries have not told them: once a tick rather
    /// than once an entry, which would double the messages.
    fn tell_commit(&mut self) -> bool {
        let tellable = self.tellable();
        let news = self.is_leader() && !self.is_alone() && tellable > self.told;
        if news {
            self.told = tellable;
            self.raw.ping();
        }
        news
    }

    /// Stands for election now rather than after a timeout: right for a group of one. Does nothing where that could
    /// break a promise made before a restart, or where the log is not written yet.
    pub fn campaign(&mut self) -> Result<()> {
        self.check()?;
        if self.may_stand() { self.raw.campaign().map_err(|e| raft_error(self.shard(), &e)) } else { Ok(()) }
    }

    /// Whether it may stand: raft-rs ends the process when one wins whose log is not all written, or who has not got
    /// over its snapshot yet.
    fn may_stand(&self) -> bool {
        let log = &self.raw.raft.raft_log;
        let written = log.persisted == log.last_index() && log.applied >= self.raw.store().truncated().0;
        written && !self.is_installing() && (!self.timer.is_mute() || self.is_alone())
    }

    /// Whether `message` asks for what it may not do now.
    fn must_ignore(&self, message: &Message) -> bool {
        match message.get_msg_type() {
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote => {
                !self.timer.may_vote() && message.context != raft::CAMPAIGN_TRANSFER
            }
            MessageType::MsgTimeoutNow => !self.may_stand(),
            _ => false,
        }
    }

    /// Hands leadership to `to`; false if it cannot. It takes effect in a moment or, if `to` does not answer, not at
    /// all. Meanwhile nothing can be proposed, and leases are void.
    pub fn transfer_leader(&mut self, to: vocab::ReplicaId) -> bool {
        let known = self.raw.store().conf_state().voters.contains(&to.0);
        if self.has_failed() || !self.is_leader() || to == self.me() || !known {
            return false;
        }
        self.raw.transfer_leader(to.0);
        self.is_transferring()
    }

    /// Whether leadership is being handed over.
    #[must_use]
    pub fn is_transferring(&self) -> bool {
        self.raw.raft.lead_transferee.is_some()
    }

    /// Whether this is the only voter.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        let members = self.raw.store().conf_state();
        members.voters_outgoing.is_empty() && members.voters == [self.me().0]
    }

    /// The other members, as their leader knows them; of a replica that does not lead, none.
    #[must_use]
    pub fn followers(&self) -> Vec<FollowerState> {
        if self.is_leader() { followers(&self.raw.raft) } else { Vec::new() }
    }

    /// How many voters are known to hold entry `index`, and how many there are; this one counts.
    #[must_use]
    pub fn matched_by(&self, index: u64) -> (usize, usize) {
        let voters = &self.raw.store().conf_state().voters;
        let holds = |id: &&u64| self.raw.raft.prs().get(**id).is_some_and(|of| of.matched >= index);
        let holding = if self.is_leader() { voters.iter().filter(holds).count() } else { 0 };
        (holding, voters.len())
    }

    /// Whether a follower lacks entries that only the log has, and no read of them is under way.
    #[must_use]
    pub fn is_to_read_log(&self) -> bool {
        self.raw.store().lacking().get() && !self.reads_log
    }

    /// Begins to read entries that only the log has: for the follower that is furthest behind, about `bytes_max` bytes, at
    /// least one entry. What was read goes to `log_was_read`.
    pub fn begin_log_read(&mut self, bytes_max: u64) -> Option<LogRead> {
        let store = self.raw.store();
        store.lacking().set(false);
        if !self.is_leader() || self.has_failed() || self.reads_log {
            return None;
        }
        let (me, log) = (self.me(), store.log().clone());
        let low = self.raw.raft.prs().iter().filter_map(|(id, _)| next_in_log(&self.raw.raft, *id)).min()?;
        let high = store.memory_first();
        self.reads_log = true;
        Some(LogRead { log, shard: self.shard, replica: me, term: self.term(), low, high, bytes_max })
    }

    /// Sends followers what was read of the log; it is in the messages that are ready next.
    pub fn log_was_read(&mut self, read: LogEntries) {
        if read.replica != self.me() {
            return;
        }
        self.reads_log = false;
        // Of another term, they may not be this leader's entries; and what was truncated meanwhile is sent as a snapshot.
        let is_of_now = self.is_leader() && !self.has_failed() && read.term == self.term();
        if !is_of_now || read.low <= self.raw.store().truncated().0 {
            self.raw.store().lacking().set(true);
            return;
        }
        match read.entries {
            Ok(entries) => self.raw.mut_store().set_fetched(entries),
            Err(e) => return self.raw.store().fail(e),
        }
        let me = self.me().0;
        let others: Vec<u64> = self.raw.raft.prs().iter().map(|(id, _)| *id).filter(|id| *id != me).collect();
        for id in others {
            while let Some(next) = next_in_log(&self.raw.raft, id).filter(|next| self.raw.store().has_fetched(*next)) {
                self.raw.raft.send_append(id);
                if next_in_log(&self.raw.raft, id).is_some_and(|then| then <= next) {
                    break;
                }
            }
            if next_in_log(&self.raw.raft, id).is_some() {
                self.raw.store().lacking().set(true);
            }
        }
        self.raw.mut_store().set_fetched(Vec::new());
    }

    /// Followers may be told that entries up to `index` are committed, which this leader has not applied: they change
    /// nothing that a read could show. Of others they are told once those are applied here. A leader answers reads from
    /// what it has applied, and that may be long behind what is committed (its log is slow or cannot be written, rows
    /// come from the disk): a follower that had applied more would show what the leader's clients do not see yet.
    pub fn lets_tell(&mut self, index: u64) {
        self.told_max = self.told_max.max(index);
    }

    /// Up to where others may take this leader's entries as committed.
    #[must_use]
    pub fn tellable(&self) -> u64 {
        self.told_max.min(self.raw.raft.raft_log.committed)
    }

    /// Takes back what raft-rs would have followers told beyond that.
    fn tell_no_more<'a>(&self, messages: impl Iterator<Item = &'a mut Message>) {
        if self.is_leader() {
            messages.for_each(|message| message.commit = message.commit.min(self.told_max));
        }
    }

    /// The snapshot that was sent to `to` has arrived there, or never will.
    pub fn report_snapshot(&mut self, to: ReplicaId, ok: bool) {
        if !ok {
            self.kept.fed.end(to);
        }
        let status = if ok { raft::SnapshotStatus::Finish } else { raft::SnapshotStatus::Failure };
        self.raw.report_snapshot(to.0, status);
    }

    /// The rows of the shard as of an entry are sent to `to`. The log after it is kept for a while longer.
    pub fn sends_rows(&mut self, to: ReplicaId, index: u64) {
        self.kept.fed.begin(to, index);
    }

    /// Whether log is kept for followers that were sent the rows.
    #[must_use]
    pub fn has_sent_rows(&self) -> bool {
        !self.kept.fed.is_empty()
    }

    /// What was sent to `to` lately may not have arrived.
    pub fn report_unreachable(&mut self, to: ReplicaId) {
        if self.raw.raft.prs().get(to.0).is_none_or(|of| of.state != raft::ProgressState::Snapshot) {
            self.kept.fed.end(to);
        }
        self.resends.lost(to.0);
        self.raw.report_unreachable(to.0);
    }

    /// Bytes of log that are kept for followers which lack them; `limits::LOG_KEEP_BYTES` unless told.
    pub fn keep_log(&mut self, bytes: u64) {
        self.kept.keep(bytes);
    }

    /// Truncates the log up to what the tree has flushed, but for what a follower still lacks, within bounds; true if
    /// something was added to `write`. `rows_bytes`: what the tree takes, if it was sent to a follower.
    pub fn truncate(&mut self, flushed: u64, rows_bytes: u64, write: &mut LogWrite) -> Result<bool> {
        let (truncated, _) = self.raw.store().truncated();
        let index = flushed.min(self.applied).min(self.needed_from(rows_bytes).saturating_sub(1));
        // Entries before need not be searched for changes of members when the log is opened.
        let members = self.note_members(flushed, write);
        if index <= truncated || self.has_failed() || self.is_installing() {
            return Ok(members);
        }
        let term = self.raw.raft.raft_log.term(index).map_err(|e| raft_error(self.shard(), &e))?;
        self.check()?;
        write.truncate(self.shard(), index, term);
        self.raw.mut_store().truncated_to(index, term);
        self.kept.forget(index);
        Ok(true)
    }

    /// The first entry that some follower may lack and is to get from the log.
    fn needed_from(&mut self, rows_bytes: u64) -> u64 {
        if self.is_alone() && self.raw.store().conf_state().learners.is_empty() {
            self.kept.fed = Fed::default();
            return u64::MAX;
        }
        let followers = self.followers();
        self.kept.needed_from(&self.raw.raft, &followers, rows_bytes)
    }

    /// The state of the shard as of the last entry applied, without its rows.
    #[must_use]
    pub fn snapshot_point(&self) -> SnapshotPoint {
        self.raw.store().snapshot_point()
    }

    /// Whether a snapshot was accepted whose rows are not installed yet, or not noted in the log.
    #[must_use]
    pub fn is_installing(&self) -> bool {
        self.installing.is_some()
    }

    /// The tree holds the rows of the snapshot that a turn told of, for good. The log restarts after it with `write`;
    /// when that is done, the turn's number is due. Answers that number.
    pub fn installed(&mut self, point: &SnapshotPoint, write: &mut LogWrite) -> Result<u64> {
        let shard = self.shard();
        let install = Install {
            replica: self.me(),
            index: point.index,
            term: point.term,
            conf_state: point.conf_state.clone(),
            hard_state: self.raw.raft.hard_state(),
        };
        match &mut self.installing {
            Some(installing) if installing.point == *point && !installing.done => {
                installing.done = true;
                write.install(shard, install);
                Ok(installing.number)
            }
            _ => Err(Error::Malformed(format!("shard {shard} did not ask for a snapshot of entry {}", point.index))),
        }
    }

    /// Proposes to change the members: one part is made at once, several through a state in which both sets of voters
    /// must agree, which ends by itself. `context` travels with the entry. One change at a time.
    pub fn propose_members(&mut self, changes: &[MemberChange], context: Vec<u8>) -> Result<(u64, u64)> {
        if !self.is_leader() {
            return Err(Error::NotLeader);
        }
        self.propose_entry(change_entry(&self.raw.raft, changes, context)?)
    }

    /// Applies a committed entry that changes the members (`is_member_change`), before `applied` is told of it.
    /// Answers the new members, if they are new.
    pub fn members_changed(&mut self, entry: &Entry, write: &mut LogWrite) -> Result<Option<Members>> {
        if !self.change_members(entry)? {
            return Ok(None);
        }
        let state = self.raw.store().conf_state().clone();
        self.members_noted = entry.index;
        let members = Members::from(&state);
        write.members(self.shard(), state, entry.index, true);
        // raft-rs goes on leading without a vote, and ends the process where it looks for its own progress. Those that stay
        // are told before: the last of them may not know that it needs no other vote, and wait for one who is gone.
        if self.is_leader() && !self.raw.raft.promotable() {
            let term = self.term();
            self.lets_tell(entry.index);
            self.ping();
            self.raw.raft.become_follower(term, raft::INVALID_ID);
        }
        Ok(Some(members))
    }

    fn change_members(&mut self, entry: &Entry) -> Result<bool> {
        // A snapshot that was accepted brings the members as of itself, though entries before it are still to be applied.
        let is_in_snapshot = self.raw.snap().is_some_and(|snapshot| snapshot.get_metadata().index >= entry.index);
        if !is_member_change(entry) || entry.index <= self.members_noted || is_in_snapshot {
            return Ok(false);
        }
        // A change that does not fit is passed over; all replicas find so.
        let Ok(change) = decode_conf_change(&entry.data) else { return Ok(false) };
        let Ok(state) = self.raw.apply_conf_change(&change) else { return Ok(false) };
        self.raw.mut_store().set_conf_state(state);
        Ok(true)
    }

    /// Makes this replica the only member, without asking anybody: for a group that has lost its majority for good, and
    /// whose operator goes on with what is left. What only others held is lost, and they must never come back.
    pub fn go_on_alone(&mut self, write: &mut LogWrite) -> Result<Members> {
        self.check()?;
        leave_alone(&mut self.raw, self.shard)?;
        // Others may have heard of leaders in terms that this replica missed, and would not believe it in one of before.
        let term = self.term() + TERMS_MISSED_MAX;
        self.raw.raft.become_follower(term, raft::INVALID_ID);
        self.members_noted = self.members_noted.max(self.applied);
        write.members(self.shard(), self.raw.store().conf_state().clone(), self.members_noted, true);
        Ok(self.members())
    }

    /// Whether the log holds a change of members that may not be applied yet.
    #[must_use]
    pub fn is_changing_members(&self) -> bool {
        self.raw.raft.has_pending_conf()
    }

    /// Finds out who the members are as of what the tree holds: the log may know it as of an earlier entry.
    fn catch_up_members(&mut self) -> Result<()> {
        const BATCH_BYTES: u64 = 4 << 20;
        let mut next = self.members_noted.max(self.raw.store().truncated().0) + 1;
        while next <= self.applied {
            let entries = self.raw.store().log().fetch(self.shard(), next, self.applied + 1, BATCH_BYTES)?;
            let Some(last) = entries.last() else {
                return Err(raft_error(self.shard(), &raft::Error::Store(raft::StorageError::Unavailable)));
            };
            next = last.index + 1;
            for entry in &entries {
                self.change_members(entry)?;
            }
        }
        self.members_noted = self.members_noted.max(self.applied);
        Ok(())
    }

    /// Has the log note that nothing before what is applied changes the members any more, once in a while; true if
    /// something was added to `write`.
    fn note_members(&mut self, flushed: u64, write: &mut LogWrite) -> bool {
        if self.members_noted >= flushed || self.is_installing() {
            return false;
        }
        self.members_noted = self.applied;
        write.members(self.shard(), self.raw.store().conf_state().clone(), self.applied, false);
        true
    }

    /// Checks what must always hold; called after every step in tests and simulation.
    pub fn validate(&self) {
        let status = self.status();
        assert!(status.committed <= status.last, "{status:?}");
        self.gate.validate(status.term, self.awaits_rows());
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
    fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// An error if the log could not be read, now or before.
    fn check(&mut self) -> Result<()> {
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

fn context_of(state: &raft::ReadState) -> u64 {
    state.request_ctx[..].try_into().map_or(0, u64::from_le_bytes)
}
