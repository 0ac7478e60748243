//! A full disk refuses and heals; a failed write poisons. On a small file system of its own, which takes root.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use storage::{Compression, Engine, EngineKind, Error, SharedResources, Slice, StorageOptions, WriteBatch};
use vocab::Prng;

/// A file system of a few MiB in memory; unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`, with a word about it, where one cannot be mounted.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(folder.path()).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(folder));
        }
        let required = std::env::var("BASALT_REQUIRE").unwrap_or_default();
        assert!(
            !required.split(',').any(|word| word == "mount"),
            "mount is required, and no file system can be mounted"
        );
        eprintln!("SKIPPED: no small file system could be mounted, so nothing was tested here");
        None
    }

    /// Leaves so many bytes free, until what takes up the others is dropped.
    fn fill(&self, free: usize) -> Ballast {
        let ballast = self.0.path().join("ballast");
        let mut file = fs::File::create(&ballast).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
        file.set_len(file.metadata().unwrap().len() - free as u64).unwrap();
        Ballast(ballast)
    }
}

struct Ballast(PathBuf);

impl Drop for Ballast {
    fn drop(&mut self) {
        // Its removal alone frees nothing while another test starts a program, which has all open files for a moment.
        let _ = fs::File::create(&self.0);
        let _ = fs::remove_file(&self.0);
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// The same file, spelled from the current folder.
fn relative(path: &Path) -> PathBuf {
    let up = std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect::<PathBuf>();
    up.join(path.strip_prefix("/").unwrap())
}

fn shared() -> Arc<SharedResources> {
    SharedResources::new(StorageOptions {
        compression: Compression::Lz4,
        separation_bytes: 3000,
        table_bytes: 64 * 1024,
        ..StorageOptions::default()
    })
}

fn value_of(index: u64) -> Vec<u8> {
    let mut value = vec![0; if index.is_multiple_of(10) { 4000 } else { 1000 }];
    Prng::new(index).fill(&mut value);
    value
}

fn key_of(index: u64) -> Vec<u8> {
    format!("key{:03}", index % 200).into_bytes()
}

/// Writes 200 keys again and again, in turn.
fn apply(engine: &dyn Engine, index: u64) {
    let write = (Slice::from(key_of(index)), Some(Slice::from(value_of(index))));
    engine.apply(index, WriteBatch { writes: vec![write], ..WriteBatch::default() });
}

fn check(engine: &dyn Engine, applied: u64) {
    for index in applied.saturating_sub(199).max(1)..=applied {
        assert!(engine.get(&key_of(index)).unwrap().unwrap() == value_of(index), "index {index}");
    }
}

fn table_files(folder: &Path) -> usize {
    ["tables", "blobs"]
        .iter()
        .filter_map(|name| fs::read_dir(folder.join("tree-1").join(name)).ok())
        .map(|files| files.count())
        .sum()
}

fn fill_and_heal(kind: EngineKind) {
    let Some(disk) = SmallDisk::new() else { return };
    let folder = disk.0.path().join("shard");
    let engine = storage::open_engine(kind, &folder, &shared()).unwrap();
    (1..=200).for_each(|index| apply(&*engine, index));
    engine.seal(vec![]);
    engine.flush().unwrap();
    (201..=400).for_each(|index| apply(&*engine, index));
    engine.seal(vec![]);
    let before = table_files(&folder);
    // Room for parts of a flush: it fails in many places.
    for free in (0..10).map(|step| step * 20 * 1024) {
        let ballast = disk.fill(free);
        let error = engine.flush().unwrap_err();
        assert!(matches!(error, Error::Full { .. }), "{error:?}");
        if free == 0 {
            assert!(matches!(engine.clear(401, vec![], vec![]), Err(Error::Full { .. })));
            assert!(!folder.join("tree-2").exists());
        }
        assert_eq!((engine.applied_index(), engine.flushed_index(), engine.needs_flush()), (400, 200, true));
        check(&*engine, 400);
        drop(ballast);
        assert_eq!(table_files(&folder), before, "a failed flush left files behind");
    }
    apply(&*engine, 401);
    engine.flush().unwrap();
    assert_eq!(engine.flushed_index(), 400);
    engine.seal(vec![]);
    engine.flush().unwrap();
    engine.verify().unwrap();
    drop(engine);
    let engine = storage::open_engine(kind, &folder, &shared()).unwrap();
    assert_eq!(engine.flushed_index(), 401);
    check(&*engine, 401);
}

#[test]
fn a_full_disk_loses_nothing_and_heals() {
    fill_and_heal(EngineKind::Lsm);
    fill_and_heal(EngineKind::Memory);
}

#[test]
fn compaction_on_a_full_disk_loses_nothing_and_heals() {
    let Some(disk) = SmallDisk::new() else { return };
    // A data directory may be given as a relative path.
    let folder = relative(&disk.0.path().join("shard"));
    let engine = storage::open_engine(EngineKind::Lsm, &folder, &shared()).unwrap();
    for index in 1..=800 {
        apply(&*engine, index);
        if index % 100 == 0 {
            engine.seal(vec![]);
            engine.flush().unwrap();
        }
    }
    let before = table_files(&folder);
    for free in (0..8).map(|step| step * 16 * 1024) {
        let ballast = disk.fill(free);
        assert!(matches!(engine.compact(), Err(Error::Full { .. })), "with {free} bytes free");
        check(&*engine, 800);
        drop(ballast);
        assert_eq!(table_files(&folder), before, "a failed compaction left files behind");
    }
    while engine.compact().unwrap() {}
    assert!(table_files(&folder) < before);
    engine.verify().unwrap();
    check(&*engine, 800);
}

#[test]
fn an_ingestion_on_a_full_disk_leaves_nothing_and_harms_nothing() {
    for kind in [EngineKind::Lsm, EngineKind::Memory] {
        let Some(disk) = SmallDisk::new() else { return };
        let folder = disk.0.path().join("shard");
        let engine = storage::open_engine(kind, &folder, &shared()).unwrap();
        (1..=200).for_each(|index| apply(&*engine, index));
        engine.seal(vec![]);
        engine.flush().unwrap();
        let before = fs::read_dir(&folder).unwrap().count();
        for free in (0..10).map(|step| step * 20 * 1024) {
            let ballast = disk.fill(free);
            let result = engine.ingest().and_then(|mut ingest| {
                let mut rows = (0..200).map(|i| (format!("key{i:03}"), value_of(i)));
                rows.try_for_each(|(key, value)| ingest.put(key.as_bytes().into(), value.into()))?;
                ingest.finish(500, vec![]).map(drop)
            });
            assert!(matches!(result, Err(Error::Full { .. })), "with {free} bytes free: {result:?}");
            assert_eq!(fs::read_dir(&folder).unwrap().count(), before, "with {free} bytes free");
            check(&*engine, 200);
            drop(ballast);
        }
        engine.install(engine.ingest().unwrap().finish(500, vec![]).unwrap()).unwrap();
        assert!(engine.get(&key_of(1)).unwrap().is_none() && engine.flushed_index() == 500);
    }
}

#[test]
fn a_write_that_fails_otherwise_poisons_and_reads_go_on() {
    for kind in [EngineKind::Lsm, EngineKind::Memory] {
        let folder = tempfile::tempdir().unwrap();
        let engine = storage::open_engine(kind, folder.path(), &shared()).unwrap();
        (1..=10).for_each(|index| apply(&*engine, index));
        engine.seal(vec![]);
        // Where files should be written there is something else.
        match kind {
            EngineKind::Lsm => {
                fs::remove_dir_all(folder.path().join("tree-1/tables")).unwrap();
                fs::write(folder.path().join("tree-1/tables"), b"").unwrap();
            }
            EngineKind::Memory => fs::create_dir(folder.path().join("snapshot.new")).unwrap(),
        }
        engine.flush().unwrap_err();
        for error in [engine.flush(), engine.clear(10, vec![], vec![])] {
            assert!(matches!(error, Err(Error::Poisoned { .. })), "{kind:?}: {error:?}");
        }
        apply(&*engine, 11);
        engine.seal(vec![]);
        check(&*engine, 11);
        assert_eq!(engine.flushed_index(), 0);
    }
}
