//! A queue on three nodes against etcd: elements that go through it, and puts.

use super::bar::{Bar, Sample};
use super::bench::Bench;
use super::etcd::{Etcd, Puts};
use super::findings::Findings;
use super::spread::Spread;
use super::store::Store;

const SHARDS: u32 = 16;
/// Half of them push, half of them take.
const CLIENTS: u64 = 32;
const VALUE_BYTES: u64 = 1_000;

/// Elements of 1 KB that 32 clients push and take, each kept by a majority before it is answered.
pub fn run(bench: &Bench) -> Result<Findings, String> {
    let puts = Puts {
        clients: CLIENTS,
        value_bytes: VALUE_BYTES,
        keys: bench.options.scale(100_000, 5_000),
        seconds: bench.options.scale(20, 2),
        warm_up_seconds: bench.options.scale(3, 1),
    };
    let mut etcd = Etcd::start(bench)?;
    let store = Store::start(bench, "sync", SHARDS)?;
    let clients = CLIENTS.to_string();
    let proportions = ["readproportion=0", "scanproportion=0", "updateproportion=0.5", "readmodifywriteproportion=0.5"];
    let mut properties: Vec<String> = proportions.map(str::to_owned).to_vec();
    properties.extend(["recordcount=16".to_owned(), "fieldcount=1000".to_owned(), "operationcount=0".to_owned()]);
    properties.push(format!("fieldlength={VALUE_BYTES}"));
    store.bench("load", &properties, &["-P", "queue", "--clients", "1"])?;
    let (duration, warm_up) = (format!("{}s", puts.seconds), format!("{}s", puts.warm_up_seconds));
    let mut p99s_ms = Vec::new();
    let ours = || {
        store.wait_until_quiet()?;
        let options = ["-P", "queue", "--clients", &clients, "--duration", &duration, "--warm-up", &warm_up];
        let phase = store.bench("run", &properties, &options)?;
        p99s_ms.push(phase.p99_ms);
        // An element is pushed, and it is taken: two operations.
        Ok(Sample { rate: phase.rate / 2.0, cpu_us_per_op: Some(phase.nodes_us_per_op * 2.0) })
    };
    let theirs = || {
        store.wait_until_quiet()?;
        etcd.run(puts)
    };
    let what = "elements of 1,000 bytes through queues, `sync`, three nodes, 32 clients";
    let mut bar = Bar::new(what, "etcd's puts, three members", 5.0).alternate(bench.options.runs, ours, theirs)?;
    let p99 = |ms: &[f64]| Spread::of(ms.iter().copied()).map_or(0.0, |spread| spread.median);
    bar.notes.push(format!("p99 {:.1} ms, etcd's {:.1} ms (medians)", p99(&p99s_ms), p99(&etcd.p99s_ms)));
    store.stop()?;
    etcd.stop(bench)?;
    Ok(Findings { bars: vec![bar], ..Findings::default() })
}
