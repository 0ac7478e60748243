//! When removals that readers pass over are to be compacted away.
//!
//! A removal is a row until compaction has merged it into the last level. Who walks where much was removed, as one that draws
//! members of a set which shrinks, passes over the same removals again and again, and over the rows that they hide. So what
//! walks pass over is counted. Once that was more than rewriting the tree costs, the tree is worn: what is in memory is flushed,
//! and then level by level is merged into the last one. To pass over a row and to rewrite it cost about the same, so rewriting at most
//! doubles what readers have paid anyway.

use std::sync::atomic::{AtomicU64, Ordering};

/// About what a row takes, in bytes: small ones, of which there are many where many are removed.
const ROW_BYTES: u64 = 64;
/// Rewriting is not worth fewer removals than this.
const PASSED_MIN: u64 = 256 * 1024;
/// Larger trees are left to ordinary compaction: rewriting all of one would keep that waiting for too long.
const TREE_BYTES_MAX: u64 = 1 << 30;

/// The removals of one tree that readers have passed over since it was last rewritten.
#[derive(Debug, Default)]
pub(super) struct Wear {
    passed: AtomicU64,
    /// How many of them before the last seal: those can be compacted away once that is flushed.
    sealed: AtomicU64,
}

impl Wear {
    /// A reader has passed over so many.
    pub(super) fn pass(&self, removals: u64) {
        self.passed.fetch_add(removals, Ordering::Relaxed);
    }

    /// What is in memory is sealed.
    pub(super) fn seal(&self) {
        self.sealed.store(self.passed.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether what is in memory should be sealed, in a tree of so many bytes. Cheap where little was passed over.
    pub(super) fn wants_seal(&self, bytes: impl FnOnce() -> u64) -> bool {
        let unsealed = self.passed.load(Ordering::Relaxed).saturating_sub(self.sealed.load(Ordering::Relaxed));
        unsealed >= PASSED_MIN && is_worth(unsealed, bytes())
    }

    /// Whether the files of a tree of so many bytes should be rewritten.
    pub(super) fn wants_rewrite(&self, bytes: impl FnOnce() -> u64) -> bool {
        let sealed = self.sealed.load(Ordering::Relaxed);
        sealed >= PASSED_MIN && is_worth(sealed, bytes())
    }

    /// The files were rewritten, or need not be.
    pub(super) fn rewritten(&self) {
        let sealed = self.sealed.swap(0, Ordering::Relaxed);
        self.passed.fetch_sub(sealed, Ordering::Relaxed);
    }
}

fn is_worth(passed: u64, bytes: u64) -> bool {
    bytes <= TREE_BYTES_MAX && passed >= bytes / ROW_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_worn_when_more_was_passed_over_than_it_has_rows() {
        let wear = Wear::default();
        let (small, large, huge) = (1000, 100 << 20, 2 << 30);
        wear.pass(PASSED_MIN - 1);
        assert!(!wear.wants_seal(|| unreachable!()));
        wear.pass(1);
        assert!(wear.wants_seal(|| small) && !wear.wants_seal(|| large) && !wear.wants_rewrite(|| unreachable!()));
        wear.pass((large / ROW_BYTES).max(PASSED_MIN) - PASSED_MIN);
        assert!(wear.wants_seal(|| large));
        wear.seal();
        assert!(!wear.wants_seal(|| unreachable!()) && wear.wants_rewrite(|| large) && !wear.wants_rewrite(|| huge));
        // What is passed over meanwhile counts for the next time.
        wear.pass(PASSED_MIN);
        assert!(wear.wants_seal(|| small));
        wear.rewritten();
        assert!(!wear.wants_rewrite(|| unreachable!()) && wear.wants_seal(|| small));
    }
}
