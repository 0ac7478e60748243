//! A helper thread that makes most of many disk reads of a worker, with a reader of its own.
//!
//! A fast disk can serve more reads than one event loop can process beside its clients (docs/adr/0005, "The disk
//! thread"). The worker hears of the reads that are done by its mailbox, for a whole turn at once.

use super::deferred::DeferredRead;
use super::uring_reader::DiskReader;
use crate::mailbox::Mailbox;
use crate::os::{BusyPoll, TICK, spawn_critical};
use crate::shared::NodeShared;
use mio::{Events, Poll, Token, Waker};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

const MAIL: Token = Token(0);
const READS: Token = Token(1);
/// For how long the thread waits for work at a time.
const IDLE: Duration = Duration::from_secs(60);

/// What worker and thread share.
struct Shared {
    store: Arc<NodeShared>,
    /// Reads for the thread; none: the thread is to end.
    tasks: Arc<Mailbox<Option<DeferredRead>>>,
    /// Reads that the thread was given and has not finished.
    underway: AtomicUsize,
}

/// A handle of the thread; dropping it ends the thread, and gives up what is under way.
pub(super) struct ReaderThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl ReaderThread {
    /// `mailbox`: of the worker. The disk is shared by so many `readers`. Fails if the kernel has no ring for it.
    pub(super) fn start(
        name: &str,
        store: &Arc<NodeShared>,
        readers: usize,
        mailbox: Arc<Mailbox>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let tasks = Mailbox::new(Waker::new(poll.registry(), MAIL)?);
        let shared = Arc::new(Shared { store: store.clone(), tasks, underway: AtomicUsize::new(0) });
        let (of_thread, (begun, has_begun)) = (shared.clone(), sync_channel(1));
        let thread = spawn_critical(name, move || of_thread.run(poll, readers, &begun, &mailbox))?;
        let started = Self { shared, thread: Some(thread) };
        has_begun.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
        Ok(started)
    }

    pub(super) fn underway(&self) -> usize {
        self.shared.underway.load(Ordering::Relaxed)
    }

    pub(super) fn take(&self, reads: impl ExactSizeIterator<Item = DeferredRead>) {
        self.shared.underway.fetch_add(reads.len(), Ordering::Relaxed);
        self.shared.tasks.send_all(reads.map(Some));
    }
}

impl Drop for ReaderThread {
    fn drop(&mut self) {
        self.shared.tasks.send(None);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("a disk thread has panicked");
        }
    }
}

impl Shared {
    fn run(&self, mut poll: Poll, readers: usize, begun: &SyncSender<io::Result<()>>, mailbox: &Mailbox) {
        // The kernel requires that the thread which uses a ring makes it.
        let mut disk = match DiskReader::new(&self.store, readers, poll.registry(), READS) {
            Ok(disk) => disk,
            Err(e) => return begun.send(Err(e)).unwrap_or_default(),
        };
        begun.send(Ok(())).unwrap_or_default();
        let (mut events, mut busy_poll) = (Events::with_capacity(2), BusyPoll::default());
        let (mut tasks, mut reads, mut messages) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            // Reads that the kernel has not taken are submitted again at the next tick.
            let idle = if disk.underway() > 0 { TICK } else { IDLE };
            let timeout = if disk.is_behind() { Duration::ZERO } else { idle };
            let span = busy_poll.span(false, false, disk.with_disk());
            if let Err(e) = busy_poll.poll(&mut poll, &mut events, timeout, span)
                && e.kind() != io::ErrorKind::Interrupted
            {
                // Its reads would never be answered.
                panic!("a disk thread cannot wait for events: {e}");
            }
            self.tasks.take(&mut tasks);
            for task in tasks.drain(..) {
                let Some(task) = task else { return };
                reads.push(task);
            }
            let before = disk.underway() + reads.len();
            disk.go(&mut reads, &mut messages);
            self.underway.fetch_sub(before - disk.underway(), Ordering::Relaxed);
            mailbox.send_all(messages.drain(..));
        }
    }
}
