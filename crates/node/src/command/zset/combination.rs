//! Union, intersection and difference of sorted sets, and of sets, whose members all have the score 1: member by member, so
//! that memory does not grow with what they are made of.
//!
//! Members come in the order of their elements' names (see `hash::element`), which is the same in each set. So a union is
//! a merge. An intersection walks the smallest set and a difference the first one, and ask the others for each member.

use super::build::Kept;
use super::scored;
use crate::command::args::{SYNTAX, TOO_MANY_SETS, WRONGTYPE, int, is_word};
use crate::command::call::{Error, Outcome};
use crate::command::hash::{Form, Stored, name_of};
use crate::format::score::decode;
use crate::keyspace_events::Event;
use crate::{ReadSpace, Rules, Type};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use storage::Slice;
use vocab::limits::UNITED_BYTES_MAX;

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
    /// A member counts as much as each set that has it weighs.
    Count,
}

impl Aggregate {
    fn parse(word: &[u8], rules: Rules) -> Result<Self, Error> {
        match () {
            () if is_word(word, "SUM") => Ok(Self::Sum),
            () if is_word(word, "MIN") => Ok(Self::Min),
            () if is_word(word, "MAX") => Ok(Self::Max),
            // Replicas of earlier releases do not know it.
            () if is_word(word, "COUNT") && rules >= Rules::Fourth => Ok(Self::Count),
            () => Err(SYNTAX.into()),
        }
    }

    /// What a score comes to in a set of that weight.
    fn weighted(self, score: f64, weight: f64) -> f64 {
        if self == Self::Count { weight } else { score * weight }
    }

    fn join(self, score: f64, other: f64) -> f64 {
        match self {
            // The sum of both infinities is 0, as in Redis.
            Self::Sum | Self::Count => number(score + other),
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
    /// The sets, each once, however often it is named.
    sets: Vec<Stored<'k>>,
    /// What is walked: all sets of a union, one set otherwise.
    walked: Vec<Walk>,
    /// Of a union: the next member of each walk that has one, with the walk's place in `walked`; the first comes first.
    heads: BinaryHeap<Reverse<(Slice, usize)>>,
    /// Of a union: the walks whose next member is not among the heads yet.
    moved: Vec<usize>,
    /// The sets that are asked for each member.
    asked: Vec<Source>,
    /// How many of the keys name one that is asked.
    asked_count: u64,
    /// Whether scores are to be answered.
    pub(super) with_scores: bool,
    /// How many members are to be counted at most; 0: all.
    pub(super) limit: u64,
}

/// A set as it is named once.
#[derive(Clone, Copy)]
struct Source {
    /// Its place among the sets.
    set: usize,
    /// What its scores are multiplied by.
    weight: f64,
}

/// The sets that keys name.
#[derive(Default)]
struct Named<'k> {
    sets: Vec<Stored<'k>>,
    /// The place of each key's set among them, in the order of the keys; `None`: there is none.
    places: Vec<Option<usize>>,
}

impl<'k> Named<'k> {
    /// Looks up the keys. A union has all small sets in memory together.
    fn find(operation: Operation, space: &mut dyn ReadSpace, keys: &[&'k [u8]]) -> Result<Self, Error> {
        let (mut named, mut seen, mut bytes) = (Self::default(), HashMap::new(), 0);
        for key in keys {
            let known: Option<Option<usize>> = seen.get(key).copied();
            // In an entry each key and each large set is read as often as it is named, and counts.
            if let Some(place) = known.filter(|_| !space.counts_reads()) {
                named.places.push(place);
                continue;
            }
            let now_ms = space.now_ms();
            let record = space.get(key)?;
            let is_small = |place: usize| matches!(named.sets[place].form, Form::Inline(_));
            if let Some(place) = known.filter(|place| place.is_none_or(is_small)) {
                named.places.push(place);
                continue;
            }
            let set = record.map(|record| Stored::of(key, record, now_ms)).transpose()?;
            if set.as_ref().is_some_and(|set| !matches!(set.ty(), Type::Set | Type::SortedSet)) {
                return Err(WRONGTYPE.into());
            }
            if let Some(Form::Inline(record)) = set.as_ref().map(|set| &set.form) {
                bytes += record.bytes().len();
            }
            if operation == Operation::Union && bytes > UNITED_BYTES_MAX && !space.counts_reads() {
                return Err(TOO_MANY_SETS.into());
            }
            let place = set.is_some().then_some(named.sets.len());
            named.sets.extend(set);
            seen.insert(*key, place);
            named.places.push(place);
        }
        Ok(named)
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
        let Named { sets, places } = Named::find(operation, space, keys)?;
        let options = Options::parse(operation, answer, space.rules(), keys.len(), options)?;
        let lacks_first = places.first().is_none_or(Option::is_none);
        let lacks_one = places.iter().any(Option::is_none);
        let weighted = places.into_iter().zip(options.weights);
        let mut found: Vec<Source> = weighted.filter_map(|(set, weight)| Some(Source { set: set?, weight })).collect();
        if operation == Operation::Intersection && lacks_one || operation == Operation::Difference && lacks_first {
            found.clear();
        }
        if operation != Operation::Difference {
            // The order in which Redis adds scores up.
            let sizes = sets.iter().map(Stored::count).collect::<Result<Vec<u64>, Error>>()?;
            found.sort_by_key(|source| sizes[source.set]);
        }
        let mut asked = if operation == Operation::Union || found.is_empty() { Vec::new() } else { found.split_off(1) };
        let asked_count = asked.len() as u64;
        if operation == Operation::Difference {
            // To be asked twice changes nothing.
            let mut is_asked = vec![false; sets.len()];
            asked.retain(|source| !std::mem::replace(&mut is_asked[source.set], true));
        }
        let walked = Walk::all_of(&found, sets.len());
        let moved = (0..walked.len()).collect();
        let Options { aggregate, with_scores, limit, .. } = options;
        let heads = BinaryHeap::new();
        let made = Self { operation, aggregate, sets, walked, heads, moved, asked, asked_count, with_scores, limit };
        // One set that is named very often is one row and much work.
        if !space.counts_reads() {
            space.visit_many(made.work()?)?;
        }
        Ok(made)
    }

    /// About how many elements are read for all of it.
    pub(in crate::command) fn work(&self) -> Result<u64, Error> {
        let mut elements = 0u64;
        for walk in &self.walked {
            let count = self.sets[walk.set].count()?;
            elements = elements.saturating_add(count.saturating_mul(walk.named.len() as u64));
        }
        Ok(elements.saturating_mul(1 + self.asked_count))
    }

    /// The next member and its score.
    pub(in crate::command) fn next(&mut self, space: &mut dyn ReadSpace) -> Result<Option<Kept>, Error> {
        if self.operation == Operation::Union {
            return self.next_of_union(space);
        }
        let Self { sets, walked, asked, aggregate, operation, .. } = self;
        let Some(walk) = walked.first_mut() else { return Ok(None) };
        let weight = walk.named.first().map_or(1.0, |(_, weight)| *weight);
        'members: while let Some(Ahead { name, score }) = walk.take(&sets[walk.set], space)? {
            let member = sets[walk.set].field_of(&name)?;
            let mut score = number(aggregate.weighted(score, weight));
            // The member's scores in the sets that have been asked.
            let mut known = vec![None; sets.len()];
            for source in &*asked {
                let set = &sets[source.set];
                if known[source.set].is_none() {
                    set.afford_asking(space)?;
                    known[source.set] = set.get(space, member)?.map(|value| score_of(set.ty(), &value));
                }
                match (known[source.set], *operation) {
                    (Some(other), Operation::Intersection) => {
                        score = aggregate.join(score, aggregate.weighted(other, source.weight));
                    }
                    (None, Operation::Difference) => {}
                    _ => continue 'members,
                }
            }
            return Ok(Some(Kept { member: member.to_vec(), score }));
        }
        Ok(None)
    }

    fn next_of_union(&mut self, space: &mut dyn ReadSpace) -> Result<Option<Kept>, Error> {
        let Self { sets, walked, heads, moved, aggregate, .. } = self;
        for i in moved.drain(..) {
            let set = &sets[walked[i].set];
            heads.extend(walked[i].peek(set, space)?.map(|next| Reverse((next.name.clone(), i))));
        }
        let Some(Reverse((name, first))) = heads.pop() else { return Ok(None) };
        moved.push(first);
        while let Some(head) = heads.peek_mut()
            && head.0.0 == name
        {
            moved.push(PeekMut::pop(head).0.1);
        }
        let mut scores: Vec<(usize, f64)> = Vec::new();
        for &i in &*moved {
            let set = &sets[walked[i].set];
            if let Some(Ahead { score, .. }) = walked[i].take(set, space)? {
                let weighted = |weight: &f64| number(aggregate.weighted(score, *weight));
                scores.extend(walked[i].named.iter().map(|(place, weight)| (*place, weighted(weight))));
            }
        }
        // What the sum of scores comes to depends on their order.
        scores.sort_unstable_by_key(|(place, _)| *place);
        let joined = scores.into_iter().map(|(_, score)| score).reduce(|joined, score| aggregate.join(joined, score));
        let member = sets[walked[first].set].field_of(&name)?;
        Ok(joined.map(|score| Kept { member: member.to_vec(), score }))
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
    fn parse(operation: Operation, answer: Answer, rules: Rules, keys: usize, words: &[&[u8]]) -> Result<Self, Error> {
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
                    options.aggregate = Aggregate::parse(how, rules)?;
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
struct Walk {
    /// Its place among the sets.
    set: usize,
    /// As what it is named: the places among all sources, in which scores are added up, and what its scores are multiplied by there.
    named: Vec<(usize, f64)>,
    ahead: VecDeque<Ahead>,
    /// The last name that was read of a large set.
    after: Option<Slice>,
    has_ended: bool,
}

impl Walk {
    /// One of each set that the sources name, in the order in which they do; there are `sets` of them.
    fn all_of(sources: &[Source], sets: usize) -> Vec<Self> {
        let (mut walks, mut walk_of): (Vec<Self>, _) = (Vec::new(), vec![None; sets]);
        for (place, Source { set, weight }) in sources.iter().copied().enumerate() {
            let at = *walk_of[set].get_or_insert(walks.len());
            if at == walks.len() {
                walks.push(Self { set, named: Vec::new(), ahead: VecDeque::new(), after: None, has_ended: false });
            }
            walks[at].named.push((place, weight));
        }
        walks
    }

    fn peek(&mut self, set: &Stored<'_>, space: &mut dyn ReadSpace) -> Result<Option<&Ahead>, Error> {
        if self.ahead.is_empty() && !self.has_ended {
            self.read_on(set, space)?;
        }
        Ok(self.ahead.front())
    }

    /// Reads the next elements of a large set, or all of a small one.
    fn read_on(&mut self, set: &Stored<'_>, space: &mut dyn ReadSpace) -> Outcome {
        let ty = set.ty();
        match &set.form {
            Form::Inline(record) => {
                let element = |(member, value): (&[u8], &[u8])| Ahead {
                    name: Slice::from(name_of(member)),
                    score: score_of(ty, value),
                };
                let mut all: Vec<Ahead> = set.entries(record)?.into_iter().map(element).collect();
                all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
                self.ahead = all.into();
                self.has_ended = true;
            }
            Form::Large(rows) => {
                let chunk = space.elements(rows, self.after.as_deref(), CHUNK)?;
                self.has_ended = chunk.len() < CHUNK;
                self.after = chunk.last().map(|(name, _)| name.clone());
                let element = |(name, value): (Slice, Slice)| Ahead { name, score: score_of(ty, &value) };
                self.ahead = chunk.into_iter().map(element).collect();
            }
        }
        Ok(())
    }

    fn take(&mut self, set: &Stored<'_>, space: &mut dyn ReadSpace) -> Result<Option<Ahead>, Error> {
        self.peek(set, space)?;
        Ok(self.ahead.pop_front())
    }
}
