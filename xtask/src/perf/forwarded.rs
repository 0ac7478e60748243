//! What it costs a client of a database to be connected to another node than the one that leads it: time, and the processor's.

use super::bench::Bench;
use super::ceiling::{Ceiling, Rows};
use super::program;
use super::store::{NODES, Store};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

const SHARDS: u32 = 6;
const PHASE_BOUND: Duration = Duration::from_secs(300);
/// Of the time that is added to a request, and of the processor's time that one takes, in µs.
const DETOUR_US_MAX: f64 = 150.0;
const PROPERTIES: [&str; 4] = ["recordcount=10000", "fieldcount=1", "fieldlength=88", "basalt.record=string"];

/// One run of `basalt bench` at the listener for databases of one node.
struct Reads {
    /// Of a read, in µs.
    median_us: f64,
    /// Of each node, for a request, in µs.
    cpu_us: Vec<f64>,
}

/// One client alone, whose requests wait for each other, and fifty.
pub fn measure(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let store = Store::start_with_databases(bench, "nosync", SHARDS)?;
    let leader = store.leader_of_database_0()?;
    let other = (leader + 1) % NODES;
    program::output(&mut command(bench, &store, leader, "load", "1")?, PHASE_BOUND)?;
    let mut rows = Rows::default();
    for (clients, how, full) in [("1", "one client", 100_000), ("50", "50 clients", 500_000)] {
        let operations = bench.options.scale(full, 3_000);
        for door in [leader, other] {
            reads(bench, &store, door, clients, operations.div_ceil(10))?;
        }
        let own = reads(bench, &store, leader, clients, operations)?;
        let detour = reads(bench, &store, other, clients, operations)?;
        let what = |what: &str| format!("GET of a database of three nodes, {how}: {what}");
        let added = detour.median_us - own.median_us;
        if clients == "1" {
            rows.push(Ceiling::new(what("added by way of another node, median"), "µs", DETOUR_US_MAX, added))?;
        }
        rows.push(Ceiling::told(what("median at the leader"), "µs", own.median_us))?;
        rows.push(Ceiling::told(what("median by way of another node"), "µs", detour.median_us))?;
        let there = what("processor time of a request at that other node");
        rows.push(Ceiling::new(there, "µs", DETOUR_US_MAX, detour.cpu_us[other]))?;
        rows.push(Ceiling::told(what("… at the leader then"), "µs", detour.cpu_us[leader]))?;
        rows.push(Ceiling::told(what("… at the leader, asked by the client itself"), "µs", own.cpu_us[leader]))?;
    }
    store.stop()?;
    Ok(rows.all())
}

fn command(bench: &Bench, store: &Store<'_>, node: usize, task: &str, clients: &str) -> Result<Command, String> {
    let mut command = Command::new(&bench.basalt);
    let target = format!("redis://127.0.0.1:{}", store.database_ports()[node]);
    command.args(["bench", task, "--target", &target, "-P", "workloadc", "--threads", "1", "--clients", clients]);
    command.args(PROPERTIES.iter().flat_map(|property| ["-p", property]));
    command.args(["--quiet", "--format", "json", "--out"]).arg(bench.empty_folder("nodes-report")?);
    Ok(command)
}

fn reads(bench: &Bench, store: &Store<'_>, node: usize, clients: &str, operations: u64) -> Result<Reads, String> {
    store.wait_until_quiet()?;
    let mut command = command(bench, store, node, "run", clients)?;
    let nodes = || (0..NODES).map(|number| store.node(number));
    let before = nodes().map(|node| node.cpu_us()).collect::<Result<Vec<_>, _>>()?;
    let text = program::output(command.args(["-p", &format!("operationcount={operations}")]), PHASE_BOUND)?;
    let taken = |(node, before): (&super::server::Server, u64)| -> Result<f64, String> {
        Ok((node.cpu_us()? - before) as f64 / operations as f64)
    };
    let cpu_us = nodes().zip(before).map(taken).collect::<Result<_, _>>()?;
    Ok(Reads { median_us: median_us(&text)?, cpu_us })
}

/// Of the reads of the last phase.
fn median_us(text: &str) -> Result<f64, String> {
    super::embedded::last_throughput(text)?;
    let value: Value = serde_json::from_str(text).map_err(|error| format!("basalt bench: {error}"))?;
    let ops = value["phases"].as_array().and_then(|phases| phases.last()?["ops"].as_array());
    let reads = ops.into_iter().flatten().find(|op| op["op"] == "READ");
    let median = reads.and_then(|reads| reads["latency"]["measured"]["p50_us"].as_f64());
    median.ok_or_else(|| "basalt bench: tells no median of reads".to_owned())
}

#[cfg(test)]
mod tests {
    use super::median_us;

    #[test]
    fn the_median_of_reads_is_found() {
        let op = |name: &str, us: f64| {
            format!(r#"{{"op":"{name}","verification_failures":0,"latency":{{"measured":{{"p50_us":{us}}}}}}}"#)
        };
        let phase = |ops: &[String]| format!(r#"{{"phases":[{{"throughput_per_s":9.0,"ops":[{}]}}]}}"#, ops.join(","));
        assert_eq!(median_us(&phase(&[op("CLEANUP", 9.0), op("READ", 41.5)])), Ok(41.5));
        assert!(median_us(&phase(&[op("CLEANUP", 9.0)])).is_err());
    }
}
