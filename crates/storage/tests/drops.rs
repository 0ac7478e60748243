//! Dropped prefixes: the room of their rows comes back, and what is kept of them goes.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use storage::{Engine, EngineKind, Error, Room, SharedResources, Slice, Span, StorageOptions, WriteBatch};
use vocab::Prng;

const ROWS: u64 = 2000;

fn resources() -> Arc<SharedResources> {
    let options = StorageOptions { table_bytes: 64 << 10, separation_bytes: 1000, ..StorageOptions::default() };
    SharedResources::new(options)
}

fn open(kind: EngineKind, folder: &Path) -> Arc<dyn Engine> {
    storage::open_engine(kind, folder, &resources()).unwrap()
}

fn row(collection: u64, i: u64) -> (Slice, Option<Slice>) {
    let mut value = vec![0; if i.is_multiple_of(10) { 1500 } else { 150 }];
    Prng::new(i).fill(&mut value);
    (Slice::from(format!("c{collection:02}/{i:06}").as_bytes()), Some(Slice::from(value)))
}

fn fill(engine: &dyn Engine, index: u64, collection: u64, rows: u64) {
    let writes = (0..rows).map(|i| row(collection, i)).collect();
    engine.apply(index, WriteBatch { writes, ..WriteBatch::default() });
}

fn drop_collections(engine: &dyn Engine, index: u64, collections: impl Iterator<Item = u64>) {
    let drops = collections.map(|collection| Slice::from(format!("c{collection:02}/").as_bytes())).collect();
    engine.apply(index, WriteBatch { drops, ..WriteBatch::default() });
}

fn settle(engine: &dyn Engine) {
    engine.seal(Vec::new());
    engine.flush().unwrap();
    while engine.compact().unwrap() {}
    while engine.purge().unwrap() {}
    while engine.compact().unwrap() {}
}

fn count(engine: &dyn Engine, start: &str) -> usize {
    let span = Span { start: start.as_bytes().to_vec(), end: Vec::new() };
    engine.snapshot().iter(span.clone(), false).count() + engine.snapshot().iter(span, true).count()
}

/// Brings 20 collections into files, and drops all but two. Answers how many bytes all of them take.
fn drop_eighteen_of_twenty(engine: &dyn Engine) -> u64 {
    for collection in 0..20 {
        fill(engine, collection + 1, collection, ROWS);
        engine.seal(Vec::new());
        engine.flush().unwrap();
    }
    settle(engine);
    let full = engine.stats().disk_bytes;
    drop_collections(engine, 21, 1..19);
    full
}

#[test]
fn the_disk_shrinks_after_a_drop() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(EngineKind::Lsm, folder.path());
    let full = drop_eighteen_of_twenty(&*engine);
    assert_eq!(count(&*engine, "c"), 2 * 2 * ROWS as usize);
    settle(&*engine);
    let left = engine.stats().disk_bytes;
    assert!(left < full / 5, "{left} of {full} bytes are left of 2 of 20 collections");
    assert_eq!(engine.stats().unwanted_bytes, 0);
    assert_eq!(count(&*engine, "c"), 2 * 2 * ROWS as usize);
    // The records of the drops go with the next flush, and a start finds none.
    engine.apply(22, WriteBatch { writes: vec![row(0, 0)], ..WriteBatch::default() });
    settle(&*engine);
    drop(engine);
    let engine = open(EngineKind::Lsm, folder.path());
    assert!(!engine.purge().unwrap());
    assert_eq!((engine.stats().unwanted_bytes, count(&*engine, "c")), (0, 2 * 2 * ROWS as usize));
    engine.verify().unwrap();
}

#[test]
fn on_a_full_device_what_frees_room_without_taking_any_goes_first() {
    let (folder, shared) = (tempfile::tempdir().unwrap(), resources());
    let engine = storage::open_engine(EngineKind::Lsm, folder.path(), &shared).unwrap();
    let full = drop_eighteen_of_twenty(&*engine);
    shared.set_room(Room { spare_bytes: 0, is_short: true, is_exhausted: false });
    settle(&*engine);
    let cut = engine.stats().disk_bytes;
    assert!(cut < full / 4 * 3 && engine.stats().unwanted_bytes > 0, "{cut} of {full} bytes");
    assert_eq!(count(&*engine, "c"), 2 * 2 * ROWS as usize);
    // A rewrite that has begun ends when no room is left, and tells: nothing is lost, and it begins again.
    shared.set_room(Room { spare_bytes: full, is_short: false, is_exhausted: true });
    assert!(matches!(engine.purge(), Err(Error::Full { .. })));
    shared.set_room(Room { spare_bytes: full, is_short: false, is_exhausted: false });
    settle(&*engine);
    let left = engine.stats().disk_bytes;
    assert!(left < cut, "{left} of {cut} bytes");
    assert_eq!(count(&*engine, "c"), 2 * 2 * ROWS as usize);
    engine.verify().unwrap();
}

#[test]
fn a_small_drop_waits_for_compaction_and_survives_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(EngineKind::Lsm, folder.path());
    for collection in 0..10 {
        fill(&*engine, collection + 1, collection, if collection == 5 { 20 } else { ROWS });
    }
    settle(&*engine);
    drop_collections(&*engine, 11, 5..6);
    settle(&*engine);
    let rows = 2 * 9 * ROWS as usize;
    assert!(engine.stats().unwanted_bytes > 0, "one collection of 20 rows is no reason to rewrite a level");
    assert_eq!(count(&*engine, "c"), rows);
    drop(engine);
    let engine = open(EngineKind::Lsm, folder.path());
    assert_eq!((count(&*engine, "c"), engine.get(b"c05/000003").unwrap()), (rows, None));
    engine.purge().unwrap();
    assert!(engine.stats().unwanted_bytes > 0);
    engine.verify().unwrap();
}

#[test]
fn a_snapshot_sees_what_is_dropped_after_it() {
    for kind in [EngineKind::Lsm, EngineKind::Memory] {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(kind, folder.path());
        (0..5).for_each(|collection| fill(&*engine, collection + 1, collection, ROWS));
        settle(&*engine);
        let before = engine.snapshot();
        drop_collections(&*engine, 6, 1..4);
        let after = engine.snapshot();
        settle(&*engine);
        let all = || Span { start: Vec::new(), end: Vec::new() };
        for reverse in [false, true] {
            assert_eq!(before.iter(all(), reverse).count(), 5 * ROWS as usize, "{kind:?}");
            assert_eq!(after.iter(all(), reverse).count(), 2 * ROWS as usize, "{kind:?}");
        }
        assert!(before.get(b"c02/000007").unwrap().is_some() && after.get(b"c02/000007").unwrap().is_none());
        drop((before, after));
        assert!(!engine.purge().unwrap(), "{kind:?}");
        assert_eq!(count(&*engine, "c"), 2 * 2 * ROWS as usize, "{kind:?}");
    }
}

#[test]
fn the_files_of_cut_tables_go_with_their_last_reader() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(EngineKind::Lsm, folder.path());
    for collection in 0..8 {
        fill(&*engine, collection + 1, collection, ROWS);
        engine.seal(Vec::new());
        engine.flush().unwrap();
    }
    settle(&*engine);
    drop_collections(&*engine, 9, 4..5);
    engine.seal(Vec::new());
    engine.flush().unwrap();
    while engine.compact().unwrap() {}
    let files = || std::fs::read_dir(folder.path().join("tree-1/tables")).unwrap().count();
    let tables = || engine.stats().level_tables.iter().sum::<usize>();
    let (before, all) = (engine.snapshot(), tables());
    assert_eq!(files(), all);
    // Nothing is flushed or compacted any more.
    while engine.purge().unwrap() {}
    assert!(tables() < all && files() == all, "{} tables of {all}, {} files", tables(), files());
    assert_eq!(before.iter(Span { start: b"c".to_vec(), end: Vec::new() }, false).count(), 7 * ROWS as usize);
    drop(before);
    assert_eq!(files(), tables());
    engine.verify().unwrap();
}

#[test]
fn a_fork_has_dropped_what_its_parent_has() {
    for kind in [EngineKind::Lsm, EngineKind::Memory] {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let engine = open(kind, folder.path());
        (0..3).for_each(|collection| fill(&*engine, collection + 1, collection, 100));
        drop_collections(&*engine, 4, 1..2);
        engine.seal(Vec::new());
        let keep: storage::Keep = Arc::new(|_: &[u8]| true);
        let child = engine.fork(&other.path().join("child"), 5, Vec::new(), &keep).unwrap();
        assert_eq!((count(&*child, "c"), child.get(b"c01/000001").unwrap()), (400, None), "{kind:?}");
    }
}

#[test]
fn removals_that_walks_pass_over_are_compacted_away() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(EngineKind::Lsm, folder.path());
    let removed = |i: u64| if i.is_multiple_of(100) { row(0, i) } else { (row(0, i).0, None) };
    fill(&*engine, 1, 0, 10 * ROWS);
    settle(&*engine);
    engine.apply(2, WriteBatch { writes: (0..10 * ROWS).map(removed).collect(), ..WriteBatch::default() });
    assert!(!engine.wants_flush());
    scans_that_pass_few_removals_end_early(&*engine);
    // More is passed over than rewriting costs.
    let walks = (0..1000).find(|_| {
        assert_eq!(count(&*engine, "c"), 2 * ROWS as usize / 10);
        engine.wants_flush()
    });
    assert!(walks.is_some_and(|walks| walks > 3), "{walks:?}");
    engine.seal(Vec::new());
    assert!(!engine.wants_flush());
    engine.flush().unwrap();
    assert!(engine.compact().unwrap() && !engine.compact().unwrap());
    (0..100).for_each(|_| assert_eq!(count(&*engine, "c"), 2 * ROWS as usize / 10));
    assert!(!engine.wants_flush() && !engine.compact().unwrap(), "nothing is passed over any more");
}

/// Of rows of which every 100th is there.
fn scans_that_pass_few_removals_end_early(engine: &dyn Engine) {
    let snapshot = engine.snapshot();
    for reverse in [false, true] {
        let all = Span { start: b"c".to_vec(), end: Vec::new() };
        let rows = |removals| snapshot.iter_passing(removals, all.clone(), reverse).take_while(Result::is_ok).count();
        let found = [rows(98), rows(99 * 5), rows(99 * 5 + 98), rows(99 * 20)];
        assert_eq!(found, if reverse { [0, 5, 5, 20] } else { [1, 6, 6, 21] });
        let mut cursor = snapshot.cursor(all.clone(), reverse);
        cursor.pass_at_most(99);
        assert!(cursor.advance().unwrap().is_some());
        assert!((0..2).any(|_| matches!(cursor.advance(), Err(Error::ManyRemovals))));
    }
}
