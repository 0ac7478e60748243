//! The room of removed rows, before compaction has given it back.
//!
//! A removal is a row until it is merged into the last level, and until then the row that it hides takes its room. Compaction goes
//! by the bytes of levels, and removals have few: those of a large tree may stay where they are until much more is written.
//! Where their room is asked for (`Engine::reclaim`), the tree is rewritten for it.

/// The removals of a tree. Those in the last level hide nothing, and are left out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Removed {
    /// Rows in files, or sealed for them, that are no removals. Those that are hidden are among them.
    pub(super) rows: u64,
    /// Removals in files.
    pub(super) flushed: u64,
    /// Removals in memory.
    pub(super) unflushed: u64,
}

impl Removed {
    /// About how many of `bytes`, which these rows take, are to come back: each removal hides one row, of the mean size.
    pub(super) fn bytes(&self, bytes: u64) -> u64 {
        let removals = self.flushed + self.unflushed;
        if removals == 0 {
            return 0;
        }
        let hidden = removals.min(self.rows);
        // A tree that has removals alone is all to go.
        if hidden == self.rows {
            bytes
        } else {
            (u128::from(bytes) * u128::from(hidden) / u128::from(self.rows)) as u64
        }
    }

    /// Whether what is in memory is to be flushed first: now, a rewrite would give back the lesser part.
    pub(super) fn wants_seal(&self) -> bool {
        self.unflushed > self.flushed
    }

    /// Whether a rewrite gives back the greater part.
    pub(super) fn wants_rewrite(&self) -> bool {
        self.flushed > 0 && !self.wants_seal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_flushed_and_then_rewritten_for_its_removals() {
        for (rows, flushed, unflushed, bytes, wants_seal, wants_rewrite) in [
            (0, 0, 0, 0, false, false),
            (100, 0, 0, 0, false, false),
            (100, 0, 10, 100, true, false),
            (100, 10, 0, 100, false, true),
            (100, 10, 10, 200, false, true),
            (100, 10, 11, 210, true, false),
            (100, 100, 0, 1_000, false, true),
            // Keys that were written again hide one row for several removals.
            (100, 150, 0, 1_000, false, true),
            (0, 3, 0, 1_000, false, true),
        ] {
            let removed = Removed { rows, flushed, unflushed };
            let found = (removed.bytes(1_000), removed.wants_seal(), removed.wants_rewrite());
            assert_eq!(found, (bytes, wants_seal, wants_rewrite), "{removed:?}");
        }
    }
}
