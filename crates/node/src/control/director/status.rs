//! The store as the director sees it, for operators: what `ctl`, the admin API and the metrics show.

use super::explicit_moves::own_moves;
use super::growth::Growth;
use super::inputs::Inputs;
use super::moves::{allows, plan_of};
use super::pending_moves::{PendingMoves, PlanLeft};
use super::progress::Progress;
use super::recovery::awaited_survivor;
use cluster::placement::{Move, ReplicasWanted};
use cluster::{NodeInfo, Plan, PlanKind, PlanState, ReplicaInfo, ShardInfo};
use serde::Serialize;
use std::collections::BTreeMap;
use vocab::{NodeId, ShardId};

/// Entries that a replica may lack without counting as behind.
const BEHIND: u64 = 10_000;

/// The whole store.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StoreStatus {
    /// Its id.
    pub store: String,
    /// The map's epoch.
    pub epoch: u64,
    /// When the status was made, in ms since the epoch.
    pub at_ms: u64,
    /// Whether enough nodes have reported since this node directs: if not, much is missing.
    pub complete: bool,
    /// How many replicas each shard is to have.
    pub replication_factor: u32,
    /// Shards with fewer replicas that are up than they are to have.
    pub under_replicated: usize,
    /// Shards without a leader.
    pub without_leader: usize,
    /// Shards whose majority is gone: they wait for nodes, or for an operator.
    pub without_majority: usize,
    /// Every node.
    pub nodes: Vec<NodeStatus>,
    /// Every shard, the metadata group first.
    pub shards: Vec<ShardStatus>,
    /// Every plan that the map still has, the oldest first.
    pub plans: Vec<PlanStatus>,
}

/// One node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// Its id.
    pub id: String,
    /// Its address for clients.
    pub client_address: String,
    /// Its address for nodes.
    pub peer_address: String,
    /// Its zone.
    pub zone: String,
    /// Its capacity, in proportion to that of others.
    pub capacity: u64,
    /// `up`, `silent` or `lost`.
    pub state: &'static str,
    /// For how long it has been silent, in ms.
    pub silent_ms: u64,
    /// Whether it must hold nothing.
    pub leaving: bool,
    /// Replicas that it has or is about to have.
    pub replicas: usize,
    /// Replicas that cannot be used.
    pub broken: usize,
    /// Shards that it leads.
    pub leaders: usize,
    /// Whether it leads nothing, and the leaders of all shards that it holds are known.
    pub leads_nothing: bool,
    /// Bytes of the rows of its replicas.
    pub bytes: u64,
    /// Keys of its replicas.
    pub keys: u64,
    /// Commands a second in the last few seconds.
    pub ops_per_s: f64,
    /// Commands since it was started.
    pub commands: u64,
    /// Commands that were answered by an error.
    pub errors: u64,
    /// Clients that are connected.
    pub clients: u64,
    /// Bytes of its files.
    pub disk_bytes: u64,
    /// Bytes that are free on its device.
    pub disk_free_bytes: u64,
    /// Whether its disk takes writes.
    pub can_write: bool,
    /// What its wall clock is ahead of that of most nodes, in ms; 0 where that is not known.
    pub clock_skew_ms: i64,
    /// That is so much that it does not lead.
    pub clock_is_off: bool,
    /// Memory of the process, in bytes.
    pub rss_bytes: u64,
    /// Processor time, in µs.
    pub cpu_us: u64,
    /// When it was started, in ms since the epoch, by its own clock; 0 if that was not told.
    pub started_ms: u64,
    /// The version of its program.
    pub version: String,
    /// What is wrong with its certificates, or will be soon, in words.
    pub problems: Vec<String>,
    /// Snapshots on their way from or to it.
    pub transfers: Vec<TransferStatus>,
}

/// A snapshot on its way.
#[derive(Clone, Debug, Serialize)]
pub struct TransferStatus {
    /// Of which shard.
    pub shard: u32,
    /// The other node.
    pub peer: String,
    /// Whether it is received rather than sent.
    pub inbound: bool,
    /// The bytes that have arrived.
    pub bytes: u64,
    /// About how many there will be; 0: unknown.
    pub bytes_approx: u64,
    /// Bytes a second.
    pub rate: u64,
}

/// One shard.
#[derive(Clone, Debug, Serialize)]
pub struct ShardStatus {
    /// Its number.
    pub id: u32,
    /// Ranges of first and last slot.
    pub slots: Vec<(u16, u16)>,
    /// The node that leads it.
    pub leader: Option<String>,
    /// The leader's term.
    pub term: u64,
    /// `ok`, `under-replicated`, `no-leader` or `no-majority`.
    pub state: &'static str,
    /// How many replicas it is to have.
    pub wanted: usize,
    /// Bytes of its rows, once.
    pub bytes: u64,
    /// Its keys.
    pub keys: u64,
    /// For a shard without a majority: the nodes that it waits for.
    pub waits_for: Vec<String>,
    /// The plan that changes its replicas or its slots now.
    pub plan: Option<u64>,
    /// All of them.
    pub replicas: Vec<MemberStatus>,
}

/// One replica.
#[derive(Clone, Debug, Serialize)]
pub struct MemberStatus {
    /// Its id.
    pub id: u64,
    /// Its node.
    pub node: String,
    /// `leader`, `voter`, `learner`, or `coming` if it is no member yet.
    pub role: &'static str,
    /// `ok`, `behind`, `broken`, `silent`, or `unknown` if nothing was told of it.
    pub state: &'static str,
    /// Its last applied entry.
    pub applied: u64,
    /// Entries that it lacks, as far as its leader knows.
    pub lag: u64,
    /// Bytes of its rows.
    pub bytes: u64,
    /// Why it cannot be used.
    pub broken: Option<String>,
}

/// One plan.
#[derive(Clone, Debug, Serialize)]
pub struct PlanStatus {
    /// Its number.
    pub id: u64,
    /// The word of its kind.
    pub kind: &'static str,
    /// What it is about.
    pub about: String,
    /// The word of its state.
    pub state: &'static str,
    /// When it was begun, in ms since the epoch.
    pub began_ms: u64,
    /// When it ended; 0 before.
    pub ended_ms: u64,
    /// What an operator should know.
    pub detail: String,
    /// Steps that are done.
    pub steps_done: u64,
    /// Steps and splits that are under way.
    pub steps_now: usize,
    /// Steps that are to come, as far as is known.
    pub steps_left: usize,
    /// Bytes that were moved since this node directs.
    pub bytes_moved: u64,
    /// Bytes that are to be moved.
    pub bytes_left: u64,
    /// The present rate, in bytes a second.
    pub rate: u64,
    /// The estimated time to its end, in seconds.
    pub eta_s: Option<u64>,
    /// The reason for its waiting, if it waits.
    pub waits_for: Option<String>,
}

/// What the status is made of.
pub(super) struct StatusOf<'a> {
    pub(super) inputs: Inputs<'a>,
    pub(super) pending: &'a PendingMoves,
    pub(super) progress: &'a Progress,
    pub(super) growth: &'a Growth,
}

impl StatusOf<'_> {
    /// The store, by what nodes have reported.
    pub(super) fn store(&self) -> StoreStatus {
        let Inputs { map, seen, now, .. } = self.inputs;
        let wanted = ReplicasWanted::of(map);
        let shard = |(id, info): (&ShardId, &ShardInfo)| self.shard(*id, info, wanted.of_shard(*id));
        let shards: Vec<ShardStatus> = map.shards.iter().map(shard).collect();
        let led = self.inputs.led();
        let count = |state: &str| shards.iter().filter(|shard| shard.state == state).count();
        StoreStatus {
            store: map.store.to_string(),
            epoch: map.epoch.0,
            at_ms: now.wall_ms,
            complete: seen.is_ready(map, now),
            replication_factor: map.replication_factor,
            under_replicated: shards.len() - count("ok") - count("no-leader"),
            without_leader: count("no-leader") + count("no-majority"),
            without_majority: count("no-majority"),
            nodes: map.nodes.values().map(|info| self.node(info, &led)).collect(),
            plans: map.plans.values().map(|plan| self.plan(plan)).collect(),
            shards,
        }
    }

    /// `led`: how many shards each node leads.
    fn node(&self, info: &NodeInfo, led: &BTreeMap<NodeId, usize>) -> NodeStatus {
        let Inputs { map, settings, seen, now } = self.inputs;
        let node = seen.nodes.get(&info.id).cloned().unwrap_or_default();
        let figures = node.figures.unwrap_or_default();
        let silent_us = seen.silent_us(info.id, now);
        let replicas: Vec<_> = map.replicas_on(info.id).collect();
        let told = || replicas.iter().filter_map(|(shard, of)| seen.shards.get(shard)?.replicas.get(&of.id));
        let state = match silent_us {
            _ if seen.answers(info.id, now) => "up",
            silent_us if silent_us >= settings.failure_timeout_ms * 1000 => "lost",
            _ => "silent",
        };
        let transfers = node.transfers.iter().map(|of| TransferStatus {
            shard: of.shard.0,
            peer: of.peer.to_string(),
            inbound: of.inbound,
            bytes: of.bytes,
            bytes_approx: of.bytes_approx,
            rate: of.rate,
        });
        NodeStatus {
            id: info.id.to_string(),
            client_address: format!("{}:{}", info.client_host, info.client_port),
            peer_address: info.peer_address.clone(),
            zone: info.zone.clone(),
            capacity: info.capacity,
            state,
            silent_ms: if state == "up" { 0 } else { silent_us / 1000 },
            leaving: map.leaving.contains(&info.id),
            replicas: replicas.len(),
            broken: told().filter(|replica| replica.broken.is_some()).count(),
            leaders: led.get(&info.id).copied().unwrap_or(0),
            leads_nothing: self.inputs.leads_nothing(info.id),
            bytes: told().map(|replica| replica.bytes).sum(),
            keys: told().map(|replica| replica.keys).sum(),
            ops_per_s: if state == "up" && node.rate >= 0.05 { node.rate } else { 0.0 },
            commands: figures.commands,
            errors: figures.errors,
            clients: figures.clients,
            disk_bytes: figures.disk_bytes,
            disk_free_bytes: figures.disk_free_bytes,
            can_write: figures.can_write,
            clock_skew_ms: figures.clock_skew_ms,
            clock_is_off: figures.clock_is_off,
            rss_bytes: figures.rss_bytes,
            cpu_us: figures.cpu_us,
            started_ms: figures.started_ms,
            version: figures.version,
            problems: figures.problems,
            transfers: if state == "up" { transfers.collect() } else { Vec::new() },
        }
    }

    /// `wanted`: how many replicas the shard is to have.
    fn shard(&self, id: ShardId, info: &ShardInfo, wanted: usize) -> ShardStatus {
        let Inputs { map, seen, now, .. } = self.inputs;
        let leader = seen.leader(id, now);
        let replicas: Vec<MemberStatus> = info.replicas.iter().map(|replica| self.member(id, replica)).collect();
        let sound = |of: &&MemberStatus| ["leader", "voter"].contains(&of.role) && ["ok", "behind"].contains(&of.state);
        let state = match replicas.iter().filter(sound).count() {
            _ if !self.inputs.has_majority(id) => "no-majority",
            _ if leader.is_none() && !self.growth.changes_hands(&self.inputs, id) => "no-leader",
            count if count < wanted => "under-replicated",
            _ => "ok",
        };
        let of_leader = leader.and_then(|leader| seen.shards.get(&id)?.replicas.get(&leader.replica));
        let split = map.splits.iter().find(|(child, split)| **child == id || split.parent == id);
        let plan = map.steps.get(&id).map(|step| step.plan).or(split.map(|(_, split)| split.plan));
        ShardStatus {
            id: id.0,
            slots: info.slots.clone(),
            leader: leader.map(|leader| leader.node.to_string()),
            term: leader.map_or(0, |leader| leader.term),
            state,
            wanted,
            bytes: seen.bytes(id).unwrap_or(0),
            keys: of_leader.map_or(0, |replica| replica.keys),
            waits_for: self.inputs.waits_for(id).iter().map(ToString::to_string).collect(),
            plan: plan.map(|plan| plan.0),
            replicas,
        }
    }

    fn member(&self, shard: ShardId, info: &ReplicaInfo) -> MemberStatus {
        let Inputs { seen, now, .. } = self.inputs;
        let leader = seen.leader(shard, now);
        let replica = seen.shards.get(&shard).and_then(|seen| seen.replicas.get(&info.id));
        let matched = leader.and_then(|leader| leader.known.members.iter().find(|member| member.id == info.id));
        let last = leader.and_then(|leader| seen.shards.get(&shard)?.replicas.get(&leader.replica));
        let lag = last.zip(matched).map_or(0, |(of, matched)| of.last.saturating_sub(matched.matched));
        let state = match replica {
            _ if !seen.answers(info.node, now) => "silent",
            None => "unknown",
            Some(replica) if replica.broken.is_some() => "broken",
            Some(_) if lag > BEHIND || (info.learner && replica.is_some_and(|replica| replica.applied == 0)) => {
                "behind"
            }
            Some(_) => "ok",
        };
        let role = match info {
            _ if leader.is_some_and(|leader| leader.replica == info.id) => "leader",
            info if !info.member => "coming",
            info if info.learner => "learner",
            _ => "voter",
        };
        MemberStatus {
            id: info.id.0,
            node: info.node.to_string(),
            role,
            state,
            applied: replica.map_or(0, |replica| replica.applied),
            lag,
            bytes: replica.map_or(0, |replica| replica.bytes),
            broken: replica.and_then(|replica| replica.broken.clone()),
        }
    }

    fn plan(&self, plan: &Plan) -> PlanStatus {
        let map = self.inputs.map;
        let moved = self.progress.of(plan.id);
        let steps = map.steps.values().filter(|step| step.plan == plan.id).count();
        let splits = map.splits.values().filter(|split| split.plan == plan.id).count();
        let left = if plan.state.has_ended() { PlanLeft::default() } else { self.pending.left(&self.inputs, plan) };
        let bytes_left = left.bytes.saturating_sub(moved.under_way);
        let eta_s = (moved.rate >= 1.0 && bytes_left > 0).then(|| (bytes_left as f64 / moved.rate).ceil() as u64);
        PlanStatus {
            id: plan.id.0,
            kind: plan.kind.word(),
            about: about(&plan.kind),
            state: plan.state.word(),
            began_ms: plan.began_ms,
            ended_ms: plan.ended_ms,
            detail: plan.detail.clone(),
            steps_done: plan.steps_done,
            steps_now: steps + splits,
            steps_left: left.steps,
            bytes_moved: moved.bytes + moved.under_way,
            bytes_left,
            rate: if plan.state.has_ended() { 0 } else { moved.rate as u64 },
            eta_s: eta_s.filter(|_| plan.state == PlanState::Running),
            waits_for: self.plan_waits_for(plan),
        }
    }

    /// What keeps a plan that runs from going on.
    fn plan_waits_for(&self, plan: &Plan) -> Option<String> {
        let Inputs { map, seen, now, .. } = self.inputs;
        if plan.state != PlanState::Running {
            return None;
        }
        if let PlanKind::DrainLeaders(node) = plan.kind {
            let text = || format!("node {node} leads nothing: it is to be restarted now");
            return self.inputs.leads_nothing(node).then(text);
        }
        if let Some(text) = awaited_survivor(&self.inputs, plan.id) {
            return Some(text);
        }
        let node = match plan.kind {
            PlanKind::Repair(node) | PlanKind::DrainNode(node) | PlanKind::RemoveNode(node) => Some(node),
            PlanKind::ReplaceNode { node, .. } => Some(node),
            _ => None,
        };
        let held: Vec<ShardId> =
            node.map(|node| map.replicas_on(node).map(|(shard, _)| shard).collect()).unwrap_or_default();
        let stuck =
            held.iter().chain(map.steps.iter().filter(|(_, step)| step.plan == plan.id).map(|(shard, _)| shard));
        for &shard in stuck {
            let nodes = self.inputs.waits_for(shard);
            if !nodes.is_empty() {
                let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
                return Some(format!("shard {shard} has no majority without node {}", nodes.join(", node ")));
            }
            if seen.leader(shard, now).is_none() {
                return Some(format!("shard {shard} has no leader"));
            }
        }
        let idle = map.steps.values().all(|step| step.plan != plan.id);
        if !idle {
            return None;
        }
        if let Some(text) = self.waits_for_moves(plan, &held) {
            return Some(text);
        }
        let homeless = !held.is_empty() && self.pending.left(&self.inputs, plan).steps == 0;
        let silent: Vec<String> =
            map.nodes.keys().filter(|id| !seen.answers(**id, now)).map(ToString::to_string).collect();
        let but =
            if silent.is_empty() { String::new() } else { format!(": node {} is silent", silent.join(", node ")) };
        homeless.then(|| format!("there is no other node that may take the replicas{but}"))
    }

    /// What keeps a plan from beginning any move.
    fn waits_for_moves(&self, plan: &Plan, held: &[ShardId]) -> Option<String> {
        let Inputs { map, seen, now, .. } = self.inputs;
        let first: Vec<_> = self.pending.first_moves().copied().collect();
        let own = own_moves(map, plan, seen, &self.pending.lost).into_iter();
        let of_plan: Vec<_> = own.chain(first.iter().copied().filter(|step| allows(&plan.kind, step, map))).collect();
        if let Some(free) = of_plan.iter().find(|step| !map.steps.contains_key(&step.shard)) {
            let is_useless = |step: &&Move| !self.inputs.leaves_majority(step);
            let stuck = of_plan.iter().all(|step| is_useless(&step)).then_some(free)?;
            let gone = map.shards.get(&stuck.shard).into_iter().flat_map(|info| info.voters());
            let gone = gone.filter(|voter| Some(voter.id) != stuck.remove && !seen.answers(voter.node, now));
            let gone: Vec<String> = gone.map(|voter| voter.node.to_string()).collect();
            let text = format!("shard {} would have no majority without the replica that is to go", stuck.shard);
            let until =
                if gone.is_empty() { String::new() } else { format!(": node {} is silent", gone.join(", node ")) };
            return Some(text + &until);
        }
        // Moves of a shard build on each other: one that others are to make comes first.
        let other = first.iter().find(|step| held.contains(&step.shard))?;
        let shard = other.shard;
        let by = plan_of(map, other).filter(|by| by.id != plan.id);
        Some(match by {
            Some(by) => format!("shard {shard} waits for plan {}, which is {}", by.id, by.state.word()),
            None => format!("shard {shard} has to get a replica first, which no plan is about: begin a rebalance"),
        })
    }
}

/// What a plan is about, in words.
fn about(kind: &PlanKind) -> String {
    match kind {
        PlanKind::AddNode(node)
        | PlanKind::DrainNode(node)
        | PlanKind::RemoveNode(node)
        | PlanKind::Repair(node)
        | PlanKind::DrainLeaders(node) => format!("node {node}"),
        PlanKind::Rebalance | PlanKind::BalanceLeaders | PlanKind::SplitAll => "all shards".to_owned(),
        PlanKind::MoveShard { shard, from, to } => format!("shard {shard} from node {from} to node {to}"),
        PlanKind::SplitShard { shard, at: None } => format!("shard {shard}"),
        PlanKind::SplitShard { shard, at: Some(at) } => format!("shard {shard} at slot {at}"),
        PlanKind::SetReplicationFactor(count) => format!("{count} replicas"),
        PlanKind::ChangeZone { node, zone } => format!("node {node} to zone {zone:?}"),
        PlanKind::ReplaceNode { node, with } => format!("node {node} by node {with}"),
        PlanKind::Rebuild { node, shard: None } => format!("what is damaged on node {node}"),
        PlanKind::Rebuild { node, shard: Some(shard) } => format!("shard {shard} on node {node}"),
        PlanKind::UnsafeRecover(shards) => {
            let shards: Vec<String> = shards.iter().map(ToString::to_string).collect();
            format!("shards {}", shards.join(", "))
        }
    }
}
