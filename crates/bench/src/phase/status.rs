//! Tells of a phase while it runs: progress, or YCSB's status lines.

use std::time::{Duration, Instant, SystemTime};

use hdrhistogram::Histogram;

use crate::date::unix_ms;
use crate::driver::{Limit, PhasePlan, Snapshot};
use crate::model::{LatencySummary, Phase};
use crate::report::{PhaseProgress, Progress, ProgressTotal, ycsb};
use crate::workload::OpKind;

/// Who is told of a phase.
pub(crate) enum StatusReporter {
    /// Progress for people.
    Progress {
        progress: Progress,
        name: String,
        warm_up: Option<ProgressTotal>,
        measure: ProgressTotal,
        shown: Option<(bool, PhaseProgress)>,
        pulse: Pulse,
    },
    /// YCSB's lines for programs.
    Ycsb { every: Duration, next: Duration, total: Option<u64>, since: Since },
}

/// The rate and the 99th percentile over the last moments.
pub(crate) struct Pulse {
    at: Instant,
    done: u64,
    rate_per_s: f64,
    p99_us: f64,
}

/// What has come since the last status line.
#[derive(Default)]
pub(crate) struct Since {
    done: u64,
    at: Duration,
    kinds: Vec<(OpKind, Histogram<u64>)>,
}

/// A rate is taken over this long at least.
const PULSE: Duration = Duration::from_millis(900);

impl StatusReporter {
    /// Progress of the phase that is planned.
    pub(crate) fn progress(progress: Progress, plan: &PhasePlan) -> Self {
        let total = |limit: Limit| match (limit.operations, limit.time) {
            (Some(operations), None) => ProgressTotal::Operations(operations),
            (Some(operations), Some(time)) => ProgressTotal::Either(operations, time),
            (None, time) => ProgressTotal::Time(time.unwrap_or_default()),
        };
        Self::Progress {
            progress,
            name: plan.name.clone(),
            warm_up: plan.warm_up.map(total),
            measure: total(plan.measure),
            shown: None,
            pulse: Pulse { at: Instant::now(), done: 0, rate_per_s: 0.0, p99_us: 0.0 },
        }
    }

    /// YCSB's status lines, so many seconds apart.
    pub(crate) fn ycsb(every_s: u64, total: Option<u64>) -> Self {
        let every = Duration::from_secs(every_s.max(1));
        Self::Ycsb { every, next: every, total, since: Since::default() }
    }

    /// Something new is known.
    pub(crate) fn show(&mut self, snapshot: Snapshot) {
        match self {
            Self::Progress { progress, name, warm_up, measure, shown, pulse } => {
                if shown.as_ref().is_none_or(|(warming_up, _)| *warming_up != snapshot.warming_up) {
                    let (label, total) = match warm_up {
                        Some(total) if snapshot.warming_up => (format!("{name} warm-up"), *total),
                        _ => (name.clone(), *measure),
                    };
                    *shown = Some((snapshot.warming_up, progress.phase(&label, total)));
                    pulse.done = 0;
                }
                pulse.beat(&snapshot);
                if let Some((_, shown)) = shown {
                    shown.update(snapshot.done, pulse.rate_per_s, pulse.p99_us);
                }
            }
            Self::Ycsb { every, next, total, since } => {
                since.add(snapshot.recent);
                if snapshot.elapsed >= *next {
                    *next = snapshot.elapsed + *every;
                    crate::note!("{}", since.line(snapshot.elapsed, snapshot.done, *total));
                }
            }
        }
    }

    /// The phase has ended.
    pub(crate) fn finish(self, phase: &Phase) {
        if let Self::Progress { shown: Some((_, shown)), .. } = self {
            let p99_us = phase.ops.iter().filter(|op| op.op != "CLEANUP").map(|op| op.latency.headline().p99_us);
            shown.finish(phase.operations, phase.throughput_per_s, p99_us.fold(0.0, f64::max));
        }
    }
}

impl Pulse {
    fn beat(&mut self, snapshot: &Snapshot) {
        let elapsed = self.at.elapsed();
        if elapsed >= PULSE {
            self.rate_per_s = snapshot.done.saturating_sub(self.done) as f64 / elapsed.as_secs_f64();
            (self.at, self.done) = (Instant::now(), snapshot.done);
        }
        let p99_ns = snapshot.recent.iter().map(|(_, histogram)| histogram.value_at_quantile(0.99)).max();
        if let Some(p99_ns) = p99_ns {
            self.p99_us = p99_ns as f64 / 1000.0;
        }
    }
}

impl Since {
    fn add(&mut self, recent: Vec<(OpKind, Histogram<u64>)>) {
        for (kind, histogram) in recent {
            match self.kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, sum)) => sum.add(histogram).expect("all latency histograms have the same bounds"),
                None => self.kinds.push((kind, histogram)),
            }
        }
        self.kinds.sort_by_key(|(kind, _)| *kind);
    }

    fn line(&mut self, elapsed: Duration, done: u64, total: Option<u64>) -> String {
        let span = (elapsed - self.at).as_secs_f64();
        let mean_per_s = done as f64 / elapsed.as_secs_f64();
        let left = total.map(|total| total.saturating_sub(done) as f64);
        let status = ycsb::Status {
            now_unix_ms: unix_ms(SystemTime::now()),
            elapsed_s: elapsed.as_secs(),
            operations: done,
            current_per_s: done.saturating_sub(self.done) as f64 / span,
            remaining_s: left.filter(|_| mean_per_s > 0.0).map(|left| (left / mean_per_s).ceil() as u64),
            interval: self
                .kinds
                .drain(..)
                .map(|(kind, histogram)| (kind.name().to_owned(), LatencySummary::from_histogram(&histogram, 0.001)))
                .collect(),
        };
        (self.done, self.at) = (done, elapsed);
        status.line()
    }
}
