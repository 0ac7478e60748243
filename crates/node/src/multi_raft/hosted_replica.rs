//! One replica with what its worker knows of it: when it stands for election, hibernates, hands over or obeys an order;
//! and all replicas of a worker by their shard.

use super::hibernate::Hibernation;
use super::live_nodes::{Alive, LiveNodes};
use crate::peer_protocol::Order;
use crate::shard::{LEASE_US, Shard};
use replica::{FollowerState, MemberChange, MemberKind, Members, Message, MessageType};
use vocab::{Moment, NodeId, ReplicaId, ShardId};

/// For how long a replica that was opened again does not vote, in µs: what it had promised before it may have
/// forgotten, and a leader may hold a lease on that.
const PROMISE_US: u64 = LEASE_US + LEASE_US / 4;

/// For how many ticks a shard that was just split off stands for election where its parent is led.
const EAGER_TICKS: u32 = 100;
/// How long the leader waits until every replica of such a shard has its part, in µs. A part that is late is copied.
const BEGUN_WITHIN_US: u64 = 10_000_000;

/// A replica that is damaged, or on a node whose clock is off, waits so many times as long as others before it stands for
/// election: it leads only if no other does.
const UNFIT_TICKS: u64 = 4;
/// So many times as long a follower waits for a leader that large requests may keep busy.
const BULK_TICKS: u64 = 5;

/// Entries that a follower may lack and still be given a vote, or the lead, or be counted on.
const NEAR_ENTRIES: u64 = 256;

/// A replica and what its worker knows of it.
pub(super) struct HostedReplica {
    pub(super) shard: Shard,
    /// Whether `Replicas` has it in its list of busy ones.
    busy: bool,
    hibernation: Hibernation,
    /// No votes before this time.
    silent_until_us: u64,
    /// When this worker took it.
    since_us: u64,
    /// Ticks for which it stands for election as long as there is no leader.
    eager_ticks: u32,
}

impl HostedReplica {
    pub(super) fn new(shard: Shard, fresh: bool, now: Moment) -> Self {
        // A replica that is the only voter has made no promise.
        let free = fresh || shard.replica().is_alone();
        let silent_until_us = if free { 0 } else { now.mono_us + PROMISE_US };
        Self {
            shard,
            busy: false,
            hibernation: Hibernation::default(),
            silent_until_us,
            since_us: now.mono_us,
            eager_ticks: 0,
        }
    }

    /// Something has happened: it is ticked again.
    pub(super) fn wake(&mut self) {
        self.hibernation.wake();
    }

    /// Whether it is not ticked, because nothing happens in its group.
    pub(super) fn hibernates(&self) -> bool {
        self.hibernation.hibernates()
    }

    /// Of a follower that hibernates: the node whose life it depends on.
    pub(super) fn hibernates_with(&self) -> Option<NodeId> {
        self.hibernation.leader_node()
    }

    /// One tick has passed, which is this one of its node; true if there may be something to do. Neither a leader nor its
    /// followers take each other for gone because large requests make them slow.
    pub(super) fn tick(&mut self, ticks: u64, is_unfit: bool, alive: &Alive<'_>) -> bool {
        let leads = self.shard.replica().is_leader();
        if leads && alive.is_bulk {
            self.excuse_followers(alive);
        }
        let leader_is_busy = || alive.is_bulk && self.shard.leader_node().is_some_and(|node| alive.has(node));
        let is_due = |every: u64, is_slow: bool| !is_slow || ticks.is_multiple_of(every);
        (leads || (is_due(UNFIT_TICKS, is_unfit) && is_due(BULK_TICKS, leader_is_busy())))
            && self.shard.replica_mut().tick()
    }

    /// The followers on nodes that live count as active.
    fn excuse_followers(&mut self, alive: &Alive<'_>) {
        for follower in self.shard.replica().followers() {
            if self.shard.node_of(follower.id).is_some_and(|node| alive.has(node)) {
                self.shard.replica_mut().excuse(follower.id);
            }
        }
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

    /// Of a shard that was split off: whether it leads and every other replica has its part. A replica that is late is not
    /// waited for.
    pub(super) fn has_begun(&self, now: Moment) -> bool {
        let replica = self.shard.replica();
        let everywhere = || replica.followers().iter().all(|follower| follower.matched > 0);
        replica.serves() && (now.mono_us > self.since_us + BEGUN_WITHIN_US || everywhere())
    }

    pub(super) fn campaign(&mut self) {
        if let Err(e) = self.shard.replica_mut().campaign() {
            log::error!("shard {}: {e}", self.shard.handle().id());
        }
    }

    pub(super) fn step(&mut self, message: Message, now: Moment) {
        let kind = message.get_msg_type();
        let votes = asks_for_vote(&message) || kind == MessageType::MsgTimeoutNow;
        let mine = message.to == self.shard.replica().me().0;
        // Snapshots come by a transfer, and their message with them.
        if !mine
            || self.shard.broken().is_some()
            || kind == MessageType::MsgSnapshot
            // The leader sends them again after a heartbeat.
            || (kind == MessageType::MsgAppend && self.shard.is_behind())
            || (votes && now.mono_us < self.silent_until_us)
        {
            return;
        }
        // An answer to a heartbeat brings nothing new. If it counted, no group would ever hibernate.
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

    /// The leader's node says that there is nothing to do. Answers whether the replica hibernates.
    pub(super) fn hibernate_with(&mut self, node: NodeId, term: u64, committed: u64) -> bool {
        let status = self.shard.replica().status();
        let same = status.term == term && status.committed == committed && status.last == committed;
        let idle = status.applied == committed && self.shard.is_idle();
        if same && !status.leads && idle && self.shard.leader_node() == Some(node) {
            self.hibernation.follow(node);
        }
        self.hibernation.hibernates()
    }

    /// Whether it is a leader that hibernates while half of its group's voters or more are on nodes that may be dead: nothing
    /// would tell it, and who waits for such a group to be without a leader would wait until a client writes to it.
    pub(super) fn leads_at_rest_alone(&self, alive: &Alive<'_>) -> bool {
        if !self.hibernates() || self.hibernates_with().is_some() {
            return false;
        }
        let mut voters = self.shard.replica().followers();
        voters.retain(|follower| !follower.learner);
        let lives = |voter: &&FollowerState| self.shard.node_of(voter.id).is_some_and(|node| alive.has(node));
        (voters.iter().filter(lives).count() + 1) * 2 <= voters.len() + 1
    }

    /// Has its leader confirmed where reads or followers need that; true if something is to be sent. Reads keep it awake.
    pub(super) fn renew_lease(&mut self, now: Moment) -> bool {
        if self.shard.renew_lease(now) {
            self.hibernation.stay_awake();
            return true;
        }
        self.hibernation.confirms() && self.shard.confirm(now)
    }

    /// Hibernates if nothing has happened for long; true if its followers are to be told.
    pub(super) fn hibernate_if_idle(&mut self) -> bool {
        // One that cannot write looks for a follower that can.
        if !self.shard.replica().is_leader() || !self.shard.can_hibernate() || !self.shard.can_write() {
            self.hibernation.stay_awake();
            return false;
        }
        let may_begin = !self.shard.replica().awaits_round();
        self.hibernation.idle_tick(may_begin)
    }

    /// Hands leadership to a follower on a node that may lead, since this one should not. True if it was begun.
    pub(super) fn hand_over(&mut self, live: &LiveNodes, may_lead: impl Fn(NodeId) -> bool, now: Moment) -> bool {
        if !self.shard.replica().serves() {
            return false;
        }
        let mut followers = self.shard.replica().followers();
        followers.retain(|follower| {
            let node = self.shard.node_of(follower.id);
            follower.active && !follower.learner && node.is_some_and(|node| live.lives(node, now) && may_lead(node))
        });
        let best = followers.iter().max_by_key(|follower| follower.matched).map(|follower| follower.id);
        best.is_some_and(|to| self.shard.transfer(to))
    }

    pub(super) fn obey(&mut self, order: &Order, live: &LiveNodes, now: Moment) {
        if !self.shard.replica().serves() || self.shard.replica().is_transferring() {
            return;
        }
        let members = self.shard.replica().members();
        if self.shard.replica().is_changing_members() && !matches!(order, Order::Transfer { .. }) {
            // One change at a time; the director orders this one again.
            return;
        }
        match order {
            Order::Transfer { to } => {
                if let Some(to) = self.shard.replica_on(*to) {
                    self.hand_to(to, &members, live, now);
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
                if members.learners.contains(&replica) && self.holds_up(replica, live, now) {
                    self.change(replica, MemberKind::Voter);
                }
            }
            Order::Remove { replica } => {
                let replica = ReplicaId(*replica);
                if members.contains(replica) {
                    self.let_go(replica, &members, live, now);
                }
            }
            // It is for a replica that need not lead.
            Order::Recover { .. } => {}
            Order::Split { child, slots } => _ = self.shard.split(*child, slots),
        }
    }

    /// Makes this replica the only member, as an operator has asked, unless its group has a leader that lives.
    pub(super) fn go_on_alone(&mut self, me: ReplicaId, live: &LiveNodes, now: Moment, later: &mut replica::LogWrite) {
        let led = self.shard.leader_node().is_some_and(|node| live.lives(node, now));
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
    fn hand_to(&mut self, to: ReplicaId, members: &Members, live: &LiveNodes, now: Moment) {
        let settled = self.shard.node_of(to).is_some_and(|node| live.settled(node, now));
        if settled && members.voters.contains(&to) && self.shard.can_write() && self.holds_up(to, live, now) {
            self.shard.transfer(to);
        }
    }

    /// Whether a follower answers and has nearly everything.
    fn holds_up(&self, id: ReplicaId, live: &LiveNodes, now: Moment) -> bool {
        let replica = self.shard.replica();
        let last = replica.status().last;
        let lives = self.shard.node_of(id).is_some_and(|node| live.lives(node, now));
        let near = |of: &replica::FollowerState| of.active && !of.snapshot && of.matched + NEAR_ENTRIES >= last;
        lives && replica.followers().iter().any(|of| of.id == id && of.matched > 0 && near(of))
    }

    /// Removes a member, if the voters that stay are a majority of themselves that answers and has everything. A leader
    /// that is to go hands over instead.
    fn let_go(&mut self, id: ReplicaId, members: &Members, live: &LiveNodes, now: Moment) {
        let me = self.shard.replica().me();
        if members.voters.contains(&id) {
            let stay: Vec<ReplicaId> = members.voters.iter().copied().filter(|voter| *voter != id).collect();
            let sound = stay.iter().copied().filter(|voter| *voter == me || self.holds_up(*voter, live, now));
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
        log::debug!("shard {}: replica {id} is to be {kind:?}: {done}", self.shard.handle().id());
    }
}

/// All replicas of one worker.
///
/// Invariant: a replica is in `busy` at most once; `HostedReplica::busy` says whether it is.
#[derive(Default)]
pub(super) struct Replicas {
    /// By the number of the shard.
    by_shard: Vec<Option<HostedReplica>>,
    /// Shards with something to propose or to collect.
    busy: Vec<ShardId>,
}

impl Replicas {
    pub(super) fn get(&self, shard: ShardId) -> Option<&HostedReplica> {
        self.by_shard.get(shard.0 as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, shard: ShardId) -> Option<&mut HostedReplica> {
        self.by_shard.get_mut(shard.0 as usize)?.as_mut()
    }

    pub(super) fn insert(&mut self, shard: ShardId, hosted: HostedReplica) {
        let at = shard.0 as usize;
        if self.by_shard.len() <= at {
            self.by_shard.resize_with(at + 1, || None);
        }
        self.by_shard[at] = Some(hosted);
    }

    pub(super) fn remove(&mut self, shard: ShardId) -> Option<HostedReplica> {
        let hosted = self.by_shard.get_mut(shard.0 as usize)?.take()?;
        self.busy.retain(|busy| *busy != shard);
        Some(hosted)
    }

    /// All shards that may have a replica here, in order.
    pub(super) fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.by_shard.len() as u32).map(ShardId)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HostedReplica> {
        self.by_shard.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut HostedReplica> {
        self.by_shard.iter_mut().flatten()
    }

    /// A shard has something to do; nothing if it has no replica here.
    pub(super) fn touch(&mut self, shard: ShardId) {
        if let Some(Some(hosted)) = self.by_shard.get_mut(shard.0 as usize)
            && !hosted.busy
        {
            hosted.busy = true;
            self.busy.push(shard);
        }
    }

    /// The shards with something to do.
    pub(super) fn busy(&self) -> &[ShardId] {
        &self.busy
    }

    /// Takes the list of shards with something to do. `put_back` returns its memory.
    pub(super) fn take_busy(&mut self) -> Vec<ShardId> {
        let busy = std::mem::take(&mut self.busy);
        for shard in &busy {
            if let Some(hosted) = self.get_mut(*shard) {
                hosted.busy = false;
            }
        }
        busy
    }

    /// Gives an emptied list back, so that its memory is used again.
    pub(super) fn put_back(&mut self, mut list: Vec<ShardId>) {
        list.append(&mut self.busy);
        self.busy = list;
    }
}

/// Whether a replica asks for a vote, or whether it would be given one.
pub(super) fn asks_for_vote(message: &Message) -> bool {
    matches!(message.get_msg_type(), MessageType::MsgRequestVote | MessageType::MsgRequestPreVote)
}
