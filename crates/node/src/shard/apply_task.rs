//! The evaluation of an entry as a task that any thread can run: no other thread may write to the shard's tree meanwhile.

use super::apply_error::ApplyError;
use super::clear::apply_clear;
use super::evaluate::{self, Evaluated};
use super::prepared_write::CommandRows;
use super::proposer::Proposer;
use super::ticket::Awaited;
use crate::format::entry;
use crate::shard_handle::ShardHandle;
use crate::space::apply::Place;
use crate::tracking::Changes;
use replica::{Bytes, Entry, LogStore};
use resp::{Proto, Reply};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use vocab::{ShardId, limits};

/// An entry that is to be evaluated.
#[derive(Clone)]
pub struct ApplyTask {
    handle: Arc<ShardHandle>,
    log: Arc<dyn LogStore>,
    entry: Entry,
    /// The clients that wait for answers, by item.
    awaited: Vec<Option<Awaited>>,
    /// The rows of its commands, as far as this replica has proposed them.
    rows: CommandRows,
    proposer: Proposer,
    was_given_up: bool,
}

/// What came of it.
pub struct AppliedAside {
    shard: ShardId,
    index: u64,
    pub(super) reply: Reply,
    pub(super) outcome: Result<Evaluated, ApplyError>,
}

impl ApplyTask {
    /// The entry's bytes.
    #[must_use]
    pub fn data(&self) -> Bytes {
        self.entry.data.clone()
    }

    pub(super) fn new(
        handle: Arc<ShardHandle>,
        log: Arc<dyn LogStore>,
        entry: Entry,
        (awaited, rows): (Vec<Option<Awaited>>, CommandRows),
        proposer: Proposer,
    ) -> Self {
        Self { handle, log, entry, awaited, rows, proposer, was_given_up: false }
    }

    /// The same, of an entry that an event loop has begun with, and has given up.
    pub(super) fn given_up(self, was_given_up: bool) -> Self {
        Self { was_given_up, ..self }
    }

    /// Whether an event loop has begun with it, and has given it up.
    #[must_use]
    pub fn was_given_up(&self) -> bool {
        self.was_given_up
    }

    /// The shard's handle.
    #[must_use]
    pub fn handle(&self) -> Arc<ShardHandle> {
        self.handle.clone()
    }

    /// Whose entry it is.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.handle.id()
    }

    /// Evaluates the entry, and makes it visible in the tree.
    #[must_use]
    pub fn run(self) -> AppliedAside {
        let Self { handle, log, entry, awaited, rows, proposer, .. } = self;
        let mut reply = Reply::default();
        let evaluate = AssertUnwindSafe(|| {
            let (now_ms, items) = entry::decode(&entry.data)?;
            if entry::clears(&entry.data) {
                log.sync()?;
                apply_clear(&handle, entry.index, now_ms)?;
                reply.proto = awaited.first().copied().flatten().map_or_else(Proto::default, |awaited| awaited.proto);
                reply.ok();
                let ends = vec![reply.buf.len()];
                // Who had read keys is told to forget all: there is nothing more to tell.
                let changes = Changes::noted();
                return Ok(Evaluated { now_ms, ends, changes, is_cleared: true, ..Evaluated::default() });
            }
            let clients = (awaited.iter().copied(), &rows[..]);
            let (at, how, mut done) = ((entry.index, now_ms), (Place::Aside, proposer), Evaluated::default());
            evaluate::items(&handle, at, &items, clients, &mut reply, how, &mut done)?;
            done.take_long_out(&mut reply);
            Ok(done)
        });
        let outcome = catch_unwind(evaluate).unwrap_or(Err(ApplyError::Panicked));
        AppliedAside { shard: handle.id(), index: entry.index, reply, outcome }
    }
}

impl AppliedAside {
    /// Whose entry it was.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    pub(super) fn index(&self) -> u64 {
        self.index
    }
}

/// Whether a shell that has threads should evaluate an entry aside: it is large, or makes files.
#[must_use]
pub fn is_large_entry(entry: &Entry) -> bool {
    entry.data.len() > limits::APPLY_INLINE_BYTES_MAX || entry::clears(&entry.data)
}
