//! NDJSON: a key a line, in a form that other programs read and write. docs/FORMATS.md has it.
//!
//! A key whose value is large is several lines that follow each other: all but the last say that there are more.

mod bytes;
mod line;

pub(crate) use line::{Head, Key, KeyPlace, Line, Part, Tail, of_row, part_of};
