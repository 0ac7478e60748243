//! Background collection, a step an entry: keys and fields whose time has come, and collections that are gone.

use super::collect_fields::FieldStep;
use super::requests;
use super::writes::EntryWrites;
use crate::Fault;
use crate::format::entry::CollectFrom;
use crate::format::keys;
use storage::Span;
use vocab::limits::{COLLECT_COLLECTIONS_STEP_MAX, COLLECT_STEP_MAX, EXPIRE_STEP_MAX};

/// What a step of collection has left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Collected {
    /// Where the next step begins.
    pub(crate) next: CollectFrom,
    /// There are more keys, or fields, whose time has come.
    pub(crate) more_expired: bool,
    /// There are more rows of collections that are gone.
    pub(crate) more_rows: bool,
}

/// One step of the entry that is version `version`, from `from` on.
pub(super) fn collect(writes: &mut EntryWrites<'_>, from: &CollectFrom, version: u64) -> Result<Collected, Fault> {
    let mut collected = Collected { next: from.clone(), ..Collected::default() };
    let next_expiry = expire(writes, &mut collected)?;
    let fields = FieldStep::new(writes, version).run(&from.fields)?;
    collected.next.fields = fields.next;
    collected.more_expired |= fields.more;
    let next_forgetting = requests::forget(writes)?;
    let next_drop = drop_unfinished(writes)?;
    writes.handle().next_expiry(next_expiry.min(fields.due_ms).min(next_forgetting).min(next_drop));
    drop_collections(writes, &mut collected)?;
    writes.handle().garbage(collected.more_rows);
    Ok(collected)
}

/// Removes keys whose time has come; answers when the next one's will. No key gets an expiry that lies before the time of
/// its entry, so nothing appears before `next.expiry`; but for one that was copied meanwhile (`ShardHandle::expires_behind`).
fn expire(writes: &mut EntryWrites<'_>, collected: &mut Collected) -> Result<u64, Fault> {
    let (start, end) = keys::expiries();
    // Should the clock of entries be put right by going back, it begins again.
    let is_behind = keys::parse_expiry(&collected.next.expiry).is_some_and(|(at_ms, _)| at_ms <= writes.now_ms());
    let start = if is_behind { start.max(collected.next.expiry.clone()) } else { start };
    // One that is not due tells when the next is; behind it there may be many.
    let now_ms = writes.now_ms();
    let is_later = |tree_key: &[u8]| keys::parse_expiry(tree_key).is_some_and(|(at_ms, _)| at_ms > now_ms);
    let due = writes.merged_keys_until(&Span { start, end }, EXPIRE_STEP_MAX, is_later)?;
    let all = due.len() < EXPIRE_STEP_MAX;
    for tree_key in due {
        let Some((at_ms, key)) = keys::parse_expiry(&tree_key) else {
            return Err(Fault::Storage(writes.handle().corrupt("a key of the expiry index cannot be parsed")));
        };
        if at_ms > writes.now_ms() {
            return Ok(at_ms);
        }
        match writes.record(key)? {
            Some(record) if record.view().expire_at_ms == Some(at_ms) => writes.remove(key, &record),
            // The index is kept with the record; a stray key of it is dropped all the same.
            _ => writes.write(&tree_key, None),
        }
        collected.next.expiry = keys::successor(&tree_key);
    }
    collected.more_expired = !all;
    Ok(if all { u64::MAX } else { writes.now_ms() })
}

/// Drops the rows of collections that entries of format 1 have left to be collected: each at once, however many it has.
fn drop_collections(writes: &mut EntryWrites<'_>, collected: &mut Collected) -> Result<(), Fault> {
    let (start, end) = keys::garbages();
    let start = start.max(collected.next.garbage.clone());
    let garbage = writes.merged_keys(&Span { start, end }, COLLECT_COLLECTIONS_STEP_MAX)?;
    // Behind the last one it begins again: others may have been dropped before it meanwhile.
    collected.more_rows = !garbage.is_empty() || !collected.next.garbage.is_empty();
    collected.next.garbage = garbage.last().map(|last| keys::successor(last)).unwrap_or_default();
    for dropped in garbage {
        writes.drop_rows(&keys::rows_of_garbage(&dropped));
        writes.write(&dropped, None);
    }
    Ok(())
}

/// Drops rows that were not whole in time; answers when the next ones' time is over.
fn drop_unfinished(writes: &mut EntryWrites<'_>) -> Result<u64, Fault> {
    let (start, end) = keys::all_staged();
    let now_ms = writes.now_ms();
    let is_later = |tree_key: &[u8]| keys::parse_staged(tree_key).is_some_and(|(until_ms, _)| until_ms > now_ms);
    for tree_key in writes.merged_keys_until(&Span { start, end }, COLLECT_COLLECTIONS_STEP_MAX, is_later)? {
        let Some((until_ms, prefix)) = keys::parse_staged(&tree_key) else {
            return Err(Fault::Storage(writes.handle().corrupt("a key of rows that are being made cannot be parsed")));
        };
        if until_ms > writes.now_ms() {
            return Ok(until_ms);
        }
        writes.drop_rows(prefix);
        writes.write(&tree_key, None);
    }
    Ok(u64::MAX)
}

/// One step as entries of format 1 have it: keys whose time has come, clients that number their requests and have sent
/// none for long, elements of collections that are gone.
pub(super) fn housekeep(writes: &mut EntryWrites<'_>) -> Result<(), Fault> {
    let (start, end) = keys::expiries();
    let due = writes.merged(&Span { start, end }, COLLECT_STEP_MAX)?;
    let mut next = u64::MAX;
    for (tree_key, _) in due {
        let Some((at_ms, key)) = keys::parse_expiry(&tree_key) else {
            return Err(Fault::Storage(writes.handle().corrupt("a key of the expiry index cannot be parsed")));
        };
        if at_ms > writes.now_ms() {
            next = at_ms;
            break;
        }
        next = writes.now_ms();
        match writes.record(key)? {
            Some(record) if record.view().expire_at_ms == Some(at_ms) => writes.remove(key, &record),
            // The index is kept with the record; a stray key of it is dropped all the same.
            _ => writes.write(&tree_key, None),
        }
    }
    let next = next.min(requests::forget(writes)?);
    writes.handle().next_expiry(next);
    collect_garbage(writes)
}

fn collect_garbage(writes: &mut EntryWrites<'_>) -> Result<(), Fault> {
    let (start, end) = keys::garbages();
    let Some((garbage, _)) = writes.merged(&Span { start, end }, 1)?.pop() else {
        writes.handle().garbage(false);
        return Ok(());
    };
    let start = keys::rows_of_garbage(&garbage);
    let end = keys::prefix_end(&start);
    let elements = writes.merged(&Span { start, end }, COLLECT_STEP_MAX)?;
    if elements.len() < COLLECT_STEP_MAX {
        writes.write(&garbage, None);
    }
    for (element, _) in elements {
        writes.write(&element, None);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_shard::{empty_shard, entry};
    use crate::{EntrySpace, Evaluation, Kind, Record, ShardHandle, WriteSpace};
    use std::sync::Arc;
    use vocab::ShardId;

    fn rows(handle: &Arc<ShardHandle>) -> usize {
        let snapshot = handle.engine().snapshot();
        snapshot.iter(Span { start: Vec::new(), end: Vec::new() }, false).count()
    }

    #[test]
    fn keys_are_collected_a_step_an_entry_from_where_the_last_one_ended() {
        let (handle, _folder) = empty_shard(ShardId(1));
        let keys = 3 * EXPIRE_STEP_MAX + 10;
        entry(&handle, 1_000, |space| {
            for n in 0..keys {
                let at = 2_000 + n as u64 % 7;
                space.put(format!("k{n}").as_bytes(), Record::new(Kind::STRING, Some(at), &[b"v"])).unwrap();
            }
            space.put(b"later", Record::new(Kind::STRING, Some(9_000), &[b"v"])).unwrap();
        });
        let mut from = CollectFrom::default();
        let mut steps = 0;
        loop {
            let collected = entry(&handle, 3_000, |space| space.collect(&from).unwrap());
            steps += 1;
            assert!(collected.next.expiry > from.expiry || !collected.more_expired);
            from = collected.next;
            if !collected.more_expired {
                break;
            }
        }
        assert_eq!((steps, handle.key_count(), handle.expiring()), (4, 1, 1));
        assert!(!handle.wants_housekeeping(8_999) && handle.wants_housekeeping(9_000));
        entry(&handle, 9_000, |space| space.collect(&from).unwrap());
        assert_eq!((handle.key_count(), rows(&handle)), (0, 0));
    }

    /// A way to remove a key, and its name.
    type Removal = (&'static str, fn(&mut EntrySpace<'_>));

    /// What an entry hands to the tree does not grow with what it removes.
    #[test]
    fn removing_a_collection_writes_as_much_whatever_its_size() {
        let write = |space: &mut EntrySpace<'_>, expiry: Option<u64>, fields: u64| {
            let rows = space.new_rows(b"k").unwrap();
            for n in 0..fields {
                space.element_put(&rows, format!("{n:08}").as_bytes(), b"v").unwrap();
            }
            space.put(b"k", Record::large(crate::Type::Hash, 1, expiry, &rows.with_count(fields))).unwrap();
        };
        let removals: [Removal; 3] = [
            ("DEL", |space| assert!(space.delete(b"k").unwrap())),
            ("overwriting", |space| space.put(b"k", Record::new(Kind::STRING, None, &[b"v"])).unwrap()),
            ("expiry", |space| _ = space.collect(&CollectFrom::default()).unwrap()),
        ];
        for (what, remove) in removals {
            let costs: Vec<(usize, usize)> = [200, 2_000]
                .into_iter()
                .map(|fields| {
                    let (handle, _folder) = empty_shard(ShardId(1));
                    let expiry = (what == "expiry").then_some(2_000);
                    entry(&handle, 1_000, |space| write(space, expiry, fields));
                    entry(&handle, 3_000, |space| {
                        remove(space);
                        (space.writes().len(), space.dropped())
                    })
                })
                .collect();
            assert_eq!((costs[0], costs[0].1), (costs[1], 1), "{what}");
        }
    }

    #[test]
    fn dropped_collections_go_at_once_and_those_of_format_1_several_a_step() {
        let (handle, _folder) = empty_shard(ShardId(1));
        let large = |space: &mut EntrySpace<'_>, key: &[u8]| {
            let rows = space.new_rows(key).unwrap();
            for n in 0..300 {
                space.element_put(&rows, format!("{n:08}").as_bytes(), b"v").unwrap();
            }
            space.put(key, Record::large(crate::Type::Hash, 1, None, &rows.with_count(300))).unwrap();
        };
        entry(&handle, 1_000, |space| [b"a", b"b"].iter().for_each(|key| large(space, *key)));
        assert_eq!(rows(&handle), 602);
        entry(&handle, 1_000, |space| assert!(space.delete(b"a").unwrap()));
        assert_eq!(rows(&handle), 301);
        entry(&handle, 1_000, |space| {
            space.begin_attempt();
            assert!(space.delete(b"b").unwrap());
            space.end_attempt(false);
        });
        assert_eq!(rows(&handle), 301, "taken back");
        let old = 3 * COLLECT_COLLECTIONS_STEP_MAX;
        let keys: Vec<String> = (0..old).map(|n| format!("old{n}")).collect();
        let index = handle.engine().applied_index() + 1;
        let mut space = EntrySpace::new(&handle, index, 1_000, Evaluation::First);
        for key in &keys {
            let rows = space.new_rows(key.as_bytes()).unwrap();
            space.element_put(&rows, b"e", b"v").unwrap();
            space.put(key.as_bytes(), Record::large(crate::Type::Hash, 1, None, &rows.with_count(1))).unwrap();
        }
        keys.iter().for_each(|key| assert!(space.delete(key.as_bytes()).unwrap()));
        space.commit();
        let (mut from, mut steps) = (CollectFrom::default(), 0);
        loop {
            let collected = entry(&handle, 1_000, |space| space.collect(&from).unwrap());
            (from, steps) = (collected.next, steps + 1);
            if !collected.more_rows {
                break;
            }
        }
        assert_eq!((steps, rows(&handle)), (5, 301), "three steps with work, and one from the beginning on");
        assert!(!handle.wants_housekeeping(u64::MAX - 1));
    }
}
