//! The metadata group without its majority, for good: an operator has the replica that has most of it go on alone. No plan
//! can do that, for plans are the metadata group's; everything else that was lost is recovered by one afterwards.
//!
//! The replica may have missed changes of the map that nodes have followed: those of its lost leader's last moments. It goes on from the newest map
//! that its node knows (`node::Shard`, as it begins to lead). Here is made sure that no node that answers knows a newer one.

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
use std::cmp::Reverse;
use std::sync::Arc;
use vocab::{NodeId, ReplicaId, ShardId};

/// What a node says of itself.
#[derive(Debug)]
struct Told {
    node: NodeId,
    /// The epoch of the newest map that it knows.
    epoch: u64,
    /// Its replica of the metadata group, if it has one.
    replica: Option<Survivor>,
}

/// A replica of the metadata group that can be talked to.
#[derive(Clone, Copy, Debug)]
struct Survivor {
    node: NodeId,
    /// The epoch of the newest map that its node knows.
    epoch: u64,
    /// The epoch of the map that it has come to; a node of an older release does not tell.
    held: Option<u64>,
    /// The term of its last entry; a node of an older release does not tell.
    last_term: Option<u64>,
    last: u64,
    applied: u64,
    leads: bool,
}

pub(super) fn run(store: &Arc<NodeShared>, request: RecoverRequest) -> Result<Value, AdminError> {
    let map = store.known().map.clone();
    let map = map.ok_or_else(|| AdminError::Unavailable("this node belongs to no store yet".to_owned()))?;
    let voters = check(store, &map)?;
    if request == RecoverRequest::Here {
        // On a thread that may not wait for other nodes: the one that asks for it has looked.
        return go_on(store, &voters);
    }
    let told: Vec<Told> = map.nodes.keys().filter_map(|node| ask(store, *node)).collect();
    let votes = |node: NodeId| voters.iter().any(|voter| voter.node == node);
    let survivors = told.iter().filter_map(|told| told.replica).filter(|survivor| votes(survivor.node));
    let survivors: Vec<Survivor> = survivors.collect();
    // This node may be cut off from others that are not from each other.
    if let Some(leader) = survivors.iter().find(|survivor| survivor.leads) {
        let text = format!("the metadata group is led by {}: there is nothing to recover", address(&map, leader.node));
        return Err(AdminError::Refused(text));
    }
    let best = newest(&survivors).ok_or_else(|| {
        let nodes = named(&map, voters.iter().map(|voter| voter.node));
        AdminError::Refused(format!("none of the nodes that hold the metadata group can be talked to: {nodes}"))
    })?;
    let is_older = |node: NodeId| node != store.node() && !store.entry_formats.takes_newer_maps(node);
    if let Some(text) = hindrance(&map, &best, &told, is_older) {
        return Err(AdminError::Refused(text));
    }
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

/// What a node knows, and has of the metadata group; none if it does not say.
fn ask(store: &Arc<NodeShared>, node: NodeId) -> Option<Told> {
    let told = NodeQuery::Replicas.ask(store, node).ok()?;
    let epoch = told["epoch"].as_u64()?;
    let replica = told["replicas"].as_array()?.iter().find(|replica| replica["shard"] == ShardId::META.0);
    let replica = replica.and_then(|replica| {
        Some(Survivor {
            node,
            epoch,
            held: replica["map"].as_u64(),
            last_term: replica["last_term"].as_u64(),
            last: replica["last"].as_u64()?,
            applied: replica["applied"].as_u64()?,
            leads: replica["leads"] == true,
        })
    });
    Some(Told { node, epoch, replica })
}

/// The one with the newest log; where terms are not told, the one with the longest.
fn newest(survivors: &[Survivor]) -> Option<Survivor> {
    let tells_terms = survivors.iter().all(|of| of.last_term.is_some());
    let term = |of: &Survivor| of.last_term.filter(|_| tells_terms);
    survivors.iter().max_by_key(|of| (term(of), of.last, of.applied, Reverse(of.node))).copied()
}

/// Why a survivor may not go on now, if it may not: nodes would have followed a map that the group then does not know, and never learn of
/// what it makes in its place.
fn hindrance(map: &Map, best: &Survivor, told: &[Told], is_older: impl Fn(NodeId) -> bool) -> Option<String> {
    let on = address(map, best.node);
    let Some(held) = best.held else {
        return Some(format!(
            "the replica on {on} would go on, and that node runs an older release, by which it would begin with an older map than other nodes \
             may know: start it with this release, then try again"
        ));
    };
    let newest = told.iter().max_by_key(|told| told.epoch)?;
    if newest.epoch > best.epoch {
        return Some(format!(
            "{} knows map {} of the store, and the node of the replica that would go on, {on}, knows map {} only: it asks others once a \
             second, so see to it that the two can talk to each other, then try again",
            address(map, newest.node),
            newest.epoch,
            best.epoch
        ));
    }
    let older = told.iter().find(|told| is_older(told.node)).filter(|_| best.epoch > held)?;
    Some(format!(
        "the replica on {on} has map {held}, and would go on from map {} that nodes know; {} runs an older release that cannot follow that in the \
         metadata group: start it with this release, then try again",
        best.epoch,
        address(map, older.node)
    ))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn survivor(node: u64, last_term: Option<u64>, last: u64, applied: u64) -> Survivor {
        Survivor { node: NodeId(node), epoch: 7, held: Some(7), last_term, last, applied, leads: false }
    }

    #[test]
    fn the_newest_log_goes_on_and_not_the_longest() {
        // Of each node's replica, its last entry's term, if it is told, its index and the applied one; and which goes on.
        for (told, expected) in [
            (vec![(Some(2), 9, 9), (Some(3), 7, 5)], 2),
            (vec![(Some(3), 7, 5), (Some(3), 7, 6)], 2),
            (vec![(Some(3), 7, 6), (Some(3), 7, 6)], 1),
            (vec![(Some(3), 7, 7), (None, 8, 5)], 2),
            (vec![(None, 7, 7), (Some(9), 6, 6)], 1),
        ] {
            let of = |(node, (last_term, last, applied))| survivor(node, last_term, last, applied);
            let survivors: Vec<Survivor> = (1..).zip(told).map(of).collect();
            assert_eq!(newest(&survivors).unwrap().node, NodeId(expected), "{survivors:?}");
        }
        assert!(newest(&[]).is_none());
    }

    #[test]
    fn no_node_that_answers_knows_a_newer_map() {
        // The epochs of the maps that the survivor's replica has come to, if it tells, and that its node and another one know; whether that
        // one is of an older release; and what is said.
        for (held, best, other, is_older, expected) in [
            (Some(7), 7, 7, false, None),
            (Some(7), 7, 7, true, None),
            (Some(6), 9, 9, false, None),
            (Some(6), 9, 8, false, None),
            (Some(8), 7, 7, true, None),
            (Some(6), 7, 9, false, Some("0000000000000002 knows map 9 of the store")),
            (Some(6), 9, 9, true, Some("0000000000000002 runs an older release that cannot follow")),
            (None, 9, 9, false, Some("that node runs an older release")),
        ] {
            let survivor = Survivor { epoch: best, held, ..survivor(1, Some(1), 5, 5) };
            let told = [
                Told { node: NodeId(1), epoch: best, replica: Some(survivor) },
                Told { node: NodeId(2), epoch: other, replica: None },
            ];
            let said = hindrance(&Map::default(), &survivor, &told, |node| is_older && node == NodeId(2));
            match (&said, expected) {
                (Some(said), Some(expected)) => assert!(said.contains(expected), "{said}"),
                _ => assert_eq!(said.as_deref(), expected),
            }
        }
    }
}
