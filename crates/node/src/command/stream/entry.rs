//! The entries of a stream as they are stored.
//!
//! ```text
//! fields  varint number of strings; fields and values in turn, each: varint length, bytes
//! row     u8 1, id; fields
//!         u8 0, id; u64 little-endian: the other end of a run of entries that are gone, if this is an end of it
//! ```
//! An id is 16 bytes, big-endian. An entry that XDEL removed leaves a row, so that ordinals and ids rise together without
//! a gap. Of neighbours that are gone the first and the last name each other: a walk passes over them in one step.

use super::id::{ID_BYTES, StreamId};
use super::meta::Ordinal;
use resp::Reply;
use storage::Slice;
use vocab::{Malformed, Reader, put_bytes, put_varint};

const GONE: u8 = 0;
const LIVE: u8 = 1;

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: StreamId,
    /// As stored; see the module's layout.
    pub(super) fields: Slice,
}

/// What lies at an ordinal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// An entry.
    Live(Entry),
    /// One that XDEL has removed.
    Gone {
        id: StreamId,
        /// Of the run of such entries that it begins or ends, the other end.
        other: Ordinal,
    },
}

impl Spot {
    /// The id of the entry that is or was there.
    pub(super) fn id(&self) -> StreamId {
        match self {
            Self::Live(entry) => entry.id,
            Self::Gone { id, .. } => *id,
        }
    }

    /// A stored row.
    pub(super) fn decode(row: Slice) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&row);
        let kind = reader.u8()?;
        let id = StreamId::of_bytes(reader.array()?);
        if kind == GONE {
            return Ok(Self::Gone { id, other: Ordinal(reader.u64_le()?) });
        }
        Ok(Self::Live(Entry { id, fields: storage::tail_of(row, 1 + ID_BYTES) }))
    }

    /// The row that is stored.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, id) = (if matches!(self, Self::Live(_)) { LIVE } else { GONE }, self.id().to_bytes());
        let other;
        let rest: &[u8] = match self {
            Self::Live(entry) => &entry.fields,
            Self::Gone { other: end, .. } => {
                other = end.0.to_le_bytes();
                &other
            }
        };
        [&[kind], &id[..], rest].concat()
    }
}

/// Fields and values in turn, as they are stored.
pub(super) fn encode_fields(strings: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(9 + strings.iter().map(|string| string.len() + 3).sum::<usize>());
    put_varint(&mut bytes, strings.len() as u64);
    strings.iter().for_each(|string| put_bytes(&mut bytes, string));
    bytes
}

impl Entry {
    /// Fields and values in turn.
    pub(super) fn strings(&self) -> Result<Vec<&[u8]>, Malformed> {
        let mut reader = Reader::new(&self.fields);
        let count = reader.count(1)?;
        let strings = (0..count).map(|_| reader.bytes()).collect::<Result<_, _>>()?;
        reader.end()?;
        Ok(strings)
    }

    /// Answers the id and the fields.
    pub(super) fn write(&self, reply: &mut Reply) -> Result<(), Malformed> {
        self.write_of(2, reply)
    }

    /// The same with how long it has been pending, in ms, and how often it was delivered.
    pub(super) fn write_pending(&self, idle_ms: u64, deliveries: u64, reply: &mut Reply) -> Result<(), Malformed> {
        self.write_of(4, reply)?;
        reply.int(idle_ms as i64);
        reply.int(deliveries as i64);
        Ok(())
    }

    /// Answers the id and the fields: the first two of so many parts.
    fn write_of(&self, parts: usize, reply: &mut Reply) -> Result<(), Malformed> {
        let strings = self.strings()?;
        reply.array(parts);
        write_id(self.id, reply);
        reply.array(strings.len());
        strings.into_iter().for_each(|string| reply.bulk(string));
        Ok(())
    }

    /// Appends it to the entries of a small stream.
    pub(super) fn push(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_bytes());
        put_bytes(out, &self.fields);
    }

    /// Takes one of the entries of a small stream.
    pub(super) fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { id: StreamId::of_bytes(reader.array()?), fields: Slice::from(reader.bytes()?) })
    }
}

/// Answers an id.
pub(super) fn write_id(id: StreamId, reply: &mut Reply) {
    reply.bulk(id.to_string().as_bytes());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rows_are_what_they_were() {
        let id = StreamId { ms: 1, seq: u64::MAX };
        let fields = encode_fields(&[b"field", b"", b"", b"a value that is longer than what a slice holds inline"]);
        let live = Spot::Live(Entry { id, fields: Slice::from(fields) });
        let gone = Spot::Gone { id, other: Ordinal(9) };
        for spot in [live, gone] {
            let bytes = spot.encode();
            assert_eq!(Spot::decode(Slice::from(&bytes[..])).unwrap(), spot);
            assert!(Spot::decode(Slice::from(&bytes[..16])).is_err());
            if let Spot::Live(entry) = spot {
                assert_eq!(entry.strings().unwrap()[..2], [&b"field"[..], b""]);
                let mut whole = Vec::new();
                entry.push(&mut whole);
                assert_eq!(Entry::take(&mut Reader::new(&whole)).unwrap(), entry);
            }
        }
    }
}
