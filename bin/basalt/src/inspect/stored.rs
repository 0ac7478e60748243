//! A key's record, taken apart.

use super::fields::{Field, Fields, malformed};
use super::show::{Bytes, Shown, count, left_out, time};
use super::stored_stream::StoredStream;
use node::inspect::whole_string;
use node::{Kind, Record, Type};
use serde::Serialize;
use std::io::{self, Write};
use storage::{Slice, Snapshot};

/// What is stored under a key.
#[derive(Serialize)]
pub struct StoredRecord {
    kind: &'static str,
    version: u64,
    expires_ms: Option<u64>,
    payload_bytes: usize,
    /// A string's bytes.
    value: Option<Bytes>,
    /// How many fields, members, elements or entries a collection has.
    field_count: Option<u64>,
    /// With what the tree keys of a large value's rows begin.
    rows: Option<String>,
    /// The first fields or members; of a list, indexes and elements.
    fields: Vec<Field>,
    /// The first entries and groups of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<StoredStream>,
    #[serde(skip)]
    names: Names,
}

/// How a type, what it consists of and its rows are called.
struct Names {
    small: &'static str,
    large: &'static str,
    one: &'static str,
    many: &'static str,
    rows: &'static str,
}

impl Names {
    fn of(ty: Type) -> Self {
        let [small, large, one, many, rows] = match ty {
            Type::String => ["string", "large string", "byte", "bytes", "pieces by number"],
            Type::Hash => ["hash", "large hash", "field", "fields", "fields by position"],
            Type::Set => ["set", "large set", "member", "members", "members by position"],
            Type::List => ["list", "large list", "element", "elements", "leaves and a tree of their counts"],
            Type::SortedSet => {
                ["sorted set", "large sorted set", "member", "members", "members by position, and in their order"]
            }
            Type::Stream => ["stream", "large stream", "entry", "entries", "entries by number, and groups"],
        };
        Self { small, large, one, many, rows }
    }
}

impl StoredRecord {
    /// Takes the stored bytes of `key` apart; of a large value, `tree` has the rows.
    pub fn of(key: &[u8], bytes: Slice, tree: &dyn Snapshot, shown: Shown) -> Result<Self, String> {
        let kept = Record::decode(bytes).map_err(|why| malformed(key, why))?;
        let rows = kept.view().rows(key).map(|rows| rows.prefix.escape_ascii().to_string());
        let is_large = kept.view().kind.is_large();
        let record = whole_string(key, &kept, tree)?.unwrap_or(kept);
        let view = record.view();
        let names = Names::of(view.kind.ty);
        let (mut field_count, mut fields, mut stream) = (None, Vec::new(), None);
        if view.kind.ty == Type::Stream {
            let found = StoredStream::of(key, &record, tree, shown)?;
            field_count = Some(found.length());
            stream = Some(found);
        } else if let Some(found) = Fields::of(key, &record, tree, shown)? {
            field_count = Some(found.count);
            fields = found.first;
        }
        Ok(Self {
            kind: if is_large { names.large } else { names.small },
            version: view.version,
            expires_ms: view.expire_at_ms,
            payload_bytes: view.payload.len(),
            value: (view.kind == Kind::STRING).then(|| Bytes::of(view.payload, shown)),
            field_count,
            rows,
            fields,
            stream,
            names,
        })
    }

    /// One line: kind, version, size, expiry.
    pub fn summary(&self) -> String {
        let size = self.field_count.unwrap_or(self.payload_bytes as u64);
        let size = count(size, self.names.one, self.names.many);
        let mut line = format!("{}, version {}, {size}, ", self.kind, self.version);
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
            writeln!(out, "  rows {rows}, {}", self.names.rows)?;
        }
        if let Some(value) = &self.value {
            writeln!(out, "  {value}")?;
        }
        if let Some(stream) = &self.stream {
            return stream.text(out);
        }
        for Field { field, value } in &self.fields {
            writeln!(out, "    {field}  {value}")?;
        }
        left_out(out, "    ", self.fields.len(), self.field_count.unwrap_or(0))
    }

    /// A string's bytes, or nothing.
    pub fn value(&self) -> String {
        self.value.as_ref().map(Bytes::to_string).unwrap_or_default()
    }
}
