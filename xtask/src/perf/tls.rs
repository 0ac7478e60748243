//! What TLS costs: GET and SET with it against redis-server's, and against Basalt without.

use super::bar::Bar;
use super::bench::Bench;
use super::certificates::{Certificate, Certificates};
use super::nodes;
use super::redis::{start_basalt, start_redis};
use super::redis_benchmark::{Load, RedisBenchmark, VALUE_BYTES};
use super::server::{Server, free_port};
use super::store::Store;
use super::wire::Connection;

const KEYS: u64 = 500_000;
const KEYS_QUICK: u64 = 20_000;

/// YCSB B on three nodes.
pub fn nodes(bench: &Bench) -> Result<Vec<Bar>, String> {
    let certificates = Certificates::make(&bench.empty_folder("tls")?)?;
    let secured = Store::start_secured(bench, "nosync", nodes::SHARDS, certificates)?;
    let plain = Store::start(bench, "nosync", nodes::SHARDS)?;
    let bar = nodes::ycsb_b(bench, &secured, &plain)?;
    secured.stop()?;
    plain.stop()?;
    bench.empty_folders(&["tls"])?;
    Ok(vec![bar])
}

/// A server, and its port with TLS.
struct Secured {
    server: Server,
    port: u16,
}

/// GET one at a time, GET in pipelines, SET one at a time.
pub fn costs(bench: &Bench) -> Result<Vec<Bar>, String> {
    let benchmark = RedisBenchmark::find()?;
    let made = Certificate::make(&bench.empty_folder("tls")?)?;
    let (certificate, key) = (made.certificate.display().to_string(), made.key.display().to_string());
    let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-auth-clients", "no", "--tls-port"];
    let basalt =
        secured(|port| start_basalt(bench, &[&["--durability", "nosync"], &files[..], &[&port.to_string()]].concat()))?;
    let redis = secured(|port| start_redis(bench, "everysec", &[&files[..], &[&port.to_string()]].concat()))?;
    let keys = bench.options.scale(KEYS, KEYS_QUICK);
    for server in [&basalt.server, &redis.server] {
        Connection::open(server.port)?.load(keys, VALUE_BYTES)?;
    }
    let with_tls = |side: &Secured, load| {
        side.server.wait_until_quiet()?;
        benchmark.run_at(&side.server, side.port, &["--tls", "--cacert", &certificate], load)
    };
    let mut bars = Vec::new();
    for (what, words, depth, full, quick) in [
        ("GET, one request at a time, TLS", &["-t", "get"], 1, 300_000, 10_000),
        ("GET, pipeline of 16, TLS", &["-t", "get"], 16, 1_000_000, 50_000),
        ("SET, `nosync`, one at a time, TLS", &["-t", "set"], 1, 300_000, 10_000),
        ("SET, `nosync`, pipeline of 16, TLS", &["-t", "set"], 16, 500_000, 50_000),
    ] {
        let requests = bench.options.scale(full, quick);
        let load = Load { command: words, value_bytes: VALUE_BYTES, depth, requests, keys };
        let ours = || with_tls(&basalt, load);
        ours()?;
        let bar = Bar::new(what, "redis-server, TLS", 1.0);
        bars.push(bar.alternate(bench.options.runs, ours, || with_tls(&redis, load))?);
        let without_tls = || {
            basalt.server.wait_until_quiet()?;
            benchmark.run(&basalt.server, load)
        };
        // There is no bar: it says what TLS costs.
        bars.push(Bar::new(what, "Basalt without TLS", 0.0).alternate(bench.options.runs, ours, without_tls)?);
    }
    basalt.server.stop()?;
    redis.server.stop()?;
    bench.empty_folders(&["basalt", "redis", "tls"])?;
    Ok(bars)
}

fn secured(start: impl FnOnce(u16) -> Result<Server, String>) -> Result<Secured, String> {
    let port = free_port()?;
    Ok(Secured { server: start(port)?, port })
}
