//! The status of the store on one screen, with what is wrong in words.

use super::sight::Sight;
use node::control::director::NodeStatus;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use vocab::{SLOT_COUNT, ShardId};

/// Shards that one problem names.
const NAMED_MAX: usize = 8;

pub(super) fn status(sight: &Sight) -> Value {
    let status = &sight.status;
    let Some(map) = &sight.map else {
        return json!({
            "store": null,
            "healthy": false,
            "problems": ["there is no store yet: `basalt ctl init` makes it"],
            "asked": sight.node.to_string(),
            "nodes": status.nodes,
        });
    };
    let data = || status.shards.iter().filter(|shard| shard.id != ShardId::META.0);
    let slots_led: usize = data()
        .filter(|shard| shard.leader.is_some())
        .flat_map(|shard| &shard.slots)
        .map(|(first, last)| usize::from(last - first) + 1)
        .sum();
    let meta = status.shards.iter().find(|shard| shard.id == ShardId::META.0);
    let problems = problems(sight);
    let open = |state: &str| ["running", "paused"].contains(&state);
    let plans: Vec<_> = status.plans.iter().filter(|plan| open(plan.state)).collect();
    json!({
        "store": status.store,
        "epoch": status.epoch,
        "at_ms": status.at_ms,
        "asked": sight.node.to_string(),
        "directed_by": meta.and_then(|meta| meta.leader.clone()).filter(|_| sight.directed),
        "complete": sight.directed && status.complete,
        "healthy": problems.is_empty(),
        "problems": problems,
        "replication_factor": status.replication_factor,
        "shards": data().count(),
        "slots": SLOT_COUNT,
        "slots_led": slots_led,
        "under_replicated": status.under_replicated,
        "without_leader": status.without_leader,
        "without_majority": status.without_majority,
        "keys": data().map(|shard| shard.keys).sum::<u64>(),
        "bytes": data().map(|shard| shard.bytes).sum::<u64>(),
        "ops_per_s": status.nodes.iter().map(|node| node.ops_per_s).sum::<f64>().round(),
        "zones": zones(sight),
        "nodes": status.nodes,
        "plans": plans,
        "settings": *map.settings,
    })
}

fn zones(sight: &Sight) -> Value {
    let mut zones: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for node in &sight.status.nodes {
        let zone = zones.entry(&node.zone).or_default();
        zone.0 += 1;
        zone.1 += usize::from(node.state == "up");
    }
    zones.iter().map(|(name, (nodes, up))| json!({"name": name, "nodes": nodes, "up": up})).collect()
}

/// What is wrong, the worst first.
fn problems(sight: &Sight) -> Vec<String> {
    let status = &sight.status;
    let mut problems = Vec::new();
    let named = |state: &str| {
        let ids: Vec<String> =
            status.shards.iter().filter(|shard| shard.state == state).map(|shard| shard.id.to_string()).collect();
        let more = ids.len().saturating_sub(NAMED_MAX);
        let mut text = ids.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
        if more > 0 {
            text += &format!(" and {more} more");
        }
        (ids.len(), text)
    };
    let meta = status.shards.iter().find(|shard| shard.id == ShardId::META.0);
    if meta.is_some_and(|meta| ["no-leader", "no-majority"].contains(&meta.state)) {
        problems.push("the metadata group (shard 0) has no leader: plans and settings stand still".to_owned());
    } else if !sight.directed {
        problems.push("the leader of the metadata group does not answer: this is what one node sees".to_owned());
    }
    let (count, ids) = named("no-majority");
    if count > 0 {
        let mut nodes: Vec<&String> = status.shards.iter().flat_map(|shard| &shard.waits_for).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let nodes: Vec<String> = nodes.into_iter().map(|id| named_node(sight, id)).collect();
        problems.push(format!(
            "{count} shards have lost their majority ({ids}): they wait for {}. Bring them back; only if they are gone for \
             good: `ctl plan unsafe-recover --help`",
            nodes.join(", ")
        ));
    }
    let (count, ids) = named("no-leader");
    if count > 0 {
        problems.push(format!("{count} shards have no leader ({ids})"));
    }
    for node in status.nodes.iter().filter(|node| node.state != "up") {
        let silent = if node.silent_ms > 0 { format!(" for {} s", node.silent_ms / 1000) } else { String::new() };
        let word = if silent.is_empty() { "is" } else { "has been" };
        let mut text = format!("{} {word} {}{silent}", named_node(sight, &node.id), node.state);
        if node.state == "lost" && node.replicas == 0 {
            text += ", and holds nothing any more: `ctl plan apply remove-node` has the store forget it";
        }
        problems.push(text);
    }
    let (count, ids) = named("under-replicated");
    if count > 0 {
        problems.push(format!("{count} shards have fewer replicas than they are to have ({ids})"));
    }
    for node in status.nodes.iter().filter(|node| node.state == "up") {
        problems.extend(node_problems(&named_node(sight, &node.id), node));
    }
    for (about, why) in &sight.strangers {
        problems.push(format!("{about} belongs to another store: {why}"));
    }
    for plan in status.plans.iter().filter(|plan| plan.state == "failed" && plan.ended_ms + 3_600_000 > status.at_ms) {
        problems.push(format!("plan {} ({}) has failed: {}", plan.id, plan.kind, plan.detail));
    }
    problems
}

/// What is not well with a node that is up.
fn node_problems(name: &str, node: &NodeStatus) -> Vec<String> {
    let mut problems = Vec::new();
    if node.broken > 0 {
        problems.push(format!("{name} has {} damaged replicas: `ctl plan apply rebuild` makes them anew", node.broken));
    }
    if !node.can_write {
        problems.push(format!("the disk of {name} takes no writes"));
    }
    if node.clock_is_off {
        problems.push(format!(
            "the clock of {name} is {} ms off from that of most nodes, so it leads no shard: see to its time service",
            node.clock_skew_ms
        ));
    }
    problems.extend(node.problems.iter().map(|problem| format!("{name}: {problem}")));
    problems
}

fn named_node(sight: &Sight, id: &str) -> String {
    format!("node {id} ({})", sight.address(id).unwrap_or("unknown"))
}
