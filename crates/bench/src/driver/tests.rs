#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::*;
use crate::model::{Configuration, Identity, OpStats, Phase, RunReport, SCHEMA};
use crate::target::map_store::{MapStore, Mischief, StoredValue};
use crate::target::{EmbeddedTarget, NoopTarget, Target};
use crate::workload::{Config, Properties, Task, Workload};

const RECORDS: u64 = 300;

fn workload(base: &str, assignments: &str, task: Task) -> Arc<Workload> {
    let mut properties = Properties::new();
    properties.add_file(base).unwrap();
    properties.set("recordcount", &RECORDS.to_string());
    properties.set("operationcount", "2000");
    for assignment in assignments.split_whitespace() {
        properties.add_assignment(assignment).unwrap();
    }
    Arc::new(Workload::plan(Config::read(&properties).unwrap(), task).unwrap())
}

fn plan(workload: &Workload) -> PhasePlan {
    PhasePlan {
        name: "test".to_owned(),
        title: String::new(),
        clients: 6,
        depth: 2,
        threads: 2,
        pace: Pace::Closed,
        warm_up: None,
        measure: Limit { operations: workload.operations(), time: None },
        seed: 7,
        keeps_log: true,
        events: EventLog::default(),
        only_errors: OnlyErrors::End,
    }
}

fn run_on(target: &dyn Target, workload: &Arc<Workload>, plan: &PhasePlan) -> Phase {
    let (phase, log) = run_phase(plan, target, workload, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let succeeded = phase.ops.iter().any(|op| op.op != "CLEANUP" && op.returned.contains_key("OK"));
    assert!(!succeeded || !log.seconds.is_empty());
    let report = RunReport {
        schema: SCHEMA,
        identity: Identity { id: "test".to_owned(), date: "today".to_owned(), ..Identity::default() },
        configuration: Configuration::default(),
        phases: vec![phase],
        ..RunReport::default()
    };
    crate::model::validate(&report).unwrap();
    report.phases.into_iter().next().unwrap()
}

fn run(store: &MapStore, base: &str, assignments: &str, task: Task) -> Phase {
    let workload = workload(base, assignments, task);
    run_on(&EmbeddedTarget::new(Arc::new(store.clone())), &workload, &plan(&workload))
}

fn ops(phase: &Phase) -> BTreeMap<&str, &OpStats> {
    phase.ops.iter().map(|op| (op.op.as_str(), op)).collect()
}

fn trouble(phase: &Phase) -> (u64, u64, u64) {
    (phase.error_count(), phase.not_found(), phase.verification_failures())
}

#[test]
fn every_workload_on_every_form_of_record_reads_what_it_wrote() {
    for form in [
        "",
        "readallfields=false writeallfields=true",
        "basalt.record=string",
        "basalt.record=string writeallfields=true",
        "basalt.update=cas",
        "dataintegrity=true",
        "fieldlengthdistribution=uniform basalt.values=page",
        "basalt.values=page fieldlength=2000 basalt.compress=lz4",
        "basalt.values=page fieldlength=2000 basalt.compress=zstd basalt.record=string",
        "basalt.values=page fieldlength=2000 basalt.compress=gzip",
        "fieldlengthdistribution=zipfian basalt.values=incompressible basalt.keys=base32",
        "basalt.record=string insertorder=ordered zeropadding=6 requestdistribution=uniform",
    ] {
        let store = MapStore::default();
        let loaded = run(&store, "workloada", form, Task::Load);
        assert_eq!((loaded.operations, trouble(&loaded)), (RECORDS, (0, 0, 0)), "{form}");
        assert_eq!(store.with(|map| map.len() as u64), RECORDS);
        for base in ["workloada", "workloadb", "workloadc", "workloadd", "workloade", "workloadf"] {
            let phase = run(&store, base, form, Task::Run);
            assert_eq!((phase.operations, trouble(&phase)), (2000, (0, 0, 0)), "{base} {form}: {:?}", phase.ops);
            let reads = ["READ", "SCAN"].iter().filter_map(|op| ops(&phase).get(op).map(|op| op.count())).sum::<u64>();
            let verified: u64 = phase.ops.iter().map(|op| op.verified).sum();
            assert!(verified >= reads && reads > 900, "{base} {form}: {verified} of {reads}");
        }
        // The runs' inserts are there too, so remove exactly what was loaded.
        let deleted = run(&store, "workloada", form, Task::Delete);
        assert_eq!((deleted.operations, trouble(&deleted)), (RECORDS, (0, 0, 0)), "{form}");
        let again = run(&store, "workloada", form, Task::Delete);
        assert_eq!(again.not_found(), RECORDS, "{form}");
    }
}

#[test]
fn an_empty_store_is_not_read_with_success() {
    for (base, form) in [("workloadc", ""), ("workloadc", "readallfields=false"), ("workloade", ""), ("workloadf", "")]
    {
        let phase = run(&MapStore::default(), base, &format!("{form} insertproportion=0"), Task::Run);
        assert_eq!(phase.not_found(), 2000, "{base} {form}: {:?}", phase.ops);
    }
}

#[test]
fn what_was_not_written_is_seen() {
    let flip = |held: &mut StoredValue| match held {
        StoredValue::Text(text, _) => *text.last_mut().unwrap() ^= 1,
        StoredValue::Hash(fields) => *fields.last_entry().unwrap().get_mut().last_mut().unwrap() ^= 1,
        StoredValue::List(_) => unreachable!("no list was written"),
    };
    for form in ["", "basalt.record=string", "dataintegrity=true", "basalt.values=page"] {
        for base in ["workloadc", "workloade"] {
            let store = MapStore::default();
            run(&store, "workloada", form, Task::Load);
            store.with(|map| map.values_mut().for_each(flip));
            let phase = run(&store, base, &format!("{form} insertproportion=0"), Task::Run);
            assert_eq!(phase.verification_failures(), 2000, "{base} {form}: {:?}", phase.ops);
            assert_eq!((phase.succeeded(), phase.throughput_per_s), (0, 0.0), "rates are of what succeeds");
            let first = phase.ops.iter().find_map(|op| op.first_wrong.clone()).unwrap();
            let words =
                [if base == "workloadc" { "READ, field `" } else { "SCAN, field `" }, "expected `", "received `"];
            assert!(words.iter().all(|word| first.contains(word)), "{base} {form}: {first}");
        }
        let store = MapStore::default();
        run(&store, "workloada", form, Task::Load);
        // Every record holds its neighbour's.
        store.with(|map| {
            let mut held: Vec<StoredValue> = map.values().cloned().collect();
            held.rotate_left(1);
            map.values_mut().zip(held).for_each(|(place, held)| *place = held);
        });
        assert_eq!(run(&store, "workloadc", form, Task::Run).verification_failures(), 2000, "{form}");
    }
}

#[test]
fn scans_that_end_short_are_seen() {
    // Where the order of keys is not known, so many records can be near to the end.
    for (form, records_max) in [
        ("", Some(24)),
        ("basalt.record=string", Some(24)),
        ("insertorder=ordered", Some(19)),
        ("insertorder=ordered zeropadding=6", None),
        ("insertorder=ordered basalt.keys=base32", None),
    ] {
        let form = format!("{form} maxscanlength=20 requestdistribution=uniform insertproportion=0");
        let store = MapStore::default();
        run(&store, "workloada", &form, Task::Load);
        let whole = run(&store, "workloade", &form, Task::Run);
        assert_eq!(trouble(&whole), (0, 0, 0), "{form}: {:?}", whole.ops);
        store.set_mischief(Mischief::ShortScans(3));
        let short = run(&store, "workloade", &form, Task::Run);
        let (errors, missing, wrong) = trouble(&short);
        let Some(records_max) = records_max else {
            assert!(errors == 0 && wrong == 0 && missing > 500, "{form}: {:?}", short.ops);
            continue;
        };
        assert!(errors == 0 && missing == 0 && wrong > 500, "{form}: {:?}", short.ops);
        let first = short.ops.iter().find_map(|op| op.first_wrong.clone()).unwrap();
        let words = ["SCAN, key `user", "received 3 and the end of the store", &format!("{records_max} at most")];
        assert!(words.iter().all(|word| first.contains(word)), "{form}: {first}");
    }
}

#[test]
fn lost_races_are_tried_again_and_counted() {
    let store = MapStore::default();
    run(&store, "workloada", "basalt.update=cas", Task::Load);
    store.set_mischief(Mischief::Rivals(3));
    for (base, op) in [("workloada", "UPDATE"), ("workloadf", "READ-MODIFY-WRITE")] {
        let phase = run(&store, base, "basalt.update=cas", Task::Run);
        assert_eq!(trouble(&phase), (0, 0, 0));
        assert!(ops(&phase)[op].conflicts > 100, "{:?}", phase.ops);
    }
}

#[test]
fn errors_are_counted_by_their_kind_and_inserts_of_a_load_tried_again() {
    let store = MapStore::default();
    store.set_mischief(Mischief::Errors(10));
    let retry = "core_workload_insertion_retry_limit=20 core_workload_insertion_retry_interval=0.001";
    let loaded = run(&store, "workloada", retry, Task::Load);
    assert_eq!(trouble(&loaded), (0, 0, 0));
    assert!(ops(&loaded)["INSERT"].retries > 20);
    let phase = run(&store, "workloadf", "", Task::Run);
    let (reads, updates) = (ops(&phase)["READ"], ops(&phase)["UPDATE"]);
    assert_eq!(reads.errors.keys().collect::<Vec<_>>(), ["BUSY"]);
    let whole = ops(&phase)["READ-MODIFY-WRITE"];
    assert_eq!(reads.errors["BUSY"] + updates.errors["BUSY"], phase.error_count());
    assert!(whole.error_count() == 0 && whole.returned["ERROR"] > 0);
    assert!(reads.failed_latency.as_ref().unwrap().count == reads.errors["BUSY"]);
}

/// A take from a queue is a read-modify-write of one request: it has no parts that would tell what went wrong.
#[test]
fn what_goes_wrong_in_takes_fails_a_run() {
    let store = MapStore::default();
    assert_eq!(trouble(&run(&store, "queue", "", Task::Load)), (0, 0, 0));
    let right = run(&store, "queue", "", Task::Run);
    assert_eq!(trouble(&right), (0, 0, 0), "{:?}", right.ops);
    assert!(ops(&right)["READ-MODIFY-WRITE"].verified > 500, "{:?}", right.ops);
    store.set_mischief(Mischief::TakesTwice(5));
    let wrong = run(&store, "queue", "", Task::Run);
    let takes = ops(&wrong)["READ-MODIFY-WRITE"];
    assert!(takes.verification_failures > 20, "{:?}", wrong.ops);
    assert_eq!(trouble(&wrong), (0, 0, takes.verification_failures), "{:?}", wrong.ops);
    assert!(takes.first_wrong.as_ref().is_some_and(|first| first.starts_with("READ-MODIFY-WRITE of key `")));
    store.set_mischief(Mischief::Errors(10));
    let refused = run(&store, "queue", "", Task::Run);
    assert_eq!((refused.error_count(), refused.failed()), (200, 200), "{:?}", refused.ops);
    assert!(ops(&refused)["READ-MODIFY-WRITE"].errors["BUSY"] > 20);
}

/// What a first run has added and a second one takes must not be what the second one adds.
#[test]
fn a_second_run_with_the_same_seed_finds_nothing_twice() {
    let store = MapStore::default();
    run(&store, "queue", "recordcount=10", Task::Load);
    let adds = "recordcount=10 operationcount=200 updateproportion=1 readmodifywriteproportion=0";
    run(&store, "queue", adds, Task::Run);
    let takes = "recordcount=10 updateproportion=0.2 readmodifywriteproportion=0.8";
    let taken = run(&store, "queue", takes, Task::Run);
    assert_eq!(trouble(&taken), (0, 0, 0), "{:?}", taken.ops);
}

#[test]
fn a_warm_up_does_not_count() {
    let store = MapStore::default();
    run(&store, "workloada", "", Task::Load);
    let workload = workload("workloadc", "", Task::Run);
    let warm_up = Some(Limit { operations: Some(500), time: None });
    let measure = Limit { operations: Some(100), time: None };
    let phase =
        run_on(&EmbeddedTarget::new(Arc::new(store)), &workload, &PhasePlan { warm_up, measure, ..plan(&workload) });
    assert_eq!((phase.operations, ops(&phase)["READ"].latency.measured.count), (100, 100));
    assert!(phase.warm_up_s > 0.0);
}

#[test]
fn paced_operations_keep_their_time() {
    let store = MapStore::default();
    run(&store, "workloada", "", Task::Load);
    let target = EmbeddedTarget::new(Arc::new(store));
    let workload = workload("workloadc", "", Task::Run);
    let measure = Limit { operations: Some(200), time: None };
    for (pace, least_s) in [
        (Pace::Open { rate_per_s: 1000.0, arrivals: Arrivals::Even }, 0.19),
        (Pace::Throttled { target_per_s: 1000.0 }, 0.17),
    ] {
        let phase = run_on(&target, &workload, &PhasePlan { pace, measure, ..plan(&workload) });
        assert_eq!(phase.operations, 200);
        assert!(phase.duration_s > least_s, "{pace:?}: {} s", phase.duration_s);
        assert_eq!(phase.offered_per_s, Some(1000.0));
        let latency = &ops(&phase)["READ"].latency;
        assert!(latency.intended.as_ref().unwrap().mean_us >= latency.measured.mean_us);
    }
}

#[test]
fn time_ends_a_phase_and_so_does_a_wish() {
    let store = MapStore::default();
    run(&store, "workloada", "", Task::Load);
    let target = EmbeddedTarget::new(Arc::new(store));
    let workload = workload("workloadc", "", Task::Run);
    let measure = Limit { operations: None, time: Some(Duration::from_millis(50)) };
    let timed = PhasePlan { measure, ..plan(&workload) };
    let phase = run_on(&target, &workload, &timed);
    assert!((0.04..5.0).contains(&phase.duration_s) && phase.operations > 0);
    let endless = PhasePlan { measure: Limit::default(), ..plan(&workload) };
    let stopped = run_phase(&endless, &target, &workload, &AtomicBool::new(true), &mut |_| {}).unwrap();
    assert_eq!(stopped.0.operations, 0);
}

#[test]
fn over_sockets_against_the_no_op_server() {
    for base in ["workloada", "workloadb", "workloadd", "workloade", "workloadf"] {
        for form in ["", "basalt.update=cas", "readallfields=false"] {
            let workload = workload(base, form, Task::Run);
            let target = NoopTarget::start(10, 100, Duration::from_secs(10), 2).unwrap();
            let phase = run_on(&target, &workload, &plan(&workload));
            assert_eq!((phase.operations, trouble(&phase)), (2000, (0, 0, 0)), "{base} {form}: {:?}", phase.ops);
            assert!(phase.ops.iter().all(|op| op.verified == 0));
        }
    }
}
