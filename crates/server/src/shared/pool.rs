//! Threads for jobs that may wait: for the disk, for other nodes, or for a shard's leader.
//!
//! Jobs that wait for others than this node's disk have half of the threads at most. While a shard has no leader they wait for
//! seconds, and the rest needs none of that: reads from disk, entries for followers, passwords.
//!
//! Jobs that walk the whole store have less than a quarter, and those that make pages of it another quarter: a walk of many keys takes
//! minutes, and one whose page has to be looked for does, too. Even all of these leave a thread to the rest.

use crate::os::spawn_critical;
use node::command::Walk;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// A job; it reports back by itself.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The class of jobs that may wait for other nodes, or for a leader.
const PATIENT: usize = 1;
/// The class of jobs that walk through all keys of the store.
const WALK: usize = 2;
/// The class of jobs that make a page of them.
const PAGE: usize = 3;

/// A job that waits for a thread.
struct QueuedJob {
    /// Its number: in the order in which they came.
    number: u64,
    job: Job,
}

/// Jobs that have so many of the threads at most. Invariant: `running ≤ running_max`.
struct Class {
    jobs: VecDeque<QueuedJob>,
    running: usize,
    running_max: usize,
}

/// Invariant: `wakes ≤ idle`. `wakes` counts the idle threads that were woken and have not noticed yet.
struct Queue {
    classes: Vec<Class>,
    /// The number of the next job.
    next: u64,
    idle: usize,
    wakes: usize,
    stopped: bool,
}

/// A job that a thread runs now.
struct Taken {
    job: Job,
    class: usize,
}

impl Queue {
    fn new(running_max: &[usize]) -> Self {
        let class = |running_max: &usize| Class { jobs: VecDeque::new(), running: 0, running_max: *running_max };
        Self { classes: running_max.iter().map(class).collect(), next: 0, idle: 0, wakes: 0, stopped: false }
    }

    fn push(&mut self, class: usize, job: Job) {
        let job = QueuedJob { number: self.next, job };
        self.next += 1;
        self.classes[class].jobs.push_back(job);
    }

    /// Whether another job of that class may run.
    fn may_run(&self, class: usize) -> bool {
        self.classes[class].running < self.classes[class].running_max
    }

    /// The class of the next job that may run now: of the first that came.
    fn next_class(&self) -> Option<usize> {
        let first = |class: &usize| self.classes[*class].jobs.front().map_or(u64::MAX, |job| job.number);
        let may_run = |class: &usize| self.may_run(*class) && !self.classes[*class].jobs.is_empty();
        (0..self.classes.len()).filter(may_run).min_by_key(first)
    }

    fn take(&mut self) -> Option<Taken> {
        let class = self.next_class()?;
        let QueuedJob { job, .. } = self.classes[class].jobs.pop_front()?;
        self.classes[class].running += 1;
        Some(Taken { job, class })
    }

    /// How many jobs wait for a thread.
    fn waiting(&self) -> usize {
        self.classes.iter().map(|class| class.jobs.len()).sum()
    }
}

/// How many of so many threads the jobs of each class may have: plain ones all of them.
fn shares(threads: usize) -> [usize; 4] {
    let mut shares = [threads; 4];
    shares[PATIENT] = (threads / 2).max(1);
    shares[PAGE] = (threads / 4).max(1);
    shares[WALK] = (threads / 4).saturating_sub(1).max(1);
    shares
}

struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
    /// How many jobs wait for a thread: read without the lock.
    waiting: Arc<AtomicUsize>,
}

/// A pool of threads. The requests that connections may have under way bound the number of its jobs.
#[derive(Clone)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
    /// How many threads it has been given.
    size: usize,
}

impl Pool {
    /// A pool for plain jobs, for those that may wait for other nodes, and for walks of the store.
    pub(crate) fn start(name: &str, threads: usize) -> std::io::Result<Self> {
        Self::with_classes(name, &shares(threads))
    }

    /// A pool whose classes of jobs have so many threads at most; the first class may have all.
    pub(crate) fn with_classes(name: &str, running_max: &[usize]) -> std::io::Result<Self> {
        let threads = running_max.first().copied().unwrap_or(0);
        let queue = Mutex::new(Queue::new(running_max));
        let shared = Arc::new(Shared { queue, ready: Condvar::new(), waiting: Arc::default() });
        let pool = Self { shared, threads: Arc::default(), size: threads };
        let start = |i| {
            let pool = pool.clone();
            spawn_critical(&format!("{name}-{i}"), move || pool.serve())
        };
        let threads = (0..threads).map(start).collect::<std::io::Result<Vec<_>>>()?;
        *pool.threads.lock() = threads;
        Ok(pool)
    }

    /// How many threads it has.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// How many jobs wait for a thread, at any time.
    pub(crate) fn waiting(&self) -> Arc<AtomicUsize> {
        self.shared.waiting.clone()
    }

    /// Queues a job.
    pub(crate) fn run(&self, job: Job) {
        self.run_all([job]);
    }

    /// Queues a job that may wait for other nodes, or for a shard's leader.
    pub(crate) fn run_patient(&self, job: Job) {
        self.run_in_class(PATIENT, job);
    }

    /// Queues a job that walks so through the keys of the store.
    pub(crate) fn run_walk(&self, walk: Walk, job: Job) {
        let class = match walk {
            Walk::Page => PAGE,
            Walk::Whole => WALK,
        };
        self.run_in_class(class, job);
    }

    /// Queues a job of that class.
    pub(crate) fn run_in_class(&self, class: usize, job: Job) {
        let mut queue = self.lock();
        queue.push(class, job);
        let added = usize::from(queue.may_run(class));
        self.wake(queue, added);
    }

    /// Queues several jobs at once.
    pub(crate) fn run_all(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut queue = self.lock();
        let before = queue.waiting();
        jobs.into_iter().for_each(|job| queue.push(0, job));
        let added = queue.waiting() - before;
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
        self.shared.waiting.store(queue.waiting(), Ordering::Relaxed);
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
            if let Some(Taken { job, class }) = queue.take() {
                // What is left is for another thread, if one sleeps.
                let more = usize::from(queue.next_class().is_some());
                self.wake(queue, more);
                job();
                queue = self.lock();
                queue.classes[class].running -= 1;
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
    fn jobs_that_wait_for_other_nodes_leave_half_of_the_threads_to_the_rest() {
        let pool = Pool::start("test", 4).unwrap();
        let (sender, receiver) = channel();
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        for _ in 0..20 {
            let (gate, sender) = (gate.clone(), sender.clone());
            pool.run_patient(Box::new(move || {
                let mut is_open = gate.0.lock();
                while !*is_open {
                    gate.1.wait(&mut is_open);
                }
                sender.send("waited").unwrap();
            }));
        }
        for _ in 0..20 {
            let sender = sender.clone();
            pool.run(Box::new(move || sender.send("ran").unwrap()));
        }
        assert!((0..20).all(|_| receiver.recv().unwrap() == "ran"));
        assert!(pool.lock().classes[PATIENT].running <= 2);
        *gate.0.lock() = true;
        gate.1.notify_all();
        assert!((0..20).all(|_| receiver.recv().unwrap() == "waited"));
        pool.stop();
    }

    #[test]
    fn the_first_that_came_runs_first_of_those_that_may() {
        let mut queue = Queue::new(&[2, 1]);
        [PATIENT, 0, PATIENT, 0].into_iter().for_each(|class| queue.push(class, Box::new(|| ())));
        let first = [queue.take(), queue.take()].map(|taken| taken.map(|taken| taken.class));
        assert_eq!(first, [Some(PATIENT), Some(0)], "one of two threads may wait");
        queue.classes[0].running = 0;
        assert_eq!((queue.take().map(|taken| taken.class), queue.waiting()), (Some(0), 1));
        assert!(queue.take().is_none());
        queue.classes[PATIENT].running = 0;
        assert_eq!((queue.take().map(|taken| taken.class), queue.waiting()), (Some(PATIENT), 0));
    }

    #[test]
    fn walks_of_the_store_leave_threads_to_the_rest_even_beside_jobs_that_wait() {
        let mut queue = Queue::new(&shares(16));
        for class in [WALK, PAGE, PATIENT, 0] {
            (0..20).for_each(|_| queue.push(class, Box::new(|| ())));
        }
        // The rest comes last, and need not wait.
        let classes: Vec<usize> = (0..16).map_while(|_| queue.take()).map(|taken| taken.class).collect();
        assert_eq!(classes, [[WALK; 3].as_slice(), &[PAGE; 4], &[PATIENT; 8], &[0]].concat());
        queue.classes[WALK].running -= 1;
        assert_eq!(queue.take().map(|taken| taken.class), Some(WALK), "the next walk begins when one ends");
        for threads in 8..=64 {
            let shares = shares(threads);
            assert!(shares[1..].iter().sum::<usize>() < threads && shares[WALK] > 0, "{threads}");
        }
    }

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
