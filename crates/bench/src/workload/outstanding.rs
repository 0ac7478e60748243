//! What must be in queues and streams: additions that were acknowledged, and takes that have begun.

use parking_lot::Mutex;
use std::collections::HashMap;

/// Records that are counted; further ones are not.
const RECORDS_MAX: usize = 1 << 20;

/// The additions and takes of one record.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Additions that were acknowledged.
    added: u64,
    /// Takes that have begun, however they ended.
    takes: u64,
}

/// Counts by record.
#[derive(Debug, Default)]
pub struct Outstanding(Mutex<HashMap<u64, Counts>>);

impl Outstanding {
    /// An addition to a record was acknowledged.
    pub fn added(&self, record: u64) {
        self.change(record, |counts| counts.added += 1);
    }

    /// A take from a record begins: how many additions were acknowledged before.
    #[must_use]
    pub fn take_begins(&self, record: u64) -> u64 {
        self.change(record, |counts| counts.takes += 1).map_or(0, |counts| counts.added)
    }

    /// Whether a take that found nothing tells a loss: more was added before it began than all takes, it aside, can have
    /// taken. `added_before` is what its `take_begins` has answered.
    #[must_use]
    pub fn has_lost(&self, record: u64, added_before: u64) -> bool {
        let others = |counts: &Counts| counts.takes.saturating_sub(1);
        self.0.lock().get(&record).is_some_and(|counts| added_before > others(counts))
    }

    fn change(&self, record: u64, change: impl FnOnce(&mut Counts)) -> Option<Counts> {
        let mut records = self.0.lock();
        if records.len() >= RECORDS_MAX && !records.contains_key(&record) {
            return None;
        }
        let counts = records.entry(record).or_default();
        change(counts);
        Some(*counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_found_is_a_loss_only_if_something_must_be_there() {
        let queue = Outstanding::default();
        let first = queue.take_begins(7);
        assert!(!queue.has_lost(7, first), "nothing was added");
        queue.added(7);
        assert!(!queue.has_lost(7, first), "nothing was added before it began");
        let second = queue.take_begins(7);
        assert!(!queue.has_lost(7, second), "the first may have taken it");
        queue.added(7);
        let third = queue.take_begins(7);
        assert!(!queue.has_lost(7, third), "two others may have taken both");
        (0..2).for_each(|_| queue.added(7));
        let fourth = queue.take_begins(7);
        assert!(queue.has_lost(7, fourth), "four were added, and three others can have taken three");
        assert!(!queue.has_lost(8, 0));
    }
}
