//! What is to be written to the log: a list of operations of any number of groups. Cheap to make; the thread
//! that writes it encodes it. And what of one replica waits for it: messages that speak of what is not on the disk yet.

use crate::ready::SnapshotPoint;
use raft::eraftpb::{ConfState, Entry, EntryType, HardState, Message, MessageType};
use std::collections::VecDeque;
use vocab::{ReplicaId, ShardId};

/// In an entry's context: it must be on the disk before it counts as held.
pub(crate) const SYNC: &[u8] = &[1];

/// About how many bytes an entry takes besides its data.
const ENTRY_OVERHEAD_BYTES: usize = 16;
/// About how many bytes any other operation takes.
const OP_BYTES: usize = 64;

/// One operation on one group's log.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Appends entries; what they overlap goes.
    Entries(Vec<Entry>),
    /// Sets term, vote and commit index.
    HardState(HardState),
    /// Sets the members, as of entry `index`.
    Members {
        /// They.
        conf_state: Box<ConfState>,
        /// Entries up to here have been taken into account.
        index: u64,
    },
    /// Entries up to `index` (of `term`) are no longer needed.
    Truncate {
        /// The last one.
        index: u64,
        /// Its term.
        term: u64,
    },
    /// The log begins anew after `index`, holding no entry.
    Install(Box<Install>),
    /// The group is forgotten.
    Remove,
}

/// Where a log begins that has no entries before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Install {
    /// Whose log it is.
    pub replica: ReplicaId,
    /// The last entry that the tree holds.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// The members as of then.
    pub conf_state: ConfState,
    /// Term, vote and commit index.
    pub hard_state: HardState,
}

/// Writes of any number of groups, to be made at once and in order.
#[derive(Clone, Debug, Default)]
pub struct LogWrite {
    ops: Vec<(ShardId, Op)>,
    bytes: usize,
    wants_sync: bool,
}

impl LogWrite {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// About how many bytes it will take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether some part of it must be on the disk before anything that follows from it is told to anyone, whatever
    /// the store's durability is: terms, votes, members, and entries marked so.
    #[must_use]
    pub fn wants_sync(&self) -> bool {
        self.wants_sync
    }

    /// The operations, in order.
    #[must_use]
    pub fn ops(&self) -> &[(ShardId, Op)] {
        &self.ops
    }

    /// Adds all of `other` after what is there; nothing is left in `other`.
    pub fn append(&mut self, other: &mut Self) {
        let mut other = std::mem::take(other);
        self.ops.append(&mut other.ops);
        self.bytes += other.bytes;
        self.wants_sync |= other.wants_sync;
    }

    /// Takes out what is to be written of a group.
    pub fn drop_group(&mut self, shard: ShardId) {
        self.ops.retain(|(of, _)| *of != shard);
    }

    /// Makes a group known whose log begins after `point`: of a replica whose tree was forked. It has promised nothing in
    /// that term.
    pub fn begin_at(&mut self, shard: ShardId, replica: ReplicaId, point: &SnapshotPoint) {
        let hard_state = HardState { term: point.term, commit: point.index, ..HardState::default() };
        let (index, term, conf_state) = (point.index, point.term, point.conf_state.clone());
        self.install(shard, Install { replica, index, term, conf_state, hard_state });
    }

    /// Makes a group known that begins with nothing. Without voters its replica waits for a snapshot that says who the
    /// members are: so is one begun that is added to a group.
    pub fn begin(&mut self, shard: ShardId, replica: ReplicaId, voters: &[ReplicaId], learners: &[ReplicaId]) {
        let ids = |ids: &[ReplicaId]| ids.iter().map(|id| id.0).collect();
        let conf_state = ConfState { voters: ids(voters), learners: ids(learners), ..ConfState::default() };
        self.install(shard, Install { replica, conf_state, ..Install::default() });
    }

    /// Forgets a group: its replica is gone from this node.
    pub fn remove(&mut self, shard: ShardId) {
        self.push(shard, Op::Remove, OP_BYTES, true);
    }

    pub(crate) fn entries(&mut self, shard: ShardId, entries: Vec<Entry>) {
        let bytes = entries.iter().map(|entry| entry.data.len() + ENTRY_OVERHEAD_BYTES).sum();
        // A term's first entry is no client's write, but an index that was committed must not get another entry.
        let vital = |entry: &Entry| is_member_change(entry) || &entry.context[..] == SYNC || entry.data.is_empty();
        let vital = entries.iter().any(vital);
        self.push(shard, Op::Entries(entries), bytes, vital);
    }

    pub(crate) fn hard_state(&mut self, shard: ShardId, state: HardState, vital: bool) {
        self.push(shard, Op::HardState(state), OP_BYTES, vital);
    }

    pub(crate) fn members(&mut self, shard: ShardId, conf_state: ConfState, index: u64, vital: bool) {
        self.push(shard, Op::Members { conf_state: Box::new(conf_state), index }, OP_BYTES, vital);
    }

    pub(crate) fn truncate(&mut self, shard: ShardId, index: u64, term: u64) {
        self.push(shard, Op::Truncate { index, term }, OP_BYTES, false);
    }

    pub(crate) fn install(&mut self, shard: ShardId, install: Install) {
        self.push(shard, Op::Install(Box::new(install)), OP_BYTES, true);
    }

    fn push(&mut self, shard: ShardId, op: Op, bytes: usize, vital: bool) {
        self.ops.push((shard, op));
        self.bytes += bytes;
        self.wants_sync |= vital;
    }
}

/// Whether an entry changes the group's members rather than carrying commands.
#[must_use]
pub fn is_member_change(entry: &Entry) -> bool {
    entry.get_entry_type() != EntryType::EntryNormal
}

/// Writes of one replica that the log has not confirmed, by the numbers that raft-rs gives them, and the messages that wait for
/// them.
///
/// Invariants: `vote_outstanding ≤ outstanding`; what is held is held for a write that is outstanding.
pub(crate) struct LogGate {
    /// The newest write that is not done; 0 when all are.
    outstanding: u64,
    /// The newest write of a term or a vote, while that is not done: until then nothing is sent.
    vote_outstanding: u64,
    /// Term and vote that were given to the log last.
    voted: (u64, u64),
    /// The commit index that was last written.
    commit_written: u64,
    /// Messages that may go out once the write of that number is done, in order.
    held: VecDeque<(u64, Vec<Message>)>,
}

impl LogGate {
    /// Of a replica whose log holds that term and vote.
    pub(crate) fn new(voted: (u64, u64)) -> Self {
        Self { outstanding: 0, vote_outstanding: 0, voted, commit_written: 0, held: VecDeque::new() }
    }

    /// Whether that term and vote were given to the log last.
    pub(crate) fn has_voted(&self, voted: (u64, u64)) -> bool {
        self.voted == voted
    }

    /// Whether nothing is outstanding.
    pub(crate) fn is_clear(&self) -> bool {
        self.outstanding == 0
    }

    /// Whether the log may believe that less is committed than is.
    pub(crate) fn lacks_commit(&self, committed: u64) -> bool {
        committed > self.commit_written
    }

    /// Adds term, vote and commit index to `write`, which is of that number. `known`: the commit index as it is in memory.
    pub(crate) fn write_hard_state(
        &mut self,
        shard: ShardId,
        state: HardState,
        known: u64,
        number: u64,
        write: &mut LogWrite,
    ) {
        self.commit_written = known;
        let voted = (state.term, state.vote);
        if voted != self.voted {
            self.voted = voted;
            self.vote_outstanding = number;
        }
        write.hard_state(shard, state, self.vote_outstanding == number);
    }

    /// Something of that number was added to a write.
    pub(crate) fn begun(&mut self, number: u64) {
        self.outstanding = number;
    }

    /// Which messages may go out while something is outstanding; the others wait. Of `now`, a leader's, wait only those for a
    /// term or vote, and of `held` go those that say nothing of what the log must hold.
    pub(crate) fn sendable(&mut self, mut now: Vec<Message>, mut held: Vec<Message>) -> Vec<Message> {
        if self.vote_outstanding != 0 {
            held.append(&mut now);
        } else if !held.is_empty() {
            let (free, rest): (Vec<_>, Vec<_>) = held.into_iter().partition(is_unlogged);
            now.extend(free);
            held = rest;
        }
        if !held.is_empty() {
            self.held.push_back((self.outstanding, held));
        }
        now
    }

    /// Takes out of `messages` those that say nothing of what the log must hold, if it holds the term and vote of the replica
    /// that has made them.
    pub(crate) fn take_unlogged(&self, voted: (u64, u64), messages: &mut Vec<Message>) -> Vec<Message> {
        let is_held_back = self.vote_outstanding != 0 || !self.has_voted(voted);
        if is_held_back || !messages.iter().any(is_unlogged) {
            return Vec::new();
        }
        let (taken, rest) = std::mem::take(messages).into_iter().partition(is_unlogged);
        *messages = rest;
        taken
    }

    /// Everything up to that number is on the disk. Answers the messages that waited for that.
    pub(crate) fn persisted(&mut self, number: u64) -> Vec<Message> {
        if self.outstanding <= number {
            self.outstanding = 0;
        }
        if self.vote_outstanding <= number {
            self.vote_outstanding = 0;
        }
        let mut messages = Vec::new();
        while let Some((_, held)) = self.held.pop_front_if(|(after, _)| *after <= number) {
            messages.extend(held);
        }
        messages
    }

    /// Checks what must always hold of a replica of that term. `awaits_rows`: a snapshot's rows are on their way.
    pub(crate) fn validate(&self, term: u64, awaits_rows: bool) {
        assert!(self.voted.0 <= term, "term {term}, and voted {:?}", self.voted);
        assert!(self.vote_outstanding <= self.outstanding, "a vote waits for a write that is not outstanding");
        assert!(self.held.is_empty() || self.outstanding > 0 || awaits_rows, "held back for nothing");
    }
}

/// Whether a message says nothing of what the log of its sender must hold but its term: heartbeats, their answers, and what
/// asks and tells whether a vote would be given, which binds no one.
fn is_unlogged(message: &Message) -> bool {
    use MessageType::{MsgHeartbeat, MsgHeartbeatResponse, MsgRequestPreVote, MsgRequestPreVoteResponse};
    matches!(
        message.get_msg_type(),
        MsgHeartbeat | MsgHeartbeatResponse | MsgRequestPreVote | MsgRequestPreVoteResponse
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: MessageType) -> Message {
        let mut message = Message::default();
        message.set_msg_type(kind);
        message
    }

    fn kinds(messages: &[Message]) -> Vec<MessageType> {
        messages.iter().map(Message::get_msg_type).collect()
    }

    #[test]
    fn what_speaks_of_the_log_waits_for_it_and_a_vote_holds_back_everything() {
        use MessageType::{MsgAppend, MsgAppendResponse, MsgHeartbeatResponse, MsgRequestVoteResponse};
        let mut gate = LogGate::new((3, 1));
        gate.begun(1);
        let sent =
            gate.sendable(vec![message(MsgAppend)], vec![message(MsgAppendResponse), message(MsgHeartbeatResponse)]);
        assert_eq!(kinds(&sent), [MsgAppend, MsgHeartbeatResponse]);
        // The same term and vote are no news; others are, and hold back all.
        let mut write = LogWrite::default();
        let state = |term, vote| HardState { term, vote, ..HardState::default() };
        gate.write_hard_state(ShardId(1), state(3, 1), 9, 2, &mut write);
        assert!(!write.wants_sync() && !gate.lacks_commit(9) && gate.lacks_commit(10));
        gate.write_hard_state(ShardId(1), state(4, 2), 9, 2, &mut write);
        assert!(write.wants_sync());
        gate.begun(2);
        let sent = gate.sendable(vec![message(MsgAppend)], vec![message(MsgRequestVoteResponse)]);
        assert!(sent.is_empty());
        gate.validate(4, false);
        assert_eq!(kinds(&gate.persisted(1)), [MsgAppendResponse]);
        assert!(!gate.is_clear());
        assert_eq!(kinds(&gate.persisted(2)), [MsgRequestVoteResponse, MsgAppend]);
        assert!(gate.is_clear());
        gate.validate(4, false);
    }

    #[test]
    fn what_says_nothing_of_the_log_overtakes_what_waits_for_it_but_no_vote() {
        use MessageType::{
            MsgAppendResponse, MsgHeartbeat, MsgHeartbeatResponse, MsgRequestPreVoteResponse, MsgRequestVoteResponse,
        };
        let unlogged = [MsgHeartbeatResponse, MsgHeartbeat, MsgRequestPreVoteResponse];
        let all = [&[MsgAppendResponse, MsgRequestVoteResponse][..], &unlogged].concat();
        let mut gate = LogGate::new((3, 1));
        let mut messages: Vec<Message> = all.iter().copied().map(message).collect();
        assert!(gate.take_unlogged((4, 0), &mut messages).is_empty(), "the log does not know the term");
        gate.begun(1);
        assert_eq!(kinds(&gate.take_unlogged((3, 1), &mut messages)), unlogged);
        assert_eq!(kinds(&messages), [MsgAppendResponse, MsgRequestVoteResponse]);
        let mut write = LogWrite::default();
        gate.write_hard_state(ShardId(1), HardState { term: 4, vote: 2, ..HardState::default() }, 9, 2, &mut write);
        gate.begun(2);
        let mut messages: Vec<Message> = all.iter().copied().map(message).collect();
        assert!(gate.take_unlogged((4, 2), &mut messages).is_empty(), "the vote is not on the disk");
        gate.persisted(2);
        assert_eq!(kinds(&gate.take_unlogged((4, 2), &mut messages)), unlogged);
    }
}
