//! Counts the clients that got a message, over all nodes that it was sent to.

use crate::shard::Ticket;
use std::collections::{BTreeSet, HashMap, VecDeque};
use vocab::NodeId;

/// A message whose receivers are being counted.
#[derive(Debug)]
struct Counting {
    ticket: Ticket,
    /// Clients that got it, as far as is known.
    receivers: u64,
    /// Nodes that have not told theirs.
    nodes: Vec<NodeId>,
}

/// A message whose receivers are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    /// Who waits for the number.
    pub(super) ticket: Ticket,
    pub(super) receivers: u64,
}

/// The messages whose receivers are being counted. Each client has a bounded number of requests under way.
///
/// A node that does not tell its number in time is not waited for again until it tells one: it delays one message, not the next.
#[derive(Debug, Default)]
pub(super) struct ReceiverCounts {
    last: u64,
    counting: HashMap<u64, Counting>,
    /// Until when each is waited for, in µs of the steady clock, oldest first; some are counted by now.
    deadlines: VecDeque<(u64, u64)>,
    /// Nodes that are not waited for.
    silent: BTreeSet<NodeId>,
}

impl ReceiverCounts {
    /// A message was sent to these nodes. Answers its number, and what is known now if no node is waited for.
    pub(super) fn begin(
        &mut self,
        ticket: Ticket,
        here: u64,
        nodes: &[NodeId],
        until_us: u64,
    ) -> (u64, Option<Counted>) {
        self.last += 1;
        let nodes: Vec<NodeId> = nodes.iter().filter(|node| !self.silent.contains(node)).copied().collect();
        if nodes.is_empty() {
            return (self.last, Some(Counted { ticket, receivers: here }));
        }
        self.counting.insert(self.last, Counting { ticket, receivers: here, nodes });
        self.deadlines.push_back((until_us, self.last));
        (self.last, None)
    }

    /// A node tells how many of its clients got a message. Answers the sum, if it was the last to tell.
    pub(super) fn told(&mut self, from: NodeId, message: u64, receivers: u64) -> Option<Counted> {
        self.silent.remove(&from);
        let counting = self.counting.get_mut(&message)?;
        let at = counting.nodes.iter().position(|node| *node == from)?;
        counting.nodes.swap_remove(at);
        counting.receivers += receivers;
        if !counting.nodes.is_empty() {
            return None;
        }
        let Counting { ticket, receivers, .. } = self.counting.remove(&message)?;
        Some(Counted { ticket, receivers })
    }

    /// The link to a node has broken: it is waited for no more.
    pub(super) fn lost(&mut self, node: NodeId) -> Vec<Counted> {
        self.silent.remove(&node);
        for counting in self.counting.values_mut() {
            counting.nodes.retain(|other| *other != node);
        }
        self.take_complete()
    }

    /// Answers what is known of the messages whose time is over.
    pub(super) fn tick(&mut self, now_us: u64) -> Vec<Counted> {
        let mut counted = Vec::new();
        while let Some((_, message)) = self.deadlines.pop_front_if(|(until_us, _)| *until_us <= now_us) {
            if let Some(Counting { ticket, receivers, nodes }) = self.counting.remove(&message) {
                self.silent.extend(nodes);
                counted.push(Counted { ticket, receivers });
            }
        }
        counted
    }

    fn take_complete(&mut self) -> Vec<Counted> {
        let complete = self.counting.extract_if(|_, counting| counting.nodes.is_empty());
        let mut complete: Vec<(u64, Counting)> = complete.collect();
        complete.sort_unstable_by_key(|(message, _)| *message);
        let counted =
            |(_, counting): (u64, Counting)| Counted { ticket: counting.ticket, receivers: counting.receivers };
        complete.into_iter().map(counted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(sequence: u64) -> Ticket {
        Ticket { sequence, ..Ticket::NONE }
    }

    fn sums(counted: impl IntoIterator<Item = Counted>) -> Vec<(u64, u64)> {
        counted.into_iter().map(|counted| (counted.ticket.sequence, counted.receivers)).collect()
    }

    #[test]
    fn numbers_are_summed_and_a_silent_node_is_waited_for_once() {
        let (a, b) = (NodeId(1), NodeId(2));
        let mut counts = ReceiverCounts::default();
        let (first, now) = counts.begin(ticket(10), 1, &[a, b], 1000);
        assert_eq!(now, None);
        let (second, _) = counts.begin(ticket(11), 0, &[b], 1100);
        assert_eq!(counts.told(a, first, 4), None);
        assert_eq!(counts.told(a, first, 4), None, "it came twice");
        assert_eq!(sums(counts.told(b, second, 2)), [(11, 2)]);
        assert_eq!(sums(counts.told(b, first, 5)), [(10, 10)]);
        assert_eq!(counts.told(b, first, 5), None, "it is counted");
        // A link breaks.
        let (third, _) = counts.begin(ticket(12), 1, &[a, b], 1200);
        counts.begin(ticket(13), 3, &[b], 1300);
        assert_eq!(sums(counts.lost(b)), [(13, 3)]);
        assert_eq!(sums(counts.told(a, third, 1)), [(12, 2)]);
        // A node does not answer.
        counts.begin(ticket(14), 1, &[a, b], 2000);
        assert_eq!(sums(counts.tick(1999)), []);
        let (fifth, _) = counts.begin(ticket(15), 1, &[a, b], 2100);
        assert_eq!(counts.told(b, fifth, 1), None);
        assert_eq!(sums(counts.tick(2000)), [(14, 1)]);
        let (sixth, now) = counts.begin(ticket(16), 2, &[a], 3000);
        assert_eq!((sums(now), counts.deadlines.len()), (vec![(16, 2)], 1), "it is not waited for");
        assert_eq!(counts.told(a, sixth, 1), None);
        assert_eq!(counts.begin(ticket(17), 2, &[a], 3100).1, None, "it has answered");
        assert_eq!(sums(counts.tick(3100)), [(15, 2), (17, 2)]);
        assert!(counts.counting.is_empty() && counts.deadlines.is_empty());
    }
}
