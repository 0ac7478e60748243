//! ZREMRANGEBYRANK, ZREMRANGEBYSCORE and ZREMRANGEBYLEX.

use super::range::Bounds;
use super::stored::SortedSet;
use super::write::remove_range;
use crate::command::call::{Outcome, WriteCall};
use crate::keyspace_events::Event;

pub(super) fn zremrangebyrank(call: &mut WriteCall<'_>) -> Outcome {
    let bounds = Bounds::ranks(call.args[2], call.args[3])?;
    remove(call, &bounds, Event::ZREMRANGEBYRANK)
}

pub(super) fn zremrangebyscore(call: &mut WriteCall<'_>) -> Outcome {
    let bounds = Bounds::scores(call.args[2], call.args[3])?;
    remove(call, &bounds, Event::ZREMRANGEBYSCORE)
}

pub(super) fn zremrangebylex(call: &mut WriteCall<'_>) -> Outcome {
    let bounds = Bounds::members(call.args[2], call.args[3])?;
    remove(call, &bounds, Event::ZREMRANGEBYLEX)
}

fn remove(call: &mut WriteCall<'_>, bounds: &Bounds<'_>, event: Event) -> Outcome {
    let mut removed = 0;
    if let Some(set) = SortedSet::load(call.space, call.args[1])? {
        let span = bounds.span(call.space, &set)?;
        remove_range(call.space, &set, span.first, span.count)?;
        removed = span.count;
        if removed > 0 {
            call.space.notify_removal(event, set.key, removed >= set.count()?);
        }
    }
    call.reply.int(removed as i64);
    Ok(())
}
