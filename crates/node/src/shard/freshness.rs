//! How old a replica's rows may be, which is what `lag` asks.
//!
//! A leader's heartbeat says up to where it has applied, and since when nothing beyond that can have been acknowledged: a
//! moment of its wall clock for which a majority had confirmed it. A replica that has applied as much has it all. That
//! stays true however late the heartbeat comes, and whether or not the leader still leads or knows how far this replica
//! is. While the group hibernates there are no heartbeats, and nothing else can stand in for them: the node
//! that led may lead no more, without this replica or even that node having heard of it. So a reader that asks has
//! the group woken.

use super::lease::Lease;
use crate::shard_handle::ShardHandle;
use replica::{Message, MessageType, Replica};
use vocab::ReplicaId;

/// What a heartbeat says of its leader's commits.
pub(super) struct CommitNews {
    from: ReplicaId,
    term: u64,
    index: u64,
    wall_ms: u64,
}

impl CommitNews {
    /// Nothing if it is no heartbeat, or the leader was not sure.
    pub(super) fn by(message: &Message) -> Option<Self> {
        let says = message.get_msg_type() == MessageType::MsgHeartbeat && message.index > 0 && message.log_term > 0;
        says.then_some(Self {
            from: ReplicaId(message.from),
            term: message.term,
            index: message.index,
            wall_ms: message.log_term,
        })
    }
}

/// How old one replica's rows may be.
#[derive(Debug, Default)]
pub(super) struct Freshness {
    /// What the leader told and is not applied here yet.
    awaited: Option<Awaited>,
    /// Of a leader: a follower wants to know how old it is, and is to be told once a majority has confirmed this leader.
    told_next: bool,
}

/// The rows are as of `wall_ms` once everything up to `index` is applied.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    index: u64,
    wall_ms: u64,
}

impl Freshness {
    /// The role has changed: what another leader told counts no more.
    pub(super) fn role_changed(&mut self) {
        self.awaited = None;
    }

    /// A heartbeat was stepped that told of its leader's commits.
    pub(super) fn heard(&mut self, news: &CommitNews, replica: &Replica, handle: &ShardHandle) {
        if replica.term() == news.term && replica.leader() == Some(news.from) && !replica.is_leader() {
            // An older one that is not reached yet stays: under load there is always something newer.
            self.awaited = self.awaited.or(Some(Awaited { index: news.index, wall_ms: news.wall_ms }));
            self.refresh(handle);
        }
    }

    /// Entries may have been applied.
    pub(super) fn refresh(&mut self, handle: &ShardHandle) {
        if let Some(awaited) = self.awaited
            && handle.engine().applied_index() >= awaited.index
        {
            handle.freshness().reach(awaited.wall_ms);
            self.awaited = None;
        }
    }

    /// A follower wants to know how old it is.
    pub(super) fn wants_to_know(&mut self) {
        self.told_next = true;
    }

    /// Tells followers at once, if one wanted to know.
    pub(super) fn tell(&mut self, replica: &mut Replica) {
        if std::mem::take(&mut self.told_next) {
            replica.ping();
        }
    }
}

/// Has a heartbeat say how far this leader has come, if it can be sure of that. raft-rs leaves both fields empty.
pub(super) fn stamp(message: &mut Message, lease: &Lease, replica: &Replica, handle: &ShardHandle) {
    if message.get_msg_type() == MessageType::MsgHeartbeat
        && let Some(wall_ms) = lease.sure_at(handle)
    {
        (message.index, message.log_term) = (replica.tellable(), wall_ms);
    }
}
