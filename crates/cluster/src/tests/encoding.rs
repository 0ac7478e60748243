//! The layouts: what is written is read, and no bytes do harm.

use super::{drawn, drawn_change, small};
use crate::{Change, Map, MapError, NodeInfo, PlanKind, UserChange};
use vocab::{NodeId, PlanId, Prng, ReplicaId, ShardId, fuzz};

/// Maps that have been through some changes.
fn worn(prng: &mut Prng) -> Map {
    let mut map = drawn(prng);
    for _ in 0..prng.below(120) {
        let change = drawn_change(&map, prng);
        let _: Result<_, _> = crate::apply(&mut map, &change);
        map.validate().unwrap();
    }
    map
}

#[test]
fn what_is_written_is_read() {
    let mut prng = Prng::new(11);
    for _ in 0..100 {
        let map = worn(&mut prng);
        assert_eq!(Map::decode(&map.encode()).unwrap(), map);
        for change in [drawn_change(&map, &mut prng), Change::Begin(map.clone())] {
            assert_eq!(Change::decode(&change.encode()).unwrap(), change);
        }
        for node in map.nodes.values() {
            let mut bytes = Vec::new();
            node.encode(&mut bytes);
            assert_eq!(NodeInfo::decode(&bytes).as_ref(), Ok(node));
        }
    }
}

/// What a map is that has just been made, without its head, its plans and its check.
const BODY: &str = concat!(
    "0700000000000000",
    "01",
    "02",
    "02",
    "0100000000000000",
    "0e31302e302e302e313a3137303030",
    "0831302e302e302e31",
    "d836",
    "0161",
    "ac02",
    "0200000000000000",
    "0e31302e302e302e323a3137303030",
    "0831302e302e302e32",
    "d836",
    "0162",
    "01",
    "03",
    "00",
    "00",
    "03",
    "00",
    "02",
    "010002",
    "020102",
    "00",
    "00",
    "03",
    "01",
    "00ff3f",
    "02",
    "010002",
    "020102",
    "00",
    "00",
    "03",
    "01",
    "8040ff3f",
    "02",
    "010002",
    "020102",
    "00",
);

fn laid_out() -> Map {
    crate::initial_map(vocab::StoreId(7), &super::nodes(&[("a", 300), ("b", 1)]), 2, 2).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A layout that changes needs another number in its head, and these bytes a reader of both.
#[test]
fn the_layout_is_what_it_was() {
    let map = laid_out();
    let without_plans = format!("4241534d41500001{BODY}27ba3e56");
    let bytes: Vec<u8> = (0..without_plans.len()).step_by(2).map(|at| byte(&without_plans[at..at + 2])).collect();
    assert_eq!(Map::decode(&bytes).unwrap(), map, "format 1 is still read");
    // No plans, steps or splits; the next plan is 1, the next shard 3.
    assert_eq!(hex(&map.encode()), format!("4241534d41500002{BODY}000103000000{EMPTY_CHECK}"));
}

/// Plans, steps and splits.
const PLANS: &str = concat!(
    "01",
    "0200000000000000", // node 2 is leaving
    "02",               // the next plan
    "04",               // the next shard
    "01",
    "01",                 // plan 1
    "020200000000000000", // drain-node 2
    "00",                 // running
    "09",
    "00",
    "00",
    "0178",
    "01",
    "01", // shard 1: a step
    "01",
    "00",
    "02",
    "01",
    "03", // shard 3: a split
    "01",
    "02",
    "01",
    "8060ff1f",
);

#[test]
fn the_layout_of_plans_is_what_it_was() {
    let mut map = laid_out();
    let apply = |map: &mut Map, change: Change| assert!(crate::apply(map, &change).unwrap().changed, "{change:?}");
    let (id, at_ms, detail) = (PlanId(1), 9, "x".to_owned());
    apply(&mut map, Change::BeginPlan { id, kind: PlanKind::DrainNode(NodeId(2)), at_ms, detail });
    let remove = Some(ReplicaId(2));
    apply(&mut map, Change::BeginStep { plan: id, shard: ShardId(1), add: None, remove });
    let slots = vec![(0x3000, 0x3fff)];
    apply(&mut map, Change::BeginSplit { plan: id, parent: ShardId(2), child: ShardId(3), slots });
    let all = hex(&map.encode());
    let end = all.len() - 8;
    assert_eq!(&all[end - PLANS.len()..end], PLANS);
}

#[test]
fn the_layout_of_users_is_what_it_was() {
    let mut map = laid_out();
    let user = |was: Option<&str>, now: Option<&str>| {
        let bytes = |text: &str| text.as_bytes().to_vec();
        Change::SetUsers(vec![UserChange { name: "bob".to_owned(), was: was.map(bytes), now: now.map(bytes) }])
    };
    let made = user(None, Some("on"));
    assert_eq!(hex(&made.encode()), "01110103626f620001026f6e");
    for (change, outcome) in [
        (&made, Ok(true)),
        (&made, Ok(false)),
        (&user(None, Some("off")), Err("the user bob was changed in the meantime")),
        (&user(Some("on"), Some(&"x".repeat(20_000))), Err("the rules of a user have at most 16384 bytes")),
    ] {
        let found = crate::apply(&mut map, change).map(|outcome| outcome.changed).map_err(|why| why.to_string());
        assert_eq!(found.as_ref().map(|changed| *changed).map_err(String::as_str), outcome);
    }
    // No plans and the like, no survivors; one user.
    let all = hex(&map.encode());
    let end = all.len() - 8;
    assert!(all.starts_with("4241534d41500004"), "{all}");
    let tail = "000103000000000103626f62026f6e";
    assert_eq!(&all[end - tail.len()..end], tail);
    assert_eq!(Map::decode(&map.encode()).unwrap(), map);
    crate::apply(&mut map, &user(Some("on"), None)).unwrap();
    assert!(hex(&map.encode()).starts_with("4241534d41500002"), "without users it is what earlier releases read");
}

const EMPTY_CHECK: &str = "fd310e61";

fn byte(hex: &str) -> u8 {
    u8::from_str_radix(hex, 16).unwrap()
}

#[test]
fn a_changed_byte_is_noticed() {
    let bytes = small().encode();
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        assert_eq!(Map::decode(&bad), Err(MapError::Bytes("its checksum does not match")));
        assert!(Map::decode(&bytes[..at]).is_err(), "{at} bytes");
    }
}

#[test]
fn a_map_that_breaks_a_rule_is_not_read() {
    let mut map = small();
    map.shards.get_mut(&ShardId(1)).unwrap().slots[0].1 -= 1;
    assert!(matches!(Map::decode(&map.encode()), Err(MapError::Invalid(_))));
}

#[test]
fn fuzz_maps_and_changes_no_bytes_make_them_panic_or_run_away() {
    let (mut maps, mut changes) = (0u64, 0u64);
    fuzz::rounds(1, |prng| {
        let mut map = worn(prng);
        let mut bytes = map.encode();
        for _ in 0..100 {
            let mut data = bytes[..bytes.len() - 4].to_vec();
            fuzz::mutate(&mut data, 5, prng);
            data.extend_from_slice(&crc32fast::hash(&data).to_le_bytes());
            if let Ok(read) = Map::decode(&data) {
                assert_eq!(read.encode(), data, "one map has one encoding");
                read.validate().unwrap();
                maps += 1;
            }
            let mut data = drawn_change(&map, prng).encode();
            fuzz::mutate(&mut data, 5, prng);
            if let Ok(change) = Change::decode(&data) {
                assert_eq!(change.encode(), data, "one change has one encoding");
                let _: Result<_, _> = crate::apply(&mut map, &change);
                map.validate().unwrap();
                changes += 1;
            }
        }
        fuzz::mutate(&mut bytes, 5, prng);
        assert!(Map::decode(&bytes).is_err() || Map::decode(&bytes).unwrap().encode() == bytes);
    });
    assert!(maps > 0 && changes > 0, "{maps} maps and {changes} changes were still readable");
}

#[test]
fn a_large_map_is_compact() {
    let map = super::large(1000, 100_000);
    let bytes = map.encode();
    assert_eq!(Map::decode(&bytes).unwrap(), map);
    assert!(bytes.len() < 10_000_000, "{} bytes", bytes.len());
    let routes = crate::Routes::from(&super::large(10, 100));
    assert_eq!(routes.shards().count(), 101);
    assert_eq!(routes.replicas(ShardId(100)).len(), 3);
}
