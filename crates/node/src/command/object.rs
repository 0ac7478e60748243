//! OBJECT and MEMORY USAGE: how keys are kept, in Redis's words where those mean something here.

use super::args::{SYNTAX, int, is_word};
use super::call::{Error, HandlerRow, Outcome, ReadCall, read};
use super::hash::Stored;
use super::list::List;
use crate::format::element::before;
use crate::format::long_string::LongString;
use crate::{Kind, Layout, ReadSpace, Record, Type, key_hash};

/// Longest string that Redis would embed in its object, in bytes.
const EMBEDDED_BYTES_MAX: usize = 44;
/// How many elements MEMORY USAGE looks at, as in Redis.
const SAMPLES: usize = 5;
/// Most elements it looks at when asked for more.
const SAMPLES_MAX: usize = 1024;
/// After how many bytes it samples no more.
const SAMPLED_BYTES_SOFT: usize = 8 << 20;

const NO_FREQUENCY: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
    that when switching between policies at runtime LRU and LFU data will take some time to adjust.";

const NO_IDLE_TIME: &str = "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
    switching between policies at runtime LRU and LFU data will take some time to adjust.";

pub(super) const ROWS: &[HandlerRow] = &[
    read("OBJECT|ENCODING", |call| object(call, |space, key, record| encoding(space, key, record).map(Answer::Word))),
    // One owner: values are not shared between keys.
    read("OBJECT|REFCOUNT", |call| object(call, |_, _, _| Ok(Answer::Count(1)))),
    read("OBJECT|IDLETIME", |call| object(call, |space, key, _| idle_s(space, key))),
    read("OBJECT|FREQ", |call| object(call, |space, key, _| frequency(space, key))),
    read("MEMORY|USAGE", memory_usage),
];

/// What OBJECT says of a key.
enum Answer {
    Word(&'static str),
    Count(i64),
}

/// Answers something about the record of a key; null if it is absent.
fn object(call: &mut ReadCall<'_>, about: fn(&mut dyn ReadSpace, &[u8], Record) -> Result<Answer, Error>) -> Outcome {
    let key = call.args[2];
    match call.space.stored(key)?.map(|record| about(call.space, key, record)).transpose()? {
        Some(Answer::Word(word)) => call.reply.bulk(word.as_bytes()),
        Some(Answer::Count(count)) => call.reply.int(count),
        None => call.reply.null(),
    }
    Ok(())
}

/// For how many seconds a key has not been used. Without a policy that asks for it uses are not noted, so "just now" is the
/// best answer there is.
fn idle_s(space: &mut dyn ReadSpace, key: &[u8]) -> Result<Answer, Error> {
    let now_ms = space.now_ms();
    let Some(usage) = space.usage().filter(|usage| usage.tracks()) else { return Ok(Answer::Count(0)) };
    if usage.by_frequency() {
        return Err(NO_IDLE_TIME.into());
    }
    Ok(Answer::Count((usage.idle_ms(key_hash(key), now_ms) / 1000) as i64))
}

fn frequency(space: &mut dyn ReadSpace, key: &[u8]) -> Result<Answer, Error> {
    let now_ms = space.now_ms();
    match space.usage().filter(|usage| usage.by_frequency()) {
        Some(usage) => Ok(Answer::Count(i64::from(usage.frequency(key_hash(key), now_ms)))),
        None => Err(NO_FREQUENCY.into()),
    }
}

/// How Redis would keep such a value.
fn encoding(space: &mut dyn ReadSpace, key: &[u8], record: Record) -> Result<&'static str, Error> {
    if record.view().kind == Kind::STRING {
        let bytes = record.view().payload;
        let short = bytes.len() <= EMBEDDED_BYTES_MAX;
        let is_int = resp::parse_integer(bytes).is_some();
        return Ok(if is_int {
            "int"
        } else if short {
            "embstr"
        } else {
            "raw"
        });
    }
    if LongString::of(key, &record).is_some() {
        return Ok("raw");
    }
    match record.view().kind.ty {
        // Redis 7.0 has one form of lists.
        Type::List => Ok("quicklist"),
        Type::Stream => Ok("stream"),
        Type::String | Type::Hash | Type::Set | Type::SortedSet => {
            let now_ms = space.now_ms();
            Stored::of(key, record, now_ms)?.encoding(space)
        }
    }
}

fn memory_usage(call: &mut ReadCall<'_>) -> Outcome {
    let (key, options) = (call.args[2], &call.args[3..]);
    let mut samples = SAMPLES;
    for option in options.chunks(2) {
        let [word, count] = option else { return Err(SYNTAX.into()) };
        if !is_word(word, "SAMPLES") {
            return Err(SYNTAX.into());
        }
        let count = usize::try_from(int(count)?).map_err(|_| Error::from(SYNTAX))?;
        samples = if count == 0 { SAMPLES_MAX } else { count.min(SAMPLES_MAX) };
    }
    let Some(record) = call.space.stored(key)? else {
        call.reply.null();
        return Ok(());
    };
    call.reply.int(about_bytes(call.space, key, record, samples)? as i64);
    Ok(())
}

/// About how many bytes a key and its value take, by so many of its elements.
pub(crate) fn about_bytes(space: &mut dyn ReadSpace, key: &[u8], record: Record, samples: usize) -> Result<u64, Error> {
    let mut bytes = (key.len() + record.bytes().len()) as u64;
    if let Some(string) = LongString::of(key, &record) {
        bytes += string.len() as u64;
    } else if record.view().kind == Kind::large(Type::List) {
        bytes += List::of(key, record)?.about_bytes(space, samples as u64)?;
    } else if let Some(rows) = record.view().fields(key) {
        // Behind what is known of expiries.
        let first = (record.view().kind.layout == Layout::ExpiringRows).then(|| before(1));
        let sample =
            space.elements_within(&rows, first.as_ref().map(|first| &first[..]), samples, SAMPLED_BYTES_SOFT)?;
        // A sorted set has its members twice: by name, and in order.
        let times = if record.view().kind.ty == Type::SortedSet { 2 } else { 1 };
        let sampled: usize = sample.iter().map(|(name, value)| key.len() + times * (name.len() + value.len())).sum();
        bytes += sampled as u64 * rows.count / (sample.len() as u64).max(1);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        super::super::transcript::check("object");
    }
}
