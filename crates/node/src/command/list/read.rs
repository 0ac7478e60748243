//! LLEN, LINDEX, LRANGE and LPOS.

use super::run::Side;
use super::stored::{List, Walk, count_of, record_of};
use crate::command::args::{SYNTAX, int, is_word, natural, span_of};
use crate::command::call::{Error, Outcome, ReadCall};
use crate::command::error::corrupt;
use crate::command::steps::{Progress, ReplySteps, Rest};
use crate::{ReadSpace, Record};
use resp::Reply;

const RANK_RANGE: &str = "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
const RANK_ZERO: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
    negative to start from the end of the list";

pub(super) fn llen(call: &mut ReadCall<'_>) -> Outcome {
    let count = match record_of(call.space, call.args[1])? {
        Some(record) => count_of(call.args[1], &record)?,
        None => 0,
    };
    call.reply.int(count as i64);
    Ok(())
}

pub(super) fn lindex(call: &mut ReadCall<'_>) -> Outcome {
    let Some(list) = List::load(call.space, call.args[1])? else {
        call.reply.null();
        return Ok(());
    };
    let reply = &mut *call.reply;
    let found = list.get(call.space, int(call.args[2])?, |element| reply.bulk(element))?;
    if found.is_none() {
        call.reply.null();
    }
    Ok(())
}

pub(super) fn lrange(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    let (start, end) = (int(call.args[2])?, int(call.args[3])?);
    let Some(record) = record_of(call.space, call.args[1])? else {
        call.reply.array(0);
        return Ok(None);
    };
    let list = List::of(call.args[1], record.clone())?;
    let count = list.count()?;
    let Some((first, last)) = span_of_list(start, end, count) else {
        call.reply.array(0);
        return Ok(None);
    };
    let wanted = last - first + 1;
    call.reply.array(usize::try_from(wanted).map_err(|_| corrupt(list.key, "list longer than memory"))?);
    let mut walk = list.walk(first, wanted, Side::Left);
    write_step(&list, &mut walk, call.space, call.reply)?;
    if walk.is_over() {
        return Ok(None);
    }
    Ok(Some(Box::new(ElementsLeft { key: call.args[1].to_vec(), record, walk })))
}

/// The indexes from `start` to `end` of a list of that length.
pub(super) fn span_of_list(start: i64, end: i64, count: u64) -> Option<(u64, u64)> {
    let length = i64::try_from(count).unwrap_or(i64::MAX);
    let (first, last) = span_of(start, end, length)?;
    // Unlike that of a string, a range that ends before the beginning is empty.
    let is_empty = end < 0 && length.saturating_add(end) < 0;
    (!is_empty).then_some((first.unsigned_abs(), last.unsigned_abs()))
}

fn write_step(list: &List<'_>, walk: &mut Walk, space: &mut dyn ReadSpace, reply: &mut Reply) -> Outcome {
    walk.step(list, space, |_, element| {
        reply.bulk(element);
        Ok(true)
    })
}

/// These elements are still to be answered.
struct ElementsLeft {
    key: Vec<u8>,
    record: Record,
    walk: Walk,
}

impl ReplySteps for ElementsLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let list = List::of(&self.key, self.record.clone())?;
        write_step(&list, &mut self.walk, space, reply)?;
        Ok(if self.walk.is_over() { Progress::Done } else { Progress::More })
    }
}

/// What LPOS looks for.
struct Wanted {
    element: Vec<u8>,
    /// The first match that counts, from 1 on.
    rank: u64,
    from: Side,
    /// How many matches are answered, as an array; 0: all.
    count: Option<u64>,
    /// How many elements are compared; 0: all.
    compared_max: u64,
}

impl Wanted {
    fn parse(args: &[&[u8]]) -> Result<Self, Error> {
        let element = args[2].to_vec();
        let mut wanted = Self { element, rank: 1, from: Side::Left, count: None, compared_max: 0 };
        for option in args[3..].chunks(2) {
            match option {
                [word, n] if is_word(word, "RANK") => {
                    let rank = int(n)?;
                    if rank == i64::MIN {
                        return Err(RANK_RANGE.into());
                    }
                    if rank == 0 {
                        return Err(RANK_ZERO.into());
                    }
                    wanted.rank = rank.unsigned_abs();
                    wanted.from = if rank < 0 { Side::Right } else { Side::Left };
                }
                [word, n] if is_word(word, "COUNT") => {
                    wanted.count = Some(natural(n, "ERR COUNT can't be negative")?);
                }
                [word, n] if is_word(word, "MAXLEN") => {
                    wanted.compared_max = natural(n, "ERR MAXLEN can't be negative")?;
                }
                _ => return Err(SYNTAX.into()),
            }
        }
        Ok(wanted)
    }
}

pub(super) fn lpos(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    let wanted = Wanted::parse(call.args)?;
    let Some(record) = record_of(call.space, call.args[1])? else {
        match wanted.count {
            Some(_) => call.reply.array(0),
            None => call.reply.null(),
        }
        return Ok(None);
    };
    let list = List::of(call.args[1], record.clone())?;
    let mut search = Search::begin(&list, wanted, false)?;
    let progress = search.step(&list, call.space, call.reply)?;
    if progress == Progress::Done {
        return Ok(None);
    }
    Ok(Some(Box::new(SearchLeft { key: call.args[1].to_vec(), record, search })))
}

/// A search, step by step. With COUNT it goes over the list twice: for how many matches there are, and to answer them.
struct Search {
    wanted: Wanted,
    walk: Walk,
    /// How many matches were met.
    met: u64,
    answers: bool,
}

impl Search {
    fn begin(list: &List<'_>, wanted: Wanted, answers: bool) -> Result<Self, Error> {
        let count = list.count()?;
        let compared = if wanted.compared_max == 0 { count } else { count.min(wanted.compared_max) };
        let first = if wanted.from == Side::Left { 0 } else { count.saturating_sub(1) };
        let walk = list.walk(first, compared, wanted.from);
        Ok(Self { wanted, walk, met: 0, answers })
    }

    fn step(&mut self, list: &List<'_>, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let Self { wanted, walk, met, answers } = self;
        let last = match wanted.count {
            Some(0) => u64::MAX,
            Some(count) => (wanted.rank - 1).saturating_add(count),
            None => wanted.rank,
        };
        let answers = *answers || wanted.count.is_none();
        walk.step(list, space, |index, element| {
            if element == wanted.element {
                *met += 1;
                if answers && *met >= wanted.rank {
                    reply.int(index as i64);
                }
            }
            Ok(*met < last)
        })?;
        if *met >= last {
            walk.end();
        }
        if !walk.is_over() {
            return Ok(Progress::More);
        }
        if wanted.count.is_none() {
            if *met < wanted.rank {
                reply.null();
            }
            return Ok(Progress::Done);
        }
        if answers {
            return Ok(Progress::Done);
        }
        let matches = (*met).saturating_sub(wanted.rank - 1);
        reply.array(matches as usize);
        let element = std::mem::take(&mut wanted.element);
        let again = Wanted { element, ..*wanted };
        *self = Self::begin(list, again, true)?;
        if matches == 0 { Ok(Progress::Done) } else { self.step(list, space, reply) }
    }
}

/// A search that goes on.
struct SearchLeft {
    key: Vec<u8>,
    record: Record,
    search: Search,
}

impl ReplySteps for SearchLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let list = List::of(&self.key, self.record.clone())?;
        self.search.step(&list, space, reply)
    }
}
