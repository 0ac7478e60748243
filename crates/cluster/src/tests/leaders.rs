//! Who is to lead: even, allowed, and with few hand-overs.

use super::{all, drawn, nodes};
use crate::Map;
use crate::placement::leaders_wanted;
use std::collections::{BTreeMap, BTreeSet};
use vocab::{NodeId, Prng, ReplicaId, ShardId, StoreId};

type Leaders = BTreeMap<ShardId, NodeId>;

fn counts(map: &Map, leaders: &Leaders) -> Vec<usize> {
    let led = |node: &NodeId| leaders.iter().filter(|(id, leader)| **id != ShardId::META && *leader == node).count();
    map.nodes.keys().map(led).collect()
}

fn moves(from: &Leaders, to: &Leaders) -> usize {
    to.iter().filter(|(shard, node)| from.get(shard).is_some_and(|was| was != *node)).count()
}

fn three() -> Map {
    crate::initial_map(StoreId(1), &nodes(&[("", 1); 3]), 16, 3).unwrap()
}

#[test]
fn a_node_dies_and_comes_back() {
    let map = three();
    let before = leaders_wanted(&map, &all(&map), &Leaders::new());
    assert_eq!(counts(&map, &before), [5, 6, 5]);
    let alive: BTreeSet<NodeId> = [NodeId(1), NodeId(3)].into();
    let without = leaders_wanted(&map, &alive, &before);
    assert_eq!(counts(&map, &without), [8, 0, 8]);
    let kept = before.iter().filter(|(_, node)| **node != NodeId(2));
    assert!(kept.clone().all(|(shard, node)| without[shard] == *node), "those that live keep what they lead");
    let after = leaders_wanted(&map, &all(&map), &without);
    assert!(counts(&map, &after).iter().all(|count| (5..=6).contains(count)), "{:?}", counts(&map, &after));
    assert_eq!(moves(&without, &after), counts(&map, &after)[1]);
}

#[test]
fn small_differences_are_left_alone() {
    let map = three();
    let mut leaders = leaders_wanted(&map, &all(&map), &Leaders::new());
    // 6, 5, 5 becomes 6, 6, 4: the last is 1.33 short of its part.
    let shard = *leaders.iter().find(|(id, node)| **id != ShardId::META && **node == NodeId(3)).unwrap().0;
    leaders.insert(shard, NodeId(2));
    assert_eq!(moves(&leaders, &leaders_wanted(&map, &all(&map), &leaders)), 1);
    leaders.insert(shard, NodeId(3));
    assert_eq!(leaders_wanted(&map, &all(&map), &leaders), leaders);
}

#[test]
fn only_living_voters_lead() {
    let mut map = three();
    let mut shard = map.shards.get_mut(&ShardId(1)).unwrap();
    shard.replicas[0].learner = true;
    shard.replicas[1].member = false;
    let voter = shard.replicas[2].node;
    drop(shard);
    assert_eq!(leaders_wanted(&map, &all(&map), &Leaders::new())[&ShardId(1)], voter);
    let alive = map.nodes.keys().copied().filter(|node| *node != voter).collect();
    let wanted = leaders_wanted(&map, &alive, &[(ShardId(1), voter)].into());
    assert!(!wanted.contains_key(&ShardId(1)) && wanted.len() == 16, "{wanted:?}");
    assert!(leaders_wanted(&map, &BTreeSet::new(), &Leaders::new()).is_empty());
}

#[test]
fn the_metadata_group_keeps_its_leader() {
    let map = three();
    let led_by = |node| [(ShardId::META, NodeId(node))].into();
    assert_eq!(leaders_wanted(&map, &all(&map), &led_by(3))[&ShardId::META], NodeId(3));
    let alive = [NodeId(2), NodeId(3)].into();
    assert_eq!(leaders_wanted(&map, &alive, &led_by(1))[&ShardId::META], NodeId(2));
}

/// A store in which shards are on the nodes given, the first of which leads.
fn laid_out(of: &[(&str, u64)], on: &[(u64, u64)]) -> (Map, Leaders) {
    let mut map = crate::initial_map(StoreId(1), &nodes(of), on.len() as u32, 2).unwrap();
    for (number, (a, b)) in (1..).zip(on) {
        let mut shard = map.shards.get_mut(&ShardId(number)).unwrap();
        let replicas = &mut shard.replicas;
        (replicas[0].node, replicas[1].node) = (NodeId(*a), NodeId(*b));
        (replicas[0].id, replicas[1].id) = (ReplicaId(1), ReplicaId(2));
    }
    map.validate().unwrap();
    let leaders = (1..).map(ShardId).zip(on.iter().map(|(leader, _)| NodeId(*leader))).collect();
    (map, leaders)
}

#[test]
fn a_node_that_is_short_takes() {
    let (map, leaders) = laid_out(&[("", 1); 3], &[(2, 1), (2, 1), (2, 1), (3, 2), (3, 2), (3, 2)]);
    let wanted = leaders_wanted(&map, &all(&map), &leaders);
    assert_eq!((counts(&map, &leaders), counts(&map, &wanted)), (vec![0, 3, 3], vec![2, 2, 2]));
    assert_eq!(moves(&leaders, &wanted), 3, "one from the second, one from the third by way of the second");
}

/// The first node has 1.1 too many, and shares shards only with the second, which has 0.4 too many itself: so that one
/// hands one on to the third.
#[test]
fn a_chain_of_hand_overs_is_found() {
    let mut on = vec![(1, 2); 3];
    on.extend([(2, 3); 3]);
    on.extend([(3, 4); 7]);
    on.extend([(4, 3); 7]);
    let (map, leaders) = laid_out(&[("", 190), ("", 260), ("", 775), ("", 775)], &on);
    let wanted = leaders_wanted(&map, &all(&map), &leaders);
    assert_eq!((counts(&map, &leaders), counts(&map, &wanted)), (vec![3, 3, 7, 7], vec![2, 3, 8, 7]));
    assert_eq!(moves(&leaders, &wanted), 2);
}

#[test]
fn drawn_stores_are_led_evenly() {
    let mut prng = Prng::new(17);
    for round in 0..200 {
        let map = drawn(&mut prng);
        let alive: BTreeSet<NodeId> = map.nodes.keys().copied().filter(|_| prng.below(5) > 0).collect();
        let pick = |prng: &mut Prng, shard: &crate::ShardInfo| {
            shard.replicas[prng.below(shard.replicas.len() as u64) as usize].node
        };
        let leaders: Leaders = map.shards.iter().map(|(id, shard)| (*id, pick(&mut prng, shard))).collect();
        let wanted = leaders_wanted(&map, &alive, &leaders);
        for (id, shard) in map.data_shards() {
            let voters: Vec<NodeId> = shard.voters().map(|r| r.node).filter(|node| alive.contains(node)).collect();
            assert_eq!(wanted.contains_key(&id), !voters.is_empty(), "round {round}");
            assert!(wanted.get(&id).is_none_or(|node| voters.contains(node)), "round {round}, shard {id}");
        }
        assert_eq!(leaders_wanted(&map, &alive, &wanted), wanted, "round {round}: it settles at once");
        assert_even(&map, &alive, &wanted);
    }
}

/// A node more than one shard off its part shares no shard with a node that could help it.
fn assert_even(map: &Map, alive: &BTreeSet<NodeId>, wanted: &Leaders) {
    let counts: BTreeMap<NodeId, f64> =
        map.nodes.keys().copied().zip(counts(map, wanted).iter().map(|c| *c as f64)).collect();
    let shards = wanted.keys().filter(|id| **id != ShardId::META).count() as f64;
    let holds = |node: &NodeId| map.data_shards().any(|(_, shard)| shard.replica_on(*node).is_some());
    let capacity = |node: &NodeId| map.nodes[node].capacity as f64;
    let sum: f64 = alive.iter().filter(|node| holds(node)).map(capacity).sum();
    let off = |node: &NodeId| counts[node] - shards * capacity(node) / sum;
    for (id, from) in wanted.iter().filter(|(id, _)| **id != ShardId::META) {
        for to in map.shards[id].replicas.iter().map(|replica| replica.node).filter(|node| alive.contains(node)) {
            let is_far = off(from) > 1.001 || off(&to) < -1.001;
            assert!(!is_far || off(from) - off(&to) < 1.001, "{from} is off by {}, {to} by {}", off(from), off(&to));
        }
    }
}
