//! Union, intersection and difference of sorted sets, and of sets, whose members all have the score 1: member by member, so
//! that memory does not grow with what they are made of.
//!
//! Members come in the order of their elements' names (see `hash::element`), which is the same in each set. So a union is
//! a merge. An intersection walks the smallest set and a difference the first one, and ask the others for each member.

use super::build::Kept;
use super::scored;
use crate::command::args::{SYNTAX, WRONGTYPE, int, is_word};
use crate::command::call::Error;
use crate::command::hash::{Form, Stored, name_of};
use crate::format::score::decode;
use crate::keyspace_events::Event;
use crate::{ReadSpace, Type};
use std::collections::VecDeque;
use storage::Slice;

/// How many elements of a large set are read at a time.
const CHUNK: usize = 128;

/// What is made of sorted sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::command) enum Operation {
    /// What all have.
    Intersection,
    /// What at least one has.
    Union,
    /// What the first has and no other.
    Difference,
}

impl Operation {
    /// That of a command that stores its result.
    pub(in crate::command) fn of_store(name: &[u8]) -> Option<Self> {
        match () {
            () if is_word(name, "ZINTERSTORE") => Some(Self::Intersection),
            () if is_word(name, "ZUNIONSTORE") => Some(Self::Union),
            () if is_word(name, "ZDIFFSTORE") => Some(Self::Difference),
            () => None,
        }
    }

    /// The event of the key that its result is stored at.
    pub(in crate::command) fn event(self) -> Event {
        match self {
            Self::Intersection => Event::ZINTERSTORE,
            Self::Union => Event::ZUNIONSTORE,
            Self::Difference => Event::ZDIFFSTORE,
        }
    }
}

/// How the scores of a member are made one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Aggregate {
    #[default]
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn parse(word: &[u8]) -> Result<Self, Error> {
        match () {
            () if is_word(word, "SUM") => Ok(Self::Sum),
            () if is_word(word, "MIN") => Ok(Self::Min),
            () if is_word(word, "MAX") => Ok(Self::Max),
            () => Err(SYNTAX.into()),
        }
    }

    fn join(self, score: f64, other: f64) -> f64 {
        match self {
            // The sum of both infinities is 0, as in Redis.
            Self::Sum => number(score + other),
            Self::Min if other < score => other,
            Self::Max if other > score => other,
            Self::Min | Self::Max => score,
        }
    }
}

fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// Which words a command takes behind its keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::command) enum Answer {
    /// Those of a command that answers members.
    Members,
    /// Those of a command that stores them.
    Stored,
    /// Those of a command that counts them.
    Count,
}

/// The result of an operation, one member after the other.
pub(in crate::command) struct Combination<'k> {
    operation: Operation,
    aggregate: Aggregate,
    /// What is walked: all sets of a union, one set otherwise.
    walked: Vec<Walk<'k>>,
    /// The sets that are asked for each member.
    asked: Vec<Source<'k>>,
    /// Whether scores are to be answered.
    pub(super) with_scores: bool,
    /// How many members are to be counted at most; 0: all.
    pub(super) limit: u64,
}

/// A set, and what its scores are multiplied by.
struct Source<'k> {
    set: Stored<'k>,
    weight: f64,
}

impl Source<'_> {
    fn score(&self, space: &mut dyn ReadSpace, member: &[u8]) -> Result<Option<f64>, Error> {
        let value = self.set.get(space, member)?;
        Ok(value.map(|value| score_of(self.set.ty(), &value) * self.weight))
    }
}

fn score_of(ty: Type, value: &[u8]) -> f64 {
    if ty == Type::SortedSet { decode(value).unwrap_or_default() } else { 1.0 }
}

impl<'k> Combination<'k> {
    /// Reads `numkeys key [key ...] [option ...]`, of the command of that name, and looks up the keys.
    pub(in crate::command) fn begin(
        operation: Operation,
        answer: Answer,
        space: &mut dyn ReadSpace,
        name: &[u8],
        args: &[&'k [u8]],
    ) -> Result<Self, Error> {
        let numkeys = int(args[0])?;
        if numkeys < 1 {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            return Err(Error::Reply(format!("ERR at least 1 input key is needed for '{name}' command").into()));
        }
        let numkeys = usize::try_from(numkeys).unwrap_or(usize::MAX);
        let (keys, options) = args[1..].split_at_checked(numkeys).ok_or(SYNTAX)?;
        let mut sets = Vec::with_capacity(keys.len());
        for key in keys {
            let now_ms = space.now_ms();
            let set = space.get(key)?.map(|record| Stored::of(key, record, now_ms)).transpose()?;
            if set.as_ref().is_some_and(|set| !matches!(set.ty(), Type::Set | Type::SortedSet)) {
                return Err(WRONGTYPE.into());
            }
            sets.push(set);
        }
        let options = Options::parse(operation, answer, keys.len(), options)?;
        let lacks_first = sets.first().is_none_or(Option::is_none);
        let lacks_one = sets.iter().any(Option::is_none);
        let weighted = sets.into_iter().zip(options.weights);
        let mut found: Vec<Source<'k>> =
            weighted.filter_map(|(set, weight)| Some(Source { set: set?, weight })).collect();
        if operation == Operation::Intersection && lacks_one || operation == Operation::Difference && lacks_first {
            found.clear();
        }
        if operation != Operation::Difference {
            // The order in which Redis adds scores up.
            let mut sizes = Vec::with_capacity(found.len());
            for source in found {
                sizes.push((source.set.count()?, source));
            }
            sizes.sort_by_key(|(count, _)| *count);
            found = sizes.into_iter().map(|(_, source)| source).collect();
        }
        let asked = if operation == Operation::Union || found.is_empty() { Vec::new() } else { found.split_off(1) };
        let walked = found.into_iter().map(Walk::new).collect::<Result<_, _>>()?;
        let Options { aggregate, with_scores, limit, .. } = options;
        Ok(Self { operation, aggregate, walked, asked, with_scores, limit })
    }

    /// About how many elements are read for all of it.
    pub(in crate::command) fn work(&self) -> Result<u64, Error> {
        let mut elements = 0u64;
        for walk in &self.walked {
            elements = elements.saturating_add(walk.source.set.count()?);
        }
        Ok(elements.saturating_mul(1 + self.asked.len() as u64))
    }

    /// The next member and its score.
    pub(in crate::command) fn next(&mut self, space: &mut dyn ReadSpace) -> Result<Option<Kept>, Error> {
        if self.operation == Operation::Union {
            return self.next_of_union(space);
        }
        let Some(walk) = self.walked.first_mut() else { return Ok(None) };
        'members: while let Some(Ahead { name, score }) = walk.take(space)? {
            let member = walk.source.set.field_of(&name)?;
            let mut score = number(score * walk.source.weight);
            for source in &self.asked {
                match (source.score(space, member)?, self.operation) {
                    (Some(other), Operation::Intersection) => score = self.aggregate.join(score, other),
                    (None, Operation::Difference) => {}
                    _ => continue 'members,
                }
            }
            return Ok(Some(Kept { member: member.to_vec(), score }));
        }
        Ok(None)
    }

    fn next_of_union(&mut self, space: &mut dyn ReadSpace) -> Result<Option<Kept>, Error> {
        let mut first: Option<Slice> = None;
        for walk in &mut self.walked {
            if let Some(Ahead { name, .. }) = walk.peek(space)?
                && first.as_ref().is_none_or(|first| name[..] < first[..])
            {
                first = Some(name.clone());
            }
        }
        let Some(name) = first else { return Ok(None) };
        let mut joined = None;
        for walk in &mut self.walked {
            if walk.peek(space)?.is_some_and(|next| next.name[..] == name[..])
                && let Some(Ahead { score, .. }) = walk.take(space)?
            {
                let score = number(score * walk.source.weight);
                joined = Some(joined.map_or(score, |joined| self.aggregate.join(joined, score)));
            }
        }
        let member = self.walked.first().map(|walk| walk.source.set.field_of(&name)).transpose()?;
        Ok(member.zip(joined).map(|(member, score)| Kept { member: member.to_vec(), score }))
    }
}

/// The words behind the keys.
struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: u64,
}

impl Options {
    fn parse(operation: Operation, answer: Answer, keys: usize, words: &[&[u8]]) -> Result<Self, Error> {
        let mut options = Self { weights: vec![1.0; keys], aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
        let joins = operation != Operation::Difference && answer != Answer::Count;
        let mut words = words;
        while let Some((word, rest)) = words.split_first() {
            words = match rest {
                _ if joins && is_word(word, "WEIGHTS") && rest.len() >= keys => {
                    let (weights, rest) = rest.split_at(keys);
                    for (into, text) in options.weights.iter_mut().zip(weights) {
                        *into = scored::parse(text).map_err(|_| Error::from("ERR weight value is not a float"))?;
                    }
                    rest
                }
                [how, rest @ ..] if joins && is_word(word, "AGGREGATE") => {
                    options.aggregate = Aggregate::parse(how)?;
                    rest
                }
                rest if answer == Answer::Members && is_word(word, "WITHSCORES") => {
                    options.with_scores = true;
                    rest
                }
                [limit, rest @ ..] if answer == Answer::Count && is_word(word, "LIMIT") => {
                    let limit = int(limit).ok().and_then(|limit| u64::try_from(limit).ok());
                    options.limit = limit.ok_or("ERR LIMIT can't be negative")?;
                    rest
                }
                _ => return Err(SYNTAX.into()),
            };
        }
        Ok(options)
    }
}

/// An element that is read and not yet taken.
struct Ahead {
    name: Slice,
    score: f64,
}

/// A set on the way from its first element's name to its last.
struct Walk<'k> {
    source: Source<'k>,
    ahead: VecDeque<Ahead>,
    /// The last name that was read of a large set.
    after: Option<Slice>,
    has_ended: bool,
}

impl<'k> Walk<'k> {
    fn new(source: Source<'k>) -> Result<Self, Error> {
        let mut walk = Self { source, ahead: VecDeque::new(), after: None, has_ended: false };
        let set = &walk.source.set;
        if let Form::Inline(record) = &set.form {
            let element = |(member, value): (&[u8], &[u8])| Ahead {
                name: Slice::from(name_of(member)),
                score: score_of(set.ty(), value),
            };
            let mut all: Vec<Ahead> = set.entries(record)?.into_iter().map(element).collect();
            all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            walk.ahead = all.into();
            walk.has_ended = true;
        }
        Ok(walk)
    }

    fn peek(&mut self, space: &mut dyn ReadSpace) -> Result<Option<&Ahead>, Error> {
        if self.ahead.is_empty()
            && !self.has_ended
            && let Form::Large(rows) = &self.source.set.form
        {
            let chunk = space.elements(rows, self.after.as_deref(), CHUNK)?;
            self.has_ended = chunk.len() < CHUNK;
            self.after = chunk.last().map(|(name, _)| name.clone());
            let ty = self.source.set.ty();
            self.ahead = chunk.into_iter().map(|(name, value)| Ahead { name, score: score_of(ty, &value) }).collect();
        }
        Ok(self.ahead.front())
    }

    fn take(&mut self, space: &mut dyn ReadSpace) -> Result<Option<Ahead>, Error> {
        self.peek(space)?;
        Ok(self.ahead.pop_front())
    }
}
