//! A node of a counted tree, as it is stored.
//!
//! ```text
//! keys    u8 format (1), u8 level (0: the entries are leaves), u16 number of entries, u32 the next free node id (in the
//!         root; else 0); for each entry, u32 where its key ends; with a level above 0, for each entry, u32 its child;
//!         the keys, one after the other
//! counts  for each entry a varint
//! ```
//! Numbers are little-endian.

use storage::Slice;
use vocab::{put_varint, varint_bytes};

/// Most entries of a node.
pub(super) const ENTRIES_MAX: usize = 128;
/// Bytes of keys after which a node is divided, if it has enough entries.
const KEY_BYTES_SOFT: usize = 16 * 1024;
/// So many entries a node may have however long their keys are.
const ENTRIES_MIN: usize = 8;

const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 8;

/// The number of a node, which no other node of its tree has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(pub(super) u32);

impl NodeId {
    /// The root of every tree.
    pub(super) const ROOT: Self = Self(0);

    /// The name of the row that holds its keys.
    pub(super) fn keys_name(self) -> [u8; 5] {
        self.name(0)
    }

    /// The name of the row that holds its counts.
    pub(super) fn counts_name(self) -> [u8; 5] {
        self.name(1)
    }

    fn name(self, which: u8) -> [u8; 5] {
        let [a, b, c, d] = self.0.to_be_bytes();
        [a, b, c, d, which]
    }
}

/// A node as it was read.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) id: NodeId,
    keys: Slice,
    counts: Slice,
}

impl Node {
    /// Checks the rows of a node. The error says what is wrong.
    pub(super) fn decode(id: NodeId, keys: Slice, counts: Slice) -> Result<Self, &'static str> {
        if keys.len() < HEAD_BYTES || keys[0] != FORMAT {
            return Err("keys of a node without a head");
        }
        let node = Self { id, keys, counts };
        if node.keys.len() < node.keys_at() || node.keys.len() != node.keys_at() + node.end(node.len()) {
            return Err("keys of a node of a wrong length");
        }
        if node.counts.iter().filter(|byte| **byte < 0x80).count() != node.len() {
            return Err("node whose keys and counts do not agree");
        }
        Ok(node)
    }

    /// How many entries it has.
    pub(super) fn len(&self) -> usize {
        usize::from(u16::from_le_bytes([self.keys[2], self.keys[3]]))
    }

    /// How far it is from the leaves.
    pub(super) fn level(&self) -> u8 {
        self.keys[1]
    }

    /// The next free node id; of the root alone.
    pub(super) fn next_id(&self) -> u32 {
        self.number(4)
    }

    /// The key of an entry.
    pub(super) fn key(&self, at: usize) -> &[u8] {
        let first = self.keys_at();
        self.keys.get(first + self.end(at)..first + self.end(at + 1)).unwrap_or_default()
    }

    /// The child of an entry; of an inner node alone.
    pub(super) fn child(&self, at: usize) -> NodeId {
        NodeId(self.number(HEAD_BYTES + 4 * (self.len() + at)))
    }

    /// The last entry whose key is not above `key`; the first one if there is none.
    pub(super) fn find(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.key(middle) <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.saturating_sub(1)
    }

    /// The counts, in order.
    pub(super) fn counts(&self) -> Counts<'_> {
        Counts { rest: &self.counts }
    }

    /// How many elements come before an entry.
    pub(super) fn before(&self, at: usize) -> u64 {
        match self.counts_of_one_byte() {
            Some(counts) => counts[..at.min(counts.len())].iter().map(|count| u64::from(*count)).sum(),
            None => self.counts().take(at).sum(),
        }
    }

    /// How many elements an entry has.
    pub(super) fn count(&self, at: usize) -> u64 {
        match self.counts_of_one_byte() {
            Some(counts) => counts.get(at).map_or(0, |count| u64::from(*count)),
            None => self.counts().nth(at).unwrap_or(0),
        }
    }

    /// The counts, if each is one byte: those of leaves are, and need not be walked.
    fn counts_of_one_byte(&self) -> Option<&[u8]> {
        (self.counts.len() == self.len()).then_some(&self.counts[..])
    }

    /// The entry that has the n-th element; `None` if there are not so many.
    pub(super) fn nth(&self, n: u64) -> Option<usize> {
        let mut left = n;
        self.counts().position(|count| {
            let found = left < count;
            left = left.saturating_sub(count);
            found
        })
    }

    /// Its counts, with one entry's changed; `None` if it has not so many.
    pub(super) fn counts_changed(&self, at: usize, by: i64) -> Option<Vec<u8>> {
        let mut counts = self.counts();
        match self.counts_of_one_byte() {
            Some(bytes) => counts.rest = bytes.get(at..)?,
            None => counts.by_ref().take(at).for_each(drop),
        }
        let start = self.counts.len() - counts.rest.len();
        let count = counts.next()?.checked_add_signed(by)?;
        let mut bytes = Vec::with_capacity(self.counts.len() + varint_bytes(count));
        bytes.extend_from_slice(&self.counts[..start]);
        put_varint(&mut bytes, count);
        bytes.extend_from_slice(counts.rest);
        Some(bytes)
    }

    /// Its entries, to be changed.
    pub(super) fn entries(&self) -> Vec<NodeEntry> {
        let inner = self.level() > 0;
        let entry = |(at, count)| {
            let child = if inner { self.child(at) } else { NodeId::ROOT };
            NodeEntry { key: self.key(at).to_vec(), child, count }
        };
        self.counts().take(self.len()).enumerate().map(entry).collect()
    }

    /// Where the keys begin.
    fn keys_at(&self) -> usize {
        HEAD_BYTES + 4 * self.len() * if self.level() > 0 { 2 } else { 1 }
    }

    /// Where the key before entry `at` ends.
    fn end(&self, at: usize) -> usize {
        if at == 0 { 0 } else { self.number(HEAD_BYTES + 4 * (at - 1)) as usize }
    }

    fn number(&self, at: usize) -> u32 {
        self.keys[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }
}

/// The counts of a node, in order.
pub(super) struct Counts<'a> {
    rest: &'a [u8],
}

impl Iterator for Counts<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let (mut count, mut shift) = (0, 0);
        loop {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            count |= u64::from(byte & 0x7F) << (shift & 63);
            if *byte < 0x80 {
                return Some(count);
            }
            shift += 7;
        }
    }
}

/// An entry of a node that is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeEntry {
    pub(super) key: Vec<u8>,
    /// The root in a node of level 0.
    pub(super) child: NodeId,
    pub(super) count: u64,
}

/// Of how many elements these are.
pub(super) fn total(entries: &[NodeEntry]) -> u64 {
    entries.iter().map(|entry| entry.count).sum()
}

/// Whether these entries are one node's, rather than two nodes'.
pub(super) fn fits(entries: &[NodeEntry]) -> bool {
    let bytes: usize = entries.iter().map(|entry| entry.key.len()).sum();
    entries.len() <= ENTRIES_MAX && (entries.len() <= ENTRIES_MIN || bytes <= KEY_BYTES_SOFT)
}

/// The row of the keys of a node.
pub(super) fn encode_keys(level: u8, next_id: u32, entries: &[NodeEntry]) -> Vec<u8> {
    let mut bytes = vec![FORMAT, level];
    bytes.extend_from_slice(&(entries.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&next_id.to_le_bytes());
    let mut end = 0;
    for entry in entries {
        end += entry.key.len() as u32;
        bytes.extend_from_slice(&end.to_le_bytes());
    }
    if level > 0 {
        entries.iter().for_each(|entry| bytes.extend_from_slice(&entry.child.0.to_le_bytes()));
    }
    entries.iter().for_each(|entry| bytes.extend_from_slice(&entry.key));
    bytes
}

/// The row of the counts of a node.
pub(super) fn encode_counts(entries: &[NodeEntry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 * entries.len());
    entries.iter().for_each(|entry| put_varint(&mut bytes, entry.count));
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn entry(key: &[u8], child: u32, count: u64) -> NodeEntry {
        NodeEntry { key: key.to_vec(), child: NodeId(child), count }
    }

    fn decode(level: u8, entries: &[NodeEntry]) -> Result<Node, &'static str> {
        let (keys, counts) = (encode_keys(level, 9, entries), encode_counts(entries));
        Node::decode(NodeId(3), Slice::from(keys), Slice::from(counts))
    }

    #[test]
    fn what_is_encoded_is_read() {
        for level in [0, 2] {
            let child = |n| if level > 0 { n } else { 0 };
            let entries = [entry(b"", child(4), 1), entry(b"bb", child(5), 300), entry(b"c", child(6), 1 << 40)];
            let node = decode(level, &entries).unwrap();
            assert_eq!((node.len(), node.level(), node.next_id()), (3, level, 9));
            assert_eq!(node.entries(), entries);
            assert_eq!([node.find(b""), node.find(b"b"), node.find(b"bb"), node.find(b"d")], [0, 0, 1, 2]);
            assert_eq!([0, 1, 2].map(|at| (node.before(at), node.count(at))), [(0, 1), (1, 300), (301, 1 << 40)]);
            assert_eq!([node.nth(0), node.nth(1), node.nth(300), node.nth(301)], [Some(0), Some(1), Some(1), Some(2)]);
            assert_eq!(node.nth(301 + (1 << 40)), None);
            let counts = Slice::from(node.counts_changed(1, -293).unwrap());
            assert_eq!(node.counts_changed(1, -301), None);
            let changed = Node::decode(node.id, Slice::from(encode_keys(level, 9, &entries)), counts).unwrap();
            assert_eq!(changed.counts().collect::<Vec<_>>(), [1, 7, 1 << 40]);
            let few = [entry(b"", child(4), 1), entry(b"bb", child(5), 127), entry(b"c", child(6), 3)];
            let few = decode(level, &few).unwrap();
            assert_eq!([0, 1, 2].map(|at| (few.before(at), few.count(at))), [(0, 1), (1, 127), (128, 3)]);
            assert_eq!(few.counts_changed(1, 1), Some(vec![1, 0x80, 1, 3]));
            assert_eq!(few.counts_changed(3, 1), None);
        }
    }

    #[test]
    fn torn_rows_are_refused() {
        let entries = [entry(b"a", 1, 1), entry(b"bb", 2, 300)];
        let (keys, counts) = (encode_keys(1, 3, &entries), encode_counts(&entries));
        for length in 0..keys.len() {
            assert!(Node::decode(NodeId(0), Slice::from(&keys[..length]), Slice::from(&counts[..])).is_err());
        }
        for length in 0..counts.len() {
            assert!(Node::decode(NodeId(0), Slice::from(&keys[..]), Slice::from(&counts[..length])).is_err());
        }
    }
}
