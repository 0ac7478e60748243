//! A thread that reads from disk for a worker, beside the disk reader of its event loop.
//!
//! One loop that serves clients and looks into blocks has no time left before a quick disk has none
//! (docs/adr/0005, "The disk thread"). So of many reads it keeps some, which costs no hand-over, and its disk thread has
//! the others, with a disk reader of its own. What has become of them comes by mail, for a whole turn at once.

use crate::cold::Cold;
use crate::disk_reader::DiskReader;
use crate::event_wait::EventWait;
use crate::inbox::Inbox;
use crate::store::Store;
use crate::worker::Worker;
use mio::{Events, Poll, Token, Waker};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const MAIL: Token = Token(0);
const READS: Token = Token(1);
/// So many a worker always keeps: they are no trouble.
const KEPT_MIN: usize = 8;
/// And one for so many that its thread has.
const THREAD_EACH: usize = 3;
/// For how long the thread waits when there is nothing to do.
const IDLE: Duration = Duration::from_secs(60);

/// What worker and thread share.
struct Shared {
    store: Arc<Store>,
    /// What the thread is to take.
    cold: Arc<Inbox<Cold>>,
    /// How many it was given that are not over.
    underway: AtomicUsize,
    stopped: AtomicBool,
}

/// The way to the thread; dropping it ends it, and gives up what is under way.
pub(crate) struct DiskThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl DiskThread {
    /// `inbox`: of the worker. One of `readers`.
    fn start(name: &str, store: &Arc<Store>, readers: usize, inbox: Arc<Inbox>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let cold = Inbox::new(Waker::new(poll.registry(), MAIL)?);
        let (store, underway, stopped) = (store.clone(), AtomicUsize::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { store, cold, underway, stopped });
        let of_thread = shared.clone();
        let thread = crate::vital::spawn(name, move || of_thread.run(poll, readers, &inbox))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    fn underway(&self) -> usize {
        self.shared.underway.load(Ordering::Relaxed)
    }

    fn take(&self, cold: impl ExactSizeIterator<Item = Cold>) {
        self.shared.underway.fetch_add(cold.len(), Ordering::Relaxed);
        self.shared.cold.send_all(cold);
    }
}

impl Drop for DiskThread {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        self.shared.cold.wake();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("a disk thread has panicked");
        }
    }
}

impl Shared {
    fn run(&self, mut poll: Poll, readers: usize, inbox: &Inbox) {
        let mut disk = match DiskReader::new(&self.store, readers, poll.registry(), READS) {
            Ok(disk) => disk,
            Err(e) => {
                log::warn!("a disk thread has no io_uring ({e}): threads of the pool read for it");
                return self.pass_on(poll);
            }
        };
        let (mut events, mut event_wait) = (Events::with_capacity(2), EventWait::new(false));
        let (mut cold, mut messages) = (Vec::new(), Vec::new());
        loop {
            let timeout = if disk.is_behind() { Duration::ZERO } else { IDLE };
            let span = event_wait.span(false, disk.with_disk());
            if !self.wait(|| event_wait.poll(&mut poll, &mut events, timeout, span)) {
                return;
            }
            self.cold.take(&mut cold);
            let before = disk.underway() + cold.len();
            disk.go(&mut cold, &mut messages);
            self.underway.fetch_sub(before - disk.underway(), Ordering::Relaxed);
            inbox.send_all(messages.drain(..));
        }
    }

    /// Where there are no rings any more.
    fn pass_on(&self, mut poll: Poll) {
        let (mut events, mut cold) = (Events::with_capacity(2), Vec::new());
        while self.wait(|| poll.poll(&mut events, Some(IDLE))) {
            self.cold.take(&mut cold);
            self.underway.fetch_sub(cold.len(), Ordering::Relaxed);
            self.store.pool.wait_for(&mut cold);
        }
    }

    /// False if the thread is to end.
    fn wait(&self, poll: impl FnOnce() -> io::Result<()>) -> bool {
        if let Err(e) = poll()
            && e.kind() != io::ErrorKind::Interrupted
        {
            // Whoever waits for its reads would wait for ever.
            panic!("a disk thread cannot wait for events: {e}");
        }
        !self.stopped.load(Ordering::Acquire)
    }
}

impl Worker {
    /// How many disk readers the node may have.
    pub(crate) fn disk_readers(&self) -> usize {
        self.store.workers() * if self.may_have_disk_thread { 2 } else { 1 }
    }

    /// Begins what waits for the disk, and has that go on which need not wait any longer.
    pub(crate) fn read_from_disk(&mut self) {
        self.hand_over_reads();
        let Some(disk) = &mut self.disk else { return self.store.pool.wait_for(&mut self.outbox.cold) };
        let mut thawed = std::mem::take(&mut self.thawed);
        disk.go(&mut self.outbox.cold, &mut thawed);
        thawed.drain(..).for_each(|message| self.read_mail(message));
        self.thawed = thawed;
    }

    /// Gives the disk thread most of what waits for the disk, if that is much.
    fn hand_over_reads(&mut self) {
        let Some(disk) = self.disk.as_ref().filter(|_| self.may_have_disk_thread) else { return };
        let with_thread = self.disk_thread.as_ref().map_or(0, DiskThread::underway);
        let kept = KEPT_MIN.max(with_thread / THREAD_EACH).saturating_sub(disk.underway());
        if self.outbox.cold.len() <= kept {
            return;
        }
        if self.disk_thread.is_none() {
            let (name, inbox) = (format!("disk-reader-{}", self.index), self.inbox.clone());
            match DiskThread::start(&name, &self.store, self.disk_readers(), inbox) {
                Ok(thread) => self.disk_thread = Some(thread),
                Err(e) => {
                    log::warn!("there is no disk thread ({e}): the event loop does all of its reads");
                    self.may_have_disk_thread = false;
                }
            }
        }
        if let Some(thread) = &self.disk_thread {
            thread.take(self.outbox.cold.drain(kept..));
        }
    }
}
