//! Rows on their way into an RDB file.

use super::options::RdbVersion;
use super::outcome::Outcome;
use super::place::Writer;
use crate::moment::{BackupRow, RowValue};
use rdb::{FileWriter, HashField, KeyInParts, Value};
use tempfile::SpooledTempFile;
use vocab::Database;

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
    /// A key of cluster clients was written.
    has_cluster_keys: bool,
    /// A key of database 0 was written.
    has_database_0: bool,
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
            has_cluster_keys: false,
            has_database_0: false,
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
        database: Option<Database>,
        key: &[u8],
        row: BackupRow,
        more: bool,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        self.check_database(database)?;
        let shown = key.escape_ascii();
        self.write(database, key, row, more).map_err(|e| format!("key {shown}: {e}"))?;
        let fields = if more { 0 } else { std::mem::take(&mut self.fields_that_stay) };
        if fields > 0 {
            outcome.problems.note(format!(
                "the hash {shown} has {fields} fields that expire: they are written without their expiry (--rdb-version 12 has it, \
                 and needs Redis 7.4)"
            ));
        }
        Ok(())
    }

    /// To a Redis, keys of cluster clients and keys of database 0 would be the same.
    fn check_database(&mut self, database: Option<Database>) -> Result<(), String> {
        match database.map(Database::number) {
            None => self.has_cluster_keys = true,
            Some(0) => self.has_database_0 = true,
            Some(_) => {}
        }
        if self.has_cluster_keys && self.has_database_0 {
            return Err("the store has keys of cluster clients and of database 0, which are one to a Redis: \
                        say --cluster-keys or --database 0, or write NDJSON"
                .to_owned());
        }
        Ok(())
    }

    fn select(&mut self, database: Option<Database>) -> std::io::Result<()> {
        let number = database.map_or(0, |database| u64::from(database.number()));
        if self.selected != Some(number) {
            self.selected = Some(number);
            self.file.database(number)?;
        }
        Ok(())
    }

    /// Writes a key whose value is in one row; the parts of others wait for the last.
    fn write(&mut self, database: Option<Database>, key: &[u8], row: BackupRow, more: bool) -> std::io::Result<()> {
        let expire_at_ms = (row.expire_at_ms > 0).then_some(row.expire_at_ms);
        let (open, value) = (self.open.take(), self.value_of(row.value));
        if let (None, false, Ok(value)) = (&open, more, &value) {
            self.select(database)?;
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
        self.select(database)?;
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
