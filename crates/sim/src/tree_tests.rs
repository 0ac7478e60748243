//! Trees against crashes, full disks and forks.

#![allow(clippy::unwrap_used)]
use super::*;

const SHARD: ShardId = ShardId(1);

fn put(tree: &Tree, index: u64, key: &str, value: Option<&str>) {
    let value = value.map(|text| Slice::from(text.as_bytes()));
    tree.apply(index, WriteBatch { writes: vec![(Slice::from(key.as_bytes()), value)], ..WriteBatch::default() });
}

fn text(snapshot: &dyn Snapshot, reverse: bool) -> String {
    let rows = snapshot.iter(Span { start: b"b".to_vec(), end: b"d".to_vec() }, reverse);
    let rows = rows.map(|row| row.unwrap());
    rows.map(|(k, v)| format!("{}={} ", String::from_utf8_lossy(&k), String::from_utf8_lossy(&v))).collect()
}

#[test]
fn a_crash_leaves_what_was_flushed() {
    let folders = Folders::default();
    let files = folders.of(SHARD);
    let open = || Tree::open(&folders, SHARD, Flaw::None);
    let tree = open().unwrap();
    for (index, key) in [(1, "a"), (2, "b"), (3, "c")] {
        put(&tree, index, key, Some("1"));
    }
    tree.seal(vec![(Slice::from(&b"m"[..]), Slice::from(&b"3"[..]))]);
    put(&tree, 4, "b", None);
    put(&tree, 5, "c", Some("2"));
    let old = tree.snapshot();
    files.lock().set_medium(Medium::Full);
    assert!(matches!(tree.flush(), Err(Error::Full { .. })));
    files.lock().set_medium(Medium::Sound);
    tree.flush().unwrap();
    put(&tree, 6, "c", None);
    assert_eq!((tree.applied_index(), tree.flushed_index()), (6, 3));
    assert_eq!((text(&*old, false), text(&*tree.snapshot(), false)), ("c=2 ".to_owned(), String::new()));
    drop(tree);
    let tree = open().unwrap();
    assert_eq!((tree.applied_index(), text(&*tree.snapshot(), true)), (3, "c=1 b=1 ".to_owned()));
    assert_eq!(&tree.meta(b"m").unwrap().unwrap()[..], b"3");
    tree.clear(7, Vec::new(), Vec::new()).unwrap();
    assert_eq!((tree.flushed_index(), text(&*tree.snapshot(), false)), (7, String::new()));
    put(&tree, 8, "a", Some("1"));
    tree.seal(Vec::new());
    files.lock().set_medium(Medium::Failing);
    assert!(matches!(tree.flush(), Err(Error::Io { .. })));
    files.lock().set_medium(Medium::Sound);
    assert!(matches!(tree.flush(), Err(Error::Poisoned { .. })));
    let mut rows = open().unwrap().ingest().unwrap();
    rows.put(Slice::from(&b"c"[..]), Slice::from(&b"9"[..])).unwrap();
    assert!(rows.put(Slice::from(&b"b"[..]), Slice::from(&b"9"[..])).is_err());
    let tree = open().unwrap();
    let rows = rows.finish(20, Vec::new()).unwrap();
    files.lock().set_medium(Medium::Short(24));
    let refused = tree.install(rows).unwrap_err();
    assert!(refused.error.is_passing() && text(&*tree.snapshot(), false).is_empty());
    files.lock().set_medium(Medium::Sound);
    tree.install(refused.rows.unwrap()).unwrap();
    assert_eq!(
        (tree.applied_index(), tree.flushed_index(), text(&*tree.snapshot(), false)),
        (20, 20, "c=9 ".to_owned())
    );
    assert!(files.lock().damage());
    assert!(matches!(open(), Err(Error::Corrupt { .. })));
}

#[test]
fn a_fork_is_whole_or_not_there() {
    let folders = Folders::default();
    let child = || Tree::open(&folders, ShardId(2), Flaw::None).unwrap();
    let keep: Keep = Arc::new(|key| key == b"b");
    for (flaw, rows) in [(Flaw::None, "b=1 c=2 "), (Flaw::ForgetsLast, "b=1 c=1 ")] {
        let tree = Tree::open(&folders, SHARD, flaw).unwrap();
        for (index, key, value) in [(1, "b", "1"), (2, "c", "1"), (3, "c", "2")] {
            put(&tree, index, key, Some(value));
        }
        let fork = || tree.fork(&Folders::path(ShardId(2)), 4, vec![(Slice::from("m"), Slice::from("4"))], &keep);
        tree.seal(Vec::new());
        folders.each(|files| files.set_medium(Medium::Full));
        assert!(matches!(fork(), Err(Error::Full { .. })));
        assert_eq!(child().applied_index(), 0);
        folders.each(|files| files.set_medium(Medium::Sound));
        let forked = fork().unwrap();
        assert!(matches!(fork(), Err(Error::Mismatch { .. })));
        assert_eq!((tree.flushed_index(), forked.flushed_index()), (3, 4));
        assert_eq!((text(&*forked.snapshot(), false), text(&*child().snapshot(), false)), (rows.into(), rows.into()));
        assert_eq!(child().meta(b"m").unwrap().unwrap()[..], b"4"[..]);
        forked.keep_only(keep.clone());
        let sizes = |of: &dyn Engine| (of.stats().is_halved, of.stats().wanted_bytes() / ROW_BYTES);
        // As it is found after a crash, too.
        assert_eq!((sizes(&tree), sizes(&*forked), sizes(&child())), ((true, 1), (true, 1), (true, 1)));
        forked.purge().unwrap();
        assert_eq!((sizes(&tree), sizes(&*forked)), ((true, 1), (false, 1)));
        assert_eq!(
            (text(&*forked.snapshot(), false), text(&*tree.snapshot(), false)),
            ("b=1 ".into(), "b=1 c=2 ".into())
        );
        folders.remove(ShardId(2));
        folders.remove(SHARD);
    }
}
