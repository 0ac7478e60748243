//! SORT and SORT_RO: the elements of a list, a set or a sorted set in order.
//!
//! Elements are gathered a slice at a time, each slice is sorted, and the slices are merged as the reply is taken: no step
//! works on more than a slice. BY and GET with patterns name keys that the request does not (`sort_pattern`). To a client of the cluster they
//! are refused, as Redis Cluster does, if such keys may be in other slots than the one that is sorted.

use super::args::{SYNTAX, WRONGTYPE, check_release, int, is_word};
use super::call::{Error, HandlerRow, Outcome, ReadCall, WriteCall, reads_in_steps, write_if};
use super::hash::{Form, Stored};
use super::list::{self, List, Side, Walk};
use super::long_list::{ListCopy, Replaces};
use super::sort_pattern::SortPattern;
use super::steps::{Progress, ReplySteps, Rest, Step};
use super::zset::{SortedSet, Walk as RankWalk};
use crate::keyspace_events::Event;
use crate::{ReadSpace, Record, Rules, ShardHandle, SnapshotSpace, Type, WriteSpace};
use resp::Reply;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use storage::Slice;
use vocab::limits::{
    GATHERED_BYTES_MAX, SORTED_BYTES_MAX, SORTED_ELEMENTS_MAX, STORE_WHOLE_ELEMENTS_MAX, STREAM_STEP_BYTES_SOFT,
    STREAM_STEP_ITEMS_MAX,
};

const NOT_A_SCORE: &str = "ERR One or more scores can't be converted into double";
const BY: &str = "ERR BY option of SORT denied in Cluster mode.";
const GET: &str = "ERR GET option of SORT denied in Cluster mode.";
const TOO_LARGE: &str = "ERR the collection is too large to be sorted (1048576 elements, 128 MiB)";
const TOO_LARGE_FOR_ENTRY: &str = "ERR the collection is too large to be sorted within a transaction (16384 elements)";
const _: () = assert!(SORTED_ELEMENTS_MAX == 1_048_576 && SORTED_BYTES_MAX == 128 << 20, "TOO_LARGE says how large");
const _: () = assert!(STORE_WHOLE_ELEMENTS_MAX == 16_384, "TOO_LARGE_FOR_ENTRY says how large");

pub(super) const ROWS: &[HandlerRow] = &[
    write_if("SORT", &["STORE"], sort, |call| begin(call, true)),
    reads_in_steps("SORT_RO", |call| begin(call, false)),
];

/// In which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// By the numbers that the elements are, then by their bytes.
    Numbers,
    /// By their bytes.
    Bytes,
    /// By the bytes of what BY finds for them.
    Weights,
    /// As they lie.
    Kept,
}

/// What is asked for.
#[derive(Clone, Debug)]
struct Options<'a> {
    order: Order,
    /// What they are sorted by, if not by themselves.
    by: Option<SortPattern>,
    /// What is answered of each; nothing: itself.
    get: Vec<SortPattern>,
    descending: bool,
    /// How many are passed over, and how many are wanted; negative: all.
    limit: (i64, i64),
    store: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    /// Those behind a key, by those rules.
    fn parse(args: &[&'a [u8]], may_store: bool, rules: Rules) -> Result<Self, Error> {
        let key = args[1];
        let (by, get) = (None, Vec::new());
        let mut options = Self { order: Order::Numbers, by, get, descending: false, limit: (0, -1), store: None };
        let (mut alpha, mut kept) = (false, false);
        let mut rest = &args[2..];
        while let [word, after @ ..] = rest {
            rest = match (word, after) {
                _ if is_word(word, "ASC") => {
                    options.descending = false;
                    after
                }
                _ if is_word(word, "DESC") => {
                    options.descending = true;
                    after
                }
                _ if is_word(word, "ALPHA") => {
                    alpha = true;
                    after
                }
                (_, [offset, count, after @ ..]) if is_word(word, "LIMIT") => {
                    options.limit = (int(offset)?, int(count)?);
                    after
                }
                (_, [key, after @ ..]) if may_store && is_word(word, "STORE") => {
                    options.store = Some(key);
                    after
                }
                (_, [pattern, after @ ..]) if is_word(word, "BY") => {
                    // As in Redis, once they lie as they lie, they do whatever else is asked for.
                    kept |= !pattern.contains(&b'*');
                    let by = SortPattern::of(pattern, key, rules).or(kept.then_some(SortPattern::Nothing));
                    options.by = Some(by.ok_or(BY)?);
                    after
                }
                (_, [pattern, after @ ..]) if is_word(word, "GET") => {
                    options.get.push(SortPattern::of(pattern, key, rules).ok_or(GET)?);
                    after
                }
                _ => return Err(SYNTAX.into()),
            };
        }
        options.order = match (kept, alpha) {
            (true, _) => Order::Kept,
            (false, true) if options.by.is_some() => Order::Weights,
            (false, true) => Order::Bytes,
            (false, false) => Order::Numbers,
        };
        Ok(options)
    }

    /// Which of `count` elements are wanted: the first one, and how many.
    fn range(&self, count: u64) -> (u64, u64) {
        let start = self.limit.0.max(0).unsigned_abs().min(count);
        let left = count - start;
        (start, if self.limit.1 < 0 { left } else { left.min(self.limit.1.unsigned_abs()) })
    }
}

/// An element, and what it is sorted by.
#[derive(Clone, Debug)]
struct Item {
    score: f64,
    /// What BY has found for it, where they are sorted by the bytes of that.
    weight: Option<Vec<u8>>,
    /// Its place as they lie.
    place: usize,
    element: Vec<u8>,
}

/// In which direction, and what tells items apart whose scores are equal.
#[derive(Clone, Copy, Debug)]
struct Direction {
    descending: bool,
    by_weight: bool,
}

/// The order of items; of equal ones it does not matter which is first.
fn compare(a: &Item, b: &Item, direction: Direction) -> Ordering {
    let turned = |order: Ordering| if direction.descending { order.reverse() } else { order };
    if direction.by_weight {
        return turned(a.weight.cmp(&b.weight)).then(a.place.cmp(&b.place));
    }
    turned(a.score.total_cmp(&b.score).then_with(|| a.element.cmp(&b.element)))
}

/// The number that an element is, as `strtod` reads it.
fn score_of(element: &[u8]) -> Option<f64> {
    let text = element.trim_ascii_start();
    if text.is_empty() {
        return element.is_empty().then_some(0.0);
    }
    // `strtod` tells of a number that loses digits for being so small; and zero has one sign here, as in a comparison.
    resp::parse_double(text).filter(|score| !score.is_subnormal()).map(|score| score + 0.0)
}

/// The elements of a collection, a slice at a time.
enum Source {
    List(Walk),
    /// How many are left, and the element's name that was read last.
    Set(u64, Option<Slice>),
    SortedSet(RankWalk),
    Nothing,
}

/// What remains of a sorted slice, its next item last.
struct Run {
    items: Vec<Item>,
    direction: Direction,
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Run {}

impl PartialOrd for Run {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Run {
    /// The run with the next item is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.items.last(), other.items.last()) {
            (Some(a), Some(b)) => compare(b, a, self.direction),
            (a, b) => a.is_some().cmp(&b.is_some()),
        }
    }
}

/// A collection that is sorted step by step.
struct Sorting {
    key: Vec<u8>,
    record: Option<Record>,
    order: Order,
    by: Option<SortPattern>,
    /// What is answered of each.
    get: Vec<SortPattern>,
    /// Those of them that read a key, by their places.
    reads: Vec<usize>,
    /// How many of them have no value.
    nothings: usize,
    descending: bool,
    source: Source,
    count: u64,
    bytes: usize,
    runs: BinaryHeap<Run>,
    /// How many items are passed over, and how many are wanted behind them.
    range: (u64, u64),
}

impl Sorting {
    fn begin(space: &mut dyn ReadSpace, key: &[u8], options: &Options<'_>) -> Result<Self, Error> {
        let record = space.get(key)?;
        let (mut source, mut count, mut order) = (Source::Nothing, 0, options.order);
        if let Some(record) = &record {
            (source, count) = match record.view().kind.ty {
                Type::List => {
                    let list = List::of(key, record.clone())?;
                    let count = list.count()?;
                    let (first, from) = match order == Order::Kept && options.descending {
                        true => (count.saturating_sub(1), Side::Right),
                        false => (0, Side::Left),
                    };
                    (Source::List(list.walk(first, count, from)), count)
                }
                Type::Set => {
                    let count = Stored::of(key, record.clone(), space.now_ms())?.count()?;
                    (Source::Set(count, None), count)
                }
                Type::SortedSet => {
                    let count = SortedSet::of(key, record.clone())?.count()?;
                    let falls = order == Order::Kept && options.descending;
                    (Source::SortedSet(RankWalk::all(count, falls)), count)
                }
                Type::String | Type::Hash | Type::Stream => return Err(WRONGTYPE.into()),
            };
            // What is stored, or a script is given, has the same order on every replica, whatever a set's is.
            let must_agree = options.store.is_some() || space.is_in_script();
            if record.view().kind.ty == Type::Set && order == Order::Kept && must_agree {
                order = Order::Bytes;
            }
        }
        if count > SORTED_ELEMENTS_MAX {
            return Err(TOO_LARGE.into());
        }
        space.visit_many(count)?;
        let (key, range) = (key.to_vec(), options.range(count));
        let (bytes, runs, descending) = (0, BinaryHeap::new(), options.descending);
        let (by, mut get) = (options.by.clone(), options.get.clone());
        if get.is_empty() {
            get.push(SortPattern::Element);
        }
        let is_read = |i: &usize| matches!(get[*i], SortPattern::Key(_));
        let reads = (0..get.len()).filter(is_read).collect();
        let nothings = get.iter().filter(|pattern| **pattern == SortPattern::Nothing).count();
        Ok(Self { key, record, order, by, get, reads, nothings, descending, source, count, bytes, runs, range })
    }

    /// Reads a slice and sorts it; false if there was nothing to be read.
    fn gather(&mut self, space: &mut dyn ReadSpace) -> Result<bool, Error> {
        let Some(record) = &self.record else { return Ok(false) };
        let mut elements: Vec<Vec<u8>> = Vec::new();
        match &mut self.source {
            Source::List(walk) => {
                let list = List::of(&self.key, record.clone())?;
                walk.step(&list, space, |_, element| {
                    elements.push(element.to_vec());
                    Ok(true)
                })?;
            }
            Source::Set(left, after) => {
                let set = Stored::of(&self.key, record.clone(), space.now_ms())?;
                match &set.form {
                    Form::Inline(record) if *left > 0 => {
                        elements = set.entries(record)?.into_iter().map(|(member, _)| member.to_vec()).collect();
                    }
                    Form::Inline(_) => {}
                    Form::Large(rows) => {
                        let found = space.elements_within(
                            rows,
                            after.as_deref(),
                            STREAM_STEP_ITEMS_MAX,
                            STREAM_STEP_BYTES_SOFT,
                        )?;
                        for (name, _) in &found {
                            elements.push(set.field_of(name)?.to_vec());
                        }
                        *after = found.into_iter().last().map(|(name, _)| name);
                    }
                }
                *left = left.saturating_sub(elements.len() as u64);
            }
            Source::SortedSet(walk) => {
                let set = SortedSet::of(&self.key, record.clone())?;
                if walk.left > 0 {
                    walk.step(space, &set, &mut |scored| elements.push(scored.member.to_vec()))?;
                }
            }
            Source::Nothing => {}
        }
        if elements.is_empty() {
            return Ok(false);
        }
        self.bytes += elements.iter().map(Vec::len).sum::<usize>();
        if self.bytes > SORTED_BYTES_MAX {
            return Err(TOO_LARGE.into());
        }
        let run = self.run_of(elements, space)?;
        self.bytes += run.items.iter().filter_map(|item| item.weight.as_ref()).map(Vec::len).sum::<usize>();
        self.runs.push(run);
        Ok(true)
    }

    fn run_of(&self, elements: Vec<Vec<u8>>, space: &mut dyn ReadSpace) -> Result<Run, Error> {
        // What keeps its order is sorted by the place.
        let first: usize = self.runs.iter().map(|run| run.items.len()).sum();
        let descending = self.descending && self.order != Order::Kept;
        let direction = Direction { descending, by_weight: self.order == Order::Weights };
        let mut items = Vec::with_capacity(elements.len());
        for (at, element) in elements.into_iter().enumerate() {
            let (mut score, mut weight) = (0.0, None);
            match (self.order, &self.by) {
                (Order::Numbers, None) => score = score_of(&element).ok_or(NOT_A_SCORE)?,
                (Order::Numbers, Some(by)) => {
                    if let Some(found) = by.value(space, &element)? {
                        score = score_of(&found).ok_or(NOT_A_SCORE)?;
                    }
                }
                (Order::Weights, by) => {
                    weight = match by {
                        Some(by) => by.value(space, &element)?,
                        None => None,
                    };
                }
                (Order::Bytes, _) => {}
                (Order::Kept, _) => score = (first + at) as f64,
            }
            items.push(Item { score, weight, place: first + at, element });
        }
        // Its next item is the last.
        items.sort_unstable_by(|a, b| compare(b, a, direction));
        Ok(Run { items, direction })
    }

    /// How many values are answered.
    fn answers(&self) -> u64 {
        self.range.1 * self.get.len() as u64
    }

    /// Appends a value of each pattern for an element. Behind the bound of the reply values are counted, and only those that are read are
    /// looked up: how many rows an entry reads, and what its answers cost, is the same on every replica.
    fn answer(&self, space: &mut dyn ReadSpace, element: &[u8], reply: &mut Reply) -> Outcome {
        if !reply.exceeded() {
            for pattern in &self.get {
                reply.bulk_or_null(pattern.value(space, element)?.as_deref());
            }
            return Ok(());
        }
        reply.bulks_dropped(self.get.len() - self.reads.len() - self.nothings, element.len());
        for &i in &self.reads {
            let value = self.get[i].value(space, element)?;
            reply.bulks_dropped(usize::from(value.is_some()), value.map_or(0, |value| value.len()));
        }
        Ok(())
    }

    /// The next item in order.
    fn next(&mut self) -> Next {
        if self.range.1 == 0 {
            return Next::None;
        }
        let Some(mut run) = self.runs.peek_mut() else { return Next::None };
        let Some(item) = run.items.pop() else { return Next::None };
        if run.items.is_empty() {
            PeekMut::pop(run);
        }
        if self.range.0 > 0 {
            self.range.0 -= 1;
            return Next::PassedOver;
        }
        self.range.1 -= 1;
        Next::Element(item.element)
    }
}

/// An item that was taken in its turn.
enum Next {
    Element(Vec<u8>),
    /// It is before those that are wanted.
    PassedOver,
    None,
}

/// Sorts at once: what one entry may hold.
fn sort(call: &mut WriteCall<'_>) -> Outcome {
    let options = Options::parse(call.args, true, call.space.rules())?;
    let mut sorting = Sorting::begin(call.space, call.args[1], &options)?;
    if sorting.count > STORE_WHOLE_ELEMENTS_MAX {
        return Err(TOO_LARGE_FOR_ENTRY.into());
    }
    while sorting.gather(call.space)? {}
    let Some(to) = options.store else {
        call.reply.array(sorting.answers() as usize);
        loop {
            match sorting.next() {
                Next::Element(element) => sorting.answer(call.space, &element, call.reply)?,
                Next::PassedOver => {}
                Next::None => return Ok(()),
            }
        }
    };
    check_release(call.space)?;
    let elements = gather_to_store(&mut sorting, call.space)?;
    let all: Vec<&[u8]> = elements.iter().map(Vec::as_slice).collect();
    if all.is_empty() {
        call.space.delete_told(to)?;
    } else {
        list::put_whole(call.space, to, None, &all)?;
        call.space.notify(Event::SORTSTORE, to);
    }
    call.reply.int(all.len() as i64);
    Ok(())
}

/// All values in order, if an entry can store them.
fn gather_to_store(sorting: &mut Sorting, space: &mut dyn WriteSpace) -> Result<Vec<Vec<u8>>, Error> {
    let (mut elements, mut bytes) = (Vec::new(), 0);
    let is_over =
        |elements: &Vec<_>, bytes| bytes > GATHERED_BYTES_MAX || elements.len() as u64 > 2 * STORE_WHOLE_ELEMENTS_MAX;
    loop {
        match sorting.next() {
            Next::Element(element) => {
                for pattern in &sorting.get {
                    // What is refused reads all of its last element, as it has always done, and keeps nothing of it.
                    if is_over(&elements, bytes) && !matches!(pattern, SortPattern::Key(_)) {
                        continue;
                    }
                    let value = pattern.value(space, &element)?.unwrap_or_default();
                    if !is_over(&elements, bytes) {
                        bytes += value.len();
                        elements.push(value);
                    }
                }
            }
            Next::PassedOver => {}
            Next::None => return Ok(elements),
        }
        if is_over(&elements, bytes) {
            return Err(TOO_LARGE_FOR_ENTRY.into());
        }
    }
}

/// What `SORT … STORE` stores, if that is too large for an entry. Reads may wait for the disk.
pub fn sorted_copy<'a>(view: &'a ShardHandle, args: &[&[u8]], now_ms: u64) -> Result<Option<ListCopy<'a>>, Error> {
    let mut space = SnapshotSpace::new(view, now_ms, 0);
    let options = Options::parse(args, true, space.rules())?;
    let mut sorting = Sorting::begin(&mut space, args[1], &options)?;
    if options.store.is_none() || sorting.count <= STORE_WHOLE_ELEMENTS_MAX {
        return Ok(None);
    }
    while sorting.gather(&mut space)? {}
    let mut open: Option<Open> = None;
    let next = move || loop {
        if let Some(of) = &mut open
            && let Some(pattern) = sorting.get.get(of.answered)
        {
            of.answered += 1;
            return Ok(Some(pattern.value(&mut space, &of.element)?.unwrap_or_default()));
        }
        match sorting.next() {
            Next::Element(element) => open = Some(Open { element, answered: 0 }),
            Next::PassedOver => {}
            Next::None => return Ok(None),
        }
    };
    Ok(Some(ListCopy::new(Box::new(next), Replaces::Anything, None)))
}

fn begin(call: &mut ReadCall<'_>, may_store: bool) -> Result<Rest, Error> {
    let options = Options::parse(call.args, may_store, call.space.rules())?;
    let sorting = Sorting::begin(call.space, call.args[1], &options)?;
    let mut left = ToAnswer { sorting, has_begun: false, open: None };
    // What is one slice is sorted at once, and answered if that is one step. An entry has always read all of it.
    if left.sorting.count <= STREAM_STEP_ITEMS_MAX as u64 {
        while !left.has_begun || call.space.counts_reads() {
            if left.step(call.space, call.reply)? == Progress::Done {
                return Ok(None);
            }
        }
    }
    Ok(Some(Box::new(left)))
}

/// An element of which values are answered.
struct Open {
    element: Vec<u8>,
    /// Of how many patterns the values are.
    answered: usize,
}

/// What is still to be gathered, or answered.
struct ToAnswer {
    sorting: Sorting,
    /// Whether the head of the reply is written: when all is gathered.
    has_begun: bool,
    /// An element of which values are left.
    open: Option<Open>,
}

impl ToAnswer {
    /// Appends the next value; in an entry, those of the next element. Whether there was one.
    fn answer_next(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<bool, Error> {
        if let Some(open) = &mut self.open {
            reply.bulk_or_null(self.sorting.get[open.answered].value(space, &open.element)?.as_deref());
            open.answered += 1;
            self.open = self.open.take().filter(|open| open.answered < self.sorting.get.len());
            return Ok(true);
        }
        match self.sorting.next() {
            Next::Element(element) if space.counts_reads() => self.sorting.answer(space, &element, reply)?,
            Next::Element(element) => self.open = Some(Open { element, answered: 0 }),
            Next::PassedOver => {}
            Next::None => return Ok(false),
        }
        Ok(true)
    }
}

impl ReplySteps for ToAnswer {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        if !self.has_begun {
            match self.sorting.gather(space) {
                Ok(true) => return Ok(Progress::More),
                Ok(false) => self.has_begun = true,
                // Nothing is answered yet, so this is the answer.
                Err(Error::Reply(text)) => {
                    reply.error(&text);
                    return Ok(Progress::Done);
                }
                Err(error) => return Err(error),
            }
            reply.array(self.sorting.answers() as usize);
        }
        let mut step = Step::begin(reply);
        while self.answer_next(space, reply)? {
            if !step.goes_on(reply) {
                return Ok(Progress::More);
            }
        }
        Ok(Progress::Done)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::command::testspace::{self, TestSpace};
    use resp::Value;
    use vocab::{Database, Prng};

    #[test]
    fn transcript() {
        super::super::transcript::check("sort");
    }

    fn run(space: &mut TestSpace, args: &[&[u8]]) -> Value {
        let mut reply = Reply::default();
        space.version += 1;
        match testspace::run(space, args, &mut reply) {
            Ok(()) => {}
            Err(Error::Reply(text)) => reply.error(&text),
            Err(Error::Fault(fault)) => panic!("{fault:?}"),
        }
        resp::decode(&reply.buf).unwrap().unwrap().0
    }

    /// The name under which a key of a database is stored.
    fn stored(name: &str) -> Vec<u8> {
        [&Database::of_number(2).unwrap().prefix()[..], name.as_bytes()].concat()
    }

    /// `SORT … BY nosort` with these patterns of GET.
    fn with_gets<'a>(word: &'a [u8], key: &'a [u8], gets: &[&'a [u8]]) -> Vec<&'a [u8]> {
        let gets = gets.iter().flat_map(|get| [&b"GET"[..], get]);
        [word, key, b"BY", b"nosort"].into_iter().chain(gets).collect()
    }

    #[test]
    fn behind_the_bound_of_an_answer_what_is_read_and_what_it_costs_stays_and_the_rest_is_not_done() {
        let (mut space, key) = (TestSpace::new(), stored("l"));
        let elements: Vec<String> = (0..16_000).map(|n| format!("{n:05}")).collect();
        for part in elements.chunks(500) {
            let mut args: Vec<&[u8]> = vec![b"RPUSH", &key];
            args.extend(part.iter().map(String::as_bytes));
            run(&mut space, &args);
        }
        run(&mut space, &[b"SET", &stored("k_00003"), b"value"]);
        let mut gets: Vec<&[u8]> = vec![b"#"; 30_000];
        (gets[100], gets[20_000]) = (b"k_*", b"nothing");
        let args = with_gets(b"SORT", &key, &gets);
        let (mut reply, reads) = (Reply::default(), space.reads);
        reply.limit(1_000_000);
        testspace::run(&mut space, &args, &mut reply).unwrap();
        assert!(reply.exceeded() && reply.buf.len() < 1_000_000);
        assert_eq!(reply.spent(), 16_000 * 29_998 * (32 + 5) + 32 + 5);
        let looked_up = space.reads - reads;
        let reads = space.reads;
        testspace::run(&mut space, &with_gets(b"SORT", &key, &[b"k_*"]), &mut Reply::default()).unwrap();
        assert_eq!(space.reads - reads, looked_up);
    }

    #[test]
    fn many_values_of_one_element_are_answered_in_steps() {
        let (mut space, key) = (TestSpace::new(), stored("l"));
        let value = vec![b'v'; 100_000];
        run(&mut space, &[b"RPUSH", &key, b"a", b"b"]);
        run(&mut space, &[b"SET", &stored("k_a"), &value]);
        let args = with_gets(b"SORT_RO", &key, &[&b"k_*"[..]; 150]);
        let mut whole = Reply::default();
        let mut rest =
            begin(&mut ReadCall { args: &args, space: &mut space, reply: &mut whole }, false).unwrap().unwrap();
        let mut progress = Progress::More;
        while progress == Progress::More {
            let mut reply = Reply::default();
            progress = rest.step(&mut space, &mut reply).unwrap();
            assert!(reply.buf.len() < STREAM_STEP_BYTES_SOFT + value.len() + 100);
            whole.buf.extend_from_slice(&reply.buf);
        }
        let Value::Array(values) = resp::decode(&whole.buf).unwrap().unwrap().0 else { panic!("an array") };
        assert_eq!(values.len(), 300);
        assert!(values[..150].iter().all(|of| of.as_bytes() == Some(&value[..])));
        assert!(values[150..].iter().all(|of| *of == Value::Null));
    }

    #[test]
    fn many_values_of_one_element_are_not_gathered_to_be_refused() {
        let (mut space, key) = (TestSpace::new(), stored("l"));
        run(&mut space, &[b"RPUSH", &key, &vec![b'e'; 1_000_000]]);
        // All of them would be 30 GB.
        let to = stored("d");
        let mut args = with_gets(b"SORT", &key, &vec![&b"#"[..]; 30_000]);
        args.extend([&b"STORE"[..], &to]);
        assert_eq!(run(&mut space, &args), Value::Error(TOO_LARGE_FOR_ENTRY.to_owned()));
        let mut args = with_gets(b"SORT", &key, &[b"#", b"nothing", b"#"]);
        args.extend([&b"STORE"[..], &to]);
        assert_eq!(run(&mut space, &args), Value::Int(3));
    }

    fn numbers(value: &Value) -> Vec<u64> {
        let Value::Array(elements) = value else { panic!("{value:?}") };
        elements.iter().map(|n| String::from_utf8_lossy(n.as_bytes().unwrap()).parse().unwrap()).collect()
    }

    #[test]
    fn slices_are_merged_in_order() {
        let (mut space, mut prng) = (TestSpace::new(), Prng::new(7));
        let mut all: Vec<u64> = (0..20_000).map(|_| prng.below(5_000)).collect();
        for (key, word) in [(b"l", &b"RPUSH"[..]), (b"s", b"SADD")] {
            for part in all.chunks(500) {
                let texts: Vec<String> = part.iter().map(u64::to_string).collect();
                let mut args: Vec<&[u8]> = vec![word, key];
                args.extend(texts.iter().map(String::as_bytes));
                run(&mut space, &args);
            }
        }
        assert_eq!(numbers(&run(&mut space, &[b"SORT_RO", b"l", b"BY", b"x"])), all, "as they lie");
        all.sort_unstable();
        assert_eq!(numbers(&run(&mut space, &[b"SORT_RO", b"l"])), all);
        assert_eq!(numbers(&run(&mut space, &[b"SORT_RO", b"l", b"LIMIT", b"15000", b"10"])), all[15_000..15_010]);
        let refused = run(&mut space, &[b"SORT", b"l", b"STORE", b"d"]);
        assert_eq!(refused, Value::Error(TOO_LARGE_FOR_ENTRY.to_owned()));
        all.dedup();
        all.reverse();
        assert_eq!(numbers(&run(&mut space, &[b"SORT_RO", b"s", b"DESC"])), all);
        run(&mut space, &[b"RPUSH", b"l", b"none"]);
        assert_eq!(run(&mut space, &[b"SORT_RO", b"l"]), Value::Error(NOT_A_SCORE.to_owned()));
    }
}
