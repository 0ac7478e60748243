//! Background collection of fields whose time has come, hash by hash in the order in which they are due.

use super::writes::EntryWrites;
use crate::format::element::position_of;
use crate::format::field_expiry::{self, LiveFields, RowExpiries};
use crate::format::keys;
use crate::keyspace_events::Event;
use crate::{Fault, Layout, Record, Type};
use storage::Span;
use vocab::limits::EXPIRE_STEP_MAX;

/// One step of it.
pub(super) struct FieldStep<'w, 'a> {
    writes: &'w mut EntryWrites<'a>,
    /// The version that hashes get.
    version: u64,
    /// How many fields may still be removed.
    left: usize,
}

/// Where a step of collecting fields has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FieldsLeft {
    /// From which tree key on the next step looks.
    pub(super) next: Vec<u8>,
    /// When the next fields are due; the entry's time if there are more by now.
    pub(super) due_ms: u64,
    /// There are more.
    pub(super) more: bool,
}

impl<'w, 'a> FieldStep<'w, 'a> {
    /// A step of the entry that is version `version`.
    pub(super) fn new(writes: &'w mut EntryWrites<'a>, version: u64) -> Self {
        Self { writes, version, left: EXPIRE_STEP_MAX }
    }

    /// Removes fields of the hashes that are due, from a tree key on. A hash is due behind the time of the entry that
    /// wrote it, so nothing appears before where the step ends.
    pub(super) fn run(mut self, from: &[u8]) -> Result<FieldsLeft, Fault> {
        let now_ms = self.writes.now_ms();
        let (start, end) = keys::all_fields_due();
        // Should the clock of entries be put right by going back, it begins again.
        let is_behind = keys::parse_fields_due(from).is_some_and(|(at_ms, _)| at_ms <= now_ms);
        let start = if is_behind { start.max(from.to_vec()) } else { start };
        // As of keys: one that is not due tells when the next is.
        let is_later = |tree_key: &[u8]| keys::parse_fields_due(tree_key).is_some_and(|(at_ms, _)| at_ms > now_ms);
        let due = self.writes.merged_keys_until(&Span { start, end }, EXPIRE_STEP_MAX, is_later)?;
        let more = due.len() == EXPIRE_STEP_MAX;
        let mut next = from.to_vec();
        for tree_key in due {
            let Some((at_ms, key)) = keys::parse_fields_due(&tree_key) else {
                return Err(self.corrupt("a key of the index of fields that are due cannot be parsed"));
            };
            if at_ms > now_ms {
                return Ok(FieldsLeft { next, due_ms: at_ms, more: false });
            }
            let is_done = match self.writes.record(key)? {
                _ if self.left == 0 => false,
                Some(record) if record.view().fields_due_ms() == Some(at_ms) => self.collect(key, &record)?,
                // The index is kept with the record; a stray key of it is dropped all the same.
                _ => {
                    self.writes.write(&tree_key, None);
                    true
                }
            };
            if !is_done {
                return Ok(FieldsLeft { next: tree_key.to_vec(), due_ms: now_ms, more: true });
            }
            next = keys::successor(&tree_key);
        }
        Ok(FieldsLeft { next, due_ms: if more { now_ms } else { u64::MAX }, more })
    }

    /// Removes fields of a hash that is due. False: there are more.
    fn collect(&mut self, key: &[u8], record: &Record) -> Result<bool, Fault> {
        let view = record.view();
        if view.kind.layout == Layout::ExpiringRows {
            return self.collect_rows(key, record);
        }
        let malformed = "a small hash with expiries of fields is malformed";
        let live = LiveFields::at(view.payload, self.writes.now_ms()).map_err(|_| self.corrupt(malformed))?;
        self.left = self.left.saturating_sub(live.expired);
        if live.count().map_err(|_| self.corrupt(malformed))? == 0 {
            self.remove(key, record);
        } else {
            self.writes.put(key, &live.record(self.version, view.expire_at_ms))?;
        }
        Ok(true)
    }

    fn collect_rows(&mut self, key: &[u8], record: &Record) -> Result<bool, Fault> {
        let (view, now_ms) = (record.view(), self.writes.now_ms());
        let (Some(rows), Some(mut expiries)) = (view.rows(key), RowExpiries::decode(view.tail())) else {
            return Err(self.corrupt("the record of a large hash with expiries of fields is malformed"));
        };
        let name = |part: &[u8]| keys::element(&rows.prefix, part);
        let span =
            Span { start: name(&field_expiry::before_time(expiries.first)), end: name(&field_expiry::end_of_times()) };
        // One more than may be removed tells when the next is due.
        let found = self.writes.merged_keys(&span, self.left + 1)?;
        let (mut removed, mut next) = (0, None);
        for row in found {
            let Some((at_ms, element)) = field_expiry::parse_by_time(&row[rows.prefix.len()..]) else {
                return Err(self.corrupt("a row of the fields that expire cannot be parsed"));
            };
            if at_ms > now_ms || removed == self.left {
                next = Some((at_ms, position_of(element).unwrap_or_default()));
                break;
            }
            self.writes.write(&name(&field_expiry::row_by_field(element)), None);
            self.writes.write(&name(element), None);
            self.writes.write(&row, None);
            removed += 1;
            expiries.remove();
        }
        self.left -= removed;
        let is_done = next.is_none_or(|(at_ms, _)| at_ms > now_ms);
        let count = rows.count.saturating_sub(removed as u64);
        if count == 0 {
            self.remove(key, record);
            return Ok(true);
        }
        expiries.first = next.unwrap_or(RowExpiries::NONE.first);
        expiries.due_ms = next.map_or(u64::MAX, |(at_ms, _)| if is_done { at_ms } else { expiries.due_ms });
        let rows = rows.with_count(count);
        let tail = expiries.encode();
        let written = Record::large_with_tail(Type::Hash, self.version, view.expire_at_ms, &rows, &tail);
        self.writes.put(key, &written)?;
        Ok(is_done)
    }

    /// The last field of a hash has expired. What is left of others is told when it is written.
    fn remove(&mut self, key: &[u8], record: &Record) {
        self.writes.remove(key, record);
        self.writes.notify(Event::HEXPIRED, key);
        self.writes.notify(Event::DEL, key);
    }

    fn corrupt(&self, detail: &'static str) -> Fault {
        Fault::Storage(self.writes.handle().corrupt(detail))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::command::{Call, Handler, ReadHandler, handler};
    use crate::format::entry::CollectFrom;
    use crate::test_shard::{empty_shard, entry};
    use crate::{EntrySpace, ReadSpace, ShardHandle};
    use resp::Reply;
    use std::sync::Arc;
    use vocab::ShardId;

    fn run(space: &mut EntrySpace<'_>, text: &str) -> String {
        let args: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        let mut reply = Reply::default();
        match handler(resp::table::lookup(args[0]).unwrap()).unwrap() {
            Handler::Write(run) => run(&mut Call { args: &args, space, reply: &mut reply }).unwrap(),
            Handler::Read(ReadHandler::Keys(run)) => run(&mut Call { args: &args, space, reply: &mut reply }).unwrap(),
            _ => panic!("{text}"),
        }
        String::from_utf8(reply.buf).unwrap()
    }

    fn rows(handle: &Arc<ShardHandle>) -> usize {
        let snapshot = handle.engine().snapshot();
        snapshot.iter(Span { start: Vec::new(), end: Vec::new() }, false).count()
    }

    fn fill(space: &mut EntrySpace<'_>, key: &str, fields: std::ops::Range<usize>, at_ms: Option<u64>) {
        for field in fields {
            match at_ms {
                Some(at_ms) => run(space, &format!("HSETEX {key} PXAT {at_ms} FIELDS 1 f{field} v")),
                None => run(space, &format!("HSET {key} f{field} v")),
            };
        }
    }

    /// Steps at one time until nothing is left: how many.
    fn collect(handle: &Arc<ShardHandle>, now_ms: u64, from: &mut CollectFrom) -> usize {
        for step in 1.. {
            let collected = entry(handle, now_ms, |space| space.collect(from).unwrap());
            *from = collected.next;
            if !collected.more_expired {
                return step;
            }
        }
        0
    }

    #[test]
    fn fields_go_as_their_time_comes_and_the_hash_with_the_last() {
        let (handle, _folder) = empty_shard(ShardId(1));
        let many = 3 * EXPIRE_STEP_MAX;
        entry(&handle, 1_000, |space| {
            fill(space, "large", 0..many, Some(2_000));
            fill(space, "large", many..many + 10, Some(3_000));
            fill(space, "large", many + 10..many + 20, None);
            fill(space, "all", 0..300, Some(2_000));
            fill(space, "small", 0..5, Some(2_000));
            fill(space, "small", 5..6, Some(4_000));
            fill(space, "gone", 0..5, Some(2_500));
        });
        let mut from = CollectFrom::default();
        assert_eq!(collect(&handle, 1_999, &mut from), 1);
        assert!(!handle.wants_housekeeping(1_999) && handle.wants_housekeeping(2_000));
        let told = |space: &mut EntrySpace<'_>, key: &str| run(space, &format!("HLEN {key}"));
        entry(&handle, 2_000, |space| {
            assert_eq!(
                [told(space, "large"), told(space, "all"), told(space, "small")],
                [":20\r\n", ":0\r\n", ":1\r\n"]
            );
            assert_eq!(run(space, "EXISTS all"), ":1\r\n", "until it is collected");
        });
        assert!(collect(&handle, 2_000, &mut from) >= 5, "a bounded number of fields a step");
        entry(&handle, 2_000, |space| {
            let lengths = ["large", "all", "small", "gone"].map(|key| told(space, key));
            assert_eq!(lengths, [":20\r\n", ":0\r\n", ":1\r\n", ":5\r\n"]);
            assert_eq!(run(space, "EXISTS all"), ":0\r\n");
            let large = space.get(b"large").unwrap().unwrap();
            assert_eq!((large.view().rows(b"large").unwrap().count, large.view().fields_due_ms()), (20, Some(3_000)));
            assert!(large.view().version > 1, "its version tells that it was changed");
        });
        // Three records, 20 fields, two rows for each of ten expiries, and when each of three hashes is due.
        assert_eq!((rows(&handle), handle.key_count()), (3 + 20 + 20 + 3, 3));
        collect(&handle, 2_500, &mut from);
        assert_eq!(handle.key_count(), 2);
        // What is moved is looked at, and what is copied although it was due before.
        entry(&handle, 3_500, |space| run(space, "RENAME small moved"));
        entry(&handle, 5_000, |space| run(space, "COPY large copied"));
        collect(&handle, 5_001, &mut from);
        // Two large hashes of ten fields that last.
        assert_eq!((rows(&handle), handle.key_count()), (2 + 20, 2));
        assert!(!handle.wants_housekeeping(u64::MAX - 1));
    }

    #[test]
    fn a_hash_that_goes_leaves_nothing_to_look_at() {
        for removal in ["DEL h", "SET h v", "HPERSIST h FIELDS 2 f0 f1", "HDEL h f0 f1", "HSET h f0 v f1 v"] {
            for fields in [2, 300] {
                let (handle, _folder) = empty_shard(ShardId(1));
                entry(&handle, 1_000, |space| {
                    fill(space, "h", 0..2, Some(2_000));
                    fill(space, "h", 2..fields, None);
                });
                entry(&handle, 1_000, |space| run(space, removal));
                let (start, end) = keys::all_fields_due();
                let snapshot = handle.engine().snapshot();
                assert_eq!(snapshot.iter(Span { start, end }, false).count(), 0, "{removal}, {fields} fields");
                let count = handle.key_count();
                collect(&handle, 9_000, &mut CollectFrom::default());
                assert_eq!(handle.key_count(), count, "{removal}, {fields} fields");
            }
        }
    }
}
