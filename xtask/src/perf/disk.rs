//! Bytes of an element on disk, in small and large collections, beside what Redis takes of memory for it.

use super::bench::Bench;
use super::ceiling::{Ceiling, Rows};
use super::progress;
use super::redis::start_redis;
use super::server::Server;
use super::spread::grouped;
use super::types_size::{KINDS, SMALL, elements_of};
use super::wire::Connection;
use std::path::Path;
use std::process::Command;

/// Requests on their way at once.
const DEPTH: usize = 64;
/// How many elements a request of the load carries.
const LOADED_AT_A_TIME: u64 = 100;

/// Each kind, as many small collections as have a million elements, and one that has them all. The files are those that a node
/// has once its trees are written and merged; its log, which is of one size, is not among them.
pub fn measure(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let elements = bench.options.scale(1_000_000, 20_000);
    let mut rows = Rows::default();
    for (kind, command) in KINDS {
        for each in [SMALL, elements] {
            let on_disk = on_disk(bench, command, elements, each)? as f64 / elements as f64;
            let in_redis = in_redis(bench, command, each)? / each as f64;
            let what = format!(
                "{kind} of {}: bytes an element on disk; Redis's MEMORY USAGE {in_redis:.1}",
                grouped(each as f64)
            );
            rows.push(Ceiling::told(what, "bytes", on_disk))?;
        }
    }
    bench.empty_folders(&["disk", "redis"])?;
    Ok(rows.all())
}

fn start(bench: &Bench, folder: &Path, port: u16) -> Result<Server, String> {
    let mut command = Command::new(&bench.basalt);
    command.args(["start", "--listen", &format!("127.0.0.1:{port}"), "--durability", "nosync", "--memory", "256M"]);
    // Of one shard's tree all is written when the node ends, but for less than 1 MiB.
    Server::start("basalt", command.args(["--shards", "1", "--dir"]).arg(folder.join("data")), port, folder)
}

/// Bytes of the trees' files with that many elements, in collections of so many each.
fn on_disk(bench: &Bench, command: &str, elements: u64, each: u64) -> Result<u64, String> {
    let (folder, port) = (bench.empty_folder("disk")?, super::server::free_port()?);
    let server = start(bench, &folder, port)?;
    fill(&server, command, elements, each)?;
    server.stop()?;
    // It merges what there is, and what it reads of the log again.
    let server = start(bench, &folder, port)?;
    server.wait_until_quiet()?;
    let mut connection = Connection::open(port)?;
    let (bytes, in_memory) = (connection.told("tree_bytes")?, connection.told("memtable_bytes")?);
    server.stop()?;
    if in_memory * 20 > bytes && !progress::is_quick() {
        return Err(format!("{in_memory} bytes are not in files yet, beside {bytes} that are"));
    }
    Ok(bytes)
}

/// What MEMORY USAGE says of one such collection.
fn in_redis(bench: &Bench, command: &str, each: u64) -> Result<f64, String> {
    let server = start_redis(bench, "no", &[])?;
    fill(&server, command, each, each)?;
    let usage = Connection::open(server.port)?.integer(&["MEMORY", "USAGE", "collection:0", "SAMPLES", "0"])?;
    server.stop()?;
    Ok(usage as f64)
}

fn fill(server: &Server, command: &str, elements: u64, each: u64) -> Result<(), String> {
    let mut connection = Connection::open(server.port)?;
    progress::doing(format!("{command} of {elements} elements, {each} a collection, in {}", server.name));
    // Each entry of a stream is a request of its own.
    let step = if command == "XADD" { 1 } else { each.min(LOADED_AT_A_TIME) };
    let mut requests: Vec<Vec<String>> = Vec::new();
    for first in (0..elements).step_by(step as usize) {
        let mut words = vec![command.to_owned(), format!("collection:{}", first / each)];
        words.extend(elements_of(command, first..elements.min(first + step)));
        requests.push(words);
        if requests.len() == DEPTH || first + step >= elements {
            let words = requests.iter().map(|words| words.iter().map(String::as_str).collect());
            connection.ask_all(words)?;
            requests.clear();
            progress::counted(first, elements);
        }
    }
    Ok(())
}
