//! A key's record as it is stored: head, then payload. docs/FORMATS.md has the layout; this is its only code.
//!
//! ```text
//! byte 0      format (high 4 bits, now 1) and kind (low 4 bits)
//! byte 1      flags: bit 0 = has an expiry, bit 1 = its elements are rows of their own, bit 2 = fields of the hash expire
//! bytes 2..10 version, little-endian
//! 8 bytes     expiry in ms since the epoch, little-endian, only with flag bit 0
//! rest        payload, by kind; with flag bit 1 a `Rows`; behind that what is known of a list (`command::list`) or of a
//!             stream (`command::stream`) as a whole; with flag bit 2 see `format::field_expiry`
//! ```

use super::keys;
use std::io::{self, Read};
use storage::Slice;
use vocab::Reader;

const FORMAT: u8 = 1;
const FLAG_EXPIRY: u8 = 1;
const FLAG_ROWS: u8 = 2;
const FLAG_FIELD_EXPIRIES: u8 = 4;
const HEAD_BYTES: usize = 10;
const COUNT_BYTES: usize = 8;
const DUE_BYTES: usize = 8;
/// What the payload of each large collection below an id begins with: its count and the prefix of its rows.
pub(crate) const ROWS_HEAD_BYTES: usize = COUNT_BYTES + keys::ROWS_BYTES;
/// How much a large hash's record says of expiries of its fields (`format::field_expiry`).
pub(crate) const EXPIRIES_BYTES: usize = 30;
const KEYED_ROWS_BYTES: usize = 16;
const KEYED_HASH: u8 = 3;

/// What a record holds: of which type, and how it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// What TYPE tells.
    pub ty: Type,
    /// How it is kept.
    pub layout: Layout,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Type {
    /// Bytes.
    String = 1,
    /// Fields and values.
    Hash = 2,
    /// Members: kept as a hash's fields with empty values.
    Set = 4,
    /// Elements in an order.
    List = 5,
    /// Members and scores, in the order of the scores (see `command::zset`).
    SortedSet = 6,
    /// Entries, and groups that read them.
    Stream = 7,
}

/// How a value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// In the record: the bytes of a string (of a long one, perhaps: `space::long_string`), the packed elements of a small collection (see `command::hash`).
    Packed,
    /// In rows of their own; the payload is a `Rows`. Of a string in pieces its count is that of its bytes.
    Rows,
    /// In rows below the key, as earlier releases wrote it: the payload is a generation and a count.
    KeyedRows,
    /// As `Packed`, of a hash that has fields with an expiry of their own.
    ExpiringPacked,
    /// As `Rows`, of a hash that has, or had, fields with an expiry of their own.
    ExpiringRows,
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

/// Where the elements of a large collection are, and how many.
///
/// The record refers to its rows by the prefix of their tree keys, whatever its own key is: to rename a collection is to
/// refer to its rows from another record.
///
/// ```text
/// bytes 0..8  count, little-endian
/// rest        the prefix
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// With what the tree keys of the elements begin.
    pub prefix: Vec<u8>,
    /// How many elements there are.
    pub count: u64,
}

impl Type {
    /// The type of that name, as TYPE tells it.
    pub(crate) fn of_name(name: &[u8]) -> Option<Self> {
        let all = [Self::String, Self::Hash, Self::Set, Self::List, Self::SortedSet, Self::Stream];
        all.into_iter().find(|ty| Kind::packed(*ty).type_name().as_bytes() == name)
    }

    /// Whether the record of a large one says more of it, behind the prefix of its rows.
    fn has_tail(self) -> bool {
        matches!(self, Self::List | Self::Stream)
    }
}

impl Rows {
    /// The rows of a collection as earlier releases wrote them: below its key. `generation` is random, and differs from
    /// that of an earlier collection of that key.
    #[must_use]
    pub fn of_key(key: &[u8], generation: u64, count: u64) -> Self {
        Self { prefix: keys::keyed_rows(key, generation), count }
    }

    /// The same place with another count.
    #[must_use]
    pub fn with_count(&self, count: u64) -> Self {
        Self { prefix: self.prefix.clone(), count }
    }

    /// Those of the rows whose tree keys go on with `part`.
    #[must_use]
    pub fn part(&self, part: u8) -> Self {
        let mut prefix = Vec::with_capacity(self.prefix.len() + 1);
        prefix.extend_from_slice(&self.prefix);
        prefix.push(part);
        Self { prefix, count: self.count }
    }
}

impl Kind {
    /// A string.
    pub const STRING: Self = Self { ty: Type::String, layout: Layout::Packed };
    /// A small hash.
    pub const HASH: Self = Self { ty: Type::Hash, layout: Layout::Packed };
    /// A small set.
    pub const SET: Self = Self { ty: Type::Set, layout: Layout::Packed };
    /// A small sorted set.
    pub const SORTED_SET: Self = Self { ty: Type::SortedSet, layout: Layout::Packed };

    /// A small list.
    pub const LIST: Self = Self { ty: Type::List, layout: Layout::Packed };

    /// Whether its elements are rows of their own.
    #[must_use]
    pub fn is_large(self) -> bool {
        matches!(self.layout, Layout::Rows | Layout::KeyedRows | Layout::ExpiringRows)
    }

    /// A small collection.
    #[must_use]
    pub fn packed(ty: Type) -> Self {
        Self { ty, layout: Layout::Packed }
    }

    /// A large collection.
    #[must_use]
    pub fn large(ty: Type) -> Self {
        Self { ty, layout: Layout::Rows }
    }

    fn of_head(code: u8, flags: u8) -> Option<Self> {
        if flags & FLAG_FIELD_EXPIRIES != 0 {
            let layout = if flags & FLAG_ROWS == 0 { Layout::ExpiringPacked } else { Layout::ExpiringRows };
            return (code == Type::Hash as u8).then_some(Self { ty: Type::Hash, layout });
        }
        match (code, flags & FLAG_ROWS != 0) {
            (1, false) => Some(Self::STRING),
            (1, true) => Some(Self::large(Type::String)),
            (2, false) => Some(Self::HASH),
            (2, true) => Some(Self::large(Type::Hash)),
            (4, false) => Some(Self::SET),
            (4, true) => Some(Self::large(Type::Set)),
            (5, false) => Some(Self::LIST),
            (5, true) => Some(Self::large(Type::List)),
            (6, false) => Some(Self::SORTED_SET),
            (6, true) => Some(Self::large(Type::SortedSet)),
            (7, false) => Some(Self::packed(Type::Stream)),
            (7, true) => Some(Self::large(Type::Stream)),
            (KEYED_HASH, false) => Some(Self { ty: Type::Hash, layout: Layout::KeyedRows }),
            _ => None,
        }
    }

    fn code(self) -> u8 {
        if self.layout == Layout::KeyedRows { KEYED_HASH } else { self.ty as u8 }
    }

    fn flags(self) -> u8 {
        match self.layout {
            Layout::Packed | Layout::KeyedRows => 0,
            Layout::Rows => FLAG_ROWS,
            Layout::ExpiringPacked => FLAG_FIELD_EXPIRIES,
            Layout::ExpiringRows => FLAG_ROWS | FLAG_FIELD_EXPIRIES,
        }
    }

    /// The word that TYPE answers.
    #[must_use]
    pub fn type_name(self) -> &'static str {
        match self.ty {
            Type::String => "string",
            Type::Hash => "hash",
            Type::Set => "set",
            Type::List => "list",
            Type::SortedSet => "zset",
            Type::Stream => "stream",
        }
    }
}

/// The part of a large sorted set's rows that has its members.
pub(crate) const MEMBERS: u8 = b'm';

impl RecordView<'_> {
    /// What the record of a large collection says of it beside its count and the prefix of its rows.
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        let tail = match self.kind.layout {
            Layout::ExpiringRows => self.payload.get(COUNT_BYTES..COUNT_BYTES + EXPIRIES_BYTES),
            Layout::Rows if self.kind.ty.has_tail() => self.payload.get(COUNT_BYTES + keys::ROWS_BYTES..),
            _ => None,
        };
        tail.unwrap_or_default()
    }

    /// When background collection is to look at the fields of a hash; `None` if none of them has an expiry.
    #[must_use]
    pub fn fields_due_ms(&self) -> Option<u64> {
        let at = self.fields_due_at()?;
        let bytes = self.payload.get(at..at + DUE_BYTES)?;
        let due_ms = u64::from_le_bytes(bytes.try_into().ok()?);
        (due_ms != u64::MAX).then_some(due_ms)
    }

    /// When nothing is seen of it any more, in ms since the epoch: at its expiry, or when the last field of a small hash has
    /// expired. Of a large hash the latter is not known.
    #[must_use]
    pub fn gone_at_ms(&self) -> Option<u64> {
        if self.kind.layout != Layout::ExpiringPacked {
            return self.expire_at_ms;
        }
        [self.expire_at_ms, self.last_field_ms()].into_iter().flatten().min()
    }

    /// When the last field of a small hash expires, if each has an expiry (`format::field_expiry`).
    fn last_field_ms(&self) -> Option<u64> {
        let mut reader = Reader::new(self.payload.get(DUE_BYTES..)?);
        let count = reader.varint().ok()?;
        let mut last_ms = 0;
        for _ in 0..count {
            reader.varint().ok()?;
            last_ms = last_ms.max(reader.u64_le().ok()?);
        }
        (reader.varint().ok()? == count).then_some(last_ms)
    }

    /// Where in the payload that stands.
    fn fields_due_at(&self) -> Option<usize> {
        match self.kind.layout {
            Layout::ExpiringPacked => Some(0),
            Layout::ExpiringRows => Some(COUNT_BYTES),
            Layout::Packed | Layout::Rows | Layout::KeyedRows => None,
        }
    }

    /// Where the fields of a large hash at `key` are, or the members of a set or sorted set, a row each by its position;
    /// `None` for any other kind.
    #[must_use]
    pub fn fields(&self, key: &[u8]) -> Option<Rows> {
        let rows = self.rows(key)?;
        Some(if self.kind.ty == Type::SortedSet { rows.part(MEMBERS) } else { rows })
    }

    /// Where all rows of a large collection at `key` are, and how many elements it has; `None` for any other kind.
    #[must_use]
    pub fn rows(&self, key: &[u8]) -> Option<Rows> {
        let number = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
        match self.kind.layout {
            Layout::Packed | Layout::ExpiringPacked => None,
            Layout::Rows | Layout::ExpiringRows => {
                let (count, _) = self.payload.split_at_checked(COUNT_BYTES)?;
                Some(Rows { prefix: prefix_of(self.kind, self.payload).to_vec(), count: number(count)? })
            }
            Layout::KeyedRows => {
                let (generation, count) = self.payload.split_at_checked(KEYED_ROWS_BYTES - COUNT_BYTES)?;
                Some(Rows::of_key(key, number(generation)?, number(count)?))
            }
        }
    }
}

/// With what the tree keys of a large collection's rows begin.
fn prefix_of(kind: Kind, payload: &[u8]) -> &[u8] {
    let before = if kind.layout == Layout::ExpiringRows { COUNT_BYTES + EXPIRIES_BYTES } else { COUNT_BYTES };
    let rest = payload.get(before..).unwrap_or_default();
    if kind.ty.has_tail() { &rest[..rest.len().min(keys::ROWS_BYTES)] } else { rest }
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
        head[0] = FORMAT << 4 | kind.code();
        head[1] = kind.flags();
        head[2..HEAD_BYTES].copy_from_slice(&version.to_le_bytes());
        let mut head_length = HEAD_BYTES;
        if let Some(at) = expire_at_ms {
            head[1] |= FLAG_EXPIRY;
            head[HEAD_BYTES..].copy_from_slice(&at.to_le_bytes());
            head_length += 8;
        }
        let length: usize = payload.iter().map(|part| part.len()).sum();
        let mut parts = head[..head_length].chain(Parts(payload, 0));
        Self(Slice::from_reader(&mut parts, head_length + length).expect("memory can be read"))
    }

    /// The record of a large hash or set.
    #[must_use]
    pub fn large(ty: Type, version: u64, expire_at_ms: Option<u64>, rows: &Rows) -> Self {
        Self::stamped_new(version, Kind::large(ty), expire_at_ms, &[&rows.count.to_le_bytes(), &rows.prefix])
    }

    /// The record of a large collection of which it says more: of a hash, when its fields expire.
    #[must_use]
    pub fn large_with_tail(ty: Type, version: u64, expire_at_ms: Option<u64>, rows: &Rows, tail: &[u8]) -> Self {
        if ty == Type::Hash && tail.len() == EXPIRIES_BYTES {
            let kind = Kind { ty, layout: Layout::ExpiringRows };
            let payload: [&[u8]; 3] = [&rows.count.to_le_bytes(), tail, &rows.prefix];
            return Self::stamped_new(version, kind, expire_at_ms, &payload);
        }
        debug_assert!(tail.is_empty() || ty.has_tail(), "a record of another type ends with its prefix");
        let payload: [&[u8]; 3] = [&rows.count.to_le_bytes(), &rows.prefix, tail];
        Self::stamped_new(version, Kind::large(ty), expire_at_ms, &payload)
    }

    /// The record of a large hash whose rows are below its key, as earlier releases wrote it.
    #[must_use]
    pub fn keyed_hash(version: u64, expire_at_ms: Option<u64>, generation: u64, count: u64) -> Self {
        let kind = Kind { ty: Type::Hash, layout: Layout::KeyedRows };
        Self::stamped_new(version, kind, expire_at_ms, &[&generation.to_le_bytes(), &count.to_le_bytes()])
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

    /// The same record, of whose fields background collection looks at none before `now_ms`.
    #[must_use]
    pub fn due_from(self, now_ms: u64) -> Self {
        let view = self.view();
        if view.fields_due_ms().is_none_or(|due_ms| due_ms >= now_ms) {
            return self;
        }
        let Some((before, rest)) = view.fields_due_at().and_then(|at| view.payload.split_at_checked(at)) else {
            return self;
        };
        let behind = rest.get(DUE_BYTES..).unwrap_or_default();
        let payload = [before, &now_ms.to_le_bytes(), behind];
        Self::stamped_new(view.version, view.kind, view.expire_at_ms, &payload)
    }

    /// Checks the head of stored bytes. The error says what is wrong.
    pub fn decode(bytes: Slice) -> Result<Self, &'static str> {
        if bytes.len() < HEAD_BYTES {
            return Err("record shorter than its head");
        }
        if bytes[0] >> 4 != FORMAT {
            return Err("unknown record format");
        }
        if bytes[1] & !(FLAG_EXPIRY | FLAG_ROWS | FLAG_FIELD_EXPIRIES) != 0 {
            return Err("unknown record flags");
        }
        let kind = Kind::of_head(bytes[0] & 15, bytes[1]).ok_or("unknown record kind")?;
        if bytes[1] & FLAG_EXPIRY != 0 && bytes.len() < HEAD_BYTES + 8 {
            return Err("record shorter than its expiry");
        }
        let payload = &bytes[HEAD_BYTES + if bytes[1] & FLAG_EXPIRY == 0 { 0 } else { 8 }..];
        match kind.layout {
            Layout::Rows | Layout::ExpiringRows if !keys::is_rows_prefix(prefix_of(kind, payload)) => {
                return Err("record of a large collection without its rows");
            }
            Layout::KeyedRows if payload.len() != KEYED_ROWS_BYTES => {
                return Err("record of a large collection of a wrong length");
            }
            _ => {}
        }
        Ok(Self(bytes))
    }

    /// The record without its payload, by the beginning of its stored bytes: `storage::VALUE_HEAD_BYTES`, or all of a shorter
    /// one. That of a large collection has all that these bytes have of it; an error if they do not tell enough, as those of a
    /// small hash whose fields expire.
    pub fn decode_head(bytes: Slice) -> Result<Self, &'static str> {
        let (code, flags) = (bytes.first().copied().unwrap_or(0) & 15, bytes.get(1).copied().unwrap_or(0));
        let kind = Kind::of_head(code, flags);
        if kind.is_none_or(Kind::is_large) {
            return Self::decode(bytes);
        }
        if kind.is_some_and(|kind| kind.layout == Layout::ExpiringPacked) {
            return Err("the fields of a hash tell whether it is seen");
        }
        let head = HEAD_BYTES + if flags & FLAG_EXPIRY == 0 { 0 } else { 8 };
        Self::decode(Slice::from(&bytes[..bytes.len().min(head)]))
    }

    /// How many bytes a stored record brings to an answer: of a string in pieces, those of all of them.
    pub(crate) fn answer_bytes(stored: &[u8]) -> usize {
        let string = FORMAT << 4 | Type::String as u8;
        match stored {
            [format, flags, ..] if *format == string && flags & FLAG_ROWS != 0 => {
                let head = HEAD_BYTES + if flags & FLAG_EXPIRY == 0 { 0 } else { 8 };
                let count = stored.get(head..head + COUNT_BYTES).and_then(|count| count.try_into().ok());
                count.map_or(0, |count| u64::from_le_bytes(count) as usize)
            }
            _ => stored.len(),
        }
    }

    /// The parts.
    #[must_use]
    pub fn view(&self) -> RecordView<'_> {
        let bytes = &self.0[..];
        let kind = Kind::of_head(bytes[0] & 15, bytes[1]).expect("checked when it was made");
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::{Slot, fuzz};

    #[test]
    fn what_is_built_is_decoded() {
        for expiry in [None, Some(1_700_000_000_000)] {
            for parts in [&[][..], &[&b"a value longer than what a slice holds inline"[..], b"", b"b"][..]] {
                let record = Record::new(Kind::STRING, expiry, parts).stamped(7);
                let decoded = Record::decode(record.bytes().clone()).unwrap();
                let view = decoded.view();
                assert_eq!((view.kind, view.version, view.expire_at_ms), (Kind::STRING, 7, expiry));
                assert_eq!(view.payload, parts.concat());
            }
        }
    }

    #[test]
    fn what_is_torn_is_refused() {
        let rows = Rows { prefix: keys::rows(Slot(7), 3), count: 4 };
        let large = Record::large(Type::Hash, 1, Some(1), &rows);
        assert_eq!(large.view().rows(b"any"), Some(rows));
        let keyed = Record::keyed_hash(1, Some(1), 3, 4);
        assert_eq!(keyed.view().rows(b"k"), Some(Rows::of_key(b"k", 3, 4)));
        let rows = Rows { prefix: keys::rows(Slot(7), 3), count: 4 };
        let expiring = Record::large_with_tail(Type::Hash, 1, Some(1), &rows, &[9; EXPIRIES_BYTES]);
        assert_eq!((expiring.view().rows(b"any"), expiring.view().tail()), (Some(rows), &[9; EXPIRIES_BYTES][..]));
        for whole in [large, keyed, expiring] {
            for length in 0..whole.bytes().len() {
                assert!(Record::decode(Slice::from(&whole.bytes()[..length])).is_err(), "{length}");
            }
            for (at, byte) in [(0, 0x21), (0, 0x1f), (1, 8)] {
                let mut bytes = whole.bytes().to_vec();
                bytes[at] = byte;
                assert!(Record::decode(Slice::from(bytes)).is_err(), "{byte:#x}");
            }
        }
    }

    #[test]
    fn what_is_due_moves_forward_alone() {
        let rows = Rows { prefix: keys::rows(Slot(7), 3), count: 4 };
        let tail = [&500_u64.to_le_bytes()[..], &[1; EXPIRIES_BYTES - DUE_BYTES]].concat();
        let packed = Kind { ty: Type::Hash, layout: Layout::ExpiringPacked };
        let records = [
            Record::large_with_tail(Type::Hash, 1, None, &rows, &tail),
            Record::new(packed, None, &[&500_u64.to_le_bytes(), b"rest"]),
        ];
        for record in records {
            assert_eq!(record.view().fields_due_ms(), Some(500));
            assert_eq!(record.clone().due_from(500), record);
            let later = record.clone().due_from(501);
            assert_eq!((later.view().fields_due_ms(), later.view().kind), (Some(501), record.view().kind));
            assert_eq!(later.view().rows(b"k"), record.view().rows(b"k"));
            assert_eq!(later.bytes().len(), record.bytes().len());
        }
        assert_eq!(Record::new(Kind::HASH, None, &[&500_u64.to_le_bytes()]).view().fields_due_ms(), None);
    }

    #[test]
    fn fuzz_records() {
        fuzz::rounds(1, |prng| {
            let expiry = (prng.below(2) == 1).then(|| prng.next_u64());
            let bytes = vec![7; prng.below(40) as usize];
            let rows = Rows { prefix: keys::rows(Slot(9), 8), count: 7 };
            let record = match prng.below(14) {
                12 => Record::large_with_tail(Type::Hash, 1, expiry, &rows, &[3; EXPIRIES_BYTES]),
                13 => Record::new(Kind { ty: Type::Hash, layout: Layout::ExpiringPacked }, expiry, &[&bytes]),
                6 => Record::new(Kind::LIST, expiry, &[&bytes]),
                7 => Record::large_with_tail(Type::List, 1, expiry, &rows, &bytes),
                8 => Record::new(Kind::SORTED_SET, expiry, &[&bytes]),
                9 => Record::large(Type::SortedSet, 1, expiry, &rows),
                10 => Record::large_with_tail(Type::Stream, 1, expiry, &rows, &bytes),
                11 => Record::new(Kind::packed(Type::Stream), expiry, &[&bytes]),
                0 => Record::new(Kind::STRING, expiry, &[&bytes]),
                1 => Record::new(Kind::HASH, expiry, &[&bytes]),
                2 => Record::new(Kind::SET, expiry, &[&bytes]),
                3 => Record::large(Type::Set, 1, expiry, &Rows { prefix: keys::rows(Slot(9), 8), count: 7 }),
                4 => Record::large(Type::Hash, 1, expiry, &Rows { prefix: keys::rows(Slot(9), 8), count: 7 }),
                _ => Record::keyed_hash(1, expiry, 7, 8),
            };
            let mut bytes = record.bytes().to_vec();
            if prng.below(4) > 0 {
                fuzz::mutate(&mut bytes, 3, prng);
            }
            // Either refused, or each byte means something: written again it is the same.
            if let Ok(record) = Record::decode(Slice::from(&bytes[..])) {
                let view = record.view();
                assert_eq!(view.rows(b"k").is_some(), view.kind.is_large());
                let again = Record::stamped_new(view.version, view.kind, view.expire_at_ms, &[view.payload]);
                assert_eq!(again.bytes()[..], bytes);
            }
        });
    }
}
