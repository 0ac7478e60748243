//! The payload of a large list's record, and what is pushed and popped without a look at the tree.
//!
//! ```text
//! u64 LE   count
//! 11 bytes with what the tree keys of the rows begin
//! varint   the number that the list's next row gets
//! varint count, bytes run   the first elements
//! varint count, bytes run   the last elements
//! to the end                the tree between them (see `edges`), and what was trimmed off (see `trimmed`)
//! ```
//! So a queue's push or pop writes one record, and a row once in as many as a leaf has elements. A pop never seeks.

use super::run::{Run, Side, element_bytes, fills_a_leaf, has_room};
use crate::command::hash::Varint;
use crate::format::record::{ROWS_HEAD_BYTES, Rows};
use crate::{Kind, Record, Type};
use vocab::{Malformed, Reader};

/// A large list's payload, its parts not copied.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    pub(super) count: u64,
    /// The prefix and the number of the next row, as they are stored.
    head: &'a [u8],
    pub(super) next_row: u64,
    pub(super) left: Run<'a>,
    pub(super) right: Run<'a>,
    /// The tree between them.
    pub(super) rest: &'a [u8],
}

impl<'a> Ends<'a> {
    /// Takes the payload of the record of a large list apart.
    pub(super) fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        let count = reader.u64_le()?;
        let head_at = payload.len() - reader.left();
        reader.take(ROWS_HEAD_BYTES - size_of::<u64>())?;
        let next_row = reader.varint()?;
        let head = &payload[head_at..payload.len() - reader.left()];
        let left = Run { count: reader.number()?, bytes: reader.bytes()? };
        let right = Run { count: reader.number()?, bytes: reader.bytes()? };
        Ok(Self { count, head, next_row, left, right, rest: reader.rest() })
    }

    fn run(&self, side: Side) -> Run<'a> {
        match side {
            Side::Left => self.left,
            Side::Right => self.right,
        }
    }

    /// The record with one more element; `None` if the tree takes part in that.
    pub(super) fn pushed(&self, version: u64, expire_at_ms: Option<u64>, side: Side, element: &[u8]) -> Option<Record> {
        let run = self.run(side);
        if !has_room(run, element) || fills_a_leaf(element) {
            return None;
        }
        let (count, length) = (Varint::new(run.count + 1), Varint::new(run.bytes.len() + element_bytes(element)));
        let (element_length, total) = (Varint::new(element.len()), (self.count + 1).to_le_bytes());
        let new: [&[u8]; 3] = match side {
            Side::Left => [element_length.bytes(), element, run.bytes],
            Side::Right => [run.bytes, element_length.bytes(), element],
        };
        let changed: [&[u8]; 5] = [count.bytes(), length.bytes(), new[0], new[1], new[2]];
        Some(self.record(version, expire_at_ms, &total, side, &changed))
    }

    /// The element at that end and the record without it; `None` if the tree takes part in that.
    pub(super) fn popped(
        &self,
        version: u64,
        expire_at_ms: Option<u64>,
        side: Side,
    ) -> Result<Option<(&'a [u8], Record)>, Malformed> {
        if self.count < 2 {
            return Ok(None);
        }
        let Some((element, run)) = self.run(side).take(side)? else { return Ok(None) };
        let (count, length) = (Varint::new(run.count), Varint::new(run.bytes.len()));
        let total = (self.count - 1).to_le_bytes();
        let changed: [&[u8]; 5] = [count.bytes(), length.bytes(), run.bytes, &[], &[]];
        Ok(Some((element, self.record(version, expire_at_ms, &total, side, &changed))))
    }

    fn record(
        &self,
        version: u64,
        expire_at_ms: Option<u64>,
        total: &[u8],
        side: Side,
        changed: &[&[u8]; 5],
    ) -> Record {
        let kept = self.run(side.other());
        let (count, length) = (Varint::new(kept.count), Varint::new(kept.bytes.len()));
        let kept: [&[u8]; 3] = [count.bytes(), length.bytes(), kept.bytes];
        let [a, b, c, d, e] = *changed;
        let parts: [&[u8]; 11] = match side {
            Side::Left => [total, self.head, a, b, c, d, e, kept[0], kept[1], kept[2], self.rest],
            Side::Right => [total, self.head, kept[0], kept[1], kept[2], a, b, c, d, e, self.rest],
        };
        Record::stamped_new(version, Kind::large(Type::List), expire_at_ms, &parts)
    }
}

/// The head of a large list's payload: what the record of each large collection begins with.
pub(super) fn head_of(rows: &Rows) -> Vec<u8> {
    let mut payload = rows.count.to_le_bytes().to_vec();
    payload.extend_from_slice(&rows.prefix);
    payload
}
