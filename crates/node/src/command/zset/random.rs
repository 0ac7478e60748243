//! ZRANDMEMBER: members by random ranks, so that each is as likely as any other.

use super::range::Shape;
use super::stored::{Form, SortedSet};
use crate::ReadSpace;
use crate::command::args::{OUT_OF_RANGE, SYNTAX, int, is_word};
use crate::command::call::{Error, Outcome, ReadCall};
use crate::command::hash::below;
use std::collections::HashSet;
use vocab::limits;

pub(super) fn zrandmember(call: &mut ReadCall<'_>) -> Outcome {
    let Some(count) = call.args.get(2) else { return any_one(call) };
    let count = int(count)?;
    if count == i64::MIN {
        let bounds = "value must between -9223372036854775807 and 9223372036854775807";
        return Err(Error::Reply(format!("{OUT_OF_RANGE}, {bounds}").into()));
    }
    let with_scores = match &call.args[3..] {
        [] => false,
        [word] if is_word(word, "WITHSCORES") => true,
        _ => return Err(SYNTAX.into()),
    };
    if with_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(OUT_OF_RANGE.into());
    }
    let shape = Shape::new(with_scores, call.reply.proto);
    let Some(set) = SortedSet::load(call.space, call.args[1])?.filter(|_| count != 0) else {
        call.reply.array(0);
        return Ok(());
    };
    let total = set.count()?;
    let wanted = if count < 0 { count.unsigned_abs() } else { count.unsigned_abs().min(total) };
    if wanted > limits::RANDOM_FIELDS_MAX as u64 {
        return Err(OUT_OF_RANGE.into());
    }
    call.space.visit_many(wanted)?;
    if let Form::Small(record) = &set.form {
        // Each draw unpacks it.
        call.space.afford(record.bytes().len().saturating_mul(wanted as usize))?;
    }
    shape.head(call.reply, wanted);
    let mut show = |space: &mut dyn ReadSpace, rank: u64, many: u64| {
        set.visit(space, rank, many, true, &mut |scored| shape.write(call.reply, scored))
    };
    if count > 0 && wanted == total {
        // In the order of Redis.
        return show(call.space, total - 1, total);
    }
    if count > 0 && wanted > total / 3 {
        return choose(call.space, wanted, total, &mut |space, rank| show(space, rank, 1));
    }
    let mut seen = HashSet::new();
    let mut shown = 0;
    while shown < wanted {
        let rank = below(call.space, total)?;
        if count < 0 || seen.insert(rank) {
            show(call.space, rank, 1)?;
            shown += 1;
        }
    }
    Ok(())
}

/// Shows so many ranks, in rising order: each is taken with the share of those still wanted in those still to come.
fn choose(
    space: &mut dyn ReadSpace,
    wanted: u64,
    total: u64,
    show: &mut dyn FnMut(&mut dyn ReadSpace, u64) -> Outcome,
) -> Outcome {
    let mut wanted = wanted;
    for rank in 0..total {
        let left = total - rank;
        if wanted == left || below(space, left)? < wanted {
            show(space, rank)?;
            wanted -= 1;
        }
    }
    Ok(())
}

fn any_one(call: &mut ReadCall<'_>) -> Outcome {
    let Some(set) = SortedSet::load(call.space, call.args[1])? else {
        call.reply.null();
        return Ok(());
    };
    let rank = below(call.space, set.count()?)?;
    set.visit(call.space, rank, 1, false, &mut |scored| call.reply.bulk(scored.member))
}
