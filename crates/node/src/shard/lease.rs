//! When a leader may answer reads: a majority has confirmed it, and has promised to follow no other for a while.
//!
//! A round is a safe ReadIndex: heartbeats that a majority answers. A follower that answered at t elects no other until
//! t + the election timeout (check-quorum and pre-vote: Ongaro, "Consensus: bridging theory and practice", 6.4.1), and
//! every answer came after the round was sent: so the leader is alone for that time from the *sending* on, less the
//! drift of the clocks.

use crate::shard_handle::ShardHandle;
use replica::Replica;
use std::collections::VecDeque;
use vocab::Moment;

/// How long a confirmed leader may answer reads without asking again, in µs. Followers promise 15 ticks of 50 ms (one
/// of the 16 may be cut short); a fifth of that is left for clocks that drift.
pub const LEASE_US: u64 = 600_000;
/// A lease with less left than this is renewed when it is used, in µs.
const RENEW_BELOW_US: u64 = 350_000;
/// So long after a round the next is sent for the followers' sake, in µs.
const CONFIRM_EVERY_US: u64 = 200_000;
/// Rounds that may be under way at once.
const ROUNDS_MAX: usize = 64;

/// The lease of one replica while it leads.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    /// When the rounds under way were sent, oldest first.
    rounds: VecDeque<Moment>,
    /// When the last round was sent, in µs.
    asked_us: u64,
    /// When the newest round was sent that a majority has answered, by the wall clock in ms; 0: none was.
    confirmed_ms: u64,
    /// A moment that has been, not long ago.
    now: Moment,
    /// Leadership was to be handed over in that term: voters may have forgotten their promise, so there are no leases
    /// until the next term, and every read waits for a round of its own.
    spent_in_term: u64,
}

impl Lease {
    /// Sends a round, unless one was sent in this µs.
    pub(crate) fn ask(&mut self, replica: &mut Replica, now: Moment) {
        if !replica.is_leader() || self.rounds.back().is_some_and(|sent| sent.mono_us >= now.mono_us) {
            return;
        }
        if self.rounds.len() == ROUNDS_MAX {
            self.rounds.pop_front();
        }
        if replica.read_index(now.mono_us) {
            self.rounds.push_back(now);
            self.asked_us = now.mono_us;
        }
    }

    /// The clocks show `now`, or later.
    pub(crate) fn look_at(&mut self, now: Moment) {
        self.now = now;
    }

    /// Since when nothing can have been committed that is not known here, in ms of the wall clock, as far as is sure: while
    /// the lease holds, since the moment that was looked at; else since a majority last confirmed this leader.
    pub(crate) fn sure_at(&self, handle: &ShardHandle) -> Option<u64> {
        let wall_ms = if self.holds(handle) { self.now.wall_ms } else { self.confirmed_ms };
        (wall_ms > 0).then_some(wall_ms)
    }

    /// Whether the lease held at the moment that was looked at.
    pub(crate) fn holds(&self, handle: &ShardHandle) -> bool {
        handle.leading() && self.now.mono_us < handle.lease().until_us()
    }

    /// Whether it is time for a round though no read asks for one.
    pub(crate) fn is_old(&self, handle: &ShardHandle, now_us: u64) -> bool {
        Self::wants_renewal(handle, now_us) && now_us >= self.asked_us + CONFIRM_EVERY_US
    }

    /// Whether a renewal is due.
    pub(crate) fn wants_renewal(handle: &ShardHandle, now_us: u64) -> bool {
        handle.lease().until_us() < now_us + RENEW_BELOW_US
    }

    /// A round that was sent at `sent_us` has been answered by a majority.
    pub(crate) fn confirmed(&mut self, sent_us: u64, replica: &Replica, handle: &ShardHandle) {
        while let Some(round) = self.rounds.pop_front_if(|round| round.mono_us <= sent_us) {
            self.confirmed_ms = round.wall_ms;
        }
        if replica.serves() {
            let spent = self.spent_in_term == replica.term() || replica.is_transferring();
            let until_us = match spent {
                true => 0,
                // No other voter could be elected.
                false if replica.is_alone() => u64::MAX,
                false => sent_us + LEASE_US,
            };
            handle.lease().confirm(sent_us, until_us);
        }
    }

    /// Leadership is about to be handed over.
    pub(crate) fn spend(&mut self, replica: &Replica, handle: &ShardHandle) {
        self.spent_in_term = replica.term();
        handle.lease().end();
    }

    /// The replica does not lead any more, or leads anew.
    pub(crate) fn end(&mut self, handle: &ShardHandle) {
        self.rounds.clear();
        self.confirmed_ms = 0;
        handle.lease().end();
    }
}
