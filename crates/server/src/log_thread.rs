//! The thread that waits for the log's fsync, so that the event loops never do: one fsync for all that is waiting.

use crate::inbox::{Inbox, Message};
use crate::store::now_ms;
use node::Config;
use node::stats::Stats;
use replica::{Log, LogStore, LogWrite};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

/// How long a `nosync` write may stay in the operating system's memory only.
const NOSYNC_INTERVAL: Duration = Duration::from_millis(100);

/// Most writes that one fsync covers.
const GROUP_MAX: usize = 64;

enum Task {
    Write(LogWrite, Arc<Inbox>),
    Behind(LogWrite),
    /// Written and fsynced behind all that was handed over before.
    Last(LogWrite, SyncSender<replica::Result<()>>),
    Stop,
}

/// The way to the log thread.
pub(crate) struct LogThread {
    tasks: Sender<Task>,
    /// Something was written without fsync. A flag rather than a task: writers need not wake the thread.
    unsynced: Arc<AtomicBool>,
    thread: std::sync::Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl LogThread {
    /// `latency`: where fsyncs that take long are noted.
    pub(crate) fn start(log: Arc<Log>, latency: (Arc<Stats>, Arc<Config>)) -> std::io::Result<Self> {
        let (tasks, inbox) = channel();
        let unsynced = Arc::new(AtomicBool::new(false));
        let flag = unsynced.clone();
        let thread = crate::vital::spawn("log", move || {
            let took = |begun: Instant| latency.0.took("fsync", begun.elapsed(), now_ms(), &latency.1);
            run(&log, &inbox, &flag, &took);
        })?;
        Ok(Self { tasks, unsynced, thread: std::sync::Mutex::new(Some(thread)) })
    }

    /// Writes and fsyncs; `Message::Logged` comes back. One at a time for each worker.
    pub(crate) fn write(&self, write: LogWrite, back: Arc<Inbox>) {
        self.send(Task::Write(write, back));
    }

    /// Writes what nobody waits for.
    pub(crate) fn write_behind(&self, write: LogWrite) {
        self.send(Task::Behind(write));
    }

    /// Writes and fsyncs, behind everything that was handed over before; waits for it.
    pub(crate) fn write_last(&self, write: LogWrite) -> replica::Result<()> {
        let (sender, receiver) = sync_channel(1);
        self.send(Task::Last(write, sender));
        receiver.recv().unwrap_or_else(|_| Err(replica::Error::Poisoned("the log thread is gone".to_owned())))
    }

    /// Something was written without fsync: fsyncs within the interval.
    pub(crate) fn unsynced(&self) {
        self.unsynced.store(true, Ordering::Release);
    }

    pub(crate) fn stop(&self) {
        self.send(Task::Stop);
        let thread = self.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            log::error!("the log thread has panicked");
        }
    }

    fn send(&self, task: Task) {
        if self.tasks.send(task).is_err() {
            log::error!("the log thread is gone");
        }
    }
}

fn run(log: &Log, tasks: &Receiver<Task>, unsynced: &AtomicBool, took: &dyn Fn(Instant)) {
    let mut synced_at = Instant::now();
    loop {
        let wait = (synced_at + NOSYNC_INTERVAL).saturating_duration_since(Instant::now());
        // Asked before the tasks: they may come without a pause.
        if wait.is_zero() {
            synced_at = Instant::now();
            // Taken before the fsync: what is written during it waits for the next one.
            if unsynced.swap(false, Ordering::AcqRel) {
                if let Err(e) = log.sync() {
                    log::error!("{e}");
                }
                took(synced_at);
            }
            continue;
        }
        let task = match tasks.recv_timeout(wait) {
            Ok(task) => task,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        match task {
            Task::Write(write, back) => {
                // Everything that waits goes to the file, then one fsync covers it all.
                let mut waiting = Vec::new();
                let mut stop = false;
                while waiting.len() < GROUP_MAX && !stop {
                    match tasks.try_recv() {
                        Ok(Task::Write(more, to)) => waiting.push((more, to)),
                        Ok(Task::Behind(write)) => write_unsynced(log, write),
                        // What waits here is of workers, which have given up the group that this is about.
                        Ok(Task::Last(write, back)) => _ = back.try_send(log.write(write, true)),
                        Ok(Task::Stop) => stop = true,
                        Err(_) => break,
                    }
                }
                write_all(log, write, &back, waiting, took);
                if stop {
                    return;
                }
            }
            Task::Behind(write) => write_unsynced(log, write),
            // Whoever asked waits.
            Task::Last(write, back) => _ = back.try_send(log.write(write, true)),
            Task::Stop => {
                if let Err(e) = log.sync() {
                    log::error!("{e}");
                }
                return;
            }
        }
    }
}

fn write_unsynced(log: &Log, write: LogWrite) {
    if let Err(e) = log.write(write, false) {
        log::error!("{e}");
    }
}

fn write_all(log: &Log, first: LogWrite, back: &Inbox, rest: Vec<(LogWrite, Arc<Inbox>)>, took: &dyn Fn(Instant)) {
    let begun = Instant::now();
    let alone = rest.is_empty();
    let first_done = log.write(first, alone).is_ok();
    let written = |(write, to): (LogWrite, Arc<Inbox>)| (log.write(write, false).is_ok(), to);
    let done: Vec<_> = rest.into_iter().map(written).collect();
    let synced = alone || log.sync().is_ok();
    took(begun);
    let outcome = |written: bool| {
        if written && synced { Ok(()) } else { Err(replica::Error::Poisoned(log.health().reason())) }
    };
    back.send(Message::Logged(outcome(first_done)));
    for (written, to) in done {
        to.send(Message::Logged(outcome(written)));
    }
}
