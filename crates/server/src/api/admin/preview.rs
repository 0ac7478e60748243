//! What a plan would do, without beginning it.

use super::changes::newest_map;
use super::error::AdminError;
use super::plans;
use super::sight::Sight;
use cluster::placement::{Move, Observed, next_moves_that};
use cluster::{Change, Map, PLAN_KINDS, PlanKind, Settings};
use node::ShardHandle;
use serde_json::{Value, json};
use vocab::{NodeId, PlanId, ShardId};

/// The most moves that are listed one by one.
const MOVES_SHOWN: usize = 1000;
/// MB a second that moves may use at a node, by default.
const MOVE_RATE_MB: u64 = 200;

/// What the plan would do; it is refused if the map refuses it.
pub(super) fn preview(sight: &Sight, handle: &ShardHandle, words: &[String]) -> Result<Value, AdminError> {
    let map = newest_map(handle)?;
    let kind = plans::read(&map, words)?;
    plans::check(sight, &kind)?;
    let (id, detail) = (PlanId(map.next_plan), String::new());
    let mut planned = map.clone();
    let begin = Change::BeginPlan { id, kind: kind.clone(), at_ms: sight.status.at_ms, detail };
    cluster::apply(&mut planned, &begin).map_err(|refusal| AdminError::Refused(refusal.to_string()))?;
    let mut observed = observed(sight, &planned);
    if let PlanKind::Repair(node) = &kind {
        observed.down.remove(node);
        observed.lost.insert(*node);
    }
    let moves = moves(sight, &kind, &planned, &observed);
    let bytes_of = |shard: ShardId| observed.bytes.get(&shard).copied().unwrap_or(0);
    let bytes: u64 = moves.iter().filter(|step| step.add.is_some()).map(|step| bytes_of(step.shard)).sum();
    let shown: Vec<Value> = moves
        .iter()
        .take(MOVES_SHOWN)
        .map(|step| {
            let from = step.remove.and_then(|id| planned.replica(step.shard, id)).map(|replica| replica.node);
            let name = |node: NodeId| json!({"id": node.to_string(), "address": sight.address(&node.to_string())});
            json!({
                "shard": step.shard.0,
                "from": from.map(name),
                "to": step.add.map(name),
                "why": format!("{:?}", step.why).to_ascii_lowercase(),
                "bytes": bytes_of(step.shard),
            })
        })
        .collect();
    let words = PLAN_KINDS.iter().find(|words| words.word == kind.word());
    let splits = splits(&kind, &planned);
    Ok(json!({
        "kind": kind.word(),
        "about": cluster::plan_to_words(&kind)[1..].join(" "),
        "help": words.map(|words| words.help),
        "warning": words.and_then(|words| words.warning),
        "moves": moves.len(),
        "splits": splits,
        "hand_overs": hand_overs(sight, &kind),
        "note": note(&kind, &planned, &observed, &moves),
        "bytes": bytes,
        "seconds": seconds(&map, &moves, &bytes_of),
        "first_moves": shown,
    }))
}

/// The number of shards that become two.
fn splits(kind: &PlanKind, map: &Map) -> usize {
    match kind {
        PlanKind::SplitShard { .. } => 1,
        PlanKind::SplitAll => map.data_shards().filter(|(_, info)| info.slot_count() > 1).count(),
        _ => 0,
    }
}

/// What placement needs beside the map: taken from the status.
fn observed(sight: &Sight, map: &Map) -> Observed {
    let mut observed = Observed { leaving: map.leaving.clone(), ..Observed::default() };
    for node in &sight.status.nodes {
        let Some(id) = map.nodes.keys().find(|id| id.to_string() == node.id) else { continue };
        match node.state {
            "lost" => drop(observed.lost.insert(*id)),
            "up" => {}
            _ => drop(observed.down.insert(*id)),
        }
    }
    observed.bytes =
        sight.status.shards.iter().filter(|shard| shard.id != 0).map(|of| (ShardId(of.id), of.bytes)).collect();
    observed
}

/// The leaders that change at once.
fn hand_overs(sight: &Sight, kind: &PlanKind) -> usize {
    let PlanKind::DrainLeaders(node) = kind else { return 0 };
    sight.status.nodes.iter().find(|known| known.id == node.to_string()).map_or(0, |known| known.leaders)
}

/// What the plan cannot do at present, if anything.
fn note(kind: &PlanKind, map: &Map, observed: &Observed, moves: &[Move]) -> Option<String> {
    let able = map.nodes.values().filter(|node| node.capacity > 0 && !observed.leaving.contains(&node.id)).count();
    let emptied = map.nodes.keys().find(|node| kind.empties(**node));
    if let PlanKind::SetReplicationFactor(count) = kind
        && able < *count as usize
    {
        return Some(format!("{able} nodes may hold replicas: shards get the others once there are more nodes"));
    }
    emptied.filter(|_| able < map.replication_factor as usize).map(|_| {
        let lost = moves.iter().filter(|step| step.add.is_none()).count();
        format!("{able} nodes are left: {lost} shards are left with fewer replicas than they are to have")
    })
}

fn moves(sight: &Sight, kind: &PlanKind, map: &Map, observed: &Observed) -> Vec<Move> {
    match kind {
        PlanKind::MoveShard { shard, from, to } => {
            let remove = map.shards.get(shard).and_then(|info| info.replica_on(*from)).map(|replica| replica.id);
            vec![Move { shard: *shard, add: Some(*to), remove, why: cluster::placement::Why::Balance }]
        }
        PlanKind::Rebuild { node, shard } => {
            let is_broken = |id: ShardId, replica: vocab::ReplicaId| {
                let of_shard = sight.status.shards.iter().filter(|shard| shard.id == id.0);
                of_shard.flat_map(|shard| &shard.replicas).any(|of| of.id == replica.0 && of.broken.is_some())
            };
            let held = map.replicas_on(*node).filter(|(id, held)| match shard {
                Some(shard) => shard == id,
                None => is_broken(*id, held.id),
            });
            let why = cluster::placement::Why::Repair;
            held.map(|(shard, held)| Move { shard, add: Some(*node), remove: Some(held.id), why }).collect()
        }
        _ if kind.moves_replicas() => {
            let may = |step: &Move| node::control::director::allows(kind, step, map);
            let all = next_moves_that(map, observed, &may).into_iter().filter(may);
            all.map(|step| redirected(kind, step, map)).collect()
        }
        _ => Vec::new(),
    }
}

/// The move of a plan that names its target.
fn redirected(kind: &PlanKind, step: Move, map: &Map) -> Move {
    let PlanKind::ReplaceNode { with, .. } = kind else { return step };
    let has_one = map.shards.get(&step.shard).is_some_and(|info| info.replica_on(*with).is_some());
    if step.remove.is_none() || has_one { step } else { Move { add: Some(*with), ..step } }
}

/// The least time that the moves take: that of the node which sends or receives most.
fn seconds(map: &Map, moves: &[Move], bytes_of: &dyn Fn(ShardId) -> u64) -> u64 {
    let rate = match Settings::of(map).move_rate_mb.unwrap_or(MOVE_RATE_MB) {
        0 => return 0,
        rate => rate * 1_000_000,
    };
    let mut of_node = std::collections::BTreeMap::<NodeId, u64>::new();
    for step in moves {
        if let Some(to) = step.add {
            *of_node.entry(to).or_default() += bytes_of(step.shard);
        }
    }
    of_node.values().max().copied().unwrap_or(0).div_ceil(rate)
}
