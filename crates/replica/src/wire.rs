//! Raft messages as bytes: docs/FORMATS.md, "Raft messages". What comes from the network never reaches a general parser.
//!
//! Entries carry no index: they follow `index` one by one, and their terms only rise.

use crate::message_validation::{NUMBER_MAX, is_known};
use crate::ready::SnapshotPoint;
use bytes::Bytes;
use raft::eraftpb::{ConfState, Entry, EntryType, Message, MessageType};
use vocab::{Reader, limits, put_bytes, put_varint};

/// The kinds, by the number that stands for them.
const KINDS: [MessageType; 10] = [
    MessageType::MsgAppend,
    MessageType::MsgAppendResponse,
    MessageType::MsgHeartbeat,
    MessageType::MsgHeartbeatResponse,
    MessageType::MsgRequestPreVote,
    MessageType::MsgRequestPreVoteResponse,
    MessageType::MsgRequestVote,
    MessageType::MsgRequestVoteResponse,
    MessageType::MsgTimeoutNow,
    MessageType::MsgSnapshot,
];

const REJECT: u8 = 1;
const CONTEXT: u8 = 2;
const WANTS_SNAPSHOT: u8 = 4;
const ENTRIES: u8 = 8;

const ENTRY_CHANGES_MEMBERS: u8 = 1;
const ENTRY_CONTEXT: u8 = 2;

/// Least bytes of an entry: flags, term, length.
const ENTRY_BYTES_MIN: usize = 3;

type Decoded<T> = Result<T, &'static str>;

/// Where a message's bytes go.
trait Sink {
    fn bytes(&mut self) -> &mut Vec<u8>;
    /// Adds the data of an entry.
    fn data(&mut self, data: &Bytes);
}

impl Sink for Vec<u8> {
    fn bytes(&mut self) -> &mut Vec<u8> {
        self
    }

    fn data(&mut self, data: &Bytes) {
        self.extend_from_slice(data);
    }
}

/// Bytes in parts: large data is shared.
struct Parts {
    done: Vec<Bytes>,
    open: Vec<u8>,
    large: usize,
}

impl Sink for Parts {
    fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.open
    }

    fn data(&mut self, data: &Bytes) {
        if data.len() < self.large {
            return self.open.extend_from_slice(data);
        }
        self.done.push(std::mem::take(&mut self.open).into());
        self.done.push(data.clone());
    }
}

/// Adds `message` to `out`. It must be one that a `Replica` made.
pub fn encode(message: &Message, out: &mut Vec<u8>) {
    encode_into(message, out);
}

/// The same after `head`, in parts: the data of an entry of `large` bytes or more is a part that is shared with it.
#[must_use]
pub fn encode_shared(message: &Message, head: Vec<u8>, large: usize) -> Vec<Bytes> {
    let mut parts = Parts { done: Vec::new(), open: head, large };
    encode_into(message, &mut parts);
    parts.done.push(parts.open.into());
    parts.done
}

fn encode_into(message: &Message, sink: &mut impl Sink) {
    let out = sink.bytes();
    let kind = KINDS.iter().position(|kind| *kind == message.get_msg_type());
    let kind = kind.expect("a replica sends no other kinds");
    debug_assert!(is_known(KINDS[kind]));
    let mut flags = if message.reject { REJECT } else { 0 };
    flags |= if message.context.is_empty() { 0 } else { CONTEXT };
    flags |= if message.request_snapshot == 0 { 0 } else { WANTS_SNAPSHOT };
    flags |= if message.entries.is_empty() { 0 } else { ENTRIES };
    out.extend_from_slice(&[kind as u8, flags]);
    for number in numbers(message) {
        put_varint(out, number);
    }
    if flags & CONTEXT != 0 {
        put_bytes(out, &message.context);
    }
    if flags & ENTRIES != 0 {
        put_varint(out, message.entries.len() as u64);
        let mut term = message.log_term;
        for entry in &message.entries {
            put_entry(sink, entry, entry.term - term);
            term = entry.term;
        }
    }
    if message.get_msg_type() == MessageType::MsgSnapshot {
        encode_point(&SnapshotPoint::of(message), sink.bytes());
    }
}

/// Reads a message: all of `bytes`.
pub fn decode(bytes: &[u8]) -> Decoded<Message> {
    decode_with(bytes, &|data| data.to_vec().into())
}

/// The same of a part of `whole`: the data of an entry of `large` bytes or more is shared with it.
pub fn decode_shared(bytes: &[u8], whole: &Bytes, large: usize) -> Decoded<Message> {
    decode_with(bytes, &|data| if data.len() < large { data.to_vec().into() } else { whole.slice_ref(data) })
}

fn decode_with(bytes: &[u8], keep: &dyn Fn(&[u8]) -> Bytes) -> Decoded<Message> {
    let [kind, flags, rest @ ..] = bytes else { return Err("a Raft message that is too short") };
    let mut rest = Reader::new(rest);
    let mut message = Message::default();
    message.set_msg_type(*KINDS.get(usize::from(*kind)).ok_or("a Raft message of an unknown kind")?);
    if flags & !(REJECT | CONTEXT | WANTS_SNAPSHOT | ENTRIES) != 0 {
        return Err("a Raft message with unknown flags");
    }
    message.reject = flags & REJECT != 0;
    message.request_snapshot = u64::from(flags & WANTS_SNAPSHOT != 0);
    message.to = take_id(&mut rest)?;
    message.from = take_id(&mut rest)?;
    message.term = take_number(&mut rest)?;
    message.log_term = take_number(&mut rest)?;
    message.index = take_number(&mut rest)?;
    message.commit = take_number(&mut rest)?;
    message.commit_term = take_number(&mut rest)?;
    message.reject_hint = take_number(&mut rest)?;
    if flags & CONTEXT != 0 {
        message.context = take_bytes(&mut rest, limits::MESSAGE_CONTEXT_BYTES_MAX)?.to_vec().into();
    }
    if flags & ENTRIES != 0 {
        message.set_entries(take_entries(&mut rest, message.index, message.log_term, keep)?.into());
    }
    if message.get_msg_type() == MessageType::MsgSnapshot {
        take_point(&mut rest)?.put_into(&mut message);
    }
    if rest.is_empty() { Ok(message) } else { Err("bytes after a Raft message") }
}

/// Adds the state of a shard without its rows.
pub fn encode_point(point: &SnapshotPoint, out: &mut Vec<u8>) {
    let state = &point.conf_state;
    put_varint(out, point.index);
    put_varint(out, point.term);
    out.push(u8::from(state.auto_leave));
    for ids in [&state.voters, &state.voters_outgoing, &state.learners, &state.learners_next] {
        put_varint(out, ids.len() as u64);
        for id in ids {
            put_varint(out, *id);
        }
    }
}

/// Reads what `encode_point` wrote: all of `bytes`.
pub fn decode_point(bytes: &[u8]) -> Decoded<SnapshotPoint> {
    let mut rest = Reader::new(bytes);
    let point = take_point(&mut rest)?;
    if rest.is_empty() { Ok(point) } else { Err("bytes after a snapshot's members") }
}

fn numbers(message: &Message) -> [u64; 8] {
    [
        message.to,
        message.from,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.reject_hint,
    ]
}

fn put_entry(sink: &mut impl Sink, entry: &Entry, term_rise: u64) {
    let out = sink.bytes();
    let mut flags = if crate::is_member_change(entry) { ENTRY_CHANGES_MEMBERS } else { 0 };
    flags |= if entry.context.is_empty() { 0 } else { ENTRY_CONTEXT };
    out.push(flags);
    put_varint(out, term_rise);
    if flags & ENTRY_CONTEXT != 0 {
        put_bytes(out, &entry.context);
    }
    put_varint(out, entry.data.len() as u64);
    sink.data(&entry.data);
}

fn take_entries(
    rest: &mut Reader<'_>,
    mut index: u64,
    mut term: u64,
    keep: &dyn Fn(&[u8]) -> Bytes,
) -> Decoded<Vec<Entry>> {
    let count = take_number(rest)? as usize;
    if count > limits::MESSAGE_ENTRIES_MAX || count > rest.left() / ENTRY_BYTES_MIN {
        return Err("a Raft message with more entries than it has room for");
    }
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let flags = take_byte(rest)?;
        let mut entry = Entry::default();
        if flags & !(ENTRY_CHANGES_MEMBERS | ENTRY_CONTEXT) != 0 {
            return Err("an entry with unknown flags");
        }
        if flags & ENTRY_CHANGES_MEMBERS != 0 {
            entry.set_entry_type(EntryType::EntryConfChangeV2);
        }
        index += 1;
        term += take_number(rest)?;
        if term > NUMBER_MAX {
            return Err(TOO_LARGE);
        }
        (entry.index, entry.term) = (index, term);
        if flags & ENTRY_CONTEXT != 0 {
            entry.context = take_bytes(rest, limits::ENTRY_CONTEXT_BYTES_MAX)?.to_vec().into();
        }
        entry.data = keep(take_bytes(rest, limits::ENTRY_BYTES_MAX)?);
        entries.push(entry);
    }
    Ok(entries)
}

fn take_point(rest: &mut Reader<'_>) -> Decoded<SnapshotPoint> {
    let (index, term) = (take_number(rest)?, take_number(rest)?);
    let auto_leave = match take_byte(rest)? {
        0 => false,
        1 => true,
        _ => return Err("a snapshot's members with unknown flags"),
    };
    let mut ids = || {
        let count = take_number(rest)? as usize;
        if count > limits::MEMBERS_MAX {
            return Err("more members than a group has");
        }
        (0..count).map(|_| take_id(rest)).collect::<Decoded<Vec<u64>>>()
    };
    let conf_state = ConfState {
        voters: ids()?,
        voters_outgoing: ids()?,
        learners: ids()?,
        learners_next: ids()?,
        auto_leave,
        ..ConfState::default()
    };
    Ok(SnapshotPoint { index, term, conf_state })
}

const TOO_LARGE: &str = "a number that is too large";
const TOO_SHORT: &str = "a Raft message that ends too early";

/// Of replicas, any number: those of old stores are drawn.
fn take_id(rest: &mut Reader<'_>) -> Decoded<u64> {
    rest.varint().map_err(|_| TOO_SHORT)
}

fn take_number(rest: &mut Reader<'_>) -> Decoded<u64> {
    let number = rest.varint().map_err(|_| TOO_SHORT)?;
    if number <= NUMBER_MAX { Ok(number) } else { Err(TOO_LARGE) }
}

fn take_byte(rest: &mut Reader<'_>) -> Decoded<u8> {
    rest.u8().map_err(|_| TOO_SHORT)
}

fn take_bytes<'a>(rest: &mut Reader<'a>, bytes_max: usize) -> Decoded<&'a [u8]> {
    let length = take_number(rest)? as usize;
    if length > bytes_max {
        return Err("bytes beyond their bound in a Raft message");
    }
    rest.take(length).map_err(|_| TOO_SHORT)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::fuzz;

    fn entry(index: u64, term: u64, context: &'static [u8], data: &'static [u8]) -> Entry {
        Entry { index, term, context: context.into(), data: data.into(), ..Entry::default() }
    }

    fn point() -> SnapshotPoint {
        let conf_state = ConfState {
            voters: vec![1, 2, u64::MAX],
            voters_outgoing: vec![1, 2, 4],
            learners: vec![6],
            learners_next: vec![4],
            auto_leave: true,
            ..ConfState::default()
        };
        SnapshotPoint { index: 300, term: 7, conf_state }
    }

    /// One message of each kind, and what it is as bytes.
    fn table() -> Vec<(Message, Vec<u8>)> {
        let of = |kind: MessageType, build: &dyn Fn(&mut Message)| {
            let mut message = Message { to: 1, from: 2, term: 9, ..Message::default() };
            message.set_msg_type(kind);
            build(&mut message);
            message
        };
        let append = of(MessageType::MsgAppend, &|m| {
            (m.index, m.log_term, m.commit) = (300, 7, 299);
            let mut change = entry(302, 9, b"", b"");
            change.set_entry_type(EntryType::EntryConfChangeV2);
            m.set_entries(vec![entry(301, 7, b"\x01", b"abc"), change].into());
        });
        let rejection = of(MessageType::MsgAppendResponse, &|m| {
            (m.index, m.log_term, m.reject_hint, m.reject, m.request_snapshot) = (5, 3, 4, true, 1);
        });
        let heartbeat = of(MessageType::MsgHeartbeat, &|m| {
            (m.commit, m.context) = (128, b"12345678".to_vec().into());
        });
        let vote = of(MessageType::MsgRequestVote, &|m| {
            (m.index, m.log_term, m.commit, m.commit_term) = (10, 8, 9, 8);
            m.context = raft::CAMPAIGN_TRANSFER.to_vec().into();
        });
        let snapshot = of(MessageType::MsgSnapshot, &|m| point().put_into(m));
        let entries = b"\x02\x02\x00\x01\x01\x03abc\x01\x02\x00";
        let members = [b"\xAC\x02\x07\x01\x03\x01\x02".to_vec(), [&[0xFF; 9][..], &[1]].concat()].concat();
        let members = [&members[..], b"\x03\x01\x02\x04\x01\x06\x01\x04"].concat();
        vec![
            (append, [&b"\x00\x08\x01\x02\x09\x07\xAC\x02\xAB\x02\x00\x00"[..], entries].concat()),
            (rejection, b"\x01\x05\x01\x02\x09\x03\x05\x00\x00\x04".to_vec()),
            (heartbeat, b"\x02\x02\x01\x02\x09\x00\x00\x80\x01\x00\x00\x0812345678".to_vec()),
            (of(MessageType::MsgHeartbeatResponse, &|m| m.reject = true), b"\x03\x01\x01\x02\x09\0\0\0\0\0".to_vec()),
            (of(MessageType::MsgRequestPreVote, &|_| {}), b"\x04\x00\x01\x02\x09\0\0\0\0\0".to_vec()),
            (of(MessageType::MsgRequestPreVoteResponse, &|_| {}), b"\x05\x00\x01\x02\x09\0\0\0\0\0".to_vec()),
            (vote, [&b"\x06\x02\x01\x02\x09\x08\x0A\x09\x08\x00\x10"[..], raft::CAMPAIGN_TRANSFER].concat()),
            (of(MessageType::MsgRequestVoteResponse, &|_| {}), b"\x07\x00\x01\x02\x09\0\0\0\0\0".to_vec()),
            (of(MessageType::MsgTimeoutNow, &|_| {}), b"\x08\x00\x01\x02\x09\0\0\0\0\0".to_vec()),
            (snapshot, [&b"\x09\x00\x01\x02\x09\0\0\0\0\0"[..], &members].concat()),
        ]
    }

    #[test]
    fn every_kind_and_its_bytes() {
        for (message, bytes) in table() {
            let mut out = Vec::new();
            encode(&message, &mut out);
            assert_eq!(out, bytes, "{message:?}");
            assert_eq!(decode(&bytes), Ok(message));
            for cut in 0..bytes.len() {
                assert!(decode(&bytes[..cut]).is_err(), "the first {cut} bytes of {bytes:x?}");
            }
            assert!(decode(&[&bytes[..], &[0]].concat()).is_err());
        }
    }

    #[test]
    fn data_that_is_shared_makes_the_same_bytes_and_the_same_message() {
        for (message, bytes) in table() {
            for large in [0, 1, 3, 4] {
                let parts = encode_shared(&message, b"head".to_vec(), large);
                let whole = Bytes::from(parts.concat());
                assert_eq!(whole[4..], bytes, "{message:?}");
                assert_eq!(decode_shared(&whole[4..], &whole, large).as_ref(), Ok(&message));
            }
        }
    }

    #[test]
    fn what_is_refused() {
        let refused: [(&str, &[u8]); 6] = [
            ("an unknown kind", b"\x0A\x00\x01\x02\x09\0\0\0\0\0"),
            ("an unknown flag", b"\x08\x10\x01\x02\x09\0\0\0\0\0"),
            ("a long context", b"\x08\x02\x01\x02\x09\0\0\0\0\0\x41aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
            ("more entries than bytes", b"\x00\x08\x01\x02\x09\0\0\0\0\0\xFF\xFF\x03aaa"),
            ("a term out of range", b"\x08\x00\x01\x02\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\0\0\0\0\0"),
            ("a number of 70 bits", b"\x08\x00\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\x02\x09\0\0\0\0\0"),
        ];
        for (what, bytes) in refused {
            assert!(decode(bytes).is_err(), "{what}");
        }
    }

    #[test]
    fn no_bytes_break_it() {
        let table = table();
        let mut understood = 0;
        fuzz::rounds(1, |prng| {
            let mut data = table[prng.below(table.len() as u64) as usize].1.clone();
            fuzz::mutate(&mut data, 6, prng);
            // What is understood is told the same way again.
            if let Ok(message) = decode(&data) {
                understood += 1;
                let mut again = Vec::new();
                encode(&message, &mut again);
                assert_eq!(decode(&again), Ok(message));
            }
        });
        assert!(understood > 100, "{understood}: the fuzzer only makes what is refused at once");
    }
}
