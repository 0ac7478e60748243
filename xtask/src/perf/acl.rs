//! What rights cost: the same requests by a user who may do some things to some keys, and by `default`, who may do all.

use super::bar::Bar;
use super::bench::Bench;
use super::redis::start_basalt;
use super::redis_benchmark::{Load, RedisBenchmark, VALUE_BYTES};
use super::wire::Connection;

const KEYS: u64 = 500_000;
const KEYS_QUICK: u64 = 20_000;
/// The keys that are asked for are of the last pattern.
const RULES: [&str; 13] = [
    "on",
    ">secret",
    "resetchannels",
    "-@all",
    "+@read",
    "+@write",
    "+@connection",
    "-@dangerous",
    "%R~catalogue:*",
    "~cart:{*}",
    "~session:????:*",
    "%W~log:[a-f]*",
    "~key:*",
];

/// GET and SET one at a time and in pipelines.
pub fn costs(bench: &Bench) -> Result<Vec<Bar>, String> {
    let benchmark = RedisBenchmark::find()?;
    let server = start_basalt(bench, &["--durability", "nosync"])?;
    let keys = bench.options.scale(KEYS, KEYS_QUICK);
    let mut operator = Connection::open(server.port)?;
    operator.load(keys, VALUE_BYTES)?;
    operator.ask(&[&["ACL", "SETUSER", "app"], &RULES[..]].concat())?;
    let run = |more: &[&str], load| {
        server.wait_until_quiet()?;
        benchmark.run_at(&server, server.port, more, load)
    };
    let mut bars = Vec::new();
    for (what, words, depth, full, quick) in [
        ("GET, one request at a time, a user with five patterns", &["-t", "get"], 1, 300_000, 10_000),
        ("GET, pipeline of 16, the same", &["-t", "get"], 16, 1_000_000, 50_000),
        ("SET, `nosync`, one at a time, the same", &["-t", "set"], 1, 300_000, 10_000),
        ("SET, `nosync`, pipeline of 16, the same", &["-t", "set"], 16, 500_000, 50_000),
    ] {
        let load =
            Load { command: words, value_bytes: VALUE_BYTES, depth, requests: bench.options.scale(full, quick), keys };
        let restricted = || run(&["--user", "app", "-a", "secret"], load);
        restricted()?;
        // There is no bar: it says what rights cost.
        bars.push(
            Bar::new(what, "the user `default`", 0.0).alternate(bench.options.runs, restricted, || run(&[], load))?,
        );
    }
    server.stop()?;
    bench.empty_folders(&["basalt"])?;
    Ok(bars)
}
