//! Keys on their way in and out: strings of 100 bytes from a file or a Redis into a store of three nodes, and out of it again.

use super::bench::Bench;
use super::ceiling::{Ceiling, Rows};
use super::program;
use super::server::{Server, free_port};
use super::store::Store;
use super::wire::Connection;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const SHARDS: u32 = 16;
const VALUE_BYTES: usize = 100;
/// What a key and its value take in the file.
const RECORD_BYTES: u64 = 120;
const IN_BOUND: Duration = Duration::from_secs(900);
/// What 1 GB may take, in s.
const GB_S_MAX: f64 = 60.0;
const GB: f64 = 1e9;

/// One run: in from RDB, out to RDB and to NDJSON, in from NDJSON.
pub fn files(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let folder = bench.empty_folder("moving")?;
    let keys = bench.options.scale(1_000_000_000 / RECORD_BYTES, 50_000);
    let dump = folder.join("in.rdb");
    let bytes = write_dump(&dump, keys).map_err(|error| format!("{}: {error}", dump.display()))?;
    let gigabytes = bytes as f64 / GB;
    let mut rows = Rows::default();
    let mut row = |what: &str, seconds: f64| rows.push(row(what, seconds / gigabytes));
    let (out, lines) = (folder.join("out.rdb"), folder.join("out.ndjson"));
    let store = Store::start(bench, "nosync", SHARDS)?;
    row("`basalt import` of RDB", run(bench, &store, &["import"], &dump)?)?;
    store.wait_until_quiet()?;
    row("`basalt export` to RDB", run(bench, &store, &["export"], &out)?)?;
    row("`basalt export` to NDJSON", run(bench, &store, &["export"], &lines)?)?;
    store.stop()?;
    let store = Store::start(bench, "nosync", SHARDS)?;
    row("`basalt import` of NDJSON", run(bench, &store, &["import"], &lines)?)?;
    store.stop()?;
    bench.empty_folder("moving")?;
    Ok(rows.all())
}

/// One run: in from a Redis that goes on, until nothing of it is missing.
pub fn from_redis(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let redis_server = program::installed("redis-server", "redis-server")?;
    let (folder, port) = (bench.empty_folder("redis")?, free_port()?);
    let keys = bench.options.scale(1_000_000_000 / RECORD_BYTES, 50_000);
    let dump = folder.join("dump.rdb");
    let bytes = write_dump(&dump, keys).map_err(|error| format!("{}: {error}", dump.display()))?;
    let mut command = Command::new(redis_server);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(&folder);
    // It would wait for more replicas before it sends its keys.
    command.args(["--repl-diskless-sync-delay", "0"]);
    let redis = Server::start("redis-server", &mut command, port, &folder)?;
    redis.wait_until_quiet()?;
    let found = Connection::open(port)?.key_count()?;
    if found != keys {
        return Err(format!("redis-server: has {found} keys of {keys}"));
    }
    let store = Store::start(bench, "nosync", SHARDS)?;
    let source = format!("redis://127.0.0.1:{port}");
    let seconds = run(bench, &store, &["import", "--cut-over"], Path::new(&source))?;
    store.stop()?;
    redis.stop()?;
    bench.empty_folder("redis")?;
    let mut rows = Rows::default();
    rows.push(row("`basalt import` from a live Redis (PSYNC)", seconds / (bytes as f64 / GB)))?;
    Ok(rows.all())
}

fn row(what: &str, seconds: f64) -> Ceiling {
    let what = format!("1 GB of strings of {VALUE_BYTES} bytes, three nodes, `nosync`: {what}");
    Ceiling::new(what, "s", GB_S_MAX, seconds)
}

/// Runs a command on a file or another source; how long it took, in s.
fn run(bench: &Bench, store: &Store<'_>, words: &[&str], file: &Path) -> Result<f64, String> {
    let node = format!("127.0.0.1:{}", store.ports()[0]);
    let begun = Instant::now();
    let mut command = Command::new(&bench.basalt);
    program::output(command.args(words).arg(file).args(["--node", &node, "--quiet"]), IN_BOUND)?;
    Ok(begun.elapsed().as_secs_f64())
}

/// An RDB file without a checksum; how long it is.
fn write_dump(path: &PathBuf, keys: u64) -> std::io::Result<u64> {
    const SELECT_0: [u8; 2] = [0xfe, 0];
    const END: [u8; 9] = [0xff, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(b"REDIS0010")?;
    file.write_all(&SELECT_0)?;
    for number in 0..keys {
        let key = format!("key:{number:012}");
        // Not all alike, so that compression is not all there is.
        let value = format!("{:0>width$}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15), width = VALUE_BYTES);
        // A string, a length below 64, and a length of 14 bits.
        file.write_all(&[0, key.len() as u8])?;
        file.write_all(key.as_bytes())?;
        file.write_all(&[0x40, VALUE_BYTES as u8])?;
        file.write_all(value.as_bytes())?;
    }
    file.write_all(&END)?;
    file.flush()?;
    Ok(path.metadata()?.len())
}
