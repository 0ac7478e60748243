//! The thread that waits for the log's fsync, so that the event loops never do: one fsync for all that is waiting.

use crate::inbox::{Inbox, Message};
use replica::{Log, LogWrite};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long a `nosync` write may stay in the operating system's memory only.
const NOSYNC_INTERVAL: Duration = Duration::from_millis(100);

/// Most writes that one fsync covers.
const GROUP_MAX: usize = 64;

enum Task {
    Write(LogWrite, Arc<Inbox>),
    /// Something was written without fsync: fsync within the interval.
    Unsynced,
    Stop,
}

/// The way to the log thread.
pub(crate) struct LogThread {
    tasks: Sender<Task>,
    thread: std::sync::Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl LogThread {
    pub(crate) fn start(log: Arc<Log>) -> std::io::Result<Self> {
        let (tasks, inbox) = channel();
        let thread = crate::vital::spawn("log", move || run(&log, &inbox))?;
        Ok(Self { tasks, thread: std::sync::Mutex::new(Some(thread)) })
    }

    /// Writes and fsyncs; `Message::Logged` comes back. One at a time for each worker.
    pub(crate) fn write(&self, write: LogWrite, back: Arc<Inbox>) {
        self.send(Task::Write(write, back));
    }

    /// Fsyncs soon.
    pub(crate) fn unsynced(&self) {
        self.send(Task::Unsynced);
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

fn run(log: &Log, tasks: &Receiver<Task>) {
    let mut unsynced_since: Option<Instant> = None;
    loop {
        let wait = unsynced_since.map_or(Duration::from_secs(3600), |since| {
            (since + NOSYNC_INTERVAL).saturating_duration_since(Instant::now())
        });
        // Asked before the tasks: they may come without a pause.
        if wait.is_zero() {
            unsynced_since = None;
            if let Err(e) = log.sync() {
                log::error!("{e}");
            }
            continue;
        }
        let task = match tasks.recv_timeout(wait) {
            Ok(task) => task,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        match task {
            Task::Unsynced => {
                unsynced_since.get_or_insert_with(Instant::now);
            }
            Task::Write(mut write, back) => {
                // Everything that waits goes to the file, then one fsync covers it all.
                let mut waiting = Vec::new();
                let mut stop = false;
                while waiting.len() < GROUP_MAX && !stop {
                    match tasks.try_recv() {
                        Ok(Task::Write(more, to)) => waiting.push((more, to)),
                        Ok(Task::Unsynced) => {}
                        Ok(Task::Stop) => stop = true,
                        Err(_) => break,
                    }
                }
                write_all(log, &mut write, &back, waiting);
                unsynced_since = None;
                if stop {
                    return;
                }
            }
            Task::Stop => {
                if let Err(e) = log.sync() {
                    log::error!("{e}");
                }
                return;
            }
        }
    }
}

fn write_all(log: &Log, first: &mut LogWrite, back: &Inbox, mut rest: Vec<(LogWrite, Arc<Inbox>)>) {
    let alone = rest.is_empty();
    let first_done = log.write(first, alone).is_ok();
    let done: Vec<bool> = rest.iter_mut().map(|(write, _)| log.write(write, false).is_ok()).collect();
    let synced = alone || log.sync().is_ok();
    let outcome = |written: bool| {
        if written && synced { Ok(()) } else { Err(replica::Error::Poisoned(log.health().reason())) }
    };
    back.send(Message::Logged(outcome(first_done)));
    for ((_, to), written) in rest.iter().zip(done) {
        to.send(Message::Logged(outcome(written)));
    }
}
