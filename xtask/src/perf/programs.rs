//! Scripts, messages and tracking against redis-server.

use super::bar::Bar;
use super::bench::Bench;
use super::progress;
use super::redis::Peers;
use super::redis_benchmark::Load;
use super::server::Server;
use super::subscribers::Subscribers;
use super::wire::Connection;

/// Releases a lock, as the recipes of Redis do.
const COMPARE_AND_DELETE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
/// Admits a request, if fewer than a number were admitted in the last second.
const SLIDING_WINDOW: &str = "local now=redis.call('time') now=now[1]*1000000+now[2] \
     redis.call('zremrangebyscore',KEYS[1],0,now-1000000) \
     if redis.call('zcard',KEYS[1])<tonumber(ARGV[1]) then \
     redis.call('zadd',KEYS[1],now,now..':'..ARGV[2]) redis.call('pexpire',KEYS[1],1000) return 1 end return 0";

const TOKEN: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";
/// Bytes of a value that GET returns: as in the other measurements.
const VALUE_BYTES: usize = 1000;
const CHANNEL: &str = "channel";
/// SETs on their way at once.
const DEPTH: u64 = 256;
/// Locks that are held when a run begins: as many as it has requests.
const LOCKS: u64 = 200_000;
/// Requests of the limiter go to so many of its keys.
const LIMITED: u64 = 10_000;

/// Scripts that locks and limiters are made of.
pub fn scripts(bench: &Bench) -> Result<Vec<Bar>, String> {
    let mut bars = Vec::new();
    for (durability, append_fsync, at_least) in [("nosync", "everysec", 0.8), ("sync", "always", 1.2)] {
        let peers = Peers::start_empty(bench, durability, append_fsync)?;
        let bar =
            |what: &str| Bar::new(format!("{what}, `{durability}`"), format!("redis-server, {append_fsync}"), at_least);
        bars.push(release(bench, &peers, bar("EVALSHA of compare-and-delete"))?);
        bars.push(limit(bench, &peers, bar("EVALSHA of a sliding-window limiter"))?);
        peers.stop(bench)?;
    }
    Ok(bars)
}

/// Messages, and reads of clients that are told of changes.
pub fn messages(bench: &Bench) -> Result<Vec<Bar>, String> {
    let mut bars = Vec::new();
    let peers = Peers::start_empty(bench, "nosync", "everysec")?;
    for subscribers in [1, 100, 1000] {
        bars.push(publish(bench, &peers, subscribers)?);
    }
    for server in peers.servers() {
        Connection::open(server.port)?.load(peers.keys, VALUE_BYTES)?;
    }
    let bar = Bar::new("GET, tracking on", "redis-server", 0.9);
    let command = &["--enable-tracking", "-t", "get"];
    bars.push(peers.compare(bench.options.runs, bar, load(bench, command, peers.keys))?);
    peers.stop(bench)?;
    Ok(bars)
}

fn load(bench: &Bench, command: &'static [&'static str], keys: u64) -> Load {
    let requests = bench.options.scale(200_000, 10_000);
    Load { command, value_bytes: VALUE_BYTES, depth: 1, requests, keys }
}

/// Each lock is held when a run begins, so that most requests delete one.
fn release(bench: &Bench, peers: &Peers, bar: Bar) -> Result<Bar, String> {
    let command = with_script(peers, COMPARE_AND_DELETE, &["1", "key:__rand_int__", TOKEN])?;
    let keys = bench.options.scale(LOCKS, 20_000);
    peers.compare_after(bench.options.runs, bar, load(bench, command, keys), |server| hold_all(server, keys))
}

fn limit(bench: &Bench, peers: &Peers, bar: Bar) -> Result<Bar, String> {
    let command = with_script(peers, SLIDING_WINDOW, &["1", "limiter:__rand_int__", "100", "__rand_int__"])?;
    peers.compare(bench.options.runs, bar, load(bench, command, LIMITED))
}

/// The words of a request that runs a script with these arguments: both servers know it.
fn with_script(peers: &Peers, script: &str, arguments: &[&'static str]) -> Result<&'static [&'static str], String> {
    let mut sha = String::new();
    for server in peers.servers() {
        sha = Connection::open(server.port)?.load_script(script)?;
    }
    // The words live as long as the program: there are two of them.
    let mut words: Vec<&'static str> = vec!["EVALSHA", Box::leak(sha.into_boxed_str())];
    words.extend_from_slice(arguments);
    Ok(Box::leak(words.into_boxed_slice()))
}

/// SETs the lock of every key.
fn hold_all(server: &Server, keys: u64) -> Result<(), String> {
    let mut connection = Connection::open(server.port)?;
    progress::doing(format!("SET of {keys} locks in {}", server.name));
    for first in (0..keys).step_by(DEPTH as usize) {
        let names: Vec<String> = (first..keys.min(first + DEPTH)).map(|n| format!("key:{n:012}")).collect();
        connection.ask_all(names.iter().map(|name| vec!["SET", name.as_str(), TOKEN]))?;
        progress::counted(first, keys);
    }
    Ok(())
}

/// One publisher at a time on each connection; every message goes to all subscribers.
fn publish(bench: &Bench, peers: &Peers, subscribers: usize) -> Result<Bar, String> {
    let [ours, theirs] = peers.servers();
    let listening =
        [Subscribers::start(ours, CHANNEL, subscribers)?, Subscribers::start(theirs, CHANNEL, subscribers)?];
    let bar = Bar::new(format!("PUBLISH to {subscribers} subscribers"), "redis-server", 1.0);
    let requests = bench.options.scale(200_000 / (1 + subscribers as u64 / 20), 2_000);
    let load = Load { requests, ..load(bench, &["PUBLISH", CHANNEL, TOKEN], 1) };
    let bar = peers.compare(bench.options.runs, bar, load)?;
    listening.into_iter().try_for_each(Subscribers::stop)?;
    Ok(bar)
}
