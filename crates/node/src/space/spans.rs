//! Where rows lie in a tree.

use crate::Rows;
use crate::format::keys;
use storage::Span;

/// The tree keys of the records `start..end`.
pub(crate) fn record_span(start: &[u8], end: &[u8]) -> Span {
    Span { start: keys::record(start), end: if end.is_empty() { keys::records_end() } else { keys::record(end) } }
}

/// The tree keys of a large collection's elements whose names are from `from` on and below `until` (empty: all behind).
pub(crate) fn elements_between(rows: &Rows, from: &[u8], until: &[u8]) -> Span {
    let end = if until.is_empty() { keys::prefix_end(&rows.prefix) } else { keys::element(&rows.prefix, until) };
    Span { start: keys::element(&rows.prefix, from), end }
}

/// The tree keys of a large collection's elements after `after`.
pub(crate) fn element_span(rows: &Rows, after: Option<&[u8]>) -> Span {
    let mut start = rows.prefix.clone();
    if let Some(after) = after {
        // The smallest key after it.
        start.extend_from_slice(after);
        start.push(0);
    }
    Span { start, end: keys::prefix_end(&rows.prefix) }
}
