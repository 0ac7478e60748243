//! Replies that are made in steps.
//!
//! A handler writes the beginning of its reply and leaves what makes the rest. The rest is made from one snapshot, step by
//! step, as the client takes it: however long the reply is, a step of it is in memory. A caller that wants the whole reply
//! at once runs the steps to the end.

use super::error::Error;
use crate::{ReadSpace, ShardSpaces};
use resp::Reply;
use vocab::limits::{STREAM_STEP_BYTES_SOFT, STREAM_STEP_ITEMS_MAX};

/// Whether a reply is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to come.
    More,
    /// It is complete.
    Done,
}

/// What makes the rest of a reply.
///
/// Invariant: all steps of one reply see the same snapshot at the same time, so that the count in its head holds.
pub trait ReplySteps: Send {
    /// Appends the next part of the reply: about as much as a `Step` allows.
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error>;
}

/// The same of a command over the whole store.
pub trait StoreSteps: Send {
    /// Appends the next part of the reply.
    fn step(&mut self, shards: &mut dyn ShardSpaces, reply: &mut Reply) -> Result<Progress, Error>;
}

/// What is left of a reply; `None` if it is complete.
pub type Rest = Option<Box<dyn ReplySteps>>;

/// A part of a reply over the whole store that is left.
pub struct PartLeft {
    /// The shards that it reads, by their number: all of them are read on this node.
    pub shards: Vec<usize>,
    /// What makes it.
    pub steps: Box<dyn StoreSteps>,
}

/// What is left of a reply over the whole store, in the order of the reply.
pub type StoreRest = Vec<PartLeft>;

/// What one step may still do. It counts what the reply costs, which is the same on every replica.
pub(super) struct Step {
    spent_max: usize,
    items_left: usize,
}

impl Step {
    /// A step that begins now.
    pub(super) fn begin(reply: &Reply) -> Self {
        Self { spent_max: reply.spent().saturating_add(STREAM_STEP_BYTES_SOFT), items_left: STREAM_STEP_ITEMS_MAX }
    }

    /// Whether the step goes on after one more item.
    pub(super) fn goes_on(&mut self, reply: &Reply) -> bool {
        self.items_left = self.items_left.saturating_sub(1);
        self.items_left > 0 && reply.spent() < self.spent_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_ends_after_its_bytes_or_its_items() {
        let mut reply = Reply::default();
        let mut step = Step::begin(&reply);
        assert!((1..STREAM_STEP_ITEMS_MAX).all(|_| step.goes_on(&reply)) && !step.goes_on(&reply));
        let mut step = Step::begin(&reply);
        reply.bulk(&vec![b'v'; STREAM_STEP_BYTES_SOFT]);
        assert!(!step.goes_on(&reply));
    }
}
