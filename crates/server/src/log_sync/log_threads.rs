//! The threads that wait for the log's fsyncs, so that the event loops need not.
//!
//! There are a few, and they take turns: one takes all that is waiting, hands it to the log, which is quick, and then waits
//! for the disk, while the next one takes what has come since. A device serves several fsyncs at a time: two that overlap
//! take little longer than one. Writes are made in the order in which they were handed over, and told to be done in
//! that order too: a write that is reported done implies that those before it are on the disk.

use crate::mailbox::{Mailbox, WorkerMessage};
use crate::os::{TICK, now_ms, spawn_critical};
use node::Config;
use node::stats::Stats;
use parking_lot::{Condvar, Mutex, MutexGuard};
use replica::{Log, LogStore, LogWrite, Result};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How long a `nosync` write may stay in the operating system's memory only.
const NOSYNC_INTERVAL: Duration = Duration::from_millis(100);

/// Most writes that one fsync covers.
const GROUP_MAX: usize = 64;

/// The duration of an fsync is a mean over about so many; a longer one counts as `FSYNC_NOTED_MAX`, so that the mean recovers.
const FSYNCS_NOTED: u32 = 8;
const FSYNC_NOTED_MAX: Duration = Duration::from_millis(4);

/// Fsyncs that may be under way at a time.
const THREADS: usize = 2;

/// Who is told that a write is done.
enum Back {
    Worker(Arc<Mailbox>),
    Caller(SyncSender<Result<()>>),
}

enum Task {
    /// To be written and fsynced.
    Write(LogWrite, Back),
    /// What others have written is to be fsynced; none: no thread waits for that.
    Sync(Option<Back>),
}

/// What threads and writers share.
struct Shared {
    log: Arc<Log>,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Something was written without fsync. A flag rather than a task: writers need not wake a thread.
    unsynced: AtomicBool,
    done: Mutex<Done>,
    /// Where slow fsyncs are recorded.
    stats: Arc<Stats>,
    config: Arc<Config>,
    /// The mean duration of an fsync, in µs.
    fsync_us: AtomicU32,
}

/// Invariant: groups are taken, numbered and written by one thread at a time.
struct Queue {
    tasks: VecDeque<Task>,
    /// A thread is writing what it took.
    writing: bool,
    /// The number of the next group.
    next: u64,
    synced_at: Instant,
    stopped: bool,
}

/// Groups whose fsync is over, and whose turn to be told it is not.
#[derive(Default)]
struct Done {
    /// The next group that is to be told.
    next: u64,
    waiting: BTreeMap<u64, Vec<(Back, Result<()>)>>,
}

/// What one fsync covers.
struct Group {
    number: u64,
    tasks: Vec<Task>,
}

impl Group {
    /// One write of all there is to write, in order, and who is to be told of it.
    fn join(self) -> (LogWrite, Vec<Back>) {
        let (mut whole, mut backs) = (LogWrite::default(), Vec::new());
        for task in self.tasks {
            let (mut write, back) = match task {
                Task::Write(write, back) => (write, Some(back)),
                Task::Sync(back) => (LogWrite::default(), back),
            };
            whole.append(&mut write);
            backs.extend(back);
        }
        (whole, backs)
    }
}

/// The way to the log threads.
pub(crate) struct LogThreads {
    shared: Arc<Shared>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

impl LogThreads {
    /// `stats` and `config`: where slow fsyncs are recorded, and from which duration on.
    pub(crate) fn start(log: Arc<Log>, stats: Arc<Stats>, config: Arc<Config>) -> std::io::Result<Self> {
        let queue =
            Queue { tasks: VecDeque::new(), writing: false, next: 0, synced_at: Instant::now(), stopped: false };
        let shared = Arc::new(Shared {
            log,
            queue: Mutex::new(queue),
            changed: Condvar::new(),
            unsynced: AtomicBool::new(false),
            done: Mutex::default(),
            stats,
            config,
            fsync_us: AtomicU32::new(FSYNC_NOTED_MAX.as_micros() as u32),
        });
        let start = |number| {
            let shared = shared.clone();
            spawn_critical(&format!("log-{number}"), move || shared.run())
        };
        let threads = (0..THREADS).map(start).collect::<std::io::Result<_>>()?;
        Ok(Self { shared, threads: Mutex::new(threads) })
    }

    /// Writes and fsyncs; `WorkerMessage::Logged` comes back.
    pub(crate) fn write(&self, write: LogWrite, back: Arc<Mailbox>) {
        self.shared.send(Task::Write(write, Back::Worker(back)));
    }

    /// Fsyncs what the log was given before; `WorkerMessage::Logged` comes back.
    pub(crate) fn sync(&self, back: Arc<Mailbox>) {
        self.shared.send(Task::Sync(Some(Back::Worker(back))));
    }

    /// The same on the caller's thread, which waits for the device, and for nothing else: false if there is no room, no
    /// descriptor or no memory, and `sync` is to be called. Nothing that was handed over may be waited for yet.
    pub(crate) fn sync_here(&self) -> Result<bool> {
        let begun = Instant::now();
        let synced = self.shared.log.try_sync();
        self.shared.note_fsync(begun.elapsed());
        synced.inspect_err(|e| log::error!("{e}"))
    }

    /// Notes what an fsync took that was made elsewhere.
    pub(crate) fn note_fsync(&self, took: Duration) {
        self.shared.note_fsync(took);
    }

    /// The mean duration of the last fsyncs.
    pub(crate) fn fsync_time(&self) -> Duration {
        Duration::from_micros(self.shared.fsync_us.load(Ordering::Relaxed).into())
    }

    /// Writes and fsyncs, behind everything that was handed over before; waits for it.
    pub(crate) fn write_last(&self, write: LogWrite) -> Result<()> {
        let (sender, receiver) = sync_channel(1);
        self.shared.send(Task::Write(write, Back::Caller(sender)));
        receiver.recv().unwrap_or_else(|_| Err(replica::Error::Poisoned("the log threads are gone".to_owned())))
    }

    /// Something was written without fsync: a tick after the interval has it fsynced.
    pub(crate) fn unsynced(&self) {
        self.shared.unsynced.store(true, Ordering::Release);
    }

    /// To be called twice in the interval or more often.
    pub(crate) fn tick(&self) {
        // Half a tick early is better than almost a whole one late.
        let due = || self.shared.queue().synced_at.elapsed() >= NOSYNC_INTERVAL - TICK / 2;
        // Taken before the fsync: what is written during it waits for the next one.
        if self.shared.unsynced.load(Ordering::Acquire) && due() && self.shared.unsynced.swap(false, Ordering::AcqRel) {
            self.shared.queue().synced_at = Instant::now();
            self.shared.send(Task::Sync(None));
        }
    }

    /// Ends the threads when what was handed over is on the disk.
    pub(crate) fn stop(&self) {
        self.shared.queue().stopped = true;
        self.shared.changed.notify_all();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                log::error!("a log thread has panicked");
            }
        }
        if let Err(e) = self.shared.log.sync() {
            log::error!("{e}");
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    fn send(&self, task: Task) {
        let mut queue = self.queue();
        if queue.stopped {
            // The waiting thread sees that its sender is gone.
            return log::error!("a log write after the end");
        }
        queue.tasks.push_back(task);
        let wake = !queue.writing;
        drop(queue);
        if wake {
            self.changed.notify_one();
        }
    }

    fn run(&self) {
        while let Some(group) = self.take() {
            let begun = Instant::now();
            let number = group.number;
            let (write, backs) = group.join();
            let written = if write.is_empty() { Ok(()) } else { self.log.stage(&write) };
            self.let_next_write();
            let outcome = written.and_then(|()| self.sync(begun));
            self.tell(number, backs.into_iter().map(|back| (back, outcome.clone())).collect());
        }
    }

    /// The next group, whose time to be written it is; `None` at the end.
    fn take(&self) -> Option<Group> {
        let mut queue = self.queue();
        loop {
            if !queue.writing && !queue.tasks.is_empty() {
                return Some(queue.begin());
            }
            if !queue.writing && queue.stopped {
                return None;
            }
            self.changed.wait(&mut queue);
        }
    }

    fn sync(&self, begun: Instant) -> Result<()> {
        let synced = self.log.sync();
        self.note_fsync(begun.elapsed());
        synced.inspect_err(|e| log::error!("{e}"))
    }

    fn note_fsync(&self, took: Duration) {
        self.stats.took("fsync", took, now_ms(), &self.config);
        let (before, us) = (self.fsync_us.load(Ordering::Relaxed), took.min(FSYNC_NOTED_MAX).as_micros() as u32);
        self.fsync_us.store(before - before / FSYNCS_NOTED + us / FSYNCS_NOTED, Ordering::Relaxed);
    }

    /// The log has what was taken; what comes now may be given to it while this thread waits for the disk.
    fn let_next_write(&self) {
        let mut queue = self.queue();
        queue.writing = false;
        let (more, stopped) = (!queue.tasks.is_empty(), queue.stopped);
        drop(queue);
        if stopped {
            self.changed.notify_all();
        } else if more {
            self.changed.notify_one();
        }
    }

    /// Tells what became of a group, once all before it have been told.
    fn tell(&self, number: u64, outcomes: Vec<(Back, Result<()>)>) {
        let mut done = self.done.lock();
        let mut next = done.next;
        done.waiting.insert(number, outcomes);
        while let Some(entry) = done.waiting.first_entry().filter(|entry| *entry.key() == next) {
            let outcomes = entry.remove();
            next += 1;
            for (back, outcome) in outcomes {
                match back {
                    Back::Worker(mailbox) => mailbox.send(WorkerMessage::Logged(outcome)),
                    // The caller waits.
                    Back::Caller(caller) => _ = caller.try_send(outcome),
                }
            }
        }
        done.next = next;
    }
}

impl Queue {
    fn begin(&mut self) -> Group {
        self.writing = true;
        let number = self.next;
        self.next += 1;
        let count = self.tasks.len().min(GROUP_MAX);
        Group { number, tasks: self.tasks.drain(..count).collect() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use replica::{DiskHealth, LogOptions, SnapshotPoint};
    use vocab::{ReplicaId, ShardId};

    /// Makes a group known: one write.
    fn group(shard: u32) -> LogWrite {
        let mut write = LogWrite::default();
        write.begin_at(ShardId(shard), ReplicaId(1), &point());
        write
    }

    fn point() -> SnapshotPoint {
        let mut point = SnapshotPoint { index: 5, term: 2, ..SnapshotPoint::default() };
        point.conf_state.voters.push(1);
        point
    }

    fn start(dir: &std::path::Path) -> (LogThreads, Arc<DiskHealth>) {
        let health = Arc::new(DiskHealth::default());
        let options = LogOptions { file_bytes: 16 << 10, ..LogOptions::default() };
        let log = Arc::new(Log::open(dir, &options, health.clone()).unwrap());
        let threads = LogThreads::start(log, Arc::new(Stats::new(1)), Arc::new(Config::default())).unwrap();
        (threads, health)
    }

    #[test]
    fn who_is_told_finds_what_it_wrote_on_the_disk_and_the_rest_is_there_after_the_end() {
        const WRITERS: u32 = 8;
        const WRITES: u32 = 50;
        let dir = tempfile::tempdir().unwrap();
        let (threads, health) = start(dir.path());
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (threads, health) = (&threads, &health);
                scope.spawn(move || {
                    for n in 0..WRITES {
                        let shard = writer * 2 * WRITES + n * 2;
                        threads.shared.log.stage(&group(shard + 1)).unwrap();
                        let before = health.log_fsyncs();
                        threads.write_last(group(shard)).unwrap();
                        assert!(health.log_fsyncs() > before, "an fsync since it was handed over");
                    }
                });
            }
        });
        threads.stop();
        drop(threads);
        let log = Log::open(dir.path(), &LogOptions::default(), Arc::default()).unwrap();
        assert_eq!(log.groups().len() as u32, 2 * WRITERS * WRITES);
    }

    #[test]
    fn groups_are_told_of_in_the_order_in_which_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let (threads, _) = start(dir.path());
        let (sender, receiver) = sync_channel(2);
        let later = vec![(Back::Caller(sender.clone()), Err(replica::Error::Poisoned("the later one".to_owned())))];
        threads.shared.tell(1, later);
        assert!(receiver.try_recv().is_err(), "one before it is not done");
        threads.shared.tell(0, vec![(Back::Caller(sender), Ok(()))]);
        assert!(receiver.recv().unwrap().is_ok());
        assert!(receiver.recv().unwrap().is_err());
        threads.stop();
    }

    #[test]
    fn no_success_is_reported_once_an_fsync_has_failed() {
        let dir = tempfile::tempdir().unwrap();
        let (threads, health) = start(dir.path());
        threads.write_last(group(1)).unwrap();
        health.poison("an fsync of another thread");
        assert!(threads.write_last(group(2)).is_err());
        threads.stop();
        assert!(threads.write_last(group(3)).is_err(), "after the end");
    }
}
