//! The metadata group without its majority, for good: an operator has the replica that has most of it go on alone. No plan
//! can do that, for plans are the metadata group's; everything else that was lost is recovered by one afterwards.
//!
//! The replica may have missed changes of the map that nodes have followed: those of its lost leader's last moments. It does not go on if a node
//! that answers, its own or another, is known to know a newer map than it can have.

use super::error::{AdminError, decode};
use super::query::NodeQuery;
use super::request::RecoverRequest;
use super::shards::replicas_here;
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
    let gone = |is_here: &dyn Fn(NodeId) -> bool| -> Vec<NodeId> {
        voters.iter().map(|voter| voter.node).filter(|node| !is_here(*node)).collect()
    };
    if request == RecoverRequest::Here {
        // On a thread that may not wait for other nodes: the one that asks for it has looked at theirs.
        let told: Vec<Told> = read(store.node(), &replicas_here(store)).into_iter().collect();
        let gone = gone(&|node| node == store.node());
        let text = told.iter().find_map(|own| hindrance(&map, &own.replica?, &told, &gone));
        return text.map_or_else(|| go_on(store, &voters), |text| Err(AdminError::Refused(text)));
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
    let gone = gone(&|node| survivors.iter().any(|of| of.node == node));
    if let Some(text) = hindrance(&map, &best, &told, &gone) {
        return Err(AdminError::Refused(text));
    }
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

fn ask(store: &Arc<NodeShared>, node: NodeId) -> Option<Told> {
    read(node, &NodeQuery::Replicas.ask(store, node).ok()?)
}

/// What a node knows, and has of the metadata group; none if it does not say.
fn read(node: NodeId, told: &Value) -> Option<Told> {
    let epoch = told["epoch"].as_u64()?;
    let replica = told["replicas"].as_array()?.iter().find(|replica| replica["shard"] == ShardId::META.0);
    let replica = replica.and_then(|replica| {
        Some(Survivor {
            node,
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

/// Why a survivor may not go on, if it may not: it lacks changes of the map that nodes have followed. It would make others in their place, with
/// the same numbers, and nodes would take some of these and some of those.
///
/// Entries that it has and that were not known to be committed count as such changes: it goes on with them.
fn hindrance(map: &Map, best: &Survivor, told: &[Told], gone: &[NodeId]) -> Option<String> {
    let on = address(map, best.node);
    let Some(held) = best.held else {
        return Some(format!(
            "the replica on {on} would go on, and that node runs an older release, which does not tell which map it has, and whether nodes know a \
             newer one: start it with this release, then try again"
        ));
    };
    // An entry makes one change at most.
    let reached = held.saturating_add(best.last.saturating_sub(best.applied));
    let newest = told.iter().max_by_key(|told| (told.epoch, Reverse(told.node))).filter(|told| told.epoch > reached)?;
    let back = match gone {
        [] => String::new(),
        gone => format!("Start one that is gone, with its data, and try again: {}. ", named(map, gone.iter().copied())),
    };
    Some(format!(
        "{} knows map {} of the store, and the replica that would go on, on {on}, has map {reached} at most: it would make other changes in place of \
         those that it has missed. {back}If none comes back that has them, restore a backup into a new store",
        address(map, newest.node),
        newest.epoch
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
        Survivor { node: NodeId(node), held: Some(7), last_term, last, applied, leads: false }
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
        // The epochs of the maps that the survivor's replica has come to, if it tells, and that its node and another one know; how many entries the
        // replica has not applied; and what is said.
        for (held, own, other, unapplied, expected) in [
            (Some(7), 7, 7, 0, None),
            (Some(8), 7, 6, 0, None),
            (Some(7), 7, 9, 2, None),
            (Some(7), 8, 7, 1, None),
            (Some(7), 7, 9, 1, Some("0000000000000002 knows map 9 of the store")),
            (Some(6), 7, 9, 0, Some("on 0000000000000001, has map 6 at most")),
            (Some(6), 9, 9, 0, Some("0000000000000001 knows map 9 of the store")),
            (Some(6), 7, 6, 0, Some("try again: 0000000000000003. If none comes back")),
            (None, 9, 9, 0, Some("that node runs an older release")),
        ] {
            let survivor = Survivor { held, ..survivor(1, Some(1), 5 + unapplied, 5) };
            let told = [
                Told { node: NodeId(1), epoch: own, replica: Some(survivor) },
                Told { node: NodeId(2), epoch: other, replica: None },
            ];
            let said = hindrance(&Map::default(), &survivor, &told, &[NodeId(3)]);
            match (&said, expected) {
                (Some(said), Some(expected)) => assert!(said.contains(expected), "{said}"),
                _ => assert_eq!(said.as_deref(), expected),
            }
        }
        let alone = Told { node: NodeId(1), epoch: 9, replica: None };
        let said = hindrance(&Map::default(), &survivor(1, Some(1), 5, 5), &[alone], &[]).unwrap();
        assert!(said.contains("it has missed. If none comes back"), "{said}");
    }
}
