//! ZREMRANGEBYRANK, ZREMRANGEBYSCORE and ZREMRANGEBYLEX.
//!
//! More members than an entry removes one by one are removed by writing the others anew, in slices (`Rest`).

use super::range::{Bounds, Span, Walk};
use super::stored::SortedSet;
use super::write::remove_range;
use crate::ReadSpace;
use crate::command::args::is_word;
use crate::command::call::{Error, Outcome, WriteCall};
use crate::keyspace_events::Event;
use vocab::limits::REMOVED_MEMBERS_MAX;

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

/// What such a command leaves.
pub(in crate::command) struct Rest<'a> {
    pub(in crate::command) set: SortedSet<'a>,
    /// The members before those that are removed, and those behind.
    pub(in crate::command) walks: Vec<Walk>,
    pub(in crate::command) removed: u64,
    /// What the key is told of.
    pub(in crate::command) event: Event,
}

impl<'a> Rest<'a> {
    /// `None` if the command is another, or if an entry can do it.
    pub(in crate::command) fn of_removal(space: &mut dyn ReadSpace, args: &[&'a [u8]]) -> Result<Option<Self>, Error> {
        let &[name, key, low, high] = args else { return Ok(None) };
        let (bounds, event) = match () {
            () if is_word(name, "ZREMRANGEBYRANK") => (Bounds::ranks(low, high)?, Event::ZREMRANGEBYRANK),
            () if is_word(name, "ZREMRANGEBYSCORE") => (Bounds::scores(low, high)?, Event::ZREMRANGEBYSCORE),
            () if is_word(name, "ZREMRANGEBYLEX") => (Bounds::members(low, high)?, Event::ZREMRANGEBYLEX),
            () => return Ok(None),
        };
        let Some(set) = SortedSet::load(space, key)? else { return Ok(None) };
        let (total, Span { first, count }) = (set.count()?, bounds.span(space, &set)?);
        let end = first + count;
        if count <= REMOVED_MEMBERS_MAX || count >= total {
            return Ok(None);
        }
        let walk = |first, count| Walk::over(Span { first, count });
        Ok(Some(Self { set, walks: vec![walk(0, first), walk(end, total - end)], removed: count, event }))
    }
}
