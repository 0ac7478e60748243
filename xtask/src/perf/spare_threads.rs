//! Whether helper threads pay in a store of three nodes: the same store with the setting `helper-threads` on and off, in
//! turns, on YCSB A and B with few and with many clients.

use super::bar::{Bar, Sample};
use super::bench::Bench;
use super::phase::Phase;
use super::store::{NODES, Store};
use super::wire::Connection;

const SHARDS: u32 = 16;
const CLIENTS: [&str; 3] = ["4", "50", "200"];
const WORKLOADS: [(&str, &str); 2] = [("A", "workloada"), ("B", "workloadb")];
/// All records fit into the row cache.
const AMPLE_MEMORY: &str = "1G";
/// Few of them do.
const SCARCE_MEMORY: &str = "64M";

/// Answers of writes that wait for an fsync: the send thread.
pub fn sending(bench: &Bench) -> Result<Vec<Bar>, String> {
    compare(bench, AMPLE_MEMORY, "in memory")
}

/// Reads that wait for the disk: the reader thread.
pub fn reading(bench: &Bench) -> Result<Vec<Bar>, String> {
    compare(bench, SCARCE_MEMORY, "beyond memory")
}

fn compare(bench: &Bench, memory: &'static str, kind: &str) -> Result<Vec<Bar>, String> {
    let store = Store::start_with(bench, "sync", SHARDS, memory)?;
    let properties = vec![format!("recordcount={}", bench.options.scale(300_000, 10_000))];
    store.bench("load", &properties, &["-P", "workloada", "--clients", "64"])?;
    let mut bars = Vec::new();
    for (name, workload) in WORKLOADS {
        for clients in CLIENTS {
            let bar = Bar::new(
                format!("YCSB {name}, 1 KB {kind}, `sync`, {NODES} nodes, {clients} clients, with helper threads"),
                "the same without them",
                1.0,
            );
            let side =
                |helpers: &str| run(bench, &store, &properties, helpers, &["-P", workload, "--clients", clients]);
            bars.push(bar.alternate(bench.options.runs, || side("yes"), || side("no"))?);
        }
    }
    store.stop()?;
    Ok(bars)
}

fn run(
    bench: &Bench,
    store: &Store<'_>,
    properties: &[String],
    helpers: &str,
    options: &[&str],
) -> Result<Sample, String> {
    for port in store.ports() {
        Connection::open(port)?.set_config("helper-threads", helpers)?;
    }
    store.wait_until_quiet()?;
    let (seconds, warm_up) = (bench.options.scale(10, 2), bench.options.scale(2, 1));
    let (duration, warm_up) = (format!("{seconds}s"), format!("{warm_up}s"));
    let properties = [properties, &["operationcount=0".to_owned()]].concat();
    let timed = ["--duration", &duration, "--warm-up", &warm_up];
    let Phase { rate, nodes_us_per_op, .. } = store.bench("run", &properties, &[options, &timed].concat())?;
    Ok(Sample { rate, cpu_us_per_op: Some(nodes_us_per_op) })
}
