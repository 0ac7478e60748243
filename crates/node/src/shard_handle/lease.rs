//! Whether a replica leads, and whether its reads count: the shard's owner writes it, and any thread asks it.
//!
//! Invariants: `until_us` and `confirmed_us` are 0 whenever `leading` changes, so a reader that sees a newer confirmation
//! sees the newer count of roles as well.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The lease of one replica, as all threads see it. Times are of the steady clock.
#[derive(Debug, Default)]
pub struct LeaseCell {
    /// Whether this replica leads its group.
    leading: AtomicBool,
    /// Counts the changes of role: while it stays the same, the replica has led without a break, or not at all.
    roles: AtomicU64,
    /// When the newest round that a majority has answered was sent, in µs; 0: none since this replica leads.
    confirmed_us: AtomicU64,
    /// Until when reads may be answered without asking again, in µs; 0: not at all.
    until_us: AtomicU64,
    /// A read has used the lease since `take_use` was last called.
    used: AtomicBool,
}

impl LeaseCell {
    /// Whether this replica leads, and a majority has confirmed it.
    #[must_use]
    pub fn serving(&self) -> bool {
        self.leading() && self.confirmed_us.load(Ordering::Acquire) > 0
    }

    /// Whether this replica leads its group, as far as it knows.
    #[must_use]
    pub fn leading(&self) -> bool {
        self.leading.load(Ordering::Acquire)
    }

    /// Whether a read that came at `arrived_us`, and has seen the shard at a moment no later than `now_us`, is
    /// linearizable: a majority has confirmed this leader since the read came, or its lease had not ended. To be asked
    /// after the read: a process may be stopped for any time between two instructions.
    #[must_use]
    pub fn readable(&self, arrived_us: u64, now_us: u64) -> bool {
        let until_us = self.until_us.load(Ordering::Acquire);
        if until_us == u64::MAX {
            return true;
        }
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        now_us < until_us || (self.leading() && self.confirmed_us.load(Ordering::Acquire) >= arrived_us.max(1))
    }

    /// Whether no other node could lead: then no read needs to be confirmed.
    #[must_use]
    pub fn is_unquestioned(&self) -> bool {
        self.until_us.load(Ordering::Acquire) == u64::MAX
    }

    /// Until when reads may be answered without asking again, in µs.
    pub(crate) fn until_us(&self) -> u64 {
        self.until_us.load(Ordering::Acquire)
    }

    /// Whether the lease was used since the last call.
    pub(crate) fn take_use(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// A majority has answered the round that was sent at `sent_us`.
    pub(crate) fn confirm(&self, sent_us: u64, until_us: u64) {
        self.confirmed_us.fetch_max(sent_us, Ordering::AcqRel);
        self.until_us.fetch_max(until_us, Ordering::AcqRel);
    }

    /// No read may be answered until a majority has confirmed this replica anew.
    pub(crate) fn end(&self) {
        self.until_us.store(0, Ordering::Release);
        self.confirmed_us.store(0, Ordering::Release);
    }

    /// The role has changed. Expects that the lease has ended.
    pub(crate) fn set_leading(&self, leading: bool) {
        self.roles.fetch_add(1, Ordering::AcqRel);
        self.leading.store(leading, Ordering::Release);
    }

    /// The count of changes of role.
    pub(crate) fn roles(&self) -> u64 {
        self.roles.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_counts_within_the_lease_or_after_a_newer_confirmation() {
        // A leader that was confirmed at 100 µs, with a lease until 500 µs.
        let leader = || {
            let lease = LeaseCell::default();
            lease.set_leading(true);
            lease.confirm(100, 500);
            lease
        };
        let same: fn(&LeaseCell) = |_| {};
        // Per case: what happens, when the read came and when it is over, and whether it counts.
        type Case = (&'static str, fn(&LeaseCell), u64, u64, bool);
        let cases: [Case; 9] = [
            ("within the lease", same, 400, 499, true),
            ("the lease has ended", same, 400, 500, false),
            ("it came before the confirmation", same, 100, 9_000, true),
            ("it came after it", same, 101, 9_000, false),
            ("confirmed again, without a lease", |lease| lease.confirm(600, 0), 600, 9_000, true),
            ("an older confirmation takes nothing back", |lease| lease.confirm(50, 50), 400, 499, true),
            ("the lease was ended", LeaseCell::end, 1, 1, false),
            (
                "it leads no more",
                |lease| {
                    lease.end();
                    lease.set_leading(false);
                },
                0,
                1,
                false,
            ),
            ("a group of one", |lease| lease.confirm(100, u64::MAX), 9_000, 9_001, true),
        ];
        for (name, happens, arrived_us, now_us, counts) in cases {
            let lease = leader();
            happens(&lease);
            assert_eq!(lease.readable(arrived_us, now_us), counts, "{name}");
        }
    }

    #[test]
    fn use_and_roles_are_noted() {
        let lease = LeaseCell::default();
        assert!(!lease.take_use() && !lease.serving() && lease.roles() == 0);
        lease.set_leading(true);
        assert!(lease.leading() && !lease.serving() && lease.roles() == 1);
        lease.confirm(7, 9);
        assert!(lease.serving() && !lease.is_unquestioned() && lease.until_us() == 9);
        assert!(lease.readable(8, 8) && lease.take_use() && !lease.take_use());
    }
}
