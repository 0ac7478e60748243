//! ZRANGE and its relatives, ZCOUNT and ZLEXCOUNT: all members whose ranks, scores or names lie within bounds.
//!
//! Every range is brought to ranks first, in O(log n). A long reply is made in steps, each from a rank on.

use super::leaves::{Among, Cut};
use super::scored::Scored;
use super::stored::{Form, Large, SortedSet};
use crate::command::args::{SYNTAX, int, is_word};
use crate::command::call::{Error, Outcome, ReadCall};
use crate::command::steps::{Progress, ReplySteps, Rest};
use crate::{ReadSpace, Rules};
use resp::{Proto, Reply};
use vocab::limits::{STREAM_STEP_BYTES_SOFT, STREAM_STEP_ITEMS_MAX};

const NOT_A_FLOAT: &str = "ERR min or max is not a float";
const NOT_A_STRING: &str = "ERR min or max not valid string range item";
/// So many members are read at a time: their names may be long.
const AT_ONCE: u64 = 256;
/// So many members one step of a long reply shows: each is found in a leaf and its score is written as a number, which takes
/// four times as long as an element of another kind.
const STEP_MEMBERS_MAX: u64 = STREAM_STEP_ITEMS_MAX as u64 / 4;

/// What the bounds of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Ranks.
    Rank,
    /// Scores.
    Score,
    /// Members, all of one score.
    Lex,
}

/// A command's words for a range.
pub(in crate::command) struct RangeWords<'a> {
    by: By,
    falls: bool,
    first: &'a [u8],
    last: &'a [u8],
    offset: i64,
    /// Negative: all.
    limit: i64,
    pub(super) with_scores: bool,
}

/// Which options a command takes.
#[derive(Clone, Copy)]
pub(in crate::command) struct Grammar {
    /// What the command's name says the bounds are; `None`: its options do.
    by: Option<By>,
    /// Likewise of the direction.
    falls: Option<bool>,
    /// Whether it answers scores if it is asked to.
    scores: bool,
}

impl Grammar {
    /// ZRANGE.
    pub(super) const RANGE: Self = Self { by: None, falls: None, scores: true };
    /// ZRANGESTORE.
    pub(in crate::command) const STORE: Self = Self { by: None, falls: None, scores: false };

    /// Of a command whose name says what it is.
    const fn of(by: By, falls: bool) -> Self {
        Self { by: Some(by), falls: Some(falls), scores: true }
    }

    /// Reads `first last [option ...]`.
    pub(in crate::command) fn parse<'a>(self, args: &[&'a [u8]]) -> Result<RangeWords<'a>, Error> {
        let [first, last, ref options @ ..] = *args else { return Err(SYNTAX.into()) };
        let (mut by, mut falls) = (self.by, self.falls);
        let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
        let mut options = options.iter();
        while let Some(word) = options.next() {
            match () {
                () if self.scores && is_word(word, "WITHSCORES") => with_scores = true,
                () if is_word(word, "LIMIT") && options.len() >= 2 => {
                    offset = int(options.next().ok_or(SYNTAX)?)?;
                    limit = int(options.next().ok_or(SYNTAX)?)?;
                }
                () if falls.is_none() && is_word(word, "REV") => falls = Some(true),
                () if by.is_none() && is_word(word, "BYLEX") => by = Some(By::Lex),
                () if by.is_none() && is_word(word, "BYSCORE") => by = Some(By::Score),
                () => return Err(SYNTAX.into()),
            }
        }
        let (by, falls) = (by.unwrap_or(By::Rank), falls.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            let text = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
            return Err(text.into());
        }
        if with_scores && by == By::Lex {
            return Err("ERR syntax error, WITHSCORES not supported in combination with BYLEX".into());
        }
        Ok(RangeWords { by, falls, first, last, offset, limit, with_scores })
    }
}

/// A range whose words are understood.
pub(in crate::command) struct Range<'a> {
    bounds: Bounds<'a>,
    falls: bool,
    offset: i64,
    limit: i64,
}

/// Members between two bounds.
#[derive(Clone, Copy, Debug)]
pub(in crate::command) enum Bounds<'a> {
    /// By the first rank and the last.
    Ranks(i64, i64),
    /// By scores.
    Scores(ScoreBound, ScoreBound),
    /// By members.
    Members(LexBound<'a>, LexBound<'a>),
}

/// The end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::command) struct ScoreBound {
    score: f64,
    /// Whether the score itself is outside.
    open: bool,
}

impl ScoreBound {
    /// A score, with `(` before it if it is outside.
    fn parse(text: &[u8]) -> Result<Self, Error> {
        let (open, text) = text.strip_prefix(b"(").map_or((false, text), |text| (true, text));
        // Blanks before a number are passed over, and nothing at all is 0.
        let number = if text.is_empty() { b"0" } else { text.trim_ascii_start() };
        let score = resp::read_double(number).filter(|score| !score.is_nan()).ok_or(Error::from(NOT_A_FLOAT))?;
        Ok(Self { score, open })
    }

    fn first(&self) -> Cut<'static> {
        Cut { score: self.score, among: if self.open { Among::Last } else { Among::First } }
    }

    fn end(&self) -> Cut<'static> {
        Cut { score: self.score, among: if self.open { Among::First } else { Among::Last } }
    }
}

/// The end of a range of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::command) enum LexBound<'a> {
    /// Before all.
    Lowest,
    /// At that member, or beside it.
    At {
        /// The member.
        member: &'a [u8],
        /// Whether it is outside itself.
        open: bool,
    },
    /// After all.
    Highest,
}

impl<'a> LexBound<'a> {
    fn parse(text: &'a [u8]) -> Result<Self, Error> {
        match text {
            b"-" => Ok(Self::Lowest),
            b"+" => Ok(Self::Highest),
            [b'(', member @ ..] => Ok(Self::At { member, open: true }),
            [b'[', member @ ..] => Ok(Self::At { member, open: false }),
            _ => Err(NOT_A_STRING.into()),
        }
    }

    /// Whether a member comes before a range that begins here.
    fn is_above(&self, other: &[u8]) -> bool {
        match self {
            Self::Lowest => false,
            Self::At { member, open } => other < *member || *open && other == *member,
            Self::Highest => true,
        }
    }

    /// Whether a member comes before the end of a range that ends here.
    fn admits(&self, other: &[u8]) -> bool {
        match self {
            Self::Lowest => false,
            Self::At { member, open } => other < *member || !*open && other == *member,
            Self::Highest => true,
        }
    }

    /// The same as a cut among the members of a score.
    fn cut(&self, score: f64, is_end: bool) -> Cut<'a> {
        let among = match *self {
            Self::Lowest => Among::First,
            Self::Highest => Among::Last,
            Self::At { member, open } if open != is_end => Among::After(member),
            Self::At { member, .. } => Among::Before(member),
        };
        Cut { score, among }
    }
}

impl<'a> Bounds<'a> {
    /// Of scores, the lower bound first.
    pub(super) fn scores(low: &[u8], high: &[u8]) -> Result<Self, Error> {
        Ok(Self::Scores(ScoreBound::parse(low)?, ScoreBound::parse(high)?))
    }

    /// Of members, the lower bound first.
    pub(super) fn members(low: &'a [u8], high: &'a [u8]) -> Result<Self, Error> {
        Ok(Self::Members(LexBound::parse(low)?, LexBound::parse(high)?))
    }

    /// Of ranks.
    pub(super) fn ranks(first: &[u8], last: &[u8]) -> Result<Self, Error> {
        Ok(Self::Ranks(int(first)?, int(last)?))
    }

    /// Of scores that are known: the first is inside, the last is not.
    pub(in crate::command) fn from_score_to(first: f64, end: f64) -> Self {
        Self::Scores(ScoreBound { score: first, open: false }, ScoreBound { score: end, open: true })
    }

    /// The rank of the first member within, and how many there are.
    pub(in crate::command) fn span(&self, space: &mut dyn ReadSpace, set: &SortedSet<'_>) -> Result<Span, Error> {
        let (first, end) = match self {
            Self::Ranks(first, last) => {
                let count = set.count()? as i64;
                // From the end if negative; what is before the beginning begins there.
                let rank = |rank: i64| if rank < 0 { count.saturating_add(rank) } else { rank };
                let (first, end) = (rank(*first).max(0), rank(*last).min(count - 1).max(-1) + 1);
                (first as u64, end as u64)
            }
            Self::Scores(low, high) => (set.rank(space, &low.first())?, set.rank(space, &high.end())?),
            Self::Members(low, high) => lex_span(space, set, low, high)?,
        };
        Ok(Span { first, count: end.saturating_sub(first) })
    }
}

/// Members by their ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::command) struct Span {
    pub(in crate::command) first: u64,
    pub(in crate::command) count: u64,
}

/// The first rank within bounds of members, and the first one behind. Where not all scores are the same the answer is of no
/// use, as in Redis; in a small sorted set it is the one that Redis gives.
fn lex_span(
    space: &mut dyn ReadSpace,
    set: &SortedSet<'_>,
    low: &LexBound<'_>,
    high: &LexBound<'_>,
) -> Result<(u64, u64), Error> {
    let Form::Small(record) = &set.form else {
        let mut score = 0.0;
        set.visit(space, 0, 1, false, &mut |first| score = first.score)?;
        let first = set.rank(space, &low.cut(score, false))?;
        let end = match high {
            LexBound::Highest => set.count()?,
            high => set.rank(space, &high.cut(score, true))?,
        };
        return Ok((first, end));
    };
    let members = set.packed(record)?;
    let (Some(lowest), Some(highest)) = (members.first(), members.last()) else { return Ok((0, 0)) };
    if low.is_above(highest.member) || !high.admits(lowest.member) {
        return Ok((0, 0));
    }
    let first = members.iter().position(|scored| !low.is_above(scored.member)).unwrap_or(members.len());
    let count = members[first..].iter().take_while(|scored| high.admits(scored.member)).count();
    Ok((first as u64, (first + count) as u64))
}

impl<'a> RangeWords<'a> {
    /// Reads the bounds.
    pub(in crate::command) fn range(&self) -> Result<Range<'a>, Error> {
        let (low, high) =
            if self.falls && self.by != By::Rank { (self.last, self.first) } else { (self.first, self.last) };
        let bounds = match self.by {
            By::Rank => Bounds::ranks(low, high)?,
            By::Score => Bounds::scores(low, high)?,
            By::Lex => Bounds::members(low, high)?,
        };
        Ok(Range { bounds, falls: self.falls, offset: self.offset, limit: self.limit })
    }
}

impl Range<'_> {
    /// The way through the members of the range.
    pub(in crate::command) fn walk(&self, space: &mut dyn ReadSpace, set: &SortedSet<'_>) -> Result<Walk, Error> {
        let mut span = self.bounds.span(space, set)?;
        if let (Bounds::Ranks(..), true) = (&self.bounds, self.falls) {
            // Ranks count from the other end.
            span.first = set.count()?.saturating_sub(span.first + span.count);
        }
        // Of ranks there is none: all are meant, as in Redis. A negative offset answers nothing.
        let is_all = matches!(self.bounds, Bounds::Ranks(..)) && space.rules() >= Rules::Later;
        let offset =
            u64::try_from(if is_all { 0 } else { self.offset }).map_or(span.count, |offset| offset.min(span.count));
        let mut left = span.count - offset;
        if let Ok(limit) = u64::try_from(self.limit) {
            left = left.min(limit);
        }
        let next = if self.falls { (span.first + span.count).saturating_sub(offset + 1) } else { span.first + offset };
        Ok(Walk { next, left, falls: self.falls })
    }
}

/// Members that are still to be shown.
#[derive(Clone, Copy, Debug)]
pub(in crate::command) struct Walk {
    /// The rank of the next one.
    pub(super) next: u64,
    /// How many there are.
    pub(in crate::command) left: u64,
    /// Whether ranks fall.
    pub(super) falls: bool,
}

impl Walk {
    /// Through all of a set of so many members, in rising or in falling order.
    pub(in crate::command) fn all(count: u64, falls: bool) -> Self {
        Self { next: if falls { count.saturating_sub(1) } else { 0 }, left: count, falls }
    }

    /// Through all of them, in rising order.
    pub(in crate::command) fn over(span: Span) -> Self {
        Self { next: span.first, left: span.count, falls: false }
    }

    /// Shows the next ones, some hundred at most.
    pub(in crate::command) fn step(
        &mut self,
        space: &mut dyn ReadSpace,
        set: &SortedSet<'_>,
        visit: &mut dyn FnMut(Scored<'_>),
    ) -> Outcome {
        let count = self.left.min(AT_ONCE);
        set.visit(space, self.next, count, self.falls, visit)?;
        self.pass(count);
        Ok(())
    }

    /// So many have been shown.
    fn pass(&mut self, count: u64) {
        self.left -= count;
        self.next = if self.falls { self.next.saturating_sub(count) } else { self.next + count };
    }
}

/// How members are answered.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    with_scores: bool,
    /// Each with its score is an array of its own.
    nested: bool,
}

impl Shape {
    pub(super) fn new(with_scores: bool, proto: Proto) -> Self {
        Self { with_scores, nested: with_scores && proto == Proto::Resp3 }
    }

    pub(super) fn head(self, reply: &mut Reply, members: u64) {
        let each = if self.with_scores && !self.nested { 2 } else { 1 };
        reply.array(members as usize * each);
    }

    pub(super) fn write(self, reply: &mut Reply, scored: Scored<'_>) {
        if self.nested {
            reply.array(2);
        }
        reply.bulk(scored.member);
        if self.with_scores {
            reply.double(scored.score);
        }
    }
}

pub(super) fn zrange(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    range(call, Grammar::RANGE)
}

pub(super) fn zrevrange(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    range(call, Grammar::of(By::Rank, true))
}

pub(super) fn zrangebyscore(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    range(call, Grammar::of(By::Score, false))
}

pub(super) fn zrevrangebyscore(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    range(call, Grammar::of(By::Score, true))
}

pub(super) fn zrangebylex(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    range(call, Grammar::of(By::Lex, false))
}

pub(super) fn zrevrangebylex(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    range(call, Grammar::of(By::Lex, true))
}

fn range(call: &mut ReadCall<'_>, grammar: Grammar) -> Result<Rest, Error> {
    let words = grammar.parse(&call.args[2..])?;
    let range = words.range()?;
    let Some(set) = SortedSet::load(call.space, call.args[1])? else {
        call.reply.array(0);
        return Ok(None);
    };
    let walk = range.walk(call.space, &set)?;
    let shape = Shape::new(words.with_scores, call.reply.proto);
    shape.head(call.reply, walk.left);
    match set.form {
        Form::Small(_) => {
            let mut walk = walk;
            while walk.left > 0 {
                walk.step(call.space, &set, &mut |scored| shape.write(call.reply, scored))?;
            }
            Ok(None)
        }
        Form::Large(large) => {
            let mut left = MembersLeft { large, walk, shape };
            Ok(match left.step(call.space, call.reply)? {
                Progress::More => Some(Box::new(left)),
                Progress::Done => None,
            })
        }
    }
}

/// These members of a large sorted set are still to be answered.
struct MembersLeft {
    large: Large,
    walk: Walk,
    shape: Shape,
}

impl ReplySteps for MembersLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let spent_max = reply.spent().saturating_add(STREAM_STEP_BYTES_SOFT);
        let left_min = self.walk.left.saturating_sub(STEP_MEMBERS_MAX);
        while self.walk.left > left_min && reply.spent() < spent_max {
            let count = self.walk.left.min(AT_ONCE);
            let shape = self.shape;
            let mut shown = 0;
            self.large.leaves.visit(space, self.walk.next, count, self.walk.falls, &mut |scored| {
                shown += 1;
                shape.write(reply, scored);
            })?;
            if shown < count {
                return Err(super::stored::corrupt(&self.large.rows.prefix, "fewer members than its count"));
            }
            self.walk.pass(count);
        }
        Ok(if self.walk.left == 0 { Progress::Done } else { Progress::More })
    }
}

pub(super) fn zcount(call: &mut ReadCall<'_>) -> Outcome {
    let bounds = Bounds::scores(call.args[2], call.args[3])?;
    count(call, &bounds)
}

pub(super) fn zlexcount(call: &mut ReadCall<'_>) -> Outcome {
    let bounds = Bounds::members(call.args[2], call.args[3])?;
    count(call, &bounds)
}

fn count(call: &mut ReadCall<'_>, bounds: &Bounds<'_>) -> Outcome {
    let count = match SortedSet::load(call.space, call.args[1])? {
        Some(set) => bounds.span(call.space, &set)?.count,
        None => 0,
    };
    call.reply.int(count as i64);
    Ok(())
}
