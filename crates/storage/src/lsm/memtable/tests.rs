#![allow(clippy::unwrap_used)]

use super::scan::entries;
use super::*;
use crate::lsm::merge::{Direction, Merge};
use std::collections::BTreeMap;
use vocab::Prng;

/// What was under each key as of each index; `None` where it was removed.
type History = BTreeMap<Vec<u8>, Vec<(u64, Option<Vec<u8>>)>>;

fn key(i: u64) -> Vec<u8> {
    // Some lie inline, some do not.
    format!("{i:0width$}", width = if i.is_multiple_of(3) { 30 } else { 4 }).into_bytes()
}

/// Writes some keys; `lies_below` is said of all of them.
fn write(memtable: &Memtable, history: &mut History, index: u64, prng: &mut Prng, lies_below: bool) -> i64 {
    let keys: std::collections::BTreeSet<_> = (0..=prng.below(6)).map(|_| key(prng.below(40))).collect();
    let mut writes = Vec::new();
    for key in keys {
        let value = (prng.below(4) > 0).then(|| vec![index as u8; prng.below(60) as usize]);
        let kind = if value.is_some() { ValueType::Value } else { ValueType::Tombstone };
        writes.push((Slice::from(&key[..]), Slice::from(value.as_deref().unwrap_or_default()), kind));
        history.entry(key).or_default().push((index, value));
    }
    memtable.apply((index - 1, index), writes, Vec::new(), |_| lies_below, || ())
}

fn expected(history: &History, index: u64) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
    let as_of = |versions: &Vec<(u64, Option<Vec<u8>>)>| versions.iter().rfind(|(at, _)| *at <= index).cloned();
    history.iter().filter_map(|(key, versions)| Some((key.clone(), as_of(versions)?.1))).collect()
}

fn value_of(entry: &InternalValue) -> Option<Vec<u8>> {
    (!entry.key.is_tombstone()).then(|| entry.value.to_vec())
}

/// Gets and scans of the memtable as of `index` are those of the history. If nothing lies below, scans need not show removals.
fn check(memtable: &Arc<Memtable>, history: &History, index: u64, prng: &mut Prng, lies_below: bool) {
    let all = expected(history, index);
    for key in history.keys() {
        assert_eq!(memtable.get(key, index).as_ref().map(value_of), all.get(key).cloned());
    }
    let (start, end) = (key(prng.below(40)), key(prng.below(40)));
    let end = if start < end { end } else { Vec::new() };
    let mut rows: Vec<_> = all.range(start.clone()..).map(|(key, value)| (key.clone(), value.clone())).collect();
    rows.retain(|(key, value)| (end.is_empty() || *key < end) && (lies_below || value.is_some()));
    for reverse in [false, true] {
        let (start, end) = (Slice::from(&start[..]), Slice::from(&end[..]));
        let sources = entries(memtable, &start, &end, index, reverse);
        let direction = if reverse { Direction::Falling { start } } else { Direction::Rising { end } };
        let found: Vec<_> = Merge::new(sources.into_iter(), direction, index + 1)
            .map(|entry| entry.map(|entry| (entry.key.user_key.to_vec(), value_of(&entry))).unwrap())
            .filter(|(_, value)| lies_below || value.is_some())
            .collect();
        assert_eq!(found, rows);
        rows.reverse();
    }
}

#[test]
fn an_event_loop_is_told_that_a_scan_would_keep_it_until_another_thread_has_prepared_it() {
    let memtable = Memtable::new();
    let put = |first: u64, count: u64| {
        let key = |n: u64| Slice::from(format!("key{:08}", n * 7919 % 1_000_003).as_bytes());
        let rows = (first..first + count).map(|n| (key(n), Slice::from("v"), ValueType::Value));
        memtable.apply((first - 1, first), rows.collect(), Vec::new(), |_| true, || ());
    };
    let count = || entries(&memtable, &Slice::empty(), &Slice::empty(), NEWEST, false).map_or(0, Iterator::count);
    let few = u64::from(super::UNORDERED_FEW);
    put(1, few);
    assert!(memtable.scans_at_once());
    super::scan::prepare(&memtable);
    assert_eq!(memtable.ordered.load(Ordering::Relaxed), 0, "no event loop has asked");
    put(few + 1, 5000);
    assert!(!memtable.scans_at_once() && !memtable.scans_at_once());
    super::scan::prepare(&memtable);
    assert!(memtable.scans_at_once());
    let both = few as usize + 5000;
    assert_eq!((count(), memtable.ordered.load(Ordering::Relaxed) as usize), (both, both));
    put(few + 5001, few);
    assert!(memtable.scans_at_once(), "what is new is few");
    assert_eq!(count(), both + few as usize);
    let order = memtable.order.write().unwrap();
    assert!(!memtable.scans_at_once(), "another thread puts rows in order");
    drop(order);
    assert!(memtable.scans_at_once());
}

#[test]
fn every_snapshot_sees_what_there_was_at_its_index() {
    let (seeds, end) = if cfg!(miri) { (1, 40) } else { (30, 200) };
    for seed in 0..seeds {
        let (mut prng, lies_below) = (Prng::new(seed), seed % 2 == 0);
        let (memtable, mut history) = (Memtable::new(), History::new());
        let mut holds: Vec<Hold> = Vec::new();
        let mut bytes = 0;
        for index in 1..end {
            bytes += write(&memtable, &mut history, index, &mut prng, lies_below);
            assert!(bytes > 0);
            if prng.below(3) == 0 {
                holds.push(memtable.hold(|| index));
            }
            while holds.len() > 3 {
                holds.swap_remove(prng.below(4) as usize);
            }
            if prng.below(4) == 0 {
                for hold in &holds {
                    check(&memtable, &history, hold.index(), &mut prng, lies_below);
                }
                check(&memtable, &history, NEWEST, &mut prng, lies_below);
            }
        }
        assert_eq!(memtable.len(), history.len());
    }
}

#[test]
fn removals_are_counted_while_something_may_lie_below() {
    for lies_below in [false, true] {
        let memtable = Memtable::new();
        let kinds = [
            // Nothing else of the key is here: it lies below.
            (ValueType::Tombstone, 1),
            (ValueType::Tombstone, 1),
            (ValueType::Value, 0),
            (ValueType::Tombstone, u64::from(lies_below)),
            (ValueType::Tombstone, u64::from(lies_below)),
            (ValueType::Value, 0),
        ];
        for (before, (kind, removals)) in kinds.into_iter().enumerate() {
            let (before, row) = (before as u64, (Slice::from("k"), Slice::empty(), kind));
            memtable.apply((before, before + 1), vec![row], Vec::new(), |_| lies_below, || ());
            assert_eq!(memtable.removals(), removals, "entry {}, {lies_below}", before + 1);
            // A removal of nothing takes room too.
            let is_value = kind == ValueType::Value;
            assert_eq!(memtable.kept_rows(), u64::from(is_value), "entry {}, {lies_below}", before + 1);
            assert_eq!(memtable.removed_bytes() == 0, is_value, "entry {}, {lies_below}", before + 1);
        }
    }
}

#[test]
fn a_scan_does_not_pass_over_rows_that_are_gone() {
    let count = 2000;
    for lies_below in [false, true] {
        let memtable = Memtable::new();
        let mut index = 0;
        let mut write = |n: u64, kind| {
            index += 1;
            let row = (Slice::from(&n.to_be_bytes()[..]), Slice::empty(), kind);
            memtable.apply((index - 1, index), vec![row], Vec::new(), |_| lies_below, || ());
        };
        let passed = || entries(&memtable, &Slice::empty(), &Slice::empty(), NEWEST, false).map_or(0, Iterator::count);
        (0..count).for_each(|n| write(n, ValueType::Value));
        assert_eq!(passed() as u64, count);
        // One at a time, and many between two scans.
        (0..10).for_each(|n| write(n, ValueType::Tombstone));
        assert_eq!(passed() as u64, count - if lies_below { 0 } else { 10 });
        // Over the boundaries of the order's parts.
        for n in (10..count / 2).filter(|n| n % 5 < 4) {
            write(n, ValueType::Tombstone);
            passed();
        }
        for n in (10..count / 4).step_by(3) {
            write(n, ValueType::Value);
            passed();
        }
        (10..count).for_each(|n| write(n, ValueType::Tombstone));
        assert_eq!(passed() as u64, if lies_below { count } else { 0 });
        (5..20).for_each(|n| write(n, ValueType::Value));
        write(7, ValueType::Tombstone);
        assert_eq!(passed() as u64, if lies_below { count } else { 14 });
        assert!(memtable.get(&7u64.to_be_bytes(), NEWEST).unwrap().key.is_tombstone());
    }
}

#[test]
fn without_snapshots_a_key_that_is_written_again_keeps_one_value() {
    let memtable = Memtable::new();
    let put = |index| {
        let row = (Slice::from("key"), Slice::from(vec![7; 1000]), ValueType::Value);
        memtable.apply((index - 1, index), vec![row], Vec::new(), |_| true, || ())
    };
    let first = put(1);
    assert!(first > 1000);
    assert!((2..100).all(|index| put(index) < 100));
    let hold = memtable.hold(|| 99);
    assert!(put(100) > 1000, "the snapshot's value stays");
    assert!(put(101) < 100, "no snapshot sees that of entry 100");
    drop(hold);
    assert!(put(102) < 0, "both go");
    assert_eq!(memtable.len(), 1);
}

#[test]
#[cfg_attr(miri, ignore = "so many rows take miri too long")]
fn a_walk_goes_on_while_rows_come_between() {
    let mut prng = Prng::new(7);
    let memtable = Memtable::new();
    let mut rows = std::collections::BTreeSet::new();
    // Some differ in their first bytes, some only far behind them.
    let any = |prng: &mut Prng| match prng.below(3) {
        0 => prng.below(1 << 20).to_be_bytes()[4..].to_vec(),
        1 => format!("a long beginning that all of them have in common {:05}", prng.below(20_000)).into_bytes(),
        _ => vec![0; prng.below(40) as usize + 1],
    };
    let mut index = 0;
    let mut write = |rows: &mut std::collections::BTreeSet<Vec<u8>>, prng: &mut Prng| {
        index += 1;
        let key = any(prng);
        let row = (Slice::from(&key[..]), Slice::from(&b"v"[..]), ValueType::Value);
        memtable.apply((index - 1, index), vec![row], Vec::new(), |_| true, || ());
        rows.insert(key);
        index
    };
    for rounds in [3000, 40, 1, 400, 5000, 7] {
        let mut last = 0;
        for _ in 0..rounds {
            last = write(&mut rows, &mut prng);
        }
        let hold = memtable.hold(|| last);
        let then = rows.clone();
        for reverse in [false, true] {
            let (a, b) = (any(&mut prng), any(&mut prng));
            let (start, end) = if a < b { (a, b) } else { (b, Vec::new()) };
            let mut expected: Vec<_> = then.range(start.clone()..).cloned().collect();
            expected.retain(|key| end.is_empty() || *key < end);
            if reverse {
                expected.reverse();
            }
            let walk = entries(&memtable, &Slice::from(&start[..]), &Slice::from(&end[..]), hold.index(), reverse);
            let mut found = Vec::new();
            for entry in walk.into_iter().flatten() {
                found.push(entry.unwrap().key.user_key.to_vec());
                if prng.below(4) == 0 {
                    write(&mut rows, &mut prng);
                    // Another reader scans, so that they are put in order.
                    entries(&memtable, &Slice::empty(), &Slice::empty(), hold.index(), false);
                }
            }
            assert_eq!(found, expected);
        }
        drop(hold);
    }
    assert_eq!(memtable.len(), rows.len());
}

#[test]
fn a_reader_between_the_parts_of_a_long_entry_sees_nothing_of_it() {
    let memtable = Memtable::new();
    let count = 3 * super::LOCKED_ROWS_MAX as u64 + 7;
    let key = |n: u64| Slice::from(&n.to_be_bytes()[..]);
    let rows =
        |keys: std::ops::Range<u64>| keys.map(|n| (key(n), Slice::from("v"), ValueType::Value)).collect::<Vec<_>>();
    memtable.apply((0, 1), rows(0..count), Vec::new(), |_| true, || ());
    let (published, hold) = (AtomicBool::new(false), memtable.hold(|| 1));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            memtable.apply(
                (1, 2),
                rows(0..2 * count),
                Vec::new(),
                |_| true,
                || published.store(true, Ordering::SeqCst),
            );
        });
        let mut prng = Prng::new(5);
        let mut last = false;
        while !last {
            last = published.load(Ordering::SeqCst);
            let n = prng.below(2 * count);
            let seen = |index| memtable.get(&key(n), index).map(|row| row.key.seqno);
            let newest = seen(NEWEST);
            // What is seen of the entry was published by then.
            assert!(newest != Some(2) || published.load(Ordering::SeqCst), "{n}");
            assert!(!last || newest == Some(2), "{n} is missing");
            assert_eq!(seen(hold.index()), (n < count).then_some(1), "the snapshot's row {n}");
        }
    });
    assert_eq!(memtable.held_count.load(Ordering::Relaxed), 1, "only the snapshot is left");
}
