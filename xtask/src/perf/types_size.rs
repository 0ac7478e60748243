//! Large collections: one that does not fit into the memory, and the bytes that elements take.

use super::bar::{Bar, Sample};
use super::bench::Bench;
use super::ceiling::{Ceiling, Rows};
use super::crowd;
use super::progress;
use super::redis::{Peers, start_with};
use super::redis_benchmark::{Load, RedisBenchmark};
use super::server::Server;
use super::spread::grouped;
use super::wire::Connection;
use std::process::Command;

/// Bytes of a value of the strings, so that these take about as much as the sorted set.
const VALUE_BYTES: usize = 100;
/// Members that a ZRANGE answers with.
const WINDOW: u64 = 10;
/// Of GETs of strings.
const AT_LEAST: f64 = 0.5;
/// Of the memory given, what the process may take at most.
const PEAK_SHARE_MAX: f64 = 1.3;
/// How many elements a request of the load carries.
const LOADED_AT_A_TIME: u64 = 100;

fn start(bench: &Bench, folder: &str, memory_bytes: u64) -> Result<Server, String> {
    let arguments = ["--durability", "nosync", "--memory", &memory_bytes.to_string()];
    start_with(bench, Command::new(&bench.basalt), folder, &arguments)
}

/// A sorted set beyond the memory against GETs of strings of that size and memory.
pub fn beyond_memory(bench: &Bench) -> Result<Vec<Bar>, String> {
    let benchmark = RedisBenchmark::find()?;
    let members = bench.options.scale(10_000_000, 200_000);
    let memory_bytes = bench.options.scale(256 << 20, 96 << 20);
    let (sorted, strings) = (start(bench, "sorted", memory_bytes)?, start(bench, "strings", memory_bytes)?);
    Connection::open(strings.port)?.load(members, VALUE_BYTES)?;
    fill(&mut Connection::open(sorted.port)?, "sorted", "ZADD", members)?;
    let requests = bench.options.scale(200_000, 5_000);
    let run = |server: &Server, command: &'static [&'static str]| -> Result<Sample, String> {
        server.wait_until_quiet()?;
        benchmark.run(server, Load { command, value_bytes: VALUE_BYTES, depth: 1, requests, keys: members })
    };
    let commands: [(&str, &'static [&'static str]); 3] = [
        ("ZADD", &["ZADD", "sorted", "__rand_int__", "member:__rand_int__"]),
        ("ZRANK", &["ZRANK", "sorted", "member:__rand_int__"]),
        ("ZRANGE of 10 by score", &["ZRANGE", "sorted", "__rand_int__", "+inf", "BYSCORE", "LIMIT", "0", "10"]),
    ];
    let mut bars = Vec::new();
    for (name, command) in commands {
        let what = format!("{name}, {} members, {} MiB of memory", grouped(members as f64), memory_bytes >> 20);
        let bar = Bar::new(what, "GETs of as many strings", AT_LEAST);
        let ours = || run(&sorted, command);
        bars.push(bar.alternate(bench.options.runs, ours, || run(&strings, &["-t", "get"]))?);
    }
    // redis-benchmark draws each number of a request by itself, and the last rank is that of the first and nine more.
    let by_rank = |n: u64| {
        let first = crowd::mixed(n) % members.saturating_sub(WINDOW).max(1);
        ["ZRANGE".to_owned(), "sorted".to_owned(), first.to_string(), (first + WINDOW - 1).to_string()].to_vec()
    };
    let get = |n: u64| ["GET".to_owned(), format!("key:{:012}", crowd::mixed(n) % members)].to_vec();
    let what =
        format!("ZRANGE of 10 by rank, {} members, {} MiB of memory", grouped(members as f64), memory_bytes >> 20);
    let bar = Bar::new(what, "GETs of as many strings by the same client", AT_LEAST);
    let ours = || sorted.wait_until_quiet().and_then(|()| crowd::run(&sorted, requests, by_rank));
    let theirs = || strings.wait_until_quiet().and_then(|()| crowd::run(&strings, requests, get));
    bars.push(bar.alternate(bench.options.runs, ours, theirs)?);
    let peak = sorted.peak_bytes()?;
    let share = peak as f64 / memory_bytes as f64;
    let verdict = if share <= PEAK_SHARE_MAX { "held" } else { "**missed**" };
    if let Some(last) = bars.last_mut() {
        let mib = grouped((peak >> 20) as f64);
        last.notes
            .push(format!("peak RSS {mib} MiB, {share:.2} × the memory given (bar: ≤ {PEAK_SHARE_MAX} ×): {verdict}"));
    }
    sorted.stop()?;
    strings.stop()?;
    bench.empty_folders(&["sorted", "strings"])?;
    Ok(bars)
}

/// A kind of collection: its name, and the command that fills it.
pub const KINDS: [(&str, &str); 5] =
    [("hash", "HSET"), ("set", "SADD"), ("sorted set", "ZADD"), ("list", "RPUSH"), ("stream", "XADD")];
/// How many elements a small one has.
pub const SMALL: u64 = 20;

/// The bytes that an element takes by MEMORY USAGE, at most as many as in Redis.
pub fn bytes(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let peers = Peers::start_empty(bench, "nosync", "everysec")?;
    let large = bench.options.scale(1_000_000, 10_000);
    let mut ceilings = Rows::default();
    for (kind, command) in KINDS {
        for elements in [SMALL, large] {
            let mut bytes = Vec::new();
            for server in peers.servers() {
                let mut connection = Connection::open(server.port)?;
                let key = format!("{kind}-{elements}").replace(' ', "-");
                fill(&mut connection, &key, command, elements)?;
                let usage = connection.integer(&["MEMORY", "USAGE", &key, "SAMPLES", "0"])?;
                bytes.push(usage as f64 / elements as f64);
            }
            let what = format!("{kind} of {}: bytes an element by MEMORY USAGE; Redis's", grouped(elements as f64));
            ceilings.push(Ceiling::new(what, "bytes", bytes[1], bytes[0]))?;
        }
    }
    peers.stop(bench)?;
    Ok(ceilings.all())
}

/// The words of these elements in the command that adds them: members as redis-benchmark names them, with what belongs to them.
pub fn elements_of(command: &str, numbers: std::ops::Range<u64>) -> Vec<String> {
    let value = "v".repeat(20);
    let mut words = Vec::new();
    for n in numbers {
        let member = format!("member:{n:012}");
        match command {
            "ZADD" => words.extend([n.to_string(), member]),
            "HSET" => words.extend([member, value.clone()]),
            "XADD" => words.extend(["*".to_owned(), member, value.clone()]),
            _ => words.push(member),
        }
    }
    words
}

/// Adds `length` elements to a collection.
fn fill(connection: &mut Connection, key: &str, command: &str, length: u64) -> Result<(), String> {
    progress::doing(format!("{command} of {length} elements"));
    // Each entry of a stream is a request of its own.
    let step = if command == "XADD" { 1 } else { LOADED_AT_A_TIME };
    for first in (0..length).step_by(step as usize) {
        let words = elements_of(command, first..length.min(first + step));
        let request: Vec<&str> = [command, key].into_iter().chain(words.iter().map(String::as_str)).collect();
        connection.ask(&request)?;
        connection.answer()?;
        progress::counted(first, length);
    }
    Ok(())
}
