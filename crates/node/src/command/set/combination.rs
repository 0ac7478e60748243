//! Intersection, union and difference of sets, member by member: memory does not grow with the sets.
//!
//! Members come in the order of their elements' names (see `hash::element`), which is the same in each set. So a union is
//! a merge. An intersection walks the smallest set and a difference the first one, and ask the others for each member.

use crate::command::args;
use crate::command::call::Error;
use crate::command::hash::{Form, Stored, name_of};
use crate::keyspace_events::Event;
use crate::{ReadSpace, Type};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use storage::Slice;
use vocab::limits;

/// How many elements of a large set are read at a time.
const CHUNK: usize = 128;

/// What is made of sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// What all have.
    Intersection,
    /// What at least one has.
    Union,
    /// What the first has and no other.
    Difference,
}

impl Operation {
    /// The event of the key that its result is stored at.
    pub(super) fn event(self) -> Event {
        match self {
            Self::Intersection => Event::SINTERSTORE,
            Self::Union => Event::SUNIONSTORE,
            Self::Difference => Event::SDIFFSTORE,
        }
    }
}

/// The result of an operation, one member after the other.
pub(super) struct Combination<'k> {
    operation: Operation,
    /// What is walked: all sets of a union, one set otherwise.
    walked: Vec<Walk<'k>>,
    /// Of a union: the next member of each set that has one, with the set's place in `walked`; the first comes first.
    heads: BinaryHeap<Reverse<(Slice, usize)>>,
    /// Whether the heads are known.
    has_begun: bool,
    /// The sets that are asked for each member.
    asked: Vec<Stored<'k>>,
}

impl<'k> Combination<'k> {
    /// The sets at `keys` are looked up, all of them: one of another type is an error whatever the result would be.
    pub(super) fn begin(operation: Operation, space: &mut dyn ReadSpace, keys: &[&'k [u8]]) -> Result<Self, Error> {
        let mut sets = Vec::new();
        // A set that comes again changes nothing, but for the first of a difference.
        let mut seen = HashSet::new();
        for (i, key) in keys.iter().enumerate() {
            if operation == Operation::Difference && i == 0 || seen.insert(*key) {
                sets.push(Stored::load_of(Type::Set, space, key)?);
            }
        }
        let lacks_one = sets.iter().any(Option::is_none);
        let lacks_first = sets.first().is_none_or(Option::is_none);
        let mut found: Vec<Stored<'k>> = sets.into_iter().flatten().collect();
        let mut walked = Vec::new();
        match operation {
            Operation::Intersection if lacks_one => found.clear(),
            Operation::Difference if lacks_first => found.clear(),
            Operation::Intersection => {
                let mut smallest = (0, u64::MAX);
                for (i, set) in found.iter().enumerate() {
                    let count = set.count()?;
                    if count < smallest.1 {
                        smallest = (i, count);
                    }
                }
                walked.push(Walk::new(found.swap_remove(smallest.0))?);
            }
            Operation::Difference => walked.push(Walk::new(found.remove(0))?),
            Operation::Union => {
                let mut bytes = 0;
                for set in found.drain(..) {
                    bytes += if let Form::Inline(record) = &set.form { record.bytes().len() } else { 0 };
                    if bytes > limits::UNITED_BYTES_MAX {
                        return Err(args::TOO_MANY_SETS.into());
                    }
                    walked.push(Walk::new(set)?);
                }
            }
        }
        let made = Self { operation, walked, heads: BinaryHeap::new(), has_begun: false, asked: found };
        // Few rows may be much work. In an entry each question counts, by later rules.
        if !space.counts_reads() {
            space.visit_many(made.work()?)?;
        }
        Ok(made)
    }

    /// What is made of the sets.
    pub(super) fn operation(&self) -> Operation {
        self.operation
    }

    /// About how many elements are read for all of it.
    pub(super) fn work(&self) -> Result<u64, Error> {
        let mut elements = 0u64;
        for walk in &self.walked {
            elements = elements.saturating_add(walk.set.count()?);
        }
        Ok(elements.saturating_mul(1 + self.asked.len() as u64))
    }

    /// The most bytes that its members may have together.
    pub(super) fn bytes_max(&self) -> Result<u64, Error> {
        let mut bytes = 0u64;
        for walk in &self.walked {
            bytes = bytes.saturating_add(match &walk.set.form {
                Form::Inline(record) => record.view().payload.len() as u64,
                Form::Large(_) => walk.set.count()?.saturating_mul(limits::FIELD_BYTES_MAX as u64),
            });
        }
        Ok(bytes)
    }

    /// The next member.
    pub(super) fn next(&mut self, space: &mut dyn ReadSpace) -> Result<Option<Vec<u8>>, Error> {
        if self.operation == Operation::Union {
            return self.next_of_union(space);
        }
        let Some(walk) = self.walked.first_mut() else { return Ok(None) };
        let wanted = self.operation == Operation::Intersection;
        'members: while let Some(name) = walk.take(space)? {
            let member = walk.set.field_of(&name)?;
            for set in &self.asked {
                set.afford_asking(space)?;
                if set.get(space, member)?.is_some() != wanted {
                    continue 'members;
                }
            }
            return Ok(Some(member.to_vec()));
        }
        Ok(None)
    }

    fn next_of_union(&mut self, space: &mut dyn ReadSpace) -> Result<Option<Vec<u8>>, Error> {
        if !self.has_begun {
            self.has_begun = true;
            (0..self.walked.len()).try_for_each(|i| self.line_up(i, space))?;
        }
        let Some(Reverse((name, first))) = self.heads.pop() else { return Ok(None) };
        self.advance(first, space)?;
        while let Some(same) = self.heads.peek().filter(|Reverse((next, _))| *next == name).map(|head| head.0.1) {
            self.heads.pop();
            self.advance(same, space)?;
        }
        Ok(Some(self.walked[first].set.field_of(&name)?.to_vec()))
    }

    /// Walk `i` leaves its member, which is no longer among the heads.
    fn advance(&mut self, i: usize, space: &mut dyn ReadSpace) -> Result<(), Error> {
        self.walked[i].take(space)?;
        self.line_up(i, space)
    }

    /// Puts the next member of walk `i`, if there is one, among the heads.
    fn line_up(&mut self, i: usize, space: &mut dyn ReadSpace) -> Result<(), Error> {
        if let Some(name) = self.walked[i].peek(space)? {
            self.heads.push(Reverse((name.clone(), i)));
        }
        Ok(())
    }
}

/// A set on the way from its first element's name to its last.
struct Walk<'k> {
    set: Stored<'k>,
    /// Names that are read and not yet taken.
    ahead: VecDeque<Slice>,
    /// The last name that was read of a large set.
    after: Option<Slice>,
    has_ended: bool,
}

impl<'k> Walk<'k> {
    fn new(set: Stored<'k>) -> Result<Self, Error> {
        let mut walk = Self { set, ahead: VecDeque::new(), after: None, has_ended: false };
        if let Form::Inline(record) = &walk.set.form {
            let mut names: Vec<Vec<u8>> =
                walk.set.entries(record)?.into_iter().map(|(member, _)| name_of(member)).collect();
            names.sort_unstable();
            walk.ahead = names.iter().map(|name| Slice::from(&name[..])).collect();
            walk.has_ended = true;
        }
        Ok(walk)
    }

    fn peek(&mut self, space: &mut dyn ReadSpace) -> Result<Option<&Slice>, Error> {
        if self.ahead.is_empty()
            && !self.has_ended
            && let Form::Large(rows) = &self.set.form
        {
            let chunk = space.elements(rows, self.after.as_deref(), CHUNK)?;
            self.has_ended = chunk.len() < CHUNK;
            self.ahead = chunk.into_iter().map(|(name, _)| name).collect();
            self.after = self.ahead.back().cloned();
        }
        Ok(self.ahead.front())
    }

    fn take(&mut self, space: &mut dyn ReadSpace) -> Result<Option<Slice>, Error> {
        self.peek(space)?;
        Ok(self.ahead.pop_front())
    }
}

/// The operation that a command of the family is about, stored or not.
pub(super) fn operation_of(name: &[u8]) -> Option<Operation> {
    let is = |word| args::is_word(name, word);
    match () {
        () if is("SINTERSTORE") => Some(Operation::Intersection),
        () if is("SUNIONSTORE") => Some(Operation::Union),
        () if is("SDIFFSTORE") => Some(Operation::Difference),
        () => None,
    }
}
