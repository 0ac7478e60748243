//! A key's record, taken apart.

use super::show::{Bytes, Shown, count, time};
use super::source::tell;
use node::inspect::{element_span, field_of, hash_fields, is_about_expiry, list_elements, score_of, whole_string};
use node::{Kind, Layout, Record, Type};
use serde::Serialize;
use std::io::{self, Write};
use storage::{Slice, Snapshot};

/// Fields that are listed where not all are asked for.
const FIELDS_SHOWN: usize = 20;

/// What is stored under a key.
#[derive(Serialize)]
pub struct StoredRecord {
    kind: &'static str,
    version: u64,
    expires_ms: Option<u64>,
    payload_bytes: usize,
    /// A string's bytes.
    value: Option<Bytes>,
    /// How many fields, members or elements a collection has.
    field_count: Option<u64>,
    /// With what the tree keys of a large collection's rows begin.
    rows: Option<String>,
    /// The first fields of a hash; of a list, indexes and elements.
    fields: Vec<Field>,
}

#[derive(Serialize)]
struct Field {
    field: Bytes,
    value: Bytes,
}

impl StoredRecord {
    /// Takes the stored bytes of `key` apart; of a large hash, `tree` has the fields.
    pub fn of(key: &[u8], bytes: Slice, tree: &dyn Snapshot, shown: Shown) -> Result<Self, String> {
        let wrong = |why: &str| format!("the record of {} is malformed: {why}", key.escape_ascii());
        let kept = Record::decode(bytes).map_err(wrong)?;
        let in_pieces = whole_string(key, &kept, tree)?;
        let is_large = kept.view().kind.is_large();
        let rows_of_string = in_pieces.as_ref().and_then(|_| kept.view().rows(key));
        let record = in_pieces.unwrap_or(kept);
        let view = record.view();
        let most = if shown == Shown::Whole { usize::MAX } else { FIELDS_SHOWN };
        let mut stored = Self {
            kind: match (view.kind.ty, is_large) {
                (Type::String, false) => "string",
                (Type::String, true) => "large string",
                (Type::Hash, false) => "hash",
                (Type::Hash, true) => "large hash",
                (Type::Set, false) => "set",
                (Type::Set, true) => "large set",
                (Type::List, false) => "list",
                (Type::List, true) => "large list",
                (Type::SortedSet, false) => "sorted set",
                (Type::SortedSet, true) => "large sorted set",
                (Type::Stream, false) => "stream",
                (Type::Stream, true) => "large stream",
            },
            version: view.version,
            expires_ms: view.expire_at_ms,
            payload_bytes: view.payload.len(),
            value: (view.kind == Kind::STRING).then(|| Bytes::of(view.payload, shown)),
            field_count: None,
            rows: rows_of_string.map(|rows| rows.prefix.escape_ascii().to_string()),
            fields: Vec::new(),
        };
        let value = |value: &[u8]| match score_of(value) {
            Some(score) if view.kind.ty == Type::SortedSet => Bytes::of(score.to_string().as_bytes(), shown),
            _ => Bytes::of(value, shown),
        };
        let field = |name: &[u8], bytes: &[u8]| Field { field: Bytes::of(name, shown), value: value(bytes) };
        if matches!(view.kind.ty, Type::Hash | Type::Set | Type::SortedSet) && !view.kind.is_large() {
            let fields = hash_fields(&record).map_err(|why| wrong(&why))?;
            stored.field_count = Some(fields.len() as u64);
            stored.fields = fields.iter().take(most).map(|(name, value)| field(name, value)).collect();
        }
        if view.kind.ty == Type::List {
            let (elements, length) = list_elements(key, &record, tree, most)?;
            stored.field_count = Some(length);
            stored.rows = view.rows(key).map(|rows| rows.prefix.escape_ascii().to_string());
            let indexed = elements.iter().enumerate();
            stored.fields = indexed.map(|(index, element)| field(index.to_string().as_bytes(), element)).collect();
        } else if let Some(rows) = view.fields(key) {
            stored.field_count = Some(rows.count);
            stored.rows = Some(rows.prefix.escape_ascii().to_string());
            let expires = view.kind.layout == Layout::ExpiringRows;
            // The rows of other types have no fields.
            let most = if matches!(view.kind.ty, Type::Hash | Type::Set) { most } else { 0 };
            for row in tree.iter(element_span(&rows), false) {
                if stored.fields.len() >= most {
                    break;
                }
                let (tree_key, value) = row.map_err(tell)?;
                if expires && is_about_expiry(&rows, &tree_key) {
                    continue;
                }
                let Some(name) = field_of(&rows, &tree_key) else {
                    return Err(wrong("an element without a field"));
                };
                stored.fields.push(field(name, &value));
            }
        }
        Ok(stored)
    }

    /// One line: kind, version, size, expiry.
    pub fn summary(&self) -> String {
        let mut line = format!("{}, version {}, ", self.kind, self.version);
        match self.field_count {
            Some(fields) => line.push_str(&format!("{}, ", count(fields, "field", "fields"))),
            None => line.push_str(&format!("{}, ", count(self.payload_bytes as u64, "byte", "bytes"))),
        }
        match self.expires_ms {
            Some(at) if at <= vocab::wall_clock_ms() => line.push_str(&format!("expired {}", time(at))),
            Some(at) => line.push_str(&format!("expires {}", time(at))),
            None => line.push_str("no expiry"),
        }
        line
    }

    /// The line and what is in it.
    pub fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "  {}", self.summary())?;
        if let Some(rows) = &self.rows {
            let by = if self.value.is_some() { "pieces by number" } else { "fields by position" };
            writeln!(out, "  rows {rows}, {by}")?;
        }
        if let Some(value) = &self.value {
            writeln!(out, "  {value}")?;
        }
        for Field { field, value } in &self.fields {
            writeln!(out, "    {field}  {value}")?;
        }
        let left = self.field_count.unwrap_or(0).saturating_sub(self.fields.len() as u64);
        if left > 0 {
            writeln!(out, "    … {left} more: --full lists all")?;
        }
        Ok(())
    }

    /// A string's bytes, or nothing.
    pub fn value(&self) -> String {
        self.value.as_ref().map(Bytes::to_string).unwrap_or_default()
    }
}
