//! A stream as a list of items, from which it can be made again: what DUMP and pages of backups carry.
//!
//! | item | words |
//! |-|-|
//! | entry | `E`, id, fields and values in turn |
//! | stream | `S`, last id, highest id that XDEL removed, entries ever added; behind all entries |
//! | group | `G`, name, last id, entries read or -1; behind the stream |
//! | consumer | `C`, group, name, when it last asked, when it last got something or -1; behind all groups |
//! | released | `N`, group, id, how often it was delivered: pending for no consumer; behind its group |
//! | pending | `P`, group, consumer, id, when and how often it was delivered; behind the consumers of its group |
//!
//! Ids and numbers are texts, as in commands.

use super::entry::{Entry, Spot};
use super::group::{Consumer, Group, GroupChange, NameWalk, Pending, check_name, name_of};
use super::id::StreamId;
use super::meta::{GroupId, Meta, Ordinal};
use super::names::{self, ConsumerId, Named};
use super::stored::{Form, Stream};
use super::trim::new_entry;
use super::write::append;
use crate::command::call::{Error, Outcome};
use crate::{ReadSpace, Record, Rows, WriteSpace};
use std::collections::{BTreeMap, BTreeSet};
use storage::Slice;
use vocab::limits::VALUE_BYTES_MAX;

/// Rows that are read at a time.
const ROWS: usize = 256;
/// Bytes of them after which fewer are read.
const ROWS_BYTES_SOFT: usize = 1 << 20;

/// The words of an item.
pub(in crate::command) type Item = Vec<Vec<u8>>;

/// The items of a stream, some at a time.
pub(in crate::command) struct Export {
    key: Vec<u8>,
    record: Record,
    /// The row that was read last.
    after: Option<Slice>,
    is_over: bool,
    /// The names of the groups, once one is asked for.
    groups: BTreeMap<GroupId, Vec<u8>>,
    /// The consumers whose names were asked for.
    consumers: BTreeMap<(GroupId, ConsumerId), Vec<u8>>,
}

impl Export {
    /// All items of the stream whose record was read at `key`, or those behind a row.
    pub(in crate::command) fn new(key: &[u8], record: Record, after: Option<&[u8]>) -> Self {
        let (groups, consumers) = (BTreeMap::new(), BTreeMap::new());
        Self { key: key.to_vec(), record, after: after.map(Slice::from), is_over: false, groups, consumers }
    }

    /// The name of the row that was read last.
    pub(in crate::command) fn row(&self) -> Option<&[u8]> {
        self.after.as_deref()
    }

    /// The next items; `None` behind the last.
    pub(in crate::command) fn next(&mut self, space: &mut dyn ReadSpace) -> Result<Option<Vec<Item>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let key = self.key.clone();
        let stream = Stream::of(&key, &self.record)?;
        let mut items = Vec::new();
        let rows = match &stream.form {
            Form::Large(rows) => rows,
            Form::Inline(entries) => {
                for entry in entries {
                    items.push(entry_item(entry).map_err(|why| stream.malformed(why))?);
                }
                items.push(stream_item(&stream.meta));
                self.is_over = true;
                return Ok(Some(items));
            }
        };
        let is_entry = |name: &[u8]| names::ordinal_of(name).is_some();
        let mut among_entries = self.after.as_deref().is_none_or(is_entry);
        let found = space.elements_within(rows, self.after.as_deref(), ROWS, ROWS_BYTES_SOFT)?;
        for (name, row) in &found {
            if among_entries && !is_entry(name) {
                items.push(stream_item(&stream.meta));
                among_entries = false;
            }
            items.extend(self.item(space, &stream, rows, name, row)?);
        }
        match found.into_iter().last() {
            Some((last, _)) => self.after = Some(last),
            None => {
                items.extend(among_entries.then(|| stream_item(&stream.meta)));
                self.is_over = true;
            }
        }
        Ok(Some(items))
    }

    /// The item of a row, if it has one.
    fn item(
        &mut self,
        space: &mut dyn ReadSpace,
        stream: &Stream<'_>,
        rows: &Rows,
        name: &[u8],
        row: &Slice,
    ) -> Result<Option<Item>, Error> {
        let wrong = |why| stream.malformed(why);
        let text = |n: u64| n.to_string().into_bytes();
        let or_none = |n: Option<u64>| n.map_or_else(|| b"-1".to_vec(), text);
        Ok(match names::named(name) {
            Some(Named::Entry) => match Spot::decode(row.clone()).map_err(wrong)? {
                Spot::Live(entry) => Some(entry_item(&entry).map_err(wrong)?),
                Spot::Gone { .. } => None,
            },
            Some(Named::Group(name)) => {
                let group = Group::decode(row).map_err(wrong)?;
                let last_id = group.last_id.to_string().into_bytes();
                Some(vec![b"G".to_vec(), name.to_vec(), last_id, or_none(group.read)])
            }
            Some(Named::Consumer(group, name)) => {
                let consumer = Consumer::decode(row).map_err(wrong)?;
                let group = self.group(space, stream, rows, group)?;
                let (seen, active) = (text(consumer.seen_ms), or_none(consumer.active_ms));
                Some(vec![b"C".to_vec(), group, name.to_vec(), seen, active])
            }
            Some(Named::Pending(group, id)) => {
                let pending = Pending::decode(row).map_err(wrong)?;
                if pending.is_released() {
                    let group = self.group(space, stream, rows, group)?;
                    return Ok(Some(vec![b"N".to_vec(), group, id.to_string().into_bytes(), text(pending.deliveries)]));
                }
                let consumer = self.consumer(space, stream, (group, pending.consumer))?;
                let (group, id) = (self.group(space, stream, rows, group)?, id.to_string().into_bytes());
                let (delivered, deliveries) = (text(pending.delivered_ms), text(pending.deliveries));
                Some(vec![b"P".to_vec(), group, consumer, id, delivered, deliveries])
            }
            None => None,
        })
    }

    /// The name of a group.
    fn group(
        &mut self,
        space: &mut dyn ReadSpace,
        stream: &Stream<'_>,
        rows: &Rows,
        group: GroupId,
    ) -> Result<Vec<u8>, Error> {
        if self.groups.is_empty() {
            let mut walk = NameWalk::new(names::GROUPS.to_vec());
            while let Some(found) = walk.next(space, rows)? {
                for (name, row) in found {
                    let id = Group::decode(&row).map_err(|why| stream.malformed(why))?.id;
                    self.groups.extend(names::name_behind(&name, names::GROUPS).map(|name| (id, name.to_vec())));
                }
            }
        }
        self.groups.get(&group).cloned().ok_or_else(|| stream.corrupt("row of a group that is not there"))
    }

    /// The name of a consumer.
    fn consumer(
        &mut self,
        space: &mut dyn ReadSpace,
        stream: &Stream<'_>,
        of: (GroupId, ConsumerId),
    ) -> Result<Vec<u8>, Error> {
        if let Some(name) = self.consumers.get(&of) {
            return Ok(name.clone());
        }
        let name = name_of(space, stream, of.0, of.1)?;
        self.consumers.insert(of, name.clone());
        Ok(name)
    }
}

fn entry_item(entry: &Entry) -> Result<Item, vocab::Malformed> {
    let strings = entry.strings()?;
    let mut item = vec![b"E".to_vec(), entry.id.to_string().into_bytes()];
    item.extend(strings.into_iter().map(<[u8]>::to_vec));
    Ok(item)
}

fn stream_item(meta: &Meta) -> Item {
    let texts = [meta.last_id.to_string(), meta.max_deleted_id.to_string(), meta.added.to_string()];
    [b"S".to_vec()].into_iter().chain(texts.map(String::into_bytes)).collect()
}

/// An item from outside, checked by itself.
enum Parsed<'a> {
    Entry(StreamId, &'a [&'a [u8]]),
    Stream(Meta),
    Group { name: &'a [u8], last_id: StreamId, read: Option<u64> },
    Consumer { group: &'a [u8], name: &'a [u8], seen_ms: u64, active_ms: Option<u64> },
    Released { group: &'a [u8], id: StreamId, deliveries: u64 },
    Pending { group: &'a [u8], consumer: &'a [u8], id: StreamId, delivered_ms: u64, deliveries: u64 },
}

fn parse<'a>(item: &'a [&'a [u8]]) -> Option<Parsed<'a>> {
    let id = |text: &[u8]| StreamId::parse(text, 0).ok();
    let number = |text: &[u8]| u64::try_from(resp::parse_integer(text)?).ok();
    let or_none = |text: &[u8]| if text == b"-1" { Some(None) } else { number(text).map(Some) };
    match item {
        [b"E", name, strings @ ..] => {
            let bytes: usize = strings.iter().map(|string| string.len() + 10).sum();
            let is_right = !strings.is_empty() && strings.len() % 2 == 0 && bytes <= VALUE_BYTES_MAX;
            is_right.then_some(Parsed::Entry(id(name)?, strings))
        }
        [b"S", last, max_deleted, added] => {
            let (last_id, max_deleted_id, added) = (id(last)?, id(max_deleted)?, number(added)?);
            Some(Parsed::Stream(Meta { last_id, max_deleted_id, added, ..Meta::default() }))
        }
        [b"G", name, last, read] => Some(Parsed::Group { name, last_id: id(last)?, read: or_none(read)? }),
        [b"C", group, name, seen, active] => {
            Some(Parsed::Consumer { group, name, seen_ms: number(seen)?, active_ms: or_none(active)? })
        }
        [b"N", group, of, deliveries] => Some(Parsed::Released { group, id: id(of)?, deliveries: number(deliveries)? }),
        [b"P", group, consumer, of, delivered, deliveries] => Some(Parsed::Pending {
            group,
            consumer,
            id: id(of)?,
            delivered_ms: number(delivered)?,
            deliveries: number(deliveries)?,
        }),
        _ => None,
    }
}

/// What the items so far have told.
#[derive(Default)]
struct Seen<'a> {
    last_entry: StreamId,
    entries: u64,
    whole: Option<Meta>,
    groups: BTreeSet<&'a [u8]>,
    consumers: BTreeSet<(&'a [u8], &'a [u8])>,
    pending: BTreeSet<(&'a [u8], StreamId)>,
}

impl<'a> Seen<'a> {
    /// Whether an item may follow on those before.
    fn admits(&mut self, item: &Parsed<'a>) -> bool {
        match item {
            Parsed::Entry(id, _) => {
                let is_next = *id > self.last_entry && self.whole.is_none();
                (self.last_entry, self.entries) = (*id, self.entries + 1);
                is_next
            }
            Parsed::Stream(meta) => {
                let is_right = meta.last_id >= self.last_entry && meta.added >= self.entries;
                self.whole.replace(meta.clone()).is_none() && is_right
            }
            Parsed::Group { name, .. } => self.whole.is_some() && check_name(name).is_ok() && self.groups.insert(name),
            Parsed::Consumer { group, name, .. } => {
                self.groups.contains(group) && check_name(name).is_ok() && self.consumers.insert((group, name))
            }
            Parsed::Released { group, id, .. } => self.groups.contains(group) && self.pending.insert((group, *id)),
            Parsed::Pending { group, consumer, id, .. } => {
                self.consumers.contains(&(*group, *consumer)) && self.pending.insert((group, *id))
            }
        }
    }
}

/// Makes the stream `key` of items from outside; what was at `key` is replaced. Writes nothing and answers false if they do
/// not make one.
pub(in crate::command) fn restore(
    space: &mut dyn WriteSpace,
    key: &[u8],
    expire_at_ms: Option<u64>,
    items: &[Vec<&[u8]>],
) -> Result<bool, Error> {
    let Some(parsed) = items.iter().map(|item| parse(item)).collect::<Option<Vec<_>>>() else { return Ok(false) };
    let mut seen = Seen::default();
    if !parsed.iter().all(|item| seen.admits(item)) {
        return Ok(false);
    }
    let Some(whole) = seen.whole else { return Ok(false) };
    let mut stream = Stream::new(key);
    stream.expire_at_ms = expire_at_ms;
    for item in &parsed {
        if let Parsed::Entry(id, strings) = item {
            append(space, &mut stream, new_entry(*id, strings))?;
        }
    }
    (stream.meta.last_id, stream.meta.max_deleted_id) = (whole.last_id, whole.max_deleted_id);
    stream.meta.added = whole.added;
    for item in &parsed {
        restore_group(space, &mut stream, item)?;
    }
    stream.save(space)?;
    Ok(true)
}

/// Makes a group, or a part of one.
fn restore_group(space: &mut dyn WriteSpace, stream: &mut Stream<'_>, item: &Parsed<'_>) -> Outcome {
    let group = match item {
        Parsed::Entry(..) | Parsed::Stream(_) => return Ok(()),
        Parsed::Group { name, last_id, read } => return Group::create(space, stream, name, *last_id, *read),
        Parsed::Consumer { group, .. } | Parsed::Released { group, .. } | Parsed::Pending { group, .. } => group,
    };
    let change = GroupChange::load(space, stream, group)?;
    let mut change = change.ok_or_else(|| stream.corrupt("group that was just made"))?;
    match item {
        Parsed::Consumer { name, seen_ms, active_ms, .. } => {
            change.restore_consumer(space, stream, name, *seen_ms, *active_ms)?;
        }
        Parsed::Pending { consumer, id, delivered_ms, deliveries, .. } => {
            let found = Consumer::load(space, stream, &change.group, consumer)?;
            let consumer = found.ok_or_else(|| stream.corrupt("consumer that was just made"))?.id;
            let at = place_of(space, stream, *id)?;
            let pending = Pending { consumer, delivered_ms: *delivered_ms, deliveries: *deliveries, at };
            change.put(space, stream, *id, None, pending)?;
        }
        Parsed::Released { id, deliveries, .. } => {
            let at = place_of(space, stream, *id)?;
            let pending = Pending { consumer: ConsumerId::NONE, delivered_ms: 0, deliveries: *deliveries, at };
            change.put(space, stream, *id, None, pending)?;
        }
        _ => {}
    }
    change.save(space)
}

/// Of an entry that is gone, what is pending refers to none.
fn place_of(space: &mut dyn ReadSpace, stream: &Stream<'_>, id: StreamId) -> Result<Ordinal, Error> {
    Ok(stream.get(space, id)?.map_or(Ordinal(u64::MAX), |(at, _)| at))
}
