//! What a stream holds: entries, and groups with their consumers and pending entries.

use super::logged::Words;
use super::show::{Bytes, Shown, count, left_out, time};
use node::Record;
use node::inspect::{StreamConsumer, StreamEntry, StreamGroup, StreamPending, stream_excerpt};
use serde::Serialize;
use std::io::{self, Write};
use storage::Snapshot;

/// The beginning of a stream.
#[derive(Serialize)]
pub struct StoredStream {
    /// The highest id of all entries that there were.
    last_id: String,
    /// How many entries were ever added.
    entries_added: u64,
    length: u64,
    /// The first entries.
    entries: Vec<StoredEntry>,
    group_count: u64,
    /// The first groups.
    groups: Vec<StoredGroup>,
}

#[derive(Serialize)]
struct StoredEntry {
    id: String,
    /// Fields and values in turn.
    fields: Words,
}

#[derive(Serialize)]
struct StoredGroup {
    name: Bytes,
    /// The highest id that was delivered.
    last_id: String,
    entries_read: Option<u64>,
    consumer_count: u64,
    /// The first consumers.
    consumers: Vec<StoredConsumer>,
    pending_count: u64,
    /// The first pending entries.
    pending: Vec<StoredPending>,
}

#[derive(Serialize)]
struct StoredConsumer {
    name: Bytes,
    pending_count: u64,
    /// When it last asked, in ms since the epoch.
    seen_ms: u64,
    /// When it last got something, in ms since the epoch.
    active_ms: Option<u64>,
}

/// An entry that was delivered and is not acknowledged.
#[derive(Serialize)]
struct StoredPending {
    id: String,
    /// None: it has been released.
    consumer: Option<Bytes>,
    /// When it was last delivered, in ms since the epoch.
    delivered_ms: u64,
    deliveries: u64,
}

impl StoredStream {
    /// That of the record of `key`; of a large stream, `tree` has the rows.
    pub fn of(key: &[u8], record: &Record, tree: &dyn Snapshot, shown: Shown) -> Result<Self, String> {
        let excerpt = stream_excerpt(key, record, tree, shown.most())?;
        Ok(Self {
            last_id: excerpt.last_id,
            entries_added: excerpt.added,
            length: excerpt.length,
            entries: excerpt.entries.into_iter().map(|entry| StoredEntry::of(entry, shown)).collect(),
            group_count: excerpt.group_count,
            groups: excerpt.groups.into_iter().map(|group| StoredGroup::of(group, shown)).collect(),
        })
    }

    /// How many entries there are.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// A line for each entry, then the groups.
    pub fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        for StoredEntry { id, fields } in &self.entries {
            writeln!(out, "    {id}  {fields}")?;
        }
        left_out(out, "    ", self.entries.len(), self.length)?;
        let groups = count(self.group_count, "group", "groups");
        writeln!(out, "  last id {}, added {}, {groups}", self.last_id, self.entries_added)?;
        self.groups.iter().try_for_each(|group| group.text(out))?;
        left_out(out, "    ", self.groups.len(), self.group_count)
    }
}

impl StoredEntry {
    fn of(entry: StreamEntry, shown: Shown) -> Self {
        let strings: Vec<&[u8]> = entry.strings.iter().map(Vec::as_slice).collect();
        let fields = Words::of(&strings, shown);
        Self { id: entry.id, fields }
    }
}

impl StoredGroup {
    fn of(group: StreamGroup, shown: Shown) -> Self {
        Self {
            name: Bytes::of(&group.name, shown),
            last_id: group.last_id,
            entries_read: group.read,
            consumer_count: group.consumer_count,
            consumers: group.consumers.iter().map(|consumer| StoredConsumer::of(consumer, shown)).collect(),
            pending_count: group.pending_count,
            pending: group.pending.into_iter().map(|pending| StoredPending::of(pending, shown)).collect(),
        }
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let consumers = count(self.consumer_count, "consumer", "consumers");
        write!(out, "    group {}: last id {}, {consumers}, {} pending", self.name, self.last_id, self.pending_count)?;
        match self.entries_read {
            Some(read) => writeln!(out, ", {read} read")?,
            None => writeln!(out)?,
        }
        self.consumers.iter().try_for_each(|consumer| consumer.text(out))?;
        left_out(out, "      ", self.consumers.len(), self.consumer_count)?;
        self.pending.iter().try_for_each(|pending| pending.text(out))?;
        left_out(out, "      ", self.pending.len(), self.pending_count)
    }
}

impl StoredConsumer {
    fn of(consumer: &StreamConsumer, shown: Shown) -> Self {
        Self {
            name: Bytes::of(&consumer.name, shown),
            pending_count: consumer.pending,
            seen_ms: consumer.seen_ms,
            active_ms: consumer.active_ms,
        }
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let active = self.active_ms.map_or_else(|| "never".to_owned(), time);
        let seen = time(self.seen_ms);
        writeln!(out, "      consumer {}: {} pending, asked {seen}, got {active}", self.name, self.pending_count)
    }
}

impl StoredPending {
    fn of(pending: StreamPending, shown: Shown) -> Self {
        Self {
            id: pending.id,
            consumer: pending.consumer.map(|name| Bytes::of(&name, shown)),
            delivered_ms: pending.delivered_ms,
            deliveries: pending.deliveries,
        }
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let times = count(self.deliveries, "time", "times");
        match &self.consumer {
            Some(name) => {
                let at = time(self.delivered_ms);
                writeln!(out, "      pending {}: consumer {name}, delivered {times}, last {at}", self.id)
            }
            None => writeln!(out, "      pending {}: released, delivered {times}", self.id),
        }
    }
}
