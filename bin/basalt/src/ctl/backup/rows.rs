//! A backup's files: rows of one shard in key order, compressed, named by the SHA-256 of what they hold.
//!
//! A file ends where a key's hash says so, not after so many rows. So a file whose rows have not changed since the last
//! backup has the same bounds, the same name, and need not be written again. docs/FORMATS.md has the layout.

use super::place::Place;
use crate::moment::{BackupRow, ExpiringField, RowValue, score_of};
use std::io::Read;
use vocab::{Reader, put_bytes, put_varint};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"BASROWS1";
/// A file does not end before this, in bytes.
const BYTES_MIN: usize = 1 << 20;
/// Nor does it grow beyond this, but for the last row.
const BYTES_MAX: usize = 16 << 20;
/// One of so many keys ends a file that is long enough.
const ENDS: u64 = 64;
/// The largest file that is read: a row may be as large as a request.
const FILE_BYTES_MAX: u64 = 1 << 30;
const LEVEL: i32 = 1;

const STRING: u8 = 1;
const HASH: u8 = 2;
const SET: u8 = 4;
const LIST: u8 = 5;
const SORTED_SET: u8 = 6;
const STREAM: u8 = 7;
const EXPIRING: u8 = 8;

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct FileFacts {
    /// SHA-256 of the rows, in hexadecimal digits.
    pub(crate) sha256: String,
    pub(crate) rows: u64,
    /// Before compression.
    pub(crate) bytes: u64,
    /// As the place keeps it; none in backups of versions that did not note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stored: Option<Stored>,
}

/// What a place keeps under a file's name: enough to prove it whole without decompressing it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Stored {
    pub(crate) bytes: u64,
    /// XXH3-64 in hexadecimal digits.
    pub(crate) xxh3: String,
    /// The tag that a bucket gives this content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tag: Option<String>,
}

impl Stored {
    pub(crate) fn of(bytes: &[u8], tag: Option<String>) -> Self {
        Self { bytes: bytes.len() as u64, xxh3: format!("{:016x}", xxh3_64(bytes)), tag }
    }

    /// Whether both are of the same bytes.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        (self.bytes, &self.xxh3) == (other.bytes, &other.xxh3)
    }
}

impl FileFacts {
    /// Whether its checksums are ones, as they are written.
    pub(crate) fn has_digits(&self) -> bool {
        let digits = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let of = |text: &str, length: usize| text.len() == length && digits(text);
        of(&self.sha256, 64) && self.stored.as_ref().is_none_or(|stored| of(&stored.xxh3, 16))
    }

    pub(crate) fn name(&self) -> String {
        file_name(&self.sha256)
    }
}

pub(crate) fn file_name(sha256: &str) -> String {
    format!("files/{sha256}")
}

/// Rows on their way into files.
#[derive(Default)]
pub(crate) struct Packer {
    bytes: Vec<u8>,
    rows: u64,
}

/// A file that is full.
pub(crate) struct Packed {
    pub(crate) facts: FileFacts,
    bytes: Vec<u8>,
}

impl Packed {
    /// What is to be kept under its name.
    pub(crate) fn compressed(&self) -> Result<Vec<u8>, String> {
        zstd::bulk::compress(&self.bytes, LEVEL).map_err(|e| format!("rows cannot be compressed: {e}"))
    }

    /// Whether `compressed` holds these rows, by whatever version of the compressor.
    pub(crate) fn is_in(&self, compressed: &[u8]) -> bool {
        decompress(compressed, self.facts.bytes).is_ok_and(|bytes| bytes == self.bytes)
    }
}

impl Packer {
    /// Takes a row; a file, if it is full with it.
    pub(crate) fn push(&mut self, row: &BackupRow) -> Option<Packed> {
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(MAGIC);
        }
        self.rows += 1;
        put_bytes(&mut self.bytes, &row.key);
        put_varint(&mut self.bytes, row.expire_at_ms);
        match &row.value {
            RowValue::String(value) => {
                self.bytes.push(STRING);
                put_bytes(&mut self.bytes, value);
            }
            RowValue::SortedSet(members) => {
                self.bytes.push(SORTED_SET);
                put_varint(&mut self.bytes, members.len() as u64);
                for (member, score) in members {
                    put_bytes(&mut self.bytes, member);
                    put_bytes(&mut self.bytes, &score.to_le_bytes());
                }
            }
            RowValue::Hash(fields) => {
                self.bytes.push(HASH);
                put_varint(&mut self.bytes, fields.len() as u64);
                for (field, value) in fields {
                    put_bytes(&mut self.bytes, field);
                    put_bytes(&mut self.bytes, value);
                }
            }
            RowValue::Expiring(fields) => {
                self.bytes.push(EXPIRING);
                put_varint(&mut self.bytes, fields.len() as u64);
                for field in fields {
                    put_bytes(&mut self.bytes, &field.field);
                    put_bytes(&mut self.bytes, &field.value);
                    put_varint(&mut self.bytes, field.at_ms);
                }
            }
            RowValue::Set(members) => {
                self.bytes.push(SET);
                put_varint(&mut self.bytes, members.len() as u64);
                members.iter().for_each(|member| put_bytes(&mut self.bytes, member));
            }
            RowValue::List { start, elements } => {
                self.bytes.push(LIST);
                put_varint(&mut self.bytes, *start);
                put_varint(&mut self.bytes, elements.len() as u64);
                elements.iter().for_each(|element| put_bytes(&mut self.bytes, element));
            }
            RowValue::Stream { is_first, items } => {
                self.bytes.push(STREAM);
                self.bytes.push(u8::from(*is_first));
                put_varint(&mut self.bytes, items.len() as u64);
                for item in items {
                    put_varint(&mut self.bytes, item.len() as u64);
                    item.iter().for_each(|word| put_bytes(&mut self.bytes, word));
                }
            }
        }
        let ends = self.bytes.len() >= BYTES_MIN && xxh3_64(&row.key).is_multiple_of(ENDS);
        if ends || self.bytes.len() >= BYTES_MAX { self.finish() } else { None }
    }

    /// What is left.
    pub(crate) fn finish(&mut self) -> Option<Packed> {
        let (bytes, rows) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.rows));
        if rows == 0 {
            return None;
        }
        let digest = hmac_sha256::Hash::hash(&bytes);
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Packed { facts: FileFacts { sha256, rows, bytes: bytes.len() as u64, stored: None }, bytes })
    }
}

/// The rows of a file, which is checked against its name.
pub(crate) fn read_file(place: &Place, facts: &FileFacts) -> Result<Vec<BackupRow>, String> {
    let name = facts.name();
    let compressed = place.get(&name, FILE_BYTES_MAX)?;
    let bytes = decompress(&compressed, facts.bytes).map_err(|e| format!("{name} is damaged: {e}"))?;
    let digest: String = hmac_sha256::Hash::hash(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if digest != facts.sha256 {
        return Err(format!("{name} is damaged: its rows have the SHA-256 {digest}"));
    }
    let rows = unpack(&bytes).map_err(|e| format!("{name} cannot be read: {e}"))?;
    if rows.len() as u64 != facts.rows {
        return Err(format!("{name} holds {} rows, not {}", rows.len(), facts.rows));
    }
    Ok(rows)
}

fn decompress(compressed: &[u8], length: u64) -> Result<Vec<u8>, String> {
    let decoder = zstd::stream::read::Decoder::new(compressed).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    // One more than there may be, so that too long is not taken for right.
    decoder.take(length.saturating_add(1)).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 == length { Ok(bytes) } else { Err(format!("{} bytes instead of {length}", bytes.len())) }
}

fn unpack(bytes: &[u8]) -> Result<Vec<BackupRow>, &'static str> {
    let mut reader = Reader::new(bytes.strip_prefix(MAGIC).ok_or("not a file of rows, or of a later version")?);
    let mut rows = Vec::new();
    while !reader.is_empty() {
        let key = reader.bytes()?.to_vec();
        let expire_at_ms = reader.varint()?;
        let value = match reader.u8()? {
            STRING => RowValue::String(reader.bytes()?.to_vec()),
            SORTED_SET => {
                let count = reader.count(2)?;
                let mut members = Vec::new();
                for _ in 0..count {
                    let member = reader.bytes()?.to_vec();
                    members.push((member, score_of(reader.bytes()?).ok_or("a score that is no double")?));
                }
                RowValue::SortedSet(members)
            }
            HASH => {
                let count = reader.count(2)?;
                let mut fields = Vec::new();
                for _ in 0..count {
                    fields.push((reader.bytes()?.to_vec(), reader.bytes()?.to_vec()));
                }
                RowValue::Hash(fields)
            }
            EXPIRING => {
                let count = reader.count(3)?;
                let mut fields = Vec::new();
                for _ in 0..count {
                    let (field, value) = (reader.bytes()?.to_vec(), reader.bytes()?.to_vec());
                    fields.push(ExpiringField { field, value, at_ms: reader.varint()? });
                }
                RowValue::Expiring(fields)
            }
            SET => {
                let count = reader.count(1)?;
                let mut members = Vec::new();
                for _ in 0..count {
                    members.push(reader.bytes()?.to_vec());
                }
                RowValue::Set(members)
            }
            LIST => {
                let start = reader.varint()?;
                let count = reader.count(1)?;
                let mut elements = Vec::new();
                for _ in 0..count {
                    elements.push(reader.bytes()?.to_vec());
                }
                RowValue::List { start, elements }
            }
            STREAM => {
                let is_first = reader.u8()? == 1;
                let count = reader.count(1)?;
                let mut items = Vec::new();
                for _ in 0..count {
                    let words = reader.count(1)?;
                    items.push((0..words).map(|_| Ok(reader.bytes()?.to_vec())).collect::<Result<_, &'static str>>()?);
                }
                RowValue::Stream { is_first, items }
            }
            _ => return Err("a row of an unknown kind"),
        };
        rows.push(BackupRow { key, expire_at_ms, value });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn row(i: u32, length: usize) -> BackupRow {
        let value = RowValue::String(vec![(i % 251) as u8; length]);
        BackupRow { key: format!("key{i:06}").into_bytes(), expire_at_ms: u64::from(i % 3), value }
    }

    fn pack(rows: &[BackupRow]) -> Vec<Packed> {
        let mut packer = Packer::default();
        let mut files: Vec<Packed> = rows.iter().filter_map(|row| packer.push(row)).collect();
        files.extend(packer.finish());
        files
    }

    #[test]
    fn rows_come_back_as_they_were() {
        let fields = vec![(b"a".to_vec(), Vec::new()), (Vec::new(), b"b".to_vec())];
        let mut rows: Vec<BackupRow> = (0..3000).map(|i| row(i, 1000)).collect();
        rows.push(BackupRow { key: Vec::new(), expire_at_ms: u64::MAX, value: RowValue::Hash(fields) });
        let field = ExpiringField { field: b"f".to_vec(), value: Vec::new(), at_ms: 1 << 45 };
        rows.push(BackupRow { key: b"hash".to_vec(), expire_at_ms: 7, value: RowValue::Expiring(vec![field]) });
        let members = vec![b"a".to_vec(), Vec::new()];
        rows.push(BackupRow { key: b"set".to_vec(), expire_at_ms: 0, value: RowValue::Set(members) });
        let members = vec![(b"m".to_vec(), 1.5), (Vec::new(), f64::NEG_INFINITY)];
        rows.push(BackupRow { key: b"sorted".to_vec(), expire_at_ms: 0, value: RowValue::SortedSet(members) });
        let elements = vec![b"b".to_vec(), b"a".to_vec(), b"b".to_vec()];
        let value = RowValue::List { start: 7, elements };
        rows.push(BackupRow { key: b"list".to_vec(), expire_at_ms: 0, value });
        let items = vec![vec![b"E".to_vec(), b"1-0".to_vec(), Vec::new(), b"v".to_vec()], Vec::new()];
        let value = RowValue::Stream { is_first: true, items };
        rows.push(BackupRow { key: b"stream".to_vec(), expire_at_ms: 0, value });
        let files = pack(&rows);
        assert!(files.len() > 1, "one file");
        let found: Vec<BackupRow> = files.iter().flat_map(|file| unpack(&file.bytes).unwrap()).collect();
        assert_eq!(found, rows);
        let file = &files[0];
        assert_eq!(decompress(&file.compressed().unwrap(), file.facts.bytes).unwrap(), file.bytes);
        assert!(decompress(&file.compressed().unwrap(), file.facts.bytes - 1).is_err());
    }

    #[test]
    fn a_changed_row_changes_one_file() {
        let rows: Vec<BackupRow> = (0..20_000).map(|i| row(i, 1000)).collect();
        let before = pack(&rows);
        let mut changed = rows.clone();
        changed[10_000].value = RowValue::String(b"other".to_vec());
        changed.insert(3, row(900_000, 10));
        let names: Vec<&str> = before.iter().map(|file| file.facts.sha256.as_str()).collect();
        let after = pack(&changed);
        let new = after.iter().filter(|file| !names.contains(&file.facts.sha256.as_str())).count();
        assert!(before.len() > 10 && new <= 3, "{new} of {} files are new", before.len());
    }

    #[test]
    fn damage_is_seen() {
        for bad in [
            &b"BASROWS2"[..],
            b"BASROWS1\x05ab",
            b"BASROWS1\x01a\x00\x09",
            b"BASROWS1\x01a\x00\x02\x01\x01f",
            b"BASROWS1\x01a\x00\x06\x01\x01m\x011",
        ] {
            assert!(unpack(bad).is_err(), "{bad:?}");
        }
    }
}
