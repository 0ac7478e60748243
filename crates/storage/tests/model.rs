//! Engines against a sorted map: random entries, seals, flushes, compactions, clears, ingestions, snapshots and restarts.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use storage::{
    Compression, Engine, EngineKind, Ingest, Ingested, SharedResources, Slice, Snapshot, Span, StorageOptions,
    WriteBatch,
};
use vocab::Prng;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Writes = Vec<(Vec<u8>, Option<Vec<u8>>)>;
type Drops = Vec<Vec<u8>>;

/// What happened at each index, so that a restart can replay it.
enum Entry {
    Writes(Writes, Drops),
    /// All but these rows.
    Clear(Map),
    /// Jumped over by an install.
    Skipped,
}

/// A map that is built aside, at its stages.
enum Aside {
    Nothing,
    Begun(Box<dyn Ingest>, Map, Map),
    Finished(Box<dyn Ingested>, Map),
}

impl Aside {
    /// A few rows more, or the next stage.
    fn go_on(self, engine: &dyn Engine, model: &mut Model, prng: &mut Prng) -> Self {
        match self {
            Self::Nothing => {
                let left = (0..prng.below(80)).map(|_| (key(prng), value(prng))).collect();
                Self::Begun(engine.ingest().unwrap(), left, Map::new())
            }
            Self::Begun(mut ingest, mut left, mut put) => {
                for _ in 0..prng.below(40) {
                    let Some((key, value)) = left.pop_first() else { break };
                    ingest.put(key[..].into(), value[..].into()).unwrap();
                    put.insert(key, value);
                }
                if !left.is_empty() {
                    return Self::Begun(ingest, left, put);
                }
                let meta = (Slice::from(&b"count"[..]), Slice::from(&(put.len() as u64).to_le_bytes()[..]));
                Self::Finished(ingest.finish(model.index() + prng.below(12), vec![meta]).unwrap(), put)
            }
            // The engine has gone beyond it meanwhile.
            Self::Finished(ingested, _) if ingested.index() < model.index() => Self::Nothing,
            Self::Finished(ingested, map) => {
                let index = ingested.index();
                engine.install(ingested).unwrap();
                model.entries.resize_with(index as usize, || Entry::Skipped);
                model.sealed = (index, map.len() as u64);
                model.flushed = model.sealed;
                model.map = map;
                Self::Nothing
            }
        }
    }
}

/// Collections come in the order of their numbers, and are dropped in it.
#[derive(Default)]
struct Model {
    /// The numbers of those that there are.
    collections: std::ops::Range<u64>,
    /// `entries[i]` has index `i + 1`.
    entries: Vec<Entry>,
    map: Map,
    /// The map and the meta counter as of the last seal and as of the last flush.
    sealed: (u64, u64),
    flushed: (u64, u64),
}

impl Model {
    fn index(&self) -> u64 {
        self.entries.len() as u64
    }
}

fn key(prng: &mut Prng) -> Vec<u8> {
    format!("key{:03}", prng.below(150)).into_bytes()
}

/// All keys of a collection begin with this.
fn collection(number: u64) -> Vec<u8> {
    format!("k{number}/").into_bytes()
}

/// A key of a collection: of one that is there, or was.
fn element(model: &Model, prng: &mut Prng) -> Vec<u8> {
    let Some(newest) = model.collections.end.checked_sub(1) else { return key(prng) };
    let number = newest.saturating_sub(prng.below(6));
    [collection(number), format!("{:02}", prng.below(60)).into_bytes()].concat()
}

fn value(prng: &mut Prng) -> Vec<u8> {
    let length = match prng.below(10) {
        0 => 0,
        1..6 => prng.below(100),
        6..9 => 100 + prng.below(900),
        _ => 1000 + prng.below(5000),
    };
    let mut bytes = vec![prng.below(256) as u8; length as usize];
    if prng.below(2) == 0 {
        prng.fill(&mut bytes);
    }
    bytes
}

/// What an entry drops; it may begin and fill a collection.
fn drops(model: &mut Model, writes: &mut Writes, prng: &mut Prng) -> Drops {
    if prng.below(3) == 0 {
        model.collections.end += 1;
    }
    let numbers = model.collections.clone();
    if !numbers.is_empty() && prng.below(3) == 0 {
        let number = numbers.start + prng.below(numbers.end - numbers.start);
        let names: std::collections::BTreeSet<u64> = (0..prng.below(40)).map(|_| prng.below(60)).collect();
        let row = |name: u64, prng: &mut Prng| {
            let key = [collection(number), format!("{name:02}").into_bytes()].concat();
            (key, (prng.below(9) != 0).then(|| value(prng)))
        };
        writes.extend(names.into_iter().map(|name| row(name, prng)));
    }
    let count = if prng.below(4) == 0 { prng.below(numbers.end - numbers.start + 1) } else { 0 };
    model.collections.start += count;
    (numbers.start..numbers.start + count).map(collection).collect()
}

fn writes(prng: &mut Prng) -> Writes {
    let mut writes = Map::new();
    for _ in 0..=prng.below(8) {
        writes.insert(key(prng), value(prng));
    }
    writes.into_iter().map(|(key, value)| (key, (prng.below(5) != 0).then_some(value))).collect()
}

fn apply(engine: &dyn Engine, index: u64, writes: &Writes, drops: &Drops) {
    let writes = writes
        .iter()
        .map(|(key, value)| (Slice::from(&key[..]), value.as_ref().map(|value| Slice::from(&value[..]))))
        .collect();
    engine.apply(index, WriteBatch { writes, drops: drops.iter().map(|prefix| Slice::from(&prefix[..])).collect() });
}

fn owned(rows: &Map) -> Vec<(Slice, Slice)> {
    rows.iter().map(|(key, value)| (Slice::from(&key[..]), Slice::from(&value[..]))).collect()
}

fn scan(snapshot: &dyn Snapshot, span: &Span, reverse: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows: Vec<_> = snapshot
        .iter(span.clone(), reverse)
        .map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap())
        .collect();
    if reverse {
        rows.reverse();
    }
    rows
}

/// Heads of values, by the cursor that reads nothing else.
fn check_heads(snapshot: &dyn Snapshot, span: &Span, reverse: bool, rows: &[(Vec<u8>, Vec<u8>)]) {
    let mut cursor = snapshot.cursor(span.clone(), reverse);
    let mut check = |(key, value): &(Vec<u8>, Vec<u8>)| {
        assert_eq!(cursor.advance().unwrap().as_deref(), Some(&key[..]));
        let head = cursor.value_head().unwrap();
        assert!(value.starts_with(&head) && head.len() >= value.len().min(storage::VALUE_HEAD_BYTES), "{key:?}");
    };
    if reverse {
        rows.iter().rev().for_each(&mut check)
    } else {
        rows.iter().for_each(&mut check)
    }
    assert_eq!(cursor.advance().unwrap(), None);
}

fn check_snapshot(snapshot: &dyn Snapshot, index: u64, map: &Map, prng: &mut Prng) {
    assert_eq!(snapshot.index(), index);
    for (key, value) in map.iter().filter(|(key, _)| key.contains(&b'/')).take(5) {
        assert_eq!(snapshot.get(key).unwrap().as_deref(), Some(&value[..]), "{key:?}");
    }
    for _ in 0..5 {
        let key = key(prng);
        assert_eq!(snapshot.get(&key).unwrap().as_deref(), map.get(&key).map(|value| &value[..]), "{key:?}");
    }
    let (a, b) = (key(prng), key(prng));
    let spans = [Span { start: vec![], end: vec![] }, Span { start: a.clone(), end: b.clone() }];
    let wanted: [Vec<_>; 2] = [
        map.clone().into_iter().collect(),
        map.iter().filter(|(key, _)| **key >= a && **key < b).map(|(k, v)| (k.clone(), v.clone())).collect(),
    ];
    for (span, wanted) in spans.iter().zip(wanted) {
        for reverse in [false, true] {
            assert!(scan(snapshot, span, reverse) == wanted, "scan of {span:?}, reverse {reverse}");
            check_heads(snapshot, span, reverse, &wanted);
        }
    }
}

fn meta_of(engine: &dyn Engine) -> u64 {
    engine.meta(b"count").unwrap().map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().unwrap()))
}

/// Replays what a crash lost, as the log would.
fn replay(engine: &dyn Engine, model: &Model) {
    for index in engine.flushed_index() + 1..=model.index() {
        match &model.entries[index as usize - 1] {
            Entry::Writes(writes, drops) => apply(engine, index, writes, drops),
            Entry::Clear(rows) => engine.clear(index, vec![], owned(rows)).unwrap(),
            Entry::Skipped => panic!("an index that an install jumped over is applied"),
        }
    }
}

/// From one start to the next.
fn session(engine: &dyn Engine, model: &mut Model, prng: &mut Prng) {
    let mut snapshots: Vec<(Box<dyn Snapshot>, u64, Map)> = Vec::new();
    let mut aside = Aside::Nothing;
    for _ in 0..150 {
        match prng.below(100) {
            0..57 => {
                let mut writes = writes(prng);
                let drops = drops(model, &mut writes, prng);
                apply(engine, model.index() + 1, &writes, &drops);
                for (key, value) in &writes {
                    match value {
                        Some(value) => model.map.insert(key.clone(), value.clone()),
                        None => model.map.remove(key),
                    };
                }
                model.map.retain(|key, _| !drops.iter().any(|prefix| key.starts_with(prefix)));
                model.entries.push(Entry::Writes(writes, drops));
            }
            57..60 => aside = aside.go_on(engine, model, prng),
            60..70 => {
                let keys = model.map.len() as u64;
                engine.seal(vec![(Slice::from(&b"count"[..]), Slice::from(&keys.to_le_bytes()[..]))]);
                if model.sealed.0 != model.index() {
                    model.sealed = (model.index(), keys);
                }
                assert_eq!(meta_of(engine), model.sealed.1);
            }
            70..78 => {
                engine.flush().unwrap();
                model.flushed = model.sealed;
                assert_eq!(engine.flushed_index(), model.flushed.0);
                assert!(!engine.needs_flush());
            }
            78..83 => while engine.compact().unwrap() {},
            83..85 => while engine.purge().unwrap() {},
            85 => {
                let rows: Map = writes(prng).into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
                engine.clear(model.index() + 1, vec![], owned(&rows)).unwrap();
                model.map = rows.clone();
                model.entries.push(Entry::Clear(rows));
                model.sealed = (model.index(), 0);
                model.flushed = model.sealed;
            }
            86..90 => snapshots.push((engine.snapshot(), model.index(), model.map.clone())),
            90..92 => drop((!snapshots.is_empty()).then(|| snapshots.remove(0))),
            _ => check_snapshot(&*engine.snapshot(), model.index(), &model.map, prng),
        }
        assert_eq!(engine.applied_index(), model.index());
        let key = if prng.below(2) == 0 { key(prng) } else { element(model, prng) };
        assert_eq!(engine.get(&key).unwrap().as_deref(), model.map.get(&key).map(|value| &value[..]), "{key:?}");
        if let Some((snapshot, index, map)) = snapshots.last() {
            check_snapshot(&**snapshot, *index, map, prng);
        }
    }
    for (snapshot, index, map) in &snapshots {
        check_snapshot(&**snapshot, *index, map, prng);
    }
    engine.verify().unwrap();
}

fn run(folder: &Path, kind: EngineKind, seed: u64) {
    let mut prng = Prng::new(seed);
    let mut model = Model::default();
    for start in 0..6 {
        let compression = [Compression::None, Compression::Lz4, Compression::Zstd][prng.below(3) as usize];
        let shared = SharedResources::new(StorageOptions {
            block_cache_bytes: 64 * 1024,
            compression,
            separation_bytes: [0, 500, 2000][prng.below(3) as usize],
            table_bytes: 8 * 1024,
            ..StorageOptions::default()
        });
        let engine = storage::open_engine(kind, folder, &shared).unwrap();
        assert_eq!(engine.flushed_index(), model.flushed.0, "seed {seed}, start {start}");
        assert_eq!(engine.applied_index(), model.flushed.0);
        assert_eq!(meta_of(&*engine), model.flushed.1);
        model.sealed = model.flushed;
        replay(&*engine, &model);
        session(&*engine, &mut model, &mut prng);
    }
}

#[test]
fn both_engines_are_the_model_at_every_step() {
    for kind in [EngineKind::Lsm, EngineKind::Memory] {
        for seed in 1..=4 {
            let folder = tempfile::tempdir().unwrap();
            println!("{kind:?}, seed {seed}");
            run(folder.path(), kind, seed);
        }
    }
}

#[test]
fn many_flushes_leave_few_files_and_an_exact_index() {
    let folder = tempfile::tempdir().unwrap();
    let shared = SharedResources::new(StorageOptions::default());
    let open = || -> Arc<dyn Engine> { storage::open_engine(EngineKind::Lsm, folder.path(), &shared).unwrap() };
    let mut engine = open();
    for index in 151..=260 {
        apply(&*engine, index, &vec![(b"k".to_vec(), Some(index.to_le_bytes().to_vec()))], &Vec::new());
        engine.seal(vec![]);
        engine.flush().unwrap();
        while engine.compact().unwrap() {}
        // 245 among them: as a byte it is what packed values begin with.
        if index % 49 == 0 {
            drop(engine);
            engine = open();
            assert_eq!(engine.flushed_index(), index);
        }
    }
    let files = walk(folder.path());
    assert!(files < 20, "{files} files");
    drop(engine);
    let engine = open();
    assert_eq!(engine.flushed_index(), 260);
    assert_eq!(engine.get(b"k").unwrap().unwrap(), 260u64.to_le_bytes());
}

#[test]
fn a_flush_leaves_what_was_sealed_after_it_was_asked_for() {
    for kind in [EngineKind::Lsm, EngineKind::Memory] {
        let folder = tempfile::tempdir().unwrap();
        let shared = SharedResources::new(StorageOptions::default());
        let engine = storage::open_engine(kind, folder.path(), &shared).unwrap();
        let write = |index: u64| {
            apply(&*engine, index, &vec![(b"k".to_vec(), Some(index.to_le_bytes().to_vec()))], &Vec::new());
            engine.seal(vec![]);
        };
        write(1);
        let sealed = engine.sealed_index();
        write(2);
        engine.flush_to(sealed).unwrap();
        // The engine in memory keeps the last seal alone.
        let flushed = u64::from(kind == EngineKind::Lsm);
        assert_eq!((sealed, engine.flushed_index(), engine.needs_flush()), (1, flushed, true), "{kind:?}");
        assert_eq!(engine.get(b"k").unwrap().unwrap(), 2u64.to_le_bytes(), "{kind:?}");
        engine.flush_to(engine.sealed_index()).unwrap();
        assert_eq!((engine.flushed_index(), engine.needs_flush()), (2, false), "{kind:?}");
    }
}

fn walk(folder: &Path) -> usize {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| if entry.file_type().unwrap().is_dir() { walk(&entry.path()) } else { 1 })
        .sum()
}
