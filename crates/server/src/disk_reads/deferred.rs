//! What waits for the disk: reads, and rows that writes will find. An event loop has it go on with what it has read for it
//! (`disk_reader`), or a thread of the pool does, which takes several at a time.
//!
//! Waiting costs more than anything else: a thread is put to sleep and woken again, and the next thread's turn comes.
//! So the disk is asked for what all of a batch need before the first one goes on, and what has become of them goes back to
//! their workers together. A batch waits for nothing but the disk: what must wait for anything else becomes a job by
//! itself.

use super::prefetch::ColdRows;
use crate::cold_reads::ColdRead;
use crate::mailbox::WorkerMessage;
use crate::shared::{Job, NodeShared, Pool};
use node::ShardView;
use std::sync::Arc;
use storage::{BlockRead, HeldBlock};

/// Of one request, the keys that the disk is asked for ahead.
const KEYS_AHEAD_MAX: usize = 64;

/// See the module's words.
pub(crate) enum Cold {
    Read(ColdRead),
    Rows(ColdRows),
}

/// How what was not to wait came out.
pub(crate) enum Outcome {
    /// It is over, and its worker is to be told this, if anything.
    Over(Option<WorkerMessage>),
    /// It needs this block first.
    Lacks(Cold, BlockRead),
    /// It has to be done by a thread that may wait for the disk.
    WouldWait(Cold),
    /// It waits for something else than the disk.
    Patient(Job),
}

impl Cold {
    fn store(&self) -> &Arc<NodeShared> {
        match self {
            Self::Read(read) => &read.store,
            Self::Rows(rows) => &rows.store,
        }
    }

    /// Whose it is.
    fn worker(&self) -> usize {
        match self {
            Self::Read(read) => read.ticket.worker as usize,
            Self::Rows(rows) => rows.worker,
        }
    }

    /// Calls `each` with the keys that it will look up, as far as they are asked for ahead, and where.
    fn each_key_ahead(&self, mut each: impl FnMut(&ShardView, &[u8])) {
        let mut left = KEYS_AHEAD_MAX;
        let mut take = |view: &ShardView, key: &[u8]| {
            if left > 0 {
                left -= 1;
                each(view, key);
            }
        };
        match self {
            Self::Read(read) => {
                let args = read.command.args();
                read.spec.keys(&args).into_iter().flatten().for_each(|at| take(&read.place.0, args[at]));
            }
            Self::Rows(rows) => rows.item.each_key(|key| take(&rows.view, key)),
        }
    }

    /// Where it needs several keys, the blocks that it will lack first: they are read side by side.
    pub(crate) fn ahead(&self) -> Vec<BlockRead> {
        let mut keys = 0;
        self.each_key_ahead(|_, _| keys += 1);
        let mut blocks = Vec::new();
        if keys > 1 {
            self.each_key_ahead(|view, key| blocks.extend(view.missing(key)));
        }
        blocks
    }

    /// Has the disk begin to read what it needs.
    fn prefetch(&self) {
        self.each_key_ahead(ShardView::prefetch);
    }

    /// For the next time that it goes on.
    pub(crate) fn hold(&mut self, block: HeldBlock) {
        match self {
            Self::Read(read) => read.held.push(block),
            Self::Rows(rows) => rows.held.push(block),
        }
    }

    /// Goes on, if what it needs is in memory or held.
    pub(crate) fn go_on(self) -> Outcome {
        match self {
            Self::Read(read) => read.make_now(),
            Self::Rows(rows) => rows.read_now(),
        }
    }

    /// Goes on, and waits for the disk. What is left if it must wait for anything else is a job.
    fn wait(self) -> Result<Option<WorkerMessage>, Job> {
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
    for worker in 0..store.workers() {
        let mine = messages.extract_if(.., |(of, _)| *of == worker);
        if let Some(mailbox) = store.mailbox(worker) {
            mailbox.send_all(mine.map(|(_, message)| message));
        }
    }
}
