//! XREAD, and the words that XREADGROUP has in common with it.
//!
//! What has nothing to answer answers a null array: with BLOCK, that is when a client begins to wait.

use super::id::StreamId;
use super::range::EntryRange;
use super::stored::Stream;
use crate::command::args::{SYNTAX, int, is_word};
use crate::command::call::{Error, Outcome, ReadCall};
use crate::command::error::corrupt;
use crate::command::steps::{Progress, ReplySteps, Rest};
use crate::{Fault, ReadSpace, Rules};
use resp::{Proto, Reply};
use vocab::client_key;
use vocab::limits::STREAM_STEP_BYTES_SOFT;

/// The words of XREAD or XREADGROUP.
pub(super) struct ReadWords<'a> {
    /// Most entries of each stream; none: all.
    pub(super) count: Option<u64>,
    /// Group and consumer.
    pub(super) group: Option<(&'a [u8], &'a [u8])>,
    /// What is delivered is not pending.
    pub(super) no_ack: bool,
    /// CLAIM: what has been pending for so long is delivered first, in ms.
    pub(super) claim_ms: Option<u64>,
    pub(super) keys: &'a [&'a [u8]],
    /// For each key, after which id.
    pub(super) ids: &'a [&'a [u8]],
}

impl<'a> ReadWords<'a> {
    pub(super) fn parse(args: &'a [&'a [u8]], of_group: bool, rules: Rules) -> Result<Self, Error> {
        let mut words = Self { count: None, group: None, no_ack: false, claim_ms: None, keys: &[], ids: &[] };
        let mut streams = None;
        let mut at = 1;
        while at < args.len() {
            let (word, more) = (args[at], args.len() - at - 1);
            if is_word(word, "CLAIM") && more > 0 && (rules >= Rules::Fourth || !of_group) {
                if !of_group {
                    return Err(
                        "ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.".into()
                    );
                }
                words.claim_ms = Some(idle_ms(args[at + 1])?);
                at += 1;
            } else if is_word(word, "BLOCK") && more > 0 {
                check_timeout(args[at + 1])?;
                at += 1;
            } else if is_word(word, "COUNT") && more > 0 {
                words.count = Some(int(args[at + 1])?.max(0).unsigned_abs()).filter(|count| *count > 0);
                at += 1;
            } else if is_word(word, "STREAMS") && more > 0 {
                streams = Some(&args[at + 1..]);
                break;
            } else if is_word(word, "GROUP") && more >= 2 {
                if !of_group {
                    return Err(
                        "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.".into()
                    );
                }
                words.group = Some((args[at + 1], args[at + 2]));
                at += 2;
            } else if is_word(word, "NOACK") {
                if !of_group {
                    return Err(
                        "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.".into()
                    );
                }
                words.no_ack = true;
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        let streams = streams.ok_or(SYNTAX)?;
        if streams.len() % 2 == 1 {
            return Err(
                "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.".into()
            );
        }
        if of_group && words.group.is_none() {
            return Err("ERR Missing GROUP option for XREADGROUP".into());
        }
        (words.keys, words.ids) = streams.split_at(streams.len() / 2);
        Ok(words)
    }
}

/// For how long an entry that CLAIM takes has been pending at least, in ms.
fn idle_ms(text: &[u8]) -> Result<u64, Error> {
    let ms = resp::parse_integer(text).ok_or("ERR min-idle-time is not an integer or out of range")?;
    u64::try_from(ms).map_err(|_| "ERR min-idle-time must be a positive integer".into())
}

/// Refuses what is no time to wait, in ms.
fn check_timeout(text: &[u8]) -> Outcome {
    let ms = resp::parse_integer(text).ok_or("ERR timeout is not an integer or out of range")?;
    if ms < 0 { Err("ERR timeout is negative".into()) } else { Ok(()) }
}

/// Whether an id stands for the end of a stream as it is now: `$` behind its last entry, `+` before it.
pub(crate) fn is_end(word: &[u8]) -> bool {
    matches!(word, b"$" | b"+")
}

/// The id as text that one which is an end stands for. Zero where no stream is.
pub(crate) fn stream_end(space: &mut dyn ReadSpace, key: &[u8], word: &[u8]) -> Result<String, Fault> {
    let found = Stream::load(space, key).and_then(|stream| end_of(space, stream.as_ref(), word));
    match found {
        Ok(id) => Ok(id.to_string()),
        Err(Error::Reply(_)) => Ok(StreamId::ZERO.to_string()),
        Err(Error::Fault(fault)) => Err(fault),
    }
}

/// What an id that is an end stands for.
fn end_of(space: &mut dyn ReadSpace, stream: Option<&Stream<'_>>, word: &[u8]) -> Result<StreamId, Error> {
    let Some(stream) = stream else { return Ok(StreamId::ZERO) };
    let last = if word == b"+" { stream.last(space)? } else { None };
    Ok(last.and_then(|entry| entry.id.previous()).unwrap_or(stream.meta.last_id))
}

pub(super) fn xread(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    let words = ReadWords::parse(call.args, false, call.space.rules())?;
    let mut ranges = Vec::with_capacity(words.keys.len());
    for (key, id) in words.keys.iter().zip(words.ids) {
        let stream = Stream::load(call.space, key)?;
        let after = match *id {
            end if is_end(end) => end_of(call.space, stream.as_ref(), end)?,
            b">" => {
                return Err("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
                    .into());
            }
            id => StreamId::parse(id, 0)?,
        };
        if let Some(stream) = stream
            && let Some(start) = after.next()
        {
            let count = words.count.unwrap_or(u64::MAX);
            let range = EntryRange::new(call.space, &stream, (start, StreamId::MAX), count, false)?;
            ranges.extend((range.left > 0).then(|| (key.to_vec(), range)));
        }
    }
    if ranges.is_empty() {
        call.reply.null_array();
        return Ok(None);
    }
    match call.reply.proto {
        Proto::Resp2 => call.reply.array(ranges.len()),
        Proto::Resp3 => call.reply.map(ranges.len()),
    }
    let mut left = StreamsLeft { left: ranges.into_iter(), under_way: None };
    let progress = left.step(call.space, call.reply)?;
    Ok((progress == Progress::More).then(|| Box::new(left) as _))
}

/// Answers the name of a stream, behind which the array of its entries comes.
pub(super) fn begin_stream(key: &[u8], reply: &mut Reply) {
    if reply.proto == Proto::Resp2 {
        reply.array(2);
    }
    reply.bulk(client_key(key));
}

/// Streams that one step of a reply looks at, at most.
const STREAMS_PER_STEP_MAX: usize = 256;

/// The entries of these streams are still to be answered.
struct StreamsLeft {
    left: std::vec::IntoIter<(Vec<u8>, EntryRange)>,
    under_way: Option<(Vec<u8>, EntryRange)>,
}

impl ReplySteps for StreamsLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let end = reply.buf.len() + STREAM_STEP_BYTES_SOFT;
        for _ in 0..STREAMS_PER_STEP_MAX {
            let (key, range) = match &mut self.under_way {
                Some(under_way) => under_way,
                None => {
                    let Some((key, range)) = self.left.next() else { return Ok(Progress::Done) };
                    begin_stream(&key, reply);
                    reply.array(range.left as usize);
                    self.under_way.insert((key, range))
                }
            };
            let stream = Stream::load(space, key)?;
            let stream = stream.ok_or_else(|| corrupt(key, "stream that is gone from its snapshot"))?;
            if range.step(space, &stream, reply)? == Progress::More {
                return Ok(Progress::More);
            }
            self.under_way = None;
            if reply.buf.len() >= end {
                break;
            }
        }
        Ok(if self.left.len() > 0 { Progress::More } else { Progress::Done })
    }
}
