//! Threads for what may wait for the disk: reads that miss the cache, scans, and looking up what a write will need.

use crate::cold::{Cold, wait_for_all};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What waits for the disk, and one thread takes at a time.
const BATCH_MAX: usize = 8;

/// A job; it reports back by itself.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

enum Task {
    Job(Job),
    /// One of those that are taken in batches.
    Cold(Cold),
}

/// Invariant: `wakes` threads of those that are `idle` have been woken and have not taken notice yet.
struct Queue {
    tasks: VecDeque<Task>,
    idle: usize,
    wakes: usize,
    stopped: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
}

/// A pool of threads. The number of tasks is bounded by the requests that connections may have under way.
#[derive(Clone)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Arc<Mutex<Vec<std::thread::JoinHandle<()>>>>,
}

impl Pool {
    pub(crate) fn start(name: &str, threads: usize) -> std::io::Result<Self> {
        let queue = Mutex::new(Queue { tasks: VecDeque::new(), idle: 0, wakes: 0, stopped: false });
        let pool = Self { shared: Arc::new(Shared { queue, ready: Condvar::new() }), threads: Arc::default() };
        let start = |i| {
            let pool = pool.clone();
            crate::vital::spawn(&format!("{name}-{i}"), move || pool.serve())
        };
        let threads = (0..threads).map(start).collect::<std::io::Result<Vec<_>>>()?;
        *pool.threads.lock().unwrap_or_else(PoisonError::into_inner) = threads;
        Ok(pool)
    }

    pub(crate) fn run(&self, job: Job) {
        let mut queue = self.lock();
        queue.tasks.push_back(Task::Job(job));
        self.wake(queue, 1);
    }

    /// Has what waits for the disk go on, in batches; `cold` is empty afterwards.
    pub(crate) fn wait_for(&self, cold: &mut Vec<Cold>) {
        if cold.is_empty() {
            return;
        }
        let batches = cold.len().div_ceil(BATCH_MAX);
        let mut queue = self.lock();
        queue.tasks.extend(cold.drain(..).map(Task::Cold));
        self.wake(queue, batches);
    }

    /// Ends the threads when the tasks that are queued are done.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.shared.ready.notify_all();
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if thread.join().is_err() {
                log::error!("a reading thread has panicked");
            }
        }
    }

    /// Wakes so many threads, if they sleep: each wake-up is a call of the system. Those that are awake look into the
    /// queue before they sleep.
    fn wake(&self, mut queue: MutexGuard<'_, Queue>, wanted: usize) {
        let woken = wanted.min(queue.idle - queue.wakes);
        queue.wakes += woken;
        drop(queue);
        (0..woken).for_each(|_| self.shared.ready.notify_one());
    }

    fn serve(&self) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        let mut queue = self.lock();
        loop {
            let job = queue.take(&mut batch);
            if job.is_some() || !batch.is_empty() {
                // What is left is for others, if there are any.
                let more = usize::from(!queue.tasks.is_empty());
                self.wake(queue, more);
                match job {
                    Some(job) => job(),
                    None => wait_for_all(self, &mut batch),
                }
                queue = self.lock();
            } else if queue.stopped {
                return;
            } else {
                queue.idle += 1;
                while queue.wakes == 0 && !queue.stopped {
                    queue = self.shared.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
                queue.idle -= 1;
                queue.wakes = queue.wakes.saturating_sub(1);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// The next task: a job, or what follows each other and waits for the disk alone.
    fn take(&mut self, batch: &mut Vec<Cold>) -> Option<Job> {
        while batch.len() < BATCH_MAX {
            match self.tasks.pop_front() {
                Some(Task::Job(job)) if batch.is_empty() => return Some(job),
                Some(Task::Cold(cold)) => batch.push(cold),
                Some(job) => {
                    self.tasks.push_front(job);
                    break;
                }
                None => break,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::sync::Barrier;
    use std::sync::mpsc::channel;

    #[test]
    fn jobs_that_wait_for_each_other_all_run_and_what_is_queued_is_done_before_the_end() {
        let pool = Pool::start("test", 4).unwrap();
        let (sender, receiver) = channel();
        for round in 0..200 {
            // Needs all four threads at once.
            let barrier = Arc::new(Barrier::new(4));
            for _ in 0..4 {
                let (barrier, sender) = (barrier.clone(), sender.clone());
                pool.run(Box::new(move || {
                    barrier.wait();
                    sender.send(round).unwrap();
                }));
            }
            assert!((0..4).all(|_| receiver.recv().unwrap() == round));
        }
        let queue = pool.lock();
        assert!(queue.idle <= 4 && queue.wakes <= queue.idle);
        drop(queue);
        for i in 0..100 {
            let sender = sender.clone();
            pool.run(Box::new(move || sender.send(i).unwrap()));
        }
        pool.stop();
        assert_eq!(receiver.try_iter().count(), 100);
    }
}
