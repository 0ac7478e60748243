//! Reads answers and checks what they hold.

use client::{Elements, Frame};

use super::first_wrong::FirstWrong;
use super::outcome::{Fault, StoreError};
use super::packed::Unpacked;
use crate::workload::{Compression, Fields, Operation, RecordForm, ValueForm, Verdict, Workload, key_hash};

/// Checks answers against what must have been written.
pub(super) struct Checker {
    /// Whether values are compared; their number is, always.
    pub(super) verifies: bool,
    /// Whether scans go in the order of keys.
    ordered: bool,
    scratch: Vec<u8>,
    /// A value that the client has decompressed.
    plain: Vec<u8>,
    /// What was wrong first.
    pub(super) first_wrong: FirstWrong,
}

/// Where a scan is.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    /// Where the next page begins, as KV.RANGE takes it: `[key` with the key, `(key` after it.
    pub(super) bound: Vec<u8>,
    /// Rows that have come.
    pub(super) rows: u64,
}

impl Page {
    /// A scan from `key` on.
    pub(super) fn begin(&mut self, key: &[u8]) {
        self.rows = 0;
        self.set(b'[', key);
    }

    fn set(&mut self, kind: u8, key: &[u8]) {
        self.bound.clear();
        self.bound.push(kind);
        self.bound.extend_from_slice(key);
    }

    /// Whether `key` is within the bound.
    fn allows(&self, key: &[u8]) -> bool {
        match self.bound.split_first() {
            Some((b'[', least)) => key >= least,
            Some((b'(', before)) => key > before,
            _ => true,
        }
    }
}

/// Longest word that an error is counted under.
const ERROR_KIND_BYTES_MAX: usize = 32;

/// Rows of a scan that are checked beside the first: one in so many.
const SCAN_SAMPLE: u64 = 8;

/// So much of an error reply is kept, in bytes.
const ERROR_TEXT_BYTES_MAX: usize = 300;

/// An error reply as a fault, which is counted under its first word.
#[cold]
fn error(line: &[u8]) -> Fault {
    let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    let text = |bytes: &[u8], bytes_max: usize| String::from_utf8_lossy(&bytes[..bytes.len().min(bytes_max)]).into();
    Fault::Error(StoreError { kind: text(word, ERROR_KIND_BYTES_MAX), text: text(line, ERROR_TEXT_BYTES_MAX) })
}

/// What came is not what such a request is answered with.
pub(super) fn unexpected(frame: &Frame<'_>) -> Fault {
    if let Frame::Error(line) = frame { error(line) } else { Fault::error("unexpected-reply") }
}

/// The elements of an array, or of a map as keys and values by turns.
pub(super) fn elements<'a>(frame: &Frame<'a>) -> Result<Elements<'a>, Fault> {
    if let Frame::Nested(_, elements) = frame { Ok(elements.clone()) } else { Err(unexpected(frame)) }
}

/// Whether a hash is read by the names of its fields rather than as a whole.
pub(super) fn reads_by_name(workload: &Workload) -> bool {
    workload.form() == ValueForm::Integrity
}

impl Checker {
    pub(super) fn new(verifies: bool, ordered: bool) -> Self {
        Self { verifies, ordered, scratch: Vec::new(), plain: Vec::new(), first_wrong: FirstWrong::default() }
    }

    /// The answer to a write: anything but an error or nothing.
    pub(super) fn written(&self, reply: &Frame<'_>) -> Result<(), Fault> {
        match reply {
            Frame::Simple(_) | Frame::Int(_) => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// The answer to a delete: how many were there.
    pub(super) fn deleted(&self, reply: &Frame<'_>) -> Result<(), Fault> {
        match reply {
            Frame::Int(0) => Err(Fault::NotFound),
            Frame::Int(_) => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// The answer to the read of a hash.
    pub(super) fn hash(&mut self, reply: &Frame<'_>, workload: &Workload, operation: &Operation) -> Result<(), Fault> {
        let hash = key_hash(&operation.key);
        let (named, fields) = match operation.read {
            Fields::All => (reads_by_name(workload), workload.config.field_count),
            Fields::One(_) => (true, 1),
        };
        if !named {
            return self.pairs(reply, workload, &operation.key, hash);
        }
        let values = elements(reply)?;
        if values.len() != fields as usize {
            return Err(unexpected(reply));
        }
        let (mut missing, mut wrong) = (0, false);
        for (index, value) in values.enumerate() {
            let field = if let Fields::One(field) = operation.read { field } else { index as u32 };
            match value {
                Frame::Null => missing += 1,
                Frame::Bulk(value) => wrong |= !self.value(workload, &operation.key, hash, field, value),
                other => return Err(unexpected(&other)),
            }
        }
        match missing {
            0 if !wrong => Ok(()),
            missing if missing == fields => Err(Fault::NotFound),
            _ => Err(Fault::Wrong),
        }
    }

    /// Names and values, as HGETALL has them.
    fn pairs(&mut self, reply: &Frame<'_>, workload: &Workload, key: &[u8], hash: u64) -> Result<(), Fault> {
        if *reply == Frame::Null {
            return Err(Fault::NotFound);
        }
        let mut cells = elements(reply)?;
        if cells.len() == 0 {
            return Err(Fault::NotFound);
        }
        let fields = workload.config.field_count;
        let mut right = cells.len() == 2 * fields as usize;
        let mut index = 0;
        while let (Some(name), Some(value)) = (cells.next(), cells.next()) {
            let (Frame::Bulk(name), Frame::Bulk(value)) = (name, value) else { return Err(unexpected(reply)) };
            right &= self.named_value(workload, key, hash, index, name, value);
            index += 1;
        }
        if right || !self.verifies { Ok(()) } else { Err(Fault::Wrong) }
    }

    /// The answer to the read of a packed record: a string, or with its version an array of both. Keeps the record where
    /// it is `kept`, and answers the version.
    pub(super) fn string(
        &mut self,
        reply: &Frame<'_>,
        workload: &Workload,
        operation: &Operation,
        kept: Option<&mut Vec<u8>>,
    ) -> Result<u64, Fault> {
        let (packed, version) = match reply {
            Frame::Null => return Err(Fault::NotFound),
            Frame::Bulk(packed) => (*packed, 0),
            other => {
                let mut pair = elements(other)?;
                match (pair.next(), pair.next()) {
                    (Some(Frame::Bulk(packed)), Some(Frame::Int(version))) => (packed, version as u64),
                    (Some(Frame::Null), _) => return Err(Fault::NotFound),
                    _ => return Err(unexpected(other)),
                }
            }
        };
        if let Some(kept) = kept {
            kept.clear();
            kept.extend_from_slice(packed);
        }
        self.packed(packed, workload, &operation.key, key_hash(&operation.key)).map(|()| version)
    }

    fn packed(&mut self, packed: &[u8], workload: &Workload, key: &[u8], hash: u64) -> Result<(), Fault> {
        if !self.verifies {
            return Ok(());
        }
        let mut count = 0;
        for field in Unpacked::new(packed) {
            let (name, value) = field.map_err(|_| Fault::Wrong)?;
            if !self.named_value(workload, key, hash, count, name, value) {
                return Err(Fault::Wrong);
            }
            count += 1;
        }
        if count == workload.config.field_count { Ok(()) } else { Err(Fault::Wrong) }
    }

    fn named_value(
        &mut self,
        workload: &Workload,
        key: &[u8],
        hash: u64,
        hint: u32,
        name: &[u8],
        value: &[u8],
    ) -> bool {
        let field = workload.field_named(name, hint);
        field.is_some_and(|field| self.value(workload, key, hash, field, value))
    }

    fn value(&mut self, workload: &Workload, key: &[u8], hash: u64, field: u32, value: &[u8]) -> bool {
        if !self.verifies {
            return true;
        }
        if workload.config.compression == Compression::None {
            return self.plain_value(workload, key, hash, field, value);
        }
        let mut plain = std::mem::take(&mut self.plain);
        let right =
            workload.config.compression.read(value, &mut plain) && self.plain_value(workload, key, hash, field, &plain);
        self.plain = plain;
        right
    }

    fn plain_value(&mut self, workload: &Workload, key: &[u8], hash: u64, field: u32, value: &[u8]) -> bool {
        let length = workload.config.field_length.constant();
        if length.is_some_and(|length| length != value.len() as u64) {
            self.first_wrong.value(workload.cell(key, hash, field), length, &[], value);
            return false;
        }
        // A length of 0 may be drawn; YCSB's own check calls it an error only in its data integrity mode.
        if value.is_empty() && workload.form() != ValueForm::Integrity {
            return true;
        }
        let cell = workload.cell(key, hash, field);
        match workload.form().check(cell, value, &mut self.scratch) {
            Verdict::Right => return true,
            Verdict::Empty => self.first_wrong.value(cell, length, &[], value),
            Verdict::Wrong => self.first_wrong.value(cell, length, &self.scratch, value),
        }
        false
    }

    /// One answer to a scan: `[token, [[key, record], …]]`. The keys must ascend from the one asked for, which must be
    /// there; the first record and some others are checked. True when the scan is complete; otherwise `page` says where
    /// to go on. It may be complete before its length near to the store's end only.
    pub(super) fn scan(
        &mut self,
        reply: &Frame<'_>,
        workload: &Workload,
        operation: &Operation,
        page: &mut Page,
    ) -> Result<bool, Fault> {
        let mut parts = elements(reply)?;
        let (Some(token), Some(rows)) = (parts.next(), parts.next()) else { return Err(unexpected(reply)) };
        let rows = elements(&rows)?;
        if !self.verifies {
            return Ok(true);
        }
        if rows.len() as u64 > operation.scan_length - page.rows {
            return Err(Fault::Wrong);
        }
        for row in rows {
            let mut cells = elements(&row)?;
            // The record is looked at where it is checked only: it takes reading to its end.
            let (Some(Frame::Bulk(key)), 1) = (cells.next(), cells.len()) else {
                return Err(unexpected(&row));
            };
            if page.rows == 0 && key != operation.key {
                let passed = !self.ordered || key > operation.key.as_slice();
                return Err(if passed { Fault::NotFound } else { Fault::Wrong });
            }
            if self.ordered && !page.allows(key) {
                return Err(Fault::Wrong);
            }
            if page.rows == 0 || (operation.tag ^ page.rows).is_multiple_of(SCAN_SAMPLE) {
                let record = cells.next().ok_or_else(|| unexpected(&row))?;
                self.row(&record, workload, key)?;
            }
            page.set(b'(', key);
            page.rows += 1;
        }
        match token {
            _ if page.rows == operation.scan_length => Ok(true),
            Frame::Null if page.rows > 0 => self.ended_short(workload, operation, page.rows).map(|()| true),
            Frame::Null => Err(Fault::NotFound),
            Frame::Bulk(token) => {
                page.bound.clear();
                page.bound.extend_from_slice(token);
                Ok(false)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// A scan has come to the store's end, it says, after fewer `rows` than were asked for.
    fn ended_short(&mut self, workload: &Workload, operation: &Operation, rows: u64) -> Result<(), Fault> {
        if self.ordered && rows < workload.scan_rows_min(operation) {
            return Err(Fault::NotFound);
        }
        workload.ended_short(operation).map_err(|too_many| {
            self.first_wrong.short_scan(operation, rows, too_many);
            Fault::Wrong
        })
    }

    fn row(&mut self, record: &Frame<'_>, workload: &Workload, key: &[u8]) -> Result<(), Fault> {
        let hash = key_hash(key);
        match (workload.config.record, record) {
            (RecordForm::String, Frame::Bulk(packed)) => self.packed(packed, workload, key, hash),
            (RecordForm::Hash, record) => self.pairs(record, workload, key, hash),
            // What the members of collections hold is checked where they are asked for.
            (RecordForm::String | RecordForm::Collection(_), other) => Err(unexpected(other)),
        }
    }
}
