//! Deferred disk reads: requests that missed memory, and prefetches for writes.
//!
//! An io_uring reader reads the blocks that they lack, or a thread of the pool waits for the disk. A thread of the pool
//! takes several: it asks the disk for what all of them need before it waits for the first, and tells their workers at
//! once. It waits for nothing but the disk; what must wait for anything else becomes a job of its own.

use super::deferred_get::DeferredGet;
use super::outcome::Outcome;
use super::prefetch::Prefetch;
use crate::mailbox::{AnswerShare, WorkerMessage};
use crate::shared::{Job, NodeShared, Pool};
use node::ShardHandle;
use std::sync::Arc;
use storage::{BlockRead, HeldBlock};
use vocab::limits::LARGE_REQUEST_ARGUMENTS;

/// The disk is asked ahead for so many keys of one request.
const KEYS_AHEAD_MAX: usize = 64;

/// A request of more bytes has about as many arguments as a large one.
const LONG_BYTES: usize = 32 * LARGE_REQUEST_ARGUMENTS;

/// A deferred disk read.
pub(crate) enum DeferredRead {
    /// A request that missed memory.
    Get(DeferredGet),
    /// Rows that a write will find.
    Prefetch(Prefetch),
}

impl DeferredRead {
    fn store(&self) -> &Arc<NodeShared> {
        match self {
            Self::Get(get) => &get.store,
            Self::Prefetch(prefetch) => &prefetch.store,
        }
    }

    /// The worker that waits for it.
    fn worker(&self) -> usize {
        match self {
            Self::Get(get) => get.ticket.worker as usize,
            Self::Prefetch(prefetch) => prefetch.worker,
        }
    }

    /// Whether even what is in memory of it takes a thread that has time.
    pub(crate) fn is_long(&self) -> bool {
        match self {
            // What a transaction reads is one argument.
            Self::Get(get) => get.command.arguments() > LARGE_REQUEST_ARGUMENTS || get.command.bytes() > LONG_BYTES,
            Self::Prefetch(prefetch) => prefetch.item.arguments() > LARGE_REQUEST_ARGUMENTS,
        }
    }

    /// How long its answer will be, in bytes, as far as that is known. Rows for a write are no answer.
    fn likely_bytes(&self) -> usize {
        match self {
            Self::Get(get) => get.likely_bytes(),
            Self::Prefetch(_) => 0,
        }
    }

    /// Calls `each` with the shard and the keys that the disk is asked for ahead.
    fn each_key_ahead(&self, mut each: impl FnMut(&ShardHandle, &[u8])) {
        let mut left = KEYS_AHEAD_MAX;
        let mut take = |handle: &ShardHandle, key: &[u8]| {
            if left > 0 {
                left -= 1;
                each(handle, key);
            }
        };
        match self {
            Self::Get(get) => {
                let args = get.command.args();
                get.spec.keys(&args).into_iter().flatten().for_each(|at| take(get.attempt.handle(), args[at]));
            }
            Self::Prefetch(prefetch) => prefetch.item.each_key(|key| take(&prefetch.handle, key)),
        }
    }

    /// The blocks that it will lack first, if it needs several keys: they are read at the same time.
    pub(crate) fn ahead(&self) -> Vec<BlockRead> {
        let mut keys = 0;
        self.each_key_ahead(|_, _| keys += 1);
        let mut blocks = Vec::new();
        if keys > 1 {
            self.each_key_ahead(|handle, key| blocks.extend(handle.missing(key)));
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
            Self::Get(get) => get.held.push(block),
            Self::Prefetch(prefetch) => prefetch.held.push(block),
        }
    }

    /// Tries again, with what is in memory or held.
    pub(crate) fn go_on(self) -> Outcome<Self> {
        match self {
            Self::Get(get) => get.make_now().map(Self::Get),
            Self::Prefetch(prefetch) => prefetch.read_now().map(Self::Prefetch),
        }
    }

    /// Does it, and waits for the disk. If it must wait for anything else, the rest is a job.
    pub(super) fn wait(self) -> Result<Option<WorkerMessage>, Job> {
        match self {
            Self::Get(get) => get.make(),
            Self::Prefetch(prefetch) => prefetch.read(),
        }
    }
}

/// Reads that one thread of the pool takes at a time.
const BATCH_MAX: usize = 8;

/// Has threads of the pool make reads, in batches; `reads` is empty afterwards.
pub(crate) fn read_in_pool(pool: &Pool, reads: &mut Vec<DeferredRead>) {
    if reads.is_empty() {
        return;
    }
    let mut batches: Vec<Job> = Vec::with_capacity(reads.len().div_ceil(BATCH_MAX));
    while !reads.is_empty() {
        let batch: Vec<DeferredRead> = reads.drain(..reads.len().min(BATCH_MAX)).collect();
        batches.push(Box::new(move || wait_for_all(batch)));
    }
    pool.run_all(batches);
}

/// Has threads of the pool do jobs that wait for the disk alone; `jobs` is empty afterwards. Each thread gets about as many, at
/// once: to wake one for each would cost more than most of them do.
pub(super) fn run_in_pool(pool: &Pool, jobs: &mut Vec<Job>) {
    let each = jobs.len().div_ceil(pool.size().max(1)).max(1);
    let mut batches: Vec<Job> = Vec::with_capacity(jobs.len().div_ceil(each));
    while !jobs.is_empty() {
        let batch: Vec<Job> = jobs.drain(..jobs.len().min(each)).collect();
        batches.push(Box::new(move || batch.into_iter().for_each(|job| job())));
    }
    if !batches.is_empty() {
        pool.run_all(batches);
    }
}

/// Makes the reads of a batch and tells their workers.
///
/// The disk is asked for what all of them need before the first one waits for it.
fn wait_for_all(batch: Vec<DeferredRead>) {
    let Some(store) = batch.first().map(|read| read.store().clone()) else { return };
    if store.is_stopping() {
        return;
    }
    batch.iter().for_each(DeferredRead::prefetch);
    let mut messages = Vec::with_capacity(batch.len());
    for read in batch {
        let likely_bytes = read.likely_bytes();
        let later = |read: DeferredRead| -> Box<dyn FnOnce(AnswerShare) + Send> {
            Box::new(move |room| {
                let (store, mut messages) = (read.store().clone(), Vec::new());
                wait_for(&store, read, room, &mut messages);
                tell(&store, &mut messages);
            })
        };
        if matches!(read, DeferredRead::Prefetch(_)) {
            // No client takes what it reads.
            wait_for(&store, read, store.client_memory.read.none(), &mut messages);
        } else if let Some((room, read)) = store.client_memory.read.begin(likely_bytes, read, later) {
            wait_for(&store, read, room, &mut messages);
        }
    }
    tell(&store, &mut messages);
}

/// Makes a read; its worker is to be told `messages`.
fn wait_for(store: &NodeShared, read: DeferredRead, room: AnswerShare, messages: &mut Vec<(usize, WorkerMessage)>) {
    if store.is_stopping() {
        return;
    }
    let worker = read.worker();
    match read.wait() {
        Ok(message) => {
            let bytes = message.as_ref().map_or(0, WorkerMessage::answer_bytes);
            let taken = room.made(bytes).map(WorkerMessage::Taken);
            let is_long = taken.is_some();
            messages.extend(message.into_iter().chain(taken).map(|message| (worker, message)));
            if is_long {
                return tell(store, messages);
            }
        }
        Err(job) => {
            drop(room);
            store.pool.run(job);
        }
    }
    store.give_back(None);
}

/// Tells workers; `messages` is empty afterwards.
fn tell(store: &NodeShared, messages: &mut Vec<(usize, WorkerMessage)>) {
    for worker in 0..store.mailboxes.workers() {
        let mine = messages.extract_if(.., |(of, _)| *of == worker);
        if let Some(mailbox) = store.mailboxes.of_worker(worker) {
            mailbox.send_all(mine.map(|(_, message)| message));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn each_job_is_done_once_however_many_there_are() {
        let pool = Pool::start("test", 4).unwrap();
        for jobs in [0, 1, 3, 4, 5, 100] {
            let (sender, receiver) = channel();
            let job = |n: usize| -> Job {
                let sender = sender.clone();
                Box::new(move || sender.send(n).unwrap())
            };
            let mut queued: Vec<Job> = (0..jobs).map(job).collect();
            run_in_pool(&pool, &mut queued);
            drop(sender);
            let mut done: Vec<usize> = receiver.iter().collect();
            done.sort_unstable();
            assert!(queued.is_empty() && done == (0..jobs).collect::<Vec<_>>(), "{jobs}: {done:?}");
        }
        pool.stop();
    }
}
