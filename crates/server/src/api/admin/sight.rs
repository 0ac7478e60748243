//! The store as one node sees it: with the director's status where there is one, else with what the node knows itself.

use crate::mailbox::WorkerMessage;
use crate::os::now_ms;
use crate::shared::NodeShared;
use cluster::placement::ReplicasWanted;
use cluster::{Map, NodeInfo, ReplicaInfo, ShardInfo};
use node::control::director::{MemberStatus, NodeStatus, PlanStatus, ShardStatus, StoreStatus};
use node::session::Host;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use vocab::{NodeId, ShardId};

/// How long the event loop may take to hand its status over.
const PICTURE_WITHIN: Duration = Duration::from_secs(2);

/// How long a new director is given to hear of all nodes: they tell of themselves twice a second.
const COMPLETE_WITHIN: Duration = Duration::from_millis(1500);
const COMPLETE_PAUSE: Duration = Duration::from_millis(20);

/// What one node sees.
pub(crate) struct Sight {
    /// The node.
    pub(super) node: NodeId,
    /// The map; none before there is a store.
    pub(super) map: Option<Arc<Map>>,
    /// Nodes and shards.
    pub(super) status: StoreStatus,
    /// Whether the leader of the metadata group says it.
    pub(super) directed: bool,
    /// Nodes of other stores that it has met: where, and what is wrong.
    pub(super) strangers: Vec<(String, String)>,
}

impl Sight {
    /// On the leader of the metadata group. Waits a little if it has just begun to lead and was not told of all nodes yet.
    pub(crate) fn of_leader(store: &Arc<NodeShared>) -> Self {
        let begun = Instant::now();
        let complete = loop {
            let status = director_status(store);
            let directs = status.is_some() || !store.is_alone();
            match status.filter(|status| status.complete) {
                None if directs && begun.elapsed() < COMPLETE_WITHIN && !store.is_stopping() => {
                    std::thread::sleep(COMPLETE_PAUSE);
                }
                complete => break complete,
            }
        };
        match complete {
            Some(status) => {
                let map = store.known().map.clone();
                Self { map, status: *status, directed: true, ..Self::of(store) }
            }
            // A node that is a store by itself has no director, and a director that has just begun knows no more yet.
            None => Self { directed: true, ..Self::of(store) },
        }
    }

    /// On any node.
    pub(crate) fn of(store: &Arc<NodeShared>) -> Self {
        let map = store.known().map.clone();
        let status = match &map {
            Some(map) => own_status(store, map),
            None => StoreStatus { at_ms: now_ms(), nodes: strangers(store), ..StoreStatus::default() },
        };
        Self { node: store.node(), map, status, directed: false, strangers: store.peers.strangers() }
    }

    /// The addresses of all nodes, as clients know them, by id.
    pub(super) fn addresses(&self) -> BTreeMap<&str, &str> {
        self.status.nodes.iter().map(|node| (node.id.as_str(), node.client_address.as_str())).collect()
    }

    /// The address of a node, as clients know it.
    pub(super) fn address(&self, id: &str) -> Option<&str> {
        self.status.nodes.iter().find(|node| node.id == id).map(|node| node.client_address.as_str())
    }
}

/// What the director sees, if it is on this node.
pub(crate) fn director_status(store: &NodeShared) -> Option<Box<StoreStatus>> {
    let (sender, receiver) = sync_channel(1);
    store.mailboxes.tell_links_worker(WorkerMessage::StoreStatus(sender));
    receiver.recv_timeout(PICTURE_WITHIN).ok().flatten()
}

/// Whether no node leads a shard and none can, as far as this node sees: there is no use in waiting.
pub(crate) fn is_hopeless(store: &NodeShared, shard: ShardId) -> bool {
    let known = store.known();
    known.place(shard).is_some_and(|place| store.leader_at(place).is_none()) && lacks_majority(store, shard)
}

/// Whether most of a shard's voters are on nodes that this one cannot talk to.
pub(super) fn lacks_majority(store: &NodeShared, shard: ShardId) -> bool {
    let known = store.known();
    let Some(info) = known.map.as_ref().and_then(|map| map.shards.get(&shard)) else { return false };
    let up = |node: NodeId| node == store.node() || store.peers.is_up(node);
    info.voters().filter(|voter| up(voter.node)).count() * 2 <= info.voters().count()
}

/// Nodes without a store.
fn strangers(store: &NodeShared) -> Vec<NodeStatus> {
    vec![node_status(store, &store.node_info(), None, &Leaders::of(store))]
}

fn own_status(store: &Arc<NodeShared>, map: &Arc<Map>) -> StoreStatus {
    let wanted = ReplicasWanted::of(map);
    let shard = |(id, info): (&ShardId, &ShardInfo)| shard_status(store, map, (*id, info), wanted.of_shard(*id));
    let shards: Vec<ShardStatus> = map.shards.iter().map(shard).collect();
    let leaders = Leaders::of(store);
    let count = |state: &str| shards.iter().filter(|shard| shard.state == state).count();
    StoreStatus {
        store: map.store.to_string(),
        epoch: map.epoch.0,
        at_ms: now_ms(),
        complete: store.is_alone(),
        replication_factor: map.replication_factor,
        under_replicated: count("under-replicated") + count("no-majority"),
        without_leader: count("no-leader") + count("no-majority"),
        without_majority: count("no-majority"),
        nodes: map.nodes.values().map(|info| node_status(store, info, Some(map), &leaders)).collect(),
        plans: map.plans.values().map(|plan| plan_status(map, plan)).collect(),
        shards,
    }
}

/// How many shards each node leads, as this node has heard.
struct Leaders {
    of_node: BTreeMap<NodeId, usize>,
    /// Shards of which no leader is known.
    unknown: usize,
}

impl Leaders {
    fn of(store: &NodeShared) -> Self {
        let mut leaders = Self { of_node: BTreeMap::new(), unknown: 0 };
        for place in store.known().places() {
            match store.leader_at(place) {
                Some(node) => *leaders.of_node.entry(node).or_default() += 1,
                None => leaders.unknown += 1,
            }
        }
        leaders
    }
}

fn node_status(store: &NodeShared, info: &NodeInfo, map: Option<&Map>, leaders: &Leaders) -> NodeStatus {
    let me = info.id == store.node();
    let known = store.known();
    let led = leaders.of_node.get(&info.id).copied().unwrap_or(0);
    let facts = me.then(|| store.node_facts());
    let (totals, rates) = (store.stats.totals(), store.stats.rates());
    let handles = || known.handles().filter(|_| me);
    let of_facts = |figure: fn(&node::session::NodeFacts) -> Option<u64>| facts.as_ref().and_then(figure).unwrap_or(0);
    NodeStatus {
        id: info.id.to_string(),
        client_address: format!("{}:{}", info.client_host, info.client_port),
        peer_address: info.peer_address.clone(),
        zone: info.zone.clone(),
        capacity: info.capacity,
        state: if me || store.peers.is_up(info.id) { "up" } else { "silent" },
        silent_ms: 0,
        leaving: map.is_some_and(|map| map.leaving.contains(&info.id)),
        replicas: map.map_or(0, |map| map.replicas_on(info.id).count()),
        broken: 0,
        leaders: led,
        leads_nothing: led == 0 && leaders.unknown == 0,
        bytes: handles().map(|handle| handle.engine().stats().wanted_bytes()).sum(),
        keys: handles().map(|handle| handle.key_count()).sum(),
        ops_per_s: if me { rates.commands } else { 0.0 },
        commands: if me { totals.commands } else { 0 },
        errors: if me { store.stats.errors().values().sum() } else { 0 },
        clients: if me { store.clients.count() as u64 } else { 0 },
        disk_bytes: handles().map(|handle| handle.engine().stats().disk_bytes).sum::<u64>()
            + of_facts(|facts| Some(facts.log_bytes)),
        disk_free_bytes: if me { store.free_bytes().unwrap_or(0) } else { 0 },
        can_write: !me || store.health.state() == replica::DiskState::Healthy,
        clock_skew_ms: if me { store.clock.skew_ms() } else { 0 },
        clock_is_off: me && store.clock.is_off(),
        rss_bytes: of_facts(|facts| facts.rss_bytes),
        cpu_us: of_facts(|facts| Some(facts.cpu_user_us? + facts.cpu_system_us?)),
        started_ms: of_facts(|facts| Some(facts.started_ms)),
        version: if me { env!("CARGO_PKG_VERSION").to_owned() } else { String::new() },
        problems: if me { store.tls.problems((now_ms() / 1000) as i64) } else { Vec::new() },
        transfers: Vec::new(),
    }
}

fn shard_status(store: &NodeShared, map: &Map, (id, info): (ShardId, &ShardInfo), wanted: usize) -> ShardStatus {
    let known = store.known();
    let place = known.place(id);
    let leader = place.and_then(|place| store.leader_at(place));
    let handle = place.and_then(|place| place.handle.as_ref());
    let up = |replica: &&ReplicaInfo| replica.node == store.node() || store.peers.is_up(replica.node);
    let (voters, voting) = (info.voters().count(), info.voters().filter(up).count());
    // A leader that was known before its followers went silent does not lead without them.
    let leader = leader.filter(|_| voting * 2 > voters);
    let state = match leader {
        _ if voting * 2 <= voters => "no-majority",
        None => "no-leader",
        Some(_) if voting < wanted => "under-replicated",
        Some(_) => "ok",
    };
    let lost = info.voters().filter(|replica| !up(replica)).map(|replica| replica.node.to_string());
    let split = map.splits.iter().find(|(child, split)| **child == id || split.parent == id);
    let plan = map.steps.get(&id).map(|step| step.plan).or(split.map(|(_, split)| split.plan));
    ShardStatus {
        id: id.0,
        slots: info.slots.clone(),
        leader: leader.map(|leader| leader.to_string()),
        term: place.map_or(0, |place| place.leader.term()),
        state,
        wanted,
        bytes: handle.map_or(0, |handle| handle.engine().stats().wanted_bytes()),
        keys: handle.map_or(0, |handle| handle.key_count()),
        waits_for: if state == "no-majority" { lost.collect() } else { Vec::new() },
        plan: plan.map(|plan| plan.0),
        replicas: info
            .replicas
            .iter()
            .map(|replica| {
                let handle = handle.filter(|_| replica.node == store.node());
                let role = match () {
                    () if !replica.member => "coming",
                    () if leader == Some(replica.node) => "leader",
                    () if replica.learner => "learner",
                    () => "voter",
                };
                let state = match () {
                    () if handle.is_some() => "ok",
                    () if up(&replica) => "unknown",
                    () => "silent",
                };
                MemberStatus {
                    id: replica.id.0,
                    node: replica.node.to_string(),
                    role,
                    state,
                    applied: handle.map_or(0, |handle| handle.engine().applied_index()),
                    lag: 0,
                    bytes: handle.map_or(0, |handle| handle.engine().stats().wanted_bytes()),
                    broken: None,
                }
            })
            .collect(),
    }
}

fn plan_status(map: &Map, plan: &cluster::Plan) -> PlanStatus {
    PlanStatus {
        id: plan.id.0,
        kind: plan.kind.word(),
        about: cluster::plan_to_words(&plan.kind)[1..].join(" "),
        state: plan.state.word(),
        began_ms: plan.began_ms,
        ended_ms: plan.ended_ms,
        detail: plan.detail.clone(),
        steps_done: plan.steps_done,
        steps_now: map.steps.values().filter(|step| step.plan == plan.id).count(),
        steps_left: 0,
        bytes_moved: 0,
        bytes_left: 0,
        rate: 0,
        eta_s: None,
        waits_for: None,
    }
}
