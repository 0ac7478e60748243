//! Deferred disk reads: requests that missed memory, and prefetches for writes.
//!
//! An io_uring reader reads the blocks that they lack, or a thread of the pool waits for the disk. A thread of the pool
//! takes several: it asks the disk for what all of them need before it waits for the first, and tells their workers at
//! once. It waits for nothing but the disk; what must wait for anything else becomes a job of its own.

use super::deferred_get::ColdRead;
use super::outcome::Outcome;
use super::prefetch::ColdRows;
use crate::mailbox::WorkerMessage;
use crate::shared::{Job, NodeShared, Pool};
use node::ShardHandle;
use std::sync::Arc;
use storage::{BlockRead, HeldBlock};

/// The disk is asked ahead for so many keys of one request.
const KEYS_AHEAD_MAX: usize = 64;

/// A deferred disk read.
pub(crate) enum Cold {
    /// A request that missed memory.
    Read(ColdRead),
    /// Rows that a write will find.
    Rows(ColdRows),
}

impl Cold {
    fn store(&self) -> &Arc<NodeShared> {
        match self {
            Self::Read(read) => &read.store,
            Self::Rows(rows) => &rows.store,
        }
    }

    /// The worker that waits for it.
    fn worker(&self) -> usize {
        match self {
            Self::Read(read) => read.ticket.worker as usize,
            Self::Rows(rows) => rows.worker,
        }
    }

    /// Calls `each` with the shard and the keys that the disk is asked for ahead.
    fn each_key_ahead(&self, mut each: impl FnMut(&ShardHandle, &[u8])) {
        let mut left = KEYS_AHEAD_MAX;
        let mut take = |view: &ShardHandle, key: &[u8]| {
            if left > 0 {
                left -= 1;
                each(view, key);
            }
        };
        match self {
            Self::Read(read) => {
                let args = read.command.args();
                read.spec.keys(&args).into_iter().flatten().for_each(|at| take(read.attempt.handle(), args[at]));
            }
            Self::Rows(rows) => rows.item.each_key(|key| take(&rows.view, key)),
        }
    }

    /// The blocks that it will lack first, if it needs several keys: they are read at the same time.
    pub(crate) fn ahead(&self) -> Vec<BlockRead> {
        let mut keys = 0;
        self.each_key_ahead(|_, _| keys += 1);
        let mut blocks = Vec::new();
        if keys > 1 {
            self.each_key_ahead(|view, key| blocks.extend(view.missing(key)));
        }
        blocks
    }

    /// Has the kernel begin to read what it needs.
    fn prefetch(&self) {
        self.each_key_ahead(ShardHandle::prefetch);
    }

    /// Keeps a block for the next attempt.
    pub(crate) fn hold(&mut self, block: HeldBlock) {
        match self {
            Self::Read(read) => read.held.push(block),
            Self::Rows(rows) => rows.held.push(block),
        }
    }

    /// Tries again, with what is in memory or held.
    pub(crate) fn go_on(self) -> Outcome<Self> {
        match self {
            Self::Read(read) => read.make_now().map(Self::Read),
            Self::Rows(rows) => rows.read_now().map(Self::Rows),
        }
    }

    /// Does it, and waits for the disk. If it must wait for anything else, the rest is a job.
    pub(super) fn wait(self) -> Result<Option<WorkerMessage>, Job> {
        match self {
            Self::Read(read) => read.make(),
            Self::Rows(rows) => rows.read(),
        }
    }
}

/// Reads that one thread of the pool takes at a time.
const BATCH_MAX: usize = 8;

/// Has threads of the pool make reads, in batches; `reads` is empty afterwards.
pub(crate) fn read_in_pool(pool: &Pool, reads: &mut Vec<Cold>) {
    if reads.is_empty() {
        return;
    }
    let mut batches: Vec<Job> = Vec::with_capacity(reads.len().div_ceil(BATCH_MAX));
    while !reads.is_empty() {
        let batch: Vec<Cold> = reads.drain(..reads.len().min(BATCH_MAX)).collect();
        batches.push(Box::new(move || wait_for_all(batch)));
    }
    pool.run_all(batches);
}

/// Makes the reads of a batch and tells their workers.
///
/// The disk is asked for what all of them need before the first one waits for it.
fn wait_for_all(batch: Vec<Cold>) {
    let Some(store) = batch.first().map(|cold| cold.store().clone()) else { return };
    batch.iter().for_each(Cold::prefetch);
    let mut messages = Vec::with_capacity(batch.len());
    for cold in batch {
        let worker = cold.worker();
        match cold.wait() {
            Ok(message) => messages.extend(message.map(|message| (worker, message))),
            Err(job) => store.pool.run(job),
        }
    }
    for worker in 0..store.mailboxes.workers() {
        let mine = messages.extract_if(.., |(of, _)| *of == worker);
        if let Some(mailbox) = store.mailboxes.of_worker(worker) {
            mailbox.send_all(mine.map(|(_, message)| message));
        }
    }
}
