#![allow(clippy::unwrap_used)]

use super::*;
use storage::{EngineKind, SharedResources, StorageOptions, WriteBatch, open_engine};
use vocab::slot_of;

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
