#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;

use super::*;
use crate::workload::properties::Properties;

fn config(base: &str, assignments: &str) -> Result<Config, BadProperty> {
    let mut properties = Properties::new();
    properties.add_file(base).unwrap();
    for assignment in assignments.split_whitespace() {
        properties.add_assignment(assignment).unwrap();
    }
    Config::read(&properties)
}

fn plan(base: &str, assignments: &str, task: Task) -> Arc<Workload> {
    Arc::new(Workload::plan(config(base, assignments).unwrap(), task).unwrap())
}

/// The first `count` operations, every insert acknowledged at once.
fn operations(workload: &Arc<Workload>, count: usize) -> Vec<Operation> {
    let mut source = workload.source(42);
    let mut found = Vec::new();
    let mut operation = Operation::default();
    while found.len() < count && source.next(&mut operation) {
        workload.finished(&operation, true).unwrap();
        found.push(operation.clone());
    }
    found
}

#[test]
fn the_six_mixes() {
    for (base, expected) in [
        ("workloada", "READ 50 UPDATE 50"),
        ("workloadb", "READ 95 UPDATE 5"),
        ("workloadc", "READ 100"),
        ("workloadd", "READ 95 INSERT 5"),
        ("workloade", "INSERT 5 SCAN 95"),
        ("workloadf", "READ 50 READ-MODIFY-WRITE 50"),
    ] {
        let workload = plan(base, "", Task::Run);
        let mut counts = BTreeMap::new();
        for operation in operations(&workload, 20_000) {
            *counts.entry(operation.kind).or_insert(0u32) += 1;
        }
        let shown: Vec<String> = counts
            .iter()
            .map(|(kind, &count)| format!("{} {}", kind.name(), (f64::from(count) / 200.0).round()))
            .collect();
        assert_eq!(shown.join(" "), expected, "{base}");
    }
}

#[test]
fn a_load_inserts_each_of_its_records_once() {
    for (assignments, numbers) in [
        ("recordcount=100", 0..100),
        ("recordcount=100 insertstart=40 insertcount=20", 40..60),
        ("recordcount=100 insertstart=40", 40..100),
        ("recordcount=100 insertstart=40 basalt.processes=3 basalt.process=1", 60..80),
        ("recordcount=100 insertstart=40 insertcount=30 basalt.processes=3 basalt.process=1", 50..60),
        ("recordcount=100 insertcount=1 basalt.processes=3 basalt.process=0", 0..0),
        ("recordcount=100 basalt.processes=3 basalt.process=1", 33..66),
        ("recordcount=100 basalt.processes=3 basalt.process=2", 66..100),
    ] {
        for task in [Task::Load, Task::Delete] {
            let workload = plan("workloada", assignments, task);
            assert_eq!(workload.operations(), Some(numbers.end - numbers.start), "{assignments}");
            let found: Vec<u64> = operations(&workload, 1000).iter().map(|operation| operation.number).collect();
            assert_eq!(found, numbers.clone().collect::<Vec<_>>(), "{assignments}");
        }
    }
}

#[test]
fn the_latest_reads_what_was_acknowledged_and_never_record_0() {
    let workload = plan("workloadd", "recordcount=100", Task::Run);
    let mut end = 100;
    for operation in operations(&workload, 10_000) {
        if operation.kind == OpKind::Insert {
            assert_eq!(operation.number, end);
            end += 1;
        } else {
            assert!((1..end).contains(&operation.number), "{operation:?}");
        }
    }
    assert!(end > 500);
}

#[test]
fn what_is_not_acknowledged_is_not_read() {
    let workload = plan("workloadd", "recordcount=10", Task::Run);
    let mut source = workload.source(1);
    let mut operation = Operation::default();
    for _ in 0..2000 {
        assert!(source.next(&mut operation));
        assert!(operation.kind == OpKind::Insert || operation.number < 10, "{operation:?}");
    }
    workload.finished(&Operation { kind: OpKind::Insert, number: 10, ..Operation::default() }, false).unwrap();
    assert!(!workload.must_exist(10) && workload.must_exist(9));
}

#[test]
fn parallel_processes_never_insert_the_same_record() {
    let mut names = std::collections::BTreeSet::new();
    let mut inserted = 0;
    for process in 0..3 {
        let assignments = format!("recordcount=100 basalt.processes=3 basalt.process={process}");
        let workload = plan("workloadd", &assignments, Task::Run);
        for operation in operations(&workload, 2000) {
            if operation.kind == OpKind::Insert {
                inserted += 1;
                assert!(names.insert(operation.key.clone()));
            }
        }
    }
    assert!(inserted > 200);
}

#[test]
fn three_billion_records_plan_at_once() {
    // One step a record would take minutes.
    for base in ["workloada", "workloadd", "workloade"] {
        let workload = plan(base, "recordcount=3000000000 operationcount=5000000000", Task::Run);
        let highest = operations(&workload, 10_000).iter().map(|operation| operation.number).max().unwrap();
        assert!(highest > 2_900_000_000, "{base}: {highest}");
    }
    assert_eq!(plan("workloada", "recordcount=3000000000", Task::Load).operations(), Some(3_000_000_000));
}

#[test]
fn the_zipfian_range_has_room_for_inserts() {
    let workload = plan("workloade", "recordcount=1000 operationcount=1000", Task::Run);
    let KeyChooser::Scrambled { count, .. } = workload.chooser else { panic!("not scrambled") };
    assert_eq!(count, 1000 + 100 + 1);
}

#[test]
fn every_distribution_asks_for_the_records_of_its_range_and_those_that_it_inserts() {
    let words = "uniform zipfian latest sequential hotspot exponential";
    for (words, inserts) in words.split(' ').flat_map(|word| [(word, "0"), (word, "0.2")]) {
        let assignments = format!(
            "recordcount=300 insertstart=100 insertcount=100 operationcount=3000 requestdistribution={words} \
             insertproportion={inserts}"
        );
        let workload = plan("workloada", &assignments, Task::Run);
        let (mut loaded, mut end) = (std::collections::BTreeSet::new(), 300);
        for operation in operations(&workload, 10_000) {
            match operation.kind {
                OpKind::Insert => end += 1,
                _ if (100..200).contains(&operation.number) => _ = loaded.insert(operation.number),
                _ => assert!((300..end).contains(&operation.number), "{assignments}: {operation:?}"),
            }
        }
        assert!(loaded.len() > 50, "{assignments}: {loaded:?}");
    }
}

#[test]
fn properties_that_cannot_be_are_named() {
    for task in [Task::Load, Task::Run] {
        let found = config("workloada", "insertstart=900 insertcount=200 recordcount=1000");
        let found = found.and_then(|config| Workload::plan(config, task)).unwrap_err();
        assert_eq!(found.name, "insertcount", "{task:?}");
    }
    for (assignments, name) in [
        ("recordcount=x", "recordcount"),
        ("recordcount=0", "recordcount"),
        ("recordcount=18446744073709551615", "recordcount"),
        ("fieldcount=0", "fieldcount"),
        ("fieldcount=4000000000", "fieldcount"),
        ("fieldlength=999999999999", "fieldlength"),
        ("fieldlength=1000000000000 fieldlengthdistribution=zipfian", "fieldlength"),
        ("requestdistribution=zipf", "requestdistribution"),
        ("hotspotdatafraction=2 requestdistribution=hotspot", "hotspotdatafraction"),
        ("dataintegrity=true fieldlengthdistribution=uniform", "dataintegrity"),
        ("basalt.update=cas basalt.record=hash", "basalt.record"),
        ("basalt.process=1", "basalt.process"),
        ("insertstart=900 insertcount=200 recordcount=1000", "insertcount"),
        ("insertstart=1000 recordcount=1000", "insertstart"),
        ("requestdistribution=exponential exponential.percentile=0.0001", "exponential.percentile"),
        ("requestdistribution=exponential exponential.percentile=1e-300", "exponential.percentile"),
        ("requestdistribution=exponential exponential.frac=1e9", "exponential.percentile"),
        ("readproportion=0 updateproportion=0", "readproportion"),
        ("minscanlength=10 maxscanlength=5", "maxscanlength"),
        ("requestdistribution=latest recordcount=1", "recordcount"),
        ("fieldlengthdistribution=histogram fieldlengthhistogram=nowhere.txt", "fieldlengthhistogram"),
    ] {
        let found = config("workloada", assignments).and_then(|config| Workload::plan(config, Task::Run));
        assert_eq!(found.unwrap_err().name, name, "{assignments}");
    }
}

#[test]
fn updates_write_one_field_and_inserts_all() {
    let workload = plan("workloada", "readallfields=false insertproportion=0.5", Task::Run);
    let mut fields = std::collections::BTreeSet::new();
    for operation in operations(&workload, 1000) {
        assert!(matches!(operation.read, Fields::One(field) if field < 10));
        match (operation.kind, operation.write) {
            (OpKind::Insert, Fields::All) => {}
            (OpKind::Insert, _) | (_, Fields::All) => panic!("{operation:?}"),
            (_, Fields::One(field)) => _ = fields.insert(field),
        }
    }
    assert_eq!(fields.len(), 10);
}

#[test]
fn runs_with_one_seed_add_different_elements() {
    let runs = ["queue", "tags", "stream"].map(|base| [plan(base, "", Task::Run), plan(base, "", Task::Run)]);
    for [first, second] in runs {
        let (ours, theirs) = (operations(&first, 100), operations(&second, 100));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!((ours.kind, &ours.key, ours.tag), (theirs.kind, &theirs.key, theirs.tag));
            assert_ne!(first.added_number(ours), second.added_number(theirs));
            assert_eq!(first.added_number(ours), first.added_number(theirs), "a second attempt adds the same");
        }
    }
}
