//! One job, from its planning to its figures.

use parking_lot::Mutex;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::frame::write_frame;
use super::job::Job;
use super::message::{Done, FromAgent};
use crate::driver::{EventLog, IntervalHistogram, Meeting, PhasePlan, SyncPoint, run_part};
use crate::machine::cores::CoreTime;
use crate::phase::open_target::with_target;
use crate::phase::setup::title;
use crate::program::Program;
use crate::trouble::Trouble;
use crate::workload::{Config, Properties, Task, Workload};

/// How often the coordinator is told how far it is.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// A coordinator that has nothing to say for so long, while all wait for it, is gone.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the conversation passes on to the job.
pub(super) enum Order {
    Begin(Instant),
    Go(SyncPoint),
    Stop,
}

/// Where messages to the coordinator go, from any thread.
#[derive(Clone)]
pub(super) struct Outbox(Arc<Mutex<TcpStream>>);

impl Outbox {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    pub(super) fn send(&self, message: &FromAgent) -> io::Result<()> {
        write_frame(&mut *self.0.lock(), message)
    }
}

/// Waits for the other agents by way of the coordinator.
struct ByCoordinator<'a> {
    out: &'a Outbox,
    orders: &'a Mutex<Receiver<Order>>,
    /// What the machine had done when the measured part began.
    before: Mutex<Option<CoreTime>>,
}

impl ByCoordinator<'_> {
    fn order(&self) -> io::Result<Order> {
        let orders = self.orders.lock();
        orders.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Timeout => io::Error::new(io::ErrorKind::TimedOut, "the coordinator has gone silent"),
            RecvTimeoutError::Disconnected => io::Error::other("the coordinator is gone"),
        })
    }
}

impl Meeting for ByCoordinator<'_> {
    fn meet(&self, place: SyncPoint) -> io::Result<()> {
        self.out.send(&FromAgent::At(place))?;
        match self.order()? {
            Order::Go(to) if to == place => {}
            Order::Stop => return Err(io::Error::new(io::ErrorKind::Interrupted, "the coordinator ended it")),
            _ => return Err(io::Error::other("the coordinator is at another place")),
        }
        if place == SyncPoint::Warmed {
            *self.before.lock() = CoreTime::now();
        }
        Ok(())
    }
}

/// Does the job. What goes wrong before it has begun is told in words.
pub(super) fn work(
    job: &Job,
    out: &Outbox,
    orders: &Mutex<Receiver<Order>>,
    stop: &AtomicBool,
    (version, epoch): (&str, Instant),
) {
    let program = Program {
        version,
        commit: None,
        open_store: &|_, _| Err(io::Error::new(io::ErrorKind::Unsupported, "an agent has no store of its own")),
        stores: &crate::suite_stores::NoStores,
        stop,
        events: EventLog::default(),
    };
    if let Err(trouble) = attempt(job, out, orders, &program, epoch) {
        let why = match trouble {
            Trouble::Usage(why) => why,
            Trouble::Failed(error) => error.to_string(),
        };
        // If the coordinator cannot be told, it is gone.
        let _ = out.send(&FromAgent::Refused(why));
    }
}

fn attempt(
    job: &Job,
    out: &Outbox,
    orders: &Mutex<Receiver<Order>>,
    program: &Program<'_>,
    epoch: Instant,
) -> Result<(), Trouble> {
    let mut properties = Properties::new();
    job.properties.iter().for_each(|(name, value)| properties.set(name, value));
    let config = Config::read(&properties).map_err(|bad| Trouble::Usage(bad.to_string()))?;
    let workload = Workload::plan(config, job.task).map_err(|bad| Trouble::Usage(bad.to_string()))?;
    let workload = Arc::new(workload);
    let plan = plan(job, &workload)?;
    with_target(&job.options, &properties, &workload.config, program, &mut |target| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        out.send(&FromAgent::Ready { threads: plan.threads as u32, cores: cores as u32 })?;
        let meeting = ByCoordinator { out, orders, before: Mutex::default() };
        match meeting.order()? {
            Order::Begin(at) => std::thread::sleep(at.saturating_duration_since(Instant::now())),
            Order::Stop => return Err(Trouble::Failed(io::Error::other("the coordinator ended it"))),
            Order::Go(_) => return Err(Trouble::Failed(io::Error::other("to go on before the beginning"))),
        }
        let mut told = Instant::now();
        let mut lost = None;
        let part = run_part(&plan, target, &workload, program.stop, Some(&meeting), &mut |snapshot| {
            let sent = seconds(out, snapshot.closed).and_then(|()| {
                if told.elapsed() < TELL_EVERY {
                    return Ok(());
                }
                told = Instant::now();
                out.send(&FromAgent::Told { done: snapshot.done, settled: snapshot.settled })
            });
            lost = lost.take().or(sent.err());
        });
        if let Some(error) = lost {
            return Err(Trouble::Failed(error));
        }
        let before = *meeting.before.lock();
        let machine_busy = before.zip(CoreTime::now()).and_then(|(before, now)| now.busy_since(before));
        let sent = part.sent(target);
        seconds(out, sent.closed)?;
        let ns = |at: Instant| at.saturating_duration_since(epoch).as_nanos() as u64;
        let done = Done {
            start_ns: ns(sent.start),
            measured_ns: sent.measured.map(ns),
            end_ns: ns(sent.end),
            machine_busy,
            figures: sent.figures,
        };
        Ok(out.send(&FromAgent::Done(Box::new(done)))?)
    })
}

fn plan(job: &Job, workload: &Workload) -> Result<PhasePlan, Trouble> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = job.threads.unwrap_or(cores).min(job.clients);
    if threads == 0 || job.depth == 0 || job.clients > vocab::limits::CLIENTS_MAX {
        let text = format!("a share of {} clients on {threads} threads cannot be", job.clients);
        return Err(Trouble::Usage(text));
    }
    if job.options.target == "embedded" {
        let text = "an agent has no store of its own: several processes need a target over the network";
        return Err(Trouble::Usage(text.to_owned()));
    }
    let mut measure = job.measure;
    if job.task != Task::Run {
        // The records that are this process's own end it.
        measure.operations = workload.operations();
    }
    Ok(PhasePlan {
        name: job.name.clone(),
        title: title(workload),
        clients: job.clients,
        depth: job.depth,
        threads,
        pace: job.pace,
        warm_up: job.warm_up,
        measure,
        seed: job.seed,
        keeps_log: true,
        events: EventLog::default(),
        only_errors: job.only_errors,
    })
}

fn seconds(out: &Outbox, closed: Vec<IntervalHistogram>) -> io::Result<()> {
    closed.into_iter().try_for_each(|second| {
        out.send(&FromAgent::Second {
            second: second.second,
            op: second.op.to_owned(),
            failures: second.failures,
            histogram: [second.bytes],
        })
    })
}
