//! A store in a world of its own: nodes, disks, network, clients and an operator, moved by one schedule.
//!
//! Everything follows from the seed. After every event at a node its round is run, and what must always hold is checked.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::check::maps::Maps;
use crate::check::raft::Group;
use crate::check::reads::Reads;
use crate::check::removals::Removals;
use crate::check::splits::Splits;
use crate::check::weak::Weak;
use crate::client::Client;
use crate::event::{Event, NodeEvent, Place};
use crate::history::History;
use crate::host::Host;
use crate::network::Network;
use crate::plan::Plan;
use crate::recovery::Recovery;
use crate::schedule::{MILLISECOND, Micros, SECOND, Schedule};
use crate::shaping::Shaping;
use crate::trace::Trace;
use crate::workload::Workload;
use cluster::{Map, NodeInfo, Routes};
use node::control::Shape;
use node::core::TICK_MS;
use replica::LogStore;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use vocab::{Moment, NodeId, Prng, ShardId, Slot};

/// How far a node's time may be from the truth: what its steady clock drifts while it hears of no majority.
const TIME_SLACK_MS: u64 = 10_000;

/// The result of anything in the world; the error is what a checker found.
pub type Outcome = Result<(), String>;

/// What a run counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Crashes of nodes.
    pub crashes: u64,
    /// Snapshots that arrived.
    pub snapshots: u64,
    /// Changes of a group's members.
    pub changes: u64,
    /// Requests that were answered with what they asked for.
    pub answered: u64,
    /// Elections that were won.
    pub elections: u64,
    /// Shards that were split off.
    pub splits: u64,
    /// Shards that went on without their majority.
    pub recoveries: u64,
}

/// A simulated store: nodes, disks, network, clients and an operator.
pub struct World {
    pub(crate) schedule: Schedule<Event>,
    pub(crate) trace: Trace,
    pub(crate) prng: Prng,
    pub(crate) network: Network,
    pub(crate) hosts: Vec<Host>,
    /// Events for nodes that stand still.
    pub(crate) held: Vec<VecDeque<NodeEvent>>,
    pub(crate) plan: Plan,
    pub(crate) bug: Option<Bug>,
    /// The newest map that the metadata group has made, and the way through it.
    pub(crate) map: Option<Arc<Map>>,
    pub(crate) routes: Option<Routes>,
    pub(crate) maps: Maps,
    pub(crate) removals: Removals,
    pub(crate) splits: Splits,
    pub(crate) groups: BTreeMap<ShardId, Group>,
    pub(crate) history: History,
    /// Operations that have cleared a shard, and which.
    pub(crate) cleared: BTreeMap<usize, ShardId>,
    /// Groups of keys that began anew, by an operator's order.
    pub(crate) recoveries: BTreeMap<usize, Recovery>,
    pub(crate) reads: Reads,
    pub(crate) weak: Weak,
    pub(crate) workload: Workload,
    pub(crate) clients: Vec<Client>,
    pub(crate) shaping: Shaping,
    /// All faults have stopped.
    pub(crate) healing: bool,
    /// Clients ask nothing new.
    pub(crate) closing: bool,
    pub(crate) counts: Counts,
}

/// The node's id at a place.
pub fn node_id(place: Place) -> NodeId {
    NodeId(place as u64 + 1)
}

/// The place of a node.
pub fn place_of(node: NodeId) -> Place {
    node.0 as usize - 1
}

impl World {
    /// The world of a seed, at its beginning.
    pub fn new(seed: u64, bug: Option<Bug>, nodes: Option<usize>, trace: Trace) -> Self {
        let mut prng = Prng::new(seed);
        let plan = match nodes {
            Some(nodes) => Plan::large(nodes, &mut prng),
            None => Plan::draw(&mut prng),
        };
        let plan = bug.map_or(plan, |bug| plan.exposing(bug));
        let info = |place: Place| NodeInfo {
            id: node_id(place),
            peer_address: format!("node{place}:1"),
            client_host: format!("node{place}"),
            client_port: 1,
            zone: if plan.zones > 1 { format!("zone{}", place % plan.zones) } else { String::new() },
            capacity: 1,
        };
        let mut world = Self {
            schedule: Schedule::default(),
            trace,
            network: Network::new(plan.nodes, prng.fork()),
            hosts: (0..plan.nodes).map(|place| Host::new(info(place))).collect(),
            held: (0..plan.nodes).map(|_| VecDeque::new()).collect(),
            plan,
            bug,
            routes: None,
            map: None,
            maps: Maps::default(),
            removals: Removals::default(),
            splits: Splits::default(),
            cleared: BTreeMap::new(),
            recoveries: BTreeMap::new(),
            groups: BTreeMap::new(),
            history: History::default(),
            reads: Reads::default(),
            weak: Weak::default(),
            workload: Workload::new(plan.groups, plan.work, prng.fork()),
            clients: (0..plan.clients).map(|_| Client::default()).collect(),
            shaping: Shaping::default(),
            healing: false,
            closing: false,
            counts: Counts::default(),
            prng,
        };
        if plan.faults.network {
            world.network.degrade(plan.severity);
        }
        if let Some(bug) = bug {
            world.hosts.iter_mut().for_each(|host| host.disk.put_in(bug));
        }
        let at = world.schedule.now();
        world.trace.line(at, format_args!("seed {seed}: {plan:?}"));
        for place in 0..plan.nodes {
            let delay = world.prng.below(if place < plan.first { 50 * MILLISECOND } else { 20 * SECOND });
            world.schedule.after(delay, Event::Start(place));
        }
        for client in 0..plan.clients {
            let delay = world.prng.between(0, 1000) * MILLISECOND;
            world.schedule.after(delay, Event::Think(client));
        }
        world.schedule.after(plan.fault_every_ms * MILLISECOND, Event::Fault);
        let init = world.prng.below(3 * SECOND);
        world.schedule.after(init, Event::Operate);
        world
    }

    /// Moves to the next event; false if there is none.
    pub fn step(&mut self) -> Result<bool, String> {
        let Some(event) = self.schedule.advance() else { return Ok(false) };
        let now = self.schedule.now();
        self.trace.line(now, format_args!("{event}"));
        match event {
            Event::At(place, life, event) => self.at_node(place, life, event)?,
            Event::Think(client) => self.think(client),
            Event::Reply(client, operation, answer, leader) => self.reply(client, operation, answer, leader)?,
            Event::Impatient(client, operation) => self.impatient(client, operation)?,
            Event::Again(client, operation) => self.again(client, operation),
            Event::Fault => self.fault()?,
            Event::Start(place) => self.start(place)?,
            Event::Resume(place) => self.resume(place)?,
            Event::Mend(place) => self.mend(place),
            Event::SetClock(place) => self.hosts[place].clock.set_right(),
            Event::Join => self.network.join(),
            Event::Operate => self.operate()?,
        }
        Ok(true)
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Micros {
        self.schedule.now()
    }

    /// The wall clock of a node whose clock is right.
    pub(crate) fn wall_ms(&self) -> u64 {
        crate::clock::BEGIN_WALL_MS + self.now() / MILLISECOND
    }

    /// What a node's own clocks show.
    pub(crate) fn raw_moment(&self, place: Place) -> Moment {
        self.hosts[place].clock.read(self.schedule.now())
    }

    /// The time as a node has it: the store's, as far as it knows that.
    pub(crate) fn moment(&self, place: Place) -> Moment {
        let raw = self.raw_moment(place);
        match &self.hosts[place].process {
            Some(process) if self.bug != Some(Bug::FollowWall) => process.clock.read(raw),
            _ => raw,
        }
    }

    /// Holds a node's time to the truth, however its own wall clock jumps.
    pub(crate) fn check_time(&self, place: Place) -> Outcome {
        let (has_ms, true_ms) = (self.moment(place).wall_ms, self.wall_ms());
        if has_ms.abs_diff(true_ms) > TIME_SLACK_MS {
            return Err(format!("the time of node {} is {has_ms}, and in truth it is {true_ms}", place + 1));
        }
        Ok(())
    }

    pub(crate) fn note(&mut self, text: std::fmt::Arguments<'_>) {
        self.trace.line(self.schedule.now(), text);
    }

    /// Something is to come to the process that runs at a place now.
    pub(crate) fn later(&mut self, delay: Micros, place: Place, event: NodeEvent) {
        let life = self.hosts[place].life;
        self.schedule.after(delay, Event::At(place, Some(life), event));
    }

    /// The shard that owns a slot, by the newest map and the splits that have been seen since; the metadata group as long
    /// as there is none.
    pub(crate) fn shard_of(&self, slot: Slot) -> ShardId {
        self.routes.as_ref().map_or(ShardId::META, |routes| self.splits.owner(routes.shard_of(slot), slot))
    }

    fn at_node(&mut self, place: Place, life: Option<u64>, event: NodeEvent) -> Outcome {
        let host = &mut self.hosts[place];
        if life.is_some_and(|life| life != host.life) || host.process.is_none() {
            self.arrive_at_dead_node(event);
            return Ok(());
        }
        if host.paused {
            self.held[place].push_back(event);
            return Ok(());
        }
        self.deliver(place, event)
    }

    /// What comes to a node that is down.
    fn arrive_at_dead_node(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Request(operation, ..) => self.refuse(operation, None),
            NodeEvent::Rows(task) => {
                let from = self.leader_place(task.shard);
                if let Some(from) = from {
                    self.later(MILLISECOND, from, NodeEvent::RowsSent(task.shard, task.replica, false));
                }
            }
            _ => {}
        }
    }

    /// A node that is down starts.
    pub(crate) fn start(&mut self, place: Place) -> Outcome {
        if self.hosts[place].process.is_some() || self.shaping.is_gone(place) {
            return Ok(());
        }
        // Which of two clocks that differ is right cannot be told by a node that has met no other.
        self.hosts[place].clock.set_right();
        let (now, seed) = (self.moment(place), self.prng.next_u64());
        let shape = Shape { shards: self.plan.shards, replication_factor: self.plan.replication };
        self.hosts[place].boot(now, seed, shape, self.plan.keep_bytes);
        self.began(place);
        self.link_up(place);
        let tick = self.prng.below(TICK_MS * MILLISECOND);
        self.later(tick, place, NodeEvent::Tick);
        let flush = self.prng.between(1, 2 * self.plan.flush_every_ms);
        self.later(flush * MILLISECOND, place, NodeEvent::Flush);
        // Clients may be served before anything of the log is applied.
        if self.prng.happens(500) { Ok(()) } else { self.round(place) }
    }

    /// Replicas of a node that have been opened are new to the checkers.
    pub(crate) fn began(&mut self, place: Place) {
        let Some(process) = &self.hosts[place].process else { return };
        for shard in process.core.shards() {
            let id = shard.view().id();
            self.groups.entry(id).or_default().began(shard.replica().me());
            let state = self.hosts[place].disk.log.state(id).ok().flatten();
            let committed = state.map_or(0, |state| state.hard_state.commit);
            self.weak.opened((place, self.hosts[place].life, id), committed);
        }
        let refused: Vec<String> =
            process.refused.iter().map(|((shard, _), why)| format!("shard {shard} is refused: {why}")).collect();
        for text in refused {
            self.note(format_args!("node {} {text}", place + 1));
        }
    }

    /// A node that stood still goes on: everything that it missed comes at once.
    pub(crate) fn resume(&mut self, place: Place) -> Outcome {
        self.hosts[place].paused = false;
        if self.prng.happens(800) {
            // The turn in which it stood still goes on, by the clock of when it began: clients' requests are there.
            let (requests, others) = std::mem::take(&mut self.held[place])
                .into_iter()
                .partition(|event| matches!(event, NodeEvent::Request(..)));
            self.held[place] = others;
            let requests: VecDeque<NodeEvent> = requests;
            for request in requests {
                self.deliver(place, request)?;
            }
        }
        self.hosts[place].turn = None;
        while let Some(event) = self.held[place].pop_front() {
            self.deliver(place, event)?;
        }
        Ok(())
    }

    /// The process at a place is gone. Of its log, what was written and not fsynced may be lost.
    pub(crate) fn crash(&mut self, place: Place) {
        let now = self.now();
        let may_lose = self.plan.sync || self.may_lose_power(place);
        let Some(process) = self.hosts[place].crash(now) else { return };
        self.counts.crashes += 1;
        let disk = &self.hosts[place].disk;
        if let Some((write, _)) = process.writing
            && self.prng.happens(500)
            && !disk.log.inner().is_full()
        {
            // It had reached the disk, unacknowledged.
            _ = replica::LogStore::write(&*disk.log, write, false);
        }
        let unsynced = disk.log.inner().unsynced();
        let kept = if may_lose { self.prng.below(unsynced as u64 + 1) as usize } else { unsynced };
        disk.crash_keeping(kept);
        self.note(format_args!("node {} crashes; {kept} of {unsynced} log writes are kept", place + 1));
        for event in std::mem::take(&mut self.held[place]) {
            self.arrive_at_dead_node(event);
        }
        self.link_down(place);
    }

    /// The node that leads a shard, as the first node has it that believes to lead in the newest term.
    pub(crate) fn leader_place(&self, shard: ShardId) -> Option<Place> {
        let leads = |place: &Place| {
            let process = self.hosts[*place].process.as_ref()?;
            let replica = process.core.shard(shard)?.replica();
            replica.is_leader().then(|| replica.term())
        };
        let found = (0..self.hosts.len()).filter_map(|place| Some((leads(&place)?, place)));
        found.max_by_key(|(term, place)| (*term, usize::MAX - place)).map(|(_, place)| place)
    }
}
