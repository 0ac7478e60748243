//! A large list, decoded: what changes or reads its tree.
//!
//! Invariants: `count` = elements of both runs + those below the edges. A run at an end is no longer than a leaf. A leaf or
//! branch that would be empty does not exist. Where something is inserted in the middle, a leaf or branch that has become
//! too large is cut into several; removal leaves what remains where it is.

use super::edges::{Child, EdgePlace, Edges, RowNumber, branch_of, children_of, total};
use super::ends::{Ends, head_of};
use super::run::{Buffer, Run, Side, cut, fills_a_leaf};
use super::trimmed::Trimmed;
use crate::command::call::{Error, Outcome};
use crate::command::error::corrupt;
use crate::{Kind, ReadSpace, Record, Rows, Type, WriteSpace};
use storage::Slice;
use vocab::limits::{LIST_BRANCH_CHILDREN, LIST_EDGE_CHILDREN_MAX};
use vocab::{Malformed, put_bytes, put_varint};

/// How many branches that were trimmed off a leaf's coming or going removes.
const BRANCHES_IN_PASSING: usize = 2;

/// A change of a run of elements.
pub(super) enum Change<'v> {
    /// The element becomes this one.
    Set(&'v [u8]),
    /// This one comes before it.
    Insert(&'v [u8]),
    /// Those of the run with these indexes go, it among them. The indexes rise.
    Remove(&'v [u64]),
}

impl<'v> Change<'v> {
    /// Changes the element at `index`; the first one has the index `start`.
    pub(super) fn apply(&self, elements: &mut Vec<&'v [u8]>, start: u64, index: u64) {
        let at = (index - start) as usize;
        match self {
            Self::Set(element) => elements[at] = element,
            Self::Insert(element) => elements.insert(at, element),
            Self::Remove(indexes) => {
                let mut index = start;
                elements.retain(|_| {
                    index += 1;
                    indexes.binary_search(&(index - 1)).is_err()
                });
            }
        }
    }
}

/// See the module's documentation.
pub(in crate::command) struct Large<'k> {
    key: &'k [u8],
    expire_at_ms: Option<u64>,
    /// Their count is that of the elements.
    rows: Rows,
    next_row: u64,
    left: Buffer,
    right: Buffer,
    edges: Edges,
    trimmed: Trimmed,
}

/// Elements that lie together.
pub(in crate::command) struct Leaf {
    /// The index of the first of them.
    pub(super) start: u64,
    /// A run with its count.
    pub(super) payload: Slice,
}

/// A branch on the way to a leaf.
struct Step {
    row: RowNumber,
    children: Vec<Child>,
    /// The child that the way goes on with.
    at: usize,
}

/// Where a run of elements is.
enum Home {
    /// At an end of the list.
    End(Side),
    /// In a leaf.
    Leaf {
        edge: EdgePlace,
        /// From the edge downwards.
        steps: Vec<Step>,
        row: RowNumber,
    },
}

struct ElementPlace {
    home: Home,
    /// The index of the run's first element.
    start: u64,
}

/// The branches that were read last, one a level: leaves that follow one another are mostly below the same ones.
#[derive(Default)]
pub(in crate::command) struct Branches(Vec<Option<(RowNumber, Vec<Child>)>>);

impl Branches {
    fn get(&self, level: usize, row: RowNumber) -> Option<&Vec<Child>> {
        self.0.get(level)?.as_ref().filter(|(kept, _)| *kept == row).map(|(_, children)| children)
    }

    fn keep(&mut self, level: usize, row: RowNumber, children: Vec<Child>) {
        if self.0.len() <= level {
            self.0.resize_with(level + 1, || None);
        }
        self.0[level] = Some((row, children));
    }
}

impl<'k> Large<'k> {
    /// An empty list in a place of its own.
    pub(in crate::command) fn new(
        space: &mut dyn WriteSpace,
        key: &'k [u8],
        expire_at_ms: Option<u64>,
    ) -> Result<Self, Error> {
        let rows = space.new_rows(key)?;
        let (left, right, edges, trimmed) = Default::default();
        Ok(Self { key, expire_at_ms, rows, next_row: 1, left, right, edges, trimmed })
    }

    /// The list whose record was read at `key`.
    pub(super) fn of(key: &'k [u8], record: &Record) -> Result<Self, Error> {
        let view = record.view();
        let rows = view.rows(key).ok_or_else(|| corrupt(key, "record of a large list without its rows"))?;
        Self::parse(key, view.expire_at_ms, rows, view.payload).map_err(|why| corrupt(key, &why.to_string()))
    }

    fn parse(key: &'k [u8], expire_at_ms: Option<u64>, rows: Rows, payload: &[u8]) -> Result<Self, Malformed> {
        let ends = Ends::parse(payload)?;
        let mut reader = vocab::Reader::new(ends.rest);
        let (edges, trimmed) = (Edges::read(&mut reader)?, Trimmed::read(&mut reader)?);
        reader.end()?;
        let (left, right) = (Buffer::of(ends.left), Buffer::of(ends.right));
        Ok(Self { key, expire_at_ms, rows, next_row: ends.next_row, left, right, edges, trimmed })
    }

    pub(in crate::command) fn count(&self) -> u64 {
        self.rows.count
    }

    pub(super) fn expire_at_ms(&self) -> Option<u64> {
        self.expire_at_ms
    }

    /// Writes the record; without elements there is none.
    pub(super) fn save(&self, space: &mut dyn WriteSpace) -> Outcome {
        if self.rows.count > 0 {
            let record = self.record(space.version());
            return Ok(space.put(self.key, record)?);
        }
        if self.edges.is_empty() && self.trimmed.is_empty() {
            // No row is left to be dropped.
            return Ok(space.give_up(self.key)?);
        }
        space.delete(self.key)?;
        Ok(())
    }

    /// The record of the list as it is.
    pub(in crate::command) fn record(&self, version: u64) -> Record {
        let mut payload = head_of(&self.rows);
        put_varint(&mut payload, self.next_row);
        for buffer in [&self.left, &self.right] {
            put_varint(&mut payload, buffer.count() as u64);
            put_bytes(&mut payload, buffer.run().bytes);
        }
        self.edges.put(&mut payload);
        self.trimmed.put(&mut payload);
        Record::stamped_new(version, Kind::large(Type::List), self.expire_at_ms, &[&payload])
    }

    pub(in crate::command) fn push(&mut self, space: &mut dyn WriteSpace, side: Side, element: &[u8]) -> Outcome {
        self.rows.count += 1;
        if !self.buffer(side).has_room_for(element) {
            self.flush(space, side)?;
        }
        if fills_a_leaf(element) {
            let mut leaf = Buffer::default();
            leaf.push(side, element);
            let child = self.new_leaf(space, &leaf)?;
            return self.push_child(space, 0, side, child);
        }
        self.buffer_mut(side).push(side, element);
        Ok(())
    }

    pub(super) fn pop(&mut self, space: &mut dyn WriteSpace, side: Side) -> Result<Option<Vec<u8>>, Error> {
        if self.buffer(side).count() == 0 {
            self.refill(space, side)?;
        }
        let Some(element) = self.buffer_mut(side).pop(side).map_err(|why| self.malformed(why))? else {
            return Ok(None);
        };
        self.rows.count -= 1;
        Ok(Some(element))
    }

    /// The elements that lie together with the one at `index`, which there is.
    pub(super) fn leaf(&self, space: &mut dyn ReadSpace, index: u64, branches: &mut Branches) -> Result<Leaf, Error> {
        let place = self.find(space, index, branches)?;
        let payload = self.payload(space, &place.home)?;
        Ok(Leaf { start: place.start, payload })
    }

    /// Changes the run of elements that has the one at `index`, which there is. Answers how many elements it had before, and
    /// has now.
    pub(super) fn edit(
        &mut self,
        space: &mut dyn WriteSpace,
        index: u64,
        change: &Change<'_>,
    ) -> Result<(usize, usize), Error> {
        let place = self.find(space, index, &mut Branches::default())?;
        let payload = self.payload(space, &place.home)?;
        let run = Run::parse(&payload).map_err(|why| self.malformed(why))?;
        let mut elements = run.elements().map_err(|why| self.malformed(why))?;
        let before = elements.len();
        change.apply(&mut elements, place.start, index);
        let (runs, after) = (cut(&elements), elements.len());
        self.rows.count = self.rows.count - before as u64 + after as u64;
        match place.home {
            Home::End(side) => self.store_end(space, side, runs)?,
            Home::Leaf { edge, steps, row } => self.store_leaf(space, edge, steps, row, &runs)?,
        }
        Ok((before, after))
    }

    /// Removes so many elements at one end: at most all. Of what is in branches that go as a whole, rows stay for now.
    pub(super) fn trim(&mut self, space: &mut dyn WriteSpace, side: Side, count: u64) -> Outcome {
        let mut left = count;
        self.rows.count -= count;
        loop {
            let at_end = self.buffer(side).count() as u64;
            if left <= at_end {
                let dropped = self.buffer_mut(side).drop_from(side, left as usize);
                return dropped.map_err(|why| self.malformed(why));
            }
            left -= at_end;
            *self.buffer_mut(side) = Buffer::default();
            match self.edges.pop(side) {
                None if self.buffer(side.other()).count() == 0 => return Err(self.wrong_count()),
                None => *self.buffer_mut(side) = std::mem::take(self.buffer_mut(side.other())),
                Some((0, leaf)) if leaf.count <= left => {
                    left -= leaf.count;
                    self.delete_row(space, leaf.row)?;
                }
                Some((0, leaf)) => self.open_leaf(space, side, leaf)?,
                Some((level, branch)) if branch.count <= left => {
                    left -= branch.count;
                    self.note_trimmed(space, level, branch.row)?;
                }
                Some((level, branch)) => self.open_branch(space, level, side, branch)?,
            }
        }
    }

    /// Removes rows that were trimmed off: those of so many branches.
    pub(super) fn remove_trimmed(&mut self, space: &mut dyn WriteSpace, branches_max: usize) -> Outcome {
        for _ in 0..branches_max {
            let Some((level, row)) = self.trimmed.pop() else { return Ok(()) };
            let children = self.read_branch(space, row)?;
            self.delete_row(space, row)?;
            for child in children {
                if level == 1 {
                    self.delete_row(space, child.row)?;
                } else {
                    self.note_trimmed(space, level - 1, child.row)?;
                }
            }
        }
        Ok(())
    }

    fn note_trimmed(&mut self, space: &mut dyn WriteSpace, level: usize, row: RowNumber) -> Outcome {
        let (mut level, mut row) = (level, row);
        while let Some(rows) = self.trimmed.push(level, row) {
            let children: Vec<Child> = rows.into_iter().map(|row| Child { row, count: 0 }).collect();
            level += 1;
            row = self.new_row(space, &branch_of(&children))?;
        }
        Ok(())
    }

    /// The run at an end becomes a leaf.
    fn flush(&mut self, space: &mut dyn WriteSpace, side: Side) -> Outcome {
        let buffer = std::mem::take(self.buffer_mut(side));
        if buffer.count() == 0 {
            return Ok(());
        }
        self.remove_trimmed(space, BRANCHES_IN_PASSING)?;
        let child = self.new_leaf(space, &buffer)?;
        self.push_child(space, 0, side, child)
    }

    /// The run at an end is that of the next leaf, or the other end's if there is none.
    fn refill(&mut self, space: &mut dyn WriteSpace, side: Side) -> Outcome {
        self.remove_trimmed(space, BRANCHES_IN_PASSING)?;
        while let Some((level, child)) = self.edges.pop(side) {
            if level == 0 {
                return self.open_leaf(space, side, child);
            }
            self.open_branch(space, level, side, child)?;
        }
        *self.buffer_mut(side) = std::mem::take(self.buffer_mut(side.other()));
        Ok(())
    }

    fn open_leaf(&mut self, space: &mut dyn WriteSpace, side: Side, leaf: Child) -> Outcome {
        let payload = self.row(space, leaf.row)?;
        let run = Run::parse(&payload).map_err(|why| self.malformed(why))?;
        if run.count as u64 != leaf.count {
            return Err(corrupt(self.key, "leaf of a list with another count than what is above it says"));
        }
        *self.buffer_mut(side) = Buffer::of(run);
        self.delete_row(space, leaf.row)
    }

    fn open_branch(&mut self, space: &mut dyn WriteSpace, level: usize, side: Side, branch: Child) -> Outcome {
        let children = self.read_branch(space, branch.row)?;
        self.delete_row(space, branch.row)?;
        self.edges.open(level, side, children);
        Ok(())
    }

    /// Puts a child at the outer end of a level, and branches above it where a level is full.
    fn push_child(&mut self, space: &mut dyn WriteSpace, level: usize, side: Side, child: Child) -> Outcome {
        let overflow = self.edges.push(level, side, child);
        self.raise(space, level, side, overflow)
    }

    /// Makes a branch of children that are too many for the record, as often as a level has too many.
    fn raise(&mut self, space: &mut dyn WriteSpace, level: usize, side: Side, overflow: Option<Vec<Child>>) -> Outcome {
        let mut overflow = overflow;
        while let Some(children) = overflow {
            let branch = Child { row: self.new_row(space, &branch_of(&children))?, count: total(&children) };
            self.push_child(space, level + 1, side, branch)?;
            overflow = self.edges.overflow(level, side);
        }
        Ok(())
    }

    /// Writes the runs that take the place of the one at an end: the outermost stays there.
    fn store_end(&mut self, space: &mut dyn WriteSpace, side: Side, mut runs: Vec<Buffer>) -> Outcome {
        if side == Side::Left {
            runs.reverse();
        }
        let outermost = runs.pop().unwrap_or_default();
        *self.buffer_mut(side) = Buffer::default();
        for run in &runs {
            let child = self.new_leaf(space, run)?;
            self.push_child(space, 0, side, child)?;
        }
        *self.buffer_mut(side) = outermost;
        if self.buffer(side).is_overlong() { self.flush(space, side) } else { Ok(()) }
    }

    /// Writes the runs that take the place of a leaf, and what is above it anew.
    fn store_leaf(
        &mut self,
        space: &mut dyn WriteSpace,
        edge: EdgePlace,
        steps: Vec<Step>,
        row: RowNumber,
        runs: &[Buffer],
    ) -> Outcome {
        let mut children = Vec::with_capacity(runs.len());
        for (i, run) in runs.iter().enumerate() {
            if i == 0 {
                self.put_row(space, row, &run.payload())?;
                children.push(Child { row, count: run.count() as u64 });
            } else {
                children.push(self.new_leaf(space, run)?);
            }
        }
        if children.is_empty() {
            self.delete_row(space, row)?;
        }
        for step in steps.into_iter().rev() {
            let mut all = step.children;
            all.splice(step.at..=step.at, children);
            children = self.store_branch(space, step.row, &all)?;
        }
        let overflow = self.edges.replace(edge, children);
        self.raise(space, edge.level, edge.side, overflow)
    }

    /// Writes a branch as one row, or several, or none.
    fn store_branch(
        &mut self,
        space: &mut dyn WriteSpace,
        row: RowNumber,
        children: &[Child],
    ) -> Result<Vec<Child>, Error> {
        if children.is_empty() {
            self.delete_row(space, row)?;
            return Ok(Vec::new());
        }
        let parts = children.len().div_ceil(LIST_EDGE_CHILDREN_MAX);
        let mut stored = Vec::with_capacity(parts);
        for (i, part) in children.chunks(children.len().div_ceil(parts)).enumerate() {
            let bytes = branch_of(part);
            let row = if i == 0 {
                self.put_row(space, row, &bytes)?;
                row
            } else {
                self.new_row(space, &bytes)?
            };
            stored.push(Child { row, count: total(part) });
        }
        Ok(stored)
    }

    fn find(&self, space: &mut dyn ReadSpace, index: u64, branches: &mut Branches) -> Result<ElementPlace, Error> {
        debug_assert!(index < self.rows.count);
        let at_left = self.left.count() as u64;
        if index < at_left {
            return Ok(ElementPlace { home: Home::End(Side::Left), start: 0 });
        }
        let Some((edge, child, before)) = self.edges.find(index - at_left) else {
            let start = self.rows.count - self.right.count() as u64;
            if index < start {
                return Err(self.wrong_count());
            }
            return Ok(ElementPlace { home: Home::End(Side::Right), start });
        };
        let (mut child, mut start, mut steps) = (child, at_left + before, Vec::new());
        for level in (0..edge.level).rev() {
            let children = match branches.get(level, child.row) {
                Some(children) => children.clone(),
                None => {
                    let children = self.read_branch(space, child.row)?;
                    branches.keep(level, child.row, children.clone());
                    children
                }
            };
            let mut found = None;
            for (at, below) in children.iter().enumerate() {
                if index - start < below.count {
                    found = Some((at, *below));
                    break;
                }
                start += below.count;
            }
            let (at, below) = found.ok_or_else(|| self.wrong_count())?;
            steps.push(Step { row: child.row, children, at });
            child = below;
        }
        Ok(ElementPlace { home: Home::Leaf { edge, steps, row: child.row }, start })
    }

    fn payload(&self, space: &mut dyn ReadSpace, home: &Home) -> Result<Slice, Error> {
        match home {
            Home::End(side) => Ok(Slice::from(self.buffer(*side).payload())),
            Home::Leaf { row, .. } => self.row(space, *row),
        }
    }

    fn buffer(&self, side: Side) -> &Buffer {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }

    fn buffer_mut(&mut self, side: Side) -> &mut Buffer {
        match side {
            Side::Left => &mut self.left,
            Side::Right => &mut self.right,
        }
    }

    fn row(&self, space: &mut dyn ReadSpace, row: RowNumber) -> Result<Slice, Error> {
        space.element_get(&self.rows, &row.name())?.ok_or_else(|| corrupt(self.key, "list with a row that is gone"))
    }

    fn read_branch(&self, space: &mut dyn ReadSpace, row: RowNumber) -> Result<Vec<Child>, Error> {
        let bytes = self.row(space, row)?;
        children_of(&bytes).map_err(|why| self.malformed(why))
    }

    fn new_leaf(&mut self, space: &mut dyn WriteSpace, run: &Buffer) -> Result<Child, Error> {
        Ok(Child { row: self.new_row(space, &run.payload())?, count: run.count() as u64 })
    }

    fn new_row(&mut self, space: &mut dyn WriteSpace, bytes: &[u8]) -> Result<RowNumber, Error> {
        let row = RowNumber(self.next_row);
        self.next_row += 1;
        self.put_row(space, row, bytes)?;
        Ok(row)
    }

    fn put_row(&self, space: &mut dyn WriteSpace, row: RowNumber, bytes: &[u8]) -> Outcome {
        Ok(space.element_put(&self.rows, &row.name(), bytes)?)
    }

    fn delete_row(&self, space: &mut dyn WriteSpace, row: RowNumber) -> Outcome {
        Ok(space.element_delete(&self.rows, &row.name())?)
    }

    /// How many rows can be reached from the record.
    #[cfg(test)]
    pub(super) fn rows_reached(&self, space: &mut dyn ReadSpace) -> Result<usize, Error> {
        let mut left = self.trimmed.all();
        left.extend(self.edges.all());
        let mut reached = 0;
        while let Some((level, row)) = left.pop() {
            reached += 1;
            if level > 0 {
                let children = self.read_branch(space, row)?;
                left.extend(children.iter().map(|child| (level - 1, child.row)));
            }
        }
        Ok(reached)
    }

    fn wrong_count(&self) -> Error {
        corrupt(self.key, "list whose elements are not as many as its count")
    }

    fn malformed(&self, why: Malformed) -> Error {
        corrupt(self.key, &why.to_string())
    }
}

const _: () = assert!(LIST_BRANCH_CHILDREN < LIST_EDGE_CHILDREN_MAX);
