//! The first map: zones, capacities, evenness.

use super::{all, node, nodes};
use crate::placement::leaders_wanted;
use crate::{Map, MapError};
use std::collections::{BTreeMap, BTreeSet};
use vocab::{NodeId, Prng, ReplicaId, ShardId, StoreId};

/// Zones and capacities of nodes.
type Of<'a> = &'a [(&'a str, u64)];

fn initial(of: Of<'_>, shards: u32, replication_factor: u32) -> Map {
    crate::initial_map(StoreId(1), &nodes(of), shards, replication_factor).unwrap()
}

/// How many replicas of data shards each node has, in order of their ids.
fn held(map: &Map) -> Vec<usize> {
    let on = |node: &NodeId| map.replicas_on(*node).filter(|(shard, _)| *shard != ShardId::META).count();
    map.nodes.keys().map(on).collect()
}

fn led(map: &Map) -> Vec<usize> {
    let first = |node: &NodeId| map.data_shards().filter(|(_, shard)| shard.replicas[0].node == *node).count();
    map.nodes.keys().map(first).collect()
}

#[test]
fn replicas_go_by_capacity() {
    let three: &[_] = &[("", 1), ("", 1), ("", 1)];
    let cases: &[(Of<'_>, u32, u32, &[usize])] = &[
        (&[("", 5)], 16, 3, &[16]),
        (three, 16, 3, &[16, 16, 16]),
        (three, 16, 1, &[6, 5, 5]),
        (three, 1, 2, &[1, 1, 0]),
        (&[("", 2), ("", 1), ("", 1)], 16, 1, &[8, 4, 4]),
        // No node can hold a shard twice, so the large one takes less than its part.
        (&[("", 9), ("", 1), ("", 1)], 16, 2, &[16, 8, 8]),
        (&[("", 1), ("", 0), ("", 1), ("", 1), ("", 1)], 16, 2, &[8, 0, 8, 8, 8]),
        // A replica in each of three zones, whatever their size.
        (&[("a", 1), ("a", 1), ("b", 1), ("c", 1), ("c", 1)], 16, 3, &[8, 8, 16, 8, 8]),
        (&[("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1)], 15, 3, &[9, 9, 9, 9, 9]),
        // Two zones for three replicas: two and one.
        (&[("a", 1), ("a", 1), ("b", 1), ("b", 1)], 16, 3, &[12, 12, 12, 12]),
        (&[("a", 1), ("b", 1), ("b", 1), ("b", 1)], 16, 3, &[16, 11, 11, 10]),
    ];
    for (of, shards, replication_factor, expected) in cases {
        let map = initial(of, *shards, *replication_factor);
        let mut held = held(&map);
        held[1..].sort_by_key(|count| std::cmp::Reverse(*count));
        let mut expected = expected.to_vec();
        expected[1..].sort_by_key(|count| std::cmp::Reverse(*count));
        assert_eq!(held, expected, "{of:?} × {shards} × {replication_factor}");
    }
}

#[test]
fn drawn_stores_keep_zones_apart_and_are_even() {
    let mut prng = Prng::new(9);
    for round in 0..300 {
        let zones = 1 + prng.below(5);
        let of: Vec<String> = (0..=prng.below(14)).map(|_| format!("z{}", prng.below(zones))).collect();
        let of: Vec<(&str, u64)> = of.iter().map(|zone| (zone.as_str(), 10)).collect();
        let (shards, wanted) = (1 + prng.below(100) as u32, 1 + prng.below(5) as u32);
        let map = initial(&of, shards, wanted);
        let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
        of.iter().for_each(|(zone, _)| *sizes.entry(zone).or_default() += 1);
        let replicas = (wanted as usize).min(of.len());
        let most = (1..).find(|most| sizes.values().map(|size| size.min(most)).sum::<usize>() >= replicas).unwrap();
        for (id, shard) in map.data_shards() {
            assert_eq!(shard.replicas.len(), replicas);
            assert!(shard.replicas.iter().map(|replica| replica.id).eq((1..=replicas as u64).map(ReplicaId)));
            let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
            shard.replicas.iter().for_each(|r| *taken.entry(&map.nodes[&r.node].zone).or_default() += 1);
            assert!(taken.values().all(|count| *count <= most), "round {round}, shard {id}: {taken:?} of {sizes:?}");
        }
        // Within a zone nodes are equal here, so they hold equally much.
        let held: BTreeMap<NodeId, usize> = map.nodes.keys().copied().zip(held(&map)).collect();
        for zone in sizes.keys() {
            let of_zone = || map.nodes.values().filter(|node| node.zone == *zone).map(|node| held[&node.id]);
            assert!(of_zone().max().unwrap() - of_zone().min().unwrap() <= 1, "round {round}, zone {zone}: {held:?}");
        }
        // What is first leads, and nothing is to be handed over.
        let leaders: BTreeMap<_, _> = map.shards.iter().map(|(id, shard)| (*id, shard.replicas[0].node)).collect();
        assert_eq!(leaders_wanted(&map, &all(&map), &leaders), leaders);
    }
}

#[test]
fn leaders_are_spread_from_the_start() {
    let mut even = led(&initial(&[("a", 1), ("b", 1), ("c", 1)], 16, 3));
    even.sort_unstable();
    assert_eq!(even, [5, 5, 6]);
    assert_eq!(led(&initial(&[("", 2), ("", 1), ("", 1)], 16, 3)), [8, 4, 4]);
}

/// When a node dies, many others help: its shards' other replicas are not all on the same two.
#[test]
fn neighbours_are_scattered() {
    let map = initial(&[("", 1); 12], 120, 3);
    for node in map.nodes.keys() {
        let shards = map.data_shards().filter(|(_, shard)| shard.replica_on(*node).is_some());
        let others: BTreeSet<NodeId> =
            shards.flat_map(|(_, shard)| shard.replicas.iter().map(|replica| replica.node)).collect();
        assert!(others.len() > 9, "node {node} shares its shards with {} others", others.len() - 1);
    }
}

#[test]
fn the_metadata_group_is_on_the_first_nodes_of_different_zones() {
    let cases: &[(Of<'_>, u32, &[u64])] = &[
        (&[("", 1)], 3, &[1]),
        (&[("", 1), ("", 1)], 3, &[1, 2]),
        (&[("", 1), ("", 1), ("", 1), ("", 1), ("", 1)], 1, &[1, 2, 3]),
        (&[("", 1), ("", 1), ("", 1), ("", 1), ("", 1)], 5, &[1, 2, 3, 4, 5]),
        (&[("a", 1), ("a", 1), ("a", 0), ("b", 1), ("c", 1)], 3, &[1, 4, 5]),
        (&[("a", 1), ("a", 1), ("a", 1), ("b", 1)], 3, &[1, 2, 4]),
    ];
    for (of, replication_factor, expected) in cases {
        let map = initial(of, 4, *replication_factor);
        let on: Vec<u64> = map.shards[&ShardId::META].replicas.iter().map(|replica| replica.node.0).collect();
        assert_eq!(on, *expected, "{of:?}");
    }
}

#[test]
fn slots_are_even_and_what_makes_no_store_is_refused() {
    for shards in [1, 3, 16, 100, 16_384] {
        let map = initial(&[("", 1)], shards, 1);
        let counts: BTreeSet<usize> = map.data_shards().map(|(_, shard)| shard.slot_count()).collect();
        assert!(counts.last().unwrap() - counts.first().unwrap() <= 1, "{shards}: {counts:?}");
    }
    let twice = [node(1, "", 1), node(1, "", 1)];
    let cases = [
        (&twice[..1], 0, 1, "1 to 16384 shards"),
        (&twice[..1], 16_385, 1, "1 to 16384 shards"),
        (&twice[..1], 1, 0, "replication factor"),
        (&twice[..1], 1, 8, "replication factor"),
        (&twice[..0], 1, 1, "no node has any capacity"),
        (&[node(1, "", 0)][..], 1, 1, "no node has any capacity"),
        (&twice[..], 1, 1, "the same id"),
    ];
    for (nodes, shards, replication_factor, told) in cases {
        match crate::initial_map(StoreId(1), nodes, shards, replication_factor) {
            Err(MapError::Invalid(text)) => assert!(text.contains(told), "{text}"),
            other => panic!("{told}: {other:?}"),
        }
    }
}
