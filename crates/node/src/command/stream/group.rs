//! A group of consumers, what it has delivered, and what is pending.
//!
//! ```text
//! group      u64 number, last delivered id (u64 ms, u64 number), u64 ordinal of the first entry behind it,
//!            u64 entries read (all ones: not known), u64 pending entries, u64 consumers, u64 number of the next consumer
//! consumer   u64 number, u64 when it last asked, u64 when it last got something (all ones: never), u64 pending entries
//! pending    u64 consumer (all ones: none), u64 when it was last delivered, u64 how often, u64 ordinal of the entry
//! ```
//! Little-endian; times in ms since the epoch. `names` has the names of the rows.

use super::id::StreamId;
use super::meta::{GroupId, Meta, Ordinal};
use super::names::{self, ConsumerId};
use super::stored::Stream;
use crate::command::call::{Error, Outcome};
use crate::keyspace_events::Event;
use crate::{ReadSpace, Rows, Rules, WriteSpace};
use std::collections::BTreeMap;
use vocab::limits::FIELD_BYTES_MAX;
use vocab::{Malformed, Reader};

/// In place of a number that is not known.
const NONE: u64 = u64::MAX;

/// The error about a name of a group or a consumer that is too long.
const NAME_TOO_LONG: &str = "ERR name exceeds maximum allowed size (32000 bytes)";

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) id: GroupId,
    /// The highest id that was delivered.
    pub(super) last_id: StreamId,
    /// No entry behind `last_id` lies before this.
    pub(super) next: Ordinal,
    /// How many entries were read, counted from the first that was ever added.
    pub(super) read: Option<u64>,
    /// How many entries are pending.
    pub(super) pending: u64,
    /// How many consumers there are.
    pub(super) consumers: u64,
    /// What the next consumer gets.
    next_consumer: ConsumerId,
}

/// A consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Consumer {
    pub(super) id: ConsumerId,
    /// When it last asked, in ms since the epoch.
    pub(super) seen_ms: u64,
    /// When it last got something, in ms since the epoch.
    pub(super) active_ms: Option<u64>,
    /// How many entries are pending for it.
    pub(super) pending: u64,
}

/// An entry that was delivered and is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) consumer: ConsumerId,
    /// When it was last delivered, in ms since the epoch; 0 if it has been released.
    pub(super) delivered_ms: u64,
    /// How often it was delivered.
    pub(super) deliveries: u64,
    /// The entry's.
    pub(super) at: Ordinal,
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Group {
    fn encode(&self) -> Vec<u8> {
        bytes_of(&[
            self.id.0,
            self.last_id.ms,
            self.last_id.seq,
            self.next.0,
            self.read.unwrap_or(NONE),
            self.pending,
            self.consumers,
            self.next_consumer.0,
        ])
    }

    /// A group as it is stored.
    pub(super) fn decode(row: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(row);
        let group = Self {
            id: GroupId(reader.u64_le()?),
            last_id: StreamId { ms: reader.u64_le()?, seq: reader.u64_le()? },
            next: Ordinal(reader.u64_le()?),
            read: Some(reader.u64_le()?).filter(|read| *read != NONE),
            pending: reader.u64_le()?,
            consumers: reader.u64_le()?,
            next_consumer: ConsumerId(reader.u64_le()?),
        };
        reader.end()?;
        Ok(group)
    }

    /// The group of that name.
    pub(super) fn load(space: &mut dyn ReadSpace, stream: &Stream<'_>, name: &[u8]) -> Result<Option<Self>, Error> {
        let Some(rows) = stream.rows().filter(|_| name.len() <= FIELD_BYTES_MAX) else { return Ok(None) };
        let row = space.element_get(rows, &names::group(name))?;
        row.map(|row| Self::decode(&row).map_err(|why| stream.malformed(why))).transpose()
    }

    /// Makes a group; the caller saves the stream. There must be none of that name.
    pub(super) fn create(
        space: &mut dyn WriteSpace,
        stream: &mut Stream<'_>,
        name: &[u8],
        last_id: StreamId,
        read: Option<u64>,
    ) -> Outcome {
        check_name(name)?;
        let rows = stream.make_large(space)?;
        let id = stream.meta.next_group;
        stream.meta.next_group = GroupId(id.0 + 1);
        stream.meta.groups += 1;
        let next = stream.behind_id(space, last_id)?;
        let next_consumer = ConsumerId::default();
        let group = Self { id, last_id, next, read, pending: 0, consumers: 0, next_consumer };
        group.save(space, &rows, name)
    }

    /// Writes the group's row.
    pub(super) fn save(&self, space: &mut dyn WriteSpace, rows: &Rows, name: &[u8]) -> Outcome {
        Ok(space.element_put(rows, &names::group(name), &self.encode())?)
    }

    /// An entry was delivered.
    pub(super) fn deliver(&mut self, meta: &Meta, id: StreamId, at: Ordinal, rules: Rules) {
        // From `Rules::Fourth` on as in Redis 7.4.3: between the last that was delivered and this one none is missing.
        let is_next = if rules >= Rules::Fourth {
            self.last_id >= meta.first_id && !meta.has_gone_since(self.last_id, rules)
        } else {
            !meta.has_gone_since(id, rules)
        };
        match self.read {
            Some(read) if is_next => self.read = Some(read + 1),
            _ if meta.added > 0 => self.read = meta.added_up_to(id, rules),
            _ => {}
        }
        (self.last_id, self.next) = (id, Ordinal(at.0 + 1));
    }

    /// How many entries are still to be delivered, if that is known. A script may go by it, so it depends on the rules.
    pub(super) fn lag(&self, meta: &Meta, rules: Rules) -> Option<i64> {
        if meta.added == 0 {
            return Some(0);
        }
        // All that are there, if none of them has been delivered, and all that XDEL has removed lie before the first.
        let are_all_to_come = meta.length == 0 || self.last_id < meta.first_id && meta.max_deleted_id < meta.first_id;
        if rules >= Rules::Fourth && are_all_to_come {
            return Some(meta.length as i64);
        }
        let read = match self.read {
            Some(read) if !meta.has_gone_since(self.last_id, rules) => read,
            _ => meta.added_up_to(self.last_id, rules)?,
        };
        Some(meta.added.wrapping_sub(read) as i64)
    }
}

impl Consumer {
    fn encode(&self) -> Vec<u8> {
        bytes_of(&[self.id.0, self.seen_ms, self.active_ms.unwrap_or(NONE), self.pending])
    }

    /// A consumer as it is stored.
    pub(super) fn decode(row: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(row);
        let consumer = Self {
            id: ConsumerId(reader.u64_le()?),
            seen_ms: reader.u64_le()?,
            active_ms: Some(reader.u64_le()?).filter(|at_ms| *at_ms != NONE),
            pending: reader.u64_le()?,
        };
        reader.end()?;
        Ok(consumer)
    }

    /// The consumer of that name.
    pub(super) fn load(
        space: &mut dyn ReadSpace,
        stream: &Stream<'_>,
        group: &Group,
        name: &[u8],
    ) -> Result<Option<Self>, Error> {
        let Some(rows) = stream.rows().filter(|_| name.len() <= FIELD_BYTES_MAX) else { return Ok(None) };
        let row = space.element_get(rows, &names::consumer(group.id, name))?;
        row.map(|row| Self::decode(&row).map_err(|why| stream.malformed(why))).transpose()
    }
}

impl Pending {
    /// Whether XNACK has released it: it is pending for no consumer, and each may claim it at once.
    pub(super) fn is_released(&self) -> bool {
        self.consumer == ConsumerId::NONE
    }

    /// How often it has been delivered once it is again. XNACK FATAL leaves the highest number.
    pub(super) fn next_delivery(&self) -> u64 {
        self.deliveries.saturating_add(1).min(i64::MAX as u64)
    }

    fn encode(&self) -> Vec<u8> {
        bytes_of(&[self.consumer.0, self.delivered_ms, self.deliveries, self.at.0])
    }

    /// A pending entry as it is stored.
    pub(super) fn decode(row: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(row);
        let pending = Self {
            consumer: ConsumerId(reader.u64_le()?),
            delivered_ms: reader.u64_le()?,
            deliveries: reader.u64_le()?,
            at: Ordinal(reader.u64_le()?),
        };
        reader.end()?;
        Ok(pending)
    }

    /// The pending entry of that id.
    pub(super) fn load(
        space: &mut dyn ReadSpace,
        stream: &Stream<'_>,
        group: GroupId,
        id: StreamId,
    ) -> Result<Option<Self>, Error> {
        let Some(rows) = stream.rows() else { return Ok(None) };
        let row = space.element_get(rows, &names::pending(group, id))?;
        row.map(|row| Self::decode(&row).map_err(|why| stream.malformed(why))).transpose()
    }
}

/// Refuses a name that no row can have.
pub(super) fn check_name(name: &[u8]) -> Outcome {
    if name.len() > FIELD_BYTES_MAX { Err(NAME_TOO_LONG.into()) } else { Ok(()) }
}

/// The name of a consumer of which a pending entry tells the number; empty if the entry is pending for none.
pub(super) fn name_of(
    space: &mut dyn ReadSpace,
    stream: &Stream<'_>,
    group: GroupId,
    consumer: ConsumerId,
) -> Result<Vec<u8>, Error> {
    if consumer == ConsumerId::NONE {
        return Ok(Vec::new());
    }
    let rows = stream.rows().ok_or_else(|| stream.corrupt("small stream with a group"))?;
    let name = space.element_get(rows, &names::consumer_name(group, consumer))?;
    Ok(name.ok_or_else(|| stream.corrupt("consumer without a name"))?.to_vec())
}

/// A group that a command changes, with those of its consumers that take part.
pub(super) struct GroupChange<'a> {
    rows: Rows,
    name: &'a [u8],
    pub(super) group: Group,
    consumers: BTreeMap<ConsumerId, (Vec<u8>, Consumer)>,
}

impl<'a> GroupChange<'a> {
    /// The group of that name; `None` if there is none.
    pub(super) fn load(space: &mut dyn ReadSpace, stream: &Stream<'_>, name: &'a [u8]) -> Result<Option<Self>, Error> {
        let Some(rows) = stream.rows().cloned() else { return Ok(None) };
        let group = Group::load(space, stream, name)?;
        Ok(group.map(|group| Self { rows, name, group, consumers: BTreeMap::new() }))
    }

    /// The consumer of that name, which is made if there is none, and that is told. Whether it was made.
    pub(super) fn take_part(
        &mut self,
        space: &mut dyn WriteSpace,
        stream: &Stream<'_>,
        name: &[u8],
    ) -> Result<(ConsumerId, bool), Error> {
        let (consumer, is_new) = self.find_or_make(space, stream, name)?;
        if is_new {
            space.notify(Event::XGROUP_CREATECONSUMER, stream.key);
        }
        Ok((consumer, is_new))
    }

    /// A consumer asks, and may get nothing: when it did is noted, if there is such a one. Redis 7.2 makes it, and 7.0 does neither.
    pub(super) fn note_asking(
        &mut self,
        space: &mut dyn WriteSpace,
        stream: &Stream<'_>,
        name: &[u8],
    ) -> Result<Option<ConsumerId>, Error> {
        if space.rules() < Rules::Later || Consumer::load(space, stream, &self.group, name)?.is_none() {
            return Ok(None);
        }
        Ok(Some(self.find_or_make(space, stream, name)?.0))
    }

    fn find_or_make(
        &mut self,
        space: &mut dyn WriteSpace,
        stream: &Stream<'_>,
        name: &[u8],
    ) -> Result<(ConsumerId, bool), Error> {
        let now_ms = space.now_ms();
        // One that takes part already may have no row yet.
        let taking_part =
            self.consumers.values().find(|(known, _)| known == name).map(|(_, consumer)| consumer.clone());
        let found = match taking_part {
            Some(consumer) => Some(consumer),
            None => Consumer::load(space, stream, &self.group, name)?,
        };
        let is_new = found.is_none();
        let mut consumer = match found {
            Some(consumer) => self.consumers.get(&consumer.id).map_or(consumer, |(_, known)| known.clone()),
            None => {
                check_name(name)?;
                let id = self.group.next_consumer;
                self.group.next_consumer = ConsumerId(id.0 + 1);
                self.group.consumers += 1;
                space.element_put(&self.rows, &names::consumer_name(self.group.id, id), name)?;
                Consumer { id, seen_ms: now_ms, active_ms: None, pending: 0 }
            }
        };
        consumer.seen_ms = now_ms;
        let id = consumer.id;
        self.consumers.insert(id, (name.to_vec(), consumer));
        Ok((id, is_new))
    }

    /// Makes a consumer as it was.
    pub(super) fn restore_consumer(
        &mut self,
        space: &mut dyn WriteSpace,
        stream: &Stream<'_>,
        name: &[u8],
        seen_ms: u64,
        active_ms: Option<u64>,
    ) -> Outcome {
        let (id, _) = self.find_or_make(space, stream, name)?;
        if let Some((_, consumer)) = self.consumers.get_mut(&id) {
            (consumer.seen_ms, consumer.active_ms) = (seen_ms, active_ms);
        }
        Ok(())
    }

    /// A consumer that takes part got something.
    pub(super) fn is_active(&mut self, consumer: ConsumerId, now_ms: u64) {
        if let Some((_, consumer)) = self.consumers.get_mut(&consumer) {
            consumer.active_ms = Some(now_ms);
        }
    }

    /// More or fewer entries are pending for a consumer.
    fn count_pending(&mut self, space: &mut dyn ReadSpace, stream: &Stream<'_>, id: ConsumerId, by: i64) -> Outcome {
        if id == ConsumerId::NONE {
            return Ok(());
        }
        if !self.consumers.contains_key(&id) {
            let name = name_of(space, stream, self.group.id, id)?;
            let consumer = Consumer::load(space, stream, &self.group, &name)?;
            let consumer = consumer.ok_or_else(|| stream.corrupt("pending entry without a consumer"))?;
            self.consumers.insert(id, (name, consumer));
        }
        let consumer = &mut self.consumers.get_mut(&id).expect("it was put there").1;
        consumer.pending = consumer.pending.saturating_add_signed(by);
        Ok(())
    }

    /// Makes an entry pending; `before` is what was pending of that id.
    pub(super) fn put(
        &mut self,
        space: &mut dyn WriteSpace,
        stream: &Stream<'_>,
        id: StreamId,
        before: Option<Pending>,
        pending: Pending,
    ) -> Outcome {
        let group = self.group.id;
        if before.is_none_or(|before| before.consumer != pending.consumer) {
            if let Some(before) = before {
                space.element_delete(&self.rows, &names::pending_of(group, before.consumer, id))?;
                self.count_pending(space, stream, before.consumer, -1)?;
            } else {
                self.group.pending += 1;
            }
            space.element_put(&self.rows, &names::pending_of(group, pending.consumer, id), b"")?;
            self.count_pending(space, stream, pending.consumer, 1)?;
        }
        Ok(space.element_put(&self.rows, &names::pending(group, id), &pending.encode())?)
    }

    /// An entry is no longer pending.
    pub(super) fn remove(
        &mut self,
        space: &mut dyn WriteSpace,
        stream: &Stream<'_>,
        id: StreamId,
        pending: Pending,
    ) -> Outcome {
        let group = self.group.id;
        space.element_delete(&self.rows, &names::pending(group, id))?;
        space.element_delete(&self.rows, &names::pending_of(group, pending.consumer, id))?;
        self.group.pending = self.group.pending.saturating_sub(1);
        self.count_pending(space, stream, pending.consumer, -1)
    }

    /// Whether there is a consumer of that name.
    pub(super) fn has(&self, space: &mut dyn ReadSpace, stream: &Stream<'_>, name: &[u8]) -> Result<bool, Error> {
        Ok(Consumer::load(space, stream, &self.group, name)?.is_some())
    }

    /// Removes the group with all its rows. The caller saves the stream.
    pub(super) fn destroy(self, space: &mut dyn WriteSpace) -> Outcome {
        space.element_delete(&self.rows, &names::group(self.name))?;
        let prefix = [&self.rows.prefix[..], &names::of_group(self.group.id)].concat();
        Ok(space.drop_rows(&Rows { prefix, count: 0 })?)
    }

    /// Removes a consumer with what is pending for it; answers how much that was, if there is the consumer.
    pub(super) fn remove_consumer(
        &mut self,
        space: &mut dyn WriteSpace,
        stream: &Stream<'_>,
        name: &[u8],
    ) -> Result<Option<u64>, Error> {
        let Some(consumer) = Consumer::load(space, stream, &self.group, name)? else { return Ok(None) };
        let (group, id) = (self.group.id, consumer.id);
        let mut walk = NameWalk::new(names::all_pending_of(group, id));
        while let Some(found) = walk.next(space, &self.rows)? {
            for (name, _) in found {
                let id = names::id_of(&name).ok_or_else(|| stream.corrupt("pending entry without an id"))?;
                space.element_delete(&self.rows, &names::pending(group, id))?;
                space.element_delete(&self.rows, &name)?;
            }
        }
        space.element_delete(&self.rows, &names::consumer(group, name))?;
        space.element_delete(&self.rows, &names::consumer_name(group, id))?;
        self.group.consumers = self.group.consumers.saturating_sub(1);
        self.group.pending = self.group.pending.saturating_sub(consumer.pending);
        Ok(Some(consumer.pending))
    }

    /// Writes the group and the consumers that take part.
    pub(super) fn save(&self, space: &mut dyn WriteSpace) -> Outcome {
        for (name, consumer) in self.consumers.values() {
            space.element_put(&self.rows, &names::consumer(self.group.id, name), &consumer.encode())?;
        }
        self.group.save(space, &self.rows, self.name)
    }
}

/// Rows whose names begin alike, some at a time.
pub(super) struct NameWalk {
    prefix: Vec<u8>,
    /// The name that was read last.
    after: Vec<u8>,
    is_over: bool,
}

/// Rows that are read at a time.
const ROWS: usize = 128;
/// Bytes of them after which fewer are read.
const ROWS_BYTES_SOFT: usize = 1 << 20;

impl NameWalk {
    /// All rows whose names begin so.
    pub(super) fn new(prefix: Vec<u8>) -> Self {
        Self { after: prefix.clone(), prefix, is_over: false }
    }

    /// The pending entries of a group, from an id on.
    pub(super) fn from_id(group: GroupId, start: StreamId) -> Self {
        let prefix = names::all_pending(group);
        match start.previous() {
            Some(before) => Self::behind(prefix, names::pending(group, before)),
            None => Self::new(prefix),
        }
    }

    /// Those behind a name.
    pub(super) fn behind(prefix: Vec<u8>, after: Vec<u8>) -> Self {
        Self { prefix, after, is_over: false }
    }

    /// The next of them; `None` if there are no more.
    pub(super) fn next(
        &mut self,
        space: &mut dyn ReadSpace,
        rows: &Rows,
    ) -> Result<Option<Vec<(storage::Slice, storage::Slice)>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let mut found = space.elements_within(rows, Some(&self.after), ROWS, ROWS_BYTES_SOFT)?;
        let within = found.iter().take_while(|(name, _)| name.starts_with(&self.prefix)).count();
        self.is_over = within < found.len() || found.is_empty();
        found.truncate(within);
        if let Some((last, _)) = found.last() {
            self.after = last.to_vec();
        }
        Ok((!found.is_empty()).then_some(found))
    }
}
