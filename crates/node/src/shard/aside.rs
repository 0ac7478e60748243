//! Large entries, which a thread beside the event loop evaluates: copying their values would keep the loop.
//!
//! Invariant: while an entry of a shard is evaluated aside, nothing else of the shard is applied and its tree is not
//! sealed, so one thread at a time writes to the tree.

use super::apply_task::{AppliedAside, ApplyTask};
use super::effects::Effects;
use super::proposals::OwnEntry;
use super::ticket::Ticket;
use crate::shard_handle::ShardHandle;
use replica::{Entry, LogStore};
use std::sync::Arc;

/// The entry of a shard that is evaluated aside, if there is one.
#[derive(Default)]
pub(super) struct Aside {
    stage: Stage,
}

#[derive(Default)]
enum Stage {
    #[default]
    None,
    /// The shell has it.
    Awaited { index: u64, own: OwnEntry },
    /// It is evaluated, and its outcome is to be taken in its turn.
    Done { applied: Box<AppliedAside>, own: OwnEntry },
    /// It could not be evaluated for want of room, descriptors or memory, and is to be evaluated again.
    Lacking { index: u64, own: OwnEntry },
}

impl Aside {
    /// Whether another thread is writing to the tree.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(self.stage, Stage::Awaited { .. })
    }

    /// Whether an entry was begun whose outcome is not taken yet.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Awaited { .. } | Stage::Done { .. })
    }

    /// Whether an entry waits for room, descriptors or memory.
    pub(super) fn is_lacking(&self) -> bool {
        matches!(self.stage, Stage::Lacking { .. })
    }

    /// An entry, of which this replica knows `own`, is to be evaluated again.
    pub(super) fn lacks(&mut self, index: u64, own: OwnEntry) {
        self.stage = Stage::Lacking { index, own };
    }

    /// Gives an entry, of which this replica knows `own`, to the shell; the event loop may have given it up. Where the shell has no
    /// thread for it, it is evaluated here.
    pub(super) fn begin(
        &mut self,
        (handle, log): (&Arc<ShardHandle>, Arc<dyn LogStore>),
        entry: &Entry,
        (own, was_given_up): (OwnEntry, bool),
        effects: &mut dyn Effects,
    ) {
        let awaited = own.tickets.iter().map(Ticket::awaited).collect();
        let task = ApplyTask::new(handle.clone(), log, entry.clone(), (awaited, own.rows.clone()), own.proposer());
        let task = task.given_up(was_given_up);
        self.stage = match effects.apply_aside(task) {
            None => Stage::Awaited { index: entry.index, own },
            Some(task) => Stage::Done { applied: Box::new(task.run()), own },
        };
    }

    /// An entry has been evaluated; true if that was awaited.
    pub(super) fn ended(&mut self, applied: AppliedAside) -> bool {
        match std::mem::take(&mut self.stage) {
            Stage::Awaited { index, own } if index == applied.index() => {
                self.stage = Stage::Done { applied: Box::new(applied), own };
                true
            }
            other => {
                self.stage = other;
                false
            }
        }
    }

    /// The outcome of entry `index` if it was evaluated aside, and who waits for it, where that is known here.
    pub(super) fn take(&mut self, index: u64) -> Option<(Option<Box<AppliedAside>>, OwnEntry)> {
        match std::mem::take(&mut self.stage) {
            Stage::Done { applied, own } if applied.index() == index => Some((Some(applied), own)),
            Stage::Lacking { index: lacking, own } if lacking == index => Some((None, own)),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// Who waits for the entry, when the replica is given up.
    pub(super) fn take_tickets(&mut self) -> Vec<Ticket> {
        match &mut self.stage {
            Stage::None => Vec::new(),
            Stage::Awaited { own, .. } | Stage::Done { own, .. } | Stage::Lacking { own, .. } => {
                std::mem::take(&mut own.tickets)
            }
        }
    }
}
