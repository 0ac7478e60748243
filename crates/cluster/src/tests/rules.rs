//! Each rule of the map is broken once. Routes answer what the map says.

use super::{drawn, small};
use crate::{Map, MapError, ReplicaInfo, Routes};
use vocab::{NodeId, Prng, ReplicaId, SLOT_COUNT, ShardId, Slot};

#[test]
fn every_broken_rule_is_found() {
    type Breaking = fn(&mut Map);
    let breakings: &[(&str, Breaking)] = &[
        ("replication factor", |map| map.replication_factor = 0),
        ("no metadata group", |map| drop(map.shards.remove(&ShardId::META))),
        ("listed as", |map| map.nodes.get_mut(&NodeId(1)).unwrap().id = NodeId(9)),
        ("longer than 64 bytes", |map| map.nodes.get_mut(&NodeId(1)).unwrap().zone = "z".repeat(65)),
        ("space, comma or control", |map| map.nodes.get_mut(&NodeId(1)).unwrap().client_host = "a\nb".to_owned()),
        ("client port", |map| map.nodes.get_mut(&NodeId(1)).unwrap().client_port = 0),
        ("lower-case", |map| drop(map.settings.insert("No".to_owned(), String::new()))),
        ("no replica votes", |map| shard(map).replicas.iter_mut().for_each(|replica| replica.learner = true)),
        ("no replica votes", |map| shard(map).replicas.iter_mut().for_each(|replica| replica.member = false)),
        ("not of 1 to 2", |map| shard(map).next_replica = 3),
        ("out of order, or there twice", |map| shard(map).replicas[1].id = ReplicaId(1)),
        ("out of order", |map| shard(map).replicas.swap(0, 1)),
        ("two replicas are on node", |map| {
            let on = shard(map).replicas[0].node;
            shard(map).replicas[1].node = on;
        }),
        ("unknown node", |map| shard(map).replicas[1].node = NodeId(99)),
        ("replicas are more than 16", |map| {
            let replica = shard(map).replicas[0];
            shard(map).replicas = vec![replica; 17];
        }),
        ("metadata group owns slots", |map| {
            map.shards.get_mut(&ShardId::META).unwrap().slots = vec![(0, 0)];
        }),
        ("no range of slots", |map| shard(map).slots = vec![(2, 1)]),
        ("no range of slots", |map| shard(map).slots[0].1 = SLOT_COUNT),
        ("do not stand apart", |map| shard(map).slots = vec![(0, 9), (10, 4095)]),
        ("owned by shard 1 and by shard 2", |map| shard(map).slots[0].1 += 1),
        ("slot 4095 is owned by no shard", |map| shard(map).slots[0].1 -= 1),
    ];
    assert_eq!(small().validate(), Ok(()));
    for (told, breaking) in breakings {
        let mut map = small();
        breaking(&mut map);
        match map.validate() {
            Err(MapError::Invalid(text)) => assert!(text.contains(told), "{text:?} does not say {told:?}"),
            other => panic!("{told}: {other:?}"),
        }
    }
}

fn shard(map: &mut Map) -> crate::ShardEdit<'_> {
    map.shards.get_mut(&ShardId(1)).unwrap()
}

#[test]
fn routes_say_what_the_map_says() {
    let mut prng = Prng::new(3);
    for _ in 0..50 {
        let mut map = drawn(&mut prng);
        if map.shards.len() > 2 {
            // A shard that is gone leaves a hole in the numbers.
            let gone = map.shards.remove(&ShardId(1)).unwrap();
            let mut heir = map.shards.get_mut(&ShardId(2)).unwrap();
            heir.slots = vec![(gone.slots[0].0, heir.slots[0].1)];
            drop(heir);
        }
        map.validate().unwrap();
        let routes = Routes::from(&map);
        assert_eq!(routes.epoch(), map.epoch);
        for slot in (0..SLOT_COUNT).map(Slot) {
            assert!(map.shards[&routes.shard_of(slot)].owns(slot), "{slot}");
        }
        assert!(routes.shards().eq(map.shards.keys().copied()));
        assert!(routes.nodes().map(|(_, node)| node).eq(map.nodes.values()));
        for (id, shard) in &map.shards {
            assert_eq!((routes.replicas(*id), routes.slots_of(*id)), (&shard.replicas[..], &shard.slots[..]));
            for ReplicaInfo { id: replica, node, .. } in &shard.replicas {
                assert_eq!(routes.node_of(*id, *replica), Some(*node));
                assert_eq!(routes.replica_on(*id, *node), Some(*replica));
                assert_eq!(routes.node(*node), map.nodes.get(node));
            }
        }
        let unknown = ShardId(1 + map.shards.keys().last().unwrap().0);
        assert_eq!((routes.replicas(unknown).len(), routes.node_of(unknown, ReplicaId(1))), (0, None));
    }
}
