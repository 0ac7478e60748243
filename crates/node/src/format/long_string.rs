//! A long string in pieces, as its record and its rows have it: docs/FORMATS.md has the layout.

use super::record::{Kind, Record, Rows, Type};

/// How many bytes of the string each piece has.
pub(crate) const PIECE_BYTES: usize = 4096;

/// A piece that need not be there.
pub(crate) static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];

/// A string in pieces.
///
/// Invariants: a piece that is not there is all zeros, and so is the rest of one that is shorter. No piece goes beyond the string's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongString {
    /// Where its pieces are, and how many bytes it has.
    rows: Rows,
}

/// The name of a piece below the string's rows.
pub(crate) fn piece_name(number: usize) -> [u8; 4] {
    (number as u32).to_be_bytes()
}

/// The number of the piece of that name.
pub(crate) fn piece_number(name: &[u8]) -> Option<usize> {
    name.try_into().ok().map(|name| u32::from_be_bytes(name) as usize)
}

impl LongString {
    /// The string whose record is at `key`, if it is in pieces.
    pub(crate) fn of(key: &[u8], record: &Record) -> Option<Self> {
        let view = record.view();
        if view.kind != Kind::large(Type::String) {
            return None;
        }
        view.rows(key).map(Self::at)
    }

    /// The string whose pieces, and how many bytes it has, are these.
    pub(crate) fn at(rows: Rows) -> Self {
        Self { rows }
    }

    /// Where its pieces are.
    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.rows.count as usize
    }

    /// It has so many bytes at least.
    pub(crate) fn grow_to(&mut self, length: usize) {
        self.rows.count = self.rows.count.max(length as u64);
    }
}
