//! The invariants of a run's data. A report that breaks one is a bug of the driver, and is not written.

use std::fmt;

use super::{CpuUse, LatencySummary, OpSeries, OpStats, Pacing, Phase, RunOutcome, RunReport, SCHEMA};

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

/// Checks every invariant: the schema is ours, names are present and unique, figures are finite and not negative,
/// percentiles ascend, counts agree, series are in order of time.
///
/// # Errors
/// The first invariant that does not hold.
pub fn validate(report: &RunReport) -> Result<(), Invalid> {
    check(report.schema == SCHEMA, "run", || format!("schema {} is not {SCHEMA}", report.schema))?;
    check(!report.identity.id.is_empty(), "identity", || "no id".to_owned())?;
    check(!report.identity.date.is_empty(), "identity", || "no date".to_owned())?;
    if let Pacing::Open { offered_per_s } = report.configuration.pacing {
        check(offered_per_s.is_finite() && offered_per_s > 0.0, "configuration", || {
            format!("an open loop that offers {offered_per_s} a second")
        })?;
    }
    check(!report.phases.is_empty() || report.outcome != RunOutcome::Completed, "run", || "no phase".to_owned())?;
    for (index, phase) in report.phases.iter().enumerate() {
        let earlier = &report.phases[..index];
        check(earlier.iter().all(|other| other.name != phase.name), "run", || {
            format!("two phases are called {}", phase.name)
        })?;
        self::phase(phase)?;
    }
    Ok(())
}

fn phase(phase: &Phase) -> Result<(), Invalid> {
    let place = format!("phase {}", phase.name);
    check(!phase.name.is_empty(), &place, || "no name".to_owned())?;
    amount(phase.warm_up_s, &place, "warm_up_s")?;
    amount(phase.duration_s, &place, "duration_s")?;
    amount(phase.throughput_per_s, &place, "throughput_per_s")?;
    amount(phase.offered_per_s.unwrap_or(0.0), &place, "offered_per_s")?;
    let not_started = phase.not_started;
    check(not_started == 0 || phase.offered_per_s.is_some(), &place, || {
        format!("{not_started} operations were due in a closed loop")
    })?;
    cpu_use(&phase.cpu, &place)?;
    for gap in [phase.read_gap_s_max, phase.write_gap_s_max].into_iter().flatten() {
        amount(gap, &place, "longest gap")?;
    }
    for op in &phase.ops {
        op_stats(op, &place)?;
    }
    // CLEANUP is the client's own work, not the workload's.
    let whole = |op: &OpStats| op.count().saturating_sub(op.parts);
    let counted: u64 = phase.ops.iter().filter(|op| op.op != "CLEANUP").map(whole).sum();
    check(counted == phase.operations, &place, || {
        format!("{} operations, but their kinds sum to {counted}", phase.operations)
    })?;
    let per_s = |operations: u64| operations as f64 / phase.duration_s.max(f64::MIN_POSITIVE);
    // Releases before counted what had failed too.
    let (achieved, most) = (per_s(phase.succeeded()), per_s(phase.operations));
    let allowed = achieved * 0.99 - 1.0..=most * 1.01 + 1.0;
    let agrees = phase.duration_s == 0.0 || allowed.contains(&phase.throughput_per_s);
    check(agrees, &place, || format!("throughput {} of {achieved} operations a second", phase.throughput_per_s))?;
    for series in &phase.series {
        op_series(series, &place)?;
    }
    for metric in &phase.metrics {
        let place = format!("{place}: {}", metric.name);
        check(metric.points.is_sorted_by(|a, b| a.t_s <= b.t_s), &place, || "not in order of time".to_owned())?;
        let finite = metric.points.iter().all(|point| point.t_s.is_finite() && point.value.is_finite());
        check(finite, &place, || "a point that is not a number".to_owned())?;
    }
    for event in &phase.events {
        amount(event.t_s, &place, &event.label)?;
    }
    Ok(())
}

fn op_stats(op: &OpStats, phase: &str) -> Result<(), Invalid> {
    let place = format!("{phase}: {}", op.op);
    latency(&op.latency.measured, &place)?;
    for other in op.latency.intended.iter().chain(&op.failed_latency) {
        latency(other, &place)?;
    }
    let (recorded, count) = (op.latency.measured.count, op.count());
    check(recorded <= count, &place, || format!("{recorded} latencies of {count} operations"))?;
    check(op.parts <= count, &place, || format!("{} parts of {count} operations", op.parts))?;
    check(op.failed_parts <= op.parts, &place, || "more failed parts than parts".to_owned())?;
    check(op.error_count() <= count, &place, || "more errors than operations".to_owned())?;
    check(op.unknown <= op.error_count(), &place, || "more unknown writes than errors".to_owned())?;
    check(op.verification_failures <= op.verified, &place, || "more wrong answers than checked ones".to_owned())
}

/// Finite, ascending from minimum to maximum, and a spectrum that ascends in both coordinates.
///
/// # Errors
/// The first that does not hold; `place` names it.
pub(super) fn latency(summary: &LatencySummary, place: &str) -> Result<(), Invalid> {
    let ladder = summary.ladder();
    for (name, value) in ladder.into_iter().chain([("mean", summary.mean_us)]) {
        amount(value, place, name)?;
    }
    for pair in ladder.windows(2) {
        let ((low_name, low), (high_name, high)) = (pair[0], pair[1]);
        check(low <= high, place, || format!("{low_name} {low} is above {high_name} {high}"))?;
    }
    let inside = summary.min_us <= summary.mean_us && summary.mean_us <= summary.max_us;
    check(inside, place, || format!("mean {} is outside the extremes", summary.mean_us))?;
    for point in &summary.spectrum {
        amount(point.value_us, place, "spectrum")?;
        check((0.0..=100.0).contains(&point.percentile), place, || format!("percentile {}", point.percentile))?;
    }
    let ascends = |low: &super::SpectrumPoint, high: &super::SpectrumPoint| {
        low.percentile <= high.percentile && low.value_us <= high.value_us
    };
    check(summary.spectrum.is_sorted_by(ascends), place, || "the spectrum does not ascend".to_owned())
}

fn cpu_use(cpu: &CpuUse, place: &str) -> Result<(), Invalid> {
    for time in [cpu.client, cpu.server, cpu.process].iter().flatten() {
        amount(time.user_s, place, "user CPU seconds")?;
        amount(time.system_s, place, "kernel CPU seconds")?;
    }
    if let Some(machine_s) = cpu.machine_s {
        amount(machine_s, place, "the machine's CPU seconds")?;
    }
    if let Some(stolen_s) = cpu.stolen_s {
        amount(stolen_s, place, "CPU seconds that were taken from the machine")?;
    }
    let twice = cpu.process.is_some() && (cpu.client.is_some() || cpu.server.is_some());
    check(!twice, place, || "CPU time is counted for the process and again for a part of it".to_owned())
}

fn op_series(series: &OpSeries, phase: &str) -> Result<(), Invalid> {
    let place = format!("{phase}: series {}", series.op);
    check(series.points.is_sorted_by(|a, b| a.t_s < b.t_s), &place, || "not in order of time".to_owned())?;
    for point in &series.points {
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
