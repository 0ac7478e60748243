//! Flips bits in every file of a shard: reads answer rightly or fail naming the file, and never answer wrongly.
#![allow(clippy::unwrap_used)]

mod folders;

use folders::{copy, files};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use storage::{Compression, Engine, EngineKind, Error, SharedResources, Slice, Span, StorageOptions, WriteBatch};
use vocab::Prng;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn shared() -> Arc<SharedResources> {
    SharedResources::new(StorageOptions {
        block_cache_bytes: 1024 * 1024,
        compression: Compression::Lz4,
        separation_bytes: 600,
        table_bytes: 16 * 1024,
        ..StorageOptions::default()
    })
}

/// A shard with several levels, runs and value files.
fn build(folder: &Path, kind: EngineKind) -> Map {
    let engine = storage::open_engine(kind, folder, &shared()).unwrap();
    let (mut prng, mut map) = (Prng::new(5), Map::new());
    for index in 1..=300u64 {
        let key = format!("key{:03}", prng.below(200)).into_bytes();
        let mut value = vec![index as u8; prng.below(1500) as usize];
        let noise = value.len() / 2;
        prng.fill(&mut value[..noise]);
        let write = (Slice::from(&key[..]), Some(Slice::from(&value[..])));
        engine.apply(index, WriteBatch { writes: vec![write], ..WriteBatch::default() });
        map.insert(key, value);
        if index % 30 == 0 {
            engine.seal(vec![(Slice::from(&b"m"[..]), Slice::from(&b"1"[..]))]);
            engine.flush().unwrap();
        }
        if index == 240 {
            while engine.compact().unwrap() {}
        }
    }
    map
}

/// The same map, taken over from another shard.
fn build_by_ingestion(folder: &Path, kind: EngineKind) -> Map {
    let elsewhere = tempfile::tempdir().unwrap();
    let map = build(elsewhere.path(), EngineKind::Memory);
    let engine = storage::open_engine(kind, folder, &shared()).unwrap();
    let mut ingest = engine.ingest().unwrap();
    map.iter().for_each(|(key, value)| ingest.put(key[..].into(), value[..].into()).unwrap());
    let meta = vec![(Slice::from(&b"m"[..]), Slice::from(&b"1"[..]))];
    engine.install(ingest.finish(300, meta).unwrap()).unwrap();
    map
}

/// The error is corruption of `damaged` (or, for the pair that vouch for each other, of its partner).
fn assert_names(error: &Error, damaged: &Path) {
    let Error::Corrupt { path, .. } = error else { panic!("{} damaged: {error:?}", damaged.display()) };
    let is_manifest = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name == "current" || name.starts_with('v')
    };
    assert!(path == damaged || is_manifest(path) && is_manifest(damaged), "{} damaged: {error}", damaged.display());
}

/// Reads all in every way; true if some read failed.
fn check_reads(engine: &dyn Engine, map: &Map, damaged: &Path) -> bool {
    let mut failed = false;
    for (key, value) in map {
        match engine.get(key) {
            Ok(found) => assert!(found.as_deref() == Some(&value[..]), "{} damaged: wrong value", damaged.display()),
            Err(error) => {
                assert_names(&error, damaged);
                failed = true;
            }
        }
    }
    let snapshot = engine.snapshot();
    let mut expected = map.iter();
    for row in snapshot.iter(Span { start: vec![], end: vec![] }, false) {
        match row {
            Ok((key, value)) => {
                let (wanted_key, wanted) = expected.next().unwrap();
                assert!(&key[..] == wanted_key && &value[..] == wanted, "{} damaged: wrong row", damaged.display());
            }
            Err(error) => {
                assert_names(&error, damaged);
                return true;
            }
        }
    }
    assert!(expected.next().is_none(), "{} damaged: rows are missing", damaged.display());
    failed
}

fn try_damage(kind: EngineKind, pristine: &Path, name: &Path, bytes: &[u8], map: &Map) {
    let folder = tempfile::tempdir().unwrap();
    copy(pristine, folder.path());
    let damaged = folder.path().join(name);
    fs::write(&damaged, bytes).unwrap();
    let engine = match storage::open_engine(kind, folder.path(), &shared()) {
        Ok(engine) => engine,
        Err(error) => return assert_names(&error, &damaged),
    };
    assert_eq!(engine.flushed_index(), 300, "{} damaged", damaged.display());
    check_reads(&*engine, map, &damaged);
    assert_names(&engine.verify().unwrap_err(), &damaged);
    // Whatever compaction makes of it, it may not make it worse.
    let compacted = (0..50).try_for_each(|_| engine.compact().map(drop));
    if let Err(error) = compacted
        && !matches!(error, Error::Poisoned { .. })
    {
        assert_names(&error, &damaged);
    }
    check_reads(&*engine, map, &damaged);
}

fn damage_everywhere(kind: EngineKind, flips_a_file: u64, build: fn(&Path, EngineKind) -> Map) {
    let pristine = tempfile::tempdir().unwrap();
    let map = build(pristine.path(), kind);
    let mut prng = Prng::new(11);
    let names = files(pristine.path());
    assert!(kind == EngineKind::Memory || names.len() > 8, "{names:?}");
    for file in names {
        let bytes = fs::read(&file).unwrap();
        let name = file.strip_prefix(pristine.path()).unwrap();
        for flip in 0..flips_a_file {
            // Half of them at the end, where the structure is.
            let tail = (bytes.len() as u64).min(700);
            let at =
                if flip % 2 == 0 { prng.below(bytes.len() as u64) } else { bytes.len() as u64 - 1 - prng.below(tail) };
            let mut flipped = bytes.clone();
            flipped[at as usize] ^= 1 << prng.below(8);
            try_damage(kind, pristine.path(), name, &flipped, &map);
        }
        try_damage(kind, pristine.path(), name, &bytes[..bytes.len() / 2], &map);
        try_damage(kind, pristine.path(), name, &[], &map);
    }
}

#[test]
fn a_tree_never_answers_wrongly() {
    damage_everywhere(EngineKind::Lsm, 24, build);
}

#[test]
fn an_installed_tree_never_answers_wrongly() {
    damage_everywhere(EngineKind::Lsm, 6, build_by_ingestion);
}

#[test]
fn a_lost_pointer_does_not_cost_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path(), EngineKind::Lsm);
    let (pointer, before) = (folder.path().join("generation"), files(folder.path()).len());
    fs::remove_file(&pointer).unwrap();
    let error = storage::open_engine(EngineKind::Lsm, folder.path(), &shared()).err().unwrap();
    assert_names(&error, &pointer);
    assert_eq!(files(folder.path()).len(), before - 1);
}

#[test]
fn a_snapshot_file_never_answers_wrongly() {
    damage_everywhere(EngineKind::Memory, 60, build);
    damage_everywhere(EngineKind::Memory, 20, build_by_ingestion);
}

#[test]
fn an_inspection_sees_all_and_writes_nothing() {
    for kind in [EngineKind::Lsm, EngineKind::Memory] {
        let folder = tempfile::tempdir().unwrap();
        let map = build(folder.path(), kind);
        // What an open would remove.
        let orphan = if kind == EngineKind::Lsm { "tree-1/tables/9999" } else { "snapshot.new" };
        fs::write(folder.path().join(orphan), b"left behind").unwrap();
        let before: Vec<_> = files(folder.path()).into_iter().map(|file| (fs::read(&file).unwrap(), file)).collect();
        let inspection = storage::inspect_engine(kind, folder.path()).unwrap();
        assert_eq!((inspection.kind(), inspection.snapshot().index()), (kind, 300));
        assert_eq!(inspection.meta(b"m").unwrap().unwrap(), b"1");
        let rows = inspection.snapshot().iter(Span { start: vec![], end: vec![] }, false).map(Result::unwrap);
        assert!(rows.map(|(key, value)| (key.to_vec(), value.to_vec())).eq(map), "{kind:?}");
        inspection.verify().unwrap();
        assert!(inspection.files().iter().all(|file| file.exists()) && inspection.stats().entries_approx > 0);
        drop(inspection);
        let after: Vec<_> = files(folder.path()).into_iter().map(|file| (fs::read(&file).unwrap(), file)).collect();
        assert!(before == after, "{kind:?}: an inspection wrote");
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(storage::inspect_engine(EngineKind::Lsm, empty.path()).is_err());
    assert_eq!(storage::inspect_engine(EngineKind::Memory, empty.path()).unwrap().snapshot().index(), 0);
}
