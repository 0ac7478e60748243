//! A shard that holds its writes back for a moment, so that a backup sees all shards as of one moment.

use super::Shard;
use vocab::Moment;

/// When a hold of writes ends by itself, in µs of the steady clock; none is under way at 0.
#[derive(Debug, Default)]
pub(super) struct Hold {
    until_us: u64,
}

impl Hold {
    pub(super) fn holds(&self, now: Moment) -> bool {
        now.mono_us < self.until_us
    }
}

impl Shard {
    /// From now on no write is proposed, for so long: what comes meanwhile waits. False if this replica does not lead.
    pub fn hold(&mut self, now: Moment, for_us: u64) -> bool {
        let serves = self.replica.serves() && self.broken.is_none();
        if serves {
            self.hold.until_us = now.mono_us + for_us;
        }
        serves
    }

    /// Writes go on.
    pub fn release(&mut self) {
        self.hold.until_us = 0;
    }

    /// While writes are held back: whether everything that was proposed before is applied. `None`: they are not held back
    /// any more.
    #[must_use]
    pub fn is_drained(&self, now: Moment) -> Option<bool> {
        let holds = self.hold.holds(now) && self.replica.serves();
        holds.then(|| !self.proposals.has_proposed() && self.collected.is_empty())
    }
}
