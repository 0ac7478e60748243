//! A store whose nodes die during a run.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use client::{ReadFrom, StoreUrl};

use super::*;
use crate::model::{Configuration, Identity, Phase, RunReport, SCHEMA, UNAVAILABLE};
use crate::target::{NoopServer, NoopShape, RedisOptions, RedisTarget};
use crate::workload::{Config, Properties, Task, Workload};

fn workload() -> Arc<Workload> {
    let mut properties = Properties::new();
    properties.add_file("workloadb").unwrap();
    properties.set("recordcount", "1000");
    properties.set("operationcount", "0");
    Arc::new(Workload::plan(Config::read(&properties).unwrap(), Task::Run).unwrap())
}

fn report(phase: &Phase, tolerates: &[&str]) -> RunReport {
    let tolerates = tolerates.iter().map(|&word| word.to_owned()).collect();
    RunReport {
        schema: SCHEMA,
        identity: Identity { id: "test".to_owned(), date: "today".to_owned(), ..Identity::default() },
        configuration: Configuration { tolerates, ..Configuration::default() },
        phases: vec![phase.clone()],
        ..RunReport::default()
    }
}

/// Runs for a while, and ends one of the store's three nodes in the middle.
fn with_a_death(read_from: ReadFrom) -> Phase {
    let shape = NoopShape { fields: 10, field_bytes: 100, value_bytes: 1000, verifiable: true };
    let mut nodes = NoopServer::start_nodes(0, 3, shape).unwrap();
    let seeds = nodes.iter().map(|node| node.address().to_string().parse().unwrap()).collect();
    let options = RedisOptions {
        timeout: Duration::from_secs(1),
        patience: Duration::from_millis(20),
        connections: 1,
        read_from,
        durability: vec!["nosync".to_owned()],
    };
    let target = RedisTarget::connect(StoreUrl { seeds, login: None, secure: None }, options).unwrap();
    let events = EventLog::default();
    let plan = PhasePlan {
        name: "test".to_owned(),
        title: String::new(),
        clients: 16,
        depth: 1,
        threads: 2,
        pace: Pace::Closed,
        warm_up: None,
        measure: Limit { operations: None, time: Some(Duration::from_millis(1500)) },
        seed: 7,
        keeps_log: false,
        events: events.clone(),
        only_errors: OnlyErrors::End,
    };
    let mut dying = Some(nodes.remove(1));
    let mut end_it = |snapshot: Snapshot| {
        if snapshot.elapsed > Duration::from_millis(500) && dying.take().is_some() {
            events.note("a node dies");
        }
    };
    run_phase(&plan, &target, &workload(), &AtomicBool::new(false), &mut end_it).unwrap().0
}

#[test]
fn reads_of_any_replica_go_on_when_a_node_dies() {
    let phase = with_a_death(ReadFrom::Any);
    let (strict, lenient) = (report(&phase, &[]), report(&phase, &[UNAVAILABLE]));
    crate::model::validate(&lenient).unwrap();
    let read = phase.ops.iter().find(|op| op.op == "READ").unwrap();
    let update = phase.ops.iter().find(|op| op.op == "UPDATE").unwrap();
    assert_eq!((read.error_count(), phase.verification_failures(), phase.not_found()), (0, 0, 0), "{:?}", read.errors);
    assert!(read.verified > 100 && update.error_count() > 0, "{:?}", update.errors);
    assert!(lenient.is_clean() && !strict.is_clean(), "{:?}", update.errors);
    assert!(phase.read_gap_s_max.unwrap() < 0.5, "{:?}", phase.read_gap_s_max);
    let failed_later: u64 = phase.series.iter().flat_map(|series| &series.points).map(|point| point.errors).sum();
    assert!(failed_later > 0);
    assert_eq!(phase.events.len(), 1);
    assert!((0.4..1.5).contains(&phase.events[0].t_s), "{:?}", phase.events);
    assert_eq!(phase.nodes.len(), 3);
}

#[test]
fn reads_of_a_dead_leader_fail_and_are_counted() {
    let phase = with_a_death(ReadFrom::Leader);
    let read = phase.ops.iter().find(|op| op.op == "READ").unwrap();
    assert!(read.errors.get("unreachable").is_some_and(|&times| times > 0), "{:?}", read.errors);
    assert!(read.retries > 0 && report(&phase, &[UNAVAILABLE]).is_clean(), "{:?}", read.errors);
}
