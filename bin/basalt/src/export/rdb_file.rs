//! Rows on their way into an RDB file.

use super::options::RdbVersion;
use super::outcome::Outcome;
use super::place::Writer;
use crate::moment::{BackupRow, RowValue};
use rdb::{FileWriter, HashField, KeyInParts, Value};
use std::collections::BTreeSet;
use tempfile::SpooledTempFile;
use vocab::Namespace;

/// Bytes of a value in parts that are held in memory; the rest waits in a file without a name.
const SPOOL_BYTES: usize = 32 << 20;

/// An RDB file in the making.
pub(super) struct RdbFile {
    file: FileWriter<Writer>,
    /// Whether fields of hashes may expire.
    has_field_ttls: bool,
    /// The moment that the file shows: no field expires before.
    at_ms: u64,
    /// The database of the keys that were written last.
    selected: Option<u64>,
    /// Of which databases of cluster clients keys were written; 0: those that they name without SELECT.
    cluster_databases: BTreeSet<u16>,
    /// Of which databases of other clients keys were written.
    databases: BTreeSet<u16>,
    /// A key of which parts have come.
    open: Option<KeyInParts<SpooledTempFile>>,
    /// Fields of the key whose expiry the format cannot hold.
    fields_that_stay: usize,
}

impl RdbFile {
    pub(super) fn begin(writer: Writer, version: RdbVersion, at_ms: u64) -> std::io::Result<Self> {
        let has_field_ttls = version == RdbVersion::Redis74;
        let mut file = FileWriter::new(writer, has_field_ttls)?;
        file.note("basalt-ver", env!("CARGO_PKG_VERSION"))?;
        file.note("redis-bits", "64")?;
        file.note("ctime", &(at_ms / 1000).to_string())?;
        Ok(Self {
            file,
            has_field_ttls,
            at_ms,
            selected: None,
            cluster_databases: BTreeSet::new(),
            databases: BTreeSet::new(),
            open: None,
            fields_that_stay: 0,
        })
    }

    pub(super) fn position(&self) -> u64 {
        self.file.position()
    }

    pub(super) fn library(&mut self, source: &[u8]) -> std::io::Result<()> {
        self.file.library(source)
    }

    /// A row. `more`: the next one is of the same key.
    pub(super) fn row(
        &mut self,
        of: Option<Namespace>,
        key: &[u8],
        row: BackupRow,
        more: bool,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        self.check_database(of)?;
        let shown = key.escape_ascii();
        self.write(of, key, row, more).map_err(|e| format!("key {shown}: {e}"))?;
        let fields = if more { 0 } else { std::mem::take(&mut self.fields_that_stay) };
        if fields > 0 {
            outcome.problems.note(format!(
                "the hash {shown} has {fields} fields that expire: they are written without their expiry (--rdb-version 12 has it, \
                 and needs Redis 7.4)"
            ));
        }
        Ok(())
    }

    /// To a Redis, keys of cluster clients and keys of the database of the same number would be the same.
    fn check_database(&mut self, of: Option<Namespace>) -> Result<(), String> {
        let number = of.map_or(0, Namespace::number);
        let (own, others) = match of {
            Some(Namespace::Database(_)) => (&mut self.databases, &self.cluster_databases),
            Some(Namespace::Cluster(_)) | None => (&mut self.cluster_databases, &self.databases),
        };
        own.insert(number);
        if others.contains(&number) {
            return Err(format!(
                "the store has keys of cluster clients and of database {number}, which are one to a Redis: \
                 say --{} or --database {number}, or write NDJSON",
                if number == 0 { "cluster-keys".to_owned() } else { format!("cluster-database {number}") }
            ));
        }
        Ok(())
    }

    fn select(&mut self, of: Option<Namespace>) -> std::io::Result<()> {
        let number = of.map_or(0, |namespace| u64::from(namespace.number()));
        if self.selected != Some(number) {
            self.selected = Some(number);
            self.file.database(number)?;
        }
        Ok(())
    }

    /// Writes a key whose value is in one row; the parts of others wait for the last.
    fn write(&mut self, of: Option<Namespace>, key: &[u8], row: BackupRow, more: bool) -> std::io::Result<()> {
        let expire_at_ms = (row.expire_at_ms > 0).then_some(row.expire_at_ms);
        let (open, value) = (self.open.take(), self.value_of(row.value));
        if let (None, false, Ok(value)) = (&open, more, &value) {
            self.select(of)?;
            return self.file.key(key, value, expire_at_ms);
        }
        let spool = || SpooledTempFile::new(SPOOL_BYTES);
        let mut open = open.unwrap_or_else(|| KeyInParts::new(key.to_vec(), expire_at_ms, self.at_ms, spool()));
        match value {
            Ok(value) => open.push(&value)?,
            Err(items) => open.push_items(items)?,
        }
        if more {
            self.open = Some(open);
            return Ok(());
        }
        self.select(of)?;
        open.finish(&mut self.file)
    }

    /// What a row holds; of a stream, its items.
    fn value_of(&mut self, value: RowValue) -> Result<Value, Vec<rdb::StreamItem>> {
        Ok(match value {
            RowValue::String(string) => Value::String(string),
            RowValue::List { elements, .. } => Value::List(elements),
            RowValue::Set(members) => Value::Set(members),
            RowValue::SortedSet(members) => Value::SortedSet(members),
            RowValue::Hash(fields) => {
                let field = |(name, value)| HashField { name, value, expire_at_ms: None };
                Value::Hash(fields.into_iter().map(field).collect())
            }
            RowValue::Expiring(fields) => {
                let keeps = self.has_field_ttls;
                self.fields_that_stay += if keeps { 0 } else { fields.len() };
                let fields = fields.into_iter().map(|field| HashField {
                    name: field.field,
                    value: field.value,
                    expire_at_ms: keeps.then_some(field.at_ms),
                });
                Value::Hash(fields.collect())
            }
            RowValue::Stream { items, .. } => return Err(items),
        })
    }

    /// Ends the file, and says how long it is.
    pub(super) fn finish(self) -> std::io::Result<u64> {
        const CHECKSUM_BYTES: u64 = 8;
        // The mark of the end is one byte.
        let bytes = self.file.position() + 1 + CHECKSUM_BYTES;
        self.file.finish()?;
        Ok(bytes)
    }
}
