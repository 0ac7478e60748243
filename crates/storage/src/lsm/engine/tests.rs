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

/// Removes rows with one entry, and flushes.
fn remove_rows(engine: &LsmEngine, index: u64, rows: Range<u64>) {
    let writes = rows.map(|i| (Slice::from(name(i)), None)).collect();
    engine.apply(index, WriteBatch { writes, ..WriteBatch::default() });
    engine.seal(Vec::new());
    engine.flush().unwrap();
}

/// An engine that keeps `value`s out of the levels.
fn open_separating(folder: &Path) -> LsmEngine {
    let options = StorageOptions { table_bytes: 1 << 20, separation_bytes: 1000, ..StorageOptions::default() };
    open(folder, &SharedResources::new(options))
}

#[test]
fn ordinary_compaction_goes_before_the_room_of_values() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open_separating(folder.path());
    let generation = generation_of(&engine);
    seal_rows(&engine, 1, 0..3000);
    engine.flush().unwrap();
    remove_rows(&engine, 2, 0..3000);
    engine.ask_for_values(&generation);
    assert!(generation.wear.take_asked(), "all values are garbage");
    for index in 3..=L0_RUNS_ASKED as u64 {
        seal_rows(&engine, index, 3000 + index..3001 + index);
        engine.flush().unwrap();
    }
    assert_eq!(engine.stats().l0_runs, L0_RUNS_ASKED);
    engine.ask_for_values(&generation);
    assert!(!generation.wear.take_asked(), "the first level goes first");
    assert!(engine.compact().unwrap() && engine.stats().l0_runs < L0_RUNS_ASKED);
    while engine.compact().unwrap() {}
    assert!(engine.stats().disk_bytes < 1 << 20);
}

#[test]
fn a_merge_claims_room_for_the_values_alone_that_it_can_move() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open_separating(folder.path());
    let generation = generation_of(&engine);
    let last = (generation.index().current_version().level_count() - 1) as u8;
    seal_rows(&engine, 1, 0..3000);
    engine.flush().unwrap();
    assert!(engine.merge(&generation, 0, last).unwrap());
    remove_rows(&engine, 2, 0..1500);
    assert!(engine.merge(&generation, 0, last).unwrap());
    let values = generation.value_bytes();
    assert!(generation.stale_level().is_some(), "half of {values} bytes are stale");
    seal_rows(&engine, 3, 4000..4010);
    engine.flush().unwrap();
    let small = generation.merge_bytes(0, last - 1);
    assert!(small < values / 50, "{small} of {values} bytes for a merge of ten rows");
    for from in [0, last] {
        let all = generation.merge_bytes(from, last);
        assert!(all > values / 3 && all < values, "{all} of {values} bytes for all values");
    }
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
