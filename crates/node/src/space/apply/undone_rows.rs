//! What takes back the writes of an item: for each row what was there before.
//!
//! Only the first write at a row since the item began counts. A script may write one row a million times, so what was noted twice
//! is thrown away whenever that pays: what is held is at most about twice what is needed.

use std::collections::HashSet;
use storage::Slice;
use vocab::limits::UNDO_FOLD_BYTES;

/// What was written at a row before; `None`: nothing.
type Before = Option<Option<Slice>>;

/// Rows that were written since an item began.
pub(super) struct UndoneRows {
    /// Tree keys, and what was there before, oldest first.
    rows: Vec<(Slice, Before)>,
    /// What they take, in bytes.
    held: usize,
    /// How much they may take before they are looked through.
    fold_at: usize,
    /// Bytes of what was there before each write, also of those that were thrown away.
    bytes_before: usize,
}

impl Default for UndoneRows {
    fn default() -> Self {
        Self { rows: Vec::new(), held: 0, fold_at: UNDO_FOLD_BYTES, bytes_before: 0 }
    }
}

fn length(before: &Before) -> usize {
    before.as_ref().and_then(Option::as_ref).map_or(0, |value| value.len())
}

fn held(tree_key: &Slice, before: &Before) -> usize {
    64 + tree_key.len() + length(before)
}

impl UndoneRows {
    /// A row is written.
    pub(super) fn push(&mut self, tree_key: &[u8], before: Before) {
        let tree_key = Slice::from(tree_key);
        self.bytes_before += length(&before);
        self.held += held(&tree_key, &before);
        self.rows.push((tree_key, before));
        if self.held > self.fold_at {
            self.fold();
        }
    }

    /// Throws away all but the first write at each row.
    fn fold(&mut self) {
        let mut known = HashSet::with_capacity(self.rows.len());
        self.rows.retain(|(tree_key, _)| known.insert(tree_key.clone()));
        self.held = self.rows.iter().map(|(tree_key, before)| held(tree_key, before)).sum();
        self.fold_at = (2 * self.held).max(UNDO_FOLD_BYTES);
    }

    /// Bytes of what was there before each write.
    pub(super) fn bytes_before(&self) -> usize {
        self.bytes_before
    }

    /// What is to be put back, in that order.
    pub(super) fn newest_first(self) -> impl Iterator<Item = (Slice, Before)> {
        self.rows.into_iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_write_at_each_row_is_kept_whatever_comes_behind() {
        let mut rows = UndoneRows::default();
        let value = |n: usize| Some(Some(Slice::from(&n.to_le_bytes()[..])));
        rows.push(b"a", None);
        rows.push(b"b", value(7));
        let long = vec![b'k'; 32_000];
        rows.push(&long, None);
        (0..10_000).for_each(|n| rows.push(&long, value(n)));
        assert!(rows.held < 2 * UNDO_FOLD_BYTES, "{} bytes", rows.held);
        assert_eq!(rows.bytes_before(), 8 + 10_000 * 8);
        rows.fold();
        let left: Vec<_> = rows.newest_first().collect();
        let expected =
            [(Slice::from(&long[..]), None), (Slice::from(&b"b"[..]), value(7)), (Slice::from(&b"a"[..]), None)];
        assert_eq!(left, expected);
    }
}
