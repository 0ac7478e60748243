//! What a collection holds: fields, members or elements, in its small form and in its large one.

use super::show::{Bytes, Shown};
use super::source::tell;
use node::inspect::{element_span, field_of, hash_fields, is_about_expiry, list_elements, sorted_set_excerpt};
use node::{Layout, Record, Type};
use serde::Serialize;
use storage::Snapshot;

/// A field of a hash and its value; a member of a set and nothing, or of a sorted set and its score; of a list, an index and
/// the element.
#[derive(Serialize)]
pub struct Field {
    pub field: Bytes,
    pub value: Bytes,
}

impl Field {
    fn of(field: &[u8], value: &[u8], shown: Shown) -> Self {
        Self { field: Bytes::of(field, shown), value: Bytes::of(value, shown) }
    }
}

/// The first fields of a collection: those that are shown.
pub struct Fields {
    /// How many there are.
    pub count: u64,
    pub first: Vec<Field>,
}

impl Fields {
    /// Those of the record of `key`; of a large collection, `tree` has the rows. `None` for a string or a stream.
    pub fn of(key: &[u8], record: &Record, tree: &dyn Snapshot, shown: Shown) -> Result<Option<Self>, String> {
        let found = match record.view().kind.ty {
            Type::String | Type::Stream => return Ok(None),
            Type::Hash | Type::Set => Self::of_hash(key, record, tree, shown),
            Type::List => Self::of_list(key, record, tree, shown),
            Type::SortedSet => Self::of_sorted_set(key, record, tree, shown),
        };
        found.map(Some)
    }

    /// Those of a hash, or the members of a set, which are stored alike.
    fn of_hash(key: &[u8], record: &Record, tree: &dyn Snapshot, shown: Shown) -> Result<Self, String> {
        let view = record.view();
        let Some(rows) = view.fields(key) else {
            let fields = hash_fields(record).map_err(|why| malformed(key, &why))?;
            let first = fields.iter().take(shown.most()).map(|(name, value)| Field::of(name, value, shown));
            return Ok(Self { count: fields.len() as u64, first: first.collect() });
        };
        let expires = view.kind.layout == Layout::ExpiringRows;
        let mut first = Vec::new();
        for row in tree.iter(element_span(&rows), false) {
            if first.len() >= shown.most() {
                break;
            }
            let (tree_key, value) = row.map_err(tell)?;
            if expires && is_about_expiry(&rows, &tree_key) {
                continue;
            }
            let name = field_of(&rows, &tree_key).ok_or_else(|| malformed(key, "an element without a field"))?;
            first.push(Field::of(name, &value, shown));
        }
        Ok(Self { count: rows.count, first })
    }

    fn of_list(key: &[u8], record: &Record, tree: &dyn Snapshot, shown: Shown) -> Result<Self, String> {
        let (elements, count) = list_elements(key, record, tree, shown.most())?;
        let indexed = elements.iter().enumerate();
        let first = indexed.map(|(index, element)| Field::of(index.to_string().as_bytes(), element, shown));
        Ok(Self { count, first: first.collect() })
    }

    fn of_sorted_set(key: &[u8], record: &Record, tree: &dyn Snapshot, shown: Shown) -> Result<Self, String> {
        let excerpt = sorted_set_excerpt(key, record, tree, shown.most())?;
        let scored = excerpt.members.iter();
        let first = scored.map(|scored| {
            let score = resp::format_double(scored.score);
            Field::of(&scored.member, score.as_bytes(), shown)
        });
        Ok(Self { count: excerpt.count, first: first.collect() })
    }
}

/// The error about a record whose payload is not what was written.
pub fn malformed(key: &[u8], why: &str) -> String {
    format!("the record of {} is malformed: {why}", key.escape_ascii())
}
