//! The listener for databases: against the cluster listener of the same node, by way of another node, and against redis-server.

use super::bar::{Bar, Sample};
use super::bench::Bench;
use super::ceiling::{Ceiling, Rows};
use super::findings::Findings;
use super::redis::{start_basalt, start_redis};
use super::redis_benchmark::{Load, RedisBenchmark};
use super::server::{Server, free_port};
use super::store::{NODES, Store};
use super::wire::Connection;
use std::time::{Duration, Instant};

const KEYS: u64 = 100_000;
const VALUE_BYTES: usize = 100;
const SHARDS: u32 = 6;

/// What redis-benchmark sends, how it is called in the table, and how many requests at a time.
type Loads = [(&'static str, &'static [&'static str], u64); 4];

/// GET and SET, one at a time and in pipelines.
const LOADS: Loads = [
    ("GET, one at a time", &["-t", "get"], 1),
    ("GET, pipeline of 16", &["-t", "get"], 16),
    ("SET `nosync`, one at a time", &["-t", "set"], 1),
    ("SET `nosync`, pipeline of 16", &["-t", "set"], 16),
];

/// A value of as many bytes as those of the others.
const VALUE: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
                     xxxxxxxxxxxx";

/// The same of keys in the slot of database 0: redis-benchmark does not follow to other nodes.
const LOADS_OF_SLOT: Loads = [
    ("GET, one at a time", &["GET", "{06S}key:__rand_int__"], 1),
    ("GET, pipeline of 16", &["GET", "{06S}key:__rand_int__"], 16),
    ("SET `nosync`, one at a time", &["SET", "{06S}key:__rand_int__", VALUE], 1),
    ("SET `nosync`, pipeline of 16", &["SET", "{06S}key:__rand_int__", VALUE], 16),
];

fn load(bench: &Bench, command: &'static [&'static str], depth: u64) -> Load {
    let requests = bench.options.scale(if depth == 1 { 200_000 } else { 1_000_000 }, 20_000);
    Load { command, value_bytes: VALUE_BYTES, depth, requests, keys: KEYS }
}

/// A port of a server, which clients of one kind connect to.
struct Door<'a> {
    server: &'a Server,
    port: u16,
}

impl Door<'_> {
    fn run(&self, benchmark: &RedisBenchmark, load: Load) -> Result<Sample, String> {
        benchmark.run_at(self.server, self.port, &[], load)
    }
}

/// Measures each load at both doors, in turns.
fn compare(
    bench: &Bench,
    loads: Loads,
    (what, than): (&str, &str),
    at_least: f64,
    ours: &Door<'_>,
    theirs: &Door<'_>,
) -> Result<Vec<Bar>, String> {
    let benchmark = RedisBenchmark::find()?;
    let mut bars = Vec::new();
    for (name, command, depth) in loads {
        let load = load(bench, command, depth);
        for door in [ours, theirs] {
            door.run(&benchmark, load)?;
        }
        let bar = Bar::new(format!("{name}, {what}"), than, at_least);
        let runs = bench.options.runs;
        bars.push(bar.alternate(runs, || ours.run(&benchmark, load), || theirs.run(&benchmark, load))?);
    }
    Ok(bars)
}

/// A single node: against its cluster listener, and against redis-server.
pub fn single(bench: &Bench) -> Result<Vec<Bar>, String> {
    let port = free_port()?;
    let listen = format!("127.0.0.1:{port}");
    let basalt = start_basalt(bench, &["--durability", "nosync", "--database-listen", &listen])?;
    let redis = start_redis(bench, "everysec", &[])?;
    let (databases, cluster) = (Door { server: &basalt, port }, Door { server: &basalt, port: basalt.port });
    let peer = Door { server: &redis, port: redis.port };
    let mut bars = compare(bench, LOADS, ("databases", "the cluster listener"), 0.95, &databases, &cluster)?;
    bars.extend(compare(bench, LOADS, ("databases", "redis-server, everysec"), 0.9, &databases, &peer)?);
    let bar = Bar::new("MULTI of five SETs, one at a time, databases", "redis-server, everysec", 0.8);
    let transactions = bench.options.scale(30_000, 2_000);
    let side = |door: &Door<'_>| multi(door, transactions);
    side(&databases)?;
    side(&peer)?;
    bars.push(bar.alternate(bench.options.runs, || side(&databases), || side(&peer))?);
    basalt.stop()?;
    redis.stop()?;
    bench.empty_folders(&["basalt", "redis"])?;
    Ok(bars)
}

/// Three nodes: at the node that leads the database, against its cluster listener; and by way of another node.
pub fn nodes(bench: &Bench) -> Result<Findings, String> {
    let store = Store::start_with_databases(bench, "nosync", SHARDS)?;
    let ports = store.ports();
    let leader = store.leader_of_database_0()?;
    let door = |number: usize| Door { server: store.node(number), port: store.database_ports()[number] };
    let (own, other) = (door(leader), door((leader + 1) % NODES));
    let cluster = Door { server: store.node(leader), port: ports[leader] };
    let mut bars =
        compare(bench, LOADS_OF_SLOT, ("three nodes, at the leader", "the cluster listener"), 0.95, &own, &cluster)?;
    bars.extend(compare(bench, LOADS_OF_SLOT, ("three nodes, by way of another", "at the leader"), 0.5, &other, &own)?);
    let (mut rows, count) = (Rows::default(), bench.options.scale(20_000, 1_000));
    for (name, door) in [("at the leader", &own), ("by way of another node", &other)] {
        for command in [&["GET", "key:000000000001"][..], &["SET", "key:000000000001", VALUE]] {
            let at = latencies(door, command, count)?;
            let what = |part: &str| format!("{} of a database of three nodes, {name}, one client: {part}", command[0]);
            rows.push(Ceiling::told(what("median"), "µs", at(500)))?;
            rows.push(Ceiling::told(what("p99"), "µs", at(990)))?;
        }
    }
    store.stop()?;
    Ok(Findings { bars, ceilings: rows.all(), ..Findings::default() })
}

/// Transactions of five SETs a second, one behind the other on one connection.
fn multi(door: &Door<'_>, transactions: u64) -> Result<Sample, String> {
    let mut connection = Connection::open(door.port)?;
    let (start, before) = (Instant::now(), door.server.cpu_us()?);
    for n in 0..transactions {
        let keys: Vec<String> = (0..5).map(|i| format!("key:{:012}", (5 * n + i) % KEYS)).collect();
        let sets = keys.iter().map(|key| vec!["SET", key.as_str(), "value"]);
        connection.ask_all([vec!["MULTI"]].into_iter().chain(sets).chain([vec!["EXEC"]]))?;
    }
    let cpu_us = door.server.cpu_us()? - before;
    let rate = transactions as f64 / start.elapsed().as_secs_f64();
    Ok(Sample { rate, cpu_us_per_op: Some(cpu_us as f64 / transactions as f64) })
}

/// How long so many requests take, one at a time: what so many of a thousand stay below, in µs.
fn latencies(door: &Door<'_>, command: &[&str], count: u64) -> Result<impl Fn(usize) -> f64, String> {
    let mut connection = Connection::open(door.port)?;
    let mut one = |_| {
        let start = Instant::now();
        connection.ask(command)?;
        connection.answer()?;
        Ok(start.elapsed())
    };
    let mut all = (0..count).map(&mut one).collect::<Result<Vec<Duration>, String>>()?;
    all.sort_unstable();
    Ok(move |part: usize| all[all.len() * part / 1000].as_secs_f64() * 1e6)
}
