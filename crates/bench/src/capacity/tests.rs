#![allow(clippy::unwrap_used)]
use std::path::PathBuf;

use vocab::Prng;

use super::options::ModelOptions;
use super::prediction::Model;
use super::scalability::Scalability;
use super::*;
use crate::model::*;
use crate::test_options::Given;

fn options(line: &str) -> ModelOptions {
    Given::by(["model", "run"].into_iter().chain(line.split_whitespace()))
}

/// A run of which a read costs 10 µs, an update 40 µs and an insert 60 µs, on three copies.
fn run(name: &str, counts: [u64; 3], clients: u32, per_s: f64, noise: f64) -> RunFolder {
    let cost = (counts[0] as f64 * 10e-6 + counts[1] as f64 * 40e-6 + counts[2] as f64 * 60e-6) * noise;
    let all: u64 = counts.iter().sum();
    let op = |name: &str, count: u64| OpStats {
        op: name.to_owned(),
        returned: [("OK".to_owned(), count)].into_iter().collect(),
        ..OpStats::default()
    };
    let kinds = ["READ", "UPDATE", "INSERT"].into_iter().zip(counts).filter(|(_, count)| *count > 0);
    let cpu = |seconds: f64| Some(CpuTime { user_s: seconds, system_s: 0.0 });
    let phase = Phase {
        name: "run".to_owned(),
        duration_s: all as f64 / per_s,
        operations: all,
        throughput_per_s: per_s,
        ops: kinds.map(|(name, count)| op(name, count)).collect(),
        cpu: CpuUse { client: cpu(all as f64 * 5e-6), server: cpu(cost), ..CpuUse::default() },
        disk_bytes: Some(6_000_000_000),
        nodes: vec![NodeUsage::default(); 3],
        ..Phase::default()
    };
    let configuration = Configuration {
        replication: "3 on 3 nodes".to_owned(),
        record_count: 1_000_000,
        record_size_bytes: 1000,
        clients,
        pipeline_depth: 1,
        ..Configuration::default()
    };
    let report = RunReport { schema: SCHEMA, configuration, phases: vec![phase], ..RunReport::default() };
    RunFolder { path: PathBuf::from(name), report, logs: std::collections::BTreeMap::new() }
}

#[test]
fn costs_are_told_apart_by_different_mixes() {
    let mut prng = Prng::new(5);
    let mut noise = || 1.0 + 0.02 * (prng.next_f64() - 0.5);
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(run("c", [1_000_000, 0, 0], 8, 5e4, noise()));
        runs.push(run("b", [950_000, 50_000, 0], 8, 5e4, noise()));
        runs.push(run("a", [500_000, 500_000, 0], 8, 5e4, noise()));
        runs.push(run("load", [0, 0, 1_000_000], 8, 5e4, noise()));
    }
    let line = "--nodes 15 --cores 16 --records 2e9 --record-bytes 1102 --mix 95/5 --rf 3 --network-gbit 100";
    let model = Model::of(&runs, &options(line)).unwrap();
    let kinds: Vec<_> = model.demand.kinds.iter().map(|kind| (kind.kind, kind.cpu_us.round())).collect();
    assert_eq!(kinds, [("read", 10.0), ("update", 40.0), ("insert", 60.0)]);
    for (kind, truth) in model.demand.kinds.iter().zip([10.0, 40.0, 60.0]) {
        assert!(kind.low_us.unwrap() < truth && kind.high_us.unwrap() > truth, "{kind:?}");
    }
    assert!(model.demand.own_error < 0.01 && model.demand.left_out_error.unwrap() < 0.02);
    let of = &model.predictions[0];
    // 240 cores at 80 % by 11.5 µs.
    assert!((of.ops_per_s / (240.0 * 0.8 / 11.5e-6) - 1.0).abs() < 0.02, "{of:?}");
    assert!(of.ops_per_s_low.unwrap() < of.ops_per_s && of.ops_per_s_high.unwrap() > of.ops_per_s && of.bound == "CPU");
    // Two bytes on disk for each of a record and copy.
    assert_eq!(of.disk_bytes_per_node.unwrap().round(), 2e9 * 1102.0 * 3.0 * 2.0 / 15.0);
    assert!((of.load_hours.unwrap() - 2e9 / (240.0 * 0.8 / 60e-6) / 3600.0).abs() < 0.01);
    assert!(model.nodes.as_ref().unwrap_err().contains("needs 4") && model.clients.is_err());
    let narrow = Model::of(&runs, &options(&line.replace("--network-gbit 100", "--network-gbit 1"))).unwrap();
    assert_eq!(narrow.predictions[0].bound, "network");
    let presets = Model::of(&runs, &options("")).unwrap();
    // Scans were not measured, so workload E has no prediction.
    assert_eq!(presets.predictions.len(), 4 + 3 + 4 + 9);
    assert!(
        presets.left_out.iter().any(|why| why.contains("voltdb, E on 12: no run has scans")),
        "{:?}",
        presets.left_out
    );
    let oracle = presets.predictions.iter().find(|of| of.name == "oracle, 10 shards").unwrap();
    let beside = oracle.published.as_ref().unwrap();
    assert_eq!((oracle.nodes, beside.ops_per_s), (15.0, 1_244_550.0));
    let text = page::render(&presets, Paint::default());
    for part in ["published", "What that asks for", "not from memory", "It takes for granted"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Scans of 10 and of 100 rows, of which each costs 20 µs and each row 2 µs; and reads of which half come from disk, each
/// for 30 µs more.
#[test]
fn scans_and_reads_from_disk_have_costs_of_their_own() {
    let mut runs = vec![run("c", [1_000_000, 0, 0], 8, 5e4, 1.0), run("load", [0, 0, 1_000_000], 8, 5e4, 1.0)];
    for rows in [10u64, 100] {
        let mut scans = run("e", [100_000, 0, 0], 8, 5e3, 2.0 + rows as f64 / 5.0);
        scans.report.phases[0].ops[0].op = "SCAN".to_owned();
        let properties = [("minscanlength", rows), ("maxscanlength", rows)];
        scans.report.configuration.properties =
            properties.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect();
        runs.push(scans);
    }
    let mut cold = run("cold", [1_000_000, 0, 0], 8, 2e4, 2.5);
    let seconds = cold.report.phases[0].duration_s;
    let series = |name: &str, unit: &str, value: f64| MetricSeries {
        name: name.to_owned(),
        unit: unit.to_owned(),
        node: Some("disk".to_owned()),
        points: (0..10).map(|t| MetricPoint { t_s: f64::from(t), value }).collect(),
    };
    cold.report.phases[0].metrics =
        vec![series("device reads", "/s", 500_000.0 / seconds), series("device busy", "%", 50.0)];
    cold.report.configuration.distribution = "uniform".to_owned();
    cold.report.configuration.memory_limit_bytes = Some(3_000_000_000);
    runs.push(cold);
    let line = "--nodes 3 --cores 2 --records 1e6 --record-bytes 1000 --mix 0/5/95 --scan-rows 50 --network-gbit 100";
    let model = Model::of(&runs, &options(line)).unwrap();
    let kinds: Vec<_> = model.demand.kinds.iter().map(|kind| (kind.kind, kind.cpu_us.round())).collect();
    assert_eq!(kinds, [("read", 10.0), ("insert", 60.0), ("scan", 20.0), ("row", 2.0), ("disk read", 30.0)]);
    // Half of the data fitted, and half of the reads came from disk.
    assert!((model.demand.reads_a_miss.unwrap() - 1.0).abs() < 1e-9, "{:?}", model.demand);
    assert!((model.demand.device_s.unwrap() - 0.5 / (500_000.0 / seconds)).abs() < 1e-9);
    let cpu = 6.0 * 0.8 / (0.95 * (20e-6 + 50.0 * 2e-6) + 0.05 * 60e-6);
    assert!((model.predictions[0].ops_per_s / cpu - 1.0).abs() < 0.01, "{:?}", model.predictions[0]);
    // Data of 2 GB a node, of which 0.8 GB are in memory: six in ten reads come from disk.
    let line =
        "--nodes 3 --cores 2 --records 1e6 --record-bytes 1000 --mix 100/0 --memory-gb 1 --disk-reads-per-s 1000";
    let bound = &Model::of(&runs, &options(line)).unwrap().predictions[0];
    assert!((bound.miss_share.unwrap() - 0.6).abs() < 1e-9 && bound.bound == "disk reads", "{bound:?}");
    assert!((bound.ops_per_s - 3000.0 / 0.6).abs() < 1e-6, "{bound:?}");
    let one_length = Model::of(&runs[..3], &options("--nodes 3 --records 1e6 --mix 0/0/100 --scan-rows 10")).unwrap();
    let kinds: Vec<_> = one_length.demand.kinds.iter().map(|kind| (kind.kind, kind.cpu_us.round())).collect();
    assert_eq!(kinds, [("read", 10.0), ("insert", 60.0), ("row", 4.0)], "40 µs by ten rows and the scan itself");
}

#[test]
fn too_little_is_refused_in_clear_words() {
    let one = [run("b", [950_000, 50_000, 0], 8, 5e4, 1.0)];
    let why = Model::of(&one, &options("")).unwrap_err();
    assert!(why.contains("all have the same mix"), "{why}");
    let mut blind = run("b", [1, 1, 0], 8, 5e4, 1.0);
    blind.report.phases[0].cpu = CpuUse::default();
    let why = Model::of(&[blind], &options("")).unwrap_err();
    assert!(why.contains("CPU time is not known"), "{why}");
    let reads = [run("c", [1_000_000, 0, 0], 8, 5e4, 1.0)];
    let line = "--nodes 3 --cores 2 --records 1e6 --mix 50/50";
    assert!(Model::of(&reads, &options(line)).unwrap_err().contains("no run has updates"));
    assert!(Model::of(&reads, &options(&line.replace("50/50", "100/0"))).is_ok());
    assert!(Model::of(&reads, &options(&format!("{line} --rf 5"))).unwrap_err().contains("need as many"));
}

#[test]
fn the_law_is_found_on_its_own_points_and_with_noise() {
    let truth = |n: f64| 1000.0 * n / (1.0 + 0.03 * (n - 1.0) + 0.0005 * n * (n - 1.0));
    let sizes = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
    let exact: Vec<(f64, f64)> = sizes.iter().map(|n| (*n, truth(*n))).collect();
    let law = Scalability::fit("clients", "", &exact).unwrap();
    assert!((law.lambda.value - 1000.0).abs() < 0.1, "{law:?}");
    assert!((law.sigma.value - 0.03).abs() < 1e-5 && (law.kappa.value - 0.0005).abs() < 1e-7, "{law:?}");
    let peak = law.peak.unwrap();
    assert!((peak.0 - (0.97f64 / 0.0005).sqrt()).abs() < 0.1, "{peak:?}");
    // The bounds hold the truth about as often as they say.
    let mut prng = Prng::new(11);
    let mut inside = 0;
    for _ in 0..100 {
        let mut noise = || 1.0 + 0.03 * ((0..12).map(|_| prng.next_f64()).sum::<f64>() - 6.0);
        let noisy: Vec<(f64, f64)> = sizes.iter().chain(&sizes).map(|n| (*n, truth(*n) * noise())).collect();
        let law = Scalability::fit("clients", "", &noisy).unwrap();
        inside += u32::from(law.sigma.low <= 0.03 && law.sigma.high >= 0.03);
    }
    assert!((85..=100).contains(&inside), "{inside} of 100");
    let why = Scalability::fit("nodes", "", &exact[..3]).unwrap_err();
    assert!(why.contains("at 3 different numbers of nodes") && why.contains("needs 4"), "{why}");
    assert!(law.efficiency(1.0) == 1.0 && law.efficiency(64.0) < 0.3);
}

#[test]
fn clients_of_several_runs_make_a_law() {
    let runs: Vec<RunFolder> = [1, 2, 4, 8, 16]
        .into_iter()
        .map(|clients| {
            let n = f64::from(clients);
            run("c", [1_000_000, 0, 0], clients, 9000.0 * n / (1.0 + 0.05 * (n - 1.0)), 1.0)
        })
        .collect();
    let model = Model::of(&runs, &options("--nodes 3 --records 1e6 --mix 100/0")).unwrap();
    let law = model.clients.unwrap();
    assert!((law.sigma.value - 0.05).abs() < 1e-4 && law.kappa.value < 1e-6 && law.points.len() == 5, "{law:?}");
}
