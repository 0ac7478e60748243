#![allow(clippy::unwrap_used)]
use super::*;

fn asked() -> Address {
    "a:1".parse().unwrap()
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.into())
}

fn node(host: &str, port: i64) -> Value {
    Value::Array(vec![bulk(host), Value::Int(port), bulk("id"), Value::Array(vec![])])
}

fn range(first: i64, last: i64, nodes: &[Value]) -> Value {
    Value::Array([&[Value::Int(first), Value::Int(last)], nodes].concat())
}

/// A node of CLUSTER SHARDS as RESP2 has it.
fn member(host: &str, port: i64, role: &str, health: &str) -> Value {
    let pairs = [
        ("id", bulk("id")),
        ("port", Value::Int(port)),
        ("ip", bulk(host)),
        ("endpoint", if host.is_empty() { Value::Null } else { bulk(host) }),
        ("role", bulk(role)),
        ("replication-offset", Value::Int(7)),
        ("health", bulk(health)),
    ];
    Value::Array(pairs.into_iter().flat_map(|(name, value)| [bulk(name), value]).collect())
}

fn shard(slots: &[i64], nodes: Vec<Value>) -> Value {
    let slots = Value::Array(slots.iter().map(|&slot| Value::Int(slot)).collect());
    Value::Map(vec![(bulk("slots"), slots), (bulk("nodes"), Value::Array(nodes))])
}

/// Leader and holders of a slot, by name.
fn at(map: &SlotMap, slot: u16) -> (String, Vec<String>) {
    let name = |index: usize| map.nodes()[index].to_string();
    (name(map.leader(Slot(slot))), map.holders(Slot(slot)).iter().map(|&node| name(usize::from(node))).collect())
}

#[test]
fn slots_become_a_map() {
    let answer = Value::Array(vec![
        range(0, 99, &[node("", 1)]),
        range(100, 199, &[node("b", 2), node("a", 1)]),
        range(200, 16383, &[node("a", 1)]),
    ]);
    let map = SlotMap::parse(&answer, &asked(), false).unwrap();
    assert_eq!(map.nodes().len(), 2);
    for (slot, leader) in [(0, 0), (99, 0), (100, 1), (199, 1), (200, 0), (16383, 0)] {
        assert_eq!(map.leader(Slot(slot)), leader, "{slot}");
    }
    assert_eq!(at(&map, 150), ("b:2".to_owned(), vec!["b:2".to_owned(), "a:1".to_owned()]));
    assert_eq!(SlotMap::parse(&Value::Array(vec![]), &asked(), false), Some(SlotMap::single(&asked())));
}

#[test]
fn shards_become_a_map() {
    let answer = Value::Array(vec![
        shard(&[0, 99, 300, 16383], vec![member("b", 2, "replica", "online"), member("", 1, "master", "online")]),
        shard(
            &[100, 299],
            vec![
                member("b", 2, "master", "online"),
                member("c", 3, "slave", "fail"),
                member("a", 1, "replica", "online"),
            ],
        ),
    ]);
    let map = SlotMap::parse(&answer, &asked(), false).unwrap();
    let holders = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(at(&map, 99), ("a:1".to_owned(), holders(&["a:1", "b:2"])));
    assert_eq!(at(&map, 100), ("b:2".to_owned(), holders(&["b:2", "a:1"])));
    assert_eq!(at(&map, 16383), at(&map, 0));
    assert_eq!((map.nodes().len(), map.replication()), (3, 2));
    let leaderless = Value::Array(vec![shard(&[0, 16383], vec![member("b", 2, "replica", "online")])]);
    let map = SlotMap::parse(&leaderless, &asked(), false).unwrap();
    assert_eq!(at(&map, 5), ("a:1".to_owned(), holders(&["a:1", "b:2"])), "the node that was asked knows best");
}

#[test]
fn moved_changes_one_slot() {
    let answer = Value::Array(vec![range(0, 16383, &[node("a", 1), node("b", 2)])]);
    let mut map = SlotMap::parse(&answer, &asked(), false).unwrap();
    assert!(map.moved(Slot(7), &"c:3".parse().unwrap()) && map.moved(Slot(8), &"b:2".parse().unwrap()));
    assert_eq!(at(&map, 7), ("c:3".to_owned(), vec!["c:3".to_owned()]));
    assert_eq!(at(&map, 8), ("b:2".to_owned(), vec!["b:2".to_owned()]));
    assert_eq!(at(&map, 9).1.len(), 2);
}

#[test]
fn what_is_no_map_is_refused() {
    for bad in [
        Value::Int(1),
        Value::Array(vec![range(5, 4, &[node("", 1)])]),
        Value::Array(vec![range(0, 16384, &[node("", 1)])]),
        Value::Array(vec![range(0, 1, &[])]),
        Value::Array(vec![range(0, 1, &[node("", 70_000)])]),
        Value::Array(vec![shard(&[0], vec![])]),
        Value::Array(vec![Value::Map(vec![])]),
    ] {
        assert_eq!(SlotMap::parse(&bad, &asked(), false), None, "{bad:?}");
    }
}
