//! An entry that cannot be applied for want of room, descriptors or memory is applied when there is some.
#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "the driver serves other tests, too")]

mod driver;

use driver::{Driver, read};
use node::{EncodedCommand, Write};
use replica::{DiskHealth, DiskState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use storage::{
    Engine, EngineKind, EngineStats, Error, Ingest, Ingested, NotInstalled, Result, SharedResources, Slice, Snapshot,
    StorageOptions, WriteBatch, open_engine,
};

/// A tree whose first clears, and look-ups of a key with a b in it, fail.
struct Lacking {
    tree: Arc<dyn Engine>,
    clears: AtomicU32,
    gets: AtomicU32,
    error: fn() -> Error,
}

impl Lacking {
    fn fails(&self, left: &AtomicU32) -> Result<()> {
        let failed = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if failed.is_ok() { Err((self.error)()) } else { Ok(()) }
    }
}

impl Engine for Lacking {
    fn apply(&self, index: u64, batch: WriteBatch) {
        self.tree.apply(index, batch);
    }
    fn applied_index(&self) -> u64 {
        self.tree.applied_index()
    }
    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        if key.contains(&b'b') {
            self.fails(&self.gets)?;
        }
        self.tree.get(key)
    }
    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.tree.snapshot()
    }
    fn flushed_index(&self) -> u64 {
        self.tree.flushed_index()
    }
    fn wants_flush(&self) -> bool {
        self.tree.wants_flush()
    }
    fn seal(&self, meta: Vec<(Slice, Slice)>) {
        self.tree.seal(meta);
    }
    fn needs_flush(&self) -> bool {
        self.tree.needs_flush()
    }
    fn flush(&self) -> Result<()> {
        self.tree.flush()
    }
    fn meta(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.tree.meta(key)
    }
    fn compact(&self) -> Result<bool> {
        self.tree.compact()
    }
    fn debt(&self) -> f64 {
        self.tree.debt()
    }
    fn clear(&self, index: u64, meta: Vec<(Slice, Slice)>, rows: Vec<(Slice, Slice)>) -> Result<()> {
        self.fails(&self.clears)?;
        self.tree.clear(index, meta, rows)
    }
    fn ingest(&self) -> Result<Box<dyn Ingest>> {
        self.tree.ingest()
    }
    fn install(&self, ingested: Box<dyn Ingested>) -> std::result::Result<(), NotInstalled> {
        self.tree.install(ingested)
    }
    fn stats(&self) -> EngineStats {
        self.tree.stats()
    }
    fn verify(&self) -> Result<()> {
        self.tree.verify()
    }
}

/// EMFILE.
fn short() -> Error {
    Error::Io { path: PathBuf::from("tree"), source: std::io::Error::from_raw_os_error(24) }
}

/// EIO.
fn damaged() -> Error {
    Error::Io { path: PathBuf::from("tree"), source: std::io::Error::from_raw_os_error(5) }
}

fn full() -> Error {
    Error::Full { path: PathBuf::from("tree") }
}

#[test]
fn what_cannot_be_applied_for_want_of_something_is_applied_later() {
    for (error, state) in [(full as fn() -> Error, DiskState::Full), (short, DiskState::Short)] {
        let dir = tempfile::tempdir().unwrap();
        let resources = SharedResources::new(StorageOptions::default());
        let tree = open_engine(EngineKind::Memory, &dir.path().join("tree"), &resources).unwrap();
        let tree = Arc::new(Lacking { tree, clears: AtomicU32::new(0), gets: AtomicU32::new(0), error });
        let health = Arc::new(DiskHealth::default());
        health.be_patient();
        let mut driver = Driver::with_tree(dir.path(), tree.clone(), 0, health.clone());
        let command = |words: &[&[u8]]| Write::Command(EncodedCommand::new(words));
        driver.submit(&command(&[b"SET", b"a", b"1"]), &["a"]);
        driver.run();
        for write in [Write::Clear, command(&[b"INCR", b"b"])] {
            let left = if matches!(write, Write::Clear) { &tree.clears } else { &tree.gets };
            left.store(2, Ordering::Relaxed);
            driver.submit(&write, &["b"]);
            let before = driver.answers();
            for _ in 0..2 {
                (0..5).for_each(|_| _ = driver.turn());
                assert_eq!((health.state(), driver.answers()), (state, before));
                health.set_room();
                health.set_supplied();
            }
            driver.run();
            assert_eq!(driver.answers(), before + 1);
        }
        assert_eq!((read(&driver, "a"), driver.key_count()), (None, 1));
    }
}

#[test]
fn a_shard_that_breaks_holds_what_was_applied_before() {
    let dir = tempfile::tempdir().unwrap();
    let resources = SharedResources::new(StorageOptions::default());
    let tree = |folder: &str| open_engine(EngineKind::Memory, &dir.path().join(folder), &resources).unwrap();
    let health = Arc::new(DiskHealth::default());
    health.be_patient();
    let mut driver = Driver::with_tree(dir.path(), tree("first"), 0, health.clone());
    for key in ["a", "b", "c"] {
        driver.submit(&Write::Command(EncodedCommand::new(&[b"INCR", key.as_bytes()])), &[key]);
        driver.run();
    }
    drop(driver);
    // Its tree is lost, so that all entries come at once.
    let lacking = Lacking { tree: tree("second"), clears: AtomicU32::new(0), gets: AtomicU32::new(1), error: damaged };
    let lacking = Arc::new(lacking);
    let mut driver = Driver::elected(dir.path(), lacking.clone(), 0, health);
    (0..5).for_each(|_| _ = driver.turn());
    assert!(driver.shard.broken().is_some_and(|why| why.contains("cannot be applied")));
    assert_eq!(driver.shard.replica().status().applied, lacking.applied_index());
    assert_eq!(driver.key_count(), 1, "a is there, b and what comes after it are not");
}

#[test]
fn a_client_waits_for_a_confirmed_write_but_not_for_what_its_node_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let resources = SharedResources::new(StorageOptions::default());
    let tree = open_engine(EngineKind::Memory, &dir.path().join("tree"), &resources).unwrap();
    let tree = Arc::new(Lacking { tree, clears: AtomicU32::new(0), gets: AtomicU32::new(0), error: short });
    let health = Arc::new(DiskHealth::default());
    health.be_patient();
    let mut driver = Driver::with_tree(dir.path(), tree.clone(), 0, health);
    let write = Write::Command(EncodedCommand::new(&[b"INCR", b"b"]));
    let before = driver.answers();
    // On a majority, which a group of one is, and behind much that is to be applied first.
    let ticket = driver.submit(&write, &["b"]);
    assert!(driver.commit());
    driver.expire(60_000);
    assert_eq!(driver.answers(), before);
    driver.run();
    assert_eq!(driver.answer(ticket), ":1\r\n");
    // It is short of something, for how long it is not known: what is behind that is told.
    tree.gets.store(2, Ordering::Relaxed);
    driver.submit(&write, &["b"]);
    assert!(driver.commit());
    let ticket = driver.submit(&write, &["b"]);
    (0..5).for_each(|_| _ = driver.turn());
    driver.expire(4_000);
    assert_eq!(driver.answers(), before);
    driver.expire(6_000);
    assert!(driver.answer(ticket).starts_with("-TIMEOUT the write was not confirmed in time"));
}
