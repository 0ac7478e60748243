//! Keys that are too large for one request, written part by part.

use super::outcome::Outcome;
use crate::moment::{BackupRow, ExpiringField, RowValue};
use crate::store_writer::RowWriter;
use client::{Client, StoreUrl, Value as Answer};
use rdb::{HashField, Value};

/// A key of which parts are written.
pub(super) struct LargeKey {
    writer: RowWriter,
    /// By the name that is stored.
    key: Vec<u8>,
    expire_at_ms: u64,
    /// Elements of a list that are written.
    elements: u64,
    /// It was there, and is left.
    is_present: bool,
}

impl LargeKey {
    /// Begins a key; what was there goes, or is left.
    pub(super) fn begin(
        node: &StoreUrl,
        key: Vec<u8>,
        expire_at_ms: Option<u64>,
        replace: bool,
    ) -> Result<Self, String> {
        let failed = |e: std::io::Error| format!("the store: {e}");
        let mut client = Client::open(node).map_err(failed)?;
        let asked: [&[u8]; 2] = [if replace { b"DEL" } else { b"EXISTS" }, &key];
        let is_present = match client.call_repeatable(&asked).map_err(failed)? {
            Answer::Error(text) => return Err(format!("the store: {text}")),
            answer => !replace && answer.as_int() == Some(1),
        };
        let expire_at_ms = expire_at_ms.unwrap_or(0);
        Ok(Self { writer: RowWriter::open(node)?, key, expire_at_ms, elements: 0, is_present })
    }

    /// Whether it was there, and is left.
    pub(super) fn is_present(&self) -> bool {
        self.is_present
    }

    /// Writes the next part.
    pub(super) fn write(&mut self, part: Value, now_ms: u64) -> Result<(), String> {
        if self.is_present {
            return Ok(());
        }
        let row = |value| BackupRow { key: self.key.clone(), expire_at_ms: self.expire_at_ms, value };
        let rows = match part {
            Value::List(elements) => {
                let start = self.elements;
                self.elements += elements.len() as u64;
                vec![row(RowValue::List { start, elements })]
            }
            Value::Set(members) => vec![row(RowValue::Set(members))],
            Value::SortedSet(members) => vec![row(RowValue::SortedSet(members))],
            Value::Hash(fields) => {
                let (expiring, plain): (Vec<HashField>, Vec<HashField>) =
                    fields.into_iter().partition(|field| field.expire_at_ms.is_some());
                let plain = plain.into_iter().map(|field| (field.name, field.value)).collect();
                let expiring = expiring.into_iter().filter_map(|field| {
                    let at_ms = field.expire_at_ms.filter(|at| *at > now_ms)?;
                    Some(ExpiringField { field: field.name, value: field.value, at_ms })
                });
                vec![row(RowValue::Hash(plain)), row(RowValue::Expiring(expiring.collect()))]
            }
            Value::String(_) | Value::Stream(_) | Value::Module(_) => {
                return Err("a value of this type has no parts".to_owned());
            }
        };
        self.writer.write(rows, now_ms).map(drop)
    }

    /// It is not to be written after all: takes away what was.
    pub(super) fn discard(self, node: &StoreUrl) -> Result<(), String> {
        let failed = |e: std::io::Error| format!("the store: {e}");
        let asked: [&[u8]; 2] = [b"DEL", &self.key];
        match Client::open(node).map_err(failed)?.call_repeatable(&asked).map_err(failed)? {
            Answer::Error(text) => Err(format!("the store: {text}")),
            _ => Ok(()),
        }
    }

    /// All parts are written.
    pub(super) fn end(self, outcome: &mut Outcome) {
        if self.is_present {
            outcome.present += 1;
        } else {
            outcome.written += 1;
        }
    }
}
