//! When removals that readers pass over are to be compacted away.
//!
//! A removal is a row until compaction has merged it into the last level. Who walks where much was removed, as one that draws
//! members of a set which shrinks, passes over the same removals again and again, and over the rows that they hide. So what
//! walks pass over is counted. Once that was more than rewriting the tree costs, the tree is worn: what is in memory is flushed,
//! and then level by level is merged into the last one. To pass over a row and to rewrite it cost about the same, so rewriting at most
//! doubles what readers have paid anyway.
//!
//! And a tree is rewritten in that way, whatever its size, where the room of its removed rows is asked for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// About what a row takes, in bytes: small ones, of which there are many where many are removed.
const ROW_BYTES: u64 = 64;
/// Rewriting is not worth fewer removals than this.
const PASSED_MIN: u64 = 256 * 1024;
/// Larger trees are left to ordinary compaction: rewriting all of one would keep that waiting for too long. Unless its room is asked
/// for: then rewriting gives way between levels, and hurries before writers are held up.
const TREE_BYTES_MAX: u64 = 1 << 30;

/// The removals of one tree that readers have passed over since it was last rewritten.
#[derive(Debug, Default)]
pub(super) struct Wear {
    passed: AtomicU64,
    /// How many of them before the last seal: those can be compacted away once that is flushed.
    sealed: AtomicU64,
    /// The room of removed rows is asked for.
    is_asked: AtomicBool,
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
        self.is_asked.load(Ordering::Relaxed) || sealed >= PASSED_MIN && is_worth(sealed, bytes())
    }

    /// The room of removed rows is asked for.
    pub(super) fn ask(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }

    /// Whether it was, since this was called last. Taken before a rewrite: after one that fails it is asked for anew, or not, by
    /// the room that there is.
    pub(super) fn take_asked(&self) -> bool {
        self.is_asked.swap(false, Ordering::Relaxed)
    }

    /// The files were rewritten, or need not be. What was asked for meanwhile has come back.
    pub(super) fn rewritten(&self) {
        self.is_asked.store(false, Ordering::Relaxed);
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

    #[test]
    fn a_tree_whose_room_is_asked_for_is_rewritten_once_whatever_its_size() {
        let wear = Wear::default();
        wear.ask();
        assert!(wear.wants_rewrite(|| unreachable!()) && !wear.wants_seal(|| unreachable!()));
        assert!(wear.take_asked() && !wear.wants_rewrite(|| unreachable!()));
        wear.ask();
        wear.rewritten();
        assert!(!wear.take_asked(), "it has come back");
    }
}
