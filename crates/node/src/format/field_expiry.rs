//! When fields of a hash expire, as it is stored.
//!
//! Of a small hash, before its fields:
//! ```text
//! u64     due: when background collection is to look at it
//! varint  how many fields have an expiry
//!         for each, in the order of the fields: varint its place from 0 on, u64 expiry in ms since 1970
//! ```
//! Of a large hash, in its record (`EXPIRIES_BYTES`) and in rows. The rows lie where the empty field has its element and no
//! other field can have one: six zero bytes begin their names.
//! ```text
//! u64     due: when background collection is to look at it; all ones: never
//! u64     fields that have an expiry
//! u64, 6 bytes  no field has an earlier expiry; nor that expiry and an earlier position
//! row 'e' element          u64 the field's expiry
//! row 't' u64 ms, element  no value: the fields in the order in which they expire
//! ```
//! Numbers are little-endian, but those in names of rows big-endian. An expiry that has come counts until the field is removed.

use super::element;
use super::packed_hash::{self, Malformed, Packed, Varint};
use super::record::{EXPIRIES_BYTES, Kind, Layout, Record, Type};
use vocab::Reader;

/// The most bytes that the expiry of one field adds to a small hash.
pub(crate) const PACKED_EXPIRY_BYTES_MAX: usize = 10;
/// The bytes that the first expiry of a field adds beside.
pub(crate) const PACKED_HEAD_BYTES_MAX: usize = 10;

const NEVER: u64 = u64::MAX;
const BY_FIELD: u8 = b'e';
const BY_TIME: u8 = b't';
const POSITION_BYTES: usize = 6;
/// Behind the zero bytes and the kind of row.
const NAME_HEAD: usize = POSITION_BYTES + 1;

/// Places of fields in a small hash, and when these expire in ms since the epoch. Places rise.
pub(crate) type Places = Vec<(usize, u64)>;

/// The fields of a small hash that are seen, and their expiries.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LiveFields {
    /// Packed as a hash without expiries.
    pub(crate) packed: Vec<u8>,
    pub(crate) expiries: Places,
    /// How many fields had expired.
    pub(crate) expired: usize,
}

impl LiveFields {
    /// What is seen at `now_ms` of a small hash with expiries.
    pub(crate) fn at(payload: &[u8], now_ms: u64) -> Result<Self, Malformed> {
        let (all, packed) = parse(payload)?;
        if all.iter().all(|(_, at_ms)| *at_ms > now_ms) {
            return Ok(Self { packed: packed.to_vec(), expiries: all, expired: 0 });
        }
        let (mut body, mut expiries, mut count) = (Vec::with_capacity(packed.len()), Places::new(), 0);
        let mut left = all.iter().peekable();
        for (place, entry) in Packed::parse(packed)?.entries().enumerate() {
            let (field, value) = entry?;
            let at_ms = left.next_if(|(of, _)| *of == place).map(|(_, at_ms)| *at_ms);
            if at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                continue;
            }
            expiries.extend(at_ms.map(|at_ms| (count, at_ms)));
            count += 1;
            packed_hash::push_entry(&mut body, field, value);
        }
        let expired = all.len() - expiries.len();
        Ok(Self { packed: [Varint::new(count).bytes(), &body].concat(), expiries, expired })
    }

    /// The number of fields.
    pub(crate) fn count(&self) -> Result<usize, Malformed> {
        Ok(Packed::parse(&self.packed)?.count())
    }

    /// The record of a hash of them alone.
    pub(crate) fn record(&self, version: u64, expire_at_ms: Option<u64>) -> Record {
        record_of(version, expire_at_ms, &self.expiries, &[&self.packed])
    }
}

/// The record of a small hash: its packed fields in parts.
pub(crate) fn record_of(
    version: u64,
    expire_at_ms: Option<u64>,
    expiries: &[(usize, u64)],
    packed: &[&[u8]],
) -> Record {
    let Some(due_ms) = expiries.iter().map(|(_, at_ms)| *at_ms).min() else {
        return Record::stamped_new(version, Kind::HASH, expire_at_ms, packed);
    };
    let mut head = due_ms.to_le_bytes().to_vec();
    head.extend_from_slice(Varint::new(expiries.len()).bytes());
    for (place, at_ms) in expiries {
        head.extend_from_slice(Varint::new(*place).bytes());
        head.extend_from_slice(&at_ms.to_le_bytes());
    }
    let mut parts: Vec<&[u8]> = vec![&head];
    parts.extend_from_slice(packed);
    Record::stamped_new(version, Kind { ty: Type::Hash, layout: Layout::ExpiringPacked }, expire_at_ms, &parts)
}

/// The expiries in the payload of a small hash, and its packed fields.
pub(crate) fn parse(payload: &[u8]) -> Result<(Places, &[u8]), Malformed> {
    let malformed = |_| Malformed("expiry of a field of a hash malformed");
    let mut reader = Reader::new(payload);
    reader.u64_le().map_err(malformed)?;
    let count = reader.count(9).map_err(malformed)?;
    let mut expiries = Places::with_capacity(count);
    for _ in 0..count {
        let place: usize = reader.number().map_err(malformed)?;
        expiries.push((place, reader.u64_le().map_err(malformed)?));
    }
    let packed = reader.rest();
    let fields = Packed::parse(packed)?.count();
    let rise = expiries.windows(2).all(|pair| pair[0].0 < pair[1].0);
    if !rise || expiries.last().is_some_and(|(place, _)| *place >= fields) {
        return Err(Malformed("expiry of a field that a hash does not have"));
    }
    Ok((expiries, packed))
}

/// What a large hash's record says of the expiries of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowExpiries {
    /// The number of fields with an expiry.
    pub(crate) fields: u64,
    /// When background collection is to look at them, in ms since the epoch.
    pub(crate) due_ms: u64,
    /// Expiry and position: no field that has an expiry lies before them.
    pub(crate) first: (u64, u64),
}

impl RowExpiries {
    /// The value for a hash in which no field has an expiry.
    pub(crate) const NONE: Self = Self { fields: 0, due_ms: NEVER, first: (NEVER, element::POSITIONS - 1) };

    /// Whether fields may have expired that are not collected.
    pub(crate) fn may_have_expired(&self, now_ms: u64) -> bool {
        self.first.0 <= now_ms
    }

    /// The bytes in the record.
    pub(crate) fn encode(&self) -> [u8; EXPIRIES_BYTES] {
        let mut bytes = [0; EXPIRIES_BYTES];
        bytes[..8].copy_from_slice(&self.due_ms.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.fields.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first.0.to_le_bytes());
        bytes[24..].copy_from_slice(&self.first.1.to_le_bytes()[..POSITION_BYTES]);
        bytes
    }

    /// What `encode` wrote.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let mut number = || reader.u64_le().ok();
        let (due_ms, fields, at_ms) = (number()?, number()?, number()?);
        let mut position = [0; 8];
        position[..POSITION_BYTES].copy_from_slice(reader.take(POSITION_BYTES).ok()?);
        reader.end().ok()?;
        Some(Self { fields, due_ms, first: (at_ms, u64::from_le_bytes(position)) })
    }

    /// A field got an expiry.
    pub(crate) fn add(&mut self, at_ms: u64, name: &[u8]) {
        self.fields += 1;
        self.due_ms = self.due_ms.min(at_ms);
        self.first = self.first.min((at_ms, element::position_of(name).unwrap_or_default()));
    }

    /// A field lost its expiry.
    pub(crate) fn remove(&mut self) {
        self.fields = self.fields.saturating_sub(1);
        if self.fields == 0 {
            *self = Self::NONE;
        }
    }
}

/// The name of the row that holds the expiry of the field with that element.
pub(crate) fn row_by_field(name: &[u8]) -> Vec<u8> {
    [&[0; POSITION_BYTES], &[BY_FIELD][..], name].concat()
}

/// The element of the field in such a name.
pub(crate) fn parse_by_field(row: &[u8]) -> Option<&[u8]> {
    row.strip_prefix(&[0; POSITION_BYTES])?.strip_prefix(&[BY_FIELD])
}

/// The expiry in such a row.
pub(crate) fn parse_expiry(value: &[u8]) -> Option<u64> {
    value.try_into().ok().map(u64::from_le_bytes)
}

/// The name of the row that says that the field with that element expires then.
pub(crate) fn row_by_time(at_ms: u64, name: &[u8]) -> Vec<u8> {
    [&[0; POSITION_BYTES], &[BY_TIME][..], &at_ms.to_be_bytes(), name].concat()
}

/// The expiry, and the element of the field, in such a name.
pub(crate) fn parse_by_time(row: &[u8]) -> Option<(u64, &[u8])> {
    let (at_ms, name) = row.strip_prefix(&[0; POSITION_BYTES])?.strip_prefix(&[BY_TIME])?.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*at_ms), name))
}

/// What lies before all rows by time of that expiry and from that position on, and after all others before them.
pub(crate) fn before_time((at_ms, position): (u64, u64)) -> Vec<u8> {
    // The empty field's name is no longer than what stands before its position.
    if position == 0 { row_by_time(at_ms, b"") } else { row_by_time(at_ms, &element::before(position)) }
}

/// What lies behind all rows by time.
pub(crate) fn end_of_times() -> Vec<u8> {
    [&[0; POSITION_BYTES], &[BY_TIME + 1][..]].concat()
}

/// Whether a row of a hash is about expiries, and no field's element.
pub(crate) fn is_about_expiry(row: &[u8]) -> bool {
    row.len() >= NAME_HEAD && row.starts_with(&[0; POSITION_BYTES])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::fuzz;

    type Fields<'a> = &'a [&'a [u8]];
    /// The time, and the fields and expiries that are seen.
    type Case<'a> = (u64, Fields<'a>, &'a [(usize, u64)]);

    fn packed(fields: Fields<'_>) -> Vec<u8> {
        let mut bytes = Varint::new(fields.len()).bytes().to_vec();
        fields.iter().for_each(|field| packed_hash::push_entry(&mut bytes, field, b"v"));
        bytes
    }

    #[test]
    fn what_has_expired_is_left_out() {
        let record = record_of(7, Some(9), &[(0, 100), (2, 50), (3, 200)], &[&packed(&[b"a", b"b", b"c", b"d"])]);
        let view = record.view();
        assert_eq!((view.fields_due_ms(), view.expire_at_ms, view.version), (Some(50), Some(9), 7));
        let table: [Case<'_>; 4] = [
            (49, &[b"a", b"b", b"c", b"d"], &[(0, 100), (2, 50), (3, 200)]),
            (50, &[b"a", b"b", b"d"], &[(0, 100), (2, 200)]),
            (199, &[b"b", b"d"], &[(1, 200)]),
            (200, &[b"b"], &[]),
        ];
        for (now_ms, fields, expiries) in table {
            let live = LiveFields::at(view.payload, now_ms).unwrap();
            assert_eq!((live.packed.clone(), &live.expiries[..]), (packed(fields), expiries), "at {now_ms}");
            assert_eq!((live.count().unwrap(), live.expired), (fields.len(), 4 - fields.len()));
            assert_eq!(live.record(1, None).view().fields_due_ms(), expiries.iter().map(|(_, at)| *at).min());
        }
    }

    #[test]
    fn rows_about_expiries_lie_between_the_empty_field_and_all_others() {
        let (empty, name) = (element::name_of(b""), element::name_of(b"field"));
        let mut rows = vec![
            empty.clone(),
            row_by_field(&empty),
            row_by_field(&name),
            before_time((5, 0)),
            row_by_time(5, &empty),
            before_time((5, element::position_of(&name).unwrap())),
            row_by_time(5, &name),
            row_by_time(6, &empty),
            element::before(1).to_vec(),
            name.clone(),
        ];
        let about: Vec<bool> = rows.iter().map(|row| is_about_expiry(row)).collect();
        assert_eq!(about, [false, true, true, true, true, true, true, true, false, false]);
        assert_eq!(parse_by_field(&rows[2]), Some(&name[..]));
        assert_eq!(parse_by_time(&rows[6]), Some((5, &name[..])));
        let before = rows.clone();
        rows.sort();
        rows.dedup();
        assert_eq!(rows, before);
    }

    #[test]
    fn what_a_record_says_comes_back() {
        let mut expiries = RowExpiries::NONE;
        assert_eq!(RowExpiries::decode(&expiries.encode()), Some(expiries));
        let name = element::name_of(b"field");
        expiries.add(70, &name);
        expiries.add(60, &name);
        assert_eq!((expiries.fields, expiries.due_ms, expiries.first.0), (2, 60, 60));
        assert_eq!(RowExpiries::decode(&expiries.encode()), Some(expiries));
        expiries.remove();
        expiries.remove();
        assert_eq!(expiries, RowExpiries::NONE);
        assert_eq!(RowExpiries::decode(&[0; EXPIRIES_BYTES - 1]), None);
    }

    #[test]
    fn fuzz_expiries() {
        fuzz::rounds(1, |prng| {
            let expiries = [(0, prng.below(100)), (1, prng.below(100))];
            let mut payload = record_of(1, None, &expiries, &[&packed(&[b"a", b"b", b"c"])]).view().payload.to_vec();
            fuzz::mutate(&mut payload, 3, prng);
            let now_ms = prng.below(100);
            if let Ok(live) = LiveFields::at(&payload, now_ms) {
                assert!(live.expiries.iter().all(|(_, at_ms)| *at_ms > now_ms));
            }
        });
    }
}
