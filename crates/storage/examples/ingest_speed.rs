//! How fast a map is built aside and installed, on one thread, fsyncs included.
//!
//! `cargo run --release -p basalt-storage --example ingest_speed [records] [value bytes] [seed] [folder]`
//!
//! Half of each value is random. Prints megabytes of keys and values a second, and a second of this thread's CPU (the
//! machine may be shared), the most memory that the process had by the end of the build, and the digest of what was read
//! back: the same for both engines, or it stops.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::time::Instant;
use storage::{EngineKind, SharedResources, Slice, Span, StorageOptions};
use vocab::Prng;

fn memory_mb_max() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// This thread's time on a processor, in seconds.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

fn run(kind: EngineKind, records: u64, value_bytes: usize, seed: u64, folder: &std::path::Path) -> u64 {
    let folder = tempfile::tempdir_in(folder).unwrap();
    let engine = storage::open_engine(kind, folder.path(), &SharedResources::new(StorageOptions::default())).unwrap();
    let mut prng = Prng::new(seed);
    let mut bytes = 0;
    let (start, cpu) = (Instant::now(), cpu_s());
    let mut ingest = engine.ingest().unwrap();
    for i in 0..records {
        let key = Slice::from(format!("ruser{i:019}").into_bytes());
        let mut value = vec![b'v'; value_bytes];
        prng.fill(&mut value[..value_bytes / 2]);
        bytes += (key.len() + value.len()) as u64;
        ingest.put(key, value.into()).unwrap();
    }
    let ingested = ingest.finish(records, vec![]).unwrap();
    let (built, built_cpu, memory_mb) = (start.elapsed(), cpu_s() - cpu, memory_mb_max());
    engine.install(ingested).unwrap();
    let installed = start.elapsed() - built;
    let start = Instant::now();
    let digest = engine.snapshot().digest(Span { start: vec![], end: vec![] }).unwrap();
    let rate = |seconds: f64| bytes as f64 / 1e6 / seconds;
    println!(
        "{:<7} built {:>6.0} MB/s ({:.0} a CPU second), installed in {:>5.1} ms, digest {:>6.0} MB/s, {} MB on disk, memory at most {} MB",
        kind.name(),
        rate(built.as_secs_f64()),
        rate(built_cpu),
        installed.as_secs_f64() * 1e3,
        rate(start.elapsed().as_secs_f64()),
        engine.stats().disk_bytes / 1_000_000,
        memory_mb,
    );
    digest
}

fn main() {
    if cfg!(debug_assertions) {
        eprintln!("a debug build: its figures mean nothing");
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let (records, value_bytes, seed) = (number(0, 1_000_000), number(1, 1000) as usize, number(2, 42));
    let folder = arguments.get(3).map_or_else(std::env::temp_dir, PathBuf::from);
    println!("{records} records of {value_bytes} bytes, seed {seed}, in {}", folder.display());
    let lsm = run(EngineKind::Lsm, records, value_bytes, seed, &folder);
    let memory = run(EngineKind::Memory, records, value_bytes, seed, &folder);
    assert_eq!(lsm, memory, "the engines hold different rows");
    println!("digest {lsm:016x}");
}
