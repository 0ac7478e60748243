//! The order of a large sorted set: leaves of members, and a counted tree over them.
//!
//! A leaf is a row that is named by its *bound*: at most the key of its first member, and above that of the last member
//! before it. The bound of the first leaf is empty. The tree (`command::counted`) has an entry for each leaf, with its bound
//! and how many members it has.
//!
//! Invariants: leaves are in the order of their bounds, and members in order within them. No leaf is empty. The tree's
//! counts are those of the leaves.

use super::leaf::{FILLED_MAX, Leaf, MEMBERS_FEW, MEMBERS_MAX, encode_leaf, fits, separator};
use super::scored::{Scored, order_of, sortable};
use crate::command::call::{Error, Outcome};
use crate::command::counted::{Counted, Cursor, division};
use crate::command::error::corrupt_rows;
use crate::{ReadSpace, Rows, WriteSpace};
use std::cell::RefCell;
use std::cmp::Ordering;

/// The part of a sorted set's rows that has its leaves.
const LEAVES: u8 = b'l';
/// The part that has the tree over them.
const INDEX: u8 = b'i';

/// A point between members: some are before it, the others after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut<'a> {
    pub(super) score: f64,
    pub(super) among: Among<'a>,
}

/// Where among the members of one score a cut is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Among<'a> {
    /// Before all of them.
    First,
    /// Before that member and those after it.
    Before(&'a [u8]),
    /// After that member and those before it.
    After(&'a [u8]),
    /// After all of them.
    Last,
}

impl Cut<'_> {
    /// Whether a member comes before the cut.
    pub(super) fn is_after(&self, scored: &Scored<'_>) -> bool {
        match order_of(scored.score, self.score) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => match self.among {
                Among::First => false,
                Among::Before(member) => scored.member < member,
                Among::After(member) => scored.member <= member,
                Among::Last => true,
            },
        }
    }

    /// Whether it is before every member that may be.
    pub(super) fn is_before_all(&self) -> bool {
        self.score == f64::NEG_INFINITY && self.among == Among::First
    }

    /// Whether it is behind every member that may be.
    pub(super) fn is_behind_all(&self) -> bool {
        self.score == f64::INFINITY && self.among == Among::Last
    }

    /// The leaf that the cut is in, or at the end of, is the last one whose bound is at most this.
    fn key(&self) -> Vec<u8> {
        match self.among {
            Among::Before(member) | Among::After(member) => Scored { member, score: self.score }.order_key(),
            Among::First => sortable(self.score).to_be_bytes().to_vec(),
            Among::Last => (sortable(self.score) + 1).to_be_bytes().to_vec(),
        }
    }
}

/// What is given the members of a walk, one after the other.
pub(super) type Visit<'v> = &'v mut dyn FnMut(Scored<'_>);

/// The leaves of a large sorted set.
#[derive(Clone)]
pub(super) struct Leaves {
    rows: Rows,
    index: Counted,
    /// Where the last cuts were found, for the walk from one of them on. Of reads of one snapshot alone.
    found: RefCell<Vec<Cursor>>,
}

/// The ends of a range are two.
const FOUND_MAX: usize = 2;

impl Leaves {
    /// Those of the sorted set whose rows these are.
    pub(super) fn of(rows: &Rows) -> Self {
        Self { rows: rows.part(LEAVES), index: Counted::new(rows.part(INDEX)), found: RefCell::default() }
    }

    /// How many members come before a cut.
    pub(super) fn rank(&self, space: &mut dyn ReadSpace, cut: &Cut<'_>) -> Result<u64, Error> {
        let Some(cursor) = self.index.find(space, &cut.key())? else { return Ok(0) };
        let leaf = self.read(space, &cursor)?;
        let within = self.members(&leaf)?.iter().take_while(|scored| cut.is_after(scored)).count();
        let rank = cursor.before() + within as u64;
        let mut found = self.found.borrow_mut();
        if !space.counts_reads() && found.len() < FOUND_MAX {
            found.push(cursor);
        }
        Ok(rank)
    }

    /// The leaf that has the n-th member, which a cut may have found before.
    fn nth(&self, space: &mut dyn ReadSpace, n: u64) -> Result<Option<Cursor>, Error> {
        let has = |cursor: &Cursor| n.checked_sub(cursor.before()).is_some_and(|within| within < cursor.count());
        let mut found = self.found.take();
        match found.iter().position(has) {
            Some(at) => Ok(Some(found.swap_remove(at))),
            None => self.index.nth(space, n),
        }
    }

    /// Shows members from number `from` on, up to `count` of them, in rising order or in falling order.
    pub(super) fn visit(
        &self,
        space: &mut dyn ReadSpace,
        from: u64,
        count: u64,
        falls: bool,
        visit: Visit<'_>,
    ) -> Outcome {
        let mut left = count;
        if left == 0 {
            return Ok(());
        }
        let Some(mut cursor) = self.nth(space, from)? else { return Ok(()) };
        let mut within = Some((from - cursor.before()) as usize);
        loop {
            let leaf = self.read(space, &cursor)?;
            let members = self.members(&leaf)?;
            let wanted = usize::try_from(left).unwrap_or(usize::MAX);
            let shown = if falls {
                let upto = within.take().map_or(members.len(), |at| at + 1).min(members.len());
                members[..upto].iter().rev().take(wanted).map(|scored| visit(*scored)).count()
            } else {
                members.iter().skip(within.take().unwrap_or(0)).take(wanted).map(|scored| visit(*scored)).count()
            };
            left -= shown as u64;
            let more = left > 0 && self.step(space, &mut cursor, falls)?;
            if !more {
                return Ok(());
            }
        }
    }

    fn step(&self, space: &mut dyn ReadSpace, cursor: &mut Cursor, falls: bool) -> Result<bool, Error> {
        if falls { self.index.previous(space, cursor) } else { self.index.next(space, cursor) }
    }

    /// Adds a member, which is not there.
    pub(super) fn insert(&self, space: &mut dyn WriteSpace, scored: Scored<'_>) -> Outcome {
        let key = scored.order_key();
        let Some(cursor) = self.cursor_for(space, &key)? else {
            self.put(space, b"", &[scored])?;
            return self.index.insert(space, b"", 1);
        };
        let leaf = self.read(space, &cursor)?;
        if let Some(row) = leaf.with(&scored, cursor.count()).map_err(|why| self.corrupt(why))? {
            space.element_put(&self.rows, cursor.key(), &row)?;
            return self.index.add(space, &cursor, 1);
        }
        let mut members = self.members(&leaf)?;
        let at = members.partition_point(|other| other.order(&scored) == Ordering::Less);
        members.insert(at, scored);
        if fits(&members, MEMBERS_MAX) {
            self.put(space, cursor.key(), &members)?;
            return self.index.add(space, &cursor, 1);
        }
        let right = members.split_off(division(members.len(), at));
        let bound = separator(&members[members.len() - 1], &right[0]);
        self.put(space, cursor.key(), &members)?;
        self.put(space, &bound, &right)?;
        self.index.add(space, &cursor, members.len() as i64 - cursor.count() as i64)?;
        self.index.insert(space, &bound, right.len() as u64)
    }

    /// Removes a member, which is there.
    pub(super) fn remove(&self, space: &mut dyn WriteSpace, scored: Scored<'_>) -> Outcome {
        let cursor = self.index.find(space, &scored.order_key())?.ok_or_else(|| self.lacks(&scored))?;
        let leaf = self.read(space, &cursor)?;
        self.take_out(space, &cursor, &leaf, &scored)
    }

    /// Removes a member of a leaf.
    fn take_out(&self, space: &mut dyn WriteSpace, cursor: &Cursor, leaf: &Leaf, scored: &Scored<'_>) -> Outcome {
        if cursor.count() <= MEMBERS_FEW as u64 {
            return self.put_fewer(space, cursor, &self.without(leaf, scored)?);
        }
        let row = leaf.without(scored).map_err(|why| self.corrupt(why))?.ok_or_else(|| self.lacks(scored))?;
        space.element_put(&self.rows, cursor.key(), &row)?;
        self.index.add(space, cursor, -1)
    }

    /// Moves a member to another score.
    pub(super) fn change(&self, space: &mut dyn WriteSpace, member: &[u8], from: f64, to: f64) -> Outcome {
        let (before, after) = (Scored { member, score: from }, Scored { member, score: to });
        let cursor = self.index.find(space, &before.order_key())?.ok_or_else(|| self.lacks(&before))?;
        let leaf = self.read(space, &cursor)?;
        let key = after.order_key();
        // Within its leaf no count changes.
        if cursor.key() <= &key[..] && cursor.next_key().is_some_and(|next| &key[..] < next) {
            let mut members = self.without(&leaf, &before)?;
            let at = members.partition_point(|other| other.order(&after) == Ordering::Less);
            members.insert(at, after);
            return self.put(space, cursor.key(), &members);
        }
        self.take_out(space, &cursor, &leaf, &before)?;
        self.insert(space, after)
    }

    /// The members of a leaf without one of them.
    fn without<'r>(&self, leaf: &'r Leaf, scored: &Scored<'_>) -> Result<Vec<Scored<'r>>, Error> {
        let mut members = self.members(leaf)?;
        let at = members.iter().position(|other| other.order(scored) == Ordering::Equal);
        members.remove(at.ok_or_else(|| self.lacks(scored))?);
        Ok(members)
    }

    /// Removes `count` members from number `from` on, each shown.
    pub(super) fn remove_range(&self, space: &mut dyn WriteSpace, from: u64, count: u64, visit: Visit<'_>) -> Outcome {
        let mut left = count as usize;
        while left > 0
            && let Some(cursor) = self.index.nth(space, from)?
        {
            let leaf = self.read(space, &cursor)?;
            let first = (from - cursor.before()) as usize;
            let removed = left.min((cursor.count() as usize).saturating_sub(first));
            // Those that stay are a leaf as they are.
            if cursor.count() as usize >= removed + MEMBERS_FEW {
                let row = leaf.without_range(first, removed, visit).map_err(|why| self.corrupt(why))?;
                let row = row.ok_or_else(|| self.corrupt("leaf of fewer members than are counted"))?;
                space.element_put(&self.rows, cursor.key(), &row)?;
                self.index.add(space, &cursor, -(removed as i64))?;
                left -= removed;
                continue;
            }
            let mut members = self.members(&leaf)?;
            let end = members.len().min(first + left);
            left -= end - first;
            members.drain(first..end).for_each(&mut *visit);
            self.put_fewer(space, &cursor, &members)?;
        }
        Ok(())
    }

    /// Makes the leaves of members that are in order. There are none before.
    pub(super) fn build(&self, space: &mut dyn WriteSpace, members: &[Scored<'_>]) -> Outcome {
        let (mut rest, mut bound) = (members, Vec::new());
        while !rest.is_empty() {
            let mut length = 1;
            while length < rest.len() && fits(&rest[..=length], FILLED_MAX) {
                length += 1;
            }
            self.put(space, &bound, &rest[..length])?;
            self.index.insert(space, &bound, length as u64)?;
            if length < rest.len() {
                bound = separator(&rest[length - 1], &rest[length]);
            }
            rest = &rest[length..];
        }
        Ok(())
    }

    /// The leaf that a key goes into; `None` if there are no leaves.
    fn cursor_for(&self, space: &mut dyn WriteSpace, key: &[u8]) -> Result<Option<Cursor>, Error> {
        let Some(cursor) = self.index.find(space, key)? else { return Ok(None) };
        if cursor.key() <= key {
            return Ok(Some(cursor));
        }
        // Leaves before it are gone: it is the first one now.
        let leaf =
            space.element_get(&self.rows, cursor.key())?.ok_or_else(|| self.corrupt("leaf that is not there"))?;
        space.element_delete(&self.rows, cursor.key())?;
        space.element_put(&self.rows, b"", &leaf)?;
        self.index.remove(space, &cursor)?;
        self.index.insert(space, b"", cursor.count())?;
        self.index.find(space, key)
    }

    /// Writes what is left of a leaf.
    fn put_fewer(&self, space: &mut dyn WriteSpace, cursor: &Cursor, members: &[Scored<'_>]) -> Outcome {
        if members.is_empty() {
            space.element_delete(&self.rows, cursor.key())?;
            return self.index.remove(space, cursor);
        }
        if members.len() < MEMBERS_FEW && self.merge(space, cursor, members)? {
            return Ok(());
        }
        self.put(space, cursor.key(), members)?;
        self.index.add(space, cursor, members.len() as i64 - cursor.count() as i64)
    }

    /// Puts what is left of a leaf together with the next one, if they are few enough.
    fn merge(&self, space: &mut dyn WriteSpace, cursor: &Cursor, members: &[Scored<'_>]) -> Result<bool, Error> {
        let mut next = cursor.clone();
        if !self.index.next(space, &mut next)? || members.len() as u64 + next.count() > FILLED_MAX as u64 {
            return Ok(false);
        }
        let leaf = self.read(space, &next)?;
        let merged = [members, &self.members(&leaf)?[..]].concat();
        if !fits(&merged, FILLED_MAX) {
            return Ok(false);
        }
        self.put(space, cursor.key(), &merged)?;
        space.element_delete(&self.rows, next.key())?;
        self.index.remove(space, &next)?;
        let cursor = self.index.find(space, cursor.key())?.ok_or_else(|| self.corrupt("leaf without an entry"))?;
        self.index.add(space, &cursor, merged.len() as i64 - cursor.count() as i64)?;
        Ok(true)
    }

    fn read(&self, space: &mut dyn ReadSpace, cursor: &Cursor) -> Result<Leaf, Error> {
        let row = space.element_get(&self.rows, cursor.key())?;
        row.map(Leaf::new).ok_or_else(|| self.corrupt("leaf that is not there"))
    }

    fn members<'r>(&self, leaf: &'r Leaf) -> Result<Vec<Scored<'r>>, Error> {
        leaf.members().map_err(|why| self.corrupt(why))
    }

    fn put(&self, space: &mut dyn WriteSpace, bound: &[u8], members: &[Scored<'_>]) -> Outcome {
        Ok(space.element_put(&self.rows, bound, &encode_leaf(members))?)
    }

    fn lacks(&self, scored: &Scored<'_>) -> Error {
        self.corrupt(&format!("member that no leaf has: {}", scored.member.escape_ascii()))
    }

    fn corrupt(&self, detail: &str) -> Error {
        corrupt_rows(&self.rows.prefix, detail)
    }
}
