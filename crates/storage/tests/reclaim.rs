//! The room of removed rows comes back where it is asked for, also of a tree that nothing is written to.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use storage::{Engine, EngineKind, Room, SharedResources, Slice, Span, StorageOptions, WriteBatch};
use vocab::Prng;

const ROWS: u64 = 4000;
const LARGE_ROWS: u64 = 200;

fn open(folder: &Path) -> Arc<dyn Engine> {
    let options = StorageOptions { table_bytes: 64 << 10, separation_bytes: 1000, ..StorageOptions::default() };
    storage::open_engine(EngineKind::Lsm, folder, &SharedResources::new(options)).unwrap()
}

fn key(i: u64) -> Slice {
    Slice::from(format!("k{i:06}").as_bytes())
}

fn flush(engine: &dyn Engine) {
    engine.seal(Vec::new());
    engine.flush().unwrap();
}

fn remove(engine: &dyn Engine, index: u64, rows: impl Iterator<Item = u64>) {
    let writes = rows.map(|i| (key(i), None)).collect();
    engine.apply(index, WriteBatch { writes, ..WriteBatch::default() });
}

fn count(engine: &dyn Engine) -> u64 {
    let all = Span { start: b"k".to_vec(), end: Vec::new() };
    engine.snapshot().iter(all, false).count() as u64
}

/// What is removed is in memory, then in files, and stays there until it is asked for.
fn reclaim(engine: &dyn Engine) {
    assert!(engine.reclaim(), "what is in memory is to be flushed first");
    flush(engine);
    let waiting = engine.stats();
    assert!(!engine.compact().unwrap(), "removals are few bytes");
    assert_eq!(engine.stats().disk_bytes, waiting.disk_bytes);
    assert!(!engine.reclaim());
    assert!(engine.compact().unwrap());
    assert_eq!(engine.stats().removed_bytes, 0);
}

#[test]
fn removed_rows_give_their_room_back_when_it_is_asked_for() {
    // In the levels, and kept out of them.
    for value_bytes in [150, 1500] {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(folder.path());
        let row = |i| {
            let mut value = vec![0; value_bytes];
            Prng::new(i).fill(&mut value);
            (key(i), Some(Slice::from(value)))
        };
        engine.apply(1, WriteBatch { writes: (0..ROWS).map(row).collect(), ..WriteBatch::default() });
        flush(&*engine);
        while engine.compact().unwrap() {}
        let full = engine.stats().disk_bytes;
        assert_eq!(engine.stats().removed_bytes, 0);
        remove(&*engine, 2, (0..ROWS).step_by(2));
        let removed = engine.stats().removed_bytes;
        assert!(removed > full / 10 * 4 && removed < full / 10 * 6, "{removed} of {full} bytes");
        reclaim(&*engine);
        let left = engine.stats().disk_bytes;
        assert!(left < full / 10 * 6, "{left} of {full} bytes are left of half of the rows");
        assert_eq!(count(&*engine), ROWS / 2);
        remove(&*engine, 3, (1..ROWS).step_by(2));
        reclaim(&*engine);
        let left = engine.stats().disk_bytes;
        assert!(left < full / 20, "{left} of {full} bytes are left of no rows");
        assert_eq!(count(&*engine), 0);
        engine.verify().unwrap();
    }
}

/// Writes the same keys anew with large values, and brings them into files.
fn write_large(engine: &dyn Engine, index: u64, rows: impl Iterator<Item = u64>) {
    let row = |i: u64| {
        let mut value = vec![0; 64 << 10];
        Prng::new(index * 1000 + i).fill(&mut value);
        (key(i), Some(Slice::from(value)))
    };
    engine.apply(index, WriteBatch { writes: rows.map(row).collect(), ..WriteBatch::default() });
    flush(engine);
}

/// A tree of `LARGE_ROWS` large values, compacted, and what it shares with others.
fn of_large_values(folder: &Path) -> (Arc<dyn Engine>, Arc<SharedResources>) {
    let options = StorageOptions { table_bytes: 1 << 20, separation_bytes: 1000, ..StorageOptions::default() };
    let shared = SharedResources::new(options);
    let engine = storage::open_engine(EngineKind::Lsm, folder, &shared).unwrap();
    write_large(&*engine, 1, 0..LARGE_ROWS);
    while engine.compact().unwrap() {}
    (engine, shared)
}

#[test]
fn large_values_that_are_removed_or_replaced_give_their_room_back_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, shared) = of_large_values(folder.path());
    let full = engine.stats().disk_bytes;
    assert!(!engine.wants_flush());
    remove(&*engine, 2, (0..LARGE_ROWS).step_by(2));
    assert!(engine.wants_flush(), "few bytes of removals hide much");
    flush(&*engine);
    assert!(!engine.wants_flush());
    // What is left of the files has to be moved first.
    shared.set_room(Room { spare_bytes: full / 4, ..Room::default() });
    let before = engine.stats().disk_bytes;
    assert!(!engine.compact().unwrap());
    assert_eq!(engine.stats().disk_bytes, before);
    shared.set_room(Room { spare_bytes: full, ..Room::default() });
    while engine.compact().unwrap() {}
    let left = engine.stats().disk_bytes;
    assert!(left < full / 10 * 6, "{left} of {full} bytes are left of half of the values");
    assert_eq!(count(&*engine), LARGE_ROWS / 2);
    // As many again, a few times: ordinary compaction finds out, and what is left of the old ones is less than the new ones are.
    for index in 3..=14 {
        write_large(&*engine, index, (1..LARGE_ROWS).step_by(2));
        while engine.compact().unwrap() {}
        // In the first level there are no more than a compaction begins with.
        let (now, written) = (engine.stats().disk_bytes, full / 2);
        assert!(now < 5 * written, "{now} bytes, of values of {written}");
    }
    assert_eq!(count(&*engine), LARGE_ROWS / 2);
    engine.verify().unwrap();
}

/// What removals hide is taken to be rows of the mean size. Where they hide small ones, that is noticed.
#[test]
fn small_rows_beside_large_values_come_and_go_without_a_rewrite_each_time() {
    const ROUNDS: u64 = 50;
    let folder = tempfile::tempdir().unwrap();
    let (engine, _) = of_large_values(folder.path());
    let full = engine.stats().disk_bytes;
    let small = |present: bool| {
        let row = |i: u64| (key(1000 + i), present.then(|| Slice::from(&b"v"[..])));
        WriteBatch { writes: (0..300).map(row).collect(), ..WriteBatch::default() }
    };
    let mut flushes = 0;
    for round in 1..=ROUNDS {
        engine.apply(2 * round, small(true));
        // As another shard's flush or a restart would.
        if round == 1 || flushes > 0 {
            flush(&*engine);
        }
        engine.apply(2 * round + 1, small(false));
        if engine.wants_flush() {
            flushes += 1;
            flush(&*engine);
            while engine.compact().unwrap() {}
        }
    }
    assert!((1..=3).contains(&flushes), "{flushes} flushes in {ROUNDS} rounds of few bytes");
    // Large ones are noticed as before once there is more to be flushed.
    remove(&*engine, 2 * ROUNDS + 2, 0..150);
    flush(&*engine);
    while engine.compact().unwrap() {}
    assert!(engine.stats().disk_bytes < full / 10 * 6, "{} of {full} bytes", engine.stats().disk_bytes);
    engine.verify().unwrap();
}

/// As locks and queue items are: at each flush some are there, which are gone a moment later, and there is much traffic.
#[test]
fn small_rows_that_are_always_some_do_not_have_the_tree_rewritten_again_and_again() {
    const ROUNDS: u64 = 200;
    let folder = tempfile::tempdir().unwrap();
    let (engine, _) = of_large_values(folder.path());
    let mut flushes = 0;
    for round in 0..ROUNDS {
        let (come, go) = if round % 2 == 0 { (1000, 2000) } else { (2000, 1000) };
        let mut writes: Vec<_> = (0..300).map(|i| (key(come + i), Some(Slice::from(&b"v"[..])))).collect();
        writes.extend((0..300).filter(|_| round > 0).map(|i| (key(go + i), None)));
        engine.apply(2 + round, WriteBatch { writes, ..WriteBatch::default() });
        if round == 0 || engine.wants_flush() {
            flushes += u64::from(round > 0);
            flush(&*engine);
            while engine.compact().unwrap() {}
        }
    }
    assert!((1..=3).contains(&flushes), "{flushes} flushes in {ROUNDS} rounds");
    engine.verify().unwrap();
}
