//! Which nodes to call, and when: pure.
//!
//! Of two nodes that know each other the lower calls; the higher waits a little before it does so too. An address
//! that does not answer is called again, with growing pauses.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use vocab::{NodeId, Prng};

/// How long the higher of two nodes waits for the lower to call.
const COURTESY: Duration = Duration::from_millis(300);
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// A node or an address to call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contact {
    pub(super) address: String,
    /// Who answers there, as far as is known.
    pub(super) node: Option<NodeId>,
    /// No other node may answer there.
    pub(super) known: bool,
    /// Consecutive failed dial attempts.
    pub(super) failures: u32,
    due: Instant,
    /// A call is under way.
    busy: bool,
}

/// The nodes and addresses to call.
pub(super) struct Contacts {
    me: NodeId,
    list: BTreeMap<u64, Contact>,
    next_id: u64,
    prng: Prng,
}

impl Contacts {
    pub(super) fn new(me: NodeId, seed: u64) -> Self {
        Self { me, list: BTreeMap::new(), next_id: 0, prng: Prng::new(seed) }
    }

    pub(super) fn get(&self, id: u64) -> Option<&Contact> {
        self.list.get(&id)
    }

    /// Calls the node at `address`, whose id is not known yet.
    pub(super) fn dial(&mut self, address: &str, now: Instant) {
        if !self.list.values().any(|contact| contact.address == address) {
            self.insert(Contact {
                address: address.to_owned(),
                node: None,
                known: false,
                failures: 0,
                due: now,
                busy: false,
            });
        }
    }

    /// Calls a node whose id and address are known.
    pub(super) fn know(&mut self, node: NodeId, address: &str, now: Instant) {
        if node == self.me {
            return;
        }
        let due = if self.me < node { now } else { now + COURTESY };
        if let Some(contact) = self.list.values_mut().find(|contact| contact.known && contact.node == Some(node)) {
            if contact.address != address {
                contact.address = address.to_owned();
                (contact.failures, contact.due) = (0, due);
            }
            return;
        }
        self.insert(Contact {
            address: address.to_owned(),
            node: Some(node),
            known: true,
            failures: 0,
            due,
            busy: false,
        });
    }

    /// Calls a node no more.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.list.retain(|_, contact| contact.node != Some(node));
    }

    /// Forgets a contact that makes no sense: this node's own address.
    pub(super) fn remove(&mut self, id: u64) {
        self.list.remove(&id);
    }

    /// The contacts to call now. They count as called until `failed` or `ended`.
    pub(super) fn due(&mut self, now: Instant, linked: impl Fn(NodeId) -> bool) -> Vec<u64> {
        let mut called: Vec<NodeId> = self.called().collect();
        let mut due = Vec::new();
        for (id, contact) in &mut self.list {
            if contact.busy
                || contact.due > now
                || contact.node.is_some_and(|node| linked(node) || called.contains(&node))
            {
                continue;
            }
            contact.busy = true;
            called.extend(contact.node);
            due.push(*id);
        }
        due
    }

    /// When the next one is due, if all that are due now are called.
    pub(super) fn next(&self, linked: impl Fn(NodeId) -> bool) -> Option<Instant> {
        let called: Vec<NodeId> = self.called().collect();
        let idle = |node: NodeId| !linked(node) && !called.contains(&node);
        let waiting = self.list.values().filter(|contact| !contact.busy && contact.node.is_none_or(idle));
        waiting.map(|contact| contact.due).min()
    }

    fn called(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.list.values().filter(|contact| contact.busy).filter_map(|contact| contact.node)
    }

    /// A call failed; `met` is the node that answered, if one did.
    pub(super) fn failed(&mut self, id: u64, met: Option<NodeId>, now: Instant) {
        let Some(contact) = self.list.get_mut(&id) else { return };
        if !contact.known {
            contact.node = met.or(contact.node);
        }
        contact.busy = false;
        let wait = BACKOFF_MIN.saturating_mul(1 << contact.failures.min(10)).min(BACKOFF_MAX);
        contact.failures += 1;
        // Contacts that failed together are not all called again together.
        contact.due = now + wait.mul_f64(0.75 + self.prng.below(256) as f64 / 512.0);
    }

    /// A call was answered by that node.
    pub(super) fn answered(&mut self, id: u64, node: NodeId) {
        let Some(contact) = self.list.get_mut(&id) else { return };
        assert!(!contact.known || contact.node == Some(node), "no other node may answer there");
        contact.failures = 0;
        contact.node = Some(node);
    }

    /// A call that was answered has ended.
    pub(super) fn ended(&mut self, id: u64, now: Instant) {
        let Some(contact) = self.list.get_mut(&id) else { return };
        contact.busy = false;
        contact.due = now + BACKOFF_MIN;
    }

    /// The link to a node has ended, from either side.
    pub(super) fn parted(&mut self, node: NodeId, now: Instant) {
        let due = now + if self.me < node { BACKOFF_MIN } else { COURTESY };
        for contact in self.list.values_mut().filter(|contact| contact.node == Some(node) && !contact.busy) {
            contact.due = contact.due.max(due);
        }
    }

    fn insert(&mut self, contact: Contact) {
        self.list.insert(self.next_id, contact);
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
        let mut contacts = Contacts::new(ME, 1);
        contacts.know(HIGH, "h:1", now);
        contacts.know(LOW, "l:1", now);
        contacts.know(ME, "m:1", now);
        contacts.dial("seed:1", now);
        contacts.dial("seed:1", now);
        assert_eq!(contacts.due(now, |_| false), [0, 2]);
        assert_eq!(contacts.due(now + ms(300), |node| node == LOW), [0u64; 0]);
        assert_eq!(contacts.due(now + ms(300), |_| false), [1]);
        assert_eq!(contacts.due(now + ms(300), |_| false), [0u64; 0]);
    }

    #[test]
    fn who_does_not_answer_is_called_ever_more_slowly() {
        let mut now = Instant::now();
        let mut contacts = Contacts::new(ME, 1);
        contacts.dial("seed:1", now);
        let mut waits = Vec::new();
        for _ in 0..8 {
            assert_eq!(contacts.due(now, |_| false), [0]);
            contacts.failed(0, None, now);
            let next = contacts.next(|_| false).expect("one waits");
            assert!(contacts.due(next - ms(1), |_| false).is_empty());
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
        let mut contacts = Contacts::new(ME, 1);
        contacts.dial("seed:1", now);
        assert_eq!(contacts.due(now, |_| false), [0]);
        contacts.answered(0, HIGH);
        contacts.know(HIGH, "h:1", now);
        assert_eq!(contacts.due(now, |_| false), [0u64; 0], "the seed's call is under way");
        assert_eq!(contacts.next(|_| false), None, "so nothing is to be waited for");
        contacts.ended(0, now);
        assert_eq!(contacts.due(now, |node| node == HIGH), [0u64; 0]);
        assert_eq!(contacts.due(now + ms(50), |_| false).len(), 1);
        contacts.forget(HIGH);
        assert_eq!(contacts.next(|_| false), None);
    }
}
