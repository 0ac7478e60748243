//! Threads for jobs that may wait: for the disk, for other nodes, or for a shard's leader.

use crate::os::spawn_critical;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A job; it reports back by itself.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Invariant: `wakes ≤ idle`. `wakes` counts the idle threads that were woken and have not noticed yet.
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    wakes: usize,
    stopped: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
}

/// A pool of threads. The requests that connections may have under way bound the number of its jobs.
#[derive(Clone)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Pool {
    pub(crate) fn start(name: &str, threads: usize) -> std::io::Result<Self> {
        let queue = Mutex::new(Queue { jobs: VecDeque::new(), idle: 0, wakes: 0, stopped: false });
        let pool = Self { shared: Arc::new(Shared { queue, ready: Condvar::new() }), threads: Arc::default() };
        let start = |i| {
            let pool = pool.clone();
            spawn_critical(&format!("{name}-{i}"), move || pool.serve())
        };
        let threads = (0..threads).map(start).collect::<std::io::Result<Vec<_>>>()?;
        *pool.threads.lock() = threads;
        Ok(pool)
    }

    /// Queues a job.
    pub(crate) fn run(&self, job: Job) {
        self.run_all([job]);
    }

    /// Queues several jobs at once.
    pub(crate) fn run_all(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut queue = self.lock();
        let before = queue.jobs.len();
        queue.jobs.extend(jobs);
        let added = queue.jobs.len() - before;
        self.wake(queue, added);
    }

    /// Runs a job that may take long on a thread of its own; if none can be started, the pool runs it.
    pub(crate) fn run_beside(&self, name: &str, job: impl FnOnce() + Send + 'static) {
        let job: Arc<Mutex<Option<Job>>> = Arc::new(Mutex::new(Some(Box::new(job))));
        let given = job.clone();
        let take = |job: &Mutex<Option<Job>>| job.lock().take();
        let spawned = spawn_critical(name, move || {
            if let Some(job) = take(&given) {
                job();
            }
        });
        if let Err(e) = spawned
            && let Some(job) = take(&job)
        {
            log::warn!("no thread {name} can be started, a thread of the pool does its work: {e}");
            self.run(job);
        }
    }

    /// Ends the threads when the queued jobs are done.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.shared.ready.notify_all();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                log::error!("a thread of the pool has panicked");
            }
        }
    }

    /// Wakes up to `wanted` sleeping threads. Each wake-up is a system call, and a thread that is awake looks into the
    /// queue before it sleeps.
    fn wake(&self, mut queue: MutexGuard<'_, Queue>, wanted: usize) {
        let woken = wanted.min(queue.idle - queue.wakes);
        queue.wakes += woken;
        drop(queue);
        for _ in 0..woken {
            self.shared.ready.notify_one();
        }
    }

    fn serve(&self) {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                // What is left is for another thread, if one sleeps.
                let more = usize::from(!queue.jobs.is_empty());
                self.wake(queue, more);
                job();
                queue = self.lock();
            } else if queue.stopped {
                return;
            } else {
                queue.idle += 1;
                while queue.wakes == 0 && !queue.stopped {
                    self.shared.ready.wait(&mut queue);
                }
                queue.idle -= 1;
                queue.wakes = queue.wakes.saturating_sub(1);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.shared.queue.lock()
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
