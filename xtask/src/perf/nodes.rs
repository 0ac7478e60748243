//! A store of three nodes and its client on one machine: what it does for each core that all of them use.

use super::bar::{Bar, Sample};
use super::bench::Bench;
use super::etcd::{Etcd, Puts};
use super::findings::Findings;
use super::floor::Floor;
use super::phase::Phase;
use super::spread::Spread;
use super::store::Store;

/// Of a store, unless a measurement says otherwise.
pub const SHARDS: u32 = 16;
/// As few as there are nodes: a scan asks every shard.
const SHARDS_FEW: u32 = 3;
const CLIENTS: &str = "64";
const INSERT_CLIENTS: &str = "256";
/// What the inserts' keys begin with, and the digits that follow, padded with zeros: 50 bytes together.
const KEY_PREFIX: &str = "user";
const KEY_DIGITS: usize = 46;
/// What a packed record of one field holds besides the field's value: the name `field0` and two lengths.
const PACKED_BYTES: u64 = 12;
const SYNC_CLIENTS: u64 = 64;
const SYNC_VALUE_BYTES: u64 = 1000;
const SYNC_SECONDS: u64 = 20;

/// The row says so.
const _: () = assert!(KEY_PREFIX.len() + KEY_DIGITS == 50);

fn records(bench: &Bench) -> u64 {
    bench.options.scale(300_000, 10_000)
}

/// One of YCSB's workloads, with so many operations, and a tenth of them before they count.
struct Workload {
    name: &'static str,
    properties: Vec<String>,
    operations: u64,
    read_from: &'static str,
}

impl Workload {
    fn of(bench: &Bench, name: &'static str, full: u64, quick: u64, read_from: &'static str) -> Self {
        let operations = bench.options.scale(full, quick);
        Self { name, properties: vec![format!("recordcount={}", records(bench))], operations, read_from }
    }

    fn with(mut self, properties: &[&str]) -> Self {
        self.properties.extend(properties.iter().map(|&property| property.to_owned()));
        self
    }

    fn load(&self, store: &Store<'_>) -> Result<(), String> {
        store.bench("load", &self.properties, &["-P", self.name, "--clients", CLIENTS]).map(drop)
    }

    fn run(&self, store: &Store<'_>) -> Result<Phase, String> {
        store.wait_until_quiet()?;
        let mut properties = self.properties.clone();
        properties.push(format!("operationcount={}", self.operations));
        let warm_up = (self.operations / 10).to_string();
        let options = ["-P", self.name, "--clients", CLIENTS, "--read-from", self.read_from, "--warm-up", &warm_up];
        store.bench("run", &properties, &options)
    }
}

/// B and A, with reads from any replica.
pub fn ycsb(bench: &Bench) -> Result<Findings, String> {
    let store = Store::start(bench, "nosync", SHARDS)?;
    let mut findings = Findings::default();
    for (number, (what, at_least, name)) in [
        ("YCSB B, zipfian, 1 KB, `nosync`, majority, reads `any`, 64 clients", 52_000.0, "workloadb"),
        ("YCSB A, zipfian, 1 KB, `nosync`, majority, reads `any`, 64 clients", 23_000.0, "workloada"),
    ]
    .into_iter()
    .enumerate()
    {
        let workload = Workload::of(bench, name, 1_000_000, 20_000, "any");
        if number == 0 {
            workload.load(&store)?;
        }
        findings.floors.push(Floor::measure(what, at_least, bench.options.runs, || workload.run(&store))?);
    }
    store.stop()?;
    Ok(findings)
}

/// B on a store with TLS and on one without, alternating.
pub fn ycsb_b(bench: &Bench, secured: &Store<'_>, plain: &Store<'_>) -> Result<Bar, String> {
    let workload = Workload::of(bench, "workloadb", 500_000, 10_000, "any");
    for store in [secured, plain] {
        workload.load(store)?;
    }
    let sample = |store: &Store<'_>| -> Result<Sample, String> {
        let phase = workload.run(store)?;
        Ok(Sample { rate: phase.rate, cpu_us_per_op: Some(phase.nodes_us_per_op) })
    };
    // There is no bar: it says what TLS costs.
    let bar = Bar::new("YCSB B, three nodes, `nosync`, reads `any`, 64 clients, TLS", "Basalt without TLS", 0.0);
    bar.alternate(bench.options.runs, || sample(secured), || sample(plain))
}

/// E, with many shards and with few.
pub fn scans(bench: &Bench) -> Result<Findings, String> {
    let mut findings = Findings::default();
    for shards in [SHARDS, SHARDS_FEW] {
        let store = Store::start(bench, "nosync", shards)?;
        let workload = Workload::of(bench, "workloade", 30_000, 1_000, "any");
        workload.load(&store)?;
        let what = format!("YCSB E, up to 100 rows of 1 KB, {shards} shards, reads `any`, 64 clients");
        findings.floors.push(Floor::measure(what, 2_500.0, bench.options.runs, || workload.run(&store))?);
        store.stop()?;
    }
    Ok(findings)
}

/// Inserts into an empty store, a new one for each run.
pub fn inserts(bench: &Bench) -> Result<Findings, String> {
    let properties = [
        format!("recordcount={}", bench.options.scale(1_000_000, 20_000)),
        format!("fieldlength={}", 256 - PACKED_BYTES),
        format!("keyprefix={KEY_PREFIX}"),
        "fieldcount=1".to_owned(),
        "basalt.record=string".to_owned(),
        format!("zeropadding={KEY_DIGITS}"),
    ];
    let run = || {
        let store = Store::start(bench, "nosync", SHARDS)?;
        store.wait_until_quiet()?;
        let phase = store.bench("load", &properties, &["--clients", INSERT_CLIENTS])?;
        store.stop()?;
        Ok(phase)
    };
    let what = "inserts, keys of 50 bytes, values of 256, `nosync`, majority, 256 clients";
    Ok(Findings { floors: vec![Floor::measure(what, 20_000.0, bench.options.runs, run)?], ..Findings::default() })
}

/// Nine reads from leaders to one write that is on the disks of a majority.
pub fn mixed_sync(bench: &Bench) -> Result<Findings, String> {
    let store = Store::start(bench, "sync", SHARDS)?;
    let workload = Workload::of(bench, "workloadb", 500_000, 10_000, "leader");
    let workload = workload.with(&["readproportion=0.9", "updateproportion=0.1"]);
    workload.load(&store)?;
    let what = "90/10, zipfian, 1 KB, `sync`, majority, linearizable reads, 64 clients";
    let floor = Floor::measure(what, 21_000.0, bench.options.runs, || workload.run(&store))?;
    store.stop()?;
    Ok(Findings { floors: vec![floor], ..Findings::default() })
}

/// Writes that are on the disks of a majority, against etcd, alternating.
pub fn etcd(bench: &Bench) -> Result<Findings, String> {
    let puts = Puts {
        clients: SYNC_CLIENTS,
        value_bytes: SYNC_VALUE_BYTES,
        keys: bench.options.scale(100_000, 5_000),
        seconds: bench.options.scale(SYNC_SECONDS, 2),
        warm_up_seconds: bench.options.scale(3, 1),
    };
    let mut etcd = Etcd::start(bench)?;
    let store = Store::start(bench, "sync", SHARDS)?;
    let mut properties =
        vec![format!("recordcount={}", puts.keys), format!("fieldlength={}", puts.value_bytes - PACKED_BYTES)];
    // Without writeallfields an update of a string would read it first, which etcd's clients do not do.
    let blind = ["fieldcount=1", "basalt.record=string", "writeallfields=true"];
    let updates = ["readproportion=0", "updateproportion=1", "requestdistribution=uniform", "operationcount=0"];
    properties.extend(blind.iter().chain(&updates).map(|&property| property.to_owned()));
    let clients = puts.clients.to_string();
    store.bench("load", &properties, &["--clients", &clients])?;
    let (duration, warm_up) = (format!("{}s", puts.seconds), format!("{}s", puts.warm_up_seconds));
    let mut p99s_ms = Vec::new();
    let ours = || {
        store.wait_until_quiet()?;
        let options = ["--clients", &clients, "--duration", &duration, "--warm-up", &warm_up];
        let phase = store.bench("run", &properties, &options)?;
        p99s_ms.push(phase.p99_ms);
        Ok(Sample { rate: phase.rate, cpu_us_per_op: Some(phase.nodes_us_per_op) })
    };
    let theirs = || {
        store.wait_until_quiet()?;
        etcd.run(puts)
    };
    let bar = Bar::new("writes of 1,000 bytes, `sync`, three nodes, 64 clients", "etcd, three members", 10.0);
    let mut bar = bar.alternate(bench.options.runs, ours, theirs)?;
    let p99 = |ms: &[f64]| Spread::of(ms.iter().copied()).map_or(0.0, |spread| spread.median);
    bar.notes.push(format!("p99 {:.1} ms, etcd's {:.1} ms (medians)", p99(&p99s_ms), p99(&etcd.p99s_ms)));
    store.stop()?;
    etcd.stop(bench)?;
    Ok(Findings { bars: vec![bar], ..Findings::default() })
}
