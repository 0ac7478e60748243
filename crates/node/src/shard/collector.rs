//! When a leader proposes a step of background collection, and where that begins.

use crate::format::entry::CollectFrom;
use crate::space::apply::Collected;

/// How long a step that was proposed and not applied is waited for, in µs. It is lost if leadership changed meanwhile.
const LOST_AFTER_US: u64 = 2_000_000;
/// How often, in µs, rows of dropped collections are removed while clients write: they disturb no client.
const ROWS_EVERY_US: u64 = 10_000;

/// Where collection is. Every replica knows, from the steps that it applies; only the leader proposes.
#[derive(Default)]
pub(super) struct Collector {
    from: CollectFrom,
    /// The last step that was applied has left expired keys, or rows.
    more_expired: bool,
    more_rows: bool,
    /// When the step under way was proposed, in µs.
    proposed_us: Option<u64>,
    /// When the last one was, in µs.
    last_us: u64,
}

impl Collector {
    /// Whether a step is to be proposed now. `due`: something may have come since the last one; `idle`: no client
    /// waits for the shard.
    pub(super) fn wants_step(&self, due: bool, idle: bool, now_us: u64) -> bool {
        if self.proposed_us.is_some_and(|at| now_us < at + LOST_AFTER_US) {
            return false;
        }
        due || self.more_expired || (self.more_rows && (idle || now_us >= self.last_us + ROWS_EVERY_US))
    }

    /// A key or field was put whose time had come already: the next step looks for it from the beginning.
    pub(super) fn begin_again(&mut self) {
        (self.from.expiry, self.from.fields) = <_>::default();
    }

    /// A step is proposed: where it begins.
    pub(super) fn propose(&mut self, now_us: u64) -> &CollectFrom {
        (self.proposed_us, self.last_us) = (Some(now_us), now_us);
        &self.from
    }

    /// A step was applied.
    pub(super) fn applied(&mut self, step: Collected) {
        self.proposed_us = None;
        (self.from, self.more_expired, self.more_rows) = (step.next, step.more_expired, step.more_rows);
    }

    /// Another replica leads now, or this one does: what was proposed may never be applied.
    pub(super) fn role_changed(&mut self) {
        self.proposed_us = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_step_is_under_way_and_the_next_follows_while_there_is_more() {
        let mut collector = Collector::default();
        assert!(!collector.wants_step(false, true, 0) && collector.wants_step(true, false, 0));
        collector.propose(1_000);
        assert!(!collector.wants_step(true, true, 2_000) && collector.wants_step(true, true, 2_100_000));
        let from = CollectFrom { expiry: b"x".to_vec(), ..CollectFrom::default() };
        let step = |more_expired, more_rows| Collected { next: from.clone(), more_expired, more_rows };
        collector.applied(step(true, false));
        assert!(collector.wants_step(false, false, 1_100));
        assert_eq!(*collector.propose(1_100), from);
        collector.begin_again();
        assert_eq!(*collector.propose(1_100), CollectFrom::default());
        collector.applied(step(false, true));
        assert!(collector.wants_step(false, true, 1_200) && !collector.wants_step(false, false, 1_200));
        assert!(collector.wants_step(false, false, 11_200));
        collector.propose(20_000);
        collector.role_changed();
        assert!(collector.wants_step(true, false, 20_001));
        collector.applied(step(false, false));
        assert!(!collector.wants_step(false, true, 90_000));
    }
}
