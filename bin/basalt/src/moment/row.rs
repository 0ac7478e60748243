//! Rows: keys with what they hold; of a large collection, some of it.

use client::Value;

/// The words of an item of a stream; docs/FORMATS.md has them.
pub(crate) type Item = Vec<Vec<u8>>;

/// A key with what it holds; of a large collection, some of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BackupRow {
    pub(crate) key: Vec<u8>,
    /// In ms since the epoch; 0: never.
    pub(crate) expire_at_ms: u64,
    pub(crate) value: RowValue,
}

impl BackupRow {
    /// A row of a page, as a node answers it.
    pub(crate) fn of_answer(row: Value) -> Option<Self> {
        let Value::Array(fields) = row else { return None };
        let mut fields = fields.into_iter();
        let (Value::Bulk(key), Value::Int(expire_at_ms)) = (fields.next()?, fields.next()?) else { return None };
        let value = match (fields.next()?, fields.next()) {
            (Value::Bulk(word), Some(Value::Array(members))) if word == b"SET" => {
                let member = |member| if let Value::Bulk(member) = member { Some(member) } else { None };
                RowValue::Set(members.into_iter().map(member).collect::<Option<_>>()?)
            }
            (Value::Bulk(word), Some(Value::Int(start))) if word == b"LIST" => {
                let Some(Value::Array(elements)) = fields.next() else { return None };
                let element = |element| if let Value::Bulk(element) = element { Some(element) } else { None };
                let elements = elements.into_iter().map(element).collect::<Option<_>>()?;
                RowValue::List { start: u64::try_from(start).ok()?, elements }
            }
            (Value::Bulk(word), Some(Value::Int(is_first))) if word == b"STREAM" => {
                let Some(Value::Array(items)) = fields.next() else { return None };
                let word = |word| if let Value::Bulk(word) = word { Some(word) } else { None };
                let item =
                    |item| if let Value::Array(words) = item { words.into_iter().map(word).collect() } else { None };
                let items = items.into_iter().map(item).collect::<Option<_>>()?;
                RowValue::Stream { is_first: is_first == 1, items }
            }
            (Value::Bulk(bytes), None) => RowValue::String(bytes),
            (Value::Bulk(word), Some(Value::Array(parts))) if word == b"ZSET" => {
                let scored = |(member, score): (Vec<u8>, Vec<u8>)| Some((member, score_of(&score)?));
                RowValue::SortedSet(pairs_of(parts)?.into_iter().map(scored).collect::<Option<_>>()?)
            }
            (Value::Bulk(word), Some(Value::Array(parts))) if word == b"EXPIRING" => {
                RowValue::Expiring(expiring_of(parts)?)
            }
            (Value::Array(parts), None) => RowValue::Hash(pairs_of(parts)?),
            _ => return None,
        };
        Some(Self { key, expire_at_ms: expire_at_ms as u64, value })
    }
}

/// What a key holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RowValue {
    String(Vec<u8>),
    /// Fields and values.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// Fields of a hash that expire.
    Expiring(Vec<ExpiringField>),
    /// Members.
    Set(Vec<Vec<u8>>),
    /// Elements of a list, in order.
    List {
        /// The index of the first.
        start: u64,
        elements: Vec<Vec<u8>>,
    },
    /// Members and scores.
    SortedSet(Vec<(Vec<u8>, f64)>),
    /// Items of a stream, in order.
    Stream {
        /// Whether they are its first.
        is_first: bool,
        items: Vec<Item>,
    },
}

/// A field of a hash that expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpiringField {
    pub(crate) field: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// In ms since the epoch.
    pub(crate) at_ms: u64,
}

/// A score as pages and files of backups have it: a double, little-endian.
pub(crate) fn score_of(bytes: &[u8]) -> Option<f64> {
    bytes.try_into().ok().map(f64::from_le_bytes)
}

/// Fields, values and expiries in turn.
fn expiring_of(parts: Vec<Value>) -> Option<Vec<ExpiringField>> {
    let mut fields = Vec::with_capacity(parts.len() / 3);
    let mut parts = parts.into_iter();
    while let Some(field) = parts.next() {
        let (Value::Bulk(field), Some(Value::Bulk(value))) = (field, parts.next()) else { return None };
        let Some(Value::Int(at_ms)) = parts.next() else { return None };
        fields.push(ExpiringField { field, value, at_ms: u64::try_from(at_ms).ok()? });
    }
    Some(fields)
}

/// Strings in turn, as pairs.
fn pairs_of(parts: Vec<Value>) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut pairs = Vec::with_capacity(parts.len() / 2);
    let mut parts = parts.into_iter();
    while let Some(first) = parts.next() {
        let (Value::Bulk(first), Some(Value::Bulk(second))) = (first, parts.next()) else { return None };
        pairs.push((first, second));
    }
    Some(pairs)
}
