#![allow(clippy::unwrap_used)]

use super::*;
use crate::StorageOptions;
use std::fs;
use std::ops::Range;
use vocab::Prng;

/// Bytes of a value: it does not shrink, and is not kept out of the levels.
const VALUE_BYTES: usize = 2000;

fn open(folder: &Path, shared: &Arc<SharedResources>) -> LsmEngine {
    LsmEngine::open(folder, shared).unwrap()
}

fn name(i: u64) -> Vec<u8> {
    format!("key{i:04}").into_bytes()
}

fn value(i: u64) -> Vec<u8> {
    let mut value = vec![0; VALUE_BYTES];
    Prng::new(i).fill(&mut value);
    value
}

/// Writes rows with one entry, and seals them.
fn seal_rows(engine: &LsmEngine, index: u64, rows: Range<u64>) {
    let writes = rows.map(|i| (Slice::from(name(i)), Some(Slice::from(value(i))))).collect();
    engine.apply(index, WriteBatch { writes, ..WriteBatch::default() });
    engine.seal(Vec::new());
}

fn generation_of(engine: &LsmEngine) -> Arc<Generation> {
    engine.view.load().generation.clone()
}

/// A purge is to rewrite all tables that there are.
fn leave_all_to_purge(engine: &LsmEngine) {
    engine.keep_only(Arc::new(|_: &[u8]| true));
    generation_of(engine).mark_unwanted(Some(unwanted::EVERYTHING)).unwrap();
}

#[test]
fn a_first_level_never_has_more_runs_than_a_manifest_can_count() {
    let folder = tempfile::tempdir().unwrap();
    // At this rate a compaction that heeds it does not end.
    let options = StorageOptions { rate_limit_bytes_per_s: 1, ..StorageOptions::default() };
    let (shared, full) = (SharedResources::new(options), L0_RUNS_FULL as u64);
    let engine = open(folder.path(), &shared);
    let generation = generation_of(&engine);
    let compaction = generation.compacting.lock().unwrap();
    for index in 1..=full {
        seal_rows(&engine, index, index..index + 1);
        engine.flush().unwrap();
    }
    seal_rows(&engine, full + 1, full + 1..full + 2);
    // What the other thread compacts is urgent now, and until it has ended there is no room.
    for _ in 0..2 {
        let error = engine.flush().unwrap_err();
        assert!(error.is_passing() && error.is_busy() && !error.is_interrupted(), "{error}");
    }
    assert!(generation.pace.urgent.load(Ordering::Relaxed));
    assert_eq!((engine.stats().l0_runs, engine.flushed_index(), engine.needs_flush()), (L0_RUNS_FULL, full, true));
    drop(compaction);
    drop((engine, generation));
    let engine = open(folder.path(), &shared);
    assert_eq!((engine.stats().l0_runs, engine.flushed_index()), (L0_RUNS_FULL, full));
    seal_rows(&engine, full + 1, full + 1..full + 2);
    engine.flush().unwrap();
    assert_eq!((engine.stats().l0_runs, engine.flushed_index()), (1, full + 1));
    assert!(!generation_of(&engine).pace.urgent.load(Ordering::Relaxed));
    assert!((1..=full + 1).all(|i| engine.get(&name(i)).unwrap().unwrap() == value(i)));
    engine.verify().unwrap();
}

#[test]
fn a_rewrite_that_was_asked_for_hurries_before_writers_are_held_up() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), &SharedResources::new(StorageOptions::default()));
    let generation = generation_of(&engine);
    let is_urgent = || generation.pace.urgent.load(Ordering::Relaxed);
    let last = L0_RUNS_ASKED as u64 + 1;
    for index in 1..=last {
        seal_rows(&engine, index, index..index + 1);
        engine.flush().unwrap();
    }
    assert!(!is_urgent());
    generation.pace.asked.store(true, Ordering::Relaxed);
    seal_rows(&engine, last + 1, 0..1);
    engine.flush().unwrap();
    assert!(is_urgent() && engine.debt() < 1.0);
    generation.wear.ask();
    assert!(engine.compact().unwrap());
    assert!(!is_urgent() && !generation.pace.asked.load(Ordering::Relaxed));
    // A purge is not urgent for what was so before it.
    generation.pace.urgent.store(true, Ordering::Relaxed);
    leave_all_to_purge(&engine);
    assert!(engine.purge().unwrap() && !is_urgent());
}

#[test]
fn damage_that_no_file_has_is_not_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), &SharedResources::new(StorageOptions::default()));
    seal_rows(&engine, 1, 0..10);
    engine.flush().unwrap();
    let generation = generation_of(&engine);
    let failed = engine.write_files(&generation, || Err(lsm_tree::Error::Unrecoverable));
    assert!(matches!(failed, Err(Error::Corrupt { .. })));
    assert!(generation.gives_back());
    while engine.compact().unwrap() {}
}

#[test]
fn a_damaged_file_is_looked_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), &SharedResources::new(StorageOptions::default()));
    for index in 1..=u64::from(L0_TABLES) {
        seal_rows(&engine, index, 0..10);
        engine.flush().unwrap();
    }
    let version = generation_of(&engine).index().current_version();
    let table = version.iter_tables().next().unwrap().path.to_path_buf();
    let whole = fs::read(&table).unwrap();
    let mut flipped = whole.clone();
    flipped[VALUE_BYTES / 2] ^= 1;
    fs::write(&table, flipped).unwrap();
    let is_known = |result: Result<bool>| matches!(result, Err(Error::Corrupt { path, .. }) if path == table);
    assert!(is_known(engine.compact()));
    // What looked again would find nothing.
    fs::write(&table, whole).unwrap();
    engine.verify().unwrap();
    assert!(is_known(engine.compact()));
    assert!(engine.stats().keeps_removed && engine.stats().removed_bytes == 0);
    leave_all_to_purge(&engine);
    assert!(is_known(engine.purge()));
    let index = u64::from(L0_TABLES) + 1;
    seal_rows(&engine, index, 0..10);
    engine.flush().unwrap();
    // Another tree has no damage.
    engine.clear(index + 1, Vec::new(), Vec::new()).unwrap();
    while engine.compact().unwrap() {}
    assert!(!engine.purge().unwrap());
}

#[test]
fn a_rewrite_ends_when_its_tree_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let shared = SharedResources::new(StorageOptions::default());
    // At this rate a purge that heeds it does not end.
    shared.set_purge_rate(1);
    let engine = open(folder.path(), &shared);
    seal_rows(&engine, 1, 0..400);
    engine.flush().unwrap();
    leave_all_to_purge(&engine);
    let old = generation_of(&engine);
    std::thread::scope(|scope| {
        let purge = scope.spawn(|| engine.purge().unwrap());
        while !old.pace.purging.load(Ordering::Relaxed) && !purge.is_finished() {
            std::thread::yield_now();
        }
        engine.clear(2, Vec::new(), Vec::new()).unwrap();
        assert!(!purge.join().unwrap());
    });
    assert!(old.unwanted().is_some(), "it was not purged to the end");
    assert!(!engine.is_ending(&generation_of(&engine)));
}
