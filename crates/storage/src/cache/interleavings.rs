//! The row cache before a tree of one row, in orders of execution that Shuttle draws. What is tested is the row cache's own
//! source, compiled with Shuttle's locks and atomics.

#[path = "mod.rs"]
#[allow(clippy::duplicate_mod, dead_code, unused_imports, reason = "a second copy, of which the tests need a part")]
mod cache;

/// Stands for the crate's own module of that name.
mod sync {
    pub(super) use shuttle::sync::{Mutex, MutexGuard, atomic};

    /// Shuttle makes a cache for each order of execution that it tries.
    pub(super) const SMALL: bool = true;
}

use cache::{FillMode, PutMode, RowCache};
use shuttle::thread;
use std::sync::Arc;
use sync::atomic::{AtomicU64, Ordering};

const SHARD: u32 = 0;
const KEY: &[u8] = b"key";
/// Bytes of a value that a segment takes, and of one that it does not.
const SHORT: usize = 8;
const LONG: usize = 2048;
/// Orders of execution that are drawn for each script.
const ORDERS: usize = 1000;
/// Changes of thread at which a mistake shows, at most, when orders are drawn by priorities.
const DEPTH: usize = 3;

/// What the writer tells the cache after it wrote to the tree.
#[derive(Clone, Copy, Debug)]
enum Told {
    Update,
    Allocate,
    Remove,
    Clear,
}

const ALL: [Told; 4] = [Told::Update, Told::Allocate, Told::Remove, Told::Clear];

struct Store {
    cache: RowCache,
    /// The version that the tree holds. Versions only rise.
    tree: AtomicU64,
    /// The newest version that the writer has acknowledged.
    acknowledged: AtomicU64,
    /// Bytes of a value: of a row of a segment, or of one that is too long for that.
    value_bytes: usize,
}

impl Store {
    fn new(value_bytes: usize) -> Self {
        let (tree, acknowledged) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { cache: RowCache::new(1 << 16), tree, acknowledged, value_bytes }
    }

    /// The value of that version.
    fn value(&self, version: u64) -> Vec<u8> {
        let mut value = vec![0; self.value_bytes];
        value[..8].copy_from_slice(&version.to_le_bytes());
        value
    }

    /// Writes as the applying thread does: the tree, the cache, the answer.
    fn write(&self, version: u64, told: Told) {
        self.tree.store(version, Ordering::SeqCst);
        let value = self.value(version).into();
        match told {
            Told::Update => self.cache.put(SHARD, KEY, Some(&value), PutMode::Update),
            Told::Allocate => self.cache.put(SHARD, KEY, Some(&value), PutMode::Allocate),
            Told::Remove => self.cache.put(SHARD, KEY, None, PutMode::Allocate),
            Told::Clear => self.cache.clear_shard(SHARD),
        }
        self.acknowledged.store(version, Ordering::SeqCst);
    }

    /// Reads as a worker does: the cache, else the tree, from which it fills the cache.
    fn read(&self) {
        let least = self.acknowledged.load(Ordering::SeqCst);
        let version = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
        let seen = self.cache.get_with(SHARD, KEY, version).unwrap_or_else(|stamp| {
            let found = self.tree.load(Ordering::SeqCst);
            self.cache.fill(SHARD, KEY, &self.value(found), stamp, FillMode::Always);
            found
        });
        assert!(seen >= least, "read {seen} after {least} was acknowledged");
    }
}

/// One writer with a script, and readers that each read twice, so that a row that one brought in is met by another.
fn run(script: &[Told], readers: usize, value_bytes: usize) {
    let store = Arc::new(Store::new(value_bytes));
    let readers: Vec<_> = (0..readers)
        .map(|_| {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                store.read();
                store.read();
            })
        })
        .collect();
    for (version, told) in (1..).zip(script) {
        store.write(version, *told);
    }
    store.read();
    for reader in readers {
        reader.join().expect("a reader has not failed");
    }
    store.read();
}

#[test]
fn interleavings_of_one_write_and_one_reader_are_tried_one_by_one() {
    for told in ALL {
        shuttle::check_dfs(move || run(&[told], 1, SHORT), Some(20_000));
    }
}

#[test]
fn interleavings_of_two_writes_and_two_readers_never_show_a_value_that_goes_back() {
    for first in ALL {
        for second in ALL {
            shuttle::check_random(move || run(&[first, second], 2, SHORT), ORDERS);
            shuttle::check_pct(move || run(&[first, second], 2, SHORT), ORDERS, DEPTH);
        }
    }
}

#[test]
fn interleavings_with_long_values_never_show_a_value_that_goes_back() {
    for told in ALL {
        // The first two make it known, the third is kept.
        let script = [Told::Allocate, Told::Allocate, told];
        shuttle::check_random(move || run(&script, 2, LONG), ORDERS);
        shuttle::check_pct(move || run(&script, 2, LONG), ORDERS, DEPTH);
    }
}
