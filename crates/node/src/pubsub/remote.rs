//! What the clients of other nodes listen to.

use super::kind::Name;
use crate::peer_protocol::{Interest, Wish};
use resp::glob_matches_within;
use std::collections::{BTreeMap, BTreeSet};
use vocab::NodeId;
use vocab::limits::PATTERN_STEPS_MAX;

/// So many names are freed at a time.
const FREE_STEP_MAX: usize = 1024;

/// What one node has told.
#[derive(Debug, Default)]
struct ToldInterest {
    /// The number of its last message.
    number: u64,
    channels: BTreeSet<Name>,
    patterns: BTreeSet<Name>,
}

/// What the clients of other nodes listen to.
#[derive(Debug, Default)]
pub(super) struct RemoteInterest {
    /// By node. No index by name: one that is lost or begins anew would have to leave each of its names at once.
    told: BTreeMap<NodeId, ToldInterest>,
    /// Names that count no more, and are freed some at a time.
    garbage: Vec<BTreeSet<Name>>,
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
        let told = self.told.entry(from).or_default();
        told.number = interest.number;
        for Wish { name, is_pattern, wanted } in &interest.wishes {
            let names = if *is_pattern { &mut told.patterns } else { &mut told.channels };
            if *wanted {
                names.insert(name.clone());
            } else {
                names.remove(name);
            }
        }
        self.free_some();
        Some(interest.number)
    }

    /// The link to a node has broken: it tells everything again when it is back.
    pub(super) fn forget(&mut self, node: NodeId) {
        let Some(ToldInterest { channels, patterns, .. }) = self.told.remove(&node) else { return };
        self.garbage.extend([channels, patterns].into_iter().filter(|names| !names.is_empty()));
    }

    /// Frees some of what counts no more: called often.
    pub(super) fn free_some(&mut self) {
        for _ in 0..FREE_STEP_MAX {
            let Some(names) = self.garbage.last_mut() else { return };
            if names.pop_first().is_none() {
                self.garbage.pop();
            }
        }
    }

    /// To how many patterns they listen.
    pub(super) fn patterns(&self) -> usize {
        self.told.values().map(|told| told.patterns.len()).sum()
    }

    /// Whether a client of another node listens to anything.
    pub(super) fn any(&self) -> bool {
        self.told.values().any(|told| !told.channels.is_empty() || !told.patterns.is_empty())
    }

    /// The nodes whose clients listen to a channel, in their order.
    pub(super) fn nodes(&self, channel: &[u8]) -> Vec<NodeId> {
        let mut steps = PATTERN_STEPS_MAX;
        let mut fits = |pattern: &[u8]| glob_matches_within(pattern, channel, &mut steps).unwrap_or(false);
        let mut wants =
            |told: &ToldInterest| told.channels.contains(channel) || told.patterns.iter().any(|pattern| fits(pattern));
        self.told.iter().filter(|(_, told)| wants(told)).map(|(node, _)| *node).collect()
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
        assert!(!remote.any() && remote.told.is_empty());
        remote.free_some();
        assert!(remote.garbage.is_empty());
    }
}
