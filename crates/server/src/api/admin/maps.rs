//! The present map, for operators.

use super::error::AdminError;
use super::sight::Sight;
use cluster::ReplicaInfo;
use serde_json::{Value, json};

pub(super) fn map(sight: &Sight) -> Result<Value, AdminError> {
    let map = sight.map.as_ref();
    let map = map.ok_or_else(|| AdminError::Unavailable("this node belongs to no store yet".to_owned()))?;
    let nodes: Vec<Value> = map
        .nodes
        .values()
        .map(|node| {
            json!({
                "id": node.id.to_string(),
                "client_address": format!("{}:{}", node.client_host, node.client_port),
                "peer_address": node.peer_address,
                "zone": node.zone,
                "capacity": node.capacity,
                "leaving": map.leaving.contains(&node.id),
            })
        })
        .collect();
    let replica = |replica: &ReplicaInfo| {
        json!({
            "id": replica.id.0,
            "node": replica.node.to_string(),
            "learner": replica.learner,
            "member": replica.member,
        })
    };
    let shards: Vec<Value> = map
        .shards
        .iter()
        .map(|(id, shard)| {
            let replicas: Vec<Value> = shard.replicas.iter().map(replica).collect();
            json!({"id": id.0, "slots": shard.slots, "replicas": replicas})
        })
        .collect();
    let steps: Vec<Value> = map
        .steps
        .iter()
        .map(|(shard, step)| {
            let id = |replica: Option<vocab::ReplicaId>| replica.map(|replica| replica.0);
            json!({"shard": shard.0, "plan": step.plan.0, "add": id(step.add), "remove": id(step.remove)})
        })
        .collect();
    let splits: Vec<Value> = map
        .splits
        .iter()
        .map(|(child, split)| {
            json!({"child": child.0, "parent": split.parent.0, "plan": split.plan.0, "slots": split.slots})
        })
        .collect();
    Ok(json!({
        "store": map.store.to_string(),
        "epoch": map.epoch.0,
        "replication_factor": map.replication_factor,
        "settings": *map.settings,
        "nodes": nodes,
        "shards": shards,
        "steps": steps,
        "splits": splits,
    }))
}
