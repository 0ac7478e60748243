//! What a replica knows of the others, and what it keeps of its log for them.

use crate::error::Result;
use crate::log_write::LogWrite;
use crate::replica::{Replica, raft_error};
use crate::turn::FollowerState;
use raft::ProgressState;
use raft::eraftpb::Message;
use std::collections::VecDeque;
use vocab::{ReplicaId, limits};

/// Of the bytes that are kept, the part that lies between two marks.
const MARK_PART: u64 = 16;

/// How many bytes of entries there are since which index, coarsely; counted from when the replica was opened.
#[derive(Default)]
pub(crate) struct LogMarks {
    marks: VecDeque<(u64, u64)>,
    bytes: u64,
}

impl LogMarks {
    /// Entries up to `index` take so many bytes more.
    pub(crate) fn note(&mut self, index: u64, bytes: u64, keep_bytes: u64) {
        self.bytes += bytes;
        if self.marks.back().is_none_or(|(_, at)| self.bytes - at >= keep_bytes / MARK_PART) {
            self.marks.push_back((index, self.bytes));
        }
    }

    /// The first entry such that no more than `bytes_max` follow it.
    fn newest(&self, bytes_max: u64) -> u64 {
        let beyond = |(_, at): &&(u64, u64)| self.bytes - at > bytes_max;
        self.marks.iter().take_while(beyond).last().map_or(0, |(index, _)| *index)
    }

    fn forget(&mut self, index: u64) {
        // The last mark below stays: the bytes after it are counted from there.
        while self.marks.get(1).is_some_and(|(next, _)| *next <= index) {
            self.marks.pop_front();
        }
    }
}

impl Replica {
    /// The other members, as their leader knows them; of a replica that does not lead, none.
    #[must_use]
    pub fn followers(&self) -> Vec<FollowerState> {
        if !self.is_leader() {
            return Vec::new();
        }
        let members = self.raw.store().conf_state();
        let state = |id: u64, of: &raft::Progress| FollowerState {
            id: ReplicaId(id),
            learner: members.learners.contains(&id),
            matched: of.matched,
            active: of.recent_active,
            snapshot: of.state == ProgressState::Snapshot,
        };
        let me = self.me().0;
        let others = self.raw.raft.prs().iter().filter(|(id, _)| **id != me);
        let mut followers: Vec<_> = others.map(|(id, progress)| state(*id, progress)).collect();
        followers.sort_unstable_by_key(|follower| follower.id);
        followers
    }

    /// How many voters are known to hold entry `index`, and how many there are; this one counts.
    #[must_use]
    pub fn matched_by(&self, index: u64) -> (usize, usize) {
        let voters = &self.raw.store().conf_state().voters;
        let holds = |id: &&u64| self.raw.raft.prs().get(**id).is_some_and(|of| of.matched >= index);
        let holding = if self.is_leader() { voters.iter().filter(holds).count() } else { 0 };
        (holding, voters.len())
    }

    /// Whether a follower lacks entries that only the log has: they are sent by `send_from_log`.
    #[must_use]
    pub fn is_to_read_log(&self) -> bool {
        self.raw.store().lacking().get()
    }

    /// Sends followers entries that only the log has. About `allowance` bytes are read, of which what was read is taken:
    /// who was away lacks more of it than may be read while everyone waits. They are in the messages of the next turn.
    pub fn send_from_log(&mut self, allowance: &mut u64) {
        if !self.raw.store().lacking().replace(false) || !self.is_leader() || self.has_failed() {
            return;
        }
        self.raw.store().allow(*allowance);
        let me = self.me().0;
        let others: Vec<u64> = self.raw.raft.prs().iter().map(|(id, _)| *id).filter(|id| *id != me).collect();
        for id in others {
            while let Some(next) = self.next_in_log(id) {
                if self.raw.store().allowed() == 0 {
                    self.raw.store().lacking().set(true);
                    break;
                }
                self.raw.raft.send_append(id);
                if self.next_in_log(id).is_some_and(|then| then <= next) {
                    break;
                }
            }
        }
        *allowance = self.raw.store().allowed();
        self.raw.store().allow(0);
    }

    /// The next entry that `id` is to be sent, if only the log has it and it may be sent now.
    fn next_in_log(&self, id: u64) -> Option<u64> {
        let of = self.raw.raft.prs().get(id)?;
        let (tail, is_sent_rows) = (self.raw.store(), of.pending_request_snapshot != raft::INVALID_INDEX);
        let in_log = of.next_idx > tail.truncated().0 && of.next_idx < tail.memory_first();
        Some(of.next_idx).filter(|_| in_log && !is_sent_rows && !of.is_paused())
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
    pub(crate) fn tell_no_more<'a>(&self, messages: impl Iterator<Item = &'a mut Message>) {
        if self.is_leader() {
            messages.for_each(|message| message.commit = message.commit.min(self.told_max));
        }
    }

    /// The snapshot that was sent to `to` has arrived there, or never will.
    pub fn report_snapshot(&mut self, to: ReplicaId, ok: bool) {
        let status = if ok { raft::SnapshotStatus::Finish } else { raft::SnapshotStatus::Failure };
        self.raw.report_snapshot(to.0, status);
    }

    /// What was sent to `to` lately may not have arrived.
    pub fn report_unreachable(&mut self, to: ReplicaId) {
        self.raw.report_unreachable(to.0);
    }

    /// Bytes of log that are kept for followers which lack them; `limits::LOG_KEEP_BYTES` unless told.
    pub fn keep_log(&mut self, bytes: u64) {
        self.keep_bytes = bytes;
    }

    /// Truncates the log up to what the tree has flushed, but for what a follower still lacks, within bounds; true if
    /// something was added to `write`.
    pub fn truncate(&mut self, flushed: u64, write: &mut LogWrite) -> Result<bool> {
        let (truncated, _) = self.raw.store().truncated();
        let index = flushed.min(self.applied).min(self.needed_from().saturating_sub(1));
        // Entries before need not be searched for changes of members when the log is opened.
        let members = self.note_members(flushed, write);
        if index <= truncated || self.has_failed() || self.is_installing() {
            return Ok(members);
        }
        let term = self.raw.raft.raft_log.term(index).map_err(|e| raft_error(self.shard(), &e))?;
        self.check()?;
        write.truncate(self.shard(), index, term);
        self.raw.mut_store().truncated_to(index, term);
        self.marks.forget(index);
        Ok(true)
    }

    /// The first entry that some follower may lack and is to get from the log.
    fn needed_from(&self) -> u64 {
        if self.is_alone() && self.raw.store().conf_state().learners.is_empty() {
            return u64::MAX;
        }
        // Whoever leads next is to have what others lack then: everyone keeps a little.
        let lacking = self.followers().iter().map(|of| self.next_of(of)).min().unwrap_or(u64::MAX);
        let slack = self.marks.newest(self.keep_bytes / 8) + 1;
        let last = self.raw.raft.raft_log.last_index();
        let floor = self.marks.newest(self.keep_bytes).max(last.saturating_sub(limits::LOG_KEEP_ENTRIES)) + 1;
        lacking.min(slack).max(floor)
    }

    fn next_of(&self, follower: &FollowerState) -> u64 {
        // What comes after a snapshot that is under way is sent from the log.
        let pending = self.raw.raft.prs().get(follower.id.0).map_or(0, |of| of.pending_snapshot);
        follower.matched.max(pending) + 1
    }
}
