#![allow(clippy::unwrap_used)]
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::part::{Gathered, Meeting, Moments, Sent, SyncPoint};
use super::timeline::deserialized;
use super::*;
use crate::model::LatencySummary;
use crate::target::EmbeddedTarget;
use crate::target::map_store::MapStore;
use crate::workload::{Config, Properties, Task, Workload};

struct Alone;

impl Meeting for Alone {
    fn meet(&self, _: SyncPoint) -> io::Result<()> {
        Ok(())
    }
}

fn workload(task: Task) -> Arc<Workload> {
    let mut properties = Properties::new();
    properties.add_file("workloada").unwrap();
    properties.set("recordcount", "300");
    Arc::new(Workload::plan(Config::read(&properties).unwrap(), task).unwrap())
}

fn plan(seed: u64, operations: u64) -> PhasePlan {
    PhasePlan {
        name: "test".to_owned(),
        title: String::new(),
        clients: 4,
        depth: 1,
        threads: 2,
        pace: Pace::Closed,
        warm_up: Some(Limit { operations: Some(100), time: None }),
        measure: Limit { operations: Some(operations), time: None },
        seed,
        keeps_log: true,
        events: EventLog::default(),
        only_errors: OnlyErrors::End,
    }
}

#[test]
fn parts_that_were_sent_are_the_whole_again() {
    let store = MapStore::default();
    let target = EmbeddedTarget::new(Arc::new(store));
    let stop = AtomicBool::new(false);
    let load = PhasePlan { warm_up: None, ..plan(1, 300) };
    run_phase(&load, &target, &workload(Task::Load), &stop, &mut |_| {}).unwrap();
    let before = Reading::opening(&target);
    let mut told = Vec::new();
    let sent: Vec<Sent> = [(7, 2000), (8, 3000)]
        .into_iter()
        .map(|(seed, operations)| {
            let plan = plan(seed, operations);
            let mut on_progress = |snapshot: Snapshot| told.extend(snapshot.closed);
            run_part(&plan, &target, &workload(Task::Run), &stop, Some(&Alone), &mut on_progress).sent(&target)
        })
        .collect();
    let mut gathered = Gathered::default();
    let mut whole: std::collections::BTreeMap<String, hdrhistogram::Histogram<u64>> = Default::default();
    for sent in &sent {
        assert!(sent.measured.is_some() && sent.figures.error.is_none() && sent.figures.cpu.is_some());
        // What travels is JSON.
        let text = serde_json::to_string(&sent.figures).unwrap();
        let figures: ShareFigures = serde_json::from_str(&text).unwrap();
        // Of fractions JSON may lose the last bit.
        assert_eq!(figures.ops, sent.figures.ops);
        gathered.add(&ShareFigures { not_started: 3, ..figures.clone() }).unwrap();
        for second in &sent.closed {
            gathered.second(second.second, second.op, second.failures, &second.bytes).unwrap();
        }
        for op in &figures.ops {
            let histogram = deserialized(&op.histograms[0]).unwrap();
            whole.entry(op.op.clone()).and_modify(|sum| sum.add(&histogram).unwrap()).or_insert(histogram);
        }
    }
    for second in &told {
        gathered.second(second.second, second.op, second.failures, &second.bytes).unwrap();
    }
    let start = sent[0].start;
    let end = start.max(sent[1].end);
    let moments =
        Moments { start, before: before.moved_to(sent[0].measured.unwrap()), after: Reading::closing(&target), end };
    let (phase, log) = gathered.finish(&plan(0, 0), moments, Vec::new(), &[61.0]);
    assert_eq!((phase.operations, phase.not_started), (5000, 2 * 3));
    for op in &phase.ops {
        let expected = LatencySummary::with_percentiles(&whole[&op.op], 0.001, &[61.0]);
        assert_eq!(op.latency.measured, expected, "{}", op.op);
        assert_eq!((op.count(), op.verified > 0), (expected.count, op.op == "READ"));
    }
    // The seconds hold the warm-up too.
    let seconds: u64 = log.seconds.iter().map(|second| deserialized(&second.bytes).unwrap().len()).sum();
    assert_eq!(seconds, 5000 + 2 * 100);
    assert!(phase.write_gap_s_max.is_some() && phase.duration_s > 0.0);
    let bad =
        ShareFigures { ops: vec![OpParts { op: "DANCE".to_owned(), ..OpParts::default() }], ..ShareFigures::default() };
    let mut gathered = Gathered::default();
    assert!(gathered.add(&bad).is_err() && gathered.second(u64::MAX, "READ", 0, &[]).is_err());
    assert!(gathered.second(0, "READ", 0, &[1, 2, 3]).is_err());
    gathered.settle(Duration::from_secs(3).as_secs());
}
