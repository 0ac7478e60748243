//! HSCAN.
//!
//! What Redis would keep in a listpack or as integers is answered whole, as Redis does. Elsewhere the cursor is the position (see
//! `element`) at which to go on; all fields of a position are answered together. So every field that is there from the
//! beginning of an iteration to its end is answered, each once, and nothing is kept between the calls. A hash that becomes
//! large meanwhile keeps the positions of its fields.

use super::fields::Fields;
use super::stored::{Form, Stored};
use crate::command::args;
use crate::command::call::{Error, Outcome, ReadCall};
use crate::format::element;
use crate::format::packed_hash::Entry;
use crate::format::score;
use crate::{ReadSpace, Type};
use resp::{Reply, glob_matches};
use storage::Slice;

/// How many elements are read at a time.
const CHUNK: usize = 128;
/// Bytes of fields and values after which HSCAN answers.
const BYTES_SOFT: usize = 1 << 20;

pub(super) fn hscan(call: &mut ReadCall<'_>) -> Outcome {
    scan_of(Type::Hash, call)
}

/// HSCAN, SSCAN and ZSCAN.
pub(in crate::command) fn scan_of(ty: Type, call: &mut ReadCall<'_>) -> Outcome {
    let cursor = parse_cursor(call.args[2]).ok_or("ERR invalid cursor")?;
    let hash = Stored::load_of(ty, call.space, call.args[1])?;
    let Some(hash) = hash else {
        // Redis does not look at the options then.
        call.reply.array(2);
        call.reply.bulk(b"0");
        call.reply.array(0);
        return Ok(());
    };
    let options = Options::parse(&call.args[3..], ty == Type::Hash)?;
    // What stands beside a field; nothing beside a member of a set.
    let values = (ty != Type::Set && !options.no_values).then_some(ty);
    match &hash.form {
        Form::Inline(record) => {
            let has_integers = ty == Type::SortedSet && hash.is_listpack(call.space)?;
            let mut entries = hash.entries(record)?;
            let is_whole = (cursor == 0 && entries.len() <= options.count) || !call.space.pages_records();
            let is_paged = !is_whole && matches!(hash.encoding(call.space)?, "hashtable" | "skiplist");
            let next = if is_paged { page(&mut entries, cursor, options.count) } else { 0 };
            entries.retain(|(field, _)| options.admits(field));
            let values = values.map(|ty| if has_integers { Beside::ListpackScore } else { Beside::Value(ty) });
            answer(values, call, next, &entries);
        }
        Form::Large(rows) => {
            let fields = hash.fields(rows);
            let (next, mut elements) = walk(call.space, &hash, &fields, cursor, options.count)?;
            fields.retain_seen(call.space, &mut elements)?;
            let mut entries = Vec::with_capacity(elements.len());
            for (name, value) in &elements {
                let field = hash.field_of(name)?;
                if options.admits(field) {
                    entries.push((field, &value[..]));
                }
            }
            answer(values.map(Beside::Value), call, next, &entries);
        }
    }
    Ok(())
}

/// Keeps `count` entries from the cursor on, and all others at the position of the last; the cursor after them.
fn page(entries: &mut Vec<Entry<'_>>, cursor: u64, count: usize) -> u64 {
    entries.retain(|(field, _)| element::position_of_field(field) >= cursor);
    entries.sort_by_cached_key(|(field, _)| element::position_of_field(field));
    let Some((last, _)) = entries.get(count - 1) else { return 0 };
    let last = element::position_of_field(last);
    let end = entries.partition_point(|(field, _)| element::position_of_field(field) <= last);
    let next = entries.get(end).map_or(0, |(field, _)| element::position_of_field(field));
    entries.truncate(end);
    next
}

/// What stands beside a field.
#[derive(Clone, Copy)]
enum Beside {
    /// What a collection of that type has there.
    Value(Type),
    /// A score as Redis keeps it in a listpack: an integer has all of its digits.
    ListpackScore,
}

fn answer(values: Option<Beside>, call: &mut ReadCall<'_>, cursor: u64, entries: &[Entry<'_>]) {
    call.reply.array(2);
    call.reply.bulk_int(cursor as i64);
    call.reply.array(if values.is_some() { 2 * entries.len() } else { entries.len() });
    for (field, value) in entries {
        call.reply.bulk(field);
        match values {
            Some(Beside::Value(ty)) => value_of(ty, value, call.reply),
            Some(Beside::ListpackScore) => match score::decode(value).and_then(listpack_integer) {
                Some(integer) => call.reply.bulk_int(integer),
                None => value_of(Type::SortedSet, value, call.reply),
            },
            None => {}
        }
    }
}

/// The integer that Redis keeps in place of such a score.
fn listpack_integer(score: f64) -> Option<i64> {
    const BOUND: f64 = (i64::MAX / 2) as f64;
    let integer = score as i64;
    (score.abs() <= BOUND && integer as f64 == score).then_some(integer)
}

/// Writes what a field has: of a sorted set, the score.
pub(in crate::command) fn value_of(ty: Type, value: &[u8], reply: &mut Reply) {
    match score::decode(value) {
        Some(score) if ty == Type::SortedSet => reply.bulk(resp::format_double(score).as_bytes()),
        _ => reply.bulk(value),
    }
}

/// The elements at `cursor` and after, expired ones too, at least `count` of them if there are so many, and the cursor after them.
fn walk(
    space: &mut dyn ReadSpace,
    hash: &Stored<'_>,
    fields: &Fields,
    cursor: u64,
    count: usize,
) -> Result<(u64, Vec<(Slice, Slice)>), Error> {
    let mut found: Vec<(Slice, Slice)> = Vec::new();
    let mut bytes = 0;
    if cursor >= element::POSITIONS {
        return Ok((0, found));
    }
    let mut last = 0;
    let mut after = (cursor > 0).then(|| element::before(cursor).to_vec());
    loop {
        // One more than wanted tells whether, and where, to go on.
        let limit = (count - count.min(found.len())).saturating_add(1).min(CHUNK);
        let chunk = fields.within(space, after.as_deref(), limit, BYTES_SOFT)?;
        let chunk_bytes: usize = chunk.iter().map(|(name, value)| name.len() + value.len()).sum();
        // A space may count more for each element than its own bytes: what is far from the bound was not cut short by it.
        let ended = chunk.is_empty() || (chunk.len() < limit && chunk_bytes < BYTES_SOFT / 2);
        for (name, value) in chunk {
            let position =
                element::position_of(&name).ok_or_else(|| hash.corrupt("hash element without a position"))?;
            if (found.len() >= count || bytes >= BYTES_SOFT) && position != last {
                return Ok((position, found));
            }
            last = position;
            bytes += name.len() + value.len();
            found.push((name, value));
        }
        if ended {
            return Ok((0, found));
        }
        after = found.last().map(|(name, _)| name.to_vec());
    }
}

struct Options<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    /// Fields alone are answered.
    no_values: bool,
}

impl<'a> Options<'a> {
    fn parse(words: &[&'a [u8]], is_hash: bool) -> Result<Self, Error> {
        let mut options = Self { count: 10, pattern: None, no_values: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if args::is_word(word, "NOVALUES") {
                if !is_hash {
                    return Err(args::NO_VALUES.into());
                }
                options.no_values = true;
                continue;
            }
            let argument = *words.next().ok_or(args::SYNTAX)?;
            if args::is_word(word, "COUNT") {
                let count = args::int(argument)?;
                options.count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(args::SYNTAX)?;
            } else if args::is_word(word, "MATCH") {
                // A lone star admits the empty field, too; in no other pattern does a star stand for nothing at all.
                options.pattern = (argument != b"*").then_some(argument);
            } else {
                return Err(args::SYNTAX.into());
            }
        }
        Ok(options)
    }

    fn admits(&self, field: &[u8]) -> bool {
        let fits = |pattern: &[u8]| field.is_empty() == pattern.is_empty() && glob_matches(pattern, field, false);
        self.pattern.is_none_or(fits)
    }
}

/// A cursor as C's `strtoul` reads one: empty is 0, a sign is allowed, a blank in front is not.
fn parse_cursor(text: &[u8]) -> Option<u64> {
    let (negative, digits) = match text {
        [] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let n: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if negative { n.wrapping_neg() } else { n })
}
