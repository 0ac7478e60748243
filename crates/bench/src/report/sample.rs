//! Runs that never happened, for the tests of the reports: made from a seed, with the shapes that real ones have
//! (noise, a dip while the tree compacts, a long tail, a second where all stood still).
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use vocab::Prng;

use crate::model::*;

/// Latencies drawn for each second of each operation; each stands for its share of that second's operations.
const DRAWS: u64 = 400;

/// One kind of operation of a made-up phase.
struct Kind {
    op: &'static str,
    share: f64,
    median_us: f64,
    spread: f64,
}

const fn kind(op: &'static str, share: f64, median_us: f64, spread: f64) -> Kind {
    Kind { op, share, median_us, spread }
}

struct Plan {
    name: &'static str,
    title: &'static str,
    rate: f64,
    seconds: u32,
    warm_up_s: u32,
    kinds: &'static [Kind],
}

const LOAD: Plan = Plan {
    name: "load",
    title: "1,000,000 inserts",
    rate: 68_000.0,
    seconds: 15,
    warm_up_s: 0,
    kinds: &[kind("INSERT", 1.0, 14.0, 0.45)],
};

const PLANS: [Plan; 6] = [
    Plan {
        name: "A",
        title: "50% read, 50% update, zipfian",
        rate: 98_000.0,
        seconds: 20,
        warm_up_s: 5,
        kinds: &[kind("READ", 0.5, 3.4, 0.6), kind("UPDATE", 0.5, 12.0, 0.5)],
    },
    Plan {
        name: "B",
        title: "95% read, 5% update, zipfian",
        rate: 246_000.0,
        seconds: 20,
        warm_up_s: 5,
        kinds: &[kind("READ", 0.95, 3.1, 0.55), kind("UPDATE", 0.05, 12.5, 0.5)],
    },
    Plan {
        name: "C",
        title: "100% read, zipfian",
        rate: 268_400.0,
        seconds: 20,
        warm_up_s: 5,
        kinds: &[kind("READ", 1.0, 3.2, 0.6)],
    },
    Plan {
        name: "D",
        title: "95% read, 5% insert, latest",
        rate: 301_000.0,
        seconds: 20,
        warm_up_s: 5,
        kinds: &[kind("READ", 0.95, 2.2, 0.5), kind("INSERT", 0.05, 13.0, 0.5)],
    },
    Plan {
        name: "F",
        title: "50% read, 50% read-modify-write, zipfian",
        rate: 84_000.0,
        seconds: 20,
        warm_up_s: 5,
        kinds: &[kind("READ", 0.5, 3.4, 0.6), kind("READ-MODIFY-WRITE", 0.5, 17.0, 0.5)],
    },
    Plan {
        name: "E",
        title: "95% scan of up to 100 records, 5% insert, zipfian",
        rate: 21_500.0,
        seconds: 20,
        warm_up_s: 5,
        kinds: &[kind("SCAN", 0.95, 84.0, 0.7), kind("INSERT", 0.05, 15.0, 0.5)],
    },
];

/// A default run, as `basalt bench` makes it.
pub fn run() -> RunReport {
    let mut prng = Prng::new(42);
    let phases = std::iter::once(&LOAD).chain(&PLANS).map(|plan| phase(plan, &mut prng)).collect();
    RunReport {
        schema: SCHEMA,
        identity: Identity {
            id: "2026-11-21T19-03-20Z-default".to_owned(),
            name: "default".to_owned(),
            date: "2026-11-21T19:03:20Z".to_owned(),
            product_version: "0.1.0".to_owned(),
            git_commit: Some("62c512cab95a".to_owned()),
            command_line: vec!["basalt".to_owned(), "bench".to_owned()],
            seed: 42,
        },
        environment: Environment {
            kernel: "Linux 6.1.0-25-amd64 x86_64".to_owned(),
            cpu_model: "Example CPU 2.60GHz".to_owned(),
            cores: 2,
            memory_bytes: 8_343_777_280,
            disk: Some("vda".to_owned()),
            filesystem: Some("ext4".to_owned()),
            link: Link::InProcess,
            build: BuildProfile::Release,
        },
        configuration: configuration(),
        phases,
        outcome: RunOutcome::Completed,
        notes: Vec::new(),
        searches: Vec::new(),
    }
}

fn configuration() -> Configuration {
    let properties = [("fieldcount", "10"), ("fieldlength", "100"), ("recordcount", "1000000"), ("zeropadding", "1")];
    Configuration {
        target: "embedded".to_owned(),
        system: "Basalt 0.1.0".to_owned(),
        durability: "sync".to_owned(),
        replication: "1".to_owned(),
        consistency: "absolute".to_owned(),
        compression: "lz4".to_owned(),
        memory_budget_bytes: Some(2_000_000_000),
        memory_limit_bytes: None,
        engine: "lsm".to_owned(),
        record_count: 1_000_000,
        record_size_bytes: 1000,
        clients: 64,
        pipeline_depth: 1,
        threads: 2,
        connections: None,
        tolerates: Vec::new(),
        pacing: Pacing::Closed,
        distribution: "zipfian".to_owned(),
        warm_up_rule: "the first 5 s of each workload, none for the load".to_owned(),
        verification: "Every value that is read is checked against a hash of its key and field".to_owned(),
        properties: properties.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect(),
    }
}

/// A run over the network in an open loop in which everything goes wrong that can.
pub fn troubled_run() -> RunReport {
    let mut report = run();
    report.phases.truncate(2);
    report.outcome = RunOutcome::Interrupted;
    report.environment.build = BuildProfile::Debug;
    report.environment.link = Link::Loopback;
    report.configuration.target = "redis://127.0.0.1:7000".to_owned();
    report.configuration.pacing = Pacing::Open { offered_per_s: 220_000.0 };
    let markup = "<b>&\"'</b></script><script>alert(1)</script><!--|`*_";
    report.configuration.properties.insert("fieldnameprefix".to_owned(), markup.to_owned());
    report.notes.push(format!("A note with markup: {markup}"));
    let phase = &mut report.phases[1];
    phase.offered_per_s = Some(220_000.0);
    phase.duration_s = 9.0;
    // 20 reads of it fail, below.
    phase.throughput_per_s = (phase.operations - 20) as f64 / 9.0;
    let used = phase.cpu.process.take().unwrap_or_default();
    phase.cpu.client = Some(CpuTime { user_s: used.user_s * 0.45, system_s: used.system_s * 0.45 });
    phase.cpu.server = Some(CpuTime { user_s: used.user_s * 0.55, system_s: used.system_s * 0.55 });
    phase.nodes = ["127.0.0.1:7000", "127.0.0.1:7001"].map(node).to_vec();
    phase.read_gap_s_max = Some(0.73);
    for series in &mut phase.series {
        series.points.iter_mut().filter(|point| point.t_s == 8.0).for_each(|point| point.errors = 13);
    }
    phase.events.push(Event { t_s: 8.0, label: format!("kill -9 {markup}") });
    let read = &mut phase.ops[0];
    read.returned = BTreeMap::from([("OK".to_owned(), read.count() - 20), ("ERROR".to_owned(), 13)]);
    read.returned.insert("NOT_FOUND".to_owned(), 7);
    read.latency.measured.count -= 20;
    read.errors = BTreeMap::from([("timeout".to_owned(), 9), ("LOADING".to_owned(), 4)]);
    (read.not_found, read.retries, read.conflicts, read.verification_failures) = (7, 31, 2, 1);
    read.first_wrong = Some("READ, field `field3` of key `user7`: expected 100 bytes, received 2: `\\x00a`".to_owned());
    let mut later = read.latency.measured.clone();
    for value in [&mut later.mean_us, &mut later.p50_us, &mut later.p90_us, &mut later.p95_us, &mut later.p99_us] {
        *value = (*value * 3e3).round() / 1e3;
    }
    for value in [&mut later.p99_9_us, &mut later.p99_99_us, &mut later.max_us] {
        *value = (*value * 3e3).round() / 1e3;
    }
    later.spectrum.iter_mut().for_each(|point| point.value_us = (point.value_us * 3e3).round() / 1e3);
    read.latency.intended = Some(later);
    read.stale = 3;
    read.failed_latency = Some(LatencySummary::from_histogram(&failures(), 1.0));
    report
}

/// A search for a rate: three trials, of which one kept the objective.
pub fn searched_run() -> RunReport {
    let mut report = run();
    let b = report.phases.swap_remove(2);
    report.phases.clear();
    let mut search = Search {
        goal: "p99 < 20.0 µs".to_owned(),
        answer: "p99 < 20.0 µs holds up to 200,000/s, and not at 210,000/s (5.0 % above it).".to_owned(),
        best_per_s: Some(200_000.0),
        failed_per_s: Some(210_000.0),
        tolerance: 0.05,
        trials: Vec::new(),
    };
    for (number, (offered_per_s, holds)) in
        [(200_000.0, true), (320_000.0, false), (210_000.0, false)].into_iter().enumerate()
    {
        let name = format!("trial-{}", number + 1);
        let why = if holds { "READ p99 12.0 µs of 20.0 µs" } else { "UPDATE p99 48.0 µs of 20.0 µs" }.to_owned();
        let headline = b.ops[1].latency.headline();
        let (p50_us, p99_us) = (headline.p50_us, headline.p99_us);
        let achieved_per_s = b.throughput_per_s;
        search.trials.push(Trial {
            phase: name.clone(),
            offered_per_s,
            achieved_per_s,
            p50_us,
            p99_us,
            holds,
            why,
            set_aside: false,
        });
        report.phases.push(Phase { name, offered_per_s: Some(offered_per_s), ..b.clone() });
    }
    report.searches.push(search);
    report
}

fn node(name: &str) -> NodeUsage {
    let cpu = Some(CpuTime { user_s: 4.0, system_s: 1.0 });
    NodeUsage { name: name.to_owned(), cpu, peak_rss_bytes: Some(706_000_000), disk_bytes: Some(567_000_000) }
}

fn failures() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000, 3).unwrap();
    (1..=20).for_each(|n| histogram.record(n * 50_000).unwrap());
    histogram
}

/// Share of the usual rate in each second: noise, a dip of a compaction, and one second that all but stands still.
fn pace(second: u32, prng: &mut Prng) -> f64 {
    let noise = 1.0 + 0.06 * (prng.next_f64() - 0.5);
    match second {
        0 => 0.72 * noise,
        11 => 0.61 * noise,
        12 => 0.48 * noise,
        13 => 0.66 * noise,
        _ => noise,
    }
}

fn normal(prng: &mut Prng) -> f64 {
    (0..12).map(|_| prng.next_f64()).sum::<f64>() - 6.0
}

fn phase(plan: &Plan, prng: &mut Prng) -> Phase {
    let mut totals: Vec<Histogram<u64>> =
        plan.kinds.iter().map(|_| Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap()).collect();
    let mut series: Vec<OpSeries> =
        plan.kinds.iter().map(|kind| OpSeries { op: kind.op.to_owned(), points: Vec::new() }).collect();
    let mut debt = Vec::new();
    for second in 0..plan.seconds + plan.warm_up_s {
        let pace = pace(second, prng);
        for (index, kind) in plan.kinds.iter().enumerate() {
            let weight = ((plan.rate * kind.share * pace) as u64 / DRAWS).max(1);
            let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
            for draw in 0..DRAWS {
                let stalled = if draw < 3 { 12.0 + 900.0 * prng.next_f64().powi(9) } else { 1.0 };
                let us = kind.median_us / pace.powi(2) * (normal(prng) * kind.spread).exp() * stalled;
                histogram.record_n((us * 1000.0) as u64, weight).unwrap();
            }
            let of = LatencySummary::from_histogram(&histogram, 0.001);
            series[index].points.push(SeriesPoint {
                t_s: f64::from(second),
                ops: of.count,
                p50_us: of.p50_us,
                p95_us: of.p95_us,
                p99_us: of.p99_us,
                max_us: of.max_us,
                errors: 0,
            });
            if second >= plan.warm_up_s {
                totals[index].add(&histogram).unwrap();
            }
        }
        debt.push(MetricPoint { t_s: f64::from(second), value: (4e7 + 6e8 * (1.0 - pace).max(0.0)).round() });
    }
    let operations: u64 = totals.iter().map(Histogram::len).sum();
    let duration_s = f64::from(plan.seconds);
    let busy_s = duration_s * 1.94;
    Phase {
        name: plan.name.to_owned(),
        title: plan.title.to_owned(),
        started_at: "2026-11-21T19:03:25Z".to_owned(),
        ended_at: "2026-11-21T19:03:45Z".to_owned(),
        warm_up_s: f64::from(plan.warm_up_s),
        duration_s,
        operations,
        throughput_per_s: operations as f64 / duration_s,
        offered_per_s: None,
        not_started: 0,
        ops: plan.kinds.iter().zip(&totals).map(|(kind, total)| op(kind, total)).collect(),
        cpu: CpuUse { process: Some(CpuTime { user_s: busy_s * 0.8, system_s: busy_s * 0.2 }), ..CpuUse::default() },
        disk_bytes: Some(1_134_000_000),
        peak_rss_bytes: Some(1_412_000_000),
        nodes: Vec::new(),
        agents: Vec::new(),
        read_gap_s_max: Some(0.01),
        write_gap_s_max: Some(0.02),
        series,
        metrics: vec![MetricSeries {
            name: "compaction debt".to_owned(),
            unit: "bytes".to_owned(),
            node: None,
            points: debt,
        }],
        events: vec![Event { t_s: 11.0, label: "compaction begins".to_owned() }],
    }
}

fn op(kind: &Kind, total: &Histogram<u64>) -> OpStats {
    OpStats {
        op: kind.op.to_owned(),
        latency: Latency { measured: LatencySummary::from_histogram(total, 0.001), intended: None },
        returned: BTreeMap::from([("OK".to_owned(), total.len())]),
        verified: if matches!(kind.op, "READ" | "SCAN" | "READ-MODIFY-WRITE") { total.len() } else { 0 },
        ..OpStats::default()
    }
}
