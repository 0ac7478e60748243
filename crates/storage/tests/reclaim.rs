//! The room of removed rows comes back where it is asked for, also of a tree that nothing is written to.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use storage::{Engine, EngineKind, SharedResources, Slice, Span, StorageOptions, WriteBatch};
use vocab::Prng;

const ROWS: u64 = 4000;

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
