#![allow(clippy::unwrap_used)]

use super::*;
use crate::Kind;
use storage::{EngineKind, SharedResources, StorageOptions, WriteBatch, open_engine};
use vocab::{Namespace, slot_of};

#[test]
fn expiries_not_yet_counted_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let resources = SharedResources::new(StorageOptions::default());
    let engine = open_engine(EngineKind::Memory, folder.path(), &resources).unwrap();
    let keys =
        [keys::expiry(5, b"a"), keys::expiry(7, b"b"), keys::record(b"c"), keys::garbage(&keys::keyed_rows(b"d", 1))];
    let writes = keys.map(|key| (Slice::from(key), Some(Slice::from(&b"1"[..])))).into();
    engine.apply(1, WriteBatch { writes, ..WriteBatch::default() });
    let open = || ShardHandle::open(ShardId(0), (0, 16383), engine.clone(), Arc::new(RowCache::new(0))).unwrap();
    assert_eq!(open().expiring(), 2);
    let counted = [&slot_of(b"a").0.to_le_bytes()[..], &3u64.to_le_bytes()].concat();
    engine.seal(vec![(Slice::from(keys::META_EXPIRING), Slice::from(counted))]);
    engine.flush().unwrap();
    assert_eq!(open().expiring(), 3);
}

/// A tree of a release that counted none of them, or that has never counted anything.
#[test]
fn keys_of_cluster_databases_not_yet_counted_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let resources = SharedResources::new(StorageOptions::default());
    let engine = open_engine(EngineKind::Memory, folder.path(), &resources).unwrap();
    let [one, two] = [1, 2].map(|number| ClusterDatabase::of_number(number).unwrap());
    let database = vocab::Database::of_number(1).unwrap();
    let mut writes = Vec::new();
    for (of, name, expire_at_ms) in [
        (None, "a", Some(7)),
        (Some(Namespace::Cluster(one)), "a", Some(7)),
        (Some(Namespace::Cluster(one)), "b", None),
        (Some(Namespace::Cluster(two)), "a", None),
        (Some(Namespace::Database(database)), "a", Some(7)),
    ] {
        let key = of.map_or_else(|| name.into(), |of| of.stored(name.as_bytes()));
        let record = Record::new(Kind::STRING, expire_at_ms, &[b"v"]);
        writes.push((Slice::from(keys::record(&key)), Some(record.bytes().clone())));
        writes.extend(expire_at_ms.map(|at| (Slice::from(keys::expiry(at, &key)), Some(Slice::from(&b""[..])))));
    }
    engine.apply(1, WriteBatch { writes, ..WriteBatch::default() });
    let open = || ShardHandle::open(ShardId(0), (0, 16383), engine.clone(), Arc::new(RowCache::new(0))).unwrap();
    let counted = |handle: &ShardHandle| {
        let of = handle.cluster_databases();
        of.iter().map(|of| (of.database.number(), of.keys, of.expiring)).collect::<Vec<_>>()
    };
    let handle = open();
    assert_eq!(counted(&handle), [(1, 2, 1), (2, 1, 0)]);
    assert_eq!(handle.expiring(), 3);
    assert_eq!(handle.cluster_database_keys_in_slot(slot_of(b"a"), one), 1);
    engine.seal(handle.facts());
    engine.flush().unwrap();
    assert_eq!(counted(&open()), [(1, 2, 1), (2, 1, 0)], "kept");
    // A release that knows only the oldest of these goes on with the tree.
    let key = Namespace::Cluster(one).stored(b"c");
    let record = Record::new(Kind::STRING, Some(7), &[b"v"]).bytes().clone();
    let writes = vec![
        (Slice::from(keys::record(&key)), Some(record)),
        (Slice::from(keys::expiry(7, &key)), Some(Slice::from(&b""[..]))),
    ];
    engine.apply(2, WriteBatch { writes, ..WriteBatch::default() });
    let counters = handle.facts().into_iter().filter(|(name, _)| **name == *keys::META_COUNTERS);
    engine.seal(counters.collect());
    engine.flush().unwrap();
    let handle = open();
    assert_eq!(counted(&handle), [(1, 3, 2), (2, 1, 0)], "counted anew");
    assert_eq!(handle.expiring(), 4);
    engine.apply(3, WriteBatch::default());
    engine.seal(handle.facts());
    engine.flush().unwrap();
    assert_eq!(counted(&open()), [(1, 3, 2), (2, 1, 0)], "kept");
}
