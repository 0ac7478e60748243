//! What the engines and the row cache cost above the bare `lsm-tree`, on one thread, all in memory.
//!
//! `cargo run --release -p basalt-storage --example storage_speed [records] [value bytes] [seed]`
//!
//! Prints nanoseconds an operation, and a hash of all that was read: the same for every engine, or it stops.
#![allow(clippy::unwrap_used)]

use lsm_tree::{AbstractTree, AnyTree, Cache, Config, SequenceNumberCounter};
use std::sync::Arc;
use std::time::Instant;
use storage::{EngineKind, PutMode, RowCache, SharedResources, Slice, StorageOptions, WriteBatch};
use vocab::Prng;

const CACHE_BYTES: u64 = 2 << 30;
/// Of reads the best round counts: the first warms up, and the machine may be shared.
const ROUNDS: u32 = 7;

struct Run {
    records: u64,
    value_bytes: usize,
    seed: u64,
    /// What every one of them must read.
    hash: Option<u64>,
}

impl Run {
    fn key(i: u64) -> Vec<u8> {
        format!("user{:019}", i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 4).into_bytes()
    }

    fn values(&self) -> impl FnMut() -> Slice + use<> {
        let (mut prng, length) = (Prng::new(self.seed), self.value_bytes);
        move || {
            let mut value = vec![b'v'; length];
            prng.fill(&mut value[..length / 2]);
            Slice::from(value)
        }
    }

    /// Reads uniformly chosen keys, and checks what it got.
    fn reads(&mut self, what: &str, mut get: impl FnMut(&[u8]) -> u64) {
        let mut prng = Prng::new(self.seed + 1);
        let keys: Vec<_> = (0..self.records).map(|_| Self::key(prng.below(self.records))).collect();
        let (mut best, mut hash) = (f64::INFINITY, 0);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            hash = keys.iter().fold(0u64, |hash, key| hash.rotate_left(5) ^ get(key));
            best = best.min(start.elapsed().as_nanos() as f64 / keys.len() as f64);
        }
        println!("{what:<48} {best:>9.0} ns");
        assert_eq!(*self.hash.get_or_insert(hash), hash, "{what} read something else");
    }

    fn report(&self, what: &str, start: Instant, operations: u64) {
        let nanoseconds = start.elapsed().as_nanos() as f64 / operations as f64;
        println!("{what:<48} {nanoseconds:>9.0} ns");
    }
}

fn sum(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap()) ^ u64::from(*value.last().unwrap()) ^ value.len() as u64
}

fn bare(run: &mut Run) {
    let folder = tempfile::tempdir().unwrap();
    let counters = (SequenceNumberCounter::default(), SequenceNumberCounter::default());
    let cache = Arc::new(Cache::with_capacity_bytes(CACHE_BYTES));
    let tree: AnyTree = Config::new(folder.path(), counters.0, counters.1).use_cache(cache).open().unwrap();
    let mut value = run.values();
    let start = Instant::now();
    for i in 0..run.records {
        tree.insert(Run::key(i), value(), i + 1);
    }
    run.report("bare lsm-tree: insert", start, run.records);
    let seqno = run.records + 1;
    run.reads("bare lsm-tree: get, memtable", |key| sum(&tree.get(key, seqno).unwrap().unwrap()));
    tree.rotate_memtable();
    let start = Instant::now();
    tree.flush(&tree.get_flush_lock(), 0).unwrap();
    run.report("bare lsm-tree: flush", start, run.records);
    let strategy = Arc::new(lsm_tree::compaction::Leveled::default());
    (0..10).for_each(|_| tree.compact(strategy.clone(), 0).unwrap());
    run.reads("bare lsm-tree: get, tables in block cache", |key| sum(&tree.get(key, seqno).unwrap().unwrap()));
}

fn engine(run: &mut Run, kind: EngineKind, options: StorageOptions, name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let engine = storage::open_engine(kind, folder.path(), &SharedResources::new(options)).unwrap();
    let mut value = run.values();
    let start = Instant::now();
    for i in 0..run.records {
        engine.apply(
            i + 1,
            WriteBatch { writes: vec![(Slice::from(Run::key(i)), Some(value()))], ..WriteBatch::default() },
        );
    }
    run.report(&format!("{name}: apply, one write an entry"), start, run.records);
    run.reads(&format!("{name}: get, memtable"), |key| sum(&engine.get(key).unwrap().unwrap()));
    engine.seal(vec![]);
    let start = Instant::now();
    engine.flush().unwrap();
    run.report(&format!("{name}: flush"), start, run.records);
    while engine.compact().unwrap() {}
    run.reads(&format!("{name}: get, tables in block cache"), |key| sum(&engine.get(key).unwrap().unwrap()));
    println!("{name}: {} MB on disk", engine.stats().disk_bytes / 1_000_000);
}

fn row_cache(run: &mut Run) {
    let cache = RowCache::new(CACHE_BYTES as usize);
    let mut value = run.values();
    let start = Instant::now();
    for i in 0..run.records {
        cache.put(0, &Run::key(i), Some(&value()), PutMode::Allocate);
    }
    run.report("row cache: put", start, run.records);
    run.reads("row cache: get_with, all rows", |key| cache.get_with(0, key, sum).unwrap());
    run.reads("row cache: get, all rows", |key| sum(&cache.get(0, key).unwrap()));
    let hot: Vec<_> = (0..64).map(Run::key).collect();
    let rounds = run.records / 64;
    let start = Instant::now();
    for _ in 0..rounds {
        hot.iter().for_each(|key| assert!(cache.get_with(0, key, sum).is_ok()));
    }
    run.report("row cache: get_with, 64 rows", start, rounds * 64);
    let start = Instant::now();
    for _ in 0..rounds {
        hot.iter().for_each(|key| assert!(cache.get(0, key).is_ok()));
    }
    run.report("row cache: get, 64 rows", start, rounds * 64);
}

fn main() {
    if cfg!(debug_assertions) {
        eprintln!("a debug build: its figures mean nothing");
    }
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let mut next = |default: u64| arguments.next().unwrap_or(default);
    let mut run = Run { records: next(200_000), value_bytes: next(1000) as usize, seed: next(42), hash: None };
    println!("{} records of {} bytes, seed {}", run.records, run.value_bytes, run.seed);
    let options = StorageOptions { block_cache_bytes: CACHE_BYTES, ..StorageOptions::default() };
    bare(&mut run);
    engine(&mut run, EngineKind::Lsm, options.clone(), "lsm");
    engine(&mut run, EngineKind::Memory, options, "memory");
    row_cache(&mut run);
    println!("hash {:016x}", run.hash.unwrap());
}
