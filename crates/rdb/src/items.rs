//! A stream as a list of items, each a list of words: the form in which Basalt hands streams out piece by piece. docs/FORMATS.md
//! has the words.

use crate::{Consumer, Group, Pending, Stream, StreamEntry, StreamId};

/// The words of an item.
pub type Item = Vec<Vec<u8>>;

/// Takes the next item into a stream. `None` if it is none, or of a group that is not there.
pub fn add_item(stream: &mut Stream, item: Item) -> Option<()> {
    let mut words = item.into_iter();
    let kind = words.next()?;
    if kind == b"E" {
        let id = id(&words.next()?)?;
        let mut fields = Vec::with_capacity(words.len() / 2);
        while let Some(name) = words.next() {
            fields.push((name, words.next()?));
        }
        stream.entries.push(StreamEntry { id, fields });
        return Some(());
    }
    let first = words.next()?;
    match kind.as_slice() {
        b"S" => {
            stream.last_id = id(&first)?;
            (stream.max_deleted_id, stream.added) = (id(&words.next()?)?, number(&words.next()?)?);
        }
        b"G" => {
            let (last_id, read) = (id(&words.next()?)?, number(&words.next()?));
            stream.groups.push(Group { name: first, last_id, read, consumers: Vec::new() });
        }
        b"C" => {
            let (name, seen_ms, active_ms) = (words.next()?, number(&words.next()?)?, number(&words.next()?));
            let group = stream.groups.iter_mut().find(|group| group.name == first)?;
            group.consumers.push(Consumer { name, seen_ms, active_ms, pending: Vec::new() });
        }
        // Redis 7 knows no pending entry of no consumer: it is one of a consumer without a name.
        b"N" => {
            let (id, deliveries) = (id(&words.next()?)?, number(&words.next()?)?);
            let group = stream.groups.iter_mut().find(|group| group.name == first)?;
            let at = group.consumers.iter().position(|of| of.name.is_empty()).unwrap_or_else(|| {
                let (name, pending) = (Vec::new(), Vec::new());
                group.consumers.push(Consumer { name, seen_ms: 0, active_ms: None, pending });
                group.consumers.len() - 1
            });
            group.consumers[at].pending.push(Pending { id, delivered_ms: 0, deliveries });
        }
        b"P" => {
            let consumer = words.next()?;
            let (id, delivered_ms, deliveries) =
                (id(&words.next()?)?, number(&words.next()?)?, number(&words.next()?)?);
            let group = stream.groups.iter_mut().find(|group| group.name == first)?;
            let consumer = group.consumers.iter_mut().find(|of| of.name == consumer)?;
            consumer.pending.push(Pending { id, delivered_ms, deliveries });
        }
        _ => return None,
    }
    Some(())
}

fn id(text: &[u8]) -> Option<StreamId> {
    let (ms, seq) = std::str::from_utf8(text).ok()?.split_once('-')?;
    Some(StreamId { ms: ms.parse().ok()?, seq: seq.parse().ok()? })
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
