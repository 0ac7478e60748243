//! The names of a large stream's rows, below its id.
//!
//! ```text
//! 1 ordinal                                an entry, or what is left of it
//! 2 block                                  u64: how many of a block of ordinals are gone; none: 0
//! 3 0 name                                 a group
//! 4 group 1 0 name                         a consumer
//! 4 group 2 consumer                       the name of a consumer
//! 4 group 3 id                             a pending entry: which consumer's it is, when and how often it was delivered
//! 4 group 4 consumer id                    the same by consumer; no value
//! 5 epoch 1 producer                       a producer (`producers`)
//! 5 epoch 2 producer id                    a request of it, which is applied once
//! 5 epoch 3 producer number                the same by number
//! 5 epoch 4 ms producer number             the same by the time at which it was added; no value
//! 5 epoch 5                                when requests are looked for whose time is over
//! ```
//! The first byte says what it is. Numbers are eight bytes, ids sixteen, big-endian: byte order is their order.

use super::id::{ID_BYTES, StreamId};
use super::meta::{GroupId, Ordinal};

/// Bits of an ordinal that say where it is in its block.
const BLOCK_BITS: u32 = 10;

pub(super) const ENTRY: u8 = 1;
pub(super) const BLOCK: u8 = 2;
const GROUP: u8 = 3;
const OF_GROUP: u8 = 4;
const CONSUMER: u8 = 1;
/// Before a name: so no row is called as what all of them begin with.
const NAMED: u8 = 0;
const CONSUMER_NAME: u8 = 2;
const PENDING: u8 = 3;
const PENDING_OF: u8 = 4;
const REQUESTS: u8 = 5;
const PRODUCER: u8 = 1;
const REQUEST: u8 = 2;
const NUMBERED_REQUEST: u8 = 3;
const REQUEST_BY_TIME: u8 = 4;
const NEXT_SWEEP: u8 = 5;

/// The number of a consumer within its group; none is used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConsumerId(pub(super) u64);

impl ConsumerId {
    /// In place of the consumer of an entry that XNACK has released: it is pending for none.
    pub(super) const NONE: Self = Self(u64::MAX);
}

/// A request of a producer, by when it was added, in ms, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByTime {
    pub(super) added_ms: u64,
    pub(super) producer: u128,
    pub(super) number: u64,
}

/// What a row is that tells of the stream by itself.
pub(super) enum Named<'n> {
    /// An entry, or what is left of it.
    Entry,
    /// The group of that name.
    Group(&'n [u8]),
    /// The consumer of that name.
    Consumer(GroupId, &'n [u8]),
    /// The pending entry of that id.
    Pending(GroupId, StreamId),
}

/// What the row of that name is; `None` of one that follows from others.
pub(super) fn named(row: &[u8]) -> Option<Named<'_>> {
    if ordinal_of(row).is_some() {
        return Some(Named::Entry);
    }
    if let Some(name) = name_behind(row, GROUPS) {
        return Some(Named::Group(name));
    }
    let (group, rest) = row.strip_prefix(&[OF_GROUP])?.split_first_chunk::<8>()?;
    let group = GroupId(u64::from_be_bytes(*group));
    match rest {
        [CONSUMER, NAMED, name @ ..] => Some(Named::Consumer(group, name)),
        [PENDING, id @ ..] => Some(Named::Pending(group, StreamId::of_bytes(id.try_into().ok()?))),
        _ => None,
    }
}

/// The block of an ordinal.
pub(super) fn block_of(ordinal: Ordinal) -> u64 {
    ordinal.0 >> BLOCK_BITS
}

/// The first ordinal of a block.
pub(super) fn block_start(block: u64) -> Ordinal {
    Ordinal(block << BLOCK_BITS)
}

/// A row that is found by a number.
pub(super) fn numbered(tag: u8, number: u64) -> [u8; 9] {
    let mut name = [tag; 9];
    name[1..].copy_from_slice(&number.to_be_bytes());
    name
}

pub(super) fn entry(ordinal: Ordinal) -> [u8; 9] {
    numbered(ENTRY, ordinal.0)
}

/// The ordinal in an entry's name.
pub(super) fn ordinal_of(name: &[u8]) -> Option<Ordinal> {
    let number = name.strip_prefix(&[ENTRY])?.try_into().ok()?;
    Some(Ordinal(u64::from_be_bytes(number)))
}

pub(super) fn block(block: u64) -> [u8; 9] {
    numbered(BLOCK, block)
}

pub(super) fn group(name: &[u8]) -> Vec<u8> {
    [&[GROUP, NAMED], name].concat()
}

/// With what the names of groups begin, and those of nothing else.
pub(super) const GROUPS: &[u8] = &[GROUP];

/// With what all rows of a group begin but its own.
pub(super) fn of_group(group: GroupId) -> Vec<u8> {
    numbered(OF_GROUP, group.0).to_vec()
}

fn tagged(group: GroupId, tag: u8, rest: &[u8]) -> Vec<u8> {
    [&of_group(group), &[tag][..], rest].concat()
}

pub(super) fn consumer(group: GroupId, name: &[u8]) -> Vec<u8> {
    tagged(group, CONSUMER, &[&[NAMED], name].concat())
}

/// The name of a group or a consumer in the name of its row, of which the prefix of all is taken off.
pub(super) fn name_behind<'n>(row: &'n [u8], prefix: &[u8]) -> Option<&'n [u8]> {
    row.strip_prefix(prefix)?.strip_prefix(&[NAMED])
}

/// With what the names of a group's consumers begin.
pub(super) fn consumers(group: GroupId) -> Vec<u8> {
    tagged(group, CONSUMER, &[])
}

pub(super) fn consumer_name(group: GroupId, consumer: ConsumerId) -> Vec<u8> {
    tagged(group, CONSUMER_NAME, &consumer.0.to_be_bytes())
}

pub(super) fn pending(group: GroupId, id: StreamId) -> Vec<u8> {
    tagged(group, PENDING, &id.to_bytes())
}

/// Behind the names of a group's pending entries.
pub(super) fn behind_pending(group: GroupId) -> Vec<u8> {
    tagged(group, PENDING + 1, &[])
}

/// With what the names of a group's pending entries begin.
pub(super) fn all_pending(group: GroupId) -> Vec<u8> {
    tagged(group, PENDING, &[])
}

pub(super) fn pending_of(group: GroupId, consumer: ConsumerId, id: StreamId) -> Vec<u8> {
    [all_pending_of(group, consumer), id.to_bytes().to_vec()].concat()
}

/// With what the names of a consumer's pending entries begin.
pub(super) fn all_pending_of(group: GroupId, consumer: ConsumerId) -> Vec<u8> {
    tagged(group, PENDING_OF, &consumer.0.to_be_bytes())
}

/// With what the names begin of what is known of requests, in an epoch.
pub(super) fn requests(epoch: u64) -> Vec<u8> {
    numbered(REQUESTS, epoch).to_vec()
}

/// A producer, called by its hash.
pub(super) fn producer(epoch: u64, producer: u128) -> Vec<u8> {
    [&requests(epoch), &[PRODUCER][..], &producer.to_be_bytes()].concat()
}

/// A request of a producer; its id's hash calls it.
pub(super) fn request(epoch: u64, producer: u128, id: &[u8]) -> Vec<u8> {
    [&requests(epoch), &[REQUEST][..], &producer.to_be_bytes(), id].concat()
}

/// The same, called by its number.
pub(super) fn numbered_request(epoch: u64, producer: u128, number: u64) -> Vec<u8> {
    [&requests(epoch), &[NUMBERED_REQUEST][..], &producer.to_be_bytes(), &number.to_be_bytes()].concat()
}

/// With what the names begin of an epoch's requests by time.
pub(super) fn requests_by_time(epoch: u64) -> Vec<u8> {
    [&requests(epoch), &[REQUEST_BY_TIME][..]].concat()
}

/// The same request, called by when it was added, in ms, and its number.
pub(super) fn request_by_time(epoch: u64, request: &ByTime) -> Vec<u8> {
    let ByTime { added_ms, producer, number } = request;
    [&requests_by_time(epoch), &added_ms.to_be_bytes()[..], &producer.to_be_bytes(), &number.to_be_bytes()].concat()
}

/// What the name of a request by time tells; `None` of another name.
pub(super) fn by_time(name: &[u8]) -> Option<ByTime> {
    let (_, rest) = name.strip_prefix(&[REQUESTS])?.split_first_chunk::<8>()?;
    let (added_ms, rest) = rest.strip_prefix(&[REQUEST_BY_TIME])?.split_first_chunk::<8>()?;
    let (producer, number) = rest.split_first_chunk::<16>()?;
    Some(ByTime {
        added_ms: u64::from_be_bytes(*added_ms),
        producer: u128::from_be_bytes(*producer),
        number: u64::from_be_bytes(number.try_into().ok()?),
    })
}

/// When an epoch's requests are looked for whose time is over.
pub(super) fn next_sweep(epoch: u64) -> Vec<u8> {
    [&requests(epoch), &[NEXT_SWEEP][..]].concat()
}

/// The id at the end of the name of a pending entry.
pub(super) fn id_of(name: &[u8]) -> Option<StreamId> {
    name.last_chunk::<ID_BYTES>().map(|bytes| StreamId::of_bytes(*bytes))
}
