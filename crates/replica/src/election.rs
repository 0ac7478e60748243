//! When a replica stands for election, and when it may not.
//!
//! raft-rs draws its timeouts from the thread's generator; here they are drawn from a seed, so that a simulation can
//! be run again, and raft-rs's own never strike.

use vocab::Prng;

/// Ticks without word of a leader after which a replica may vote for another: what leases rest on.
pub(crate) const ELECTION_TICKS: usize = 16;
/// Ticks over which replicas spread their patience, so that they do not stand all at once.
const SPREAD_TICKS: u64 = 10;
/// Ticks between a leader's signs of life.
pub(crate) const HEARTBEAT_TICKS: usize = 4;
/// So that raft-rs never stands by itself.
pub(crate) const NEVER_TICKS: usize = 1 << 40;

/// When a replica is due to stand. raft-rs counts the ticks since it heard of a leader.
pub(crate) struct ElectionTimer {
    prng: Prng,
    ticks: usize,
    /// Ticks for which it neither votes nor stands: before the restart it may have promised a leader not to.
    mute: usize,
    /// Ticks for which it votes for no other than the leader that it heard of, unless that one hands leadership over.
    /// raft-rs keeps this promise only until word of a newer term comes, from whomever: then it knows no leader any more,
    /// and would vote at once, while the leader of before still reads by its lease.
    promised: usize,
}

impl ElectionTimer {
    pub(crate) fn new(seed: u64, was_member: bool) -> Self {
        let mute = if was_member { ELECTION_TICKS } else { 0 };
        let mut timer = Self { prng: Prng::new(seed), ticks: 0, mute, promised: 0 };
        timer.draw();
        timer
    }

    /// The next wait is of another length.
    pub(crate) fn draw(&mut self) {
        self.ticks = ELECTION_TICKS + self.prng.below(SPREAD_TICKS) as usize;
    }

    /// One tick has passed.
    pub(crate) fn tick(&mut self) {
        self.mute = self.mute.saturating_sub(1);
        self.promised = self.promised.saturating_sub(1);
    }

    /// A leader was heard of.
    pub(crate) fn promise(&mut self) {
        self.promised = ELECTION_TICKS;
    }

    /// The leader was not heard of for longer than was promised.
    pub(crate) fn end_promise(&mut self) {
        self.promised = 0;
    }

    /// Whether it may vote for another leader.
    pub(crate) fn may_vote(&self) -> bool {
        self.promised == 0 && !self.is_mute()
    }

    /// Whether a replica that has heard of no leader for so many ticks is to stand.
    pub(crate) fn is_due(&self, elapsed: usize) -> bool {
        elapsed >= self.ticks
    }

    /// Whether it keeps out of elections.
    pub(crate) fn is_mute(&self) -> bool {
        self.mute > 0
    }

    /// It has promised nothing before.
    pub(crate) fn speak(&mut self) {
        self.mute = 0;
        self.promised = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_spread_and_a_restart_keeps_out_of_elections_for_as_long_as_a_promise_lasts() {
        let mut timer = ElectionTimer::new(1, true);
        for _ in 0..1000 {
            assert!(!timer.is_due(ELECTION_TICKS - 1) && timer.is_due(ELECTION_TICKS + SPREAD_TICKS as usize));
            timer.draw();
        }
        for _ in 0..ELECTION_TICKS {
            assert!(timer.is_mute());
            timer.tick();
        }
        assert!(!timer.is_mute() && !ElectionTimer::new(1, false).is_mute());
    }
}
