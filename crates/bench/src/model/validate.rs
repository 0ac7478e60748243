//! The invariants of a run's data. A report that breaks one is a bug of the driver, and is not written.

use std::fmt;

use super::{CpuUse, LatencySummary, OpSeries, OpStats, Outcome, Pacing, Phase, RunReport, SCHEMA};

/// The first invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Where, e.g. `phase A: READ`.
    pub place: String,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the run's data is inconsistent: {}: {}", self.place, self.problem)
    }
}

impl std::error::Error for Invalid {}

fn check(holds: bool, place: &str, problem: impl FnOnce() -> String) -> Result<(), Invalid> {
    if holds { Ok(()) } else { Err(Invalid { place: place.to_owned(), problem: problem() }) }
}

/// A figure that can be written and read back, and is not below zero.
fn amount(value: f64, place: &str, name: &str) -> Result<(), Invalid> {
    check(value.is_finite() && value >= 0.0, place, || format!("{name} is {value}"))
}

impl RunReport {
    /// Checks every invariant: the schema is ours, names are present and unique, figures are finite and not negative,
    /// percentiles ascend, counts agree, series are in order of time.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        check(self.schema == SCHEMA, "run", || format!("schema {} is not {SCHEMA}", self.schema))?;
        check(!self.identity.id.is_empty(), "identity", || "no id".to_owned())?;
        check(!self.identity.date.is_empty(), "identity", || "no date".to_owned())?;
        if let Pacing::Open { offered_per_s } = self.configuration.pacing {
            check(offered_per_s.is_finite() && offered_per_s > 0.0, "configuration", || {
                format!("an open loop that offers {offered_per_s} a second")
            })?;
        }
        check(!self.phases.is_empty() || self.outcome != Outcome::Completed, "run", || "no phase".to_owned())?;
        for (index, phase) in self.phases.iter().enumerate() {
            let earlier = &self.phases[..index];
            check(earlier.iter().all(|other| other.name != phase.name), "run", || {
                format!("two phases are called {}", phase.name)
            })?;
            phase.validate()?;
        }
        Ok(())
    }
}

impl Phase {
    fn validate(&self) -> Result<(), Invalid> {
        let place = format!("phase {}", self.name);
        check(!self.name.is_empty(), &place, || "no name".to_owned())?;
        amount(self.warm_up_s, &place, "warm_up_s")?;
        amount(self.duration_s, &place, "duration_s")?;
        amount(self.throughput_per_s, &place, "throughput_per_s")?;
        amount(self.offered_per_s.unwrap_or(0.0), &place, "offered_per_s")?;
        self.cpu.validate(&place)?;
        for gap in [self.read_gap_s_max, self.write_gap_s_max].into_iter().flatten() {
            amount(gap, &place, "longest gap")?;
        }
        for op in &self.ops {
            op.validate(&place)?;
        }
        // CLEANUP is the client's own work, not the workload's.
        let whole = |op: &OpStats| op.count().saturating_sub(op.parts);
        let counted: u64 = self.ops.iter().filter(|op| op.op != "CLEANUP").map(whole).sum();
        check(counted == self.operations, &place, || {
            format!("{} operations, but their kinds sum to {counted}", self.operations)
        })?;
        let achieved = self.operations as f64 / self.duration_s.max(f64::MIN_POSITIVE);
        let agrees = self.duration_s == 0.0 || (self.throughput_per_s - achieved).abs() <= achieved * 0.01 + 1.0;
        check(agrees, &place, || format!("throughput {} of {achieved} operations a second", self.throughput_per_s))?;
        for series in &self.series {
            series.validate(&place)?;
        }
        for metric in &self.metrics {
            let place = format!("{place}: {}", metric.name);
            check(metric.points.is_sorted_by(|a, b| a.t_s <= b.t_s), &place, || "not in order of time".to_owned())?;
            let finite = metric.points.iter().all(|point| point.t_s.is_finite() && point.value.is_finite());
            check(finite, &place, || "a point that is not a number".to_owned())?;
        }
        for event in &self.events {
            amount(event.t_s, &place, &event.label)?;
        }
        Ok(())
    }
}

impl OpStats {
    fn validate(&self, phase: &str) -> Result<(), Invalid> {
        let place = format!("{phase}: {}", self.op);
        self.latency.measured.validate(&place)?;
        for other in self.latency.intended.iter().chain(&self.failed_latency) {
            other.validate(&place)?;
        }
        let (recorded, count) = (self.latency.measured.count, self.count());
        check(recorded <= count, &place, || format!("{recorded} latencies of {count} operations"))?;
        check(self.parts <= count, &place, || format!("{} parts of {count} operations", self.parts))?;
        check(self.error_count() <= count, &place, || "more errors than operations".to_owned())?;
        check(self.unknown <= self.error_count(), &place, || "more unknown writes than errors".to_owned())?;
        check(self.verification_failures <= self.verified, &place, || "more wrong answers than checked ones".to_owned())
    }
}

impl LatencySummary {
    /// Finite, ascending from minimum to maximum, and a spectrum that ascends in both coordinates.
    ///
    /// # Errors
    /// The first that does not hold; `place` names it.
    pub fn validate(&self, place: &str) -> Result<(), Invalid> {
        let ladder = self.ladder();
        for (name, value) in ladder.into_iter().chain([("mean", self.mean_us)]) {
            amount(value, place, name)?;
        }
        for pair in ladder.windows(2) {
            let ((low_name, low), (high_name, high)) = (pair[0], pair[1]);
            check(low <= high, place, || format!("{low_name} {low} is above {high_name} {high}"))?;
        }
        let inside = self.min_us <= self.mean_us && self.mean_us <= self.max_us;
        check(inside, place, || format!("mean {} is outside the extremes", self.mean_us))?;
        for point in &self.spectrum {
            amount(point.value_us, place, "spectrum")?;
            check((0.0..=100.0).contains(&point.percentile), place, || format!("percentile {}", point.percentile))?;
        }
        let ascends = |low: &super::SpectrumPoint, high: &super::SpectrumPoint| {
            low.percentile <= high.percentile && low.value_us <= high.value_us
        };
        check(self.spectrum.is_sorted_by(ascends), place, || "the spectrum does not ascend".to_owned())
    }
}

impl CpuUse {
    fn validate(&self, place: &str) -> Result<(), Invalid> {
        for time in [self.client, self.server, self.process].iter().flatten() {
            amount(time.user_s, place, "user CPU seconds")?;
            amount(time.system_s, place, "kernel CPU seconds")?;
        }
        if let Some(machine_s) = self.machine_s {
            amount(machine_s, place, "the machine's CPU seconds")?;
        }
        if let Some(stolen_s) = self.stolen_s {
            amount(stolen_s, place, "CPU seconds that were taken from the machine")?;
        }
        let twice = self.process.is_some() && (self.client.is_some() || self.server.is_some());
        check(!twice, place, || "CPU time is counted for the process and again for a part of it".to_owned())
    }
}

impl OpSeries {
    fn validate(&self, phase: &str) -> Result<(), Invalid> {
        let place = format!("{phase}: series {}", self.op);
        check(self.points.is_sorted_by(|a, b| a.t_s < b.t_s), &place, || "not in order of time".to_owned())?;
        for point in &self.points {
            for (value, name) in [
                (point.t_s, "t_s"),
                (point.p50_us, "p50"),
                (point.p95_us, "p95"),
                (point.p99_us, "p99"),
                (point.max_us, "max"),
            ] {
                amount(value, &place, name)?;
            }
        }
        Ok(())
    }
}
