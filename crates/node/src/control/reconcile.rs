//! Which replicas a node closes, removes and opens, so that it holds what the map gives it.
//!
//! Invariants:
//! * Of a replica that goes, the tree is removed before the log's group. What a crash leaves is known by the log to be of
//!   a replica that the map no longer has, and is never taken for another one's.
//! * A shard that a newer map may know of (`shard ≥ map.next_shard`) is left alone: the map here is from before its split.
//! * A replica that comes as a part of another one's shard, by a split, is not begun with nothing.

use crate::shard_handle::ShardHandle;
use cluster::{Map, Split};
use std::collections::BTreeMap;
use std::sync::Arc;
use vocab::{NodeId, ReplicaId, ShardId, Slot};

/// What a node has of one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalReplica {
    /// The replica that is open.
    pub open: Option<ReplicaId>,
    /// What the log holds of the shard.
    pub group: LocalGroup,
    /// Whether there is a tree on disk.
    pub tree: bool,
    /// Whether the shard is being split off from another one here.
    pub forking: bool,
    /// Whether a replica that was closed is still in use: a snapshot of it is read, or written.
    pub closing: bool,
    /// A replica that cannot be opened.
    pub damaged: Option<ReplicaId>,
}

/// What a node's log holds of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalGroup {
    /// Nothing.
    #[default]
    None,
    /// The group of this replica.
    Of(ReplicaId),
    /// A group whose state cannot be read: opening it will tell why.
    Unreadable,
}

/// What is left of a replica that the map does not give the node: its tree goes first, then its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The shard.
    pub shard: ShardId,
    /// Whether the log has a group of it.
    pub group: bool,
}

/// What a node does, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciliation {
    /// Close these replicas, and remove their trees and groups.
    pub close: Vec<(ShardId, ReplicaId)>,
    /// Remove these.
    pub remove: Vec<Removal>,
    /// Open these: the log has their groups.
    pub open: Vec<(ShardId, ReplicaId)>,
    /// Then begin these, of which the log has nothing. Whether one comes by a split ([`comes_by_split`]) shows only now,
    /// when the shard that it is split off from is open.
    pub begin: Vec<(ShardId, ReplicaId)>,
}

/// What a node does about its replicas. `local` has every shard of which it has anything.
#[must_use]
pub fn reconcile(map: &Map, me: NodeId, local: &BTreeMap<ShardId, LocalReplica>) -> Reconciliation {
    let mut all = Reconciliation::default();
    for (&shard, here) in local {
        let given = given(map, me, shard);
        if shard.0 >= map.next_shard || here.forking || here.closing {
            continue;
        }
        match (here.open, here.group) {
            (Some(open), _) if Some(open) != given => all.close.push((shard, open)),
            (None, LocalGroup::Of(replica)) if Some(replica) != given => {
                all.remove.push(Removal { shard, group: true });
            }
            // The tree was forked right before a crash, and has no group yet.
            (None, LocalGroup::None) if here.tree && given.is_none() => {
                all.remove.push(Removal { shard, group: false });
            }
            _ => {}
        }
    }
    let nothing = LocalReplica::default();
    for (shard, replica) in map.replicas_on(me).map(|(shard, replica)| (shard, replica.id)) {
        let here = local.get(&shard).unwrap_or(&nothing);
        if here.open == Some(replica) || here.damaged == Some(replica) || here.forking || here.closing {
            continue;
        }
        // What is closed or removed first is begun anew.
        let goes = here.open.is_some() || matches!(here.group, LocalGroup::Of(other) if other != replica);
        match here.group == LocalGroup::None || goes {
            true => all.begin.push((shard, replica)),
            false => all.open.push((shard, replica)),
        }
    }
    all
}

/// Whether the map gives the node a replica that it does not have open, and nothing is known to be wrong with it.
#[must_use]
pub fn lacks_replicas(map: &Map, me: NodeId, has: impl Fn(ShardId, ReplicaId) -> bool) -> bool {
    map.replicas_on(me).any(|(shard, replica)| !has(shard, replica.id))
}

fn given(map: &Map, me: NodeId, shard: ShardId) -> Option<ReplicaId> {
    Some(map.shards.get(&shard)?.replica_on(me)?.id)
}

/// Whether a replica of which the log has nothing will come by itself, as a part of another shard that is here: then it
/// must not be begun with nothing. `parent` is the node's replica of a shard, `has_joined` whether one of the node's
/// other replicas of data shards that have applied anything owns a slot.
#[must_use]
pub fn comes_by_split<'a>(
    map: &Map,
    me: NodeId,
    shard: ShardId,
    parent: impl FnOnce(ShardId) -> Option<&'a ShardHandle>,
    has_joined: impl FnOnce(Slot) -> bool,
) -> bool {
    let Some(split) = map.splits.get(&shard) else {
        // A replica here that it was a part of, and that has not come so far yet. Where there is none, or where that has
        // gone by with a snapshot, the shard's leader sends it.
        let first = map.shards.get(&shard).and_then(|info| first_slot(&info.slots));
        return first.is_some_and(has_joined);
    };
    // Until the split is over the parent has the same replicas. One that has applied nothing since the node's start, or
    // cannot be opened, may come to the entry yet: were the child begun on a majority, it would have no leader.
    let is_given = given(map, me, split.parent).is_some();
    let has_gone_by = parent(split.parent).is_some_and(|parent| has_given(parent, split));
    is_given && !has_gone_by
}

/// Whether a split has happened, as the node's replicas of the parent and of the child show, though the map does not say
/// so yet.
fn has_split(split: &Split, parent: Option<&ShardHandle>, child: Option<&ShardHandle>) -> bool {
    parent.is_some_and(|parent| has_given(parent, split)) || child.is_some_and(ShardHandle::has_joined)
}

/// The map with those splits that have happened on this node, as its replicas show, and that are not in it yet: by it requests
/// find their shard. It is the same map where there is none.
#[must_use]
pub fn owners<'a>(map: &Arc<Map>, handle: impl Fn(ShardId) -> Option<&'a ShardHandle>) -> Arc<Map> {
    let has_happened = |(child, split): &(&ShardId, &Split)| has_split(split, handle(split.parent), handle(**child));
    let children: Vec<ShardId> = map.splits.iter().filter(has_happened).map(|(child, _)| *child).collect();
    if children.is_empty() { map.clone() } else { Arc::new(cluster::as_split(map, &children)) }
}

/// Whether a shard has given away the slots of a split.
fn has_given(parent: &ShardHandle, split: &Split) -> bool {
    first_slot(&split.slots).is_some_and(|slot| !parent.has_slot(slot))
}

fn first_slot(slots: &[(u16, u16)]) -> Option<Slot> {
    slots.first().map(|range| Slot(range.0))
}

/// What a node does about a fork that it has come to, if anything is left to be done.
#[must_use]
pub fn wants_fork(map: Option<&Map>, me: NodeId, child: ShardId, replica: ReplicaId, has_group: bool) -> bool {
    // The entry may be applied again long after: the replica has gone to another node since.
    let is_gone = map.is_some_and(|map| map.shards.contains_key(&child) && given(map, me, child) != Some(replica));
    // With a group it was made before, and opened at the start.
    !is_gone && !has_group
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cluster::NodeInfo;
    use vocab::StoreId;

    const ME: NodeId = NodeId(1);

    /// A store of two nodes and three data shards, each with a replica on both.
    fn map() -> Map {
        let info = |id: u64| NodeInfo {
            id: NodeId(id),
            peer_address: format!("n{id}:1"),
            client_host: format!("n{id}"),
            client_port: 1,
            zone: String::new(),
            capacity: 1,
        };
        cluster::initial_map(StoreId(1), &[info(1), info(2)], 3, 2).unwrap()
    }

    fn here(change: impl FnOnce(&mut LocalReplica)) -> LocalReplica {
        let mut local = LocalReplica::default();
        change(&mut local);
        local
    }

    /// What a node has of shard 2 and what it does about it, in words.
    #[test]
    fn a_node_comes_to_hold_what_the_map_gives() {
        let map = map();
        let mine = given(&map, ME, ShardId(2)).unwrap();
        let other = ReplicaId(99);
        let cases = [
            ("nothing", LocalReplica::default(), "begin"),
            ("the open replica", here(|l| (l.open, l.group, l.tree) = (Some(mine), LocalGroup::Of(mine), true)), ""),
            ("the closed replica", here(|l| (l.group, l.tree) = (LocalGroup::Of(mine), true)), "open"),
            ("its log", here(|l| l.group = LocalGroup::Of(mine)), "open"),
            ("its tree, forked before a crash", here(|l| l.tree = true), "begin"),
            ("a group that cannot be read", here(|l| l.group = LocalGroup::Unreadable), "open"),
            (
                "another replica, open",
                here(|l| (l.open, l.group) = (Some(other), LocalGroup::Of(other))),
                "close begin",
            ),
            ("another replica, closed", here(|l| l.group = LocalGroup::Of(other)), "remove tree and group, begin"),
            ("its damaged replica", here(|l| (l.group, l.damaged) = (LocalGroup::Of(mine), Some(mine))), ""),
            ("another damaged one", here(|l| (l.group, l.damaged) = (LocalGroup::Of(mine), Some(other))), "open"),
            ("a fork under way", here(|l| (l.tree, l.forking) = (true, true)), ""),
            (
                "another replica, closed and in use",
                here(|l| (l.group, l.tree, l.closing) = (LocalGroup::Of(other), true, true)),
                "",
            ),
        ];
        for (what, local, expected) in cases {
            assert_eq!(told(&map, ShardId(2), local), expected, "{what}");
        }
    }

    #[test]
    fn what_the_map_does_not_give_goes() {
        let mut map = map();
        map.shards.get_mut(&ShardId(2)).unwrap().replicas.retain(|replica| replica.node != ME);
        let gone = ReplicaId(7);
        let open = here(|l| (l.open, l.group, l.tree) = (Some(gone), LocalGroup::Of(gone), true));
        let cases = [
            ("nothing", LocalReplica::default(), ""),
            ("an open replica", open.clone(), "close"),
            ("a closed one", here(|l| (l.group, l.tree) = (LocalGroup::Of(gone), true)), "remove tree and group,"),
            ("a tree", here(|l| l.tree = true), "remove tree,"),
            ("a tree that is being forked", here(|l| (l.tree, l.forking) = (true, true)), ""),
            ("a group that cannot be read", here(|l| (l.group, l.tree) = (LocalGroup::Unreadable, true)), ""),
        ];
        for (what, local, expected) in cases {
            assert_eq!(told(&map, ShardId(2), local), expected, "{what}");
        }
        let later = ShardId(map.next_shard);
        assert_eq!(told(&map, later, open), "", "the map is from before the shard");
    }

    fn told(map: &Map, shard: ShardId, local: LocalReplica) -> String {
        // Of the others everything is as it should be.
        let all = map.replicas_on(ME).map(|(id, replica)| {
            (
                id,
                LocalReplica {
                    open: Some(replica.id),
                    group: LocalGroup::Of(replica.id),
                    tree: true,
                    ..LocalReplica::default()
                },
            )
        });
        let mut all: BTreeMap<ShardId, LocalReplica> = all.collect();
        all.insert(shard, local);
        let done = reconcile(map, ME, &all);
        let mut words = Vec::new();
        words.extend(done.close.iter().map(|(id, _)| (*id, "close")));
        let removal = |group: bool| if group { "remove tree and group," } else { "remove tree," };
        words.extend(done.remove.iter().map(|removal_| (removal_.shard, removal(removal_.group))));
        words.extend(done.open.iter().map(|(id, _)| (*id, "open")));
        words.extend(done.begin.iter().map(|(id, _)| (*id, "begin")));
        assert!(words.iter().all(|(id, _)| *id == shard), "{words:?}");
        words.iter().map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_fork_is_made_once_and_where_it_is_wanted() {
        let map = map();
        let mine = given(&map, ME, ShardId(2)).unwrap();
        let child = ShardId(map.next_shard);
        assert!(wants_fork(None, ME, child, mine, false) && wants_fork(Some(&map), ME, child, mine, false));
        assert!(!wants_fork(Some(&map), ME, child, mine, true), "it was made before");
        assert!(wants_fork(Some(&map), ME, ShardId(2), mine, false));
        assert!(!wants_fork(Some(&map), ME, ShardId(2), ReplicaId(99), false), "the replica has gone");
    }
}
