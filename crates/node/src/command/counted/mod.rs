//! Counts by key, kept in rows: how many elements come before a key, and which key the n-th element is at, in O(log n).
//!
//! A large collection that answers by rank or index cuts its elements into *leaves*. `Counted` has an entry for each leaf: its
//! key, and how many elements it has. What a leaf is, and where its elements are, is the collection's own.
//!
//! The entries are a B+tree. A node is two rows: its keys, which change when an entry comes or goes, and its counts, of
//! one or two bytes each, which change with each element. So one more element in a leaf writes one small row a level.
//! Every row is read by its name: no read is a scan, none passes over removed rows, and all can be answered from memory.
//!
//! | operation | rows read | rows written |
//! |-|-|-|
//! | `find`, `nth` | two a level | none |
//! | `add` | none | one a level |
//! | `insert`, `remove` | two a level | one a level, and two for each node that changes |
//! | `next`, `previous` | none; two a level at a node's end | none |
//!
//! Invariants: keys rise from entry to entry. The count of an inner entry is the sum of its child's. The key of an inner
//! entry is at most every key below it and above every key before it, but for the first entry of a node: its bound is
//! that of its parent's entry. Node 0 is the root. No node but the root is empty.

mod node;
#[cfg(test)]
mod tests;
mod tree;

pub(super) use tree::{Counted, Cursor, division};
