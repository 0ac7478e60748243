//! What a replica knows of the others.

use crate::raft_storage::RaftStorage;
use crate::ready::FollowerState;
use raft::{ProgressState, Raft};
use vocab::ReplicaId;

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
