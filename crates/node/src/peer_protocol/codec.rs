//! Peer messages as bytes. docs/FORMATS.md, "Between nodes", has the layout.
//!
//! A message does not say how long it is: the frame that carries it does. So one that ends in bytes of any length
//! needs no length for these.

use super::encoded::Encoded;
use super::interest::{Interest, Wish};
use super::message::{Order, PeerMessage, Series};
use super::raft;
use replica::Bytes;
use vocab::{NodeId, Reader, SLOT_COUNT, ShardId, put_bytes, put_varint};

/// Data of an entry that is not copied, in bytes.
const LARGE_BYTES: usize = 128 * 1024;

const RAFT: u8 = 1;
const HIBERNATE: u8 = 2;
const WAKE: u8 = 3;
const BEAT: u8 = 4;
const BEAT_ANSWER: u8 = 5;
const LEADING: u8 = 6;
const MAP: u8 = 7;
const MAP_ASKED: u8 = 8;
const PROPOSE: u8 = 9;
const ORDER: u8 = 10;
const CALL: u8 = 11;
const ANSWER: u8 = 12;
const JOIN: u8 = 13;
const BOOTSTRAP: u8 = 14;
const BOOTSTRAP_DONE: u8 = 15;
const REPORT: u8 = 16;
const MAP_CHANGES: u8 = 17;
const INTEREST: u8 = 18;
const INTEREST_KNOWN: u8 = 19;
const PUBLISH: u8 = 20;
const PUBLISHED: u8 = 21;

/// Of a change of interest: bits of its head.
const WANTED: u8 = 1;
const PATTERN: u8 = 2;

const TRANSFER: u8 = 1;
const ADD: u8 = 2;
const REMOVE: u8 = 3;
const PROMOTE: u8 = 4;
const SPLIT: u8 = 5;
const RECOVER: u8 = 6;

impl PeerMessage {
    /// Whether a node that is not in the map may say that to one that has a map: what it takes to join, to hear that it has
    /// been forgotten, and not to be waited for.
    #[must_use]
    pub fn is_from_newcomers(&self) -> bool {
        let joins = matches!(self, Self::Join { .. } | Self::MapAsked { .. } | Self::Beat { .. });
        let makes_store = matches!(self, Self::Bootstrap { .. } | Self::BootstrapDone { .. });
        joins || makes_store || matches!(self, Self::InterestKnown { .. })
    }

    /// Whether a node without a map listens to that: what it takes to make a store, and to come to know one.
    #[must_use]
    pub fn is_for_newcomers(&self) -> bool {
        let of_store =
            matches!(self, Self::Map(_) | Self::MapChanges { .. } | Self::BeatAnswer { .. } | Self::Interest(_));
        of_store || self.is_from_newcomers()
    }

    /// Adds its bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Raft { shard, message } => {
                put(bytes, RAFT, &[u64::from(shard.0)]);
                raft::put(message, bytes);
            }
            Self::Hibernate { shards } => {
                put(bytes, HIBERNATE, &[shards.len() as u64]);
                shards.iter().for_each(|(shard, term, index)| put_all(bytes, &[u64::from(shard.0), *term, *index]));
            }
            Self::Wake { shards } => {
                put(bytes, WAKE, &[shards.len() as u64]);
                shards.iter().for_each(|shard| put_varint(bytes, u64::from(shard.0)));
            }
            Self::Beat { sent_us, wall_ms } => put(bytes, BEAT, &[*sent_us, *wall_ms]),
            Self::BeatAnswer { sent_us, wall_ms } => put(bytes, BEAT_ANSWER, &[*sent_us, *wall_ms]),
            Self::Leading { full, shards } => {
                put(bytes, LEADING, &[u64::from(*full), shards.len() as u64]);
                shards.iter().for_each(|(shard, term)| put_all(bytes, &[u64::from(shard.0), *term]));
            }
            Self::Map(map) => put_tail(bytes, MAP, &[], map),
            Self::MapChanges { store, first, changes } => {
                put(bytes, MAP_CHANGES, &[*store, *first, changes.len() as u64]);
                changes.iter().for_each(|change| put_bytes(bytes, change));
            }
            Self::MapAsked { epoch } => put(bytes, MAP_ASKED, &[*epoch]),
            Self::Propose { change } => put_tail(bytes, PROPOSE, &[], change),
            Self::Order { shard, order } => {
                put(bytes, ORDER, &[u64::from(shard.0)]);
                order.encode(bytes);
            }
            Self::Call { id, shard, command } => put_tail(bytes, CALL, &[*id, u64::from(shard.0)], command),
            Self::Answer { id, reply } => put_tail(bytes, ANSWER, &[*id], reply),
            Self::Join { node } => put_tail(bytes, JOIN, &[], node),
            Self::Bootstrap { map } => put_tail(bytes, BOOTSTRAP, &[], map),
            Self::BootstrapDone { store } => put(bytes, BOOTSTRAP_DONE, &[*store]),
            Self::Report(report) => put_tail(bytes, REPORT, &[], report),
            Self::Interest(Interest { number, begins, wishes }) => {
                put(bytes, INTEREST, &[*number, u64::from(*begins), wishes.len() as u64]);
                for Wish { name, is_pattern, wanted } in wishes {
                    bytes.push(u8::from(*wanted) * WANTED + u8::from(*is_pattern) * PATTERN);
                    put_bytes(bytes, name);
                }
            }
            Self::InterestKnown { number } => put(bytes, INTEREST_KNOWN, &[*number]),
            Self::Publish { id, channel, message } => {
                put(bytes, PUBLISH, &[*id]);
                put_bytes(bytes, channel);
                bytes.extend_from_slice(message);
            }
            Self::Published { id, receivers } => put(bytes, PUBLISHED, &[*id, *receivers]),
        }
    }

    /// Reads a message that takes all of `bytes`. It never takes more memory than a small multiple of these.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut reader = Reader::new(bytes);
        let from = &mut reader;
        let message = match from.u8()? {
            RAFT => Self::Raft { shard: shard(from)?, message: raft::read(from.rest())? },
            HIBERNATE => {
                Self::Hibernate { shards: list(from, 3, |from| Ok((shard(from)?, from.varint()?, from.varint()?)))? }
            }
            WAKE => Self::Wake { shards: list(from, 1, shard)? },
            BEAT => Self::Beat { sent_us: from.varint()?, wall_ms: from.varint()? },
            BEAT_ANSWER => Self::BeatAnswer { sent_us: from.varint()?, wall_ms: from.varint()? },
            LEADING => {
                Self::Leading { full: flag(from)?, shards: list(from, 2, |from| Ok((shard(from)?, from.varint()?)))? }
            }
            MAP => Self::Map(from.rest().to_vec()),
            MAP_CHANGES => Self::MapChanges {
                store: from.varint()?,
                first: from.varint()?,
                changes: list(from, 1, |from| Ok(from.bytes()?.into()))?,
            },
            MAP_ASKED => Self::MapAsked { epoch: from.varint()? },
            PROPOSE => Self::Propose { change: from.rest().to_vec() },
            ORDER => Self::Order { shard: shard(from)?, order: Order::decode(from)? },
            CALL => Self::Call { id: from.varint()?, shard: shard(from)?, command: from.rest().to_vec() },
            ANSWER => Self::Answer { id: from.varint()?, reply: from.rest().to_vec() },
            JOIN => Self::Join { node: from.rest().to_vec() },
            BOOTSTRAP => Self::Bootstrap { map: from.rest().to_vec() },
            BOOTSTRAP_DONE => Self::BootstrapDone { store: from.varint()? },
            REPORT => Self::Report(from.rest().to_vec()),
            INTEREST => {
                Self::Interest(Interest { number: from.varint()?, begins: flag(from)?, wishes: list(from, 2, wish)? })
            }
            INTEREST_KNOWN => Self::InterestKnown { number: from.varint()? },
            PUBLISH => Self::Publish { id: from.varint()?, channel: from.bytes()?.into(), message: from.rest().into() },
            PUBLISHED => Self::Published { id: from.varint()?, receivers: from.varint()? },
            _ => return Err("an unknown peer message"),
        };
        reader.end()?;
        Ok(message)
    }

    /// Its bytes, of which the data of large entries is shared with it.
    #[must_use]
    pub fn encode_shared(&self) -> Encoded {
        let mut bytes = Vec::new();
        let Self::Raft { shard, message } = self else {
            self.encode(&mut bytes);
            return bytes.into();
        };
        put(&mut bytes, RAFT, &[u64::from(shard.0)]);
        Encoded::new(raft::put_shared(message, bytes, LARGE_BYTES))
    }

    /// Reads a message that takes all of `bytes`. The data of large entries stays where it is.
    pub fn decode_shared(bytes: &Bytes) -> Result<Self, &'static str> {
        if bytes.first() != Some(&RAFT) {
            return Self::decode(bytes);
        }
        let mut reader = Reader::new(&bytes[1..]);
        let shard = shard(&mut reader)?;
        Ok(Self::Raft { shard, message: raft::read_shared(reader.rest(), bytes, LARGE_BYTES)? })
    }

    /// Whether it is better not copied as a whole.
    #[must_use]
    pub fn is_large(&self) -> bool {
        match self {
            Self::Raft { message, .. } => message.entries.iter().any(|entry| entry.data.len() >= LARGE_BYTES),
            _ => false,
        }
    }

    /// The series in which later messages must not overtake it.
    #[must_use]
    pub fn series(&self) -> Option<Series> {
        match self {
            Self::Raft { shard, .. } => Some(Series::Replicas(*shard)),
            Self::Publish { .. } | Self::Interest(_) => Some(Series::Subscribers),
            _ => None,
        }
    }

    /// Whether it is to overtake bulk: small messages on which leases, elections and the control of the store depend, and which
    /// mean the same whatever bulk was sent before them. Hibernation is among them: its leader sends no more heartbeats, so a
    /// follower that is told late stands for election. Bulk that is sent again behind it wakes the follower, whose answer wakes
    /// the leader.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        match self {
            Self::Map(_)
            | Self::MapChanges { .. }
            | Self::Bootstrap { .. }
            | Self::Call { .. }
            | Self::Answer { .. }
            // Messages keep the order of their publisher, and stay behind what was told of interest.
            | Self::Interest(_)
            | Self::Publish { .. } => false,
            Self::Raft { message, .. } => raft::is_urgent(message),
            _ => true,
        }
    }
}

impl Order {
    fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Transfer { to } => put(bytes, TRANSFER, &[to.0]),
            Self::Add { replica, node } => put(bytes, ADD, &[*replica, node.0]),
            Self::Remove { replica } => put(bytes, REMOVE, &[*replica]),
            Self::Promote { replica } => put(bytes, PROMOTE, &[*replica]),
            Self::Recover { replica } => put(bytes, RECOVER, &[*replica]),
            Self::Split { child, slots } => {
                put(bytes, SPLIT, &[u64::from(child.0), slots.len() as u64]);
                slots.iter().for_each(|(first, last)| put_all(bytes, &[u64::from(*first), u64::from(*last)]));
            }
        }
    }

    fn decode(from: &mut Reader) -> Result<Self, &'static str> {
        Ok(match from.u8()? {
            TRANSFER => Self::Transfer { to: NodeId(from.varint()?) },
            ADD => Self::Add { replica: from.varint()?, node: NodeId(from.varint()?) },
            REMOVE => Self::Remove { replica: from.varint()? },
            PROMOTE => Self::Promote { replica: from.varint()? },
            RECOVER => Self::Recover { replica: from.varint()? },
            SPLIT => Self::Split { child: shard(from)?, slots: list(from, 2, |from| Ok((slot(from)?, slot(from)?)))? },
            _ => return Err("an unknown order in a peer message"),
        })
    }
}

fn put(bytes: &mut Vec<u8>, kind: u8, numbers: &[u64]) {
    bytes.push(kind);
    put_all(bytes, numbers);
}

fn put_all(bytes: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| put_varint(bytes, *number));
}

fn put_tail(bytes: &mut Vec<u8>, kind: u8, numbers: &[u64], tail: &[u8]) {
    put(bytes, kind, numbers);
    bytes.extend_from_slice(tail);
}

fn shard(from: &mut Reader) -> Result<ShardId, &'static str> {
    Ok(ShardId(from.number()?))
}

fn slot(from: &mut Reader) -> Result<u16, &'static str> {
    let slot = u16::try_from(from.varint()?).ok().filter(|slot| *slot < SLOT_COUNT);
    slot.ok_or("no such slot in a peer message")
}

fn flag(from: &mut Reader) -> Result<bool, &'static str> {
    match from.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err("a flag that is neither 0 nor 1 in a peer message"),
    }
}

fn wish(from: &mut Reader) -> Result<Wish, &'static str> {
    let head = from.u8()?;
    if head & !(WANTED | PATTERN) != 0 {
        return Err("unknown flags of interest in a peer message");
    }
    Ok(Wish { name: from.bytes()?.into(), is_pattern: head & PATTERN != 0, wanted: head & WANTED != 0 })
}

fn list<'a, T>(
    from: &mut Reader<'a>,
    bytes_min: usize,
    each: impl Fn(&mut Reader<'a>) -> Result<T, &'static str>,
) -> Result<Vec<T>, &'static str> {
    let count = from.count(bytes_min)?;
    (0..count).map(|_| each(from)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use replica::{Entry, Message};
    use vocab::fuzz;

    fn raft() -> Message {
        let mut entry = Entry::default();
        entry.set_index(8);
        entry.set_term(3);
        entry.set_data(vec![7; 40].into());
        let mut message = Message::default();
        message.set_msg_type(replica::MessageType::MsgAppend);
        message.set_from(1);
        message.set_to(2);
        message.set_term(3);
        message.set_index(7);
        message.set_log_term(3);
        message.set_entries(vec![entry].into());
        message
    }

    fn samples() -> Vec<PeerMessage> {
        let (a, b) = (ShardId(5), ShardId(u32::MAX));
        vec![
            PeerMessage::Raft { shard: a, message: raft() },
            PeerMessage::Hibernate { shards: vec![(a, 1, 2), (b, u64::MAX, u64::MAX)] },
            PeerMessage::Wake { shards: vec![a, b] },
            PeerMessage::Beat { sent_us: 300, wall_ms: 1_700_000_000_000 },
            PeerMessage::BeatAnswer { sent_us: 0, wall_ms: u64::MAX },
            PeerMessage::Leading { full: true, shards: vec![(a, 9)] },
            PeerMessage::Leading { full: false, shards: vec![] },
            PeerMessage::Map(vec![1, 2, 3]),
            PeerMessage::MapAsked { epoch: 7 },
            PeerMessage::MapChanges {
                store: u64::MAX,
                first: 300,
                changes: vec![[1, 2].into(), [].into(), vec![7; 200].into()],
            },
            PeerMessage::Propose { change: vec![] },
            PeerMessage::Order { shard: a, order: Order::Transfer { to: NodeId(u64::MAX) } },
            PeerMessage::Order { shard: a, order: Order::Add { replica: 4, node: NodeId(2) } },
            PeerMessage::Order { shard: b, order: Order::Remove { replica: 4 } },
            PeerMessage::Order { shard: b, order: Order::Promote { replica: u64::MAX } },
            PeerMessage::Order { shard: a, order: Order::Split { child: b, slots: vec![(0, 9), (11, 16383)] } },
            PeerMessage::Order { shard: a, order: Order::Recover { replica: 1 } },
            PeerMessage::Report(vec![1, 2]),
            PeerMessage::Call { id: 1 << 40, shard: a, command: vec![9; 300] },
            PeerMessage::Answer { id: 1 << 40, reply: b"+OK\r\n".to_vec() },
            PeerMessage::Join { node: vec![0] },
            PeerMessage::Bootstrap { map: vec![4; 9] },
            PeerMessage::BootstrapDone { store: u64::MAX },
            PeerMessage::Interest(Interest { number: 300, begins: true, wishes: vec![] }),
            PeerMessage::Interest(Interest {
                number: 1,
                begins: false,
                wishes: vec![
                    Wish { name: [7; 200][..].into(), is_pattern: false, wanted: true },
                    Wish { name: [][..].into(), is_pattern: true, wanted: false },
                ],
            }),
            PeerMessage::InterestKnown { number: u64::MAX },
            PeerMessage::Publish { id: 0, channel: b"news"[..].into(), message: [][..].into() },
            PeerMessage::Publish { id: 300, channel: [][..].into(), message: [9; 300][..].into() },
            PeerMessage::Published { id: 300, receivers: 2 },
        ]
    }

    fn encoded(message: &PeerMessage) -> Vec<u8> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        bytes
    }

    #[test]
    fn what_is_said_is_heard() {
        for message in samples() {
            assert_eq!(PeerMessage::decode(&encoded(&message)), Ok(message));
        }
    }

    #[test]
    fn small_messages_are_few_bytes() {
        let length = |message: &PeerMessage| encoded(message).len();
        assert_eq!(length(&PeerMessage::MapAsked { epoch: 7 }), 2);
        assert_eq!(length(&PeerMessage::Published { id: 7, receivers: 1 }), 3);
        assert_eq!(length(&PeerMessage::Hibernate { shards: vec![(ShardId(5), 1, 2); 100] }), 302);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let table: &[(&[u8], &str)] = &[
            (&[], "cut short"),
            (&[0], "an unknown peer message"),
            (&[22], "an unknown peer message"),
            (&[INTEREST, 1, 0, 1, 4, 0], "unknown flags of interest in a peer message"),
            (&[MAP_CHANGES, 1, 1, 1, 3, 0], "cut short"),
            (&[HIBERNATE, 2, 1, 1, 1], "a count is larger than what follows"),
            (&[WAKE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1], "a count is larger than what follows"),
            (&[MAP_ASKED, 0x80], "cut short"),
            (&[MAP_ASKED, 0x81, 0], "a number is not in its shortest form"),
            (&[MAP_ASKED, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2], "a number is too large"),
            (&[WAKE, 1, 0x80, 0x80, 0x80, 0x80, 0x10], "a number is too large"),
            (&[MAP_ASKED, 1, 1], "more bytes than there may be"),
            (&[LEADING, 2, 0], "a flag that is neither 0 nor 1 in a peer message"),
            (&[ORDER, 1, 9, 1], "an unknown order in a peer message"),
            (&[ORDER, 1, SPLIT, 2, 1, 0, 0x80, 0x80, 1], "no such slot in a peer message"),
        ];
        for (bytes, why) in table {
            assert_eq!(PeerMessage::decode(bytes), Err(*why), "{bytes:?}");
        }
    }

    #[test]
    fn fuzz_peer_messages_no_bytes_make_it_panic_or_run_away() {
        let bases: Vec<Vec<u8>> = samples().iter().map(encoded).collect();
        fuzz::rounds(1, |prng| {
            let mut bytes = bases[prng.below(bases.len() as u64) as usize].clone();
            fuzz::mutate(&mut bytes, 6, prng);
            // What can be read says the same when it is said again.
            if let Ok(message) = PeerMessage::decode(&bytes) {
                assert_eq!(PeerMessage::decode(&encoded(&message)), Ok(message));
            }
        });
    }
}
