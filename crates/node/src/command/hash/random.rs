//! HRANDFIELD.

use super::fields::Fields;
use super::stored::{Form, Stored};
use crate::command::args::{self, OUT_OF_RANGE};
use crate::command::call::{Error, Outcome, ReadCall, TOO_LONG};
use crate::format::element;
use crate::{Fault, ReadSpace, Rows, Type};
use resp::{Proto, Reply};
use std::collections::HashSet;
use storage::Slice;
use vocab::limits;

/// A large hash of no more fields is read whole to draw one of them.
const WHOLE_MAX: u64 = 64;
/// How many elements a stretch of positions holds on average when one is drawn.
const STRETCH_MEAN: u64 = 16;
/// How many a stretch may hold. With evenly spread positions more than these come once in 10^10 stretches.
const STRETCH_MAX: u64 = 48;
/// How many draws are tried. A try succeeds in one of three cases.
const TRIES_MAX: usize = 128;

/// What a draw costs beside copying what is drawn, in the bytes that could be copied meanwhile.
const DRAW_COST: usize = 64;

pub(super) fn hrandfield(call: &mut ReadCall<'_>) -> Outcome {
    let Some(count) = call.args.get(2) else { return any_one(Type::Hash, call) };
    let count = count_of(count)?;
    let with_values = match &call.args[3..] {
        [] => false,
        [word] if args::is_word(word, "WITHVALUES") => true,
        _ => return Err(args::SYNTAX.into()),
    };
    if with_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(OUT_OF_RANGE.into());
    }
    draw_all(Type::Hash, call, count, with_values)
}

/// SRANDMEMBER.
pub(in crate::command) fn srandmember(call: &mut ReadCall<'_>) -> Outcome {
    match call.args[2..] {
        [] => any_one(Type::Set, call),
        [count] => draw_all(Type::Set, call, count_of(count)?, false),
        _ => Err(args::SYNTAX.into()),
    }
}

/// How many are drawn: with a sign that says whether one may come twice.
fn count_of(text: &[u8]) -> Result<i64, Error> {
    let count = args::int(text)?;
    if count == i64::MIN {
        let bounds = "value must between -9223372036854775807 and 9223372036854775807";
        return Err(Error::Reply(format!("{OUT_OF_RANGE}, {bounds}").into()));
    }
    Ok(count)
}

fn draw_all(ty: Type, call: &mut ReadCall<'_>, count: i64, with_values: bool) -> Outcome {
    let mut answer = Answer { with_values, nested: with_values && call.reply.proto == Proto::Resp3, reply: call.reply };
    match Stored::load_of(ty, call.space, call.args[1])? {
        Some(hash) if count > 0 => {
            let count = count.unsigned_abs().min(hash.seen(call.space)?);
            answer.head(count as usize);
            distinct(call.space, &hash, count, &mut |field, value| answer.field(field, value))
        }
        Some(hash) if count < 0 => repeated(call.space, &hash, count.unsigned_abs(), &mut answer),
        _ => {
            answer.head(0);
            Ok(())
        }
    }
}

/// Writes the fields drawn, in the shape asked for.
struct Answer<'r> {
    with_values: bool,
    nested: bool,
    reply: &'r mut Reply,
}

impl Answer<'_> {
    fn head(&mut self, fields: usize) {
        self.reply.array(if self.with_values && !self.nested { 2 * fields } else { fields });
    }

    fn field(&mut self, field: &[u8], value: &[u8]) {
        if self.nested {
            self.reply.array(2);
        }
        self.reply.bulk(field);
        if self.with_values {
            self.reply.bulk(value);
        }
    }
}

fn any_one(ty: Type, call: &mut ReadCall<'_>) -> Outcome {
    let Some(hash) = Stored::load_of(ty, call.space, call.args[1])? else {
        call.reply.null();
        return Ok(());
    };
    if !hash.is_late() {
        call.reply.bulk(&one_of(call.space, &hash)?);
        return Ok(());
    }
    let mut drawn = None;
    let count = hash.seen(call.space)?.min(1);
    distinct(call.space, &hash, count, &mut |field, _| drawn = Some(field.to_vec()))?;
    call.reply.bulk_or_null(drawn.as_deref());
    Ok(())
}

/// A field, each as likely as any other.
pub(in crate::command) fn one_of(space: &mut dyn ReadSpace, hash: &Stored<'_>) -> Result<Slice, Error> {
    match &hash.form {
        Form::Inline(record) => {
            let entries = hash.entries(record)?;
            let at = below(space, entries.len() as u64)? as usize;
            let (field, _) = entries.get(at).ok_or_else(|| hash.corrupt("hash without a field"))?;
            Ok(Slice::from(*field))
        }
        Form::Large(rows) => {
            let (name, _) = draw(space, hash, rows)?;
            Ok(Slice::from(hash.field_of(&name)?))
        }
    }
}

/// Shows `count` fields and their values, each at most once; there are as many.
pub(in crate::command) fn distinct(
    space: &mut dyn ReadSpace,
    hash: &Stored<'_>,
    count: u64,
    show: &mut dyn FnMut(&[u8], &[u8]),
) -> Outcome {
    space.visit_many(count)?;
    let size = hash.seen(space)?;
    if let Form::Large(rows) = &hash.form
        && count <= size / 3
        && !hash.is_late()
    {
        let mut seen = HashSet::new();
        while (seen.len() as u64) < count {
            let (name, value) = draw(space, hash, rows)?;
            if !seen.contains(&name) {
                show(hash.field_of(&name)?, &value);
                seen.insert(name);
            }
        }
        return Ok(());
    }
    // One pass: a field is taken with the share of those still wanted in those still to come.
    let (mut wanted, mut left) = (count, size);
    hash.each(space, |space, field, value| {
        if wanted == left || below(space, left)? < wanted {
            show(field, value);
            wanted -= 1;
        }
        left -= 1;
        Ok(())
    })
}

/// `count` fields, each drawn from all.
fn repeated(space: &mut dyn ReadSpace, hash: &Stored<'_>, count: u64, answer: &mut Answer<'_>) -> Outcome {
    if count > limits::RANDOM_FIELDS_MAX as u64 {
        return Err(OUT_OF_RANGE.into());
    }
    space.visit_many(count)?;
    let size = hash.seen(space)?;
    if size == 0 {
        answer.head(0);
        return Ok(());
    }
    answer.head(count as usize);
    match &hash.form {
        Form::Large(rows) if count <= size / 3 && !hash.is_late() => {
            for _ in 0..count {
                if answer.reply.exceeded() {
                    break;
                }
                let (name, value) = draw(space, hash, rows)?;
                answer.field(hash.field_of(&name)?, &value);
            }
        }
        Form::Large(_) => {
            // One pass keeps what was drawn beforehand, so that memory follows the reply and not the hash.
            let drawn: Vec<u64> = (0..count).map(|_| below(space, size)).collect::<Result<_, _>>()?;
            let mut places = drawn.clone();
            places.sort_unstable();
            places.dedup();
            let mut kept: Vec<(Slice, Slice)> = Vec::with_capacity(places.len());
            let (mut at, mut bytes) = (0, 0);
            hash.each(space, |_, field, value| {
                if places.get(kept.len()) == Some(&at) {
                    bytes += field.len() + value.len();
                    if bytes > limits::ITEM_REPLY_BYTES_MAX {
                        return Err(TOO_LONG.into());
                    }
                    kept.push((Slice::from(field), Slice::from(value)));
                }
                at += 1;
                Ok(())
            })?;
            for place in drawn {
                if answer.reply.exceeded() {
                    break;
                }
                let (field, value) = &kept[places.partition_point(|&p| p < place)];
                answer.field(field, value);
            }
        }
        Form::Inline(record) => {
            let entries = hash.entries(record)?;
            let bytes = DRAW_COST + record.bytes().len() / entries.len().max(1);
            space.afford(bytes.saturating_mul(count as usize))?;
            for _ in 0..count {
                if answer.reply.exceeded() {
                    break;
                }
                let (field, value) = entries[below(space, size)? as usize];
                answer.field(field, value);
            }
        }
    }
    Ok(())
}

/// One element of a large hash, each as likely as any other.
///
/// Positions are divided into stretches that hold `STRETCH_MEAN` elements on average, and each stretch has `STRETCH_MAX`
/// places, of which its elements take the first ones. A place is drawn until one is taken, so an element's chance does not
/// depend on its neighbours.
fn draw(space: &mut dyn ReadSpace, hash: &Stored<'_>, rows: &Rows) -> Result<(Slice, Slice), Error> {
    let lacking = || hash.corrupt("hash without its elements");
    if hash.has_expiries() {
        return draw_field(space, hash, rows)?.ok_or_else(lacking);
    }
    if rows.count <= WHOLE_MAX {
        let at = below(space, rows.count)? as usize;
        return space.element_at(rows, &[], &[], at)?.ok_or_else(lacking);
    }
    let width = (element::POSITIONS / rows.count * STRETCH_MEAN).clamp(1, element::POSITIONS);
    for _ in 0..TRIES_MAX {
        let start = below(space, element::POSITIONS.div_ceil(width))? * width;
        let (from, until) = (element::before(start), start + width);
        let until = (until < element::POSITIONS).then(|| element::before(until));
        let place = below(space, STRETCH_MAX)? as usize;
        let until = until.as_ref().map_or(&[][..], |until| &until[..]);
        if let Some(found) = space.element_at(rows, &from, until, place)? {
            return Ok(found);
        }
    }
    // Only a hash whose fields were chosen for their positions comes to this: the next element must do.
    let from = element::before(below(space, element::POSITIONS)?);
    match space.element_at(rows, &from, &[], 0)? {
        Some(found) => Ok(found),
        None => space.element_at(rows, &[], &[], 0)?.ok_or_else(lacking),
    }
}

/// The same of a hash of which fields expire: not all its rows are fields. None of them has expired by now.
fn draw_field(space: &mut dyn ReadSpace, hash: &Stored<'_>, rows: &Rows) -> Result<Option<(Slice, Slice)>, Error> {
    let fields = hash.fields(rows);
    if rows.count <= WHOLE_MAX {
        let mut all = fields.within(space, None, WHOLE_MAX as usize, usize::MAX)?;
        let at = below(space, all.len() as u64)? as usize;
        return Ok((at < all.len()).then(|| all.swap_remove(at)));
    }
    let width = (element::POSITIONS / rows.count * STRETCH_MEAN).clamp(1, element::POSITIONS);
    for _ in 0..TRIES_MAX {
        let start = below(space, element::POSITIONS.div_ceil(width))? * width;
        let mut stretch = from_position(space, &fields, start, STRETCH_MAX as usize)?;
        stretch.retain(|(name, _)| element::position_of(name).is_some_and(|position| position < start + width));
        let place = below(space, STRETCH_MAX)? as usize;
        if place < stretch.len() {
            return Ok(Some(stretch.swap_remove(place)));
        }
    }
    let start = below(space, element::POSITIONS)?;
    let next = from_position(space, &fields, start, 1)?.pop();
    if next.is_some() { Ok(next) } else { Ok(from_position(space, &fields, 0, 1)?.pop()) }
}

/// Up to `limit` fields at `position` and after.
fn from_position(
    space: &mut dyn ReadSpace,
    fields: &Fields,
    position: u64,
    limit: usize,
) -> Result<Vec<(Slice, Slice)>, Error> {
    let before = element::before(position);
    let after = (position > 0).then_some(&before[..]);
    Ok(fields.within(space, after, limit, usize::MAX)?)
}

/// A random number below `bound`.
pub(in crate::command) fn below(space: &mut dyn ReadSpace, bound: u64) -> Result<u64, Fault> {
    Ok(((u128::from(space.random_u64()?) * u128::from(bound)) >> 64) as u64)
}
