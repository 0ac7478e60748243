//! What the clients of other nodes listen to.

use super::kind::Name;
use crate::peer_protocol::{Interest, Wish};
use resp::glob_matches_within;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use vocab::NodeId;
use vocab::limits::PATTERN_STEPS_MAX;

/// What one node has told.
#[derive(Debug, Default)]
struct ToldInterest {
    /// The number of its last message.
    number: u64,
    channels: BTreeSet<Name>,
    patterns: BTreeSet<Name>,
}

/// What the clients of other nodes listen to.
///
/// Invariant: a node stands at a name in `channels` or `patterns` if and only if `told` has the name at that node.
#[derive(Debug, Default)]
pub(super) struct RemoteInterest {
    told: BTreeMap<NodeId, ToldInterest>,
    channels: HashMap<Name, BTreeSet<NodeId>>,
    patterns: BTreeMap<Name, BTreeSet<NodeId>>,
}

impl RemoteInterest {
    /// A node has told its interest. The answer is the number that it is to be confirmed; `None` if a message before this
    /// one was lost, so that this one has no meaning.
    pub(super) fn hear(&mut self, from: NodeId, interest: &Interest) -> Option<u64> {
        if interest.begins {
            self.forget(from);
        } else if self.told.get(&from).is_none_or(|told| told.number + 1 != interest.number) {
            return None;
        }
        for wish in &interest.wishes {
            self.change(from, wish);
        }
        self.told.entry(from).or_default().number = interest.number;
        Some(interest.number)
    }

    fn change(&mut self, from: NodeId, Wish { name, is_pattern, wanted }: &Wish) {
        let told = self.told.entry(from).or_default();
        let names = if *is_pattern { &mut told.patterns } else { &mut told.channels };
        let changed = if *wanted { names.insert(name.clone()) } else { names.remove(name) };
        if changed {
            self.set(name, *is_pattern, from, *wanted);
        }
    }

    fn set(&mut self, name: &Name, is_pattern: bool, node: NodeId, wanted: bool) {
        let nodes = match is_pattern {
            true => self.patterns.entry(name.clone()).or_default(),
            false => self.channels.entry(name.clone()).or_default(),
        };
        if wanted {
            nodes.insert(node);
            return;
        }
        nodes.remove(&node);
        if nodes.is_empty() {
            match is_pattern {
                true => _ = self.patterns.remove(name),
                false => _ = self.channels.remove(name),
            }
        }
    }

    /// The link to a node has broken: it tells everything again when it is back.
    pub(super) fn forget(&mut self, node: NodeId) {
        let Some(ToldInterest { channels, patterns, .. }) = self.told.remove(&node) else { return };
        channels.iter().for_each(|name| self.set(name, false, node, false));
        patterns.iter().for_each(|name| self.set(name, true, node, false));
    }

    /// Whether a client of another node listens to anything.
    pub(super) fn any(&self) -> bool {
        !self.channels.is_empty() || !self.patterns.is_empty()
    }

    /// The nodes whose clients listen to a channel, in their order.
    pub(super) fn nodes(&self, channel: &[u8]) -> Vec<NodeId> {
        let by_name = self.channels.get(channel).into_iter();
        let mut steps = PATTERN_STEPS_MAX;
        let mut fits = |pattern: &[u8]| glob_matches_within(pattern, channel, &mut steps).unwrap_or(false);
        let matching = self.patterns.iter().filter(|(pattern, _)| fits(pattern));
        let mut nodes: Vec<NodeId> = by_name.chain(matching.map(|(_, nodes)| nodes)).flatten().copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interest(number: u64, begins: bool, wishes: &str) -> Interest {
        let wish = |word: &str| {
            let (sign, name) = word.split_at(1);
            Wish { name: name.as_bytes().into(), is_pattern: name.contains('*'), wanted: sign == "+" }
        };
        Interest { number, begins, wishes: wishes.split_whitespace().map(wish).collect() }
    }

    #[test]
    fn interest_is_kept_by_node_and_told_in_order() {
        let mut remote = RemoteInterest::default();
        let hear = |remote: &mut RemoteInterest, node: u64, said: Interest| remote.hear(NodeId(node), &said);
        let nodes = |remote: &RemoteInterest, channel: &str| {
            remote.nodes(channel.as_bytes()).iter().map(|node| node.0).collect::<Vec<_>>()
        };
        assert_eq!(hear(&mut remote, 1, interest(1, false, "+a")), None, "nothing has begun");
        assert_eq!(hear(&mut remote, 1, interest(7, true, "+a +b +n*")), Some(7));
        assert_eq!(hear(&mut remote, 2, interest(1, true, "+a +*s")), Some(1));
        for (channel, expected) in [("a", vec![1, 2]), ("b", vec![1]), ("news", vec![1, 2]), ("c", vec![])] {
            assert_eq!(nodes(&remote, channel), expected, "{channel}");
        }
        assert_eq!(hear(&mut remote, 1, interest(8, false, "-a +c -c")), Some(8));
        assert_eq!((nodes(&remote, "a"), nodes(&remote, "c")), (vec![2], vec![]));
        assert_eq!(hear(&mut remote, 1, interest(10, false, "-b")), None, "message 9 was lost");
        assert_eq!(hear(&mut remote, 1, interest(8, false, "-b")), None, "it came twice");
        assert_eq!(nodes(&remote, "b"), [1]);
        assert_eq!(hear(&mut remote, 1, interest(11, true, "+d")), Some(11));
        assert_eq!((nodes(&remote, "b"), nodes(&remote, "d"), nodes(&remote, "now")), (vec![], vec![1], vec![]));
        remote.forget(NodeId(1));
        remote.forget(NodeId(2));
        assert!(remote.channels.is_empty() && remote.patterns.is_empty() && remote.told.is_empty());
    }
}
