#![allow(clippy::unwrap_used)]
use crate::Slice;
use crate::cache::{FillMode, PutMode, RowCache};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vocab::Prng;

const MIB: usize = 1024 * 1024;

#[test]
fn what_is_put_or_filled_is_found_until_it_is_removed() {
    let cache = RowCache::new(8 * MIB);
    let stamp = cache.get(1, b"a").unwrap_err();
    assert!(cache.fill(1, b"a", b"one", stamp, FillMode::Again));
    assert_eq!(cache.get(1, b"a").unwrap(), b"one");
    assert_eq!(cache.get_with(1, b"a", <[u8]>::len).unwrap(), 3);
    assert!(cache.get(2, b"a").is_err(), "another shard's");
    cache.put(1, b"a", Some(&"two".into()), PutMode::Update);
    cache.put(1, b"b", Some(&"two".into()), PutMode::Update);
    assert_eq!(cache.get(1, b"a").unwrap(), b"two");
    assert!(cache.get(1, b"b").is_err(), "an update does not bring in");
    cache.put(1, b"b", Some(&"two".into()), PutMode::Allocate);
    assert_eq!(cache.get(1, b"b").unwrap(), b"two");
    cache.put(1, b"b", None, PutMode::Allocate);
    assert!(cache.get(1, b"b").is_err());
    cache.put(1, b"empty", Some(&"".into()), PutMode::Allocate);
    assert_eq!(cache.get(1, b"empty").unwrap(), b"");
    assert_eq!(cache.stats().rows, 2);
}

#[test]
fn a_fill_from_before_a_put_or_a_clear_is_refused() {
    let cache = RowCache::new(8 * MIB);
    let stamp = cache.stamp(1, b"a");
    cache.put(1, b"a", Some(&"new".into()), PutMode::Update);
    assert!(!cache.fill(1, b"a", b"old", stamp, FillMode::Always));
    let stamp = cache.stamp(1, b"a");
    cache.clear_shard(1);
    assert!(!cache.fill(1, b"a", b"old", stamp, FillMode::Always));
    cache.put(1, b"a", Some(&"new".into()), PutMode::Allocate);
    cache.put(2, b"a", Some(&"other".into()), PutMode::Allocate);
    cache.clear_shard(1);
    assert!(cache.get(1, b"a").is_err());
    assert_eq!(cache.get(2, b"a").unwrap(), b"other");
}

#[test]
#[cfg_attr(miri, ignore = "so many rows take miri too long, and no unsafe code is theirs")]
fn it_never_holds_more_than_it_may_and_keeps_what_is_hit() {
    let cache = RowCache::new(8 * MIB);
    let mut prng = Prng::new(3);
    for i in 0..100_000u64 {
        let value = Slice::from(vec![7; prng.below(2000) as usize]);
        cache.put(0, &i.to_le_bytes(), Some(&value), PutMode::Allocate);
        assert!(cache.get(0, &(i % 100).to_le_bytes()).is_ok() || i > 30_000, "a hot row went at {i}");
        if i % 1000 == 0 {
            let stats = cache.stats();
            assert!(stats.bytes <= stats.bytes_max, "{stats:?}");
        }
    }
    let hot = (0..100u64).filter(|i| cache.get(0, &i.to_le_bytes()).is_ok()).count();
    assert!(hot > 90, "{hot} of 100 hot rows are left");
    let full = cache.stats();
    assert!(full.bytes > 7 * MIB as u64, "{full:?}");
    cache.resize(MIB);
    let small = cache.stats();
    assert!(small.bytes <= MIB as u64 && small.rows > 100, "{small:?}");
    cache.resize(0);
    assert_eq!((cache.stats().rows, cache.stats().bytes), (0, 0));
    cache.put(0, b"a", Some(&"b".into()), PutMode::Allocate);
    assert!(cache.get(0, b"a").is_err());
}

/// A segment of this cache takes 2 KiB, and all long values have 2 MiB.
#[test]
fn a_long_value_is_kept_once_it_is_known_and_others_have_what_it_leaves() {
    let cache = RowCache::new(8 * MIB);
    let long = |n: u8, bytes: usize| Slice::from(vec![n; bytes]);
    let found = |key: &[u8]| cache.get(1, key).ok().map(|value| (value[0], value.len()));
    for (n, is_found) in [(1, false), (2, true), (3, true)] {
        cache.put(1, b"a", Some(&long(n, MIB)), PutMode::Allocate);
        assert_eq!((found(b"a"), cache.likely_bytes(1, b"a")), (is_found.then_some((n, MIB)), Some(MIB)));
    }
    let fill = |key: &[u8], n, bytes| cache.fill(1, key, &long(n, bytes), cache.stamp(1, key), FillMode::Again);
    assert!(!fill(b"b", 4, MIB / 2) && fill(b"b", 4, MIB / 2));
    assert_eq!((found(b"a"), found(b"b")), (Some((3, MIB)), Some((4, MIB / 2))));
    let stamp = cache.stamp(1, b"b");
    cache.put(1, b"b", Some(&"short".into()), PutMode::Allocate);
    assert!(!cache.fill(1, b"b", &long(4, MIB / 2), stamp, FillMode::Again) && found(b"b") == Some((b's', 5)));
    // The third has no room beside the first.
    assert!(!fill(b"c", 5, 3 * MIB / 2) && fill(b"c", 5, 3 * MIB / 2));
    assert_eq!((found(b"a"), found(b"c")), (None, Some((5, 3 * MIB / 2))));
    assert!(!fill(b"d", 6, 3 * MIB) && !fill(b"d", 6, 3 * MIB), "it is longer than all may be");
    for n in 0..20_000u32 {
        cache.put(1, &n.to_le_bytes(), Some(&long(1, 1000)), PutMode::Allocate);
    }
    let full = cache.stats();
    assert!(full.bytes <= full.bytes_max && full.bytes > 7 * MIB as u64 && found(b"c").is_some(), "{full:?}");
    cache.clear_shard(1);
    assert_eq!((found(b"c"), cache.likely_bytes(1, b"c")), (None, None));
    cache.put(1, b"c", None, PutMode::Allocate);
    cache.put(1, b"e", Some(&long(1, MIB)), PutMode::Update);
    cache.put(1, b"e", Some(&long(1, MIB)), PutMode::Update);
    assert!(found(b"e").is_none(), "an update brings none in");
    cache.resize(0);
    assert_eq!(cache.stats().bytes, 0);
}

#[test]
#[cfg_attr(miri, ignore = "so many rows take miri too long, and no unsafe code is theirs")]
fn once_it_is_full_a_row_comes_in_that_is_read_again_soon() {
    let cache = RowCache::new(16 * MIB);
    let fill = |i: u64, mode| match cache.get(0, &i.to_le_bytes()) {
        Ok(_) => true,
        Err(stamp) => cache.fill(0, &i.to_le_bytes(), &[7; 1000], stamp, mode),
    };
    let taken = (0..50_000).filter(|i| fill(*i, FillMode::Again)).count() as u64;
    let rows = cache.stats().rows;
    assert!(taken < 20_000 && rows > 10_000, "{taken} of 50,000 taken, {rows} held");
    for i in 60_000..60_100 {
        assert!(fill(i, FillMode::Always), "{i} would be looked up at once");
    }
    let again = (70_000..70_100).filter(|i| !fill(*i, FillMode::Again) && fill(*i, FillMode::Again)).count();
    assert!(again > 95, "{again} of 100 came in with the second read");
}

#[test]
fn a_huge_value_is_not_cached_and_its_old_self_goes() {
    let cache = RowCache::new(8 * MIB);
    cache.put(0, b"a", Some(&"small".into()), PutMode::Allocate);
    cache.put(0, b"a", Some(&vec![0; 64 * 1024].into()), PutMode::Allocate);
    assert!(cache.get(0, b"a").is_err());
}

/// A tree of one word a key, written by one thread and read by others as a node would: no reader may see a value go
/// back, nor one older than what was acknowledged before the read began.
#[test]
fn readers_never_see_a_value_go_back() {
    const KEYS: usize = 4;
    const VERSIONS: u64 = if cfg!(miri) { 50 } else { 100_000 };
    let cache = RowCache::new(MIB);
    let tree: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let acknowledged: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (cache, tree, acknowledged, stop) = (&cache, &tree, &acknowledged, &stop);
            scope.spawn(move || {
                let mut prng = Prng::new(reader);
                while !stop.load(Ordering::Relaxed) {
                    let at = prng.below(KEYS as u64) as usize;
                    let key = [at as u8];
                    let least = acknowledged[at].load(Ordering::SeqCst);
                    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
                    let seen = cache.get_with(0, &key, word).unwrap_or_else(|stamp| {
                        let value = tree[at].load(Ordering::SeqCst);
                        std::hint::black_box(stamp);
                        cache.fill(0, &key, &value.to_le_bytes(), stamp, FillMode::Always);
                        value
                    });
                    assert!(seen >= least, "read {seen} after {least} was acknowledged");
                }
            });
        }
        let mut prng = Prng::new(9);
        for version in 1..VERSIONS {
            let at = prng.below(KEYS as u64) as usize;
            tree[at].store(version, Ordering::SeqCst);
            match prng.below(10) {
                0 => cache.clear_shard(0),
                1 => cache.put(0, &[at as u8], None, PutMode::Allocate),
                2..6 => cache.put(0, &[at as u8], Some(&version.to_le_bytes().into()), PutMode::Update),
                _ => cache.put(0, &[at as u8], Some(&version.to_le_bytes().into()), PutMode::Allocate),
            }
            acknowledged[at].store(version, Ordering::SeqCst);
        }
        stop.store(true, Ordering::Relaxed);
    });
}
