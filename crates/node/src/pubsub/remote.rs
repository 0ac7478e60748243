//! What the clients of other nodes listen to.

use super::candidates;
use super::kind::Name;
use crate::peer_protocol::{Interest, Wish};
use resp::glob_matches_within;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use vocab::NodeId;

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

impl ToldInterest {
    /// Whether it listens to a channel.
    fn wants(&self, channel: &[u8], steps: &mut usize) -> bool {
        if self.channels.contains(channel) {
            return true;
        }
        let (mut left, mut wants) = (usize::MAX, false);
        self.go_through(channel, &mut left, |pattern| {
            wants = glob_matches_within(pattern, channel, steps).unwrap_or(false);
            !wants
        });
        wants
    }

    /// Shows `see` the patterns that a channel may match, as long as it wants more: of up to `left`, which is counted down.
    fn go_through(&self, channel: &[u8], left: &mut usize, mut see: impl FnMut(&[u8]) -> bool) {
        let from = |place: Bound<&[u8]>| {
            self.patterns.range::<[u8], _>((place, Bound::Unbounded)).map(|pattern| (pattern, ()))
        };
        candidates::go_through(channel, Bound::Unbounded, left, from, |pattern, ()| see(pattern));
    }
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

    /// The nodes whose clients listen to a channel, in their order. To compare it with patterns takes some of the `steps`.
    pub(super) fn nodes(&self, channel: &[u8], steps: &mut usize) -> Vec<NodeId> {
        self.told.iter().filter(|(_, told)| told.wants(channel, steps)).map(|(node, _)| *node).collect()
    }

    /// Looks at up to `left` patterns that a channel may match, and counts that down.
    pub(super) fn look_through(&self, channel: &[u8], left: &mut usize) {
        self.told.values().for_each(|told| told.go_through(channel, left, |_| true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::limits::PATTERN_STEPS_MAX;

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
            let mut steps = PATTERN_STEPS_MAX;
            remote.nodes(channel.as_bytes(), &mut steps).iter().map(|node| node.0).collect::<Vec<_>>()
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
