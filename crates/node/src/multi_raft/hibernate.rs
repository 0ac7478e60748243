//! Hibernation: a group in which nothing happens sends no heartbeats and is not ticked.
//!
//! The leader tells its followers that the group hibernates. From then on the life of the leader's node stands in for the
//! leader's heartbeats.
//!
//! Invariant: `leader_node` is `None` unless this replica hibernates as a follower.

use vocab::NodeId;

/// After so many ticks in which nothing happened, a leader tells its followers that they need no heartbeats.
pub const HIBERNATE_AFTER_TICKS: u32 = 40;
/// A group that has been idle for so many ticks sends no more rounds for its followers' sake: it is about to hibernate,
/// and their answers would wake it.
const CONFIRM_UNTIL_TICKS: u32 = HIBERNATE_AFTER_TICKS - 8;

/// Whether one replica hibernates.
#[derive(Debug, Default)]
pub(super) struct Hibernation {
    hibernates: bool,
    /// Of a follower that hibernates: the node whose life it depends on.
    leader_node: Option<NodeId>,
    /// Ticks since something last happened.
    idle_ticks: u32,
}

impl Hibernation {
    pub(super) fn hibernates(&self) -> bool {
        self.hibernates
    }

    /// Of a follower that hibernates: the node whose life stands in for heartbeats.
    pub(super) fn leader_node(&self) -> Option<NodeId> {
        self.leader_node
    }

    /// Something has happened.
    pub(super) fn wake(&mut self) {
        *self = Self::default();
    }

    /// The replica follows a leader on that node, and hibernates with it.
    pub(super) fn follow(&mut self, node: NodeId) {
        (self.hibernates, self.leader_node) = (true, Some(node));
    }

    /// Something has happened that does not wake a replica: it counts its idle ticks anew.
    pub(super) fn stay_awake(&mut self) {
        self.idle_ticks = 0;
    }

    /// A leader has been idle for one more tick. `may_begin`: nothing is awaited. True if it hibernates from now on, so
    /// that its followers are to be told.
    pub(super) fn idle_tick(&mut self, may_begin: bool) -> bool {
        self.idle_ticks += 1;
        let begins = may_begin && self.idle_ticks >= HIBERNATE_AFTER_TICKS;
        if begins {
            (self.hibernates, self.leader_node) = (true, None);
        }
        begins
    }

    /// Whether a leader still sends rounds for its followers' sake.
    pub(super) fn confirms(&self) -> bool {
        self.idle_ticks < CONFIRM_UNTIL_TICKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_hibernates_once_it_was_idle_for_long_and_nothing_is_awaited() {
        let mut hibernation = Hibernation::default();
        for tick in 1..HIBERNATE_AFTER_TICKS {
            assert!(!hibernation.idle_tick(true) && !hibernation.hibernates(), "tick {tick}");
            assert_eq!(hibernation.confirms(), tick < CONFIRM_UNTIL_TICKS, "tick {tick}");
        }
        assert!(!hibernation.idle_tick(false) && !hibernation.hibernates(), "a round is awaited");
        assert!(hibernation.idle_tick(true) && hibernation.hibernates() && hibernation.leader_node().is_none());
        hibernation.wake();
        assert!(!hibernation.hibernates() && !hibernation.idle_tick(true), "it counts anew");
        for _ in 0..HIBERNATE_AFTER_TICKS {
            hibernation.stay_awake();
            assert!(!hibernation.idle_tick(true), "a write a tick keeps it awake");
        }
    }

    #[test]
    fn a_follower_hibernates_with_its_leaders_node_until_it_is_woken() {
        let mut hibernation = Hibernation::default();
        hibernation.follow(NodeId(7));
        assert_eq!((hibernation.hibernates(), hibernation.leader_node()), (true, Some(NodeId(7))));
        hibernation.wake();
        assert_eq!((hibernation.hibernates(), hibernation.leader_node()), (false, None));
    }
}
