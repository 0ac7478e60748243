//! What a message may say before raft-rs sees it, which ends the process over logs that do not fit together.
//!
//! Two things make logs not fit: a peer that is broken or malicious, and `nosync`, where a crash of the machine takes
//! away entries that a leader has been told are held. The first is dropped. After the second, a replica takes no word
//! for what is committed that does not come with the entries themselves, and a leader goes back to where it is; a
//! replica that finds entries other than those it has applied says so, for it cannot go on.

use crate::error::{Error, Result};
use crate::members::is_sound;
use crate::raft_storage::RaftStorage;
use crate::ready::SnapshotPoint;
use raft::eraftpb::{Message, MessageType};
use raft::{ProgressState, RawNode, StateRole};
use vocab::{ReplicaId, ShardId};

/// Greatest index and term: far from where adding one would overflow.
pub(crate) const NUMBER_MAX: u64 = 1 << 60;

/// In a rejection: the replica has nothing to build on, and wants a snapshot.
const ANY_SNAPSHOT: u64 = 1;

/// A term, and up to where entries are known to be those of its leader since the replica was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verified {
    term: u64,
    last: u64,
}

/// What is to become of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Admission {
    /// raft-rs is to see it.
    pub(crate) takes: bool,
    /// The answer is to tell that the leader believes that this replica holds more than is certain.
    pub(crate) tells_where: bool,
}

/// A replica as far as it decides which messages raft-rs sees, and how they read.
pub(crate) struct Validation<'a> {
    pub(crate) shard: ShardId,
    pub(crate) raw: &'a mut RawNode<RaftStorage>,
    pub(crate) verified: &'a mut Verified,
    /// A snapshot's rows are on their way into the tree.
    pub(crate) is_installing: bool,
}

impl Validation<'_> {
    /// Decides about a message that `inspect` has passed, and takes out of it what is not certain. An error other than
    /// `Malformed` means that this replica cannot go on, or that its log cannot be read.
    pub(crate) fn admit(&mut self, message: &mut Message) -> Result<Admission> {
        let term = self.raw.raft.term;
        let is_ours = message.term >= term;
        let mut tells_where = false;
        let takes = match message.get_msg_type() {
            MessageType::MsgAppend if is_ours => self.admit_append(message)?,
            MessageType::MsgHeartbeat if is_ours => {
                let verified = self.verified_in(message.term);
                tells_where = message.commit > verified;
                message.commit = message.commit.min(verified);
                true
            }
            MessageType::MsgSnapshot if is_ours => self.admit_snapshot(message)?,
            MessageType::MsgAppendResponse if message.term == term => self.admit_answer(message),
            MessageType::MsgHeartbeatResponse if message.reject && message.term == term => {
                self.go_back(message);
                true
            }
            _ => true,
        };
        Ok(Admission { takes, tells_where })
    }

    fn me(&self) -> ReplicaId {
        ReplicaId(self.raw.raft.id)
    }

    fn leads(&self) -> bool {
        self.raw.raft.state == StateRole::Leader
    }

    /// A follower was restarted, and may have lost the end of its log: its leader finds out how far it is.
    fn go_back(&mut self, message: &Message) {
        if !self.leads() {
            return;
        }
        if let Some(progress) = self.raw.raft.mut_prs().get_mut(message.from)
            && progress.state != ProgressState::Snapshot
            && message.commit < progress.matched
        {
            let next = message.reject_hint.min(progress.matched) + 1;
            progress.matched = message.commit;
            progress.become_probe();
            progress.next_idx = next.max(progress.next_idx);
        }
    }

    /// Entries up to here are those of the leader of `term`, or committed.
    fn verified_in(&self, term: u64) -> u64 {
        let committed = self.raw.raft.raft_log.committed;
        if self.verified.term == term { self.verified.last.max(committed) } else { committed }
    }

    fn admit_append(&mut self, message: &mut Message) -> Result<bool> {
        let log = &self.raw.raft.raft_log;
        if log.unstable_snapshot().is_some() {
            // The leader sends it again.
            return Ok(false);
        }
        if self.raw.store().conf_state().voters.is_empty() {
            self.ask_for_snapshot(message);
            return Ok(false);
        }
        let (committed, truncated) = (log.committed, self.raw.store().truncated().0);
        let differs = |index: u64, term: u64| {
            (truncated..=committed).contains(&index) && log.term(index).is_ok_and(|ours| ours != term)
        };
        let entries = message.entries.iter().take_while(|entry| entry.index <= committed);
        let mut said = entries.map(|entry| (entry.index, entry.term));
        if differs(message.index, message.log_term) || said.any(|(index, term)| differs(index, term)) {
            return Err(Error::Diverged(format!(
                "shard {}: entry {} or one after it, committed here, is another one on the leader of term {}",
                self.shard, message.index, message.term
            )));
        }
        if let Ok(term) = log.term(committed) {
            leave_out(message, (committed, term));
        }
        if message.index >= committed && log.match_term(message.index, message.log_term) {
            let last = message.index + message.entries.len() as u64;
            let before = if self.verified.term == message.term { self.verified.last } else { 0 };
            *self.verified = Verified { term: message.term, last: last.max(before) };
        }
        Ok(true)
    }

    /// A replica that was added with nothing cannot begin at the first entry: it would not know who was a member then.
    fn ask_for_snapshot(&mut self, message: &Message) {
        let raft = &mut self.raw.raft;
        if raft.term != message.term || raft.leader_id != message.from {
            raft.become_follower(message.term, message.from);
        }
        raft.election_elapsed = 0;
        let mut answer = Message {
            to: message.from,
            from: raft.id,
            term: raft.term,
            index: message.index,
            reject: true,
            request_snapshot: ANY_SNAPSHOT,
            ..Message::default()
        };
        answer.set_msg_type(MessageType::MsgAppendResponse);
        raft.msgs.push(answer);
    }

    fn admit_snapshot(&mut self, message: &Message) -> Result<bool> {
        let point = SnapshotPoint::of(message);
        let me = self.me();
        if point.index == 0
            || point.index > NUMBER_MAX
            || point.term == 0
            || point.term > message.term
            || !is_sound(&point.conf_state)
        {
            return Err(Error::Malformed(format!("a snapshot that cannot be, from replica {}", message.from)));
        }
        let log = &self.raw.raft.raft_log;
        if log.committed == point.index && log.term(point.index).is_ok_and(|term| term != point.term) {
            return Err(Error::Diverged(format!(
                "shard {}: entry {}, committed here, is another one in a snapshot",
                self.shard, point.index
            )));
        }
        let member = point.members().contains(me) || point.conf_state.learners_next.contains(&me.0);
        let busy = self.is_installing || log.unstable_snapshot().is_some();
        Ok(member && !busy && self.raw.raft.state != StateRole::Leader)
    }

    /// An answer to entries that this replica sent, if it leads.
    fn admit_answer(&mut self, message: &mut Message) -> bool {
        if !self.leads() {
            return true;
        }
        let last = self.raw.raft.raft_log.last_index();
        let (shard, from) = (self.shard, ReplicaId(message.from));
        if !message.reject && message.index > last {
            log::error!("shard {shard}: replica {from} has committed what its leader does not hold");
            return false;
        }
        let Some(progress) = self.raw.raft.mut_prs().get_mut(message.from) else { return true };
        if !message.reject {
            if message.index > 0 {
                progress.pending_request_snapshot = raft::INVALID_INDEX;
            }
            return true;
        }
        if message.request_snapshot != raft::INVALID_INDEX {
            message.request_snapshot = ANY_SNAPSHOT;
            return progress.matched == 0 && progress.state != ProgressState::Snapshot;
        }
        if message.index == progress.matched && message.reject_hint < progress.matched {
            log::warn!(
                "shard {shard}: replica {from} no longer holds entries up to {}, which it said it does: sending them again",
                progress.matched
            );
            progress.matched = message.reject_hint;
            progress.become_probe();
            progress.next_idx = message.index + 1;
        }
        true
    }
}

/// Leaves entries out that are committed here, if others follow them. raft-rs takes nothing of a message that begins below what is
/// committed: a replica to which much is sent again would get nothing new of it, and refuse all that is under way behind it.
fn leave_out(message: &mut Message, (committed, term): (u64, u64)) {
    let Some(known) = committed.checked_sub(message.index + 1) else { return };
    let place = usize::try_from(known).unwrap_or(usize::MAX);
    if message.entries.get(place).is_none_or(|entry| entry.term != term) || place + 1 == message.entries.len() {
        return;
    }
    let mut entries = message.take_entries().into_vec();
    entries.drain(..=place);
    message.set_entries(entries.into());
    (message.index, message.log_term) = (committed, term);
}

/// What holds for every message to replica `me`.
pub(crate) fn inspect(me: ReplicaId, message: &Message) -> Result<()> {
    let malformed = |detail: &str| Err(Error::Malformed(format!("{detail}, from replica {}", message.from)));
    let numbers = [message.term, message.index, message.log_term, message.commit, message.reject_hint];
    if message.to != me.0 || message.from == me.0 || message.from == 0 {
        return malformed("a message for another replica");
    }
    if message.term == 0 || numbers.iter().any(|&number| number > NUMBER_MAX) {
        return malformed("a number out of range");
    }
    if !is_known(message.get_msg_type()) {
        return malformed("a message of another kind");
    }
    // raft-rs takes 0 for the term of every entry that it does not have.
    if message.get_msg_type() == MessageType::MsgAppend && (message.log_term == 0) != (message.index == 0) {
        return malformed("entries that follow one without a term");
    }
    let mut before = (message.index, message.log_term);
    for entry in &message.entries {
        if entry.index != before.0 + 1 || entry.term < before.1 || entry.term > message.term || entry.term == 0 {
            return malformed("entries that do not follow one another");
        }
        before = (entry.index, entry.term);
    }
    Ok(())
}

/// Whether a leader sent it that a replica of `term` does not know to have been replaced.
pub(crate) fn is_of_leader(message: &Message, term: u64) -> bool {
    let kinds = [MessageType::MsgAppend, MessageType::MsgHeartbeat, MessageType::MsgSnapshot];
    message.term >= term && kinds.contains(&message.get_msg_type())
}

/// The kinds that replicas send each other here: nothing is forwarded to a leader.
pub(crate) fn is_known(kind: MessageType) -> bool {
    matches!(
        kind,
        MessageType::MsgAppend
            | MessageType::MsgAppendResponse
            | MessageType::MsgRequestVote
            | MessageType::MsgRequestVoteResponse
            | MessageType::MsgSnapshot
            | MessageType::MsgHeartbeat
            | MessageType::MsgHeartbeatResponse
            | MessageType::MsgTimeoutNow
            | MessageType::MsgRequestPreVote
            | MessageType::MsgRequestPreVoteResponse
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use raft::eraftpb::Entry;

    const ME: ReplicaId = ReplicaId(1);

    /// Entries 5 and 6 for this replica, of its leader of term 4.
    fn append() -> Message {
        let mut message = Message { to: 1, from: 2, term: 4, index: 4, log_term: 3, ..Message::default() };
        let entry = |index, term| Entry { index, term, ..Entry::default() };
        message.set_msg_type(MessageType::MsgAppend);
        message.set_entries(vec![entry(5, 3), entry(6, 4)].into());
        message
    }

    #[test]
    fn entries_that_are_committed_are_left_out_if_others_follow() {
        let left = |committed: (u64, u64)| {
            let mut message = append();
            leave_out(&mut message, committed);
            let entries: Vec<u64> = message.entries.iter().map(|entry| entry.index).collect();
            ((message.index, message.log_term), entries)
        };
        let whole = ((4, 3), vec![5, 6]);
        assert_eq!(left((5, 3)), ((5, 3), vec![6]));
        for (committed, what) in [
            ((3, 3), "none is committed"),
            ((4, 3), "the one before is"),
            ((5, 2), "another one is, which was refused before"),
            ((6, 4), "all are"),
            ((7, 4), "all are, and one more"),
            ((u64::MAX, 4), "far more are"),
        ] {
            assert_eq!(left(committed), whole, "{what}");
        }
    }

    #[test]
    fn what_no_replica_sends_is_malformed_whatever_is_wrong_with_it() {
        assert!(inspect(ME, &append()).is_ok());
        type Change = fn(&mut Message);
        let wrong: [(&str, Change); 14] = [
            ("to another", |m| m.to = 3),
            ("from itself", |m| m.from = 1),
            ("from none", |m| m.from = 0),
            ("no term", |m| m.term = 0),
            ("a term out of range", |m| m.term = NUMBER_MAX + 1),
            ("an index out of range", |m| m.index = NUMBER_MAX + 1),
            ("a commit out of range", |m| m.commit = NUMBER_MAX + 1),
            ("a hint out of range", |m| m.reject_hint = u64::MAX),
            ("a kind that is not sent", |m| m.set_msg_type(MessageType::MsgPropose)),
            ("after an entry without a term", |m| m.log_term = 0),
            ("a gap", |m| m.entries[1].index = 7),
            ("a term that falls", |m| m.entries[1].term = 2),
            ("a term beyond the leader's", |m| m.entries[1].term = 5),
            ("an entry without a term", |m| m.entries[0].term = 0),
        ];
        for (what, change) in wrong {
            let mut message = append();
            change(&mut message);
            assert!(matches!(inspect(ME, &message), Err(Error::Malformed(_))), "{what}");
        }
    }
}
