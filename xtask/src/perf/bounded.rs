//! What one client can make a node do: its time, its memory and what it reads, and what others wait for meanwhile.

use super::bench::Bench;
use super::ceiling::{Ceiling, join};
use super::machine::{evict, process_read_bytes};
use super::others::meanwhile;
use super::redis::start_basalt;
use super::server::Server;
use super::wire::Connection;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest that another client may wait, in ms.
const WAIT_MS_MAX: f64 = 10.0;
/// Fields that one HSET writes.
const FIELDS_EACH: u64 = 1000;
/// Keys of a request that has many.
const KEYS_EACH: u64 = 1000;
const MIB: u64 = 1 << 20;

/// All rows, over as many runs as are asked for.
pub fn run(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let mut rows = Vec::new();
    for _ in 0..bench.options.runs {
        for measure in [large_hash, watched_keys, large_values, long_answers, expiring_keys] {
            rows = join(rows, measure(bench)?);
        }
    }
    bench.empty_folder("basalt").map(|_| rows)
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

fn pause(seconds: u64) -> Result<(), String> {
    std::thread::sleep(Duration::from_secs(seconds));
    Ok(())
}

/// A request, what it took in s, and what others waited for in ms.
fn timed(server: &Server, args: &[&str]) -> Result<(f64, f64), String> {
    let port = server.port;
    let (took, waits) = meanwhile(port, || {
        let (mut client, begun) = (Connection::open(port)?, Instant::now());
        client.ask(args)?;
        client.answer()?;
        Ok(seconds(begun))
    })?;
    eprintln!("{}: {took:.3} s; others: p99 {:.1} ms, max {:.1} ms", args[0], waits.p99_ms, waits.max_ms);
    Ok((took, waits.max_ms))
}

/// A hash of a million fields of 64 bytes.
fn large_hash(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let fields = bench.options.scale(1_000_000, 20_000);
    let server = start_basalt(bench, &["--durability", "nosync", "--memory", "1G"])?;
    let mut client = Connection::open(server.port)?;
    let value = "v".repeat(64);
    for first in (0..fields).step_by(FIELDS_EACH as usize) {
        let names: Vec<String> = (first..first + FIELDS_EACH).map(|n| format!("field:{n:07}")).collect();
        let mut args = vec!["HSET", "{h}a"];
        args.extend(names.iter().flat_map(|name| [&name[..], &value]));
        client.ask(&args)?;
        client.answer()?;
    }
    server.wait_until_quiet()?;
    let quiet_s = bench.options.scale(10, 1);
    let ((), quiet) = meanwhile(server.port, || pause(quiet_s))?;
    let mut rows = Vec::new();
    for (args, name, bar, unit) in [
        (&["HGETALL", "{h}a"][..], "HGETALL", 1.5, "s"),
        (&["HVALS", "{h}a"], "HVALS", 1.5, "s"),
        (&["RENAME", "{h}a", "{h}b"], "RENAME", 5.0, "ms"),
        (&["COPY", "{h}b", "{h}c"], "COPY", 3.0, "s"),
    ] {
        let (took, waited) = timed(&server, args)?;
        let took = if unit == "ms" { took * 1000.0 } else { took };
        rows.push(Ceiling::new(format!("a hash of {fields} fields: {name}"), unit, bar, took));
        rows.push(Ceiling::new(format!("… others meanwhile, longest: {name}"), "ms", WAIT_MS_MAX, waited));
    }
    let after_s = bench.options.scale(60, 2);
    let ((), after) = meanwhile(server.port, || {
        client.ask(&["DEL", "{h}b", "{h}c"])?;
        client.answer()?;
        pause(after_s)
    })?;
    rows.push(Ceiling::new("DEL of two, then others: p99", "ms", 2.0 * quiet.p99_ms, after.p99_ms));
    rows.push(Ceiling::new("… longest", "ms", 20.0, after.max_ms));
    server.stop()?;
    Ok(rows)
}

/// WATCH of many keys that are not in memory.
fn watched_keys(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let keys = bench.options.scale(40_000, 2_000);
    let server = start_basalt(bench, &["--durability", "nosync", "--memory", "64M"])?;
    let mut client = Connection::open(server.port)?;
    let names: Vec<String> = (0..keys).map(|n| format!("{{w}}key:{n:06}")).collect();
    let value = "v".repeat(4000);
    for chunk in names.chunks(KEYS_EACH as usize / 10) {
        let mut args = vec!["MSET"];
        args.extend(chunk.iter().flat_map(|name| [&name[..], &value]));
        client.ask(&args)?;
        client.answer()?;
    }
    server.wait_until_quiet()?;
    evict(&bench.folder.join("basalt"));
    let mut args = vec!["WATCH"];
    args.extend(names.iter().map(String::as_str));
    let (_, waited) = timed(&server, &args)?;
    server.stop()?;
    Ok(vec![Ceiling::new(format!("WATCH of {keys} keys on disk: others, longest"), "ms", WAIT_MS_MAX, waited)])
}

/// Commands about keys, where values are large.
fn large_values(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let values = bench.options.scale(800, 20);
    let server = start_basalt(bench, &["--durability", "nosync", "--memory", "256M"])?;
    let mut client = Connection::open(server.port)?;
    client.load(values, MIB as usize)?;
    server.wait_until_quiet()?;
    let mut rows = Vec::new();
    for (args, times) in [(&["RANDOMKEY"][..], 100), (&["SCAN", "0", "COUNT", "1000"], 1), (&["KEYS", "*"], 1)] {
        evict(&bench.folder.join("basalt"));
        let before = process_read_bytes(server.id())?;
        for _ in 0..times {
            client.ask(args)?;
            client.answer()?;
        }
        let read = (process_read_bytes(server.id())? - before) as f64 / MIB as f64;
        let what = format!("{} over {values} values of 1 MiB, {times} ×: read from disk", args[0]);
        rows.push(Ceiling::new(what, "MiB", 5.0, read));
    }
    server.stop()?;
    Ok(rows)
}

/// Answers that are much larger than the memory that the node is given.
fn long_answers(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let (times, bytes) = (bench.options.scale(150, 10), 8 * MIB as usize);
    let mut rows = Vec::new();
    let peak = |server: Server| {
        let peak = server.peak_bytes()? as f64 / MIB as f64;
        server.stop().map(|()| peak)
    };
    let start = || -> Result<(Server, Connection), String> {
        let server = start_basalt(bench, &["--durability", "nosync", "--memory", "256M"])?;
        let mut client = Connection::open(server.port)?;
        client.set("{v}large", &"v".repeat(bytes))?;
        Ok((server, client))
    };
    let (server, mut client) = start()?;
    for _ in 0..times {
        client.ask(&["GETEX", "{v}large", "EX", "1000"])?;
    }
    std::thread::sleep(Duration::from_secs(2));
    (0..times).try_for_each(|_| client.answer().map(|_| ()))?;
    rows.push(Ceiling::new(format!("{times} pipelined GETEX of 8 MiB: peak memory"), "MiB", 450.0, peak(server)?));
    for (name, in_exec) in [("EXEC of GET", true), ("MGET", false)] {
        let (server, mut client) = start()?;
        if in_exec {
            client.ask(&["MULTI"])?;
            client.answer()?;
            for _ in 0..times {
                client.ask(&["GET", "{v}large"])?;
                client.answer()?;
            }
            client.ask(&["EXEC"])?;
        } else {
            let mut args = vec!["MGET"];
            args.resize(times as usize + 1, "{v}large");
            client.ask(&args)?;
        }
        // A client that is slow to read.
        std::thread::sleep(Duration::from_secs(2));
        let answered = client.answer()?;
        if answered < times * bytes as u64 {
            return Err(format!("{name}: answered with {answered} bytes"));
        }
        rows.push(Ceiling::new(format!("{name}, {times} × 8 MiB: peak memory"), "MiB", 450.0, peak(server)?));
    }
    Ok(rows)
}

/// Many keys of one shard that expire within ten seconds, while clients write.
fn expiring_keys(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let keys = bench.options.scale(1_000_000, 20_000);
    let server = start_basalt(bench, &["--durability", "nosync", "--memory", "1G", "--shards", "1"])?;
    let port = server.port;
    let mut client = Connection::open(port)?;
    let ((), quiet) = meanwhile(port, || pause(bench.options.scale(10, 1)))?;
    let begun = Instant::now();
    // The first expire when the last are written, as far as that can be told.
    let lead_ms = bench.options.scale(20_000, 1_000);
    for first in (0..keys).step_by(KEYS_EACH as usize) {
        let elapsed_ms = begun.elapsed().as_millis() as u64;
        let in_ms = lead_ms.saturating_sub(elapsed_ms) + 10_000 * first / keys;
        for n in first..first + KEYS_EACH {
            client.ask(&["SET", &format!("expiring:{n}"), "value", "PX", &in_ms.max(1).to_string()])?;
        }
        (0..KEYS_EACH).try_for_each(|_| client.answer().map(|_| ()))?;
    }
    let due = begun + Duration::from_millis(lead_ms + 10_000);
    let (late_s, waits) = meanwhile(port, || with_writers(port, || until_collected(port, due)))?;
    server.stop()?;
    Ok(vec![
        Ceiling::new(
            format!("{keys} keys of one shard expire within 10 s: the last is collected late by"),
            "s",
            1.0,
            late_s,
        ),
        Ceiling::new("… others meanwhile: p99", "ms", 2.0 * quiet.p99_ms, waits.p99_ms),
    ])
}

/// Runs `busy` while four clients write.
fn with_writers<T>(port: u16, busy: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let done = AtomicBool::new(false);
    let write = |writer: u64| {
        let mut client = Connection::open(port)?;
        for n in (0..1000).cycle() {
            if done.load(Ordering::Acquire) {
                break;
            }
            client.set(&format!("written:{writer}:{n}"), "value")?;
        }
        Ok::<(), String>(())
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                scope.spawn({
                    let write = &write;
                    move || write(writer)
                })
            })
            .collect();
        let busy = busy();
        done.store(true, Ordering::Release);
        for writer in writers {
            writer.join().map_err(|_| "a writer has panicked".to_owned())??;
        }
        busy
    })
}

/// Waits until the keys that expire are gone; by how many seconds after `due` that was.
fn until_collected(port: u16, due: Instant) -> Result<f64, String> {
    const LEFT_MAX: u64 = 5_000;
    const BOUND: Duration = Duration::from_secs(120);
    let mut client = Connection::open(port)?;
    while client.key_count()? > LEFT_MAX {
        if due.elapsed() > BOUND {
            return Err("the keys are not collected within two minutes".to_owned());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(Instant::now().saturating_duration_since(due).as_secs_f64())
}
