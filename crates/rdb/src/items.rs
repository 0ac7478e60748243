//! A stream as a list of items, each a list of words: the form in which Basalt hands streams out piece by piece. docs/FORMATS.md
//! has the words.

use crate::{Consumer, Group, Pending, Stream, StreamEntry, StreamId};
use std::collections::HashMap;

/// The words of an item.
pub type Item = Vec<Vec<u8>>;

/// A stream that is put together of its items.
///
/// Invariant: `groups` and `consumers` say where the first of each name is in `stream`, of all that are there.
#[derive(Debug, Default)]
pub struct StreamBuilder {
    stream: Stream,
    /// The places of the groups.
    groups: HashMap<Vec<u8>, usize>,
    /// The places of the consumers within their group, by that group's place and their names.
    consumers: HashMap<(usize, Vec<u8>), usize>,
}

impl StreamBuilder {
    /// Takes the next item. `None` if it is none, or of a group that is not there.
    pub fn add(&mut self, item: Item) -> Option<()> {
        let mut words = item.into_iter();
        let kind = words.next()?;
        if kind == b"E" {
            let id = StreamId::parse(&words.next()?)?;
            let mut fields = Vec::with_capacity(words.len() / 2);
            while let Some(name) = words.next() {
                fields.push((name, words.next()?));
            }
            self.stream.entries.push(StreamEntry { id, fields });
            return Some(());
        }
        let first = words.next()?;
        match kind.as_slice() {
            b"S" => {
                self.stream.last_id = StreamId::parse(&first)?;
                (self.stream.max_deleted_id, self.stream.added) =
                    (StreamId::parse(&words.next()?)?, number(&words.next()?)?);
            }
            b"G" => {
                let (last_id, read) = (StreamId::parse(&words.next()?)?, number(&words.next()?));
                self.groups.entry(first.clone()).or_insert(self.stream.groups.len());
                let (consumers, released) = (Vec::new(), Vec::new());
                self.stream.groups.push(Group { name: first, last_id, read, consumers, released });
            }
            b"C" => {
                let (name, seen_ms, active_ms) = (words.next()?, number(&words.next()?)?, number(&words.next()?));
                let group = *self.groups.get(&first)?;
                self.add_consumer(group, Consumer { name, seen_ms, active_ms, pending: Vec::new() });
            }
            b"N" => {
                let (id, deliveries) = (StreamId::parse(&words.next()?)?, number(&words.next()?)?);
                let group = *self.groups.get(&first)?;
                self.stream.groups[group].released.push(Pending { id, delivered_ms: 0, deliveries });
            }
            b"P" => {
                let consumer = words.next()?;
                let (id, delivered_ms, deliveries) =
                    (StreamId::parse(&words.next()?)?, number(&words.next()?)?, number(&words.next()?)?);
                let group = *self.groups.get(&first)?;
                self.add_pending(&(group, consumer), Pending { id, delivered_ms, deliveries })?;
            }
            _ => return None,
        }
        Some(())
    }

    /// What the items so far have told.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The same, when all items have come.
    #[must_use]
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    /// The entries so far, which their owner may take away: items are not told by them.
    pub fn entries_mut(&mut self) -> &mut Vec<StreamEntry> {
        &mut self.stream.entries
    }

    fn add_consumer(&mut self, group: usize, consumer: Consumer) {
        let consumers = &mut self.stream.groups[group].consumers;
        self.consumers.entry((group, consumer.name.clone())).or_insert(consumers.len());
        consumers.push(consumer);
    }

    fn add_pending(&mut self, of: &(usize, Vec<u8>), pending: Pending) -> Option<()> {
        let at = *self.consumers.get(of)?;
        self.stream.groups[of.0].consumers[at].pending.push(pending);
        Some(())
    }
}

/// The number that a text is; of -1, none.
fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The items of a stream.
#[must_use]
pub fn items_of(stream: &Stream) -> Vec<Item> {
    let id = |id: StreamId| format!("{}-{}", id.ms, id.seq).into_bytes();
    let text = |n: u64| n.to_string().into_bytes();
    let or_none = |n: Option<u64>| n.map_or_else(|| b"-1".to_vec(), text);
    let mut items: Vec<Item> = Vec::with_capacity(stream.entries.len() + 1);
    for entry in &stream.entries {
        let fields = entry.fields.iter().flat_map(|(name, value)| [name.clone(), value.clone()]);
        items.push([b"E".to_vec(), id(entry.id)].into_iter().chain(fields).collect());
    }
    items.push(vec![b"S".to_vec(), id(stream.last_id), id(stream.max_deleted_id), text(stream.added)]);
    for group in &stream.groups {
        items.push(vec![b"G".to_vec(), group.name.clone(), id(group.last_id), or_none(group.read)]);
    }
    for group in &stream.groups {
        for consumer in &group.consumers {
            let (seen, active) = (text(consumer.seen_ms), or_none(consumer.active_ms));
            items.push(vec![b"C".to_vec(), group.name.clone(), consumer.name.clone(), seen, active]);
        }
    }
    for group in &stream.groups {
        for Pending { id: of, deliveries, .. } in &group.released {
            items.push(vec![b"N".to_vec(), group.name.clone(), id(*of), text(*deliveries)]);
        }
        for consumer in &group.consumers {
            for pending in &consumer.pending {
                let (delivered, deliveries) = (text(pending.delivered_ms), text(pending.deliveries));
                let (group, consumer) = (group.name.clone(), consumer.name.clone());
                items.push(vec![b"P".to_vec(), group, consumer, id(pending.id), delivered, deliveries]);
            }
        }
    }
    items
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn item(words: &str) -> Item {
        words.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    /// Items of one kind come for all groups in turn: to look for a group among those before takes minutes.
    #[test]
    fn streams_of_very_many_groups_and_consumers_are_put_together() {
        const MANY: usize = 50_000;
        let mut builder = StreamBuilder::default();
        let mut add = |words: String| builder.add(item(&words)).unwrap();
        (0..MANY).for_each(|n| add(format!("G g{n} 0-0 -1")));
        (0..MANY).for_each(|n| add(format!("C g{n} c 1 -1")));
        (0..MANY).for_each(|n| add(format!("C g7 c{n} 1 -1")));
        (0..MANY).for_each(|n| add(format!("P g7 c{} {n}-1 2 3", MANY - 1 - n)));
        (0..MANY).for_each(|n| add(format!("N g{n} 5-5 1")));
        let stream = builder.into_stream();
        assert!(stream.groups.iter().enumerate().all(|(n, group)| group.name == format!("g{n}").into_bytes()));
        let group = &stream.groups[7];
        assert_eq!(group.consumers.len(), 1 + MANY);
        assert_eq!(
            group.consumers[1].pending,
            [Pending { id: StreamId { ms: MANY as u64 - 1, seq: 1 }, delivered_ms: 2, deliveries: 3 }]
        );
        assert_eq!(group.released, [Pending { id: StreamId { ms: 5, seq: 5 }, delivered_ms: 0, deliveries: 1 }]);
        assert_eq!(items_of(&stream).len(), 1 + 5 * MANY);
        let mut group = group.clone();
        group.name_released();
        assert!(group.consumers[MANY + 1].name.is_empty() && group.consumers[MANY + 1].pending.len() == 1);
    }

    #[test]
    fn items_of_what_is_not_there_are_refused_and_the_first_of_a_name_counts() {
        let mut builder = StreamBuilder::default();
        for words in ["C g c 1 1", "N g 1-1 1", "P g c 1-1 1 1", "X g", "G", "G g nothing 1"] {
            assert_eq!(builder.add(item(words)), None, "{words}");
        }
        for words in ["G g 1-1 1", "G g 2-2 2", "C g c 1 1", "C g c 2 2", "P g c 1-1 1 1"] {
            builder.add(item(words)).unwrap();
        }
        assert_eq!(builder.add(item("P g d 1-1 1 1")), None);
        let groups = builder.into_stream().groups;
        assert_eq!((groups[0].consumers.len(), groups[1].consumers.len()), (2, 0));
        assert_eq!((groups[0].consumers[0].pending.len(), groups[0].consumers[1].pending.len()), (1, 0));
    }
}
