//! One thread applies, seals, clears and installs; one flushes and compacts; others read. Entries are seen whole, in order, and
//! at once.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::{Engine, EngineKind, SharedResources, Slice, Snapshot, Span, StorageOptions, WriteBatch};
use vocab::Prng;

const KEYS: u64 = 8;
const ENTRIES: u64 = 4000;

fn key(i: u64) -> Vec<u8> {
    format!("key{i}").into_bytes()
}

/// Every key has the index of the entry as its value (and more, of a length that varies).
fn batch(index: u64, prng: &mut Prng) -> WriteBatch {
    let value = |length: u64| [&index.to_le_bytes()[..], &vec![0; length as usize]].concat();
    let write = |i| (Slice::from(key(i)), Some(Slice::from(value(prng.below(700)))));
    WriteBatch { writes: (0..KEYS).map(write).collect(), ..WriteBatch::default() }
}

fn index_of(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

/// All keys are of one entry, which is the snapshot's, or it was taken after a clear.
fn check_snapshot(snapshot: &dyn Snapshot, prng: &mut Prng) {
    let reverse = prng.below(2) == 0;
    let rows: Vec<_> = snapshot
        .iter(Span { start: vec![], end: vec![] }, reverse)
        .map(|row| index_of(&row.unwrap().1))
        .chain((0..KEYS).filter_map(|i| snapshot.get(&key(i)).unwrap()).map(|value| index_of(&value)))
        .collect();
    assert!(rows.is_empty() || rows.len() as u64 == 2 * KEYS, "{} rows at {}", rows.len(), snapshot.index());
    assert!(rows.iter().all(|&index| index == snapshot.index()), "{rows:?} at {}", snapshot.index());
}

fn read(engine: &dyn Engine, seed: u64, stop: &AtomicBool) {
    let mut prng = Prng::new(seed);
    let mut newest = 0;
    while !stop.load(Ordering::Relaxed) {
        let before = engine.applied_index();
        assert!(before >= newest, "the applied index went back");
        if let Some(value) = engine.get(&key(prng.below(KEYS))).unwrap() {
            let index = index_of(&value);
            assert!(index >= before && index <= engine.applied_index(), "read {index} after {before} was applied");
            newest = newest.max(index);
        }
        if prng.below(8) == 0 {
            check_snapshot(&*engine.snapshot(), &mut prng);
        }
    }
}

fn write(engine: &dyn Engine) {
    let mut prng = Prng::new(1);
    let mut index = 0;
    while index < ENTRIES {
        index += 1;
        match prng.below(400) {
            0 => engine.clear(index, vec![], vec![]).unwrap(),
            1 => {
                let mut ingest = engine.ingest().unwrap();
                for (key, value) in batch(index, &mut prng).writes {
                    ingest.put(key, value.unwrap()).unwrap();
                }
                engine.install(ingest.finish(index, vec![]).unwrap()).unwrap();
            }
            2..20 => {
                engine.apply(index, batch(index, &mut prng));
                engine.seal(vec![]);
            }
            _ => engine.apply(index, batch(index, &mut prng)),
        }
    }
}

#[test]
fn entries_are_seen_whole_and_in_order() {
    for kind in [EngineKind::Lsm, EngineKind::Memory] {
        let folder = tempfile::tempdir().unwrap();
        let shared = SharedResources::new(StorageOptions {
            separation_bytes: 500,
            table_bytes: 4096,
            block_cache_bytes: 64 * 1024,
            ..StorageOptions::default()
        });
        let engine: Arc<dyn Engine> = storage::open_engine(kind, folder.path(), &shared).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (engine, stop) = (&*engine, &stop);
            for seed in 0..2 {
                scope.spawn(move || read(engine, seed, stop));
            }
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    engine.flush().unwrap();
                }
            });
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    engine.compact().unwrap();
                }
            });
            write(engine);
            stop.store(true, Ordering::Relaxed);
        });
        engine.seal(vec![]);
        engine.flush().unwrap();
        assert_eq!(engine.flushed_index(), ENTRIES);
        check_snapshot(&*engine.snapshot(), &mut Prng::new(1));
        engine.verify().unwrap();
    }
}

#[test]
fn a_stop_ends_a_compaction_that_waits_for_its_rate() {
    let folder = tempfile::tempdir().unwrap();
    let options = StorageOptions { rate_limit_bytes_per_s: 1, separation_bytes: 0, ..StorageOptions::default() };
    let shared = SharedResources::new(options.clone());
    let engine = storage::open_engine(EngineKind::Lsm, folder.path(), &shared).unwrap();
    for index in 1..=5 {
        let value = |i: u64| vec![i as u8; 1000];
        let writes = (0..400).map(|i| (Slice::from(key(i)), Some(Slice::from(value(i + index))))).collect();
        engine.apply(index, WriteBatch { writes, ..WriteBatch::default() });
        engine.seal(vec![]);
        engine.flush().unwrap();
    }
    std::thread::scope(|scope| {
        // Whether it is waiting by then or has not begun, it ends.
        let compaction = scope.spawn(|| engine.compact().unwrap());
        shared.stop();
        assert!(!compaction.join().unwrap());
    });
    assert_eq!(engine.stats().l0_runs, 5);
    engine.seal(vec![]);
    engine.flush().unwrap();
    drop(engine);
    let shared = SharedResources::new(StorageOptions { rate_limit_bytes_per_s: 0, ..options });
    let engine = storage::open_engine(EngineKind::Lsm, folder.path(), &shared).unwrap();
    while engine.compact().unwrap() {}
    assert_eq!((engine.stats().l0_runs, engine.get(&key(7)).unwrap().unwrap()[0]), (0, 12));
    engine.verify().unwrap();
}
