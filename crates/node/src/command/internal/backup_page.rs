//! A page of a backup: keys with what they hold, in key order, as of the moment of a snapshot.
//!
//! The reply is `[cursor, rows]`: the cursor to go on from, null after the last page; and for each row
//! `[key, expiry in ms since the epoch or 0, value]`, the value a string, or fields and values; of a set, `SET` and its
//! members stand for the value; of a list, `LIST`, the index of the first of these elements, and the elements; of a sorted
//! set, `ZSET` and its members with their scores, doubles in little-endian; of a stream, `STREAM`, 1 if they are its first,
//! and items, each a list of words (`command::stream`); of fields of a hash that expire, `EXPIRING` and for each of them field,
//! value, and expiry in ms since the epoch: its other fields are rows of their own. A large collection is as many rows as it takes, one after the other.

use crate::command::call::{Error, Outcome};
use crate::command::hash::{Stored, field_of};
use crate::command::list::{List, Side};
use crate::command::stream::{Export, Item};
use crate::space::read::SnapshotSpace;
use crate::{Layout, ReadSpace, Record, ShardHandle, Type};
use resp::Reply;
use storage::{Slice, Snapshot};
use vocab::limits::STREAM_STEP_BYTES_SOFT;

const BAD_CURSOR: &str = "ERR not a cursor of a backup";
/// Elements of a large hash that are read at a time.
const ELEMENTS: usize = 256;
/// Records that are read at a time.
const RECORDS: usize = 256;

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cursor {
    /// With the first key after this one.
    After(Vec<u8>),
    /// In a large hash or set, after this element; in a list, before the one with this index, big-endian.
    Within(Vec<u8>, Vec<u8>),
}

impl Cursor {
    fn decode(bytes: &[u8]) -> Result<Option<Self>, Error> {
        match bytes {
            [] => Ok(None),
            [0, key @ ..] => Ok(Some(Self::After(key.to_vec()))),
            [1, a, b, rest @ ..] => {
                let (key, element) =
                    rest.split_at_checked(usize::from(u16::from_be_bytes([*a, *b]))).ok_or(BAD_CURSOR)?;
                Ok(Some(Self::Within(key.to_vec(), element.to_vec())))
            }
            _ => Err(BAD_CURSOR.into()),
        }
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Self::After(key) => [&[0], key.as_slice()].concat(),
            Self::Within(key, element) => {
                [&[1], &(key.len() as u16).to_be_bytes()[..], key.as_slice(), element.as_slice()].concat()
            }
        }
    }
}

/// The rows of one page.
struct Page {
    rows: usize,
    bytes: usize,
    bytes_soft: usize,
    body: Reply,
}

impl Page {
    fn is_full(&self) -> bool {
        self.bytes >= self.bytes_soft
    }

    fn row(&mut self, key: &[u8], expire_at_ms: Option<u64>, parts: usize) {
        self.rows += 1;
        self.bytes += key.len();
        self.body.array(parts);
        self.body.bulk(key);
        self.body.int(expire_at_ms.unwrap_or_default() as i64);
    }

    fn stream(&mut self, key: &[u8], expire_at_ms: Option<u64>, is_first: bool, items: &[Item]) {
        self.row(key, expire_at_ms, 5);
        self.body.bulk(b"STREAM");
        self.body.int(i64::from(is_first));
        self.body.array(items.len());
        for item in items {
            self.body.array(item.len());
            for word in item {
                self.bytes += word.len();
                self.body.bulk(word);
            }
        }
    }

    fn expiring(&mut self, key: &[u8], expire_at_ms: Option<u64>, fields: &[(Vec<u8>, Vec<u8>, u64)]) {
        self.row(key, expire_at_ms, 4);
        self.body.bulk(b"EXPIRING");
        self.body.array(3 * fields.len());
        for (field, value, at_ms) in fields {
            self.bytes += field.len() + value.len();
            self.body.bulk(field);
            self.body.bulk(value);
            // RESTORE takes later ones than other commands do.
            self.body.int(i64::try_from(*at_ms).unwrap_or(i64::MAX));
        }
    }

    fn collection<'a>(
        &mut self,
        ty: Type,
        key: &[u8],
        expire_at_ms: Option<u64>,
        fields: impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])>,
    ) {
        let is_set = ty == Type::Set;
        let word: Option<&[u8]> = match ty {
            Type::Set => Some(b"SET"),
            Type::SortedSet => Some(b"ZSET"),
            Type::Hash | Type::String | Type::List | Type::Stream => None,
        };
        self.row(key, expire_at_ms, if word.is_some() { 4 } else { 3 });
        if let Some(word) = word {
            self.body.bulk(word);
        }
        self.body.array(if is_set { fields.len() } else { 2 * fields.len() });
        for (field, value) in fields {
            self.bytes += field.len() + value.len();
            self.body.bulk(field);
            if !is_set {
                self.body.bulk(value);
            }
        }
    }
}

/// Fields of a hash: those without an expiry, and those with one.
#[derive(Default)]
struct HashFields {
    plain: Vec<(Vec<u8>, Vec<u8>)>,
    expiring: Vec<(Vec<u8>, Vec<u8>, u64)>,
}

impl HashFields {
    fn push(&mut self, field: &[u8], value: &[u8], at_ms: Option<u64>) {
        match at_ms {
            Some(at_ms) => self.expiring.push((field.to_vec(), value.to_vec(), at_ms)),
            None => self.plain.push((field.to_vec(), value.to_vec())),
        }
    }

    /// Writes a row, or two.
    fn write(&self, ty: Type, key: &[u8], expire_at_ms: Option<u64>, page: &mut Page) {
        if !self.plain.is_empty() {
            let plain = self.plain.iter().map(|(field, value)| (field.as_slice(), value.as_slice()));
            page.collection(ty, key, expire_at_ms, plain);
        }
        if !self.expiring.is_empty() {
            page.expiring(key, expire_at_ms, &self.expiring);
        }
    }
}

/// Writes the page from `cursor` (empty: from the beginning) on, of about `bytes_soft` bytes. What has expired by `at_ms`
/// is left out.
pub fn backup_page(
    view: &ShardHandle,
    snapshot: &mut (dyn Snapshot + 'static),
    at_ms: u64,
    cursor: &[u8],
    bytes_soft: usize,
    reply: &mut Reply,
) -> Outcome {
    let mut space = SnapshotSpace::of(view, snapshot, at_ms, 0);
    let mut page = Page { rows: 0, bytes: 0, bytes_soft, body: Reply::new(reply.proto) };
    let next = fill(&mut space, cursor, &mut page)?;
    reply.array(2);
    reply.bulk_or_null(next.map(|next| next.encode()).as_deref());
    reply.array(page.rows);
    reply.raw(&page.body.buf);
    Ok(())
}

/// Answers where the next page begins.
fn fill(space: &mut SnapshotSpace<'_>, cursor: &[u8], page: &mut Page) -> Result<Option<Cursor>, Error> {
    let mut from = match Cursor::decode(cursor)? {
        None => Vec::new(),
        Some(Cursor::After(key)) => following(key),
        Some(Cursor::Within(key, element)) => {
            if let Some(record) = space.get(&key)?
                && let Some(within) = rest_of(space, &key, record, &element, page)?
            {
                return Ok(Some(within));
            }
            following(key)
        }
    };
    loop {
        if page.is_full() {
            // `from` is the last key with a zero byte behind it.
            from.pop();
            return Ok(Some(Cursor::After(from)));
        }
        let records = chunk(space, &from, page.bytes_soft)?;
        let Some((last, _)) = records.last() else { return Ok(None) };
        let last = last.to_vec();
        for (key, record) in records {
            if let Some(within) = row(space, &key, record, page)? {
                return Ok(Some(within));
            }
            if page.is_full() {
                return Ok(Some(Cursor::After(key.to_vec())));
            }
        }
        from = following(last);
    }
}

/// The next live records, from a key on: no more than a page has, but for the last.
fn chunk(space: &SnapshotSpace<'_>, from: &[u8], bytes_soft: usize) -> Result<Vec<(Slice, Record)>, Error> {
    let (mut found, mut bytes) = (Vec::with_capacity(RECORDS), 0);
    let mut records = space.live_records(from, b"", false);
    while found.len() < RECORDS
        && bytes < bytes_soft
        && let Some(key) = records.advance()?
    {
        if let Some(record) = records.record()? {
            bytes += record.bytes().len();
            found.push((key, record));
        }
    }
    Ok(found)
}

/// The smallest key after `key`.
fn following(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// A key's row, or rows; where to go on if not all of them fit.
fn row(space: &mut SnapshotSpace<'_>, key: &[u8], record: Record, page: &mut Page) -> Result<Option<Cursor>, Error> {
    let view = record.view();
    let expire_at_ms = view.expire_at_ms;
    match (view.kind.ty, view.kind.layout) {
        (Type::String, _) => {
            page.row(key, expire_at_ms, 3);
            page.bytes += view.payload.len();
            page.body.bulk(view.payload);
        }
        (Type::Hash | Type::Set | Type::SortedSet, Layout::Packed | Layout::ExpiringPacked) => {
            let ty = view.kind.ty;
            let now_ms = space.now_ms();
            let mut fields = HashFields::default();
            Stored::of(key, record, now_ms)?.each_with_expiry(space, |_, field, value, at_ms| {
                fields.push(field, value, at_ms);
                Ok(())
            })?;
            fields.write(ty, key, expire_at_ms, page);
        }
        (Type::Hash | Type::Set | Type::SortedSet, Layout::Rows | Layout::KeyedRows | Layout::ExpiringRows) => {
            return large(space, key, &record, None, page);
        }
        (Type::List, _) => return list(space, key, record, 0, page),
        (Type::Stream, _) => return stream(space, key, record, None, page),
    }
    Ok(None)
}

/// What is left of a collection from where the last page ended.
fn rest_of(
    space: &mut SnapshotSpace<'_>,
    key: &[u8],
    record: Record,
    element: &[u8],
    page: &mut Page,
) -> Result<Option<Cursor>, Error> {
    match record.view().kind.ty {
        Type::List => {}
        Type::Stream => return stream(space, key, record, Some(element), page),
        Type::String | Type::Hash | Type::Set | Type::SortedSet => {
            return large(space, key, &record, Some(element), page);
        }
    }
    let index = element.try_into().map(u64::from_be_bytes).map_err(|_| BAD_CURSOR)?;
    list(space, key, record, index, page)
}

/// The elements of a list from an index on.
fn list(
    space: &mut SnapshotSpace<'_>,
    key: &[u8],
    record: Record,
    first: u64,
    page: &mut Page,
) -> Result<Option<Cursor>, Error> {
    let expire_at_ms = record.view().expire_at_ms;
    let list = List::of(key, record)?;
    let count = list.count()?;
    let mut next = first;
    let mut walk = list.walk(first, count.saturating_sub(first), Side::Left);
    while !walk.is_over() {
        if page.is_full() {
            return Ok(Some(Cursor::Within(key.to_vec(), next.to_be_bytes().to_vec())));
        }
        let mut elements: Vec<Vec<u8>> = Vec::new();
        walk.step(&list, space, |_, element| {
            elements.push(element.to_vec());
            Ok(true)
        })?;
        page.row(key, expire_at_ms, 5);
        page.body.bulk(b"LIST");
        page.body.int(next as i64);
        page.body.array(elements.len());
        for element in &elements {
            page.bytes += element.len();
            page.body.bulk(element);
        }
        next += elements.len() as u64;
    }
    Ok(None)
}

/// The items of a stream, behind a row of it.
fn stream(
    space: &mut SnapshotSpace<'_>,
    key: &[u8],
    record: Record,
    after: Option<&[u8]>,
    page: &mut Page,
) -> Result<Option<Cursor>, Error> {
    let expire_at_ms = record.view().expire_at_ms;
    let mut export = Export::new(key, record, after);
    let mut is_first = after.is_none();
    while let Some(items) = export.next(space)? {
        page.stream(key, expire_at_ms, is_first, &items);
        is_first = false;
        if page.is_full()
            && let Some(row) = export.row()
        {
            return Ok(Some(Cursor::Within(key.to_vec(), row.to_vec())));
        }
    }
    Ok(None)
}

fn large(
    space: &mut SnapshotSpace<'_>,
    key: &[u8],
    record: &Record,
    after: Option<&[u8]>,
    page: &mut Page,
) -> Result<Option<Cursor>, Error> {
    let view = record.view();
    let Some(rows) = view.fields(key) else { return Ok(None) };
    let fields = Stored::of(key, record.clone(), space.now_ms())?.fields(&rows);
    let mut after = after.map(Slice::from);
    loop {
        if page.is_full() {
            let element = after.map(|element| element.to_vec()).unwrap_or_default();
            return Ok(Some(Cursor::Within(key.to_vec(), element)));
        }
        let elements = fields.within(space, after.as_deref(), ELEMENTS, STREAM_STEP_BYTES_SOFT)?;
        let Some((last, _)) = elements.last() else { return Ok(None) };
        after = Some(last.clone());
        let mut row = HashFields::default();
        for ((element, value), at_ms) in elements.iter().zip(fields.expiries_of(space, &elements)?) {
            let field = field_of(element).ok_or_else(|| {
                Error::Reply(format!("ERR the hash {} has an element without a position", key.escape_ascii()).into())
            })?;
            if fields.is_seen(at_ms) {
                row.push(field, value, at_ms);
            }
        }
        row.write(view.kind.ty, key, view.expire_at_ms, page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_what_it_was() {
        for cursor in [
            Cursor::After(b"key".to_vec()),
            Cursor::After(Vec::new()),
            Cursor::Within(b"key".to_vec(), b"\0element".to_vec()),
            Cursor::Within(Vec::new(), Vec::new()),
        ] {
            assert_eq!(Cursor::decode(&cursor.encode()).ok(), Some(Some(cursor)));
        }
        for bad in [&b"\x02"[..], b"\x01", b"\x01\0", b"\x01\0\x05key"] {
            assert!(Cursor::decode(bad).is_err(), "{bad:?}");
        }
    }
}
