//! What the clients of a node take of its memory: their requests, as far as they have come, and their answers.

use crate::mailbox::AnswerRoom;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of the clients of one event loop, as of its last tick.
#[derive(Default)]
struct OfWorker {
    bytes: AtomicU64,
    /// What the one takes that takes the most.
    largest: AtomicU64,
}

/// Of all clients. Event loops note what theirs take, and close some where all take too much.
pub(crate) struct ClientMemory {
    workers: Box<[OfWorker]>,
    /// Answers that were read from disk and are not yet counted there.
    pub(crate) read: Arc<AnswerRoom>,
}

impl ClientMemory {
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers: (0..workers).map(|_| OfWorker::default()).collect(), read: Arc::default() }
    }

    /// The clients of an event loop take so much, and one of them that.
    pub(crate) fn note(&self, worker: usize, bytes: u64, largest: u64) {
        let Some(of_worker) = self.workers.get(worker) else { return };
        of_worker.bytes.store(bytes, Ordering::Relaxed);
        of_worker.largest.store(largest, Ordering::Relaxed);
    }

    /// What all take.
    pub(crate) fn bytes(&self) -> u64 {
        self.workers.iter().map(|worker| worker.bytes.load(Ordering::Relaxed)).sum()
    }

    /// What the one takes that takes the most.
    pub(crate) fn largest(&self) -> u64 {
        self.workers.iter().map(|worker| worker.largest.load(Ordering::Relaxed)).max().unwrap_or(0)
    }
}
