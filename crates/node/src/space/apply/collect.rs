//! Background collection, a step an entry: keys whose time has come, and collections that are gone.

use super::{EntrySpace, requests};
use crate::Fault;
use crate::format::entry::CollectFrom;
use crate::format::keys;
use std::ops::Bound;
use storage::{Slice, Span};
use vocab::limits::{COLLECT_COLLECTIONS_STEP_MAX, EXPIRE_STEP_MAX};

/// What a step of collection has left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Collected {
    /// Where the next step begins.
    pub(crate) next: CollectFrom,
    /// There are more keys whose time has come.
    pub(crate) more_expired: bool,
    /// There are more rows of collections that are gone.
    pub(crate) more_rows: bool,
}

/// One step, from `from` on.
pub(crate) fn collect(space: &mut EntrySpace<'_>, from: &CollectFrom) -> Result<Collected, Fault> {
    let mut collected = Collected { next: from.clone(), ..Collected::default() };
    let next_expiry = expire(space, &mut collected)?;
    let next_forgetting = requests::forget(space)?;
    let next_drop = drop_unfinished(space)?;
    space.view.next_expiry(next_expiry.min(next_forgetting).min(next_drop));
    drop_collections(space, &mut collected)?;
    space.view.garbage(collected.more_rows);
    Ok(collected)
}

/// Removes keys whose time has come; answers when the next one's will. No key gets an expiry that lies before the time of
/// its entry, so nothing appears before `next.expiry`.
fn expire(space: &mut EntrySpace<'_>, collected: &mut Collected) -> Result<u64, Fault> {
    let (start, end) = keys::expiries();
    // Should the clock of entries be put right by going back, it begins again.
    let is_behind = keys::parse_expiry(&collected.next.expiry).is_some_and(|(at_ms, _)| at_ms <= space.now_ms);
    let start = if is_behind { start.max(collected.next.expiry.clone()) } else { start };
    let due = merged_keys(space, &Span { start, end }, EXPIRE_STEP_MAX)?;
    let all = due.len() < EXPIRE_STEP_MAX;
    for tree_key in due {
        let Some((at_ms, key)) = keys::parse_expiry(&tree_key) else {
            return Err(Fault::Storage(space.view.corrupt("a key of the expiry index cannot be parsed")));
        };
        if at_ms > space.now_ms {
            return Ok(at_ms);
        }
        match space.raw(key)? {
            Some(record) if record.view().expire_at_ms == Some(at_ms) => space.remove(key, &record),
            // The index is kept with the record; a stray key of it is dropped all the same.
            _ => space.write(&tree_key, None),
        }
        collected.next.expiry = following(&tree_key);
    }
    collected.more_expired = !all;
    Ok(if all { u64::MAX } else { space.now_ms })
}

/// Drops the rows of collections that entries of format 1 have left to be collected: each at once, however many it has.
fn drop_collections(space: &mut EntrySpace<'_>, collected: &mut Collected) -> Result<(), Fault> {
    let (start, end) = keys::garbages();
    let start = start.max(collected.next.garbage.clone());
    let garbage = merged_keys(space, &Span { start, end }, COLLECT_COLLECTIONS_STEP_MAX)?;
    // Behind the last one it begins again: others may have been dropped before it meanwhile.
    collected.more_rows = !garbage.is_empty() || !collected.next.garbage.is_empty();
    collected.next.garbage = garbage.last().map(|last| following(last)).unwrap_or_default();
    for dropped in garbage {
        space.drops.push(Slice::from(keys::rows_of_garbage(&dropped)));
        space.write_row(dropped, None);
    }
    Ok(())
}

/// Drops rows that were not whole in time; answers when the next ones' time is over.
fn drop_unfinished(space: &mut EntrySpace<'_>) -> Result<u64, Fault> {
    let (start, end) = keys::all_staged();
    for tree_key in merged_keys(space, &Span { start, end }, COLLECT_COLLECTIONS_STEP_MAX)? {
        let Some((until_ms, prefix)) = keys::parse_staged(&tree_key) else {
            return Err(Fault::Storage(space.view.corrupt("a key of rows that are being made cannot be parsed")));
        };
        if until_ms > space.now_ms {
            return Ok(until_ms);
        }
        space.drops.push(Slice::from(prefix));
        space.write(&tree_key, None);
    }
    Ok(u64::MAX)
}

fn following(tree_key: &[u8]) -> Vec<u8> {
    [tree_key, &[0]].concat()
}

/// Up to `limit` keys of `span`, the tree's with the entry's own writes above them. Reads no values.
fn merged_keys(space: &EntrySpace<'_>, span: &Span, limit: usize) -> Result<Vec<Slice>, Fault> {
    if span.start >= span.end {
        return Ok(Vec::new());
    }
    let snapshot = space.view.snapshot();
    let mut tree = snapshot.cursor(span.clone(), false);
    let range = (Bound::Included(&span.start[..]), Bound::Excluded(&span.end[..]));
    let mut written = space.overlay.range::<[u8], _>(range).peekable();
    let mut found = Vec::new();
    let mut at = tree.advance()?;
    while found.len() < limit {
        let Some(key) = &at else {
            let Some((key, value)) = written.next() else { break };
            found.extend(value.is_some().then(|| key.clone()));
            continue;
        };
        match written.next_if(|(other, _)| *other <= key) {
            Some((other, value)) => {
                found.extend(value.is_some().then(|| other.clone()));
                if other == key {
                    at = tree.advance()?;
                }
            }
            None => {
                found.extend(at.take());
                at = tree.advance()?;
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Evaluation, Kind, Record, ShardView, Space};
    use std::sync::Arc;
    use storage::{EngineKind, RowCache, SharedResources, StorageOptions, open_engine};
    use vocab::ShardId;

    fn shard() -> (Arc<ShardView>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let resources = SharedResources::new(StorageOptions::default());
        let tree = open_engine(EngineKind::Memory, folder.path(), &resources).unwrap();
        (ShardView::open(ShardId(1), (0, 16383), tree, Arc::new(RowCache::new(1 << 20))).unwrap(), folder)
    }

    fn entry<T>(view: &Arc<ShardView>, now_ms: u64, run: impl FnOnce(&mut EntrySpace<'_>) -> T) -> T {
        let index = view.engine().applied_index() + 1;
        let mut space = EntrySpace::new(view, index, now_ms, Evaluation::Second);
        let done = run(&mut space);
        space.commit();
        done
    }

    fn rows(view: &Arc<ShardView>) -> usize {
        let snapshot = view.engine().snapshot();
        snapshot.iter(Span { start: Vec::new(), end: Vec::new() }, false).count()
    }

    #[test]
    fn keys_are_collected_a_step_an_entry_from_where_the_last_one_ended() {
        let (view, _folder) = shard();
        let keys = 3 * EXPIRE_STEP_MAX + 10;
        entry(&view, 1_000, |space| {
            for n in 0..keys {
                let at = 2_000 + n as u64 % 7;
                space.put(format!("k{n}").as_bytes(), Record::new(Kind::STRING, Some(at), &[b"v"])).unwrap();
            }
            space.put(b"later", Record::new(Kind::STRING, Some(9_000), &[b"v"])).unwrap();
        });
        let mut from = CollectFrom::default();
        let mut steps = 0;
        loop {
            let collected = entry(&view, 3_000, |space| collect(space, &from).unwrap());
            steps += 1;
            assert!(collected.next.expiry > from.expiry || !collected.more_expired);
            from = collected.next;
            if !collected.more_expired {
                break;
            }
        }
        assert_eq!((steps, view.key_count(), view.expiring()), (4, 1, 1));
        assert!(!view.wants_housekeeping(8_999) && view.wants_housekeeping(9_000));
        entry(&view, 9_000, |space| collect(space, &from).unwrap());
        assert_eq!((view.key_count(), rows(&view)), (0, 0));
    }

    #[test]
    fn dropped_collections_go_at_once_and_those_of_format_1_several_a_step() {
        let (view, _folder) = shard();
        let large = |space: &mut EntrySpace<'_>, key: &[u8]| {
            let rows = space.new_rows(key).unwrap();
            for n in 0..300 {
                space.element_put(&rows, format!("{n:08}").as_bytes(), b"v").unwrap();
            }
            space.put(key, Record::large_hash(1, None, &rows.with_count(300))).unwrap();
        };
        entry(&view, 1_000, |space| [b"a", b"b"].iter().for_each(|key| large(space, *key)));
        assert_eq!(rows(&view), 602);
        entry(&view, 1_000, |space| assert!(space.delete(b"a").unwrap()));
        assert_eq!(rows(&view), 301);
        entry(&view, 1_000, |space| {
            space.begin_attempt();
            assert!(space.delete(b"b").unwrap());
            space.end_attempt(false);
        });
        assert_eq!(rows(&view), 301, "taken back");
        let old = 3 * COLLECT_COLLECTIONS_STEP_MAX;
        let keys: Vec<String> = (0..old).map(|n| format!("old{n}")).collect();
        let index = view.engine().applied_index() + 1;
        let mut space = EntrySpace::new(&view, index, 1_000, Evaluation::First);
        for key in &keys {
            let rows = space.new_rows(key.as_bytes()).unwrap();
            space.element_put(&rows, b"e", b"v").unwrap();
            space.put(key.as_bytes(), Record::large_hash(1, None, &rows.with_count(1))).unwrap();
        }
        keys.iter().for_each(|key| assert!(space.delete(key.as_bytes()).unwrap()));
        space.commit();
        let (mut from, mut steps) = (CollectFrom::default(), 0);
        loop {
            let collected = entry(&view, 1_000, |space| collect(space, &from).unwrap());
            (from, steps) = (collected.next, steps + 1);
            if !collected.more_rows {
                break;
            }
        }
        assert_eq!((steps, rows(&view)), (5, 301), "three steps with work, and one from the beginning on");
        assert!(!view.wants_housekeeping(u64::MAX - 1));
    }
}
