//! ZUNION, ZINTER, ZDIFF and ZINTERCARD; and ZUNIONSTORE, ZINTERSTORE, ZDIFFSTORE and ZRANGESTORE in an entry, of sorted
//! sets that are small enough for one. `internal::sorted_set_copy` makes larger ones.

use super::build::{Kept, store_kept};
use super::combination::{Answer, Combination, Operation};
use super::range::{Grammar, Shape};
use super::scored::Scored;
use super::stored::SortedSet;
use crate::command::args::check_release;
use crate::command::call::{Outcome, ReadCall, WriteCall};
use crate::command::gathered::GATHERED_OVERHEAD_BYTES;
use crate::keyspace_events::Event;
use vocab::limits;

const _: () = assert!(limits::STORE_WHOLE_ELEMENTS_MAX == 16_384, "TOO_LARGE says how many");
const _: () = assert!(limits::GATHERED_BYTES_MAX == 8 << 20, "TOO_LARGE says how many");
const TOO_LARGE: &str = "ERR the sets are too large to be combined within a transaction (16384 members, 8 MiB)";

pub(super) fn zunion(call: &mut ReadCall<'_>) -> Outcome {
    combine(call, Operation::Union)
}

pub(super) fn zinter(call: &mut ReadCall<'_>) -> Outcome {
    combine(call, Operation::Intersection)
}

pub(super) fn zdiff(call: &mut ReadCall<'_>) -> Outcome {
    combine(call, Operation::Difference)
}

fn combine(call: &mut ReadCall<'_>, operation: Operation) -> Outcome {
    let mut combination = Combination::begin(operation, Answer::Members, call.space, call.args[0], &call.args[1..])?;
    let (mut kept, mut bytes) = (Vec::new(), 0);
    // More than the reply may hold is not gathered: it is refused all the same.
    while bytes <= call.reply.room()
        && let Some(next) = combination.next(call.space)?
    {
        bytes += next.member.len() + GATHERED_OVERHEAD_BYTES;
        kept.push(next);
    }
    let mut members: Vec<Scored<'_>> = kept.iter().map(Kept::scored).collect();
    members.sort_unstable_by(Scored::order);
    let shape = Shape::new(combination.with_scores, call.reply.proto);
    shape.head(call.reply, members.len() as u64);
    members.into_iter().for_each(|scored| shape.write(call.reply, scored));
    Ok(())
}

pub(super) fn zintercard(call: &mut ReadCall<'_>) -> Outcome {
    let (name, args) = (call.args[0], &call.args[1..]);
    let mut combination = Combination::begin(Operation::Intersection, Answer::Count, call.space, name, args)?;
    let mut count = 0;
    while (combination.limit == 0 || count < combination.limit) && combination.next(call.space)?.is_some() {
        count += 1;
    }
    call.reply.int(count as i64);
    Ok(())
}

pub(super) fn zunionstore(call: &mut WriteCall<'_>) -> Outcome {
    store(call, Operation::Union)
}

pub(super) fn zinterstore(call: &mut WriteCall<'_>) -> Outcome {
    store(call, Operation::Intersection)
}

pub(super) fn zdiffstore(call: &mut WriteCall<'_>) -> Outcome {
    store(call, Operation::Difference)
}

fn store(call: &mut WriteCall<'_>, operation: Operation) -> Outcome {
    check_release(call.space)?;
    let (name, args) = (call.args[0], &call.args[2..]);
    let mut combination = Combination::begin(operation, Answer::Stored, call.space, name, args)?;
    if combination.work()? > limits::STORE_WHOLE_ELEMENTS_MAX {
        return Err(TOO_LARGE.into());
    }
    let (mut kept, mut bytes) = (Vec::new(), 0);
    while let Some(next) = combination.next(call.space)? {
        bytes += next.member.len();
        if bytes > limits::GATHERED_BYTES_MAX {
            return Err(TOO_LARGE.into());
        }
        kept.push(next);
    }
    put(call, &kept, operation.event())
}

pub(super) fn zrangestore(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let range = Grammar::STORE.parse(&call.args[3..])?.range()?;
    let (mut kept, mut bytes) = (Vec::new(), 0);
    if let Some(set) = SortedSet::load(call.space, call.args[2])? {
        let mut walk = range.walk(call.space, &set)?;
        if walk.left > limits::STORE_WHOLE_ELEMENTS_MAX {
            return Err(TOO_LARGE.into());
        }
        while walk.left > 0 {
            walk.step(call.space, &set, &mut |scored| {
                bytes += scored.member.len();
                kept.push(Kept::from(scored));
            })?;
            if bytes > limits::GATHERED_BYTES_MAX {
                return Err(TOO_LARGE.into());
            }
        }
    }
    put(call, &kept, Event::ZRANGESTORE)
}

fn put(call: &mut WriteCall<'_>, kept: &[Kept], event: Event) -> Outcome {
    store_kept(call.space, call.args[1], kept, event)?;
    call.reply.int(kept.len() as i64);
    Ok(())
}
