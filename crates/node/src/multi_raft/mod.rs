//! All replicas of one worker, composed: what is written, sent and applied, and when. No socket, clock or thread.
//!
//! One round of its shell: `receive` and `submit` what has come, `pump` (messages go out at once, what must be kept is in
//! the log write), hand the log write over, `apply` what is committed, and `logged` once the log has it. A message that
//! speaks of what is not yet in the log is held back until then.

mod bulk;
mod hibernate;
mod hosted_replica;
mod live_nodes;

pub use bulk::BULK_BYTES_MIN;
pub use hibernate::HIBERNATE_AFTER_TICKS;

use crate::KeyHash;
use crate::format::key_bound::KeyBound;
use crate::peer_protocol::{Order, PeerMessage};
use crate::shard::{AppliedAside, ArrivedSnapshot, CpuPrefetch, Effects, LEASE_US, Shard, Ticket, Write};
use crate::shard_handle::load::LoadSampler;
use crate::store_clock::StoreClock;
use bulk::Bulk;
use cluster::{DATABASES_SETTING, Databases, Map};
use hosted_replica::{HostedReplica, Replicas, asks_for_vote};
use live_nodes::{LiveNodes, SILENCE_US};
use replica::{LogEntries, LogWrite, Message};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use storage::Step;
use vocab::{Database, Moment, NodeId, ReplicaId, ShardId};

/// How often `tick` is to be called, in ms: one tick of every group's clock.
pub const TICK_MS: u64 = 50;
/// Ticks between two looks at what need not be looked at each time.
const LOOK_TICKS: u64 = 20;
/// A tick that comes so much later than the one before, in µs, says that this thread had no processor or much to do.
/// Leaders' signs of life are due by then: followers' clocks go on meanwhile.
const LATE_TICK_US: u64 = 3 * TICK_MS * 1000;
/// Bytes of entries that are read from the log at once for followers that were away. More are read from the disk: each
/// of its blocks has entries of many shards.
const LOG_READ_BYTES: u64 = 256 << 10;
/// Such reads that may be under way.
const LOG_READS_MAX: usize = 4;

/// The log write of a round, by shard: what to hand to `logged`.
pub type Logging = Vec<(ShardId, u64)>;

/// All replicas of one worker; in the simulator, of one node.
pub struct MultiRaft {
    node: NodeId,
    replicas: Replicas,
    /// Shards with committed entries that are not applied yet.
    collected: Vec<ShardId>,
    /// To be written with the next round: what applying has changed in the log, and what came while no log write could begin.
    later: LogWrite,
    /// Of the latter, what to hand to `logged`.
    later_logging: Logging,
    /// Reads of the log for followers that are under way.
    log_reads: usize,
    /// Shards that wait until there are fewer.
    waits_for_log: Vec<ShardId>,
    live: LiveNodes,
    map: Option<Arc<Map>>,
    /// The most keys of databases, as the map says; none if none has a bound.
    key_bounds: Option<Arc<[KeyBound]>>,
    /// The last request for a vote to each part that is being split off and is not here yet. It may be half a moment late.
    early: BTreeMap<ShardId, Message>,
    ticks: u64,
    /// When the last tick came, in µs of the steady clock.
    ticked_us: u64,
    /// Used again.
    cpu_prefetch: CpuPrefetch,
    /// Of writes.
    sampler: LoadSampler,
    clock: Arc<StoreClock>,
    /// A log write is under way for too long.
    log_is_stuck: bool,
    bulk: Bulk,
}

impl MultiRaft {
    /// Nothing yet, on that node, which has that clock.
    #[must_use]
    pub fn new(node: NodeId, clock: Arc<StoreClock>) -> Self {
        Self {
            node,
            replicas: Replicas::default(),
            collected: Vec::new(),
            later: LogWrite::default(),
            later_logging: Logging::new(),
            log_reads: 0,
            waits_for_log: Vec::new(),
            live: LiveNodes::default(),
            map: None,
            key_bounds: None,
            early: BTreeMap::new(),
            ticks: 0,
            ticked_us: 0,
            cpu_prefetch: CpuPrefetch::default(),
            sampler: LoadSampler::new(node.0),
            clock,
            log_is_stuck: false,
            bulk: Bulk::default(),
        }
    }

    /// Takes a replica that has been opened. `fresh`: it has never been part of anything, so it has promised nothing.
    pub fn adopt(&mut self, shard: Shard, fresh: bool, now: Moment) {
        let replica = shard.replica();
        // The first voter of a store's first map leads: it need not wait for the others to time out.
        let stands = fresh && replica.members().voters.first() == Some(&replica.me());
        self.take(shard, fresh, stands, now);
    }

    /// `stands`: for election, at once. The only voter does anyway.
    fn take(&mut self, mut shard: Shard, fresh: bool, stands: bool, now: Moment) {
        if let Some(map) = &self.map {
            place(&mut shard, map);
            shard.bound_keys(self.key_bounds.clone());
        }
        let id = shard.handle().id();
        let mut hosted = HostedReplica::new(shard, fresh, now);
        if stands || hosted.shard.replica().is_alone() {
            hosted.campaign();
        }
        self.replicas.insert(id, hosted);
        self.replicas.touch(id);
    }

    /// Takes a replica whose tree was forked. Where its parent is led, it stands for election at once, and again until
    /// the group has a leader: the others may have forked theirs a little later.
    pub fn adopt_child(&mut self, mut shard: Shard, leads: bool, now: Moment) {
        shard.replica_mut().begin_anew();
        let id = shard.handle().id();
        self.take(shard, true, false, now);
        let early = self.early.remove(&id);
        let Some(hosted) = self.replicas.get_mut(id) else { return };
        if leads {
            hosted.be_eager();
        }
        if let Some(message) = early {
            hosted.step(message, now);
        }
    }

    /// The fork that a shard waits for is made, or cannot be.
    pub fn forked(&mut self, shard: ShardId, outcome: Result<(), String>) {
        let Some(hosted) = self.replicas.get_mut(shard) else { return };
        if hosted.shard.forked(outcome) {
            self.collected.push(shard);
            self.replicas.touch(shard);
        }
    }

    /// The rows that `Effects::prefetch` asked for are in memory.
    pub fn prefetched(&mut self, shard: ShardId) {
        let Some(hosted) = self.replicas.get_mut(shard) else { return };
        if hosted.shard.prefetched() {
            self.collected.push(shard);
            self.replicas.touch(shard);
        }
    }

    /// An entry has been evaluated by another thread.
    pub fn applied_aside(&mut self, applied: AppliedAside) {
        let shard = applied.shard();
        let Some(hosted) = self.replicas.get_mut(shard) else { return };
        if hosted.shard.applied_aside(applied) {
            self.collected.push(shard);
            self.replicas.touch(shard);
        }
    }

    /// Entries were read from the log for followers.
    pub fn log_was_read(&mut self, read: LogEntries) {
        self.log_reads -= 1;
        let shard = read.shard();
        if let Some(hosted) = self.replicas.get_mut(shard) {
            hosted.shard.replica_mut().log_was_read(read);
            self.replicas.touch(shard);
        }
        for shard in std::mem::take(&mut self.waits_for_log) {
            self.replicas.touch(shard);
        }
    }

    /// Has entries read for followers of a shard, which come in messages later or, where the shell has no thread for
    /// that, in those that are ready next.
    fn read_log(&mut self, shard: ShardId, effects: &mut dyn Effects) {
        if self.log_reads >= LOG_READS_MAX {
            if !self.waits_for_log.contains(&shard) {
                self.waits_for_log.push(shard);
            }
            return;
        }
        let Some(hosted) = self.replicas.get_mut(shard) else { return };
        let Some(read) = hosted.shard.replica_mut().begin_log_read(LOG_READ_BYTES) else { return };
        match effects.read_log(read) {
            None => self.log_reads += 1,
            Some(read) => hosted.shard.replica_mut().log_was_read(read.run()),
        }
    }

    /// Gives a replica away, and with it what was still to be written of it. Not while a log write is under way.
    pub fn release(&mut self, shard: ShardId) -> Option<Shard> {
        let hosted = self.replicas.remove(shard)?;
        hosted.shard.handle().retire();
        self.later.drop_group(shard);
        self.later_logging.retain(|(of, _)| *of != shard);
        self.collected.retain(|collected| *collected != shard);
        Some(hosted.shard)
    }

    /// One of its replicas.
    #[must_use]
    pub fn shard(&self, shard: ShardId) -> Option<&Shard> {
        Some(&self.replicas.get(shard)?.shard)
    }

    /// One of its replicas.
    pub fn shard_mut(&mut self, shard: ShardId) -> Option<&mut Shard> {
        Some(&mut self.replicas.get_mut(shard)?.shard)
    }

    /// All of them, by shard.
    pub fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.replicas.iter().map(|hosted| &hosted.shard)
    }

    /// All of them, by shard.
    pub fn shards_mut(&mut self) -> impl Iterator<Item = &mut Shard> {
        self.replicas.iter_mut().map(|hosted| &mut hosted.shard)
    }

    /// How many replicas do not hibernate: for figures.
    #[must_use]
    pub fn awake(&self) -> usize {
        self.replicas.iter().filter(|hosted| !hosted.hibernates()).count()
    }

    /// There is a newer map.
    pub fn map_changed(&mut self, map: Arc<Map>) {
        self.key_bounds = key_bounds_of(&map);
        for hosted in self.replicas.iter_mut() {
            place(&mut hosted.shard, &map);
            hosted.shard.bound_keys(self.key_bounds.clone());
        }
        self.replicas.shards().for_each(|shard| self.replicas.touch(shard));
        self.early.retain(|shard, _| map.splits.contains_key(shard));
        self.map = Some(map);
    }

    /// Takes a write for a shard; false if it was refused, with an answer.
    pub fn submit(
        &mut self,
        shard: ShardId,
        write: &Write,
        keys: &[KeyHash],
        ticket: Ticket,
        effects: &mut dyn Effects,
    ) -> bool {
        let Some(hosted) = self.replicas.get_mut(shard) else {
            effects.not_leader(shard, &ticket);
            return false;
        };
        hosted.wake();
        let slot = ticket.slot;
        let taken = hosted.shard.submit(write, keys, ticket, effects);
        if taken {
            self.sampler.note(hosted.shard.handle(), slot, write.operations());
        }
        self.replicas.touch(shard);
        taken
    }

    /// A read of the shard waits for its leader to be confirmed.
    pub fn ask_lease(&mut self, shard: ShardId, now: Moment) {
        if let Some(hosted) = self.replicas.get_mut(shard) {
            hosted.wake();
            hosted.shard.ask_lease(now);
            self.replicas.touch(shard);
        }
    }

    /// A shard has something to do that it did not say itself.
    pub fn look_at(&mut self, shard: ShardId) {
        if self.shard(shard).is_some() {
            self.replicas.touch(shard);
        }
    }

    /// A node is heard of: whatever it said.
    pub fn heard(&mut self, from: NodeId, now: Moment) {
        self.live.heard(from, now);
    }

    /// The link to a node has broken.
    pub fn link_down(&mut self, node: NodeId) {
        self.live.lost(node);
        for shard in self.replicas.shards() {
            let Some(hosted) = self.replicas.get_mut(shard) else { continue };
            let led_by_it = hosted.hibernates_with() == Some(node);
            if let Some(replica) = hosted.shard.replica_on(node) {
                hosted.shard.replica_mut().report_unreachable(replica);
            }
            if led_by_it {
                hosted.wake();
            }
            self.replicas.touch(shard);
        }
    }

    /// A message of another node, about shards of this worker.
    pub fn receive(&mut self, from: NodeId, message: PeerMessage, now: Moment, effects: &mut dyn Effects) {
        self.live.heard(from, now);
        match message {
            PeerMessage::Raft { shard, message } => {
                if let Some(hosted) = self.replicas.get_mut(shard) {
                    hosted.step(message, now);
                    self.replicas.touch(shard);
                } else if self.map.as_ref().is_some_and(|map| map.splits.contains_key(&shard))
                    && asks_for_vote(&message)
                {
                    self.early.insert(shard, message);
                }
            }
            PeerMessage::Hibernate { shards } => {
                // A follower that has more to do needs its leader's heartbeats: without them it would stand for election.
                let mut awake = Vec::new();
                for (shard, term, committed) in shards {
                    if let Some(hosted) = self.replicas.get_mut(shard)
                        && !hosted.hibernate_with(from, term, committed)
                    {
                        awake.push(shard);
                    }
                }
                if !awake.is_empty() {
                    effects.send(from, PeerMessage::Wake { shards: awake });
                }
            }
            PeerMessage::Wake { shards } => shards.iter().for_each(|shard| self.woken(*shard, now)),
            PeerMessage::Order { shard, order } => self.order(shard, &order, now),
            PeerMessage::Propose { change } => {
                // The sender will see the map change, or send it again.
                self.submit(ShardId::META, &Write::Change(change), &[], Ticket::NONE, effects);
            }
            _ => {}
        }
    }

    /// A snapshot for one of the shards is here as a whole.
    pub fn snapshot_arrived(&mut self, shard: ShardId, arrived: ArrivedSnapshot) {
        let Some(hosted) = self.replicas.get_mut(shard) else { return };
        hosted.wake();
        hosted.shard.step_snapshot(arrived);
        self.replicas.touch(shard);
    }

    /// A snapshot was sent, or could not be.
    pub fn snapshot_sent(&mut self, shard: ShardId, to: ReplicaId, whole: bool) {
        let Some(hosted) = self.replicas.get_mut(shard) else { return };
        hosted.shard.replica_mut().report_snapshot(to, whole);
        self.replicas.touch(shard);
    }

    /// Tells whether a log write is under way for so long that another node should lead.
    pub fn log_is_stuck(&mut self, is_stuck: bool) {
        self.log_is_stuck = is_stuck;
    }

    /// So many bytes of one request are received or sent.
    pub fn note_bulk(&mut self, bytes: usize, now: Moment) {
        self.bulk.note(bytes, now);
    }

    /// For how long, in µs, steps of this node may take longer than on an idle machine: large requests are under way.
    #[must_use]
    pub fn bulk_left_us(&self, now: Moment) -> u64 {
        self.bulk.left_us(now)
    }

    /// 50 ms have passed.
    pub fn tick(&mut self, now: Moment, effects: &mut dyn Effects) {
        self.ticks += 1;
        let is_late = now.mono_us > self.ticked_us + LATE_TICK_US;
        self.ticked_us = now.mono_us;
        let mut hibernating = Vec::new();
        let (look, is_off) = (self.ticks.is_multiple_of(LOOK_TICKS), self.clock.is_off());
        let is_bulk = self.bulk.is_under_way(now);
        for shard in self.replicas.shards() {
            self.ask_how_old(shard, effects);
            let alive = self.live.as_of(now, is_bulk);
            let Some(hosted) = self.replicas.get_mut(shard) else { continue };
            if hosted.hibernates() {
                if hosted.hibernates_with().is_some_and(|node| !alive.has(node)) {
                    hosted.wake();
                    // Nothing of its leader has come for longer than it has promised to wait.
                    hosted.shard.replica_mut().end_promise();
                } else if look && hosted.leads_at_rest_alone(&alive) {
                    // Awake, it finds out, and leads no more.
                    hosted.wake();
                } else if self.ticks.is_multiple_of(2) {
                    hosted.shard.housekeep(now);
                }
                let may_lead = hosted.shard.can_write() && !is_off && !hosted.shard.handle().damage().is_known();
                if !hosted.shard.has_queued() && (hosted.hibernates_with().is_some() || may_lead) {
                    continue;
                }
                hosted.wake();
            }
            if let Some(detail) = hosted.shard.broken() {
                // Its group must not wait for it: it is not ticked, and hears nothing, so another is elected.
                let detail = detail.to_owned();
                hosted.shard.fail_pending(&detail, effects);
                continue;
            }
            let is_unfit = is_off || hosted.shard.handle().damage().is_known();
            let splits = self.map.as_ref().is_some_and(|map| map.splits.contains_key(&shard));
            // Before the clock brings heartbeats. Of a split the map is told until it knows.
            if !splits && !is_unfit && hosted.hibernate_if_idle() {
                hibernating.push(shard);
                continue;
            }
            let mut busy = hosted.tick(self.ticks, is_unfit, &alive);
            if is_late {
                hosted.shard.replica_mut().ping();
                busy |= hosted.shard.replica().is_leader();
            }
            busy |= hosted.stand_if_eager() | hosted.shard.go_on_splitting(now);
            hosted.shard.housekeep(now);
            busy |= hosted.renew_lease(now) | hosted.shard.wants_retry();
            hosted.shard.expire(now, effects);
            if look {
                hosted.shard.tell_followers();
                if splits && hosted.has_begun(now) {
                    effects.split_ended(shard);
                }
                let may_lead = |node| !(is_off && self.clock.is_node_off(node));
                busy |= (is_unfit || self.log_is_stuck || !hosted.shard.can_write())
                    && hosted.hand_over(&self.live, may_lead, now);
            }
            if busy || hosted.shard.has_queued() || hosted.shard.replica().has_ready() {
                self.replicas.touch(shard);
            }
        }
        self.tell_hibernating(&hibernating, effects);
    }

    /// Proposes what was submitted and collects what there is to do: messages go out, what must be kept is added to
    /// `write`. Answers what to hand to `logged` once the log has it.
    pub fn pump(&mut self, now: Moment, write: &mut LogWrite, effects: &mut dyn Effects) -> Logging {
        write.append(&mut self.later);
        let mut logging = std::mem::take(&mut self.later_logging);
        let mut busy = self.replicas.take_busy();
        let mut again = Vec::new();
        for shard in busy.drain(..) {
            let Some(hosted) = self.replicas.get_mut(shard) else { continue };
            if hosted.shard.broken().is_some() {
                continue;
            }
            if hosted.shard.propose(now, effects) {
                // A large request is copied into its entry, in slices.
                self.bulk.note(BULK_BYTES_MIN, now);
                again.push(shard);
            }
            if hosted.shard.replica().is_to_read_log() {
                self.read_log(shard, effects);
            }
            let Some(hosted) = self.replicas.get_mut(shard) else { continue };
            match hosted.shard.collect(write, effects) {
                Ok(0) => {}
                Ok(number) => logging.push((shard, number)),
                Err(e) => hosted.shard.breaks(format!("shard {shard}: {e}")),
            }
            if hosted.shard.replica().is_to_read_log() && self.log_reads < LOG_READS_MAX {
                again.push(shard);
            }
            if hosted.shard.has_collected() {
                self.collected.push(shard);
            }
        }
        self.bulk.note(write.bytes(), now);
        self.replicas.put_back(busy);
        again.into_iter().for_each(|shard| self.replicas.touch(shard));
        logging
    }

    /// While no log write may begin: lets out what needs none. Otherwise heartbeats and their answers, of all shards, would wait
    /// for as long as a large write takes, and leaders would lose their followers. A replica that has entries for the log
    /// lets out what says nothing of those, heartbeats above all.
    pub fn pump_messages(&mut self, effects: &mut dyn Effects) {
        let mut busy = self.replicas.take_busy();
        for &shard in &busy {
            let Some(hosted) = self.replicas.get_mut(shard) else { continue };
            let replica = hosted.shard.replica();
            if hosted.shard.broken().is_some() {
                continue;
            }
            if replica.needs_log() || !replica.has_ready() {
                hosted.shard.post_unlogged(effects);
                // What it has collected is in the log.
                if hosted.shard.has_yielded() {
                    self.collected.push(shard);
                }
                continue;
            }
            match hosted.shard.collect(&mut self.later, effects) {
                Ok(0) => {}
                Ok(number) => self.later_logging.push((shard, number)),
                Err(e) => hosted.shard.breaks(format!("shard {shard}: {e}")),
            }
            if hosted.shard.has_collected() {
                self.collected.push(shard);
            }
        }
        // They may have more to do once a log write may begin.
        busy.drain(..).for_each(|shard| self.replicas.touch(shard));
        self.replicas.put_back(busy);
    }

    /// Rows that are not in the processor's caches take it longer than all else about a write: those of all shards are
    /// fetched side by side.
    fn fetch_rows(&mut self, collected: &[ShardId]) {
        self.cpu_prefetch.clear();
        let mut parts: SmallVec<[_; 16]> = SmallVec::new();
        for shard in collected {
            let Some(hosted) = self.replicas.get(*shard) else { continue };
            let handle = hosted.shard.handle();
            parts.push((handle, self.cpu_prefetch.add(handle, hosted.shard.entries_to_apply())));
        }
        for step in Step::ALL {
            parts.iter().for_each(|(handle, keys)| self.cpu_prefetch.note(handle, keys.clone(), step));
            self.cpu_prefetch.fetch();
        }
    }

    /// Applies what is committed.
    pub fn apply(&mut self, now: Moment, effects: &mut dyn Effects) {
        let mut collected = std::mem::take(&mut self.collected);
        self.fetch_rows(&collected);
        for shard in collected.drain(..) {
            let Some(hosted) = self.replicas.get_mut(shard) else { continue };
            hosted.shard.apply_collected(now, &mut self.later, effects);
            // One that waits for a fork is told when that is made; what it has queued is not looked at again and again.
            let waits = hosted.shard.has_collected();
            let more = hosted.shard.has_queued() || hosted.shard.replica().has_ready();
            if (more && !waits) || hosted.shard.has_yielded() || !self.later.is_empty() {
                self.replicas.touch(shard);
            }
        }
        self.collected = collected;
    }

    /// The log holds what was in a log write.
    pub fn logged(&mut self, logging: &Logging, effects: &mut dyn Effects) {
        for &(shard, number) in logging {
            if let Some(hosted) = self.replicas.get_mut(shard) {
                hosted.shard.persisted(number, effects);
                self.replicas.touch(shard);
            }
        }
    }

    /// Whether there is something to pump.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.replicas.busy().is_empty()
    }

    /// Whether a shard has left entries that can be applied whether or not a log write may begin.
    #[must_use]
    pub fn has_yielded(&self) -> bool {
        self.busy_shards().any(|shard| shard.has_yielded() && shard.broken().is_none())
    }

    /// The shards that there is something to pump for.
    pub fn busy_shards(&self) -> impl Iterator<Item = &Shard> {
        self.replicas.busy().iter().filter_map(|shard| self.shard(*shard))
    }

    /// Checks what must always hold; called after every step in tests and simulation.
    pub fn validate(&self) {
        self.shards().for_each(Shard::validate);
    }

    fn order(&mut self, shard: ShardId, order: &Order, now: Moment) {
        let Some(hosted) = self.replicas.get_mut(shard) else { return };
        hosted.wake();
        match order {
            Order::Recover { replica } => hosted.go_on_alone(ReplicaId(*replica), &self.live, now, &mut self.later),
            order => hosted.obey(order, &self.live, now),
        }
        self.replicas.touch(shard);
    }

    /// If a read here asks for how old this replica is, its leader is asked. That one may hibernate.
    fn ask_how_old(&mut self, shard: ShardId, effects: &mut dyn Effects) {
        let Some(hosted) = self.replicas.get_mut(shard) else { return };
        if !hosted.shard.handle().freshness().take_wanted() || hosted.shard.replica().is_leader() {
            return;
        }
        // If its leader is gone, it is time to find that out.
        if hosted.hibernates() {
            hosted.wake();
        }
        if let Some(node) = hosted.shard.leader_node() {
            effects.send(node, PeerMessage::Wake { shards: vec![shard] });
        }
    }

    /// A follower of a shard wants to know how old it is.
    fn woken(&mut self, shard: ShardId, now: Moment) {
        if let Some(hosted) = self.replicas.get_mut(shard)
            && hosted.shard.replica().serves()
        {
            hosted.wake();
            hosted.shard.vouch(now);
            self.replicas.touch(shard);
        }
    }

    /// Tells followers that these groups hibernate.
    fn tell_hibernating(&self, shards: &[ShardId], effects: &mut dyn Effects) {
        let mut by_node: BTreeMap<NodeId, Vec<(ShardId, u64, u64)>> = BTreeMap::new();
        for &shard in shards {
            let Some(hosted) = self.replicas.get(shard) else { continue };
            let status = hosted.shard.replica().status();
            for node in hosted.shard.other_nodes(self.node) {
                by_node.entry(node).or_default().push((shard, status.term, status.committed));
            }
        }
        for (node, shards) in by_node {
            effects.send(node, PeerMessage::Hibernate { shards });
        }
    }

    /// Answers all waiting clients, for a shell that cannot write any more.
    pub fn fail_pending(&mut self, reason: &str, effects: &mut dyn Effects) {
        self.shards_mut().for_each(|shard| shard.fail_pending(reason, effects));
    }
}

const _: () = assert!(SILENCE_US >= 10 * TICK_MS * 1000);
// A replica that wakes because its leader is silent has kept the promise on which leases are built.
const _: () = assert!(SILENCE_US > LEASE_US + LEASE_US / 4);

/// The most keys of databases, by slot. What is wrong with the setting is told where it is set.
fn key_bounds_of(map: &Map) -> Option<Arc<[KeyBound]>> {
    let databases: Databases = map.settings.get(DATABASES_SETTING)?.parse().ok()?;
    let bound = |(place, keys_max): (Database, u64)| KeyBound { slot: place.slot(), keys_max };
    let mut bounds: Vec<KeyBound> = databases.keys_max().map(bound).collect();
    bounds.sort_by_key(|bound| bound.slot);
    Some(bounds.into()).filter(|bounds: &Arc<[KeyBound]>| !bounds.is_empty())
}

fn place(shard: &mut Shard, map: &Map) {
    let info = map.shards.get(&shard.handle().id());
    let replicas = info.into_iter().flat_map(|info| &info.replicas);
    shard.place(replicas.map(|replica| (replica.id, replica.node)).collect());
    shard.note_splits(map);
}
