//! A list as it is stored, in either form, and how it is read.

use super::ends::Ends;
use super::large::{Branches, Large, Leaf};
use super::run::{Run, Side, element_bytes};
use crate::command::args;
use crate::command::call::Error;
use crate::command::error::corrupt;
use crate::{ReadSpace, Record, Type};
use vocab::limits::{STREAM_STEP_BYTES_SOFT, STREAM_STEP_ITEMS_MAX};
use vocab::{put_bytes, put_varint};

/// The list at a key.
pub(crate) struct List<'k> {
    pub(super) key: &'k [u8],
    pub(super) form: Form<'k>,
}

/// Where the elements of a list are.
pub(super) enum Form<'k> {
    /// In the record.
    Small(Record),
    /// In the record and in rows of their own.
    Large(Box<Large<'k>>),
}

/// The record of the list at `key`, if there is one.
pub(super) fn record_of(space: &mut dyn ReadSpace, key: &[u8]) -> Result<Option<Record>, Error> {
    let record = space.get(key)?;
    if record.as_ref().is_some_and(|record| record.view().kind.ty != Type::List) {
        return Err(args::WRONGTYPE.into());
    }
    Ok(record)
}

/// How many elements the list of a record has.
pub(super) fn count_of(key: &[u8], record: &Record) -> Result<u64, Error> {
    let view = record.view();
    let count = if view.kind.is_large() {
        Ends::parse(view.payload).map(|ends| ends.count)
    } else {
        Run::parse(view.payload).map(|run| run.count as u64)
    };
    count.map_err(|why| corrupt(key, &why.to_string()))
}

impl<'k> List<'k> {
    /// The list at `key`, if there is one.
    pub(crate) fn load(space: &mut dyn ReadSpace, key: &'k [u8]) -> Result<Option<Self>, Error> {
        record_of(space, key)?.map(|record| Self::of(key, record)).transpose()
    }

    /// The list whose record was read at `key`.
    pub(crate) fn of(key: &'k [u8], record: Record) -> Result<Self, Error> {
        let view = record.view();
        if view.kind.ty != Type::List {
            return Err(args::WRONGTYPE.into());
        }
        let form =
            if view.kind.is_large() { Form::Large(Box::new(Large::of(key, &record)?)) } else { Form::Small(record) };
        Ok(Self { key, form })
    }

    /// How many elements there are.
    pub(crate) fn count(&self) -> Result<u64, Error> {
        match &self.form {
            Form::Small(record) => count_of(self.key, record),
            Form::Large(large) => Ok(large.count()),
        }
    }

    pub(super) fn expire_at_ms(&self) -> Option<u64> {
        match &self.form {
            Form::Small(record) => record.view().expire_at_ms,
            Form::Large(large) => large.expire_at_ms(),
        }
    }

    /// The elements that lie together with the one at `index`, which there is.
    fn leaf(&self, space: &mut dyn ReadSpace, index: u64, branches: &mut Branches) -> Result<Leaf, Error> {
        match &self.form {
            Form::Small(record) => {
                let head = record.bytes().len() - record.view().payload.len();
                Ok(Leaf { start: 0, payload: storage::tail_of(record.bytes().clone(), head) })
            }
            Form::Large(large) => large.leaf(space, index, branches),
        }
    }

    /// The place of the element that an index names, negative ones counting from the end; `None` if there is none.
    pub(super) fn place_of(&self, index: i64) -> Result<Option<u64>, Error> {
        let count = self.count()?;
        let place = if index < 0 { count.checked_sub(index.unsigned_abs()) } else { Some(index.unsigned_abs()) };
        Ok(place.filter(|place| *place < count))
    }

    /// Gives the element at `index` to `visit`, if there is one.
    pub(super) fn get<T>(
        &self,
        space: &mut dyn ReadSpace,
        index: i64,
        visit: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, Error> {
        let Some(index) = self.place_of(index)? else { return Ok(None) };
        if let Form::Small(record) = &self.form {
            let run = Run::parse(record.view().payload).map_err(|why| corrupt(self.key, &why.to_string()))?;
            let element = run.get(index as usize).map_err(|why| corrupt(self.key, &why.to_string()))?;
            return Ok(element.map(visit));
        }
        let leaf = self.leaf(space, index, &mut Branches::default())?;
        let run = Run::parse(&leaf.payload).map_err(|why| corrupt(self.key, &why.to_string()))?;
        let element = run.get((index - leaf.start) as usize).map_err(|why| corrupt(self.key, &why.to_string()))?;
        Ok(element.map(visit))
    }

    /// A walk over `count` elements from `first` on, towards the other end than `from`.
    pub(crate) fn walk(&self, first: u64, count: u64, from: Side) -> Walk {
        Walk { next: first, left: count, from, branches: Branches::default() }
    }

    /// About how many bytes all elements take, by the first ones.
    pub(in crate::command) fn about_bytes(&self, space: &mut dyn ReadSpace, samples: u64) -> Result<u64, Error> {
        let (count, mut sampled, mut bytes) = (self.count()?, 0, 0);
        let mut walk = self.walk(0, count.min(samples), Side::Left);
        while !walk.is_over() {
            walk.step(self, space, |_, element| {
                (sampled, bytes) = (sampled + 1, bytes + element_bytes(element) as u64);
                Ok(true)
            })?;
        }
        Ok(bytes.saturating_mul(count) / sampled.max(1))
    }

    /// All elements as the payload of a small list, however many; `None` if that is longer than `bytes_max`.
    pub(in crate::command) fn packed_whole(
        &self,
        space: &mut dyn ReadSpace,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, Error> {
        let count = self.count()?;
        let mut payload = Vec::new();
        put_varint(&mut payload, count);
        let mut walk = self.walk(0, count, Side::Left);
        while !walk.is_over() && payload.len() <= bytes_max {
            walk.step(self, space, |_, element| {
                put_bytes(&mut payload, element);
                Ok(payload.len() <= bytes_max)
            })?;
        }
        Ok((payload.len() <= bytes_max).then_some(payload))
    }

    /// Gives all elements to `visit`, in order.
    pub(crate) fn each(
        &self,
        space: &mut dyn ReadSpace,
        mut visit: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut walk = self.walk(0, self.count()?, Side::Left);
        while !walk.is_over() {
            walk.step(self, space, |_, element| visit(element).map(|()| true))?;
        }
        Ok(())
    }
}

/// A walk over elements of a list that does not change meanwhile.
pub(crate) struct Walk {
    next: u64,
    left: u64,
    from: Side,
    branches: Branches,
}

impl Walk {
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Gives the index and the bytes of each of the next elements to `visit`, until it answers false, or as many as one step
    /// of a reply may look at.
    pub(crate) fn step(
        &mut self,
        list: &List<'_>,
        space: &mut dyn ReadSpace,
        mut visit: impl FnMut(u64, &[u8]) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let (mut bytes, mut items) = (0, 0);
        while self.left > 0 && bytes < STREAM_STEP_BYTES_SOFT && items < STREAM_STEP_ITEMS_MAX {
            let leaf = list.leaf(space, self.next, &mut self.branches)?;
            let elements = Run::parse(&leaf.payload).and_then(Run::elements);
            let elements = elements.map_err(|why| corrupt(list.key, &why.to_string()))?;
            let at = (self.next - leaf.start) as usize;
            let wanted = usize::try_from(self.left).unwrap_or(usize::MAX);
            // Those of the leaf that are wanted.
            let (from, to) = match self.from {
                Side::Left => (at, elements.len().min(at.saturating_add(wanted))),
                Side::Right => ((at + 1).saturating_sub(wanted), at + 1),
            };
            let Some(within) = elements.get(from..to).filter(|within| !within.is_empty()) else {
                return Err(corrupt(list.key, "list whose elements are not as many as its count"));
            };
            (bytes, items) = (bytes + leaf.payload.len(), items + within.len());
            for i in 0..within.len() {
                let at = if self.from == Side::Left { i } else { within.len() - 1 - i };
                self.left -= 1;
                let index = self.next;
                self.next = if self.from == Side::Left { index + 1 } else { index.wrapping_sub(1) };
                if !visit(index, within[at])? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Ends it.
    pub(super) fn end(&mut self) {
        self.left = 0;
    }
}
