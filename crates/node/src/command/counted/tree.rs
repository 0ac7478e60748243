//! The tree: how nodes are found, changed, divided and merged.

use super::node::{ENTRIES_MAX, Node, NodeEntry, NodeId, encode_counts, encode_keys, fits, total};
use crate::command::call::{Error, Outcome};
use crate::command::error::corrupt_rows;
use crate::{ReadSpace, Rows, WriteSpace};

/// A node of fewer entries is merged with the one beside it, if that leaves room.
const ENTRIES_FEW: usize = ENTRIES_MAX / 4;
/// Most entries of a node that two are merged into: so that it is not divided again at once.
const MERGED_MAX: usize = ENTRIES_MAX * 3 / 4;
/// Most levels that are walked: rows that refer to each other in a circle are not followed without end.
const LEVELS_MAX: usize = 64;

/// The counts of a collection's leaves.
#[derive(Clone, Debug)]
pub(in crate::command) struct Counted {
    /// Where the nodes are.
    rows: Rows,
}

/// An entry, and the way to it. It holds until the tree is changed.
#[derive(Clone, Debug)]
pub(in crate::command) struct Cursor {
    /// From the root to the node of the entry, and which entry is next in each.
    path: Vec<Step>,
}

#[derive(Clone, Debug)]
struct Step {
    node: Node,
    at: usize,
}

impl Cursor {
    /// The key of the entry.
    pub(in crate::command) fn key(&self) -> &[u8] {
        self.path.last().map_or(&[], |step| step.node.key(step.at))
    }

    /// The key of the entry behind it, where that needs no read.
    pub(in crate::command) fn next_key(&self) -> Option<&[u8]> {
        let step = self.path.last()?;
        (step.at + 1 < step.node.len()).then(|| step.node.key(step.at + 1))
    }

    /// How many elements come before it.
    pub(in crate::command) fn before(&self) -> u64 {
        self.path.iter().map(|step| step.node.before(step.at)).sum()
    }

    /// How many elements it has.
    pub(in crate::command) fn count(&self) -> u64 {
        self.path.last().map_or(0, |step| step.node.count(step.at))
    }
}

impl Counted {
    /// The tree whose rows begin with the prefix of `rows`. It is empty until something is written there.
    pub(in crate::command) fn new(rows: Rows) -> Self {
        Self { rows }
    }

    /// The last entry whose key is not above `key`; the first entry if there is none. `None` if there are no entries.
    pub(in crate::command) fn find(&self, space: &mut dyn ReadSpace, key: &[u8]) -> Result<Option<Cursor>, Error> {
        let Some(mut cursor) = self.descend(space, |node| Some(node.find(key)))? else { return Ok(None) };
        // The first entry of a node may be above the bound of the node: then the entry before it is asked for.
        if cursor.key() > key {
            let mut previous = cursor.clone();
            if self.previous(space, &mut previous)? {
                cursor = previous;
            }
        }
        Ok(Some(cursor))
    }

    /// The entry that has the n-th element, the first one being number 0. `None` if there are not so many.
    pub(in crate::command) fn nth(&self, space: &mut dyn ReadSpace, n: u64) -> Result<Option<Cursor>, Error> {
        let mut left = n;
        self.descend(space, |node| {
            let at = node.nth(left)?;
            left -= node.before(at);
            Some(at)
        })
    }

    /// Moves to the next entry; false, and nothing has changed, at the last one.
    pub(in crate::command) fn next(&self, space: &mut dyn ReadSpace, cursor: &mut Cursor) -> Result<bool, Error> {
        let Some(depth) = cursor.path.iter().rposition(|step| step.at + 1 < step.node.len()) else { return Ok(false) };
        cursor.path[depth].at += 1;
        self.follow(space, cursor, depth, |_| 0)?;
        Ok(true)
    }

    /// Moves to the entry before; false, and nothing has changed, at the first one.
    pub(in crate::command) fn previous(&self, space: &mut dyn ReadSpace, cursor: &mut Cursor) -> Result<bool, Error> {
        let Some(depth) = cursor.path.iter().rposition(|step| step.at > 0) else { return Ok(false) };
        cursor.path[depth].at -= 1;
        self.follow(space, cursor, depth, |node| node.len().saturating_sub(1))?;
        Ok(true)
    }

    /// The entry has so many more elements, or fewer. It reads nothing.
    pub(in crate::command) fn add(&self, space: &mut dyn WriteSpace, cursor: &Cursor, by: i64) -> Outcome {
        self.change_counts(space, &cursor.path, by)
    }

    /// A new entry, whose key no other has.
    pub(in crate::command) fn insert(&self, space: &mut dyn WriteSpace, key: &[u8], count: u64) -> Outcome {
        let new = NodeEntry { key: key.to_vec(), child: NodeId::ROOT, count };
        let Some(mut cursor) = self.descend(space, |node| Some(node.find(key)))? else {
            return self.put_root(space, 0, 1, &[new]);
        };
        let root = &cursor.path[0].node;
        let (next_id, mut ids) = (root.next_id(), root.next_id());
        // What becomes of the entry that the path goes through: its new count, and an entry behind it.
        let mut rising = None;
        let mut depth = cursor.path.len();
        while depth > 0 {
            depth -= 1;
            let Step { node, at } = &cursor.path[depth];
            let mut entries = node.entries();
            let inserted = match rising.take() {
                None => {
                    let at = if node.key(*at) <= key { at + 1 } else { *at };
                    entries.insert(at, new.clone());
                    at
                }
                Some((count, behind)) => {
                    entries[*at].count = count;
                    entries.insert(at + 1, behind);
                    at + 1
                }
            };
            let (id, level) = (node.id, node.level());
            if !fits(&entries) {
                let right = entries.split_off(division(entries.len(), inserted, space.leaves_room()));
                let (left_id, right_id) = if id == NodeId::ROOT {
                    ids += 2;
                    (NodeId(ids - 2), NodeId(ids - 1))
                } else {
                    ids += 1;
                    (id, NodeId(ids - 1))
                };
                self.put_node(space, left_id, level, &entries)?;
                self.put_node(space, right_id, level, &right)?;
                let behind = NodeEntry { key: right[0].key.clone(), child: right_id, count: total(&right) };
                if id == NodeId::ROOT {
                    let first = NodeEntry { key: entries[0].key.clone(), child: left_id, count: total(&entries) };
                    return self.put_root(space, level + 1, ids, &[first, behind]);
                }
                rising = Some((total(&entries), behind));
                continue;
            }
            if id == NodeId::ROOT {
                return self.put_root(space, level, ids, &entries);
            }
            self.put_node(space, id, level, &entries)?;
            break;
        }
        cursor.path.truncate(depth);
        self.change_counts(space, &cursor.path, count as i64)?;
        if ids == next_id {
            return Ok(());
        }
        self.put_next_id(space, &cursor.path[0].node, ids)
    }

    /// The entry is gone, and its elements.
    pub(in crate::command) fn remove(&self, space: &mut dyn WriteSpace, cursor: &Cursor) -> Outcome {
        let mut depth = cursor.path.len() - 1;
        let Step { node, at } = &cursor.path[depth];
        let (mut level, mut entries) = (node.level(), node.entries());
        entries.remove(*at);
        while depth > 0 {
            let node = &cursor.path[depth].node;
            let parent = &cursor.path[depth - 1];
            let mut above = parent.node.entries();
            if entries.is_empty() {
                self.drop_node(space, node.id)?;
                above.remove(parent.at);
            } else if entries.len() < ENTRIES_FEW && self.merge(space, parent, level, &mut above, &entries)? {
                // It is in the node beside it.
            } else {
                self.put_node(space, node.id, level, &entries)?;
                // What is above has the same entries.
                return self.change_counts(space, &cursor.path[..depth], -(cursor.count() as i64));
            }
            (level, entries, depth) = (level + 1, above, depth - 1);
        }
        let next_id = cursor.path[0].node.next_id();
        while level > 0 && entries.len() == 1 {
            let only = self.node(space, entries[0].child)?;
            self.drop_node(space, only.id)?;
            // It may have been written just now, and not as the path has it: it is read again.
            (level, entries) = (only.level(), only.entries());
        }
        if entries.is_empty() {
            level = 0;
        }
        self.put_root(space, level, next_id, &entries)
    }

    /// Puts `entries`, those of the child that `parent` goes through, together with those of a child beside it, if they are
    /// few enough; `above` is what the parent has then.
    fn merge(
        &self,
        space: &mut dyn WriteSpace,
        parent: &Step,
        level: u8,
        above: &mut Vec<NodeEntry>,
        entries: &[NodeEntry],
    ) -> Result<bool, Error> {
        let left_at = if parent.at > 0 { parent.at - 1 } else { parent.at };
        let Some(right_at) = Some(left_at + 1).filter(|at| *at < above.len()) else { return Ok(false) };
        let beside_at = if parent.at > 0 { left_at } else { right_at };
        let beside = self.node(space, above[beside_at].child)?.entries();
        let (mut left, mut right) = if parent.at > 0 { (beside, entries.to_vec()) } else { (entries.to_vec(), beside) };
        if level > 0 {
            // The bound of the first entry of a node is that of its parent's entry.
            right[0].key.clone_from(&above[right_at].key);
        }
        left.append(&mut right);
        if left.len() > MERGED_MAX || !fits(&left) {
            return Ok(false);
        }
        let gone = above.remove(right_at);
        self.drop_node(space, gone.child)?;
        self.put_node(space, above[left_at].child, level, &left)?;
        above[left_at].count = total(&left);
        Ok(true)
    }

    /// From the root to an entry; `choose` is given each node on the way, and names an entry of it.
    fn descend(
        &self,
        space: &mut dyn ReadSpace,
        mut choose: impl FnMut(&Node) -> Option<usize>,
    ) -> Result<Option<Cursor>, Error> {
        let Some(root) = self.read(space, NodeId::ROOT)? else { return Ok(None) };
        if root.len() == 0 {
            return Ok(None);
        }
        let mut path = Vec::with_capacity(usize::from(root.level()) + 1);
        let mut node = root;
        loop {
            let Some(at) = choose(&node) else { return Ok(None) };
            let level = node.level();
            let child = (level > 0).then(|| node.child(at));
            path.push(Step { node, at });
            let Some(child) = child else { return Ok(Some(Cursor { path })) };
            node = self.node(space, child)?;
            if node.level() + 1 != level || node.len() == 0 || path.len() == LEVELS_MAX {
                return Err(self.corrupt("node of a wrong level"));
            }
        }
    }

    /// Makes the way below `depth` anew, through the entry that `choose` names in each node.
    fn follow(
        &self,
        space: &mut dyn ReadSpace,
        cursor: &mut Cursor,
        depth: usize,
        choose: impl Fn(&Node) -> usize,
    ) -> Outcome {
        let depth_max = cursor.path.len();
        cursor.path.truncate(depth + 1);
        while cursor.path.len() < depth_max {
            let step = &cursor.path[cursor.path.len() - 1];
            let node = self.node(space, step.node.child(step.at))?;
            let at = choose(&node);
            cursor.path.push(Step { node, at });
        }
        Ok(())
    }

    fn change_counts(&self, space: &mut dyn WriteSpace, path: &[Step], by: i64) -> Outcome {
        for Step { node, at } in path.iter().rev() {
            let counts = node.counts_changed(*at, by);
            let counts = counts.ok_or_else(|| self.corrupt("count of fewer elements than are removed"))?;
            space.element_put(&self.rows, &node.id.counts_name(), &counts)?;
        }
        Ok(())
    }

    fn node(&self, space: &mut dyn ReadSpace, id: NodeId) -> Result<Node, Error> {
        self.read(space, id)?.ok_or_else(|| self.corrupt("node that is not there"))
    }

    fn read(&self, space: &mut dyn ReadSpace, id: NodeId) -> Result<Option<Node>, Error> {
        let Some(keys) = space.element_get(&self.rows, &id.keys_name())? else { return Ok(None) };
        let counts = space.element_get(&self.rows, &id.counts_name())?;
        let counts = counts.ok_or_else(|| self.corrupt("keys of a node without its counts"))?;
        Node::decode(id, keys, counts).map(Some).map_err(|why| self.corrupt(why))
    }

    fn put_root(&self, space: &mut dyn WriteSpace, level: u8, next_id: u32, entries: &[NodeEntry]) -> Outcome {
        self.put(space, NodeId::ROOT, &encode_keys(level, next_id, entries), entries)
    }

    fn put_node(&self, space: &mut dyn WriteSpace, id: NodeId, level: u8, entries: &[NodeEntry]) -> Outcome {
        self.put(space, id, &encode_keys(level, 0, entries), entries)
    }

    fn put(&self, space: &mut dyn WriteSpace, id: NodeId, keys: &[u8], entries: &[NodeEntry]) -> Outcome {
        space.element_put(&self.rows, &id.keys_name(), keys)?;
        Ok(space.element_put(&self.rows, &id.counts_name(), &encode_counts(entries))?)
    }

    fn put_next_id(&self, space: &mut dyn WriteSpace, root: &Node, next_id: u32) -> Outcome {
        let keys = encode_keys(root.level(), next_id, &root.entries());
        Ok(space.element_put(&self.rows, &root.id.keys_name(), &keys)?)
    }

    fn drop_node(&self, space: &mut dyn WriteSpace, id: NodeId) -> Outcome {
        space.element_delete(&self.rows, &id.keys_name())?;
        Ok(space.element_delete(&self.rows, &id.counts_name())?)
    }

    fn corrupt(&self, detail: &str) -> Error {
        corrupt_rows(&self.rows.prefix, detail)
    }
}

/// Where what is full is divided, a node or a leaf of `length` entries of which the one at `inserted` is new. In rising or
/// falling order of insertion, the part that is left behind is full. Then each later insertion into it would divide it, and write
/// its node's keys too: with `leaves_room` it is three quarters full.
pub(in crate::command) fn division(length: usize, inserted: usize, leaves_room: bool) -> usize {
    let moved = if leaves_room { (length / 4).max(1) } else { 1 };
    match inserted {
        0 => moved,
        last if last + 1 == length => length - moved,
        _ => length / 2,
    }
}
