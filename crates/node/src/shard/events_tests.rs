//! Events: what is told of changes, and how it is kept.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::shard::meta::{ChangeItem, MetaState};
use crate::test_nodes::node_info;
use cluster::PlanState;
use resp::Reply;
use std::sync::Arc;
use storage::{EngineKind, RowCache, SharedResources, StorageOptions, open_engine};
use vocab::{PlanId, StoreId};

fn open(dir: &tempfile::TempDir) -> Arc<ShardHandle> {
    let resources = SharedResources::new(StorageOptions::default());
    let engine = open_engine(EngineKind::Memory, dir.path(), &resources).unwrap();
    ShardHandle::open(ShardId::META, (0, 0), engine, Arc::new(RowCache::new(0))).unwrap()
}

/// Applies changes, one a millisecond.
fn apply(state: &mut MetaState, handle: &ShardHandle, changes: &[Change]) {
    for change in changes {
        let index = handle.engine().applied_index() + 1;
        let item = ChangeItem { bytes: &change.encode(), is_kept: index.is_multiple_of(2), now_ms: 1000 + index };
        state.apply(handle, index, item, &mut Reply::default());
    }
}

fn event(text: &str) -> Change {
    Change::Event { at_ms: 7, kind: "election".to_owned(), text: text.to_owned() }
}

#[test]
fn changes_are_told_once_and_survive() {
    let dir = tempfile::tempdir().unwrap();
    let handle = open(&dir);
    let mut state = MetaState::load(&handle).unwrap();
    let map = cluster::initial_map(StoreId(0xAB), &[node_info(1), node_info(2)], 2, 2).unwrap();
    let setting = |was: Option<&str>, now: Option<&str>| Change::Setting {
        name: "auto-split".to_owned(),
        was: was.map(str::to_owned),
        now: now.map(str::to_owned),
    };
    let begin = |id: u64, kind: PlanKind| Change::BeginPlan { id: PlanId(id), kind, at_ms: 50, detail: "asked".into() };
    let set = |now: PlanState, detail: &str| Change::SetPlan {
        id: PlanId(1),
        was: PlanState::Running,
        now,
        at_ms: 60,
        detail: detail.to_owned(),
    };
    let changes = [
        Change::Begin(map.clone()),
        Change::Begin(map),
        Change::RegisterNode(node_info(3)),
        Change::RegisterNode(node_info(3)),
        setting(None, Some("no")),
        setting(None, Some("yes")),
        setting(Some("no"), None),
        begin(1, PlanKind::DrainNode(NodeId(1))),
        set(PlanState::Running, "waits"),
        set(PlanState::Paused, ""),
        event("node 1 leads"),
    ];
    apply(&mut state, &handle, &changes);
    let told: Vec<String> = events_after(&handle, 0, 100)
        .unwrap()
        .iter()
        .map(|e| format!("{} {} {} {}", e.number, e.at_ms, e.kind, e.text))
        .collect();
    let expected = [
        "1 1001 store the store 00000000000000ab is made of 2 nodes, 2 shards",
        "2 1003 node node 0000000000000003 (10.0.0.3:7000) has joined the store",
        "3 1005 setting auto-split: the default -> no",
        "4 1007 setting auto-split: no -> the default",
        "5 50 plan plan 1 is begun: drain-node node 0000000000000001 (10.0.0.1:7000); asked",
        "6 60 plan plan 1 is paused",
        "7 7 election node 1 leads",
    ];
    assert_eq!(told, expected);
    // As after a restart.
    let mut state = MetaState::load(&handle).unwrap();
    apply(&mut state, &handle, &[event("again")]);
    let numbers = |events: Vec<StoreEvent>| events.iter().map(|event| event.number).collect::<Vec<_>>();
    assert_eq!(numbers(events_after(&handle, 5, 2).unwrap()), [6, 7]);
    assert_eq!(numbers(newest_events(&handle, 2).unwrap()), [7, 8]);
    assert_eq!(numbers(events_after(&handle, u64::MAX, 2).unwrap()), []);
}

#[test]
fn the_oldest_are_forgotten_and_long_ones_cut() {
    let dir = tempfile::tempdir().unwrap();
    let handle = open(&dir);
    let mut state = MetaState::load(&handle).unwrap();
    let map = cluster::initial_map(StoreId(1), &[node_info(1)], 1, 1).unwrap();
    apply(&mut state, &handle, &[Change::Begin(map)]);
    for number in 0..EVENTS_MAX + 5 {
        apply(&mut state, &handle, &[event(&number.to_string())]);
    }
    let all = events_after(&handle, 0, usize::MAX).unwrap();
    assert_eq!(all.len() as u64, EVENTS_MAX);
    assert_eq!((all[0].number, all.last().unwrap().number), (7, EVENTS_MAX + 6));
    let long = cut("é".repeat(EVENT_BYTES_MAX));
    assert!(long.len() <= EVENT_BYTES_MAX && long.ends_with('…') && long.len() > EVENT_BYTES_MAX - 4);
}
