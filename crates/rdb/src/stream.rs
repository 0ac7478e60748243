//! Streams: entries in packed lists of up to a hundred, each list with the names of its first entry's fields, then the groups.

use crate::Error;
use crate::budget::Budget;
use crate::format::value::{STREAM_1, STREAM_3, STREAM_4, STREAM_5};
use crate::packed::listpack::{Builder, Element, elements};
use crate::reader::Reader;
use crate::writer::{put_length, put_string};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;
/// Entries of a packed list, and bytes after which it is closed: Redis's defaults.
const NODE_ENTRIES_MAX: usize = 100;
const NODE_BYTES_SOFT: usize = 4096;
/// Numbers of an entry besides its fields: flags, and what its id adds to that of the list.
const ENTRY_NUMBERS: usize = 3;

/// The id of an entry: milliseconds and a number within them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct StreamId {
    /// Milliseconds.
    pub ms: u64,
    /// The number.
    pub seq: u64,
}

impl StreamId {
    /// That of a text, as `5-0`.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (ms, seq) = std::str::from_utf8(text).ok()?.split_once('-')?;
        Some(Self { ms: ms.parse().ok()?, seq: seq.parse().ok()? })
    }

    /// The 16 bytes that it is in the format, big-endian.
    fn bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        Self { ms: (both >> 64) as u64, seq: both as u64 }
    }
}

/// A stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stream {
    /// The entries in their order.
    pub entries: Vec<StreamEntry>,
    /// The id that was given last.
    pub last_id: StreamId,
    /// The highest id of an entry that was deleted.
    pub max_deleted_id: StreamId,
    /// How many entries there ever were.
    pub added: u64,
    /// The groups.
    pub groups: Vec<Group>,
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEntry {
    /// Its id.
    pub id: StreamId,
    /// Its fields and values.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A group of consumers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Vec<u8>,
    /// The id of the last entry that was delivered.
    pub last_id: StreamId,
    /// How many entries were delivered; `None` if that is not known.
    pub read: Option<u64>,
    /// The consumers.
    pub consumers: Vec<Consumer>,
    /// What is pending for none of them, by id: it was given back. When it was delivered is not kept.
    pub released: Vec<Pending>,
}

impl Group {
    /// Makes what is pending for no consumer, which Redis has from 8.8 on, pending for one without a name.
    pub fn name_released(&mut self) {
        if self.released.is_empty() {
            return;
        }
        let found = self.consumers.iter().position(|consumer| consumer.name.is_empty());
        let at = found.unwrap_or_else(|| {
            self.consumers.push(Consumer { name: Vec::new(), seen_ms: 0, active_ms: None, pending: Vec::new() });
            self.consumers.len() - 1
        });
        let pending = &mut self.consumers[at].pending;
        pending.append(&mut self.released);
        pending.sort_unstable_by_key(|pending| pending.id);
    }
}

/// A consumer of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// Its name.
    pub name: Vec<u8>,
    /// When it last asked, in milliseconds since 1970.
    pub seen_ms: u64,
    /// When it last got something.
    pub active_ms: Option<u64>,
    /// What it got and has not acknowledged, by id.
    pub pending: Vec<Pending>,
}

/// An entry that was delivered and not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// Its id.
    pub id: StreamId,
    /// When it was last delivered, in milliseconds since 1970.
    pub delivered_ms: u64,
    /// How often it was.
    pub deliveries: u64,
}

pub(crate) fn read<R: Read>(reader: &mut Reader<R>, of: u8) -> Result<Stream, Error> {
    let mut stream = Stream::default();
    for _ in 0..reader.length()? {
        let (master, packed) = (reader.string()?, reader.string()?);
        add_node(&mut stream.entries, &master, &packed, reader.budget())?;
    }
    read_tail(reader, of, stream)
}

/// A stream; none for one that takes more than the budget has, which is passed over.
pub(crate) fn read_that_fits<R: Read>(reader: &mut Reader<R>, of: u8) -> Result<Option<Stream>, Error> {
    let mut stream = Stream::default();
    let nodes = reader.length()?;
    for n in 0..nodes {
        let fits = match (reader.string_that_fits()?, reader.string_that_fits()?) {
            (Some(master), Some(packed)) => match add_node(&mut stream.entries, &master, &packed, reader.budget()) {
                Err(Error::TooLarge(_)) => false,
                added => added.map(|()| true)?,
            },
            _ => false,
        };
        if !fits {
            drop(stream);
            reader.budget().renew();
            return skip_rest(reader, of, nodes - n - 1).map(|()| None);
        }
    }
    read_tail_that_fits(reader, of, stream)
}

/// Passes over so many packed lists of entries, and what stands behind them.
fn skip_rest<R: Read>(reader: &mut Reader<R>, of: u8, nodes: u64) -> Result<(), Error> {
    for _ in 0..nodes {
        reader.skip_string()?;
        reader.skip_string()?;
    }
    reader.length()?;
    read_id(reader)?;
    if of != STREAM_1 {
        _ = (read_id(reader)?, read_id(reader)?, reader.length()?);
    }
    for _ in 0..reader.length()? {
        skip_group(reader, of)?;
    }
    if of >= STREAM_4 { skip_producers(reader) } else { Ok(()) }
}

/// Passes over a group: see `read_group`.
fn skip_group<R: Read>(reader: &mut Reader<R>, of: u8) -> Result<(), Error> {
    reader.skip_string()?;
    read_id(reader)?;
    if of != STREAM_1 {
        reader.length()?;
    }
    for _ in 0..reader.length()? {
        _ = (reader.array::<16>()?, reader.time_ms()?, reader.length()?);
    }
    for _ in 0..reader.length()? {
        reader.skip_string()?;
        reader.time_ms()?;
        if of >= STREAM_3 {
            reader.time_ms()?;
        }
        for _ in 0..reader.length()? {
            reader.array::<16>()?;
        }
    }
    let released = if of >= STREAM_5 { reader.length()? } else { 0 };
    for _ in 0..released {
        reader.array::<16>()?;
    }
    Ok(())
}

/// Adds the entries of a packed list.
fn add_node(into: &mut Vec<StreamEntry>, master: &[u8], packed: &[u8], budget: &mut Budget) -> Result<(), Error> {
    let master = StreamId::from_bytes(id_of(master)?);
    let elements = elements(packed, budget)?;
    read_node(into, master, elements, budget)
}

/// Reads what stands behind the entries.
fn read_tail<R: Read>(reader: &mut Reader<R>, of: u8, mut stream: Stream) -> Result<Stream, Error> {
    read_state(reader, of, &mut stream)?;
    for _ in 0..reader.length()? {
        let group = read_group(reader, of)?;
        add_group(&mut stream, group, of);
    }
    if of >= STREAM_4 {
        skip_producers(reader)?;
    }
    Ok(stream)
}

/// The same; none where the groups take more than the budget has, and are passed over.
fn read_tail_that_fits<R: Read>(reader: &mut Reader<R>, of: u8, mut stream: Stream) -> Result<Option<Stream>, Error> {
    read_state(reader, of, &mut stream)?;
    let mut fits = true;
    for _ in 0..reader.length()? {
        match read_group_that_fits(reader, of)? {
            Some(group) if fits => add_group(&mut stream, group, of),
            Some(_) => {}
            None => {
                (stream, fits) = (Stream::default(), false);
                reader.budget().renew();
            }
        }
    }
    if of >= STREAM_4 {
        reader.budget().renew();
        skip_producers(reader)?;
    }
    Ok(fits.then_some(stream))
}

/// Reads what stands between the entries and the groups.
fn read_state<R: Read>(reader: &mut Reader<R>, of: u8, stream: &mut Stream) -> Result<(), Error> {
    let length = reader.length()?;
    if length != stream.entries.len() as u64 {
        return Err(Error::Corrupt("number of entries"));
    }
    if !stream.entries.is_sorted_by(|a, b| a.id < b.id) {
        return Err(Error::Corrupt("order of entries"));
    }
    stream.last_id = read_id(reader)?;
    stream.added = length;
    if of != STREAM_1 {
        read_id(reader)?;
        stream.max_deleted_id = read_id(reader)?;
        stream.added = reader.length()?;
    }
    Ok(())
}

fn add_group(stream: &mut Stream, mut group: Group, of: u8) {
    if of == STREAM_1 {
        group.read = read_before(stream, group.last_id);
    }
    stream.groups.push(group);
}

/// Keeps what is read, as long as there is room for it.
struct Recorder<'a, R> {
    input: &'a mut R,
    kept: Option<Vec<u8>>,
    room: usize,
}

impl<R: Read> Read for Recorder<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(into)?;
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(&into[..read]);
        }
        if self.kept.as_ref().is_some_and(|kept| kept.len() > self.room) {
            self.kept = None;
        }
        Ok(read)
    }
}

/// Reads a group; none for one that takes more than the budget has, which is passed over. A group takes more than its bytes.
fn read_group_that_fits<R: Read>(reader: &mut Reader<R>, of: u8) -> Result<Option<Group>, Error> {
    let (version, room) = (reader.version(), reader.budget().left());
    let mut passed = Reader::new(Recorder { input: reader.input(), kept: Some(Vec::new()), room }, version, 0);
    skip_group(&mut passed, of)?;
    let Some(kept) = passed.input().kept.take() else { return Ok(None) };
    let mut kept = Reader::new(&kept[..], version, room);
    match read_group(&mut kept, of) {
        Err(Error::TooLarge(_)) => Ok(None),
        group => {
            reader.budget().count(kept.budget().spent())?;
            group.map(Some)
        }
    }
}

/// Skips the ids that producers have used, what is counted of them, and how long and how many are kept.
fn skip_producers<R: Read>(reader: &mut Reader<R>) -> Result<(), Error> {
    _ = (reader.length()?, reader.length()?);
    for _ in 0..reader.length()? {
        reader.string()?;
        for _ in 0..reader.length()? {
            reader.string()?;
            read_id(reader)?;
        }
    }
    _ = (reader.length()?, reader.length()?);
    Ok(())
}

/// How many entries a group has read up to an id, where the file does not tell: as Redis 7 works it out, from a stream that has
/// lost none. `None` if that is not known.
fn read_before(stream: &Stream, id: StreamId) -> Option<u64> {
    let first = stream.entries.first().map(|entry| entry.id);
    if stream.added == 0 {
        return Some(0);
    }
    if id >= stream.last_id {
        return (id == stream.last_id).then_some(stream.added);
    }
    match id.cmp(&first?) {
        std::cmp::Ordering::Less => Some(0),
        std::cmp::Ordering::Equal => Some(1),
        std::cmp::Ordering::Greater => None,
    }
}

fn id_of(bytes: &[u8]) -> Result<[u8; 16], Error> {
    bytes.try_into().map_err(|_| Error::Corrupt("id of entries"))
}

fn read_id<R: Read>(reader: &mut Reader<R>) -> Result<StreamId, Error> {
    Ok(StreamId { ms: reader.length()?, seq: reader.length()? })
}

/// The entries of a packed list.
fn read_node(
    into: &mut Vec<StreamEntry>,
    master: StreamId,
    elements: Vec<Element>,
    budget: &mut Budget,
) -> Result<(), Error> {
    const WRONG: Error = Error::Corrupt("entries of a stream");
    let mut rest = elements.into_iter();
    let mut next = || rest.next().ok_or(WRONG);
    let count = |element: Element| usize::try_from(element.number()?).map_err(|_| WRONG);
    let (live, deleted, field_count) = (count(next()?)?, count(next()?)?, count(next()?)?);
    let mut names = Vec::new();
    for _ in 0..field_count {
        names.push(next()?.into_string());
    }
    next()?;
    let mut found = 0;
    for _ in 0..live.checked_add(deleted).ok_or(WRONG)? {
        let flags = next()?.number()?;
        let plus = |base: u64, element: Element| Ok::<_, Error>(base.wrapping_add_signed(element.number()?));
        let id = StreamId { ms: plus(master.ms, next()?)?, seq: plus(master.seq, next()?)? };
        let mut fields = Vec::new();
        if flags & SAME_FIELDS != 0 {
            for name in &names {
                budget.count_element(name.len())?;
                fields.push((name.clone(), next()?.into_string()));
            }
        } else {
            for _ in 0..count(next()?)? {
                fields.push((next()?.into_string(), next()?.into_string()));
            }
        }
        // The number of elements of the entry, for readers that begin at the end.
        next()?;
        if flags & DELETED == 0 {
            found += 1;
            into.push(StreamEntry { id, fields });
        }
    }
    if found == live && rest.next().is_none() { Ok(()) } else { Err(WRONG) }
}

fn read_group<R: Read>(reader: &mut Reader<R>, of: u8) -> Result<Group, Error> {
    let (name, last_id) = (reader.string()?, read_id(reader)?);
    // -1 stands for a number that is not known.
    let read = if of == STREAM_1 { None } else { Some(reader.length()?).filter(|&read| i64::try_from(read).is_ok()) };
    let mut pending = BTreeMap::new();
    for _ in 0..reader.length()? {
        let id = StreamId::from_bytes(id_of(&reader.bytes(16)?)?);
        let (delivered_ms, deliveries) = (reader.time_ms()?, reader.length()?);
        if pending.insert(id, Pending { id, delivered_ms, deliveries }).is_some() {
            return Err(Error::Corrupt("entry that is pending twice"));
        }
    }
    let mut consumers = Vec::new();
    for _ in 0..reader.length()? {
        let (name, seen_ms) = (reader.string()?, reader.time_ms()?);
        let active_ms =
            if of >= STREAM_3 { u64::try_from(i64::from_le_bytes(reader.array()?)).ok() } else { Some(seen_ms) };
        let mut own = Vec::new();
        for _ in 0..reader.length()? {
            let id = StreamId::from_bytes(id_of(&reader.bytes(16)?)?);
            own.push(pending.remove(&id).ok_or(Error::Corrupt("pending entry of two consumers, or of no group"))?);
        }
        consumers.push(Consumer { name, seen_ms, active_ms, pending: own });
    }
    let mut released = Vec::new();
    let count = if of >= STREAM_5 { reader.length()? } else { 0 };
    for _ in 0..count {
        let id = StreamId::from_bytes(id_of(&reader.bytes(16)?)?);
        let found =
            pending.remove(&id).ok_or(Error::Corrupt("entry that was given back, of a consumer or of no group"))?;
        released.push(Pending { delivered_ms: 0, ..found });
    }
    released.sort_unstable_by_key(|pending| pending.id);
    if pending.is_empty() {
        Ok(Group { name, last_id, read, consumers, released })
    } else {
        Err(Error::Corrupt("pending entry of no consumer"))
    }
}

/// Appends a stream as Redis 7.0 writes it (`STREAM_LISTPACKS_2`).
pub(crate) fn write(out: &mut Vec<u8>, stream: &Stream) {
    let nodes = nodes(&stream.entries);
    put_length(out, nodes.len() as u64);
    for node in nodes {
        put_node(out, node);
    }
    let first = stream.entries.first().map_or(StreamId::default(), |entry| entry.id);
    put_tail(out, stream, stream.entries.len() as u64, first);
}

/// Appends a packed list of entries.
pub(crate) fn put_node(out: &mut Vec<u8>, entries: &[StreamEntry]) {
    put_string(out, &entries[0].id.bytes());
    put_string(out, &packed_node(entries));
}

/// Appends what stands behind the entries of a stream: how many there are, which is the first, and the groups.
pub(crate) fn put_tail(out: &mut Vec<u8>, stream: &Stream, entries: u64, first: StreamId) {
    put_length(out, entries);
    for id in [stream.last_id, first, stream.max_deleted_id] {
        put_id(out, id);
    }
    put_length(out, stream.added);
    put_length(out, stream.groups.len() as u64);
    for group in &stream.groups {
        let mut group = Cow::Borrowed(group);
        if !group.released.is_empty() {
            group.to_mut().name_released();
        }
        write_group(out, &group);
    }
}

fn put_id(out: &mut Vec<u8>, id: StreamId) {
    put_length(out, id.ms);
    put_length(out, id.seq);
}

/// The entries, cut into packed lists.
pub(crate) fn nodes(entries: &[StreamEntry]) -> Vec<&[StreamEntry]> {
    let mut nodes = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    for (at, entry) in entries.iter().enumerate() {
        if at > from && (at - from >= NODE_ENTRIES_MAX || bytes >= NODE_BYTES_SOFT) {
            nodes.push(&entries[from..at]);
            (from, bytes) = (at, 0);
        }
        bytes += entry.fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    }
    nodes.extend((from < entries.len()).then(|| &entries[from..]));
    nodes
}

fn packed_node(entries: &[StreamEntry]) -> Vec<u8> {
    let mut packed = Builder::new();
    let master = &entries[0];
    packed.push_number(entries.len() as i64);
    packed.push_number(0);
    packed.push_number(master.fields.len() as i64);
    for (name, _) in &master.fields {
        packed.push_string(name);
    }
    packed.push_number(0);
    for entry in entries {
        let is_same = entry.fields.len() == master.fields.len()
            && entry.fields.iter().zip(&master.fields).all(|((name, _), (other, _))| name == other);
        packed.push_number(if is_same { SAME_FIELDS } else { 0 });
        packed.push_number(entry.id.ms.wrapping_sub(master.id.ms) as i64);
        packed.push_number(entry.id.seq.wrapping_sub(master.id.seq) as i64);
        if !is_same {
            packed.push_number(entry.fields.len() as i64);
        }
        for (name, value) in &entry.fields {
            if !is_same {
                packed.push_string(name);
            }
            packed.push_string(value);
        }
        let elements = if is_same { entry.fields.len() } else { 2 * entry.fields.len() + 1 };
        packed.push_number((ENTRY_NUMBERS + elements) as i64);
    }
    packed.finish()
}

/// Appends a group all of whose pending entries are of consumers.
fn write_group(out: &mut Vec<u8>, group: &Group) {
    put_string(out, &group.name);
    put_id(out, group.last_id);
    put_length(out, group.read.unwrap_or(u64::MAX));
    let mut pending: Vec<&Pending> = group.consumers.iter().flat_map(|consumer| &consumer.pending).collect();
    pending.sort_unstable_by_key(|pending| pending.id);
    put_length(out, pending.len() as u64);
    for pending in pending {
        out.extend_from_slice(&pending.id.bytes());
        out.extend_from_slice(&pending.delivered_ms.to_le_bytes());
        put_length(out, pending.deliveries);
    }
    put_length(out, group.consumers.len() as u64);
    for consumer in &group.consumers {
        put_string(out, &consumer.name);
        out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
        put_length(out, consumer.pending.len() as u64);
        for pending in &consumer.pending {
            out.extend_from_slice(&pending.id.bytes());
        }
    }
}
