//! Threads for what may wait for the disk: reads that miss the cache, scans, and looking up what a write will need.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A job; it reports back by itself.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

struct Queue {
    jobs: VecDeque<Job>,
    stopped: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
}

/// A pool of threads. The number of jobs is bounded by the requests that connections may have under way.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

impl Pool {
    pub(crate) fn start(name: &str, threads: usize) -> std::io::Result<Self> {
        let queue = Mutex::new(Queue { jobs: VecDeque::new(), stopped: false });
        let shared = Arc::new(Shared { queue, ready: Condvar::new() });
        let start = |i| {
            let shared = shared.clone();
            crate::vital::spawn(&format!("{name}-{i}"), move || shared.run())
        };
        let threads = (0..threads).map(start).collect::<std::io::Result<Vec<_>>>()?;
        Ok(Self { shared, threads: Mutex::new(threads) })
    }

    pub(crate) fn run(&self, job: Job) {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.jobs.push_back(job);
        drop(queue);
        self.shared.ready.notify_one();
    }

    /// Ends the threads when the jobs that are queued are done.
    pub(crate) fn stop(&self) {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.shared.ready.notify_all();
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if thread.join().is_err() {
                log::error!("a reading thread has panicked");
            }
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job();
                queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            } else if queue.stopped {
                return;
            } else {
                queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}
