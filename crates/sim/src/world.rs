//! A run's world: a store, its clients, its operator, and what goes wrong, moved by one schedule.
//!
//! Everything follows from the seed. After every event at a node its round is run, and what must always hold is checked.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::check::replicas;
use crate::checkers::{Checkers, Outcome};
use crate::clients::Clients;
use crate::collection_clients::CollectionClients;
use crate::environment::Environment;
use crate::event::{Event, NodeEvent};
use crate::faults::{self, FaultSchedule};
use crate::host::Host;
use crate::hostile::Hostile;
use crate::message_clients::MessageClients;
use crate::nodes::Nodes;
use crate::operator::Operator;
use crate::places::{Place, node_id, place_of};
use crate::plan::Plan;
use crate::planner::layout;
use crate::schedule::{MILLISECOND, SECOND};
use crate::store::Store;
use crate::trace::Trace;
use crate::wires::Wires;
use crate::workload::Workload;
use crate::{casualties, control, message_serving, rounds};
use cluster::placement::{Observed, Why, next_moves};
use cluster::{Map, NodeInfo};
use node::control::Shape;
use node::multi_raft::TICK_MS;
use replica::LogStore as _;
use std::collections::{BTreeSet, VecDeque};
use storage::Span;
use vocab::{Prng, ShardId};

/// What tells the seed of hostile clients from that of the run.
const HOSTILE: u64 = 0x686f_7374_696c_6500;

/// What tells the seed of clients of collections from that of the run.
const COLLECTIONS: u64 = 0x636f_6c6c_6563_7473;

/// What tells the seed of clients that publish and that listen from that of the run.
const MESSAGES: u64 = 0x6d65_7373_6167_6573;

/// What tells the seed of links that keep order from that of the run.
const WIRES: u64 = 0x7769_7265_735f_5f5f;

/// A store, its clients, its operator, and what goes wrong.
pub struct World {
    store: Store,
    clients: Clients,
    hostile: Hostile,
    collections: CollectionClients,
    messages: MessageClients,
    operator: Operator,
    faults: FaultSchedule,
}

impl World {
    /// The world of a seed, at its beginning.
    #[must_use]
    pub fn new(seed: u64, bug: Option<Bug>, nodes: Option<usize>, trace: Trace) -> Self {
        let mut prng = Prng::new(seed);
        let plan = match nodes {
            Some(nodes) => Plan::large(nodes, &mut prng),
            None => Plan::draw(&mut prng),
        };
        let plan = bug.map_or(plan, |bug| plan.exposing(bug));
        let mut env = Environment::new(plan, bug, prng, trace);
        let workload = Workload::new(plan.groups, plan.work, env.fork());
        let mut nodes = Nodes::new((0..plan.nodes).map(|place| Host::new(info(&plan, place))).collect());
        if plan.faults.network {
            env.network().degrade(plan.severity);
        }
        if let Some(bug) = bug {
            nodes.iter_mut().for_each(|host| host.disk.put_in(bug));
        }
        env.note(format_args!("seed {seed}: {plan:?}"));
        for place in 0..plan.nodes {
            let delay = env.below(if place < plan.first { 50 * MILLISECOND } else { 20 * SECOND });
            env.after(delay, Event::Start(place));
        }
        for client in 0..plan.clients {
            let delay = env.between(0, 1000) * MILLISECOND;
            env.after(delay, Event::Think(client));
        }
        env.after(plan.fault_every_ms * MILLISECOND, Event::Fault);
        let init = env.below(3 * SECOND);
        env.after(init, Event::Operate);
        let hostile = Hostile::new(plan.bulk, plan.groups, plan.work.clears, Prng::new(seed ^ HOSTILE));
        hostile.begin(&mut env);
        if let Some(bulk) = plan.bulk {
            env.network().narrow(bulk.bytes_per_ms);
        }
        let (own, expires) = (Prng::new(seed ^ COLLECTIONS), plan.work.expires);
        let mut collections = CollectionClients::new(plan.collection_clients, plan.groups, expires, plan.think_ms, own);
        let wires = Wires::new(plan.nodes, Prng::new(seed ^ WIRES));
        let mut store = Store::new(env, Checkers::new(plan.groups), nodes, wires);
        collections.begin(&mut store);
        let mut messages = MessageClients::new(plan.listeners, Prng::new(seed ^ MESSAGES));
        messages.begin(&mut store);
        Self {
            store,
            clients: Clients::new(plan.clients, workload),
            hostile,
            collections,
            messages,
            operator: Operator::default(),
            faults: FaultSchedule::new(&plan.faults),
        }
    }

    /// Time, chance, the network and the record.
    pub fn env(&mut self) -> &mut Environment {
        &mut self.store.env
    }

    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.store.nodes.count()
    }

    /// Moves to the next event; false if there is none.
    pub fn step(&mut self) -> Result<bool, String> {
        let store = &mut self.store;
        let Some(event) = store.env.advance() else { return Ok(false) };
        match event {
            Event::At(place, life, event) => at_node(store, place, life, event)?,
            Event::Think(client) => self.clients.think(store, client),
            Event::Reply(client, operation, answer, leader) => {
                self.clients.reply(store, client, operation, answer, leader)?;
            }
            Event::Impatient(client, operation) => self.clients.impatient(store, client, operation)?,
            Event::Again(client, operation) => self.clients.again(store, client, operation),
            Event::BulkThink(client) => self.hostile.think(store, client, self.clients.is_closing()),
            Event::BulkReply(client, request, answer, leader) => {
                self.hostile.reply(store, client, request, &answer, leader)?;
            }
            Event::BulkImpatient(client, request) => self.hostile.impatient(store, client, request)?,
            Event::CollectionThink(client) => self.collections.think(store, client),
            Event::CollectionReply(client, tag, told, leader) => {
                self.collections.reply(store, client, tag, &told, leader);
            }
            Event::CollectionImpatient(client, tag) => self.collections.impatient(store, client, tag),
            Event::Listen(number) => self.messages.listen(store, number),
            Event::Publish(number) => self.messages.publish(store, number),
            Event::NotHere(party, leader) => self.messages.not_here(store, party, leader),
            Event::Dial(a, b) => message_serving::dial(store, a, b),
            Event::Fault => self.faults.strike(store, &mut self.operator)?,
            Event::Start(place) => start(store, &self.operator, place)?,
            Event::Resume(place) => resume(store, place)?,
            Event::Mend(place) => faults::mend(store, place),
            Event::SetClock(place) => store.nodes[place].clock.set_right(),
            Event::Join => store.env.network().join(),
            Event::Operate => self.operator.look(store)?,
        }
        Ok(true)
    }

    /// All faults stop.
    pub fn heal(&mut self) {
        faults::heal(&mut self.store);
    }

    /// Clients ask nothing new any more; every key is read once more.
    pub fn close(&mut self) {
        self.clients.close(&mut self.store);
        self.collections.close(&mut self.store);
        self.messages.close(&self.store);
    }

    /// How many plans have ended, those among them that the map has forgotten.
    #[must_use]
    pub fn ended_plans(&self) -> u64 {
        let map = self.store.checks.map();
        map.map_or(0, |map| map.next_plan.saturating_sub(map.open_plans().count() as u64))
    }

    /// Whether every client has got what it wanted.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let are_quiet = self.clients.is_quiet() && self.hostile.is_quiet() && self.collections.is_quiet();
        are_quiet && self.messages.is_quiet(&self.store)
    }

    /// Which shard has not come to rest, and what its replicas say.
    #[must_use]
    pub fn unsettled(&self) -> Option<String> {
        let nodes = &self.store.nodes;
        let Some(map) = self.store.checks.map() else { return Some("no store has been made".to_owned()) };
        if let Some(what) = self.operator.unshaped(&self.store, &map).or_else(|| check_places(nodes, &map).err()) {
            // A node may not have heard of the newest map yet.
            return Some(what);
        }
        let mine = nodes.iter().filter(|host| map.nodes.contains_key(&host.info.id));
        let behind = mine.into_iter().find(|host| host.epoch() != Some(map.epoch));
        if let Some(host) = behind {
            return Some(format!("node {} has map {:?}, the newest is {}", host.info.id, host.epoch(), map.epoch));
        }
        let found = map.shards.keys().copied().find(|shard| !is_settled(nodes, &map, *shard));
        found.map(|shard| format!("shard {shard} is not settled:\n{}", nodes.describe(Some(&map), shard)))
    }

    /// All checks over the whole of what was seen.
    pub fn verdict(&self) -> Outcome {
        let nodes = &self.store.nodes;
        let map = self.store.checks.map().ok_or("no store has been made")?;
        check_places(nodes, &map)?;
        for (&shard, info) in &map.shards {
            let mut holdings = Vec::new();
            for replica in &info.replicas {
                let Some(here) = nodes.shard(place_of(replica.node), shard) else { continue };
                let snapshot = here.handle().snapshot();
                let all = Span { start: vec![1], end: Vec::new() };
                let digest = snapshot.digest(all).map_err(|e| e.to_string())?;
                let holding = replicas::Holding { index: snapshot.index(), digest, keys: here.handle().key_count() };
                holdings.push((replica.node, holding));
            }
            replicas::check(shard, &holdings)?;
        }
        let leader_of = |slot| nodes.leader_place(self.store.checks.shard_of(slot)).map(node_id);
        self.store.checks.messages.check(leader_of)?;
        self.store.checks.check_histories()?;
        casualties::check_record(&self.store)
    }
}

fn info(plan: &Plan, place: Place) -> NodeInfo {
    NodeInfo {
        id: node_id(place),
        peer_address: format!("node{place}:1"),
        client_host: format!("node{place}"),
        client_port: 1,
        zone: if plan.zones > 1 { format!("zone{}", place % plan.zones) } else { String::new() },
        capacity: 1,
    }
}

fn at_node(store: &mut Store, place: Place, life: Option<u64>, event: NodeEvent) -> Outcome {
    let is_void = life.is_some_and(|life| life != store.env.life(place));
    let host = &mut store.nodes[place];
    if is_void || host.process.is_none() {
        store.arrive_at_dead_node(event);
        return Ok(());
    }
    if host.paused {
        host.held.push_back(event);
        return Ok(());
    }
    rounds::deliver(store, place, event)
}

/// A node that is down starts.
fn start(store: &mut Store, operator: &Operator, place: Place) -> Outcome {
    if store.nodes[place].process.is_some() || operator.casualties().is_gone(place) {
        return Ok(());
    }
    // Which of two clocks that differ is right cannot be told by a node that has met no other.
    store.nodes[place].clock.set_right();
    let (now, seed) = (store.moment(place), store.env.seed());
    let plan = store.env.plan();
    let shape = Shape { shards: plan.shards, replication_factor: plan.replication };
    store.nodes[place].boot(now, seed, shape, plan.keep_bytes);
    store.env.started(place);
    control::replicas_opened(store, place, &BTreeSet::new());
    let nodes = &store.nodes;
    store.env.link_up(place, |other| nodes[other].process.is_some());
    message_serving::started(store, place);
    let tick = store.env.below(TICK_MS * MILLISECOND);
    store.env.later(tick, place, NodeEvent::Tick);
    let flush = store.env.between(1, 2 * store.env.plan().flush_every_ms);
    store.env.later(flush * MILLISECOND, place, NodeEvent::Flush);
    // Clients may be served before anything of the log is applied.
    if store.env.happens(500) { Ok(()) } else { rounds::round(store, place) }
}

/// A node that stood still goes on: everything that it missed comes at once.
fn resume(store: &mut Store, place: Place) -> Outcome {
    store.nodes[place].paused = false;
    store.checks.messages.stands_still(place, false, store.env.now());
    if store.env.happens(800) {
        // The turn in which it stood still goes on, by the clock of when it began: clients' requests are there.
        let (requests, others) = std::mem::take(&mut store.nodes[place].held)
            .into_iter()
            .partition(|event| matches!(event, NodeEvent::Request(..)));
        store.nodes[place].held = others;
        let requests: VecDeque<NodeEvent> = requests;
        for request in requests {
            rounds::deliver(store, place, request)?;
        }
    }
    store.nodes[place].turn = None;
    while let Some(event) = store.nodes[place].held.pop_front() {
        rounds::deliver(store, place, event)?;
    }
    Ok(())
}

fn is_settled(nodes: &Nodes, map: &Map, shard: ShardId) -> bool {
    let mut leaders = 0;
    let mut ends = Vec::new();
    for replica in &map.shards[&shard].replicas {
        let Some(here) = nodes.shard(place_of(replica.node), shard) else { return false };
        let status = here.replica().status();
        leaders += u32::from(status.leads);
        ends.push(status.applied);
        ends.push(status.committed);
        ends.push(status.last);
    }
    leaders == 1 && ends.iter().all(|end| *end == ends[0])
}

/// Replicas are where placement wants them, and nothing is left of those that are gone.
fn check_places(nodes: &Nodes, map: &Map) -> Outcome {
    let observed = Observed { leaving: map.leaving.clone(), ..Observed::default() };
    if let Some(wrong) = next_moves(map, &observed).iter().find(|step| step.why != Why::Balance) {
        return Err(format!("all plans are done, and {wrong:?} is to be made: {}", layout(map)));
    }
    for host in nodes.iter().filter(|host| host.process.is_some()) {
        for shard in host.disk.log.groups().into_iter().chain(host.disk.trees()) {
            let wanted = map.shards.get(&shard).and_then(|info| info.replica_on(host.info.id));
            if wanted.is_none() {
                return Err(format!("node {} has no replica of shard {shard}, and holds its files", host.info.id));
            }
        }
    }
    Ok(())
}
