//! The program of a commit before, in turns with this one.
//!
//! Each run is of servers that were just started: where its memory comes to lie makes a process up to a fifth quicker or slower than
//! another of the same program, for as long as it runs.

use super::bar::{Bar, Sample};
use super::bench::Bench;
use super::phase::Phase;
use super::program;
use super::redis::start_with;
use super::redis_benchmark::{Load, RedisBenchmark, VALUE_BYTES};
use super::store::Store;
use std::path::{Path, PathBuf};
use std::process::Command;

const KEYS: u64 = 100_000;
const SHARDS: u32 = 16;
/// What new features cost those who do not use them: at most this.
const AT_LEAST: f64 = 0.98;
const AGAINST: &str = "the older program";

fn older(bench: &Bench) -> Result<PathBuf, String> {
    let file = bench.options.older.as_deref();
    program::basalt(&bench.root, true, Some(file.ok_or("needs the program of the commit before: `--older FILE`")?))
}

/// GET, GET in pipelines, SET `nosync` and SET `sync` of one node.
pub fn single(bench: &Bench) -> Result<Vec<Bar>, String> {
    let (older, benchmark) = (older(bench)?, RedisBenchmark::find()?);
    let load = |command, depth, full, quick| {
        let requests = bench.options.scale(full, quick);
        Load { command, value_bytes: VALUE_BYTES, depth, requests, keys: KEYS }
    };
    let fill = load(&["-t", "set"], 16, 200_000, 10_000);
    let mut bars = Vec::new();
    for (what, durability, load) in [
        ("GET", "nosync", load(&["-t", "get"], 1, 300_000, 10_000)),
        ("GET, pipeline of 16", "nosync", load(&["-t", "get"], 16, 2_000_000, 50_000)),
        ("SET, `nosync`", "nosync", load(&["-t", "set"], 1, 200_000, 10_000)),
        ("SET, `sync`", "sync", load(&["-t", "set"], 1, 150_000, 5_000)),
    ] {
        let run = |program: &Path| {
            let arguments = ["--durability", durability, "--memory", "1G"];
            let server = start_with(bench, Command::new(program), "older", &arguments)?;
            benchmark.run(&server, fill)?;
            let sample = benchmark.run(&server, load);
            drop(server);
            bench.empty_folders(&["older"])?;
            sample
        };
        let bar = Bar::new(format!("{what}, one node"), AGAINST, AT_LEAST);
        bars.push(bar.alternate(bench.options.runs, || run(&bench.basalt), || run(&older))?);
    }
    Ok(bars)
}

/// YCSB A and B of three nodes, `sync`, 50 clients.
pub fn nodes(bench: &Bench) -> Result<Vec<Bar>, String> {
    let older = older(bench)?;
    let records = format!("recordcount={}", bench.options.scale(100_000, 5_000));
    let run = |program: &Path, workload: &str| -> Result<Sample, String> {
        let store = Store::start_program(bench, program, "sync", SHARDS, "2G")?;
        store.wait_until_balanced()?;
        store.bench("load", std::slice::from_ref(&records), &["-P", "workloada", "--clients", "50"])?;
        store.wait_until_quiet()?;
        let (seconds, warm_up) = (bench.options.scale(8, 2), bench.options.scale(2, 1));
        let (seconds, warm_up) = (format!("{seconds}s"), format!("{warm_up}s"));
        let options = ["-P", workload, "--clients", "50", "--duration", &seconds, "--warm-up", &warm_up];
        let properties = [records.clone(), "operationcount=0".to_owned()];
        let Phase { rate, nodes_us_per_op, .. } = store.bench("run", &properties, &options)?;
        store.stop()?;
        Ok(Sample { rate, cpu_us_per_op: Some(nodes_us_per_op) })
    };
    let mut bars = Vec::new();
    for (name, workload) in [("A", "workloada"), ("B", "workloadb")] {
        let bar = Bar::new(format!("YCSB {name}, `sync`, three nodes, 50 clients"), AGAINST, AT_LEAST);
        bars.push(bar.alternate(bench.options.runs, || run(&bench.basalt, workload), || run(&older, workload))?);
    }
    Ok(bars)
}
