//! The beginning of a stream, for `basalt inspect`: its first entries and groups, and of each group the first consumers
//! and pending entries.

use super::group::{Consumer, Group, NameWalk, Pending};
use super::meta::Ordinal;
use super::names;
use super::pending::ConsumerNames;
use super::stored::Stream;
use crate::command::call::{Error, Outcome};
use crate::{ReadSpace, Record};

/// The beginning of a stream. It holds the first of what there are more of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamExcerpt {
    /// The highest id of all entries that there were.
    pub last_id: String,
    /// How many entries were ever added, as XSETID may have it.
    pub added: u64,
    /// How many entries there are.
    pub length: u64,
    /// The first entries, in order.
    pub entries: Vec<StreamEntry>,
    /// How many groups there are.
    pub group_count: u64,
    /// The first groups, in the order of their names.
    pub groups: Vec<StreamGroup>,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// Its id.
    pub id: String,
    /// Fields and values in turn.
    pub strings: Vec<Vec<u8>>,
}

/// The beginning of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamGroup {
    /// Its name.
    pub name: Vec<u8>,
    /// The highest id that was delivered.
    pub last_id: String,
    /// How many entries were read, counted from the first that was ever added; `None` if that is not known.
    pub read: Option<u64>,
    /// How many consumers there are.
    pub consumer_count: u64,
    /// The first consumers, in the order of their names.
    pub consumers: Vec<StreamConsumer>,
    /// How many entries are pending.
    pub pending_count: u64,
    /// The first pending entries, in the order of their ids.
    pub pending: Vec<StreamPending>,
}

/// A consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamConsumer {
    /// Its name.
    pub name: Vec<u8>,
    /// How many entries are pending for it.
    pub pending: u64,
    /// When it last asked, in ms since the epoch.
    pub seen_ms: u64,
    /// When it last got something, in ms since the epoch.
    pub active_ms: Option<u64>,
}

/// An entry that was delivered and is not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPending {
    /// Its id.
    pub id: String,
    /// For which consumer it is pending; `None` if XNACK has released it.
    pub consumer: Option<Vec<u8>>,
    /// When it was last delivered, in ms since the epoch; 0 if it has been released.
    pub delivered_ms: u64,
    /// How often it was delivered.
    pub deliveries: u64,
}

/// The beginning of the stream whose record was read at `key`: at most `most` of its entries, of its groups, and of the
/// consumers and the pending entries of each group. An error also if there are fewer of them than are counted.
pub(crate) fn excerpt_of(
    space: &mut dyn ReadSpace,
    key: &[u8],
    record: &Record,
    most: usize,
) -> Result<StreamExcerpt, Error> {
    let stream = Stream::of(key, record)?;
    let entries = first_entries(space, &stream, most)?;
    let groups = first_groups(space, &stream, most)?;
    let meta = &stream.meta;
    Ok(StreamExcerpt {
        last_id: meta.last_id.to_string(),
        added: meta.added,
        length: meta.length,
        entries,
        group_count: meta.groups,
        groups,
    })
}

fn first_entries(space: &mut dyn ReadSpace, stream: &Stream<'_>, most: usize) -> Result<Vec<StreamEntry>, Error> {
    let (mut at, mut entries) = (stream.meta.first, Vec::new());
    let wanted = stream.meta.length.min(most as u64);
    while (entries.len() as u64) < wanted {
        let found = stream.live_from(space, at, stream.meta.next)?;
        let (ordinal, entry) = found.ok_or_else(|| stream.corrupt("stream with fewer entries than its length"))?;
        let strings = entry.strings().map_err(|why| stream.malformed(why))?;
        let strings = strings.into_iter().map(<[u8]>::to_vec).collect();
        entries.push(StreamEntry { id: entry.id.to_string(), strings });
        at = Ordinal(ordinal.0 + 1);
    }
    Ok(entries)
}

fn first_groups(space: &mut dyn ReadSpace, stream: &Stream<'_>, most: usize) -> Result<Vec<StreamGroup>, Error> {
    let mut groups = Vec::new();
    let wanted = stream.meta.groups.min(most as u64);
    each_row(space, stream, names::GROUPS, wanted, |space, row_name, row| {
        let name = names::name_behind(row_name, names::GROUPS);
        let name = name.ok_or_else(|| stream.corrupt("group without a name"))?;
        let group = Group::decode(row).map_err(|why| stream.malformed(why))?;
        groups.push(StreamGroup {
            name: name.to_vec(),
            last_id: group.last_id.to_string(),
            read: group.read,
            consumer_count: group.consumers,
            consumers: first_consumers(space, stream, &group, most)?,
            pending_count: group.pending,
            pending: first_pending(space, stream, &group, most)?,
        });
        Ok(())
    })?;
    Ok(groups)
}

fn first_consumers(
    space: &mut dyn ReadSpace,
    stream: &Stream<'_>,
    group: &Group,
    most: usize,
) -> Result<Vec<StreamConsumer>, Error> {
    let mut consumers = Vec::new();
    let prefix = names::consumers(group.id);
    each_row(space, stream, &prefix, group.consumers.min(most as u64), |_, row_name, row| {
        let name = names::name_behind(row_name, &prefix);
        let name = name.ok_or_else(|| stream.corrupt("consumer without a name"))?;
        let Consumer { seen_ms, active_ms, pending, .. } =
            Consumer::decode(row).map_err(|why| stream.malformed(why))?;
        consumers.push(StreamConsumer { name: name.to_vec(), pending, seen_ms, active_ms });
        Ok(())
    })?;
    Ok(consumers)
}

fn first_pending(
    space: &mut dyn ReadSpace,
    stream: &Stream<'_>,
    group: &Group,
    most: usize,
) -> Result<Vec<StreamPending>, Error> {
    let (mut consumers, mut all) = (ConsumerNames::new(), Vec::new());
    let prefix = names::all_pending(group.id);
    each_row(space, stream, &prefix, group.pending.min(most as u64), |space, row_name, row| {
        let id = names::id_of(row_name).ok_or_else(|| stream.corrupt("pending entry without an id"))?;
        let pending = Pending::decode(row).map_err(|why| stream.malformed(why))?;
        let consumer = if pending.is_released() {
            None
        } else {
            Some(consumers.get(space, stream, group, pending.consumer)?.to_vec())
        };
        let Pending { delivered_ms, deliveries, .. } = pending;
        all.push(StreamPending { id: id.to_string(), consumer, delivered_ms, deliveries });
        Ok(())
    })?;
    Ok(all)
}

/// Gives the names and the bytes of the first `wanted` rows whose names begin so to `visit`; some are read at a time.
fn each_row(
    space: &mut dyn ReadSpace,
    stream: &Stream<'_>,
    prefix: &[u8],
    wanted: u64,
    mut visit: impl FnMut(&mut dyn ReadSpace, &[u8], &[u8]) -> Outcome,
) -> Outcome {
    let Some(rows) = stream.rows() else { return Ok(()) };
    let (mut walk, mut left) = (NameWalk::new(prefix.to_vec()), wanted);
    while left > 0
        && let Some(found) = walk.next(space, rows)?
    {
        for (name, row) in found.into_iter().take(left as usize) {
            visit(space, &name, &row)?;
            left -= 1;
        }
    }
    if left > 0 {
        return Err(stream.corrupt("stream with fewer groups, consumers or pending entries than are counted"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::command::testspace::{START_MS, TestSpace, answer};

    /// A space after these commands.
    fn space_after(lines: &[&str]) -> TestSpace {
        let mut space = TestSpace::new();
        for line in lines {
            let found = answer(&mut space, &line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
            assert!(!matches!(found, resp::Value::Error(_)), "{line}: {found:?}");
        }
        space
    }

    fn excerpt(space: &mut TestSpace, most: usize) -> StreamExcerpt {
        let record = space.get(b"s").unwrap().unwrap();
        excerpt_of(space, b"s", &record, most).unwrap()
    }

    #[test]
    fn a_small_stream_has_entries_and_no_groups() {
        let mut space = space_after(&["XADD s 1-1 f v", "XADD s 2-1 f v g w"]);
        let all = excerpt(&mut space, usize::MAX);
        let entry = |id: &str, strings: &[&str]| StreamEntry {
            id: id.to_owned(),
            strings: strings.iter().map(|string| string.as_bytes().to_vec()).collect(),
        };
        assert_eq!(all.entries, [entry("1-1", &["f", "v"]), entry("2-1", &["f", "v", "g", "w"])]);
        assert_eq!((&all.last_id[..], all.added, all.length, all.group_count), ("2-1", 2, 2, 0));
        let first = excerpt(&mut space, 1);
        assert_eq!((first.entries.len(), first.length), (1, 2));
    }

    #[test]
    fn each_part_of_a_large_stream_is_bounded_and_counted() {
        let mut lines: Vec<String> = (1..=40).map(|n| format!("XADD s {n}-0 n {n}")).collect();
        let then = [
            "XDEL s 2-0",
            "XGROUP CREATE s readers 0",
            "XGROUP CREATE s others $",
            "XREADGROUP GROUP readers alice COUNT 3 STREAMS s >",
            "XREADGROUP GROUP readers bob COUNT 2 STREAMS s >",
            "XNACK s readers FAIL IDS 1 3-0",
        ];
        lines.extend(then.map(str::to_owned));
        let mut space = space_after(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let first = excerpt(&mut space, 2);
        let ids: Vec<&str> = first.entries.iter().map(|entry| &entry.id[..]).collect();
        assert_eq!((&ids[..], first.length, first.group_count), (&["1-0", "3-0"][..], 39, 2));
        let [others, readers] = &first.groups[..] else { panic!("{:?}", first.groups) };
        assert_eq!((&others.name[..], &others.last_id[..], others.consumer_count), (&b"others"[..], "40-0", 0));
        assert_eq!((&readers.name[..], &readers.last_id[..], readers.consumer_count), (&b"readers"[..], "6-0", 2));
        let consumer = |name: &[u8]| StreamConsumer {
            name: name.to_vec(),
            pending: 2,
            seen_ms: START_MS,
            active_ms: Some(START_MS),
        };
        assert_eq!(readers.consumers, [consumer(b"alice"), consumer(b"bob")]);
        let pending = |id: &str, consumer: Option<&[u8]>, delivered_ms| StreamPending {
            id: id.to_owned(),
            consumer: consumer.map(<[u8]>::to_vec),
            delivered_ms,
            deliveries: 1,
        };
        assert_eq!(readers.pending, [pending("1-0", Some(b"alice"), START_MS), pending("3-0", None, 0)]);
        assert_eq!(readers.pending_count, 5);
        let all = excerpt(&mut space, usize::MAX);
        assert_eq!((all.entries.len(), all.groups[1].pending.len()), (39, 5));
        let none = excerpt(&mut space, 0);
        assert!(none.entries.is_empty() && none.groups.is_empty());
    }

    #[test]
    fn rows_that_are_counted_and_not_there_are_an_error() {
        let mut space = space_after(&["XADD s 1-1 f v", "XGROUP CREATE s g 0"]);
        let mut stream = Stream::load(&mut space, b"s").unwrap().unwrap();
        stream.meta.groups = 2;
        stream.save(&mut space).unwrap();
        let record = space.get(b"s").unwrap().unwrap();
        assert!(excerpt_of(&mut space, b"s", &record, 1).is_ok());
        assert!(excerpt_of(&mut space, b"s", &record, 2).is_err());
    }
}
