//! One replica with what its worker knows of it.

use super::rest::{Neighbours, REST_AFTER_TICKS};
use crate::peer::Order;
use crate::shard::{LEASE_US, Shard};
use replica::{MemberChange, MemberKind, Message, MessageType};
use vocab::{Moment, NodeId, ReplicaId};

/// For how long a replica that was opened again votes for nobody, in µs: what it had promised before it may have
/// forgotten, and a leader may hold a lease on that.
const PROMISE_US: u64 = LEASE_US + LEASE_US / 4;

/// How long a leader waits before it tries again to give leadership back, in µs: writes wait while it tries.
const GIVE_BACK_PAUSE_US: u64 = 30_000_000;

pub(super) struct Seat {
    pub(super) shard: Shard,
    /// It is in the list of busy ones.
    pub(super) busy: bool,
    /// It is not ticked: nothing happens in its group.
    pub(super) resting: bool,
    /// Of a follower at rest: the node whose life it depends on.
    pub(super) rests_with: Option<NodeId>,
    idle_ticks: u32,
    /// No votes before this time.
    silent_until_us: u64,
    /// Leadership is not given back before this time: the one that should have it did not take it, or lost it again.
    give_back_after_us: u64,
}

impl Seat {
    pub(super) fn new(shard: Shard, fresh: bool, now: Moment) -> Self {
        // The only voter promises nobody anything.
        let free = fresh || shard.replica().is_alone();
        let silent_until_us = if free { 0 } else { now.mono_us + PROMISE_US };
        Self {
            shard,
            busy: false,
            resting: false,
            rests_with: None,
            idle_ticks: 0,
            silent_until_us,
            give_back_after_us: 0,
        }
    }

    pub(super) fn wake(&mut self) {
        self.resting = false;
        self.rests_with = None;
        self.idle_ticks = 0;
    }

    pub(super) fn campaign(&mut self) {
        if let Err(e) = self.shard.replica_mut().campaign() {
            log::error!("shard {}: {e}", self.shard.view().id());
        }
    }

    pub(super) fn step(&mut self, message: Message, now: Moment) {
        let kind = message.get_msg_type();
        let votes =
            matches!(kind, MessageType::MsgRequestVote | MessageType::MsgRequestPreVote | MessageType::MsgTimeoutNow);
        let mine = message.to == self.shard.replica().me().0;
        // Rows come by another way, and their message with them.
        if !mine
            || self.shard.broken().is_some()
            || kind == MessageType::MsgSnapshot
            || (votes && now.mono_us < self.silent_until_us)
        {
            return;
        }
        self.wake();
        self.shard.step(message);
    }

    /// The leader's node says that there is nothing to do.
    pub(super) fn rest_with(&mut self, node: NodeId, term: u64, committed: u64) {
        let status = self.shard.replica().status();
        let same = status.term == term && status.committed == committed && status.last == committed;
        if same && !status.leads && status.applied == committed && self.shard.leader_node() == Some(node) {
            self.resting = true;
            self.rests_with = Some(node);
        }
    }

    /// Rests if nothing has happened for long; true if its followers are to be told.
    pub(super) fn rest_if_idle(&mut self) -> bool {
        if !self.shard.replica().is_leader() || !self.shard.can_rest() {
            self.idle_ticks = 0;
            return false;
        }
        self.idle_ticks += 1;
        if self.idle_ticks < REST_AFTER_TICKS {
            return false;
        }
        self.resting = true;
        self.rests_with = None;
        true
    }

    /// Hands leadership to a follower if this node cannot write: that one may be able to. True if it was begun.
    pub(super) fn hand_over_if_unable(&mut self, neighbours: &Neighbours, now: Moment) -> bool {
        if self.shard.can_write() || !self.shard.replica().serves() {
            return false;
        }
        let mut followers = self.shard.replica().followers();
        followers.retain(|follower| {
            let node = self.shard.node_of(follower.id);
            follower.active && !follower.learner && node.is_some_and(|node| neighbours.lives(node, now))
        });
        let best = followers.iter().max_by_key(|follower| follower.matched).map(|follower| follower.id);
        best.is_some_and(|to| self.shard.transfer(to))
    }

    /// Hands leadership to the node that should have it, if that one can take it; true if it was begun.
    pub(super) fn give_back(&mut self, me: NodeId, wanted: NodeId, neighbours: &Neighbours, now: Moment) -> bool {
        let replica = self.shard.replica();
        if wanted == me
            || now.mono_us < self.give_back_after_us
            || !replica.serves()
            || !neighbours.settled(wanted, now)
            || !self.shard.can_write()
        {
            return false;
        }
        let Some(to) = self.shard.replica_on(wanted) else { return false };
        let last = replica.status().last;
        let near = |matched: u64| matched + 1000 >= last;
        let ready = replica.followers().iter().any(|f| f.id == to && !f.learner && f.active && near(f.matched));
        if ready {
            self.give_back_after_us = now.mono_us + GIVE_BACK_PAUSE_US;
        }
        ready && self.shard.transfer(to)
    }

    pub(super) fn obey(&mut self, order: &Order) {
        let id = self.shard.view().id();
        let done = match order {
            Order::Transfer { to } => {
                let to = self.shard.replica_on(*to);
                to.is_some_and(|to| self.shard.transfer(to))
            }
            Order::Add { replica, .. } => self.change(ReplicaId(*replica), MemberKind::Learner),
            Order::Remove { replica } => self.change(ReplicaId(*replica), MemberKind::Remove),
        };
        log::debug!("shard {id}: {order:?}: {done}");
    }

    fn change(&mut self, id: ReplicaId, kind: MemberKind) -> bool {
        let change = MemberChange { id, kind };
        self.shard.change_members(&[change])
    }
}
