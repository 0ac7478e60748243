//! Data types against redis-server: one collection of each type, which many clients read and write.

use super::bar::Bar;
use super::bench::Bench;
use super::progress;
use super::redis::Peers;
use super::redis_benchmark::Load;
use super::wire::Connection;

/// Bytes of a value that is pushed, added or set.
const VALUE_BYTES: usize = 100;
/// How many elements a request of the load carries.
const LOADED_AT_A_TIME: u64 = 100;
/// Elements of the list, and members of the sorted set and the set, that reads are about.
const LENGTH: u64 = 1_000_000;
const LENGTH_QUICK: u64 = 10_000;
/// Requests of a quick run that each wait for the disk: a slow one does a few hundred in a second for 50 clients.
const SYNC_QUICK: u64 = 3_000;

const VALUE: &str =
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789";

/// A command as redis-benchmark repeats it, and its name in the table.
type Command = (&'static str, &'static [&'static str]);

/// What adds elements stands before what takes them.
const WRITES: [Command; 11] = [
    ("SADD", &["SADD", "set", "member:__rand_int__"]),
    ("SPOP", &["SPOP", "set"]),
    ("ZADD", &["ZADD", "sorted", "__rand_int__", "member:__rand_int__"]),
    ("ZPOPMIN", &["ZPOPMIN", "sorted"]),
    ("LPUSH", &["LPUSH", "list", VALUE]),
    ("RPUSH", &["RPUSH", "list", VALUE]),
    ("LPOP", &["LPOP", "list"]),
    ("RPOP", &["RPOP", "list"]),
    ("XADD", &["XADD", "stream", "*", "field", VALUE]),
    ("HSET", &["HSET", "hash", "field:__rand_int__", VALUE]),
    ("INCR", &["INCR", "counter:__rand_int__"]),
];

const READS: [Command; 7] = [
    ("LRANGE of 100", &["LRANGE", "list", "0", "99"]),
    ("LRANGE of 300", &["LRANGE", "list", "0", "299"]),
    ("LRANGE of 600", &["LRANGE", "list", "0", "599"]),
    ("ZRANGE of 100", &["ZRANGE", "sorted", "0", "99"]),
    ("SMEMBERS of 100", &["SMEMBERS", "few"]),
    ("ZRANK", &["ZRANK", "sorted", "member:__rand_int__"]),
    ("SISMEMBER", &["SISMEMBER", "set", "member:__rand_int__"]),
];

fn load(bench: &Bench, peers: &Peers, command: &'static [&'static str], depth: u64, quick: u64) -> Load {
    // As many pushes as pops, so that each pop finds an element.
    let requests = bench.options.scale(if depth == 1 { 200_000 } else { 800_000 }, quick);
    Load { command, value_bytes: VALUE_BYTES, depth, requests, keys: peers.keys }
}

/// Writes without waiting for the disk, one at a time and in pipelines.
pub fn writes(bench: &Bench) -> Result<Vec<Bar>, String> {
    let mut bars = Vec::new();
    for (depth, at_least) in [(1, 0.9), (16, 0.7)] {
        let peers = Peers::start_empty(bench, "nosync", "everysec")?;
        for (name, command) in WRITES {
            let how = if depth == 1 { "one at a time".to_owned() } else { format!("pipeline of {depth}") };
            let bar = Bar::new(format!("{name}, {how}"), "redis-server, everysec", at_least);
            bars.push(peers.compare(bench.options.runs, bar, load(bench, &peers, command, depth, 20_000))?);
        }
        peers.stop(bench)?;
    }
    Ok(bars)
}

/// Writes with the answer after the fsync.
pub fn writes_sync(bench: &Bench) -> Result<Vec<Bar>, String> {
    let peers = Peers::start_empty(bench, "sync", "always")?;
    let mut bars = Vec::new();
    for (name, command) in WRITES {
        let bar = Bar::new(format!("{name}, `sync`"), "redis-server, always", 1.2);
        bars.push(peers.compare(bench.options.runs, bar, load(bench, &peers, command, 1, SYNC_QUICK))?);
    }
    peers.stop(bench)?;
    Ok(bars)
}

/// Reads of a few elements of large collections.
pub fn reads(bench: &Bench) -> Result<Vec<Bar>, String> {
    let peers = Peers::start_empty(bench, "nosync", "everysec")?;
    let length = bench.options.scale(LENGTH, LENGTH_QUICK);
    for server in peers.servers() {
        let mut connection = Connection::open(server.port)?;
        fill(&mut connection, "few", "SADD", 100)?;
        for (key, command) in [("list", "RPUSH"), ("sorted", "ZADD"), ("set", "SADD")] {
            fill(&mut connection, key, command, length)?;
        }
    }
    let mut bars = Vec::new();
    for (name, command) in READS {
        let bar = Bar::new(name, "redis-server", 1.0);
        let requests = bench.options.scale(if name.starts_with("LRANGE") { 100_000 } else { 200_000 }, 5_000);
        let load = Load { command, value_bytes: VALUE_BYTES, depth: 1, requests, keys: length };
        bars.push(peers.compare(bench.options.runs, bar, load)?);
    }
    peers.stop(bench)?;
    Ok(bars)
}

/// Adds `length` elements to a collection: members as redis-benchmark names them, or values.
fn fill(connection: &mut Connection, key: &str, command: &str, length: u64) -> Result<(), String> {
    progress::doing(format!("{command} of {length} elements"));
    for first in (0..length).step_by(LOADED_AT_A_TIME as usize) {
        let mut words = Vec::new();
        for n in first..length.min(first + LOADED_AT_A_TIME) {
            match command {
                "ZADD" => words.extend([n.to_string(), format!("member:{n:012}")]),
                "RPUSH" => words.push(VALUE.to_owned()),
                _ => words.push(format!("member:{n:012}")),
            }
        }
        let request: Vec<&str> = [command, key].into_iter().chain(words.iter().map(String::as_str)).collect();
        connection.ask(&request)?;
        connection.answer()?;
        progress::counted(first, length);
    }
    Ok(())
}
