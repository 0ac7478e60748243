//! A thread that reads from disk for a worker, beside the disk reader of its event loop.
//!
//! One loop that serves clients and looks into blocks has no time left before a quick disk has none
//! (docs/adr/0005, "The disk thread"). So of many reads it keeps some, which costs no hand-over, and its disk thread has
//! the others, with a disk reader of its own. What has become of them comes by mail, for a whole turn at once.

use super::deferred::{Cold, read_in_pool};
use super::uring_reader::DiskReader;
use crate::mailbox::Mailbox;
use crate::os::{BusyPoll, TICK, spawn_critical};
use crate::shared::NodeShared;
use crate::worker::Worker;
use mio::{Events, Poll, Token, Waker};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

const MAIL: Token = Token(0);
const READS: Token = Token(1);
/// So many a worker always keeps: they are no trouble.
const KEPT_MIN: usize = 8;
/// And one for so many that its thread has.
const THREAD_EACH: usize = 3;
/// For how long the thread waits when it has nothing.
const IDLE: Duration = Duration::from_secs(60);

/// What worker and thread share.
struct Shared {
    store: Arc<NodeShared>,
    /// What the thread is to take; none: it is to end.
    tasks: Arc<Mailbox<Option<Cold>>>,
    /// How many it was given that are not over.
    underway: AtomicUsize,
}

/// The way to the thread; dropping it ends it, and gives up what is under way.
pub(crate) struct DiskThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl DiskThread {
    /// `mailbox`: of the worker. One of `readers`. Fails as well if the kernel has no ring for it.
    fn start(name: &str, store: &Arc<NodeShared>, readers: usize, mailbox: Arc<Mailbox>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let tasks = Mailbox::new(Waker::new(poll.registry(), MAIL)?);
        let shared = Arc::new(Shared { store: store.clone(), tasks, underway: AtomicUsize::new(0) });
        let (of_thread, (begun, has_begun)) = (shared.clone(), sync_channel(1));
        let thread = spawn_critical(name, move || of_thread.run(poll, readers, &begun, &mailbox))?;
        let started = Self { shared, thread: Some(thread) };
        has_begun.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
        Ok(started)
    }

    fn underway(&self) -> usize {
        self.shared.underway.load(Ordering::Relaxed)
    }

    fn take(&self, cold: impl ExactSizeIterator<Item = Cold>) {
        self.shared.underway.fetch_add(cold.len(), Ordering::Relaxed);
        self.shared.tasks.send_all(cold.map(Some));
    }
}

impl Drop for DiskThread {
    fn drop(&mut self) {
        self.shared.tasks.send(None);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("a disk thread has panicked");
        }
    }
}

impl Shared {
    fn run(&self, mut poll: Poll, readers: usize, begun: &SyncSender<io::Result<()>>, mailbox: &Mailbox) {
        // By the thread that uses it: the kernel minds.
        let mut disk = match DiskReader::new(&self.store, readers, poll.registry(), READS) {
            Ok(disk) => disk,
            Err(e) => return begun.send(Err(e)).unwrap_or_default(),
        };
        begun.send(Ok(())).unwrap_or_default();
        let (mut events, mut busy_poll) = (Events::with_capacity(2), BusyPoll::new(false));
        let (mut tasks, mut cold, mut messages) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            // What the kernel has not taken is handed over again, as by a worker.
            let idle = if disk.underway() > 0 { TICK } else { IDLE };
            let timeout = if disk.is_behind() { Duration::ZERO } else { idle };
            let span = busy_poll.span(false, disk.with_disk());
            if let Err(e) = busy_poll.poll(&mut poll, &mut events, timeout, span)
                && e.kind() != io::ErrorKind::Interrupted
            {
                // Whoever waits for its reads would wait for ever.
                panic!("a disk thread cannot wait for events: {e}");
            }
            self.tasks.take(&mut tasks);
            for task in tasks.drain(..) {
                let Some(task) = task else { return };
                cold.push(task);
            }
            let before = disk.underway() + cold.len();
            disk.go(&mut cold, &mut messages);
            self.underway.fetch_sub(before - disk.underway(), Ordering::Relaxed);
            mailbox.send_all(messages.drain(..));
        }
    }
}

impl Worker {
    /// Begins what waits for the disk, and has that go on which need not wait any longer.
    pub(crate) fn read_from_disk(&mut self) {
        self.hand_over_reads();
        let Some(disk) = &mut self.disk else { return read_in_pool(&self.store.pool, &mut self.outbox.cold) };
        let mut thawed = std::mem::take(&mut self.thawed);
        disk.go(&mut self.outbox.cold, &mut thawed);
        thawed.drain(..).for_each(|message| self.read_mail(message));
        self.thawed = thawed;
    }

    /// Gives the disk thread most of what waits for the disk, if that is much.
    fn hand_over_reads(&mut self) {
        let Some(disk) = self.disk.as_mut().filter(|_| self.may_have_disk_thread) else { return };
        let with_thread = self.disk_thread.as_ref().map_or(0, DiskThread::underway);
        let kept = KEPT_MIN.max(with_thread / THREAD_EACH).saturating_sub(disk.underway());
        if self.outbox.cold.len() <= kept {
            return;
        }
        if self.disk_thread.is_none() {
            let readers = 2 * self.store.workers();
            let (name, mailbox) = (format!("disk-reader-{}", self.index), self.mailbox.clone());
            match DiskThread::start(&name, &self.store, readers, mailbox) {
                Ok(thread) => self.disk_thread = Some(thread),
                Err(e) => {
                    log::warn!("there is no disk thread ({e}): the event loop does all of its reads");
                    self.may_have_disk_thread = false;
                    disk.share_with(self.store.workers());
                }
            }
        }
        if let Some(thread) = &self.disk_thread {
            thread.take(self.outbox.cold.drain(kept..));
        }
    }
}
