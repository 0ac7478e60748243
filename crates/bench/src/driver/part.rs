//! A phase in several processes: what each has measured, how it travels, and how parts become one again. Histograms are
//! added up, never percentiles, so the figures are those of one process that had done it all.

use std::io;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::figures::{Measured, Reading, figures};
use super::op_parts::OpParts;
use super::plan::PhasePlan;
use super::recorder::Recorder;
use super::sampler::Sampler;
use super::timeline::{HistogramLog, IntervalHistogram, Timeline, deserialized};
use crate::model::{CpuTime, MetricSeries, OpStats, Phase};
use crate::target::Target;
use crate::workload::OpKind;

/// Where the processes of a phase wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncPoint {
    /// All connections are open.
    Opened,
    /// The warm-up is over.
    Warmed,
}

/// Waits for other processes.
pub trait Meeting: Sync {
    /// All threads of this process are at `place`. Returns when those of all processes are.
    ///
    /// # Errors
    /// The others are gone, or it is to end.
    fn meet(&self, place: SyncPoint) -> io::Result<()>;
}

/// What one process has of a phase.
pub struct PhaseShare {
    pub(super) recorder: Recorder,
    pub(super) timeline: Timeline,
    /// When it began, its warm-up included.
    pub(super) start: Instant,
    /// Taken when its measured part began, if it came so far.
    pub(super) before: Option<Reading>,
    /// When its last operation ended.
    pub(super) end: Instant,
    pub(super) error: Option<io::Error>,
}

/// A part's figures, as they travel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShareFigures {
    /// Each kind of operation that was made.
    pub ops: Vec<OpParts>,
    /// A bit for each hundredth of a second of the phase in which a read succeeded, and a write.
    #[serde(with = "crate::as_base64")]
    pub successes: [Vec<u8>; 2],
    /// Operations that were due in the measured part and were never started.
    pub not_started: u64,
    /// CPU time of the measured part.
    pub cpu: Option<CpuTime>,
    /// Why it could not go on.
    pub error: Option<String>,
}

/// A part on its way to the others: when it began, was measured from and ended, its figures, and the seconds that had
/// not been told yet.
pub struct Sent {
    /// When the phase began here.
    pub start: Instant,
    /// When its measured part began, if it came so far.
    pub measured: Option<Instant>,
    /// When its last operation ended.
    pub end: Instant,
    /// Its figures.
    pub figures: ShareFigures,
    /// The rest of its seconds.
    pub closed: Vec<IntervalHistogram>,
}

impl ShareFigures {
    /// The figures of each operation; none of what cannot be read.
    #[must_use]
    pub fn stats(&self) -> Vec<OpStats> {
        Recorder::of_parts(&self.ops).map(|recorder| recorder.stats(&[])).unwrap_or_default()
    }
}

impl PhaseShare {
    /// As it is sent. `target` tells what was used.
    #[must_use]
    pub fn sent(mut self, target: &dyn Target) -> Sent {
        let cpu = self.before.as_ref().and_then(|before| Reading::of_client(target).own_since(before));
        let (_, closed) = self.timeline.finish(self.end.saturating_duration_since(self.start));
        let successes = self.recorder.successes();
        let figures = ShareFigures {
            ops: self.recorder.parts(),
            successes,
            not_started: self.recorder.not_started_count(),
            cpu,
            error: self.error.map(|error| error.to_string()),
        };
        Sent { start: self.start, measured: self.before.map(|before| before.at), end: self.end, figures, closed }
    }
}

/// The parts of a phase that have come together.
pub struct Gathered {
    recorder: Recorder,
    timeline: Timeline,
    cpu: Vec<Option<CpuTime>>,
}

/// When all parts together began, were measured from, and ended, on this process's clock.
pub struct Moments {
    /// When the phase began.
    pub start: Instant,
    /// Taken about when the measured part began.
    pub before: Reading,
    /// Taken after all had ended.
    pub after: Reading,
    /// When the last operation ended.
    pub end: Instant,
}

impl Default for Gathered {
    fn default() -> Self {
        Self { recorder: Recorder::default(), timeline: Timeline::new(true), cpu: Vec::new() }
    }
}

impl Gathered {
    /// Adds what happened in one second in one process.
    ///
    /// # Errors
    /// It is not what a part sends.
    pub fn second(&mut self, second: u64, op: &str, failures: u64, bytes: &[u8]) -> io::Result<()> {
        /// A phase of more seconds than this is no phase.
        const SECONDS_MAX: u64 = 366 * 24 * 3600;
        let kind = OpKind::ALL.into_iter().find(|kind| kind.name() == op);
        let kind = kind.filter(|_| second < SECONDS_MAX).ok_or_else(|| bad(&format!("second {second} of {op}")))?;
        self.timeline.failed(second, kind, failures);
        if !bytes.is_empty() {
            self.timeline.merge(second, kind, &deserialized(bytes)?);
        }
        Ok(())
    }

    /// Every process has told all of what happened before `second`.
    pub fn settle(&mut self, second: u64) {
        self.timeline.settle_before(second);
    }

    /// What has come since the last call, by kind.
    pub fn take_recent(&mut self) -> Vec<(OpKind, hdrhistogram::Histogram<u64>)> {
        self.timeline.take_recent()
    }

    /// Adds a part's figures.
    ///
    /// # Errors
    /// They are not what a part sends.
    pub fn add(&mut self, figures: &ShareFigures) -> io::Result<()> {
        let mut theirs = Recorder::of_parts(&figures.ops)?;
        theirs.set_successes(&figures.successes);
        theirs.not_started(figures.not_started);
        self.recorder.merge(theirs);
        self.cpu.push(figures.cpu);
        Ok(())
    }

    /// The phase that the parts were of, and each second's histograms. `percentiles` are those that are asked for.
    #[must_use]
    pub fn finish(
        mut self,
        plan: &PhasePlan,
        moments: Moments,
        metrics: Vec<MetricSeries>,
        percentiles: &[f64],
    ) -> (Phase, HistogramLog) {
        let Moments { start, before, after, end } = moments;
        let add = |a: CpuTime, b: CpuTime| CpuTime { user_s: a.user_s + b.user_s, system_s: a.system_s + b.system_s };
        // A sum that lacks a process would flatter the client.
        let all: Option<Vec<CpuTime>> = self.cpu.iter().copied().collect();
        let client_cpu = all.and_then(|all| all.into_iter().reduce(add));
        let percentiles = percentiles.to_vec();
        let recorder = self.recorder;
        let measured =
            Measured { recorder, start, before, after, end, client_cpu, in_process: false, metrics, percentiles };
        figures(plan, measured, &mut self.timeline)
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a part of a phase: {what}"))
}

/// Watches the store's nodes until `ended` is closed, on the axis of a phase that begins at `start`.
#[must_use]
pub fn sampled(target: &dyn Target, start: Instant, ended: &std::sync::mpsc::Receiver<()>) -> Vec<MetricSeries> {
    Sampler::new(start).watch(target, ended)
}
