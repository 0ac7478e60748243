//! The metadata group without its majority, for good: an operator has the replica that has most of it go on alone. No plan
//! can do that, for plans are the metadata group's; everything else that was lost is recovered by one afterwards.

use super::error::{AdminError, decode};
use super::query::NodeQuery;
use super::request::RecoverRequest;
use super::sight::lacks_majority;
use crate::mailbox::WorkerMessage;
use crate::peers::call_node;
use crate::shared::NodeShared;
use cluster::{Map, ReplicaInfo};
use node::peer_protocol::{Order, PeerMessage};
use serde_json::{Value, json};
use std::sync::Arc;
use vocab::{NodeId, ReplicaId, ShardId};

/// A replica of the metadata group that can be talked to.
struct Survivor {
    node: NodeId,
    last: u64,
    applied: u64,
    leads: bool,
}

pub(super) fn run(store: &Arc<NodeShared>, request: RecoverRequest) -> Result<Value, AdminError> {
    let map = store.known().map.clone();
    let map = map.ok_or_else(|| AdminError::Unavailable("this node belongs to no store yet".to_owned()))?;
    let voters = check(store, &map)?;
    if request == RecoverRequest::Here {
        return go_on(store, &voters);
    }
    let survivors: Vec<Survivor> = voters.iter().filter_map(|voter| ask(store, voter.node)).collect();
    // This node may be cut off from others that are not from each other.
    if let Some(leader) = survivors.iter().find(|survivor| survivor.leads) {
        let text = format!("the metadata group is led by {}: there is nothing to recover", address(&map, leader.node));
        return Err(AdminError::Refused(text));
    }
    let order = |of: &&Survivor| (of.last, of.applied, std::cmp::Reverse(of.node));
    let best = survivors.iter().max_by_key(order).ok_or_else(|| {
        let nodes = named(&map, voters.iter().map(|voter| voter.node));
        AdminError::Refused(format!("none of the nodes that hold the metadata group can be talked to: {nodes}"))
    })?;
    let gone: Vec<NodeId> =
        voters.iter().map(|voter| voter.node).filter(|node| survivors.iter().all(|of| of.node != *node)).collect();
    if request == RecoverRequest::Apply {
        log::warn!("an operator has the metadata group go on with what node {} has of it", best.node);
        if best.node == store.node() {
            go_on(store, &voters)?;
        } else {
            let args: [&[u8]; 2] = [b"KV.ADMIN", b"RECOVER-HERE"];
            decode(&call_node(store, best.node, ShardId::META, &args).map_err(AdminError::Unavailable)?)?;
        }
    }
    Ok(json!({
        "survivor": best.node.to_string(),
        "survivor_address": address(&map, best.node),
        "applied": best.applied,
        "gone": gone.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "gone_addresses": gone.iter().map(|node| address(&map, *node)).collect::<Vec<_>>(),
        "begun": request == RecoverRequest::Apply,
    }))
}

/// The voters of the metadata group, if it cannot help itself.
fn check(store: &NodeShared, map: &Map) -> Result<Vec<ReplicaInfo>, AdminError> {
    if !lacks_majority(store, ShardId::META) {
        let text = "a majority of the metadata group's replicas can be talked to: it elects a leader by itself";
        return Err(AdminError::Refused(text.to_owned()));
    }
    Ok(map.shards.get(&ShardId::META).into_iter().flat_map(|info| info.voters()).copied().collect())
}

/// What a node has of the metadata group; none if it does not say, or has nothing that is of use.
fn ask(store: &Arc<NodeShared>, node: NodeId) -> Option<Survivor> {
    let told = NodeQuery::Replicas.ask(store, node).ok()?;
    let replica = told["replicas"].as_array()?.iter().find(|replica| replica["shard"] == ShardId::META.0)?.clone();
    let (last, applied) = (replica["last"].as_u64()?, replica["applied"].as_u64()?);
    Some(Survivor { node, last, applied, leads: replica["leads"] == true })
}

/// Has this node's replica go on.
fn go_on(store: &NodeShared, voters: &[ReplicaInfo]) -> Result<Value, AdminError> {
    let here = voters.iter().find(|voter| voter.node == store.node()).map(|voter| voter.id);
    let ReplicaId(replica) =
        here.ok_or_else(|| AdminError::Refused("this node has no vote in the metadata group".to_owned()))?;
    let order = PeerMessage::Order { shard: ShardId::META, order: Order::Recover { replica } };
    store.mailboxes.tell_owner(ShardId::META, WorkerMessage::Peer(store.node(), order));
    Ok(Value::Null)
}

fn address(map: &Map, node: NodeId) -> String {
    let info = map.nodes.get(&node);
    info.map_or_else(|| node.to_string(), |info| format!("{}:{}", info.client_host, info.client_port))
}

fn named(map: &Map, nodes: impl Iterator<Item = NodeId>) -> String {
    nodes.map(|node| address(map, node)).collect::<Vec<_>>().join(", ")
}
