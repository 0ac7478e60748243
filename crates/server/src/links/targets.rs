//! Whom to call, and when: pure.
//!
//! Of two nodes that know each other the lower calls; the higher waits a little before it does so too. Whoever is
//! called in vain is called again, ever more slowly.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use vocab::{NodeId, Prng};

/// How long the higher of two nodes waits for the lower to call.
const COURTESY: Duration = Duration::from_millis(300);
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Somebody to call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) address: String,
    /// Who answers there, as far as is known.
    pub(super) node: Option<NodeId>,
    /// Nobody else may answer there.
    pub(super) known: bool,
    /// Calls in vain since the last one that was not.
    pub(super) failures: u32,
    due: Instant,
    /// A call is under way.
    busy: bool,
}

/// All of them.
pub(super) struct Targets {
    me: NodeId,
    list: BTreeMap<u64, Target>,
    next_id: u64,
    prng: Prng,
}

impl Targets {
    pub(super) fn new(me: NodeId, seed: u64) -> Self {
        Self { me, list: BTreeMap::new(), next_id: 0, prng: Prng::new(seed) }
    }

    pub(super) fn get(&self, id: u64) -> Option<&Target> {
        self.list.get(&id)
    }

    /// Whoever answers at `address`.
    pub(super) fn dial(&mut self, address: &str, now: Instant) {
        if !self.list.values().any(|target| target.address == address) {
            self.insert(Target {
                address: address.to_owned(),
                node: None,
                known: false,
                failures: 0,
                due: now,
                busy: false,
            });
        }
    }

    /// A node of which the address is known.
    pub(super) fn know(&mut self, node: NodeId, address: &str, now: Instant) {
        if node == self.me {
            return;
        }
        let due = if self.me < node { now } else { now + COURTESY };
        if let Some(target) = self.list.values_mut().find(|target| target.known && target.node == Some(node)) {
            if target.address != address {
                target.address = address.to_owned();
                (target.failures, target.due) = (0, due);
            }
            return;
        }
        self.insert(Target {
            address: address.to_owned(),
            node: Some(node),
            known: true,
            failures: 0,
            due,
            busy: false,
        });
    }

    /// A node that is not to be called any more.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.list.retain(|_, target| target.node != Some(node));
    }

    /// One that makes no sense, such as this node's own.
    pub(super) fn remove(&mut self, id: u64) {
        self.list.remove(&id);
    }

    /// Those to call now. They count as called until `failed` or `ended`.
    pub(super) fn due(&mut self, now: Instant, linked: impl Fn(NodeId) -> bool) -> Vec<u64> {
        let mut called: Vec<NodeId> =
            self.list.values().filter(|target| target.busy).filter_map(|target| target.node).collect();
        let mut due = Vec::new();
        for (id, target) in &mut self.list {
            if target.busy || target.due > now || target.node.is_some_and(|node| linked(node) || called.contains(&node))
            {
                continue;
            }
            target.busy = true;
            called.extend(target.node);
            due.push(*id);
        }
        due
    }

    /// When the next one is due, if none of those that are due now is called.
    pub(super) fn next(&self, linked: impl Fn(NodeId) -> bool) -> Option<Instant> {
        let waiting = self.list.values().filter(|target| !target.busy && !target.node.is_some_and(&linked));
        waiting.map(|target| target.due).min()
    }

    /// A call was in vain; `met` is who answered, if somebody did.
    pub(super) fn failed(&mut self, id: u64, met: Option<NodeId>, now: Instant) {
        let Some(target) = self.list.get_mut(&id) else { return };
        if !target.known {
            target.node = met.or(target.node);
        }
        target.busy = false;
        let wait = BACKOFF_MIN.saturating_mul(1 << target.failures.min(10)).min(BACKOFF_MAX);
        target.failures += 1;
        // Those that failed together do not all come back together.
        target.due = now + wait.mul_f64(0.75 + self.prng.below(256) as f64 / 512.0);
    }

    /// A call was answered by that node.
    pub(super) fn answered(&mut self, id: u64, node: NodeId) {
        let Some(target) = self.list.get_mut(&id) else { return };
        assert!(!target.known || target.node == Some(node), "nobody else may answer there");
        target.failures = 0;
        target.node = Some(node);
    }

    /// A call that was answered has ended.
    pub(super) fn ended(&mut self, id: u64, now: Instant) {
        let Some(target) = self.list.get_mut(&id) else { return };
        target.busy = false;
        target.due = now + BACKOFF_MIN;
    }

    /// The link to a node has ended, whoever called.
    pub(super) fn parted(&mut self, node: NodeId, now: Instant) {
        let due = now + if self.me < node { BACKOFF_MIN } else { COURTESY };
        for target in self.list.values_mut().filter(|target| target.node == Some(node) && !target.busy) {
            target.due = target.due.max(due);
        }
    }

    fn insert(&mut self, target: Target) {
        self.list.insert(self.next_id, target);
        self.next_id += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: NodeId = NodeId(5);
    const LOW: NodeId = NodeId(1);
    const HIGH: NodeId = NodeId(9);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_lower_calls_and_the_higher_waits_a_little() {
        let now = Instant::now();
        let mut targets = Targets::new(ME, 1);
        targets.know(HIGH, "h:1", now);
        targets.know(LOW, "l:1", now);
        targets.know(ME, "m:1", now);
        targets.dial("seed:1", now);
        targets.dial("seed:1", now);
        assert_eq!(targets.due(now, |_| false), [0, 2]);
        assert_eq!(targets.due(now + ms(300), |node| node == LOW), []);
        assert_eq!(targets.due(now + ms(300), |_| false), [1]);
        assert_eq!(targets.due(now + ms(300), |_| false), []);
    }

    #[test]
    fn who_does_not_answer_is_called_ever_more_slowly() {
        let mut now = Instant::now();
        let mut targets = Targets::new(ME, 1);
        targets.dial("seed:1", now);
        let mut waits = Vec::new();
        for _ in 0..8 {
            assert_eq!(targets.due(now, |_| false), [0]);
            targets.failed(0, None, now);
            let next = targets.next(|_| false).expect("one waits");
            assert!(targets.due(next - ms(1), |_| false).is_empty());
            waits.push((next - now).as_millis());
            now = next;
        }
        for (wait, about) in waits.iter().zip([50, 100, 200, 400, 800, 1000, 1000, 1000]) {
            assert!(*wait * 4 >= about * 3 - 4 && *wait * 4 <= about * 5, "{waits:?}");
        }
    }

    #[test]
    fn a_seed_that_turns_out_to_be_a_known_node_is_not_called_as_well() {
        let now = Instant::now();
        let mut targets = Targets::new(ME, 1);
        targets.dial("seed:1", now);
        assert_eq!(targets.due(now, |_| false), [0]);
        targets.answered(0, HIGH);
        targets.know(HIGH, "h:1", now);
        assert_eq!(targets.due(now, |_| false), [], "the seed's call is under way");
        targets.ended(0, now);
        assert_eq!(targets.due(now, |node| node == HIGH), []);
        assert_eq!(targets.due(now + ms(50), |_| false).len(), 1);
        targets.forget(HIGH);
        assert_eq!(targets.next(|_| false), None);
    }
}
