//! The keys of a shard's tree: one byte says what a tree key is for. docs/FORMATS.md has the layouts.
//!
//! ```text
//! r key                                      a key's record; raw bytes, so that order is the keys' order
//! e length(u16) key generation(u64) element  one element of a spread collection
//! x time(u64) key                            when a key expires: the expiry index
//! g length(u16) key generation(u64)          elements to be collected in the background
//! q client                                   what is remembered of a client's numbered requests; q alone: of how many
//! y time(u64) client                         when that is to be forgotten
//! m                                          the map; only in the metadata group
//! v number(u64)                              an event of the store; only in the metadata group
//! ```
//! Integers are big-endian, so that byte order is their order. Byte 0 belongs to storage.

/// The name of the meta record that holds the counters of keys by slot.
pub(crate) const META_COUNTERS: &[u8] = b"counters";
/// The name of the meta record that holds how many keys of each slot have an expiry.
pub(crate) const META_EXPIRING: &[u8] = b"expiring-slots";
/// The name of the meta record that holds which slots the shard owns, as of the tree's index.
pub(crate) const META_SLOTS: &[u8] = b"slots";

/// The name of the meta record that tells which snapshot the tree was filled from: index, term and members.
pub const META_SNAPSHOT: &[u8] = b"snapshot";
/// The map, in the metadata group's tree.
pub(crate) const MAP: &[u8] = b"m";

const RECORD: u8 = b'r';
const ELEMENT: u8 = b'e';
const EXPIRY: u8 = b'x';
const GARBAGE: u8 = b'g';
const REQUESTS: u8 = b'q';
const FORGETTING: u8 = b'y';
const EVENT: u8 = b'v';

pub(crate) fn record(key: &[u8]) -> Vec<u8> {
    with_prefix(RECORD, key)
}

/// Writes the record key of `key` into a buffer that is used again.
pub(crate) fn record_into(buffer: &mut Vec<u8>, key: &[u8]) {
    buffer.clear();
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

/// All elements of one collection begin with this.
pub(crate) fn elements_prefix(key: &[u8], generation: u64) -> Vec<u8> {
    collection(ELEMENT, key, generation)
}

pub(crate) fn element(key: &[u8], generation: u64, element: &[u8]) -> Vec<u8> {
    let mut tree_key = collection(ELEMENT, key, generation);
    tree_key.extend_from_slice(element);
    tree_key
}

pub(crate) fn expiry(at_ms: u64, key: &[u8]) -> Vec<u8> {
    timed(EXPIRY, at_ms, key)
}

/// The time and the user's key in an expiry key.
pub(crate) fn parse_expiry(tree_key: &[u8]) -> Option<(u64, &[u8])> {
    parse_timed(EXPIRY, tree_key)
}

pub(crate) fn garbage(key: &[u8], generation: u64) -> Vec<u8> {
    collection(GARBAGE, key, generation)
}

/// What begins with a key and a generation.
pub(crate) enum Collection {
    Element,
    Garbage,
}

/// The key, the generation and what follows them in an element's or a garbage key.
pub(crate) fn parse_collection(tree_key: &[u8]) -> Option<(Collection, &[u8], u64, &[u8])> {
    let (kind, rest) = tree_key.split_first()?;
    let kind = match *kind {
        ELEMENT => Collection::Element,
        GARBAGE => Collection::Garbage,
        _ => return None,
    };
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (key, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let (generation, rest) = rest.split_first_chunk::<8>()?;
    Some((kind, key, u64::from_be_bytes(*generation), rest))
}

/// The prefix of the elements that a garbage key is about.
pub(crate) fn elements_of_garbage(tree_key: &[u8]) -> Vec<u8> {
    let mut prefix = tree_key.to_vec();
    if let Some(first) = prefix.first_mut() {
        *first = ELEMENT;
    }
    prefix
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

/// The first tree key after all that begin with `prefix`; empty if there is none.
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

fn collection(prefix: u8, key: &[u8], generation: u64) -> Vec<u8> {
    debug_assert!(key.len() <= vocab::limits::KEY_BYTES_MAX);
    let mut tree_key = Vec::with_capacity(11 + key.len() + 16);
    tree_key.push(prefix);
    tree_key.extend_from_slice(&(key.len() as u16).to_be_bytes());
    tree_key.extend_from_slice(key);
    tree_key.extend_from_slice(&generation.to_be_bytes());
    tree_key
}
