//! What a replica knows of the others, and what it keeps of its log for them.

use crate::raft_storage::RaftStorage;
use crate::ready::FollowerState;
use raft::{ProgressState, Raft};
use std::collections::VecDeque;
use vocab::ReplicaId;

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
    pub(crate) fn newest(&self, bytes_max: u64) -> u64 {
        let beyond = |(_, at): &&(u64, u64)| self.bytes - at > bytes_max;
        self.marks.iter().take_while(beyond).last().map_or(0, |(index, _)| *index)
    }

    /// Entries up to `index` are gone from the log.
    pub(crate) fn forget(&mut self, index: u64) {
        // The last mark below stays: the bytes after it are counted from there.
        while self.marks.get(1).is_some_and(|(next, _)| *next <= index) {
            self.marks.pop_front();
        }
    }
}

/// The other members, as their leader knows them, by id.
pub(crate) fn followers(raft: &Raft<RaftStorage>) -> Vec<FollowerState> {
    let members = raft.store().conf_state();
    let state = |id: u64, of: &raft::Progress| FollowerState {
        id: ReplicaId(id),
        learner: members.learners.contains(&id),
        matched: of.matched,
        active: of.recent_active,
        snapshot: of.state == ProgressState::Snapshot,
    };
    let others = raft.prs().iter().filter(|(id, _)| **id != raft.id);
    let mut followers: Vec<_> = others.map(|(id, progress)| state(*id, progress)).collect();
    followers.sort_unstable_by_key(|follower| follower.id);
    followers
}

/// The next entry that `id` is to be sent, if only the log has it and it may be sent now.
pub(crate) fn next_in_log(raft: &Raft<RaftStorage>, id: u64) -> Option<u64> {
    let of = raft.prs().get(id)?;
    let (storage, is_sent_rows) = (raft.store(), of.pending_request_snapshot != raft::INVALID_INDEX);
    let in_log = of.next_idx > storage.truncated().0 && of.next_idx < storage.memory_first();
    Some(of.next_idx).filter(|_| in_log && !is_sent_rows && !of.is_paused())
}

/// The first entry that a follower is to get from the log.
pub(crate) fn needed_by(raft: &Raft<RaftStorage>, follower: &FollowerState) -> u64 {
    // What comes after a snapshot that is under way is sent from the log.
    let pending = raft.prs().get(follower.id.0).map_or(0, |of| of.pending_snapshot);
    follower.matched.max(pending) + 1
}
