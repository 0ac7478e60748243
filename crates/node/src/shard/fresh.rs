//! How old a replica's rows may be, which is what `lag` asks.
//!
//! A leader's heartbeat says up to where it has applied, and since when nothing beyond that can have been acknowledged: a
//! moment of its wall clock for which a majority had confirmed it. A replica that has applied as much has it all. That
//! stays true however late the heartbeat comes, and whether or not the leader still leads or knows how far this replica
//! is. While the group is at rest there are no heartbeats, and nothing else can stand in for them: the node
//! that led may lead no more, without this replica or even that node having heard of it. So a reader that asks has
//! the group woken.

use super::Shard;
use replica::{Message, MessageType};
use vocab::{Moment, ReplicaId};

/// What a heartbeat says of its leader's commits.
pub(super) struct Told {
    from: ReplicaId,
    term: u64,
    index: u64,
    wall_ms: u64,
}

impl Told {
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

impl Shard {
    /// Has a heartbeat say how far this leader has come, if it can be sure of that. raft-rs leaves both fields empty.
    pub(super) fn tell_commit(&self, message: &mut Message) {
        if message.get_msg_type() == MessageType::MsgHeartbeat
            && let Some(wall_ms) = self.lease.sure_at(&self.view)
        {
            (message.index, message.log_term) = (self.replica.tellable(), wall_ms);
        }
    }

    /// A heartbeat was stepped that said so.
    pub(super) fn heard(&mut self, told: &Told) {
        if self.replica.term() == told.term && self.replica.leader() == Some(told.from) && !self.replica.is_leader() {
            // An older one that is not reached yet stays: under load there is always something newer.
            self.fresh = self.fresh.or(Some((told.index, told.wall_ms)));
            self.refresh();
        }
    }

    /// A follower wants to know how old it is: this leader has itself confirmed, and then tells.
    pub(crate) fn vouch(&mut self, now: Moment) {
        self.vouches = true;
        self.lease.look_at(now);
        if self.lease.holds(&self.view) {
            self.tell_fresh();
        } else {
            self.ask_lease(now);
        }
    }

    /// Tells followers at once, if one wanted to know.
    pub(super) fn tell_fresh(&mut self) {
        if std::mem::take(&mut self.vouches) {
            self.replica.ping();
        }
    }

    pub(super) fn refresh(&mut self) {
        if let Some((index, wall_ms)) = self.fresh
            && self.view.engine().applied_index() >= index
        {
            self.view.set_fresh(wall_ms);
            self.fresh = None;
        }
    }
}
