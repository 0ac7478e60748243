//! Maps built aside: what a crash leaves at each step, what is refused, what outlives what.
#![allow(clippy::unwrap_used)]

mod folders;

use folders::{copy, files};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::{
    Compression, Engine, EngineKind, Error, Ingest, SharedResources, Slice, Snapshot, Span, StorageOptions, WriteBatch,
};
use tempfile::TempDir;
use vocab::Prng;

const KINDS: [EngineKind; 2] = [EngineKind::Lsm, EngineKind::Memory];

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> StorageOptions {
    StorageOptions { separation_bytes: 600, table_bytes: 16 * 1024, ..StorageOptions::default() }
}

fn open(kind: EngineKind, folder: &Path) -> Arc<dyn Engine> {
    storage::open_engine(kind, folder, &SharedResources::new(options())).unwrap()
}

/// Rows of up to 1,500 bytes, so that some are kept out of the levels.
fn map(seed: u64) -> Map {
    let mut prng = Prng::new(seed);
    let row = |i: u64| {
        let mut value = vec![0; prng.below(1500) as usize];
        prng.fill(&mut value);
        (format!("key{:03}", 3 * i + seed).into_bytes(), value)
    };
    (0..200).map(row).collect()
}

fn apply(engine: &dyn Engine, index: u64, map: &Map) {
    let writes = map.iter().map(|(key, value)| (key[..].into(), Some(value[..].into()))).collect();
    engine.apply(index, WriteBatch { writes, ..WriteBatch::default() });
}

fn put_all(ingest: &mut dyn Ingest, map: &Map) {
    map.iter().for_each(|(key, value)| ingest.put(key[..].into(), value[..].into()).unwrap());
}

fn meta(name: &str) -> Vec<(Slice, Slice)> {
    vec![(name.as_bytes().into(), b"1".into())]
}

fn all() -> Span {
    Span { start: vec![], end: vec![] }
}

fn rows(snapshot: &dyn Snapshot) -> Map {
    snapshot.iter(all(), false).map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

/// An engine with the flushed map of index 7 and the meta record `old`.
fn begin(kind: EngineKind) -> (TempDir, Arc<dyn Engine>) {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(kind, folder.path());
    apply(&*engine, 7, &map(1));
    engine.seal(meta("old"));
    engine.flush().unwrap();
    (folder, engine)
}

/// Exactly the map of `index`: 7 for the old one, 40 for the new one.
fn check(engine: &dyn Engine, index: u64) {
    assert_eq!((engine.applied_index(), engine.flushed_index()), (index, index));
    let wanted = map(if index == 7 { 1 } else { 2 });
    assert!(rows(&*engine.snapshot()) == wanted, "the map of {index} is not whole");
    for (key, value) in &wanted {
        assert!(*engine.get(key).unwrap().unwrap() == value[..]);
    }
    let has = |name: &[u8]| engine.meta(name).unwrap().is_some();
    assert_eq!((has(b"old"), has(b"new")), (index == 7, index == 40));
    engine.verify().unwrap();
}

/// What a crash now would leave: `index` is the one that is found, and nothing of the other map is left on disk.
fn crash(kind: EngineKind, folder: &Path, index: u64) {
    let copied = tempfile::tempdir().unwrap();
    copy(folder, copied.path());
    let engine = open(kind, copied.path());
    check(&*engine, index);
    let mut names: Vec<_> = fs::read_dir(copied.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.retain(|name| name != "generation" && name != "generation.new");
    assert_eq!(names.len(), 1, "left over: {names:?}");
    apply(&*engine, index + 1, &map(3));
    engine.seal(vec![]);
    engine.flush().unwrap();
    assert_eq!(engine.flushed_index(), index + 1);
}

#[test]
fn a_crash_leaves_the_old_map_or_the_new_one() {
    for kind in KINDS {
        let (folder, engine) = begin(kind);
        crash(kind, folder.path(), 7);
        let mut ingest = engine.ingest().unwrap();
        crash(kind, folder.path(), 7);
        put_all(&mut *ingest, &map(2));
        crash(kind, folder.path(), 7);
        let ingested = ingest.finish(40, meta("new")).unwrap();
        assert_eq!(ingested.index(), 40);
        assert!(ingested.disk_bytes() > 100_000);
        crash(kind, folder.path(), 7);
        check(&*engine, 7);
        // The pointer is written under another name first.
        fs::write(folder.path().join("generation.new"), b"basalt lsm").unwrap();
        crash(kind, folder.path(), 7);
        engine.install(ingested).unwrap();
        crash(kind, folder.path(), 40);
        check(&*engine, 40);
        engine.compact().unwrap();
        crash(kind, folder.path(), 40);
        apply(&*engine, 41, &map(1));
        drop(engine);
        check(&*open(kind, folder.path()), 40);
    }
}

#[test]
fn what_is_dropped_leaves_nothing() {
    for kind in KINDS {
        let (folder, engine) = begin(kind);
        let before = files(folder.path());
        let mut ingest = engine.ingest().unwrap();
        put_all(&mut *ingest, &map(2));
        drop(ingest);
        assert_eq!(files(folder.path()), before);
        let mut ingest = engine.ingest().unwrap();
        put_all(&mut *ingest, &map(2));
        let ingested = ingest.finish(40, vec![]).unwrap();
        assert!(files(folder.path()).len() > before.len());
        drop(ingested);
        assert_eq!(files(folder.path()), before);
        check(&*engine, 7);
    }
}

#[test]
fn an_empty_map_and_two_at_once_can_be_installed() {
    for kind in KINDS {
        let (folder, engine) = begin(kind);
        let (mut first, second) = (engine.ingest().unwrap(), engine.ingest().unwrap());
        put_all(&mut *first, &map(2));
        let first = first.finish(40, meta("new")).unwrap();
        engine.install(second.finish(20, vec![]).unwrap()).unwrap();
        assert!(rows(&*engine.snapshot()).is_empty() && engine.applied_index() == 20);
        engine.clear(30, vec![], vec![]).unwrap();
        engine.install(first).unwrap();
        check(&*engine, 40);
        engine.compact().unwrap();
        drop(engine);
        check(&*open(kind, folder.path()), 40);
    }
}

#[test]
fn many_batches_of_rows_may_be_of_a_low_index() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(kind, folder.path());
        let mut ingest = engine.ingest().unwrap();
        put_all(&mut *ingest, &map(2));
        engine.install(ingest.finish(1, vec![]).unwrap()).unwrap();
        assert!(rows(&*engine.snapshot()) == map(2));
        assert!(engine.stats().l0_runs <= 1);
        // What is applied next hides it, and compaction makes one map of both.
        let (removed, written) = (b"key002".to_vec(), b"key005".to_vec());
        let writes = vec![(removed[..].into(), None), (written[..].into(), Some(b"new".into()))];
        engine.apply(2, WriteBatch { writes, ..WriteBatch::default() });
        let mut wanted = map(2);
        wanted.remove(&removed).unwrap();
        wanted.insert(written, b"new".to_vec()).unwrap();
        for _ in 0..5 {
            assert!(rows(&*engine.snapshot()) == wanted);
            engine.seal(vec![]);
            engine.flush().unwrap();
            while engine.compact().unwrap() {}
            engine.apply(engine.applied_index() + 1, WriteBatch::default());
        }
    }
}

#[test]
fn snapshots_outlive_installs_and_engines_and_what_they_read_goes_with_them() {
    for kind in KINDS {
        let (folder, engine) = begin(kind);
        apply(&*engine, 8, &map(3));
        let (old, both) = (engine.snapshot(), rows(&*engine.snapshot()));
        let mut ingest = engine.ingest().unwrap();
        put_all(&mut *ingest, &map(2));
        engine.install(ingest.finish(40, meta("new")).unwrap()).unwrap();
        engine.compact().unwrap();
        let new = engine.snapshot();
        drop(engine);
        // Another engine takes the folder over while what the first one had is read, and built.
        let engine = open(kind, folder.path());
        check(&*engine, 40);
        let mut ingest = engine.ingest().unwrap();
        drop(engine);
        let engine = open(kind, folder.path());
        put_all(&mut *ingest, &map(3));
        engine.install(ingest.finish(50, vec![]).unwrap()).unwrap();
        engine.clear(60, vec![], vec![]).unwrap();
        engine.compact().unwrap();
        assert!(rows(&*old) == both && old.index() == 8);
        assert!(rows(&*new) == map(2) && new.index() == 40);
        drop((old, new));
        let open_files =
            fs::read_dir("/proc/self/fd").unwrap().filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        let removed = open_files.filter(|file| file.starts_with(folder.path()) && !file.exists());
        assert_eq!(removed.collect::<Vec<PathBuf>>(), Vec::<PathBuf>::new(), "they take room while they are open");
        if kind == EngineKind::Lsm {
            let trees = fs::read_dir(folder.path()).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir());
            assert_eq!(trees.count(), 1);
        }
        assert_eq!(open(kind, folder.path()).flushed_index(), 60);
    }
}

#[test]
fn rows_that_no_engine_sends_are_refused() {
    let long = vec![b'k'; 70_000];
    let cases: [(&[&[u8]], &str); 5] = [
        (&[b""], "empty"),
        (&[b"\0applied"], "reserved"),
        (&[&long], "too long"),
        (&[b"b", b"a"], "order"),
        (&[b"b", b"b"], "order"),
    ];
    for kind in KINDS {
        let (_folder, engine) = begin(kind);
        for (keys, word) in cases {
            let mut ingest = engine.ingest().unwrap();
            let refused = keys.iter().try_for_each(|&key| ingest.put(key.into(), b"v".into())).unwrap_err();
            assert!(matches!(&refused, Error::Corrupt { detail, .. } if detail.contains(word)), "{word}: {refused}");
        }
        check(&*engine, 7);
    }
}

#[test]
fn a_stop_ends_an_ingestion_and_harms_nothing() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let shared = SharedResources::new(StorageOptions { rate_limit_bytes_per_s: 1, ..options() });
        let engine = storage::open_engine(kind, folder.path(), &shared).unwrap();
        let mut ingest = engine.ingest().unwrap();
        shared.stop();
        // More than the memory engine writes between two looks at the rate.
        let value = vec![b'v'; 2 * 1024 * 1024];
        let ended = ingest.put(b"k".into(), value.into()).and_then(|()| ingest.finish(9, vec![]).map(drop));
        assert!(matches!(ended, Err(Error::Io { .. })), "{ended:?}");
        assert_eq!(engine.applied_index(), 0);
        apply(&*engine, 1, &map(1));
        engine.install(engine.ingest().unwrap().finish(2, vec![]).unwrap()).unwrap();
    }
}

#[test]
fn replicas_with_the_same_rows_have_the_same_digest() {
    let mut digests = Vec::new();
    for kind in KINDS {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let folder = tempfile::tempdir().unwrap();
            let shared = SharedResources::new(StorageOptions { compression, ..options() });
            let engine = storage::open_engine(kind, folder.path(), &shared).unwrap();
            apply(&*engine, 1, &map(1));
            apply(&*engine, 2, &map(2));
            engine.seal(vec![]);
            engine.flush().unwrap();
            let snapshot = engine.snapshot();
            let part = Span { start: b"key100".to_vec(), end: b"key200".to_vec() };
            digests.push((snapshot.digest(all()).unwrap(), snapshot.digest(part).unwrap()));
        }
    }
    assert!(digests.iter().all(|one| *one == digests[0] && one.0 != one.1), "{digests:x?}");
    let (_folder, engine) = begin(EngineKind::Memory);
    let before = engine.snapshot().digest(all()).unwrap();
    // The same bytes, otherwise cut.
    let digest = |rows: &[(&str, &str)]| {
        engine.clear(engine.applied_index() + 1, vec![], vec![]).unwrap();
        let rows = rows.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
        apply(&*engine, engine.applied_index() + 1, &rows);
        engine.snapshot().digest(all()).unwrap()
    };
    let (cut, other) = (digest(&[("a", "bc")]), digest(&[("ab", "c")]));
    assert!(cut != other && cut != before);
}
