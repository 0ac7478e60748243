//! What the bare `lsm-tree` gives: YCSB's workload C without a store around the tree.
//!
//! `cargo run --release -p basalt-bench --example bare_lsm -- FOLDER [records] [seconds] [warm-up seconds] [threads]`
//!
//! Loads the records that `basalt bench` loads (the same keys; ten fields packed into one value), lets compaction come
//! to its end, and gets records that the same chooser chooses, all of each value copied out. One line of JSON: gets a
//! second, and a hash of the first gets, which is the same in every run of as many records and threads.
//! `cargo xtask perf embedded` runs it against the embedded store.
#![allow(clippy::unwrap_used)]

use bench::workload::{Config as WorkloadConfig, Operation, Properties, Task, Workload, builtin, key_hash};
use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, AnyTree, Cache, Config, SequenceNumberCounter};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// The allocator that the binary has.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What row cache and block cache of a store have together by default: 60 % of 4 GiB.
const CACHE_BYTES: u64 = (4 << 30) / 100 * 60;
const MEMTABLE_BYTES: u64 = 64 << 20;
/// Gets of each thread that make the hash.
const HASHED_GETS: u64 = 10_000;
const SEED: u64 = 42;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = arguments.first().expect("the folder for the tree's files comes first");
    let number = |i: usize, default: u64| arguments.get(i).map_or(default, |text| text.parse().unwrap());
    let (records, seconds, warm_up, threads) = (number(1, 1_000_000), number(2, 10), number(3, 3), number(4, 2));
    if cfg!(debug_assertions) {
        eprintln!("warning: not an optimised build; the figures mean nothing");
    }
    let tree = load(Path::new(folder), records);
    let result = gets(&tree, records, threads, Duration::from_secs(warm_up), Duration::from_secs(seconds));
    println!(
        "{{\"records\":{records},\"threads\":{threads},\"seconds\":{seconds},\"gets\":{},\"gets_per_s\":{:.1},\"hash\":\"{:016x}\"}}",
        result.gets, result.gets_per_s, result.hash
    );
}

fn workload(records: u64, task: Task) -> Arc<Workload> {
    let mut properties = Properties::new();
    properties.add_text(builtin("workloadc").expect("workload C is built in")).unwrap();
    properties.set("recordcount", &records.to_string());
    properties.set("operationcount", "0");
    Arc::new(Workload::plan(WorkloadConfig::read(&properties).unwrap(), task).unwrap())
}

/// A tree with the crate's own settings that holds the records, none of them in memtables.
fn load(folder: &Path, records: u64) -> AnyTree {
    let tree = Config::new(folder, SequenceNumberCounter::default(), SequenceNumberCounter::default())
        .use_cache(Arc::new(Cache::with_capacity_bytes(CACHE_BYTES)))
        .open()
        .unwrap();
    let workload = workload(records, Task::Load);
    let (mut source, mut operation, mut packed) = (workload.source(SEED), Operation::default(), Vec::new());
    let mut seqno = 0;
    while source.next(&mut operation) {
        pack(&workload, &operation, &mut packed);
        let (_, memtable_bytes) = tree.insert(&operation.key[..], &packed[..], seqno);
        seqno += 1;
        if memtable_bytes > MEMTABLE_BYTES {
            flush(&tree);
        }
    }
    flush(&tree);
    // As often as there are levels: nothing is left to do then.
    for _ in 0..8 {
        tree.compact(Arc::new(Leveled::default()), 0).unwrap();
    }
    tree
}

fn flush(tree: &AnyTree) {
    tree.rotate_memtable();
    tree.flush(&tree.get_flush_lock(), 0).unwrap();
    tree.compact(Arc::new(Leveled::default()), 0).unwrap();
}

/// A record as `basalt bench` packs it: names and values, each with its length.
fn pack(workload: &Workload, operation: &Operation, out: &mut Vec<u8>) {
    out.clear();
    let (hash, mut value) = (key_hash(&operation.key), Vec::new());
    for (i, name) in workload.field_names().iter().enumerate() {
        value.clear();
        workload.write_value(operation, hash, i as u32, &mut value);
        out.extend_from_slice(&(name.len() as u16).to_be_bytes());
        out.extend_from_slice(name);
        out.extend_from_slice(&(value.len() as u32).to_be_bytes());
        out.extend_from_slice(&value);
    }
}

struct Outcome {
    gets: u64,
    gets_per_s: f64,
    hash: u64,
}

fn gets(tree: &AnyTree, records: u64, threads: u64, warm_up: Duration, time: Duration) -> Outcome {
    let (workload, barrier) = (workload(records, Task::Run), Barrier::new(threads as usize));
    let (gets, hash) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (workload, barrier, gets, hash) = (&workload, &barrier, &gets, &hash);
            scope.spawn(move || {
                let mut getter = Getter::new(tree, workload, records, SEED + thread);
                let first = (0..HASHED_GETS).fold(0u64, |sum, _| sum.rotate_left(5) ^ getter.get());
                hash.fetch_xor(first.rotate_left(thread as u32), Ordering::Relaxed);
                barrier.wait();
                getter.run_for(warm_up);
                gets.fetch_add(getter.run_for(time), Ordering::Relaxed);
            });
        }
    });
    let gets = gets.into_inner();
    Outcome { gets, gets_per_s: gets as f64 / time.as_secs_f64(), hash: hash.into_inner() }
}

/// One thread's gets.
struct Getter<'a> {
    tree: &'a AnyTree,
    source: bench::workload::Source,
    operation: Operation,
    /// Reads see what was written before it.
    seqno: u64,
    copy: Vec<u8>,
}

impl<'a> Getter<'a> {
    fn new(tree: &'a AnyTree, workload: &Arc<Workload>, records: u64, seed: u64) -> Self {
        let (operation, copy) = (Operation::default(), Vec::new());
        Self { tree, source: workload.source(seed), operation, seqno: records + 1, copy }
    }

    fn get(&mut self) -> u64 {
        assert!(self.source.next(&mut self.operation), "a run has no end of its own");
        let value = self.tree.get(&self.operation.key, self.seqno).unwrap().expect("every record was loaded");
        self.copy.clear();
        self.copy.extend_from_slice(&value);
        let end = self.copy.last_chunk::<8>().expect("a record is longer");
        u64::from_le_bytes(*end) ^ self.copy.len() as u64
    }

    fn run_for(&mut self, time: Duration) -> u64 {
        let (start, mut count, mut sum) = (Instant::now(), 0, 0);
        while start.elapsed() < time {
            for _ in 0..64 {
                sum ^= self.get();
            }
            count += 64;
        }
        std::hint::black_box(sum);
        count
    }
}

#[test]
fn small_runs_read_the_same() {
    let run = || {
        let folder = tempfile::tempdir().unwrap();
        let tree = load(folder.path(), 2_000);
        gets(&tree, 2_000, 2, Duration::ZERO, Duration::from_millis(20))
    };
    let (one, two) = (run(), run());
    assert!(one.gets > 0 && two.gets > 0);
    assert_eq!(one.hash, two.hash);
}
