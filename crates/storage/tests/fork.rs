//! Forks against two sorted maps: both sides write on, are compacted, purged and restarted, and share no fate.
#![allow(clippy::unwrap_used)]

mod folders;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use storage::{Engine, EngineKind, Error, Keep, SharedResources, Slice, Span, StorageOptions, WriteBatch, open_engine};
use vocab::Prng;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn shared() -> Arc<SharedResources> {
    SharedResources::new(StorageOptions {
        block_cache_bytes: 64 * 1024,
        separation_bytes: 2000,
        table_bytes: 16 * 1024,
        ..StorageOptions::default()
    })
}

/// Keys with an even last digit are the child's.
fn keep(child: bool) -> Keep {
    Arc::new(move |key: &[u8]| key.last().is_some_and(|digit| (digit % 2 == 0) == child))
}

struct Side {
    engine: Arc<dyn Engine>,
    keep: Keep,
    map: Map,
    index: u64,
}

impl Side {
    fn wanted(&self) -> Map {
        self.map.iter().filter(|(key, _)| (self.keep)(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn write(&mut self, prng: &mut Prng, own: bool) {
        self.index += 1;
        let mut writes = BTreeMap::new();
        for _ in 0..=prng.below(8) {
            let key = format!("key{:04}", prng.below(800)).into_bytes();
            let length = if prng.below(10) == 0 { 2500 } else { prng.below(300) };
            let value = (prng.below(5) > 0).then(|| vec![prng.below(256) as u8; length as usize]);
            if !own || (self.keep)(&key) {
                writes.insert(key, value);
            }
        }
        for (key, value) in &writes {
            match value {
                Some(value) => self.map.insert(key.clone(), value.clone()),
                None => self.map.remove(key),
            };
        }
        let slice = |(key, value): (Vec<u8>, Option<Vec<u8>>)| (Slice::from(key), value.map(Slice::from));
        self.engine
            .apply(self.index, WriteBatch { writes: writes.into_iter().map(slice).collect(), ..WriteBatch::default() });
    }

    fn seal(&self) {
        self.engine.seal(vec![(Slice::from(&b"at"[..]), Slice::from(&self.index.to_le_bytes()[..]))]);
    }

    /// Writes so many tables of the same keys; answers how many the first level has then.
    fn flush_tables(&mut self, tables: u64) -> usize {
        for _ in 0..tables {
            self.index += 1;
            let rows = (0..800).map(|i| (format!("key{i:04}").into_bytes(), vec![self.index as u8; 1500]));
            let rows: Vec<_> = rows.filter(|(key, _)| (self.keep)(key)).collect();
            self.map.extend(rows.iter().cloned());
            let writes = rows.into_iter().map(|(key, value)| (Slice::from(key), Some(Slice::from(value)))).collect();
            self.engine.apply(self.index, WriteBatch { writes, ..WriteBatch::default() });
            self.seal();
            self.engine.flush().unwrap();
        }
        self.engine.stats().l0_runs
    }

    fn step(&mut self, prng: &mut Prng, own: bool) {
        match prng.below(20) {
            0 | 1 => self.seal(),
            2 => self.engine.flush().unwrap(),
            3 => _ = self.engine.compact().unwrap(),
            4 => _ = self.engine.purge().unwrap(),
            _ => self.write(prng, own),
        }
    }

    fn check(&self) {
        let snapshot = self.engine.snapshot();
        let rows = snapshot.iter(Span { start: vec![], end: vec![] }, false).map(Result::unwrap);
        let found: Map =
            rows.filter(|(key, _)| (self.keep)(key)).map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        assert!(found == self.wanted());
        assert_eq!(self.engine.applied_index(), self.index);
        self.engine.verify().unwrap();
    }

    /// Stops and starts it, with nothing to replay.
    fn restart(&mut self, kind: EngineKind, folder: &Path) {
        self.seal();
        self.engine.flush().unwrap();
        self.engine = Arc::new(NoEngine::open(folder));
        self.engine = open_engine(kind, folder, &shared()).unwrap();
        self.engine.keep_only(self.keep.clone());
        assert_eq!(self.engine.flushed_index(), self.index);
    }
}

/// Stands in the place of an engine that is closed: one of another folder.
struct NoEngine;

impl NoEngine {
    fn open(folder: &Path) -> storage::MemoryEngine {
        storage::MemoryEngine::open(&folder.join("nothing"), &shared()).unwrap()
    }
}

fn fork(parent: &mut Side, folder: &Path) -> Side {
    parent.seal();
    let index = parent.index + 1;
    let meta = vec![(Slice::from(&b"at"[..]), Slice::from(&b"the child's"[..]))];
    let engine = parent.engine.fork(folder, index, meta, &keep(true)).unwrap();
    assert_eq!((engine.applied_index(), engine.flushed_index()), (index, index));
    assert_eq!(engine.meta(b"at").unwrap().unwrap(), b"the child's");
    engine.keep_only(keep(true));
    let child = Side { engine, keep: keep(true), map: parent.map.clone(), index };
    // What the parent does with the entry.
    parent.keep = keep(false);
    parent.engine.keep_only(keep(false));
    parent.index = index;
    parent.engine.apply(index, WriteBatch::default());
    child
}

#[test]
fn both_sides_are_their_models() {
    for kind in [EngineKind::Lsm, EngineKind::Memory] {
        for seed in 1..=2 {
            println!("{kind:?}, seed {seed}");
            let folder = tempfile::tempdir().unwrap();
            let (at, to) = (folder.path().join("1"), folder.path().join("2"));
            let mut prng = Prng::new(seed);
            let mut parent = empty(kind, &at, &shared());
            (0..400).for_each(|_| parent.step(&mut prng, false));
            let mut before = Some(parent.engine.snapshot());
            let whole = parent.map.clone();
            let mut child = fork(&mut parent, &to);
            for round in 0..3 {
                for side in [&mut parent, &mut child] {
                    (0..200).for_each(|_| side.step(&mut prng, true));
                    side.check();
                }
                if round == 0 {
                    while parent.engine.purge().unwrap() | child.engine.purge().unwrap() {}
                }
                if let Some(before) = before.take() {
                    let rows = before.iter(Span { start: vec![], end: vec![] }, false).map(Result::unwrap);
                    let rows: Map = rows.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
                    assert!(rows == whole, "what a snapshot shows has changed");
                }
                if round == 1 {
                    parent.restart(kind, &at);
                    child.restart(kind, &to);
                }
            }
        }
    }
}

fn empty(kind: EngineKind, folder: &Path, shared: &Arc<SharedResources>) -> Side {
    let engine = open_engine(kind, folder, shared).unwrap();
    Side { engine, keep: Arc::new(|_| true), map: Map::new(), index: 0 }
}

fn filled(kind: EngineKind, folder: &Path) -> Side {
    let mut side = empty(kind, folder, &shared());
    let mut prng = Prng::new(9);
    for i in 0..600 {
        side.write(&mut prng, false);
        if i % 60 == 0 {
            side.seal();
            side.engine.flush().unwrap();
            while side.engine.compact().unwrap() {}
        }
    }
    side
}

#[test]
fn files_are_shared_and_what_is_unwanted_goes() {
    let folder = tempfile::tempdir().unwrap();
    let (at, to) = (folder.path().join("1"), folder.path().join("2"));
    let mut parent = filled(EngineKind::Lsm, &at);
    let child = fork(&mut parent, &to);
    let tables =
        |folder: &Path| folders::files(folder).into_iter().filter(|path| path.parent().unwrap().ends_with("tables"));
    let linked = tables(&to).filter(|path| fs::metadata(path).unwrap().nlink() == 2).count();
    assert!(linked > 1 && linked + 1 == tables(&to).count(), "{linked} of {}", tables(&to).count());
    for side in [&parent, &child] {
        let before = side.engine.stats();
        while side.engine.purge().unwrap() {}
        let after = side.engine.stats();
        assert_eq!(
            (before.is_halved, after.is_halved),
            (true, false),
            "an estimate, as long as there is something to purge"
        );
        assert!(after.entries_approx < before.entries_approx * 2 / 3, "{before:?}, {after:?}");
        assert_eq!((before.wanted_bytes(), after.wanted_bytes()), (before.disk_bytes.div_ceil(2), after.disk_bytes));
        side.check();
    }
    assert!(folders::files(folder.path()).iter().all(|path| !path.ends_with("unwanted")));
    assert_eq!(tables(&to).filter(|path| fs::metadata(path).unwrap().nlink() == 2).count(), 0);
}

/// Both would rewrite the same: compaction leaves it to the purge, which has time, until the first level is too full.
#[test]
fn compaction_leaves_a_forked_tree_to_its_purge_and_hurries_it_when_it_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let shared = shared();
    let mut parent = empty(EngineKind::Lsm, &folder.path().join("1"), &shared);
    parent.flush_tables(3);
    parent.engine.expect_fork();
    assert_eq!(parent.flush_tables(2), 5);
    assert!(!parent.engine.compact().unwrap(), "a fork is to come");
    let child = fork(&mut parent, &folder.path().join("2"));
    assert!(!parent.engine.compact().unwrap(), "a purge is to come");
    shared.set_purge_rate(1);
    let engine = parent.engine.clone();
    std::thread::scope(|scope| {
        let purge = scope.spawn(|| while engine.purge().unwrap() {});
        assert!(parent.flush_tables(5) >= 5);
        while !purge.is_finished() {
            if !engine.compact().unwrap() {
                parent.flush_tables(1);
            }
        }
    });
    parent.check();
    child.check();
}

/// The removal of a replica waits for no purge of its tree.
#[test]
fn an_abandoned_tree_ends_its_purge() {
    let folder = tempfile::tempdir().unwrap();
    let shared = shared();
    let mut parent = empty(EngineKind::Lsm, &folder.path().join("1"), &shared);
    parent.flush_tables(5);
    let child = fork(&mut parent, &folder.path().join("2"));
    shared.set_purge_rate(1);
    std::thread::scope(|scope| {
        let purge = scope.spawn(|| parent.engine.purge().unwrap());
        // Whether it is waiting by then or has not begun, it ends.
        parent.engine.abandon();
        assert!(!purge.join().unwrap());
    });
    assert!(!parent.engine.compact().unwrap());
    child.check();
}

/// A crash at any moment of a fork leaves a folder that holds nothing, or all: and the fork is made again.
#[test]
fn a_fork_is_whole_or_not_at_all() {
    for kind in [EngineKind::Lsm, EngineKind::Memory] {
        let folder = tempfile::tempdir().unwrap();
        let (at, to) = (folder.path().join("1"), folder.path().join("2"));
        let mut parent = filled(kind, &at);
        let child = fork(&mut parent, &to);
        let wanted = child.wanted();
        let index = child.index;
        drop((child, parent));
        let pointer = |path: &Path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name == "generation" || name.starts_with("snapshot-")
        };
        let names: Vec<_> = folders::files(&to).into_iter().filter(|path| !pointer(path)).collect();
        for kept in [0, 1, names.len() / 2, names.len()] {
            let copy = tempfile::tempdir().unwrap();
            folders::copy(&at, &copy.path().join("1"));
            for name in &names[..kept.min(names.len())] {
                let target = copy.path().join("2").join(name.strip_prefix(&to).unwrap());
                fs::create_dir_all(target.parent().unwrap()).unwrap();
                fs::copy(name, target).unwrap();
            }
            fs::create_dir_all(copy.path().join("2")).unwrap();
            fs::write(copy.path().join("2/forking"), b"").unwrap();
            let empty = tempfile::tempdir().unwrap();
            folders::copy(&copy.path().join("2"), empty.path());
            let nothing = open_engine(kind, empty.path(), &shared()).unwrap();
            assert_eq!(nothing.flushed_index(), 0, "a replica that is not forked begins with nothing");
            // The parent's tree has what was flushed before: the same entry comes again.
            let parent = open_engine(kind, &copy.path().join("1"), &shared()).unwrap();
            assert_eq!(parent.flushed_index(), index - 1);
            let again = parent.fork(&copy.path().join("2"), index, vec![], &keep(true)).unwrap();
            let rows = again.snapshot();
            let rows = rows.iter(Span { start: vec![], end: vec![] }, false).map(Result::unwrap);
            let found: Map = rows.filter(|(key, _)| keep(true)(key)).map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
            assert!(found == wanted, "{kind:?}, {kept} files");
            drop(again);
            let again = open_engine(kind, &copy.path().join("2"), &shared()).unwrap();
            assert_eq!(again.flushed_index(), index);
            let twice = parent.fork(&copy.path().join("2"), index, vec![], &keep(true)).map(drop);
            assert!(matches!(twice, Err(Error::Mismatch { .. })) || kind == EngineKind::Memory);
        }
    }
}
