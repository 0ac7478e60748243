//! The client's own ceiling: `basalt bench` and redis-benchmark against a server that does nothing.

use super::bar::{Bar, Sample};
use super::bench::Bench;
use super::embedded::last_throughput;
use super::program;
use super::redis_benchmark::{Load, RedisBenchmark, VALUE_BYTES};
use super::server::{Server, free_port};
use std::process::Command;
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(300);
const KEYS: u64 = 1_000_000;
const AT_LEAST: f64 = 1.3;

/// One request at a time, and pipelines of 16: 50 connections, one thread, values of 1,000 bytes.
pub fn run(bench: &Bench) -> Result<Vec<Bar>, String> {
    let benchmark = RedisBenchmark::find()?;
    let (port, folder) = (free_port()?, bench.empty_folder("noop")?);
    let mut command = Command::new(&bench.basalt);
    command.args(["bench", "noop-server", "--port", &port.to_string(), "--value-bytes", &VALUE_BYTES.to_string()]);
    let server = Server::start("noop-server", &mut command, port, &folder)?;
    let mut bars = Vec::new();
    for (what, depth, requests) in [
        ("the client's own ceiling, one request at a time", 1, bench.options.scale(500_000, 20_000)),
        ("the client's own ceiling, pipeline of 16", 16, bench.options.scale(4_000_000, 100_000)),
    ] {
        let load = Load { command: &["-t", "get"], value_bytes: VALUE_BYTES, depth, requests, keys: KEYS };
        let bar = Bar::new(what, "redis-benchmark", AT_LEAST);
        let ours = || ours(bench, &server, load);
        bars.push(bar.alternate(bench.options.runs, ours, || benchmark.run(&server, load))?);
    }
    Ok(bars)
}

fn ours(bench: &Bench, server: &Server, load: Load) -> Result<Sample, String> {
    let mut command = Command::new(&bench.basalt);
    command.args(["bench", "run", "--target", &format!("noop://127.0.0.1:{}", server.port), "--quiet"]);
    for property in [
        format!("recordcount={}", load.keys),
        format!("operationcount={}", load.requests),
        format!("fieldlength={VALUE_BYTES}"),
    ] {
        command.args(["-p", &property]);
    }
    for property in ["fieldcount=1", "basalt.record=string", "readproportion=1", "updateproportion=0"] {
        command.args(["-p", property]);
    }
    command.args(["--clients", "50", "--depth", &load.depth.to_string(), "--threads", "1", "--format", "json"]);
    // The peer has a connection for each of its clients, too.
    command.args(["--connections", "0"]);
    command.arg("--out").arg(bench.empty_folder("noop-report")?);
    let before = server.cpu_us()?;
    let rate = last_throughput(&program::output(&mut command, BOUND)?)?;
    let cpu_us = server.cpu_us()? - before;
    Ok(Sample { rate, cpu_us_per_op: Some(cpu_us as f64 / load.requests as f64) })
}
