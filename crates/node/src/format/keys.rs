//! The keys of a shard's tree: one byte says what a tree key is for. docs/FORMATS.md has the layouts.
//!
//! ```text
//! r key                                      a key's record; raw bytes, so that order is the keys' order
//! f slot(u16) id(u64) element                one element of a large collection
//! e length(u16) key generation(u64) element  the same, as earlier releases wrote them
//! g length(u16) key generation(u64)          such elements, to be collected in the background
//! x time(u64) key                            when a key expires: the expiry index
//! h time(u64) key                            when fields of a hash expire: one for each hash that has such
//! t time(u64) prefix                         rows that are being made, and by when they must be whole
//! q client                                   what is remembered of a client's numbered requests; q alone: of how many
//! y time(u64) client                         when that is to be forgotten
//! m                                          the map; only in the metadata group
//! m epoch(u64)                               the change that made the map of that epoch; the same
//! v number(u64)                              an event of the store; only in the metadata group
//! d                                          the members of a large set that SPOP draws from (`drawn_stretch`)
//! p name                                     a program of the store, such as a script; only in the metadata group
//! ```
//! Integers are big-endian, so that byte order is their order. Byte 0 belongs to storage.

use vocab::Slot;

/// How long the prefix of a collection's tree keys is.
pub(crate) const ROWS_BYTES: usize = 11;

/// The name of the meta record that holds the counters of keys by slot.
pub(crate) const META_COUNTERS: &[u8] = b"counters";
/// The name of the meta record that holds how many keys of each slot have an expiry.
pub(crate) const META_EXPIRING: &[u8] = b"expiring-slots";
/// The name of the meta record that holds how many keys of each slot are a database's.
pub(crate) const META_OF_DATABASES: &[u8] = b"database-slots";
/// The name of the meta record that holds how many of those have an expiry.
pub(crate) const META_EXPIRING_OF_DATABASES: &[u8] = b"expiring-database-slots";
/// Counts of keys of cluster databases.
pub(crate) const META_OF_CLUSTER_DATABASES: &[u8] = b"cluster-databases";
/// The name of the meta record that holds the index as of which all these were written: u64, little-endian. In a tree of another index some of
/// them are of before, for a release that did not know them has gone on with it.
pub(crate) const META_COUNTED_AT: &[u8] = b"counted-at";
/// The name of the meta record that holds which slots the shard owns, as of the tree's index.
pub(crate) const META_SLOTS: &[u8] = b"slots";

/// The name of the meta record that tells which snapshot the tree was filled from: index, term and members.
pub const META_SNAPSHOT: &[u8] = b"snapshot";
/// The map, in the metadata group's tree.
pub(crate) const MAP: &[u8] = b"m";
/// The members of a large set that SPOP draws from.
pub(crate) const DRAWN: &[u8] = b"d";

const RECORD: u8 = b'r';
const KEYED_ROW: u8 = b'e';
const ROW: u8 = b'f';
const EXPIRY: u8 = b'x';
const FIELDS_DUE: u8 = b'h';
const GARBAGE: u8 = b'g';
const STAGED: u8 = b't';
const REQUESTS: u8 = b'q';
const FORGETTING: u8 = b'y';
const EVENT: u8 = b'v';
const PROGRAM: u8 = b'p';
const MAP_CHANGE: u8 = b'm';
const _: () = assert!(MAP_CHANGE == MAP[0]);

pub(crate) fn record(key: &[u8]) -> Vec<u8> {
    with_prefix(RECORD, key)
}

/// Writes the record key of `key` into a buffer that is used again.
pub(crate) fn record_into(buffer: &mut Vec<u8>, key: &[u8]) {
    buffer.clear();
    buffer.reserve(1 + key.len());
    buffer.push(RECORD);
    buffer.extend_from_slice(key);
}

/// The end of all records, exclusive.
pub(crate) fn records_end() -> Vec<u8> {
    vec![RECORD + 1]
}

/// The user's key in a record key.
pub(crate) fn key_of_record(tree_key: &[u8]) -> Option<&[u8]> {
    tree_key.strip_prefix(&[RECORD])
}

/// With what the tree keys of the collection with that id begin, in the slot of its keys.
pub(crate) fn rows(slot: Slot, id: u64) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(ROWS_BYTES);
    prefix.push(ROW);
    prefix.extend_from_slice(&slot.0.to_be_bytes());
    prefix.extend_from_slice(&id.to_be_bytes());
    prefix
}

/// The same for a collection below its key.
pub(crate) fn keyed_rows(key: &[u8], generation: u64) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(11 + key.len());
    prefix.push(KEYED_ROW);
    prefix.extend_from_slice(&(key.len() as u16).to_be_bytes());
    prefix.extend_from_slice(key);
    prefix.extend_from_slice(&generation.to_be_bytes());
    prefix
}

/// Whether these bytes are what the tree keys of one collection begin with.
pub(crate) fn is_rows_prefix(prefix: &[u8]) -> bool {
    match prefix.first() {
        Some(&ROW) => prefix.len() == ROWS_BYTES,
        Some(&KEYED_ROW) => parse_collection(prefix).is_some_and(|collection| collection.rest.is_empty()),
        _ => false,
    }
}

/// Whether rows that begin with `prefix` are below an id.
pub(crate) fn has_id(prefix: &[u8]) -> bool {
    prefix.first() == Some(&ROW)
}

/// The tree key of an element of the collection whose tree keys begin with `prefix`.
pub(crate) fn element(prefix: &[u8], element: &[u8]) -> Vec<u8> {
    let mut tree_key = Vec::with_capacity(prefix.len() + element.len());
    tree_key.extend_from_slice(prefix);
    tree_key.extend_from_slice(element);
    tree_key
}

/// Writes the tree key of an element into a buffer that is used again.
pub(crate) fn element_into(buffer: &mut Vec<u8>, prefix: &[u8], element: &[u8]) {
    buffer.clear();
    buffer.reserve(prefix.len() + element.len());
    buffer.extend_from_slice(prefix);
    buffer.extend_from_slice(element);
}

/// The tree key that has the rows of a collection below its key collected, as entries of format 1 drop one.
pub(crate) fn garbage(prefix: &[u8]) -> Vec<u8> {
    let mut tree_key = prefix.to_vec();
    if let Some(first) = tree_key.first_mut() {
        *first = GARBAGE;
    }
    tree_key
}

/// The row of a program.
pub(crate) fn program(name: &[u8]) -> Vec<u8> {
    with_prefix(PROGRAM, name)
}

/// The name in the key of such a row.
pub(crate) fn name_of_program(tree_key: &[u8]) -> Option<&[u8]> {
    tree_key.strip_prefix(&[PROGRAM])
}

pub(crate) fn expiry(at_ms: u64, key: &[u8]) -> Vec<u8> {
    timed(EXPIRY, at_ms, key)
}

/// The time and the user's key in an expiry key.
pub(crate) fn parse_expiry(tree_key: &[u8]) -> Option<(u64, &[u8])> {
    parse_timed(EXPIRY, tree_key)
}

/// Background collection is to look at the fields of the hash at `key` then.
pub(crate) fn fields_due(at_ms: u64, key: &[u8]) -> Vec<u8> {
    timed(FIELDS_DUE, at_ms, key)
}

/// The time and the user's key in such a tree key.
pub(crate) fn parse_fields_due(tree_key: &[u8]) -> Option<(u64, &[u8])> {
    parse_timed(FIELDS_DUE, tree_key)
}

/// First and end of all such tree keys.
pub(crate) fn all_fields_due() -> (Vec<u8>, Vec<u8>) {
    (vec![FIELDS_DUE], vec![FIELDS_DUE + 1])
}

/// Of what a large collection a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home<'a> {
    /// The one with that id; and the slot of its keys.
    Id(Slot, u64),
    /// The one of that generation below that key.
    Key(&'a [u8], u64),
}

/// A row of a large collection, or the one that has them collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectionKey<'a> {
    pub(crate) home: Home<'a>,
    pub(crate) is_garbage: bool,
    /// What follows.
    pub(crate) rest: &'a [u8],
}

/// Takes the tree key of a large collection's row apart.
pub(crate) fn parse_collection(tree_key: &[u8]) -> Option<CollectionKey<'_>> {
    let (kind, rest) = tree_key.split_first()?;
    let (head, rest) = rest.split_first_chunk::<2>()?;
    let number = u16::from_be_bytes(*head);
    match *kind {
        ROW => {
            let (id, rest) = rest.split_first_chunk::<8>()?;
            let home = Home::Id(Slot(number), u64::from_be_bytes(*id));
            Some(CollectionKey { home, is_garbage: false, rest })
        }
        KEYED_ROW | GARBAGE => {
            let (key, rest) = rest.split_at_checked(usize::from(number))?;
            let (generation, rest) = rest.split_first_chunk::<8>()?;
            let home = Home::Key(key, u64::from_be_bytes(*generation));
            Some(CollectionKey { home, is_garbage: *kind == GARBAGE, rest })
        }
        _ => None,
    }
}

/// With what the rows begin that a garbage key has collected.
pub(crate) fn rows_of_garbage(tree_key: &[u8]) -> Vec<u8> {
    let mut prefix = tree_key.to_vec();
    if let Some(first) = prefix.first_mut() {
        *first = KEYED_ROW;
    }
    prefix
}

/// Rows that begin with `prefix` are being made, and are dropped at that time.
pub(crate) fn staged(until_ms: u64, prefix: &[u8]) -> Vec<u8> {
    timed(STAGED, until_ms, prefix)
}

/// The time and the prefix in such a tree key.
pub(crate) fn parse_staged(tree_key: &[u8]) -> Option<(u64, &[u8])> {
    parse_timed(STAGED, tree_key)
}

/// First and end of all such tree keys.
pub(crate) fn all_staged() -> (Vec<u8>, Vec<u8>) {
    (vec![STAGED], vec![STAGED + 1])
}

/// What is remembered of the numbered requests of a client, whose id is not empty.
pub(crate) fn requests(client: &[u8]) -> Vec<u8> {
    with_prefix(REQUESTS, client)
}

/// First and end of all that is remembered of numbered requests.
pub(crate) fn all_requests() -> (Vec<u8>, Vec<u8>) {
    (vec![REQUESTS], vec![REQUESTS + 1])
}

/// Of how many clients requests are remembered.
pub(crate) const REQUEST_CLIENTS: &[u8] = &[REQUESTS];

/// The client in such a tree key; empty for the count of clients.
pub(crate) fn client_of_requests(tree_key: &[u8]) -> Option<&[u8]> {
    tree_key.strip_prefix(&[REQUESTS])
}

/// When the requests of a client are to be forgotten.
pub(crate) fn forgetting(at_ms: u64, client: &[u8]) -> Vec<u8> {
    timed(FORGETTING, at_ms, client)
}

/// The time and the client in such a tree key.
pub(crate) fn parse_forgetting(tree_key: &[u8]) -> Option<(u64, &[u8])> {
    parse_timed(FORGETTING, tree_key)
}

/// First and end of the times at which requests are to be forgotten.
pub(crate) fn forgettings() -> (Vec<u8>, Vec<u8>) {
    (vec![FORGETTING], vec![FORGETTING + 1])
}

/// An event of the store, by its number.
pub(crate) fn event(number: u64) -> Vec<u8> {
    timed(EVENT, number, b"")
}

/// The change that made the map of that epoch.
pub(crate) fn map_change(epoch: u64) -> Vec<u8> {
    timed(MAP_CHANGE, epoch, b"")
}

/// The end of the map and of all its changes, exclusive.
pub(crate) fn map_end() -> Vec<u8> {
    vec![MAP_CHANGE + 1]
}

/// The epoch of the map that a change made.
pub(crate) fn epoch_of_change(tree_key: &[u8]) -> Option<u64> {
    parse_timed(MAP_CHANGE, tree_key).filter(|(_, rest)| rest.is_empty()).map(|(epoch, _)| epoch)
}

/// The end of all events, exclusive.
pub(crate) fn events_end() -> Vec<u8> {
    vec![EVENT + 1]
}

/// The number in an event's tree key.
pub(crate) fn number_of_event(tree_key: &[u8]) -> Option<u64> {
    parse_timed(EVENT, tree_key).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

/// First and end of a whole kind of tree key.
pub(crate) fn expiries() -> (Vec<u8>, Vec<u8>) {
    (vec![EXPIRY], vec![EXPIRY + 1])
}

/// First and end of the garbage keys.
pub(crate) fn garbages() -> (Vec<u8>, Vec<u8>) {
    (vec![GARBAGE], vec![GARBAGE + 1])
}

/// The first key after `key`, of a tree or of the store.
pub(crate) fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The first key after all that begin with `prefix`, of a tree or of the store; empty if there is none.
pub(crate) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

fn with_prefix(prefix: u8, key: &[u8]) -> Vec<u8> {
    let mut tree_key = Vec::with_capacity(1 + key.len());
    tree_key.push(prefix);
    tree_key.extend_from_slice(key);
    tree_key
}

fn timed(prefix: u8, at_ms: u64, name: &[u8]) -> Vec<u8> {
    let mut tree_key = Vec::with_capacity(9 + name.len());
    tree_key.push(prefix);
    tree_key.extend_from_slice(&at_ms.to_be_bytes());
    tree_key.extend_from_slice(name);
    tree_key
}

fn parse_timed(prefix: u8, tree_key: &[u8]) -> Option<(u64, &[u8])> {
    let rest = tree_key.strip_prefix(&[prefix])?;
    let (at, name) = rest.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*at), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_are_told_apart() {
        for prefix in [rows(Slot(9), 7), keyed_rows(b"key", 7)] {
            assert!(is_rows_prefix(&prefix));
            let row = element(&prefix, b"name");
            assert!(!is_rows_prefix(&row) && !is_rows_prefix(&prefix[..prefix.len() - 1]));
            assert_eq!(parse_collection(&row).map(|found| (found.is_garbage, found.rest)), Some((false, &b"name"[..])));
        }
        let prefix = keyed_rows(b"key", 7);
        let garbage = garbage(&prefix);
        assert_eq!(rows_of_garbage(&garbage), prefix);
        assert!(parse_collection(&garbage).is_some_and(|found| found.is_garbage && found.rest.is_empty()));
    }
}
