//! XRANGE and XREVRANGE, and how entries are answered one after the other.

use super::id::StreamId;
use super::meta::Ordinal;
use super::stored::Stream;
use crate::ReadSpace;
use crate::command::args::{SYNTAX, int, is_word};
use crate::command::call::{Error, ReadCall};
use crate::command::error::corrupt;
use crate::command::steps::{Progress, ReplySteps, Rest, Step};
use resp::Reply;

pub(super) fn xrange(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    range(call, false)
}

pub(super) fn xrevrange(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    range(call, true)
}

fn range(call: &mut ReadCall<'_>, reverse: bool) -> Result<Rest, Error> {
    let (start, end) = if reverse { (3, 2) } else { (2, 3) };
    let (start, end) = (StreamId::parse_start(call.args[start])?, StreamId::parse_end(call.args[end])?);
    let mut count = None;
    for option in call.args[4..].chunks(2) {
        match option {
            [word, n] if is_word(word, "COUNT") => count = Some(int(n)?.max(0).unsigned_abs()),
            _ => return Err(SYNTAX.into()),
        }
    }
    let Some(stream) = Stream::load(call.space, call.args[1])? else {
        call.reply.array(0);
        return Ok(None);
    };
    if count == Some(0) {
        call.reply.null_array();
        return Ok(None);
    }
    let range = EntryRange::new(call.space, &stream, (start, end), count.unwrap_or(u64::MAX), reverse)?;
    call.reply.array(range.left as usize);
    EntriesLeft { key: call.args[1].to_vec(), range }.begin(call.space, &stream, call.reply)
}

/// Entries that are answered one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryRange {
    /// The first one that may be among them.
    start: Ordinal,
    /// Behind the last one that may be.
    end: Ordinal,
    /// How many there are.
    pub(super) left: u64,
    /// The last one comes first.
    reverse: bool,
}

impl EntryRange {
    /// Up to `count` entries from one id to another, both included.
    pub(super) fn new(
        space: &mut dyn ReadSpace,
        stream: &Stream<'_>,
        (start, end): (StreamId, StreamId),
        count: u64,
        reverse: bool,
    ) -> Result<Self, Error> {
        if stream.meta.length == 0 || start > end {
            return Ok(Self { start: stream.meta.next, end: stream.meta.next, left: 0, reverse });
        }
        let start = stream.find(space, start)?;
        let end = stream.behind_id(space, end)?;
        let span = end.0.saturating_sub(start.0);
        let left = match stream.meta.gone() {
            0 => span,
            _ => span - stream.gone_between(space, start, end)?,
        };
        Ok(Self { start, end, left: left.min(count), reverse })
    }

    /// Answers the next of them until a step is over.
    pub(super) fn step(
        &mut self,
        space: &mut dyn ReadSpace,
        stream: &Stream<'_>,
        reply: &mut Reply,
    ) -> Result<Progress, Error> {
        let mut step = Step::begin(reply);
        while self.left > 0 {
            let found = if self.reverse {
                stream.live_before(space, self.end, self.start)?
            } else {
                stream.live_from(space, self.start, self.end)?
            };
            let (at, entry) = found.ok_or_else(|| stream.corrupt("stream with fewer entries than it counts"))?;
            entry.write(reply).map_err(|why| stream.malformed(why))?;
            (self.start, self.end) = if self.reverse { (self.start, at) } else { (Ordinal(at.0 + 1), self.end) };
            self.left -= 1;
            if self.left > 0 && !step.goes_on(reply) {
                return Ok(Progress::More);
            }
        }
        Ok(Progress::Done)
    }
}

/// These entries of a stream are still to be answered.
pub(super) struct EntriesLeft {
    pub(super) key: Vec<u8>,
    pub(super) range: EntryRange,
}

impl EntriesLeft {
    /// Answers the first of them; what is left of the reply, if anything is.
    pub(super) fn begin(
        mut self,
        space: &mut dyn ReadSpace,
        stream: &Stream<'_>,
        reply: &mut Reply,
    ) -> Result<Rest, Error> {
        let progress = self.range.step(space, stream, reply)?;
        Ok((progress == Progress::More).then(|| Box::new(self) as _))
    }
}

impl ReplySteps for EntriesLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let stream = Stream::load(space, &self.key)?;
        let stream = stream.ok_or_else(|| corrupt(&self.key, "stream that is gone from its snapshot"))?;
        self.range.step(space, &stream, reply)
    }
}
