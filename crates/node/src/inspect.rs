//! What is in a tree and in a log, taken apart for `basalt inspect`.

mod list;
mod long_string;
mod overlay;
mod replay;
mod sorted_set;
mod stream;
mod told;

pub use crate::command::stream::{StreamConsumer, StreamEntry, StreamExcerpt, StreamGroup, StreamPending};
pub use crate::command::zset::{SortedSetExcerpt, SortedSetMember};
pub use list::list_elements;
pub use long_string::{check_string, whole_string};
pub use replay::Replay;
pub use sorted_set::sorted_set_excerpt;
pub use stream::stream_excerpt;

use crate::command::hash;
use crate::format::entry::{Args, Item};
use crate::format::field_expiry;
use crate::format::keys;
use crate::format::record::{Kind, Layout, Record, Rows};
use resp::table;
use storage::Span;
use vocab::Slot;

/// The name of the meta record that holds how many keys each slot has.
pub const COUNTERS: &[u8] = keys::META_COUNTERS;

/// A tree key, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeKey<'a> {
    /// The record of a key.
    Record(&'a [u8]),
    /// A row of a large collection.
    Row {
        /// The slot of the collection's key.
        slot: Slot,
        /// The collection's id.
        id: u64,
        /// What follows: by the collection's type.
        rest: &'a [u8],
    },
    /// One field of a large hash that an earlier release has made.
    Element {
        /// The hash's key.
        key: &'a [u8],
        /// The hash's generation.
        generation: u64,
        /// The field.
        field: &'a [u8],
    },
    /// When a key expires.
    Expiry {
        /// In ms since the epoch.
        at_ms: u64,
        /// The key.
        key: &'a [u8],
    },
    /// When background collection is to look at the fields of a hash.
    FieldsDue {
        /// In ms since the epoch.
        at_ms: u64,
        /// The key of the hash.
        key: &'a [u8],
    },
    /// What is remembered of the numbered requests of a client.
    Requests {
        /// The client's id; empty: this is the count of such clients.
        client: &'a [u8],
    },
    /// When the numbered requests of a client are to be forgotten.
    Forgetting {
        /// In ms since the epoch.
        at_ms: u64,
        /// The client's id.
        client: &'a [u8],
    },
    /// A whole map, in the metadata group.
    Map,
    /// A change of the map, in the metadata group.
    MapChange {
        /// The epoch of the map that it made.
        epoch: u64,
    },
    /// An event of the store, in the metadata group.
    Event {
        /// Its number.
        number: u64,
    },
    /// A script, or the libraries of functions, in the metadata group.
    Program {
        /// Its name.
        name: &'a [u8],
    },
    /// The members of a set that SPOP draws from.
    Drawn,
    /// Elements that are to be collected.
    Garbage {
        /// The key of the hash that they belonged to.
        key: &'a [u8],
        /// Its generation.
        generation: u64,
    },
}

impl<'a> TreeKey<'a> {
    /// Takes a tree key apart; `None` if it is none that this version writes.
    #[must_use]
    pub fn parse(tree_key: &'a [u8]) -> Option<Self> {
        if let Some(key) = keys::key_of_record(tree_key) {
            return Some(Self::Record(key));
        }
        if let Some((at_ms, key)) = keys::parse_expiry(tree_key) {
            return Some(Self::Expiry { at_ms, key });
        }
        if let Some((at_ms, key)) = keys::parse_fields_due(tree_key) {
            return Some(Self::FieldsDue { at_ms, key });
        }
        if let Some(client) = keys::client_of_requests(tree_key) {
            return Some(Self::Requests { client });
        }
        if let Some((at_ms, client)) = keys::parse_forgetting(tree_key) {
            return Some(Self::Forgetting { at_ms, client });
        }
        if tree_key == keys::DRAWN {
            return Some(Self::Drawn);
        }
        if tree_key == keys::MAP {
            return Some(Self::Map);
        }
        if let Some(epoch) = keys::epoch_of_change(tree_key) {
            return Some(Self::MapChange { epoch });
        }
        if let Some(number) = keys::number_of_event(tree_key) {
            return Some(Self::Event { number });
        }
        if let Some(name) = keys::name_of_program(tree_key) {
            return Some(Self::Program { name });
        }
        let keys::CollectionKey { home, is_garbage, rest } = keys::parse_collection(tree_key)?;
        match (home, is_garbage) {
            (keys::Home::Id(slot, id), false) => Some(Self::Row { slot, id, rest }),
            (keys::Home::Key(key, generation), false) => {
                Some(Self::Element { key, generation, field: hash::field_of(rest)? })
            }
            _ if !rest.is_empty() => None,
            (keys::Home::Id(..), true) => None,
            (keys::Home::Key(key, generation), true) => Some(Self::Garbage { key, generation }),
        }
    }

    /// The field of a row of a large hash.
    #[must_use]
    pub fn field(&self) -> Option<&'a [u8]> {
        match self {
            Self::Row { rest, .. } => hash::field_of(rest),
            Self::Element { field, .. } => Some(field),
            _ => None,
        }
    }

    /// The user's key that it is about, if it is about one.
    #[must_use]
    pub fn key(&self) -> Option<&'a [u8]> {
        match self {
            Self::Record(key)
            | Self::Element { key, .. }
            | Self::Expiry { key, .. }
            | Self::FieldsDue { key, .. }
            | Self::Garbage { key, .. } => Some(key),
            Self::Row { .. } => None,
            Self::Requests { .. } | Self::Forgetting { .. } => None,
            Self::Map | Self::MapChange { .. } | Self::Event { .. } | Self::Program { .. } | Self::Drawn => None,
        }
    }
}

/// The tree key of a key's record.
#[must_use]
pub fn record_key(key: &[u8]) -> Vec<u8> {
    keys::record(key)
}

/// The records of all keys that begin with `prefix`.
#[must_use]
pub fn record_span(prefix: &[u8]) -> Span {
    let start = keys::record(prefix);
    let end = keys::prefix_end(&start);
    Span { start, end }
}

/// The field of a large hash's row, or the member of a set's or a sorted set's, among those that `RecordView::fields` names.
#[must_use]
pub fn field_of<'k>(fields: &Rows, tree_key: &'k [u8]) -> Option<&'k [u8]> {
    hash::field_of(tree_key.strip_prefix(&fields.prefix[..])?)
}

/// Whether the row of a hash says when a field expires, and is no field.
#[must_use]
pub fn is_about_expiry(fields: &Rows, tree_key: &[u8]) -> bool {
    tree_key.strip_prefix(&fields.prefix[..]).is_some_and(field_expiry::is_about_expiry)
}

/// The elements of a large collection.
#[must_use]
pub fn element_span(rows: &Rows) -> Span {
    Span { start: rows.prefix.clone(), end: keys::prefix_end(&rows.prefix) }
}

/// A field of a hash and its value.
pub type Field<'a> = (&'a [u8], &'a [u8]);

/// The fields and values of a hash that is one record, or the members of a set and nothing; the error says what is malformed. None for other kinds.
pub fn hash_fields(record: &Record) -> Result<Vec<Field<'_>>, String> {
    let view = record.view();
    if view.kind.layout == Layout::ExpiringPacked {
        let (_, packed) = field_expiry::parse(view.payload).map_err(|why| why.to_string())?;
        hash::fields_of(packed)
    } else if matches!(view.kind, Kind::HASH | Kind::SET | Kind::SORTED_SET) {
        hash::fields_of(view.payload)
    } else {
        Ok(Vec::new())
    }
}

/// Slots and how many keys each has, from the meta record `COUNTERS`; those that have none are left out.
pub fn key_counts(bytes: &[u8]) -> Result<Vec<(Slot, u64)>, &'static str> {
    crate::counters::decode(bytes).map(Iterator::collect)
}

/// Whether an item of an entry reads, writes or watches `key`, or may: FLUSHALL and housekeeping touch all.
#[must_use]
pub fn touches(item: &Item<'_>, key: &[u8]) -> bool {
    match item {
        Item::Command(args) => names(args, key),
        Item::Transaction { watches, commands } => {
            watches.iter().any(|(watched, _)| *watched == key) || commands.iter().any(|args| names(args, key))
        }
        Item::Clear | Item::Housekeeping | Item::Collect(_) => true,
        Item::Change(_)
        | Item::KeptChange(_)
        | Item::Mark(_)
        | Item::Seal
        | Item::Split(_)
        | Item::Packing(_)
        | Item::KeyBounds(_)
        | Item::BoundsOfAll(_)
        | Item::Together
        | Item::GoingOn
        | Item::Rules(_) => false,
    }
}

/// Whether `key` is one of a command's keys; of a command that is not known, any argument counts.
fn names(args: &Args<'_>, key: &[u8]) -> bool {
    let positions = table::resolve(args).ok().and_then(|spec| spec.keys(args).ok());
    match positions {
        Some(mut positions) => positions.any(|at| args.get(at) == Some(&key)),
        None => args.contains(&key),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tree_keys_are_taken_apart_as_they_are_put_together() {
        let (keyed, rows) = (keys::keyed_rows(b"h", 7), keys::rows(Slot(5), 8));
        let name = b"\0\0\0\0\0\x01field";
        let table = [
            (keys::record(b"k"), TreeKey::Record(b"k")),
            (keys::record(b""), TreeKey::Record(b"")),
            (keys::expiry(9, b"k"), TreeKey::Expiry { at_ms: 9, key: b"k" }),
            (keys::fields_due(9, b"k"), TreeKey::FieldsDue { at_ms: 9, key: b"k" }),
            (keys::element(&keyed, name), TreeKey::Element { key: b"h", generation: 7, field: b"field" }),
            (keys::element(&rows, name), TreeKey::Row { slot: Slot(5), id: 8, rest: name }),
            (keys::requests(b"c"), TreeKey::Requests { client: b"c" }),
            (keys::forgetting(9, b"c"), TreeKey::Forgetting { at_ms: 9, client: b"c" }),
            (keys::MAP.to_vec(), TreeKey::Map),
            (keys::DRAWN.to_vec(), TreeKey::Drawn),
            (keys::map_change(9), TreeKey::MapChange { epoch: 9 }),
            (keys::event(9), TreeKey::Event { number: 9 }),
            (keys::program(b"sx"), TreeKey::Program { name: b"sx" }),
            (keys::garbage(&keyed), TreeKey::Garbage { key: b"h", generation: 7 }),
        ];
        for (tree_key, parts) in &table {
            assert_eq!(TreeKey::parse(tree_key), Some(*parts));
        }
        for unknown in [&b"z"[..], b"", b"e", b"e\0\x05abc", b"g\0\x01k12345678more", b"x1234567"] {
            assert_eq!(TreeKey::parse(unknown), None, "{}", unknown.escape_ascii());
        }
    }

    #[test]
    fn commands_touch_their_keys_only() {
        let command = |words: &'static str| Item::Command(words.split(' ').map(str::as_bytes).collect());
        let table = [
            (command("SET k v"), true),
            (command("SET v k"), false),
            (command("mset a k b v k x"), true),
            (command("RENAME a k"), true),
            (command("NOSUCH a k"), true),
            (Item::Clear, true),
            (Item::Transaction { watches: vec![(b"k", 1)], commands: Vec::new() }, true),
            (Item::Transaction { watches: vec![(b"a", 1)], commands: vec![vec![b"DEL", b"b", b"k"]] }, true),
            (Item::Transaction { watches: Vec::new(), commands: vec![vec![b"GET", b"b"]] }, false),
        ];
        for (item, expected) in &table {
            assert_eq!(touches(item, b"k"), *expected, "{item:?}");
        }
    }
}
