//! Whether a replica leads, and whether its reads count: what its owner tells and any thread asks.

use super::ShardHandle;
use std::sync::atomic::Ordering;

impl ShardHandle {
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
        let until_us = self.lease_until_us.load(Ordering::Acquire);
        if until_us == u64::MAX {
            return true;
        }
        if !self.lease_used.load(Ordering::Relaxed) {
            self.lease_used.store(true, Ordering::Relaxed);
        }
        now_us < until_us || (self.leading() && self.confirmed_us.load(Ordering::Acquire) >= arrived_us.max(1))
    }

    /// Whether no other node could lead: then no read needs to be confirmed.
    #[must_use]
    pub fn is_unquestioned(&self) -> bool {
        self.lease_until_us.load(Ordering::Acquire) == u64::MAX
    }

    /// Whether the replica has taken part in its group: before, it holds nothing that could be read.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.engine.applied_index() > 0
    }

    /// The replica has been started, and knew before that entries up to `committed` were.
    pub(crate) fn set_replayed_at(&self, committed: u64) {
        self.replayed_at.store(committed, Ordering::Release);
    }

    /// Whether the replica, which was started again, has yet to apply some of what it knew then to be committed. No read is
    /// answered before, however old its answer may be: a replica does not go back to what it was long ago.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        self.engine.applied_index() < self.replayed_at.load(Ordering::Acquire)
    }

    /// How far the replica may be behind its leader at `now_ms`, in ms: since when it is not known to have had all that
    /// was committed by then. By the wall clocks of both nodes. `None`: that is not known at all.
    #[must_use]
    pub fn lag_ms(&self, now_ms: u64) -> Option<u64> {
        let fresh_ms = self.fresh_ms.load(Ordering::Acquire);
        (fresh_ms > 0).then(|| now_ms.saturating_sub(fresh_ms))
    }

    /// A read waits until the replica knows that it is less old: its leader is asked.
    pub fn want_fresh(&self) {
        self.fresh_wanted.store(true, Ordering::Relaxed);
    }

    /// Whether one waits since the last call.
    pub(crate) fn take_fresh_wanted(&self) -> bool {
        self.fresh_wanted.load(Ordering::Relaxed) && self.fresh_wanted.swap(false, Ordering::Relaxed)
    }

    /// The replica has all that its leader had told at `at_ms`.
    pub(crate) fn set_fresh(&self, at_ms: u64) {
        self.fresh_ms.fetch_max(at_ms, Ordering::AcqRel);
    }

    /// Until when reads may be answered without asking again, in µs of the steady clock.
    pub(crate) fn lease_until_us(&self) -> u64 {
        self.lease_until_us.load(Ordering::Acquire)
    }

    /// Whether the lease was used since the last call.
    pub(crate) fn take_lease_use(&self) -> bool {
        self.lease_used.swap(false, Ordering::Relaxed)
    }

    /// A majority has answered the round that was sent at `sent_us`.
    pub(crate) fn confirm(&self, sent_us: u64, until_us: u64) {
        self.confirmed_us.fetch_max(sent_us, Ordering::AcqRel);
        self.lease_until_us.fetch_max(until_us, Ordering::AcqRel);
    }

    /// No read may be answered until a majority has confirmed this replica anew.
    pub(crate) fn end_lease(&self) {
        self.lease_until_us.store(0, Ordering::Release);
        self.confirmed_us.store(0, Ordering::Release);
    }

    /// The role has changed. Expects that the lease has ended: a reader that sees a newer confirmation sees the newer count
    /// of roles as well.
    pub(crate) fn set_leading(&self, leading: bool) {
        self.roles.fetch_add(1, Ordering::AcqRel);
        self.leading.store(leading, Ordering::Release);
    }

    /// The count of changes of role.
    pub(crate) fn roles(&self) -> u64 {
        self.roles.load(Ordering::Acquire)
    }
}
