//! What one client can make a node do: its time, its memory and what it reads, and what others wait for meanwhile.

use super::bench::Bench;
use super::ceiling::{Ceiling, Rows, join};
use super::machine::{evict, process_read_bytes};
use super::others::{Waits, meanwhile};
use super::progress;
use super::redis::{start_basalt, start_with};
use super::server::Server;
use super::wire::Connection;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest that another client may wait, in ms.
pub(super) const WAIT_MS_MAX: f64 = 10.0;
/// Fields that one HSET writes.
const FIELDS_EACH: u64 = 1000;
/// Keys of a request that has many.
const KEYS_EACH: u64 = 1000;
const MIB: u64 = 1 << 20;

/// What `measure` finds, over as many runs as are asked for. What fails in a later run does not
/// lose what earlier ones have found.
pub fn runs(bench: &Bench, measure: fn(&Bench) -> Result<Vec<Ceiling>, String>) -> Result<Vec<Ceiling>, String> {
    let (mut rows, mut failed) = (Vec::new(), None);
    for _ in 0..bench.options.runs {
        match measure(bench) {
            Ok(found) => rows = join(rows, found),
            Err(why) => {
                eprintln!("error: {why}");
                failed = Some(why);
            }
        }
    }
    bench.empty_folder("basalt")?;
    if rows.is_empty() { Err(failed.unwrap_or_else(|| "no run was asked for".to_owned())) } else { Ok(rows) }
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// Others are watched for so long.
pub fn pause(seconds: u64) -> Result<(), String> {
    progress::doing(format!("watching others for {seconds} s"));
    std::thread::sleep(Duration::from_secs(seconds));
    Ok(())
}

/// A request, what it took in s, and what others waited for.
fn timed(server: &Server, args: &[&str]) -> Result<(f64, Waits), String> {
    let port = server.port;
    progress::doing(format!("waiting for the answer to {}", args[0]));
    let (took, waits) = meanwhile(port, || {
        let (mut client, begun) = (Connection::open(port)?, Instant::now());
        client.ask(args)?;
        client.answer()?;
        Ok(seconds(begun))
    })?;
    Ok((took, waits))
}

/// What others waited for at most while `what` went on.
pub fn waits_rows(what: &str, waits: Waits) -> [Ceiling; 2] {
    [
        Ceiling::new(format!("… others meanwhile, p99.9: {what}"), "ms", WAIT_MS_MAX / 2.0, waits.p999_ms),
        Ceiling::new(format!("… others meanwhile, longest: {what}"), "ms", WAIT_MS_MAX, waits.max_ms),
    ]
}

/// A hash of a million fields of 64 bytes.
pub fn large_hash(bench: &Bench) -> Result<Vec<Ceiling>, String> {
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
    let mut rows = Rows::default();
    for (args, name, bar, unit) in [
        (&["HGETALL", "{h}a"][..], "HGETALL", 1.5, "s"),
        (&["HVALS", "{h}a"], "HVALS", 1.5, "s"),
        (&["RENAME", "{h}a", "{h}b"], "RENAME", 5.0, "ms"),
        (&["COPY", "{h}b", "{h}c"], "COPY", 3.0, "s"),
    ] {
        let (took, waited) = timed(&server, args)?;
        let took = if unit == "ms" { took * 1000.0 } else { took };
        rows.push(Ceiling::new(format!("a hash of {fields} fields: {name}"), unit, bar, took))?;
        rows.extend(waits_rows(name, waited))?;
    }
    let after_s = bench.options.scale(60, 2);
    let ((), after) = meanwhile(server.port, || {
        client.ask(&["DEL", "{h}b", "{h}c"])?;
        client.answer()?;
        pause(after_s)
    })?;
    rows.push(Ceiling::new("DEL of two, then others: p99", "ms", 2.0 * quiet.p99_ms, after.p99_ms))?;
    rows.push(Ceiling::new("… longest", "ms", 20.0, after.max_ms))?;
    server.stop()?;
    Ok(rows.all())
}

/// WATCH of many keys that are not in memory.
pub fn watched_keys(bench: &Bench) -> Result<Vec<Ceiling>, String> {
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
    Ok(vec![Ceiling::new(format!("WATCH of {keys} keys on disk: others, longest"), "ms", WAIT_MS_MAX, waited.max_ms)])
}

/// Commands about keys, where values are large.
pub fn large_values(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let values = bench.options.scale(800, 20);
    let server = start_basalt(bench, &["--durability", "nosync", "--memory", "256M"])?;
    let mut client = Connection::open(server.port)?;
    client.load(values, MIB as usize)?;
    server.wait_until_quiet()?;
    let mut rows = Rows::default();
    for (args, times) in [(&["RANDOMKEY"][..], 100), (&["SCAN", "0", "COUNT", "1000"], 1), (&["KEYS", "*"], 1)] {
        evict(&bench.folder.join("basalt"));
        let before = process_read_bytes(server.id())?;
        for _ in 0..times {
            client.ask(args)?;
            client.answer()?;
        }
        let read = (process_read_bytes(server.id())? - before) as f64 / MIB as f64;
        let what = format!("{} over {values} values of 1 MiB, {times} ×: read from disk", args[0]);
        rows.push(Ceiling::new(what, "MiB", 5.0, read))?;
    }
    server.stop()?;
    Ok(rows.all())
}

/// Answers that are much larger than the memory that the node is given.
pub fn long_answers(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let (times, bytes) = (bench.options.scale(150, 10), 8 * MIB as usize);
    let mut rows = Rows::default();
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
    rows.push(Ceiling::new(format!("{times} pipelined GETEX of 8 MiB: peak memory"), "MiB", 450.0, peak(server)?))?;
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
        rows.push(Ceiling::new(format!("{name}, {times} × 8 MiB: peak memory"), "MiB", 450.0, peak(server)?))?;
    }
    Ok(rows.all())
}

/// Many keys of one shard that expire within ten seconds, while clients write.
pub fn expiring_keys(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let keys = bench.options.scale(1_000_000, 20_000);
    let server = start_basalt(bench, &["--durability", "nosync", "--memory", "1G", "--shards", "1"])?;
    let port = server.port;
    let mut client = Connection::open(port)?;
    let ((), quiet) = meanwhile(port, || pause(bench.options.scale(10, 1)))?;
    let begun = Instant::now();
    // The first expire when the last are written, as far as that can be told.
    let lead_ms = bench.options.scale(40_000, 4_000);
    for first in (0..keys).step_by(KEYS_EACH as usize) {
        let elapsed_ms = begun.elapsed().as_millis() as u64;
        let in_ms = lead_ms.saturating_sub(elapsed_ms) + 10_000 * first / keys;
        let in_ms = in_ms.max(1).to_string();
        let names: Vec<String> = (first..first + KEYS_EACH).map(|n| format!("expiring:{n}")).collect();
        client.ask_all(names.iter().map(|name| vec!["SET", name, "value", "PX", &in_ms]))?;
    }
    if begun.elapsed().as_millis() as u64 > lead_ms {
        return Err(format!("the keys were not written within {lead_ms} ms: they expire later than is measured"));
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

/// Walks over keys that begin alike, for long and for short.
pub fn common_prefix(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let keys = bench.options.scale(600_000, 20_000);
    let walk = |prefix: &str| {
        let server = start_basalt(bench, &["--durability", "nosync", "--memory", "1G"])?;
        let mut client = Connection::open(server.port)?;
        for first in (0..keys).step_by(KEYS_EACH as usize) {
            let names: Vec<String> = (first..first + KEYS_EACH).map(|n| format!("{prefix}{n:07}")).collect();
            client.ask_all(names.iter().map(|name| vec!["SET", name, "value"]))?;
        }
        server.wait_until_quiet()?;
        let mut fastest = f64::INFINITY;
        for _ in 0..3 {
            let begun = Instant::now();
            let found = client.scan_all(1000)?;
            if found != keys {
                return Err(format!("SCAN of {keys} keys has found {found}"));
            }
            fastest = fastest.min(seconds(begun));
        }
        server.stop().map(|()| fastest)
    };
    let (short, long) = (walk("k")?, walk(&"k".repeat(30))?);
    eprintln!("SCAN of {keys} keys: {short:.2} s with a prefix of 1 byte, {long:.2} s with 30");
    Ok(vec![Ceiling::new(
        format!("SCAN of {keys} keys with a common prefix of 30 bytes, against 1"),
        "×",
        1.3,
        long / short,
    )])
}

/// Writes whose text is short, and that have much to do.
pub fn busy_writes(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let many = bench.options.scale(100_000, 10_000);
    let server = start_basalt(bench, &["--durability", "nosync", "--memory", "1G"])?;
    let names: Vec<String> = (0..many).map(|n| format!("{{b}}{n}")).collect();
    let of = |first: &[&'static str], value: Option<&'static str>| -> Vec<String> {
        let words = names.iter().flat_map(|name| std::iter::once(name.clone()).chain(value.map(str::to_owned)));
        first.iter().map(|word| (*word).to_owned()).chain(words).collect()
    };
    let offsets = (0..many).flat_map(|n| ["SET".to_owned(), "u8".to_owned(), (n * 8).to_string(), "1".to_owned()]);
    let requests: [(&str, Vec<String>); 6] = [
        ("SADD of as many members", of(&["SADD", "{b}set"], None)),
        ("HSET of as many fields", of(&["HSET", "{b}hash"], Some("v"))),
        ("MSET of as many keys", of(&["MSET"], Some("v"))),
        ("DEL of as many keys", of(&["DEL"], None)),
        (
            "BITFIELD of as many actions",
            ["BITFIELD".to_owned(), "{b}bits".to_owned()].into_iter().chain(offsets).collect(),
        ),
        ("SETBIT of a string of 64 MiB", ["SETBIT", "{b}large", "536870911", "1"].map(str::to_owned).to_vec()),
    ];
    let mut rows = Rows::default();
    for (what, words) in &requests {
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let (took, waits) = timed(&server, &args)?;
        eprintln!("{what}: {took:.3} s");
        rows.extend(waits_rows(&format!("{what} ({many})"), waits))?;
    }
    server.stop().map(|()| rows.all())
}

/// Requests of one client.
type Requests<'a> = Vec<Vec<&'a str>>;

/// The requests of a client whose reads are tracked so.
fn tracked_by(words: &[String]) -> Requests<'_> {
    vec![vec!["HELLO", "3"], words.iter().map(String::as_str).collect()]
}

/// Clients that are told of all that happens, and take nothing of it, while one request changes very many keys.
pub fn listeners(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let many = bench.options.scale(250_000, 5_000);
    let server = start_basalt(bench, &["--durability", "nosync", "--memory", "256M"])?;
    let mut client = Connection::open(server.port)?;
    client.set_config("notify-keyspace-events", "KEA")?;
    let names: Vec<String> = (0..many).map(|n| format!("{{b}}{n}")).collect();
    let mut set = vec!["MSET"];
    set.extend(names.iter().flat_map(|name| [&name[..], "v"]));
    let mut get = vec!["MGET"];
    get.extend(names.iter().map(String::as_str));
    let prefixes = |client: usize| -> Vec<String> {
        let each = (0..1000).flat_map(|n| ["PREFIX".to_owned(), format!("{{b}}{client}:{n}:")]);
        ["CLIENT", "TRACKING", "ON", "BCAST"].map(str::to_owned).into_iter().chain(each).collect()
    };
    let many_prefixes: Vec<Vec<String>> = (0..20).map(prefixes).collect();
    let hello = || vec!["HELLO", "3"];
    let cases: [(&str, Vec<Requests<'_>>); 4] = [
        ("MONITOR", vec![vec![vec!["MONITOR"]]]),
        ("keyspace events", vec![vec![vec!["PSUBSCRIBE", "__key*"]]]),
        ("tracked keys", vec![vec![hello(), vec!["CLIENT", "TRACKING", "ON"], get]]),
        ("20,000 tracked prefixes", many_prefixes.iter().map(|words| tracked_by(words)).collect()),
    ];
    let mut rows = Rows::default();
    for (what, listeners) in &cases {
        let mut open = Vec::new();
        for requests in listeners {
            let mut listener = Connection::open(server.port)?;
            requests.iter().try_for_each(|request| listener.ask(request))?;
            open.push(listener);
        }
        pause(1)?;
        let (took, waits) = timed(&server, &set)?;
        eprintln!("MSET of {many} keys, {what}: {took:.3} s");
        rows.extend(waits_rows(&format!("MSET of {many} keys, {what}"), waits))?;
    }
    let peak = server.peak_bytes()? as f64 / MIB as f64;
    rows.push(Ceiling::new("peak memory with clients that are told of all this", "MiB", 450.0, peak))?;
    server.stop().map(|()| rows.all())
}

/// Clients that wait for as many keys as they may, and long lists of words about the node.
pub fn long_questions(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let clients = bench.options.scale(50, 5);
    let server = start_basalt(bench, &["--durability", "nosync", "--memory", "256M"])?;
    let waits_for = |client: u64, keys: u64| -> Vec<String> {
        let keys = (0..keys).map(|n| format!("{{b}}{client}:{n}"));
        std::iter::once("BLPOP".to_owned()).chain(keys).chain(["0".to_owned()]).collect()
    };
    let mut rows = Rows::default();
    for (what, keys) in [("4,096 keys", 4_096), ("200,000 keys, which are refused", 200_000)] {
        let (_, waits) = meanwhile(server.port, || {
            let mut open = Vec::new();
            for client in 0..clients {
                let words = waits_for(client, keys);
                let mut connection = Connection::open(server.port)?;
                connection.ask(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
                open.push(connection);
            }
            pause(2).map(|()| open.len())
        })?;
        rows.extend(waits_rows(&format!("{clients} clients in BLPOP of {what}"), waits))?;
    }
    for words in [&["COMMAND", "INFO"][..], &["LATENCY", "HISTOGRAM"], &["COMMAND", "DOCS"]] {
        let args: Vec<&str> = words.iter().copied().chain(std::iter::repeat_n("get", 1000)).collect();
        let (_, waits) = timed(&server, &args)?;
        rows.extend(waits_rows(&format!("{} of 1,000 names", words.join(" ")), waits))?;
    }
    server.stop().map(|()| rows.all())
}

/// Requests of very many arguments, and one of a very long one.
pub fn many_arguments(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let many = bench.options.scale(200_000, 10_000) as usize;
    let server = start_basalt(bench, &["--durability", "nosync", "--memory", "1G"])?;
    let names: Vec<String> = (0..many).map(|n| format!("{{m}}{n}")).collect();
    let (count, long) = (many.to_string(), "e".repeat(bench.options.scale(32 * MIB, MIB) as usize));
    let (half, few) = (names.len() / 2, names.len() * 9 / 20);
    let cases: [(&str, &[&str], &[String]); 6] = [
        ("EVAL of 200,000 arguments", &["EVAL", "return 1", "0"], &names),
        ("LMPOP of 200,000 keys", &["LMPOP", &count], &names),
        ("WATCH of 100,000 keys", &["WATCH"], &names[..half]),
        ("SUBSCRIBE to 90,000 channels", &["SUBSCRIBE"], &names[..few]),
        ("PSUBSCRIBE to 90,000 patterns", &["PSUBSCRIBE"], &names[..few]),
        ("ECHO of 32 MiB", &["ECHO", &long], &[]),
    ];
    let mut rows = Rows::default();
    for (what, words, more) in cases {
        let mut args: Vec<&str> = words.iter().copied().chain(more.iter().map(String::as_str)).collect();
        args.extend((words[0] == "LMPOP").then_some("LEFT"));
        let (_, waits) = timed(&server, &args)?;
        rows.extend(waits_rows(what, waits))?;
    }
    server.stop().map(|()| rows.all())
}

/// More connections than there are descriptors.
pub fn idle_clients(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let (clients, megabytes) = (bench.options.scale(1_100, 1_100), bench.options.scale(100, 10));
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 1024 && exec \"$0\" \"$@\""]).arg(&bench.basalt);
    let server = start_with(bench, limited, "basalt", &["--durability", "sync", "--memory", "64M"])?;
    let mut first = Connection::open(server.port)?;
    let idle: Vec<Connection> = (0..clients).filter_map(|_| Connection::open(server.port).ok()).collect();
    let value = "v".repeat(MIB as usize);
    let refused = (0..megabytes).filter(|n| first.set(&format!("key:{n}"), &value).is_err()).count();
    let lost =
        (0..megabytes).filter(|n| first.ask(&["GET", &format!("key:{n}")]).and_then(|()| first.answer()) != Ok(MIB));
    let lost = lost.count();
    drop(idle);
    server.stop()?;
    let what = format!("{clients} idle connections, 1,024 descriptors, {megabytes} MiB written");
    Ok(vec![
        Ceiling::new(format!("{what}: writes refused"), "", 0.0, refused as f64),
        Ceiling::new(format!("{what}: values not read again"), "", 0.0, lost as f64),
    ])
}

/// How long a node takes to stop.
pub fn stop(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let mut rows = Rows::default();
    for (shards, bar) in [(bench.options.scale(2_048, 64), 2.0), (bench.options.scale(16_384, 256), 10.0)] {
        let server = start_basalt(bench, &["--durability", "nosync", "--shards", &shards.to_string()])?;
        let mut client = Connection::open(server.port)?;
        for first in (0..4 * shards).step_by(64) {
            let names: Vec<String> = (first..first + 64).map(|n| format!("key:{n}")).collect();
            client.ask_all(names.iter().map(|name| vec!["SET", name, "value"]))?;
        }
        drop(client);
        rows.push(Ceiling::new(
            format!("SIGTERM with {shards} shards that have been written to"),
            "s",
            bar,
            server.terminate()?,
        ))?;
    }
    Ok(rows.all())
}
