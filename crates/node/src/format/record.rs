//! A key's record as it is stored: head, then payload. docs/FORMATS.md has the layout; this is its only code.
//!
//! ```text
//! byte 0      format (high 4 bits, now 1) and kind (low 4 bits)
//! byte 1      flags: bit 0 = has an expiry
//! bytes 2..10 version, little-endian
//! 8 bytes     expiry in ms since the epoch, little-endian, only with flag bit 0
//! rest        payload, by kind
//! ```

use std::io::{self, Read};
use storage::Slice;

const FORMAT: u8 = 1;
const FLAG_EXPIRY: u8 = 1;
const HEAD_BYTES: usize = 10;
const SPREAD_BYTES: usize = 16;

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Payload: the bytes.
    String = 1,
    /// Payload: the fields and values, packed (see `exec::hash`).
    Hash = 2,
    /// Payload: a `Spread`; the fields are elements of their own.
    SpreadHash = 3,
}

/// One stored record: reference-counted bytes whose head has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record(Slice);

/// The parts of a record.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    /// What it holds.
    pub kind: Kind,
    /// The Raft index at which it was last written.
    pub version: u64,
    /// When it ceases to be seen, in ms since the epoch.
    pub expire_at_ms: Option<u64>,
    /// By kind.
    pub payload: &'a [u8],
}

/// The payload of a spread collection, whose elements are stored on their own.
///
/// ```text
/// bytes 0..8  generation, little-endian
/// bytes 8..16 count, little-endian
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Drawn at random when the collection was spread: tells its elements from those of one before it.
    pub generation: u64,
    /// How many elements there are.
    pub count: u64,
}

impl Spread {
    /// The payload.
    #[must_use]
    pub fn encode(self) -> [u8; SPREAD_BYTES] {
        let mut bytes = [0; SPREAD_BYTES];
        bytes[..8].copy_from_slice(&self.generation.to_le_bytes());
        bytes[8..].copy_from_slice(&self.count.to_le_bytes());
        bytes
    }
}

impl RecordView<'_> {
    /// The payload of a spread collection; `None` for any other kind.
    #[must_use]
    pub fn spread(&self) -> Option<Spread> {
        let (Kind::SpreadHash, Ok(payload)) = (self.kind, <[u8; SPREAD_BYTES]>::try_from(self.payload)) else {
            return None;
        };
        let word = |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().expect("8 bytes"));
        Some(Spread { generation: word(0), count: word(8) })
    }
}

/// The parts of a payload one after the other, so that a record is built with one copy.
struct Parts<'a>(&'a [&'a [u8]], usize);

impl Read for Parts<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some((first, rest)) = self.0.split_first() {
            if self.1 < first.len() {
                let n = into.len().min(first.len() - self.1);
                into[..n].copy_from_slice(&first[self.1..self.1 + n]);
                self.1 += n;
                return Ok(n);
            }
            (self.0, self.1) = (rest, 0);
        }
        Ok(0)
    }
}

impl Record {
    /// A record from its parts. The version is stamped when it is put.
    #[must_use]
    pub fn new(kind: Kind, expire_at_ms: Option<u64>, payload: &[&[u8]]) -> Self {
        Self::stamped_new(0, kind, expire_at_ms, payload)
    }

    /// A record from its parts that is already stamped with `version`: saves `stamped` the copy.
    #[must_use]
    pub fn stamped_new(version: u64, kind: Kind, expire_at_ms: Option<u64>, payload: &[&[u8]]) -> Self {
        let mut head = [0; HEAD_BYTES + 8];
        head[0] = FORMAT << 4 | kind as u8;
        head[2..HEAD_BYTES].copy_from_slice(&version.to_le_bytes());
        let mut head_length = HEAD_BYTES;
        if let Some(at) = expire_at_ms {
            head[1] = FLAG_EXPIRY;
            head[HEAD_BYTES..].copy_from_slice(&at.to_le_bytes());
            head_length += 8;
        }
        let length: usize = payload.iter().map(|part| part.len()).sum();
        let mut parts = head[..head_length].chain(Parts(payload, 0));
        Self(Slice::from_reader(&mut parts, head_length + length).expect("memory can be read"))
    }

    /// The same record, stamped with `version`.
    #[must_use]
    pub fn stamped(&self, version: u64) -> Self {
        let view = self.view();
        if view.version == version {
            return self.clone();
        }
        Self::stamped_new(version, view.kind, view.expire_at_ms, &[view.payload])
    }

    /// Checks the head of stored bytes. The error says what is wrong.
    pub fn decode(bytes: Slice) -> Result<Self, &'static str> {
        if bytes.len() < HEAD_BYTES {
            return Err("record shorter than its head");
        }
        if bytes[0] >> 4 != FORMAT {
            return Err("unknown record format");
        }
        if Kind::from_byte(bytes[0] & 15).is_none() {
            return Err("unknown record kind");
        }
        if bytes[1] & !FLAG_EXPIRY != 0 {
            return Err("unknown record flags");
        }
        if bytes[1] & FLAG_EXPIRY != 0 && bytes.len() < HEAD_BYTES + 8 {
            return Err("record shorter than its expiry");
        }
        let head = HEAD_BYTES + if bytes[1] & FLAG_EXPIRY == 0 { 0 } else { 8 };
        if bytes[0] & 15 == Kind::SpreadHash as u8 && bytes.len() != head + SPREAD_BYTES {
            return Err("spread record of a wrong length");
        }
        Ok(Self(bytes))
    }

    /// The parts.
    #[must_use]
    pub fn view(&self) -> RecordView<'_> {
        let bytes = &self.0[..];
        let kind = Kind::from_byte(bytes[0] & 15).expect("checked when it was made");
        let version = u64::from_le_bytes(bytes[2..HEAD_BYTES].try_into().expect("8 bytes"));
        if bytes[1] & FLAG_EXPIRY == 0 {
            return RecordView { kind, version, expire_at_ms: None, payload: &bytes[HEAD_BYTES..] };
        }
        let at = u64::from_le_bytes(bytes[HEAD_BYTES..HEAD_BYTES + 8].try_into().expect("8 bytes"));
        RecordView { kind, version, expire_at_ms: Some(at), payload: &bytes[HEAD_BYTES + 8..] }
    }

    /// The stored bytes.
    #[must_use]
    pub fn bytes(&self) -> &Slice {
        &self.0
    }
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::String),
            2 => Some(Self::Hash),
            3 => Some(Self::SpreadHash),
            _ => None,
        }
    }

    /// The word that TYPE answers.
    #[must_use]
    pub fn type_name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Hash | Self::SpreadHash => "hash",
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::{Duration, Instant};
    use vocab::Prng;

    #[test]
    fn what_is_built_is_decoded() {
        for expiry in [None, Some(1_700_000_000_000)] {
            for parts in [&[][..], &[&b"a value longer than what a slice holds inline"[..], b"", b"b"][..]] {
                let record = Record::new(Kind::String, expiry, parts).stamped(7);
                let decoded = Record::decode(record.bytes().clone()).unwrap();
                let view = decoded.view();
                assert_eq!((view.kind, view.version, view.expire_at_ms), (Kind::String, 7, expiry));
                assert_eq!(view.payload, parts.concat());
            }
        }
    }

    #[test]
    fn what_is_torn_is_refused() {
        let spread = Spread { generation: 3, count: 4 };
        let whole = Record::new(Kind::SpreadHash, Some(1), &[&spread.encode()]);
        assert_eq!(whole.view().spread(), Some(spread));
        for length in 0..whole.bytes().len() {
            assert!(Record::decode(Slice::from(&whole.bytes()[..length])).is_err(), "{length}");
        }
        for (at, byte) in [(0, 0x21), (0, 0x14), (1, 2)] {
            let mut bytes = whole.bytes().to_vec();
            bytes[at] = byte;
            assert!(Record::decode(Slice::from(bytes)).is_err(), "{byte:#x}");
        }
    }

    #[test]
    fn fuzz_records() {
        let mut prng = Prng::new(1);
        let seconds = std::env::var("BASALT_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        let until = Instant::now() + Duration::from_secs(seconds);
        let mut rounds = 0;
        while rounds < 2_000 || Instant::now() < until {
            rounds += 1;
            let kind = Kind::from_byte(1 + prng.below(3) as u8).unwrap();
            let expiry = (prng.below(2) == 1).then(|| prng.next_u64());
            let mut bytes = Record::new(kind, expiry, &[&vec![7; prng.below(40) as usize]]).bytes().to_vec();
            for _ in 0..prng.below(4) {
                let at = prng.below(bytes.len() as u64) as usize;
                if prng.below(3) > 0 { bytes[at] ^= 1 << prng.below(8) } else { bytes.truncate(at.max(1)) }
            }
            // Either refused, or each byte means something: written again it is the same.
            if let Ok(record) = Record::decode(Slice::from(&bytes[..])) {
                let view = record.view();
                assert_eq!(view.spread().is_some(), view.kind == Kind::SpreadHash);
                let again = Record::stamped_new(view.version, view.kind, view.expire_at_ms, &[view.payload]);
                assert_eq!(again.bytes()[..], bytes);
            }
        }
    }
}
