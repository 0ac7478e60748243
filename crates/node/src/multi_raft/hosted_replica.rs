//! One replica with what its worker knows of it.

use super::hibernate::{Neighbours, REST_AFTER_TICKS};
use crate::peer_protocol::Order;
use crate::shard::{LEASE_US, Shard};
use replica::{MemberChange, MemberKind, Members, Message, MessageType};
use vocab::{Moment, NodeId, ReplicaId};

/// For how long a replica that was opened again does not vote, in µs: what it had promised before it may have
/// forgotten, and a leader may hold a lease on that.
const PROMISE_US: u64 = LEASE_US + LEASE_US / 4;

/// For how many ticks a shard that was just split off stands for election where its parent is led.
const EAGER_TICKS: u32 = 100;
/// How long it is waited for that every replica of such a shard has its part, in µs: it would be copied otherwise.
const BEGUN_WITHIN_US: u64 = 10_000_000;

/// A group that has been idle for so many ticks sends no more rounds for its followers' sake: it is about to rest, and
/// their answers would wake it.
const CONFIRM_UNTIL_TICKS: u32 = REST_AFTER_TICKS - 8;

/// Entries that a follower may lack and still be given a vote, or the lead, or be counted on.
const NEAR_ENTRIES: u64 = 256;

pub(super) struct HostedReplica {
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
    /// When it came here.
    since_us: u64,
    /// Ticks for which it stands for election as long as there is no leader.
    eager_ticks: u32,
}

impl HostedReplica {
    pub(super) fn new(shard: Shard, fresh: bool, now: Moment) -> Self {
        // The only voter makes no promises.
        let free = fresh || shard.replica().is_alone();
        let silent_until_us = if free { 0 } else { now.mono_us + PROMISE_US };
        Self {
            shard,
            busy: false,
            resting: false,
            rests_with: None,
            idle_ticks: 0,
            silent_until_us,
            since_us: now.mono_us,
            eager_ticks: 0,
        }
    }

    pub(super) fn wake(&mut self) {
        self.resting = false;
        self.rests_with = None;
        self.idle_ticks = 0;
    }

    /// From now on it stands for election as long as there is no leader, for a while.
    pub(super) fn be_eager(&mut self) {
        self.eager_ticks = EAGER_TICKS;
        self.campaign();
    }

    /// Stands for election if it is to; true if it does.
    pub(super) fn stand_if_eager(&mut self) -> bool {
        if self.eager_ticks == 0 {
            return false;
        }
        self.eager_ticks -= 1;
        if self.shard.replica().leader().is_some() {
            self.eager_ticks = 0;
            return false;
        }
        // It is asked again at every tick whether it would win; once it stands, the answers get the time of two.
        let stands = self.eager_ticks.is_multiple_of(2) || !self.shard.replica().is_candidate();
        if stands {
            self.campaign();
        }
        stands
    }

    /// Of a shard that was split off: whether it leads and every other replica has its part. One that is long in coming
    /// is not waited for.
    pub(super) fn has_begun(&self, now: Moment) -> bool {
        let replica = self.shard.replica();
        let everywhere = || replica.followers().iter().all(|follower| follower.matched > 0);
        replica.serves() && (now.mono_us > self.since_us + BEGUN_WITHIN_US || everywhere())
    }

    pub(super) fn campaign(&mut self) {
        if let Err(e) = self.shard.replica_mut().campaign() {
            log::error!("shard {}: {e}", self.shard.view().id());
        }
    }

    pub(super) fn step(&mut self, message: Message, now: Moment) {
        let kind = message.get_msg_type();
        let votes = super::asks_for_vote(&message) || kind == MessageType::MsgTimeoutNow;
        let mine = message.to == self.shard.replica().me().0;
        // Rows come by another way, and their message with them.
        if !mine
            || self.shard.broken().is_some()
            || kind == MessageType::MsgSnapshot
            // They are sent again, after the heartbeats that come meanwhile.
            || (kind == MessageType::MsgAppend && self.shard.is_behind())
            || (votes && now.mono_us < self.silent_until_us)
        {
            return;
        }
        // What only says that all is as it was is nothing new: a group would never come to rest.
        let replica = self.shard.replica();
        let as_it_was = kind == MessageType::MsgHeartbeatResponse
            && !message.reject
            && message.term == replica.term()
            && replica.is_leader();
        if !as_it_was {
            self.wake();
        }
        self.shard.step(message);
    }

    /// The leader's node says that there is nothing to do.
    pub(super) fn rest_with(&mut self, node: NodeId, term: u64, committed: u64) {
        let status = self.shard.replica().status();
        let same = status.term == term && status.committed == committed && status.last == committed;
        let idle = status.applied == committed && self.shard.is_idle();
        if same && !status.leads && idle && self.shard.leader_node() == Some(node) {
            self.resting = true;
            self.rests_with = Some(node);
        }
    }

    /// Has its leader confirmed where reads or followers need that; true if something is to be sent. Reads keep it awake.
    pub(super) fn renew_lease(&mut self, now: Moment) -> bool {
        if self.shard.renew_lease(now) {
            self.idle_ticks = 0;
            return true;
        }
        self.idle_ticks < CONFIRM_UNTIL_TICKS && self.shard.confirm(now)
    }

    /// Rests if nothing has happened for long; true if its followers are to be told.
    pub(super) fn rest_if_idle(&mut self) -> bool {
        // One that cannot write looks for a follower that can.
        if !self.shard.replica().is_leader() || !self.shard.can_rest() || !self.shard.can_write() {
            self.idle_ticks = 0;
            return false;
        }
        self.idle_ticks += 1;
        if self.idle_ticks < REST_AFTER_TICKS || self.shard.replica().awaits_round() {
            return false;
        }
        self.resting = true;
        self.rests_with = None;
        true
    }

    /// Hands leadership to a follower on a node that may lead: this one had better not. True if it was begun.
    pub(super) fn hand_over(
        &mut self,
        neighbours: &Neighbours,
        may_lead: impl Fn(NodeId) -> bool,
        now: Moment,
    ) -> bool {
        if !self.shard.replica().serves() {
            return false;
        }
        let mut followers = self.shard.replica().followers();
        followers.retain(|follower| {
            let node = self.shard.node_of(follower.id);
            follower.active
                && !follower.learner
                && node.is_some_and(|node| neighbours.lives(node, now) && may_lead(node))
        });
        let best = followers.iter().max_by_key(|follower| follower.matched).map(|follower| follower.id);
        best.is_some_and(|to| self.shard.transfer(to))
    }

    pub(super) fn obey(&mut self, order: &Order, neighbours: &Neighbours, now: Moment) {
        if !self.shard.replica().serves() || self.shard.replica().is_transferring() {
            return;
        }
        let members = self.shard.replica().members();
        if self.shard.replica().is_changing_members() && !matches!(order, Order::Transfer { .. }) {
            // One after the other; this one will be asked for again.
            return;
        }
        match order {
            Order::Transfer { to } => {
                if let Some(to) = self.shard.replica_on(*to) {
                    self.hand_to(to, &members, neighbours, now);
                }
            }
            Order::Add { replica, .. } => {
                let replica = ReplicaId(*replica);
                if !members.contains(replica) {
                    self.change(replica, MemberKind::Learner);
                }
            }
            Order::Promote { replica } => {
                let replica = ReplicaId(*replica);
                if members.learners.contains(&replica) && self.holds_up(replica, neighbours, now) {
                    self.change(replica, MemberKind::Voter);
                }
            }
            Order::Remove { replica } => {
                let replica = ReplicaId(*replica);
                if members.contains(replica) {
                    self.let_go(replica, &members, neighbours, now);
                }
            }
            // This is not for a leader's hosted alone.
            Order::Recover { .. } => {}
            Order::Split { child, slots } => _ = self.shard.split(*child, slots),
        }
    }

    /// An operator goes on with this replica as the only member, unless its group has a leader that lives.
    pub(super) fn go_on_alone(
        &mut self,
        me: ReplicaId,
        neighbours: &Neighbours,
        now: Moment,
        later: &mut replica::LogWrite,
    ) {
        let led = self.shard.leader_node().is_some_and(|node| neighbours.lives(node, now));
        let replica = self.shard.replica_mut();
        if replica.me() != me || replica.is_leader() || replica.is_installing() || led {
            return;
        }
        let shard = replica.shard();
        let others = replica.members();
        match replica.go_on_alone(later) {
            Ok(_) => {
                log::warn!("shard {shard}: an operator has replica {me} go on alone; it was one of {others:?}");
                self.campaign();
            }
            Err(e) => log::error!("shard {shard}: replica {me} cannot go on alone: {e}"),
        }
    }

    /// Hands leadership to a voter that can take it at once.
    fn hand_to(&mut self, to: ReplicaId, members: &Members, neighbours: &Neighbours, now: Moment) {
        let settled = self.shard.node_of(to).is_some_and(|node| neighbours.settled(node, now));
        if settled && members.voters.contains(&to) && self.shard.can_write() && self.holds_up(to, neighbours, now) {
            self.shard.transfer(to);
        }
    }

    /// Whether a follower answers and has nearly everything.
    fn holds_up(&self, id: ReplicaId, neighbours: &Neighbours, now: Moment) -> bool {
        let replica = self.shard.replica();
        let last = replica.status().last;
        let lives = self.shard.node_of(id).is_some_and(|node| neighbours.lives(node, now));
        let near = |of: &replica::FollowerState| of.active && !of.snapshot && of.matched + NEAR_ENTRIES >= last;
        lives && replica.followers().iter().any(|of| of.id == id && of.matched > 0 && near(of))
    }

    /// Removes a member, if the voters that stay are a majority of themselves that answers and has everything. A leader
    /// that is to go hands over instead.
    fn let_go(&mut self, id: ReplicaId, members: &Members, neighbours: &Neighbours, now: Moment) {
        let me = self.shard.replica().me();
        if members.voters.contains(&id) {
            let stay: Vec<ReplicaId> = members.voters.iter().copied().filter(|voter| *voter != id).collect();
            let sound = stay.iter().copied().filter(|voter| *voter == me || self.holds_up(*voter, neighbours, now));
            let sound: Vec<ReplicaId> = sound.collect();
            if sound.len() <= stay.len() / 2 {
                return;
            }
            if id == me {
                let followers = self.shard.replica().followers();
                let matched = |id: &ReplicaId| followers.iter().find(|of| of.id == *id).map_or(0, |of| of.matched);
                let best = sound.into_iter().max_by_key(|id| (matched(id), std::cmp::Reverse(*id)));
                if let Some(best) = best {
                    self.shard.transfer(best);
                }
                return;
            }
        }
        self.change(id, MemberKind::Remove);
    }

    fn change(&mut self, id: ReplicaId, kind: MemberKind) {
        let done = self.shard.change_members(&[MemberChange { id, kind }]);
        log::debug!("shard {}: replica {id} is to be {kind:?}: {done}", self.shard.view().id());
    }
}
