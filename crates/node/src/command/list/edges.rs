//! The tree of a large list above its leaves, as far as the list's record has it.
//!
//! A *leaf* is a row with a run of elements. A *branch* is a row that refers to leaves, or to branches one level below it,
//! and says how many elements each has. Between the runs at its two ends, which its record holds, a list is
//!
//! ```text
//! left of level 0, left of level 1, … left of the highest, right of the highest, … right of level 1, right of level 0
//! ```
//! where level 0 refers to leaves and each level above to branches of the level below. What is pushed and popped at an end
//! changes the lowest level alone, and one above it each time a level is full or empty: rows in the middle stay as they are.

use super::run::Side;
use vocab::limits::{LIST_BRANCH_CHILDREN, LIST_EDGE_CHILDREN_MAX};
use vocab::{Malformed, Reader, put_varint};

/// The number of a row of a large list: used once in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowNumber(pub(super) u64);

impl RowNumber {
    /// What follows the list's prefix in the row's tree key.
    pub(super) fn name(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

/// A leaf or a branch, as what is above it knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) row: RowNumber,
    /// How many elements are in it, or below it.
    pub(super) count: u64,
}

/// Reads what a branch refers to.
pub(super) fn children_of(bytes: &[u8]) -> Result<Vec<Child>, Malformed> {
    let mut reader = Reader::new(bytes);
    let children = read_children(&mut reader)?;
    reader.end()?;
    Ok(children)
}

fn read_children(reader: &mut Reader<'_>) -> Result<Vec<Child>, Malformed> {
    let count = reader.count(2)?;
    let mut children = Vec::with_capacity(count);
    for _ in 0..count {
        children.push(Child { row: RowNumber(reader.varint()?), count: reader.varint()? });
    }
    Ok(children)
}

/// What a branch is stored as.
pub(super) fn branch_of(children: &[Child]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_children(&mut bytes, children);
    bytes
}

fn put_children(bytes: &mut Vec<u8>, children: &[Child]) {
    put_varint(bytes, children.len() as u64);
    for child in children {
        put_varint(bytes, child.row.0);
        put_varint(bytes, child.count);
    }
}

/// How many elements are below all of these.
pub(super) fn total(children: &[Child]) -> u64 {
    children.iter().map(|child| child.count).sum()
}

/// Where a child is among those that the record refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EdgePlace {
    pub(super) level: usize,
    pub(super) side: Side,
    pub(super) at: usize,
}

#[derive(Clone, Debug, Default)]
struct Level {
    left: Vec<Child>,
    right: Vec<Child>,
}

impl Level {
    fn side(&self, side: Side) -> &Vec<Child> {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }

    fn side_mut(&mut self, side: Side) -> &mut Vec<Child> {
        match side {
            Side::Left => &mut self.left,
            Side::Right => &mut self.right,
        }
    }
}

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct Edges {
    levels: Vec<Level>,
}

impl Edges {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = reader.count(2)?;
        let mut levels = Vec::with_capacity(count);
        for _ in 0..count {
            levels.push(Level { left: read_children(reader)?, right: read_children(reader)? });
        }
        Ok(Self { levels })
    }

    pub(super) fn put(&self, bytes: &mut Vec<u8>) {
        let is_used = |level: &Level| !level.left.is_empty() || !level.right.is_empty();
        let used = self.levels.iter().rposition(is_used).map_or(0, |last| last + 1);
        put_varint(bytes, used as u64);
        for level in &self.levels[..used] {
            put_children(bytes, &level.left);
            put_children(bytes, &level.right);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.levels.iter().all(|level| level.left.is_empty() && level.right.is_empty())
    }

    /// Puts a child at the outer end of a level. Answers the children that have become too many for the record, which are to
    /// be a branch one level above.
    pub(super) fn push(&mut self, level: usize, side: Side, child: Child) -> Option<Vec<Child>> {
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Level::default);
        }
        let children = self.levels[level].side_mut(side);
        match side {
            Side::Left => children.insert(0, child),
            Side::Right => children.push(child),
        }
        self.overflow(level, side)
    }

    /// The inner children of a level that has too many.
    pub(super) fn overflow(&mut self, level: usize, side: Side) -> Option<Vec<Child>> {
        let children = self.levels[level].side_mut(side);
        if children.len() <= LIST_EDGE_CHILDREN_MAX {
            return None;
        }
        Some(match side {
            Side::Left => children.split_off(children.len() - LIST_BRANCH_CHILDREN),
            Side::Right => children.drain(..LIST_BRANCH_CHILDREN).collect(),
        })
    }

    /// Takes the child that is next to the run at that end, and its level; `None` if there is none.
    pub(super) fn pop(&mut self, side: Side) -> Option<(usize, Child)> {
        if let Some(level) = self.levels.iter().position(|level| !level.side(side).is_empty()) {
            let children = self.levels[level].side_mut(side);
            return Some((level, if side == Side::Left { children.remove(0) } else { children.pop()? }));
        }
        // The other side's innermost.
        let level = self.levels.iter().rposition(|level| !level.side(side.other()).is_empty())?;
        let children = self.levels[level].side_mut(side.other());
        Some((level, if side == Side::Left { children.remove(0) } else { children.pop()? }))
    }

    /// The children of a branch of that level that was popped take its place.
    pub(super) fn open(&mut self, level: usize, side: Side, children: Vec<Child>) {
        let below = self.levels[level - 1].side_mut(side);
        debug_assert!(below.is_empty(), "what is popped is the outermost");
        *below = children;
    }

    /// Puts other children in the place of one.
    pub(super) fn replace(&mut self, place: EdgePlace, children: Vec<Child>) -> Option<Vec<Child>> {
        self.levels[place.level].side_mut(place.side).splice(place.at..=place.at, children);
        self.overflow(place.level, place.side)
    }

    /// The child that has the element at `index`, counted from the first one below these, and how many are before it.
    pub(super) fn find(&self, index: u64) -> Option<(EdgePlace, Child, u64)> {
        let lefts = self.levels.iter().enumerate().map(|(level, found)| (level, Side::Left, &found.left));
        let rights = self.levels.iter().enumerate().rev().map(|(level, found)| (level, Side::Right, &found.right));
        let mut before = 0;
        for (level, side, children) in lefts.chain(rights) {
            for (at, child) in children.iter().enumerate() {
                if index - before < child.count {
                    return Some((EdgePlace { level, side, at }, *child, before));
                }
                before += child.count;
            }
        }
        None
    }

    /// All children, with their levels.
    #[cfg(test)]
    pub(super) fn all(&self) -> Vec<(usize, RowNumber)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(i, level)| level.left.iter().chain(&level.right).map(move |child| (i, child.row))).collect()
    }
}
