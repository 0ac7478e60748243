//! The disk reads of a worker: which of them its event loop makes, and which its reader thread or the pool.

use super::deferred::{DeferredRead, read_in_pool};
use super::reader_thread::ReaderThread;
use super::uring_reader::DiskReader;
use crate::mailbox::{Mailbox, WorkerMessage};
use crate::shared::NodeShared;
use mio::{Registry, Token};
use std::sync::Arc;

/// The number of reads that the event loop always keeps: they cost it little.
const KEPT_MIN: usize = 8;
/// The event loop keeps one more read for each so many reads of its thread.
const THREAD_EACH: usize = 3;

/// The disk reads of a worker.
pub(crate) struct DiskReads {
    /// The worker's number.
    index: usize,
    store: Arc<NodeShared>,
    mailbox: Arc<Mailbox>,
    /// Reads that begin next: together, so that the disk has many at a time.
    queue: Vec<DeferredRead>,
    /// The event loop's own reader. None where the kernel has no io_uring: then the pool makes all reads.
    reader: Option<DiskReader>,
    /// The reader thread, which takes most of many reads. None until it is useful.
    thread: Option<ReaderThread>,
    may_have_thread: bool,
}

/// How many reads an event loop keeps, with so many under way in its own reader and in its thread.
fn kept(here: usize, with_thread: usize) -> usize {
    KEPT_MIN.max(with_thread / THREAD_EACH).saturating_sub(here)
}

impl DiskReads {
    pub(crate) fn new(index: usize, store: Arc<NodeShared>, mailbox: Arc<Mailbox>) -> Self {
        Self { index, store, mailbox, queue: Vec::new(), reader: None, thread: None, may_have_thread: true }
    }

    /// Opens the event loop's own reader, whose events come with `token`. The thread that uses it calls this.
    pub(crate) fn open_reader(&mut self, registry: &Registry, token: Token) {
        match DiskReader::new(&self.store, self.store.mailboxes.workers(), registry, token) {
            Ok(reader) => self.reader = Some(reader),
            Err(e) => log::info!("no io_uring here ({e}): threads read from disk instead"),
        }
    }

    /// Reads that begin with the next call of `go`.
    pub(crate) fn queue(&mut self) -> &mut Vec<DeferredRead> {
        &mut self.queue
    }

    /// Whether reads can begin or go on now.
    pub(crate) fn is_behind(&mut self) -> bool {
        !self.queue.is_empty() || self.reader.as_mut().is_some_and(DiskReader::is_behind)
    }

    /// The number of the event loop's own reads that the disk has.
    pub(crate) fn with_disk(&mut self) -> usize {
        self.reader.as_mut().map_or(0, DiskReader::with_disk)
    }

    /// Begins queued reads, and continues reads whose blocks have come. Adds to `messages` what the worker is told of reads that have
    /// ended.
    pub(crate) fn go(&mut self, messages: &mut Vec<WorkerMessage>) {
        self.hand_over();
        match &mut self.reader {
            Some(reader) => reader.go(&mut self.queue, messages),
            None => read_in_pool(&self.store.pool, &mut self.queue),
        }
    }

    /// Gives the reader thread most of the queue, if that is long and there is processor time to spare.
    fn hand_over(&mut self) {
        let may_hand_over = self.may_have_thread && self.store.spare_processors.for_helpers();
        let Some(reader) = self.reader.as_mut().filter(|_| may_hand_over) else { return };
        let kept = kept(reader.underway(), self.thread.as_ref().map_or(0, ReaderThread::underway));
        if self.queue.len() <= kept {
            return;
        }
        if self.thread.is_none() {
            let readers = 2 * self.store.mailboxes.workers();
            let name = format!("disk-reader-{}", self.index);
            match ReaderThread::start(&name, &self.store, readers, self.mailbox.clone()) {
                Ok(thread) => {
                    reader.share_with(readers);
                    self.thread = Some(thread);
                }
                Err(e) => {
                    log::warn!("there is no reader thread ({e}): the event loop makes all of its reads");
                    self.may_have_thread = false;
                }
            }
        }
        if let Some(thread) = &self.thread {
            thread.take(self.queue.drain(kept..));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_keeps_a_few_reads_and_a_share_of_many() {
        for (here, with_thread, expected) in [
            (0, 0, KEPT_MIN),
            (3, 0, KEPT_MIN - 3),
            (KEPT_MIN, 0, 0),
            (KEPT_MIN + 1, 0, 0),
            (0, KEPT_MIN * THREAD_EACH, KEPT_MIN),
            (0, 90, 30),
            (20, 90, 10),
            (31, 90, 0),
        ] {
            assert_eq!(kept(here, with_thread), expected, "{here} here, {with_thread} with the thread");
        }
    }
}
