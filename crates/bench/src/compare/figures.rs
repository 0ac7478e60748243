//! The figures of one phase of one side, each with its noise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hdrhistogram::Histogram;

use super::run_folder::{RunFolder, SecondsByOp, measured_seconds};
use super::side::Side;
use crate::model::Phase;
use crate::statistics::{Estimate, Noisy, POINTS_MIN, pool, steady_mean};

/// Histogram logs count nanoseconds.
const US_PER_VALUE: f64 = 0.001;
/// A quantile with fewer operations above it is not told.
const ABOVE_MIN: u64 = 20;
/// The quantiles that are compared.
pub(super) const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];
/// The name of all operations together.
pub(super) const ALL: &str = "all";

/// What a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Successful operations a second.
    Throughput,
    /// A latency in microseconds.
    Latency,
    /// The share of operations that failed.
    Failures,
    /// CPU seconds for a million operations.
    Cpu,
    /// Bytes.
    Bytes,
    /// Seconds.
    Gap,
}

/// One figure of one side.
pub(super) struct Figure {
    pub(super) op: String,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// The figure, as far as it is known.
    pub(super) value: Option<f64>,
    /// With its noise; else why that cannot be told.
    pub(super) noisy: Result<Noisy, &'static str>,
}

/// All figures of a phase.
pub(super) fn figures(side: &Side, phase: &str) -> Result<Vec<Figure>, String> {
    let phases: Vec<&Phase> = side.runs.iter().filter_map(|run| run.phase(phase)).collect();
    let mut list = vec![throughput(&phases)];
    let logs: Vec<Option<SecondsByOp>> =
        side.runs.iter().map(|run: &RunFolder| run.seconds(phase)).collect::<Result<_, _>>()?;
    let ops: BTreeSet<&str> = phases.iter().flat_map(|phase| &phase.series).map(|series| series.op.as_str()).collect();
    for op in ops {
        for (name, quantile) in QUANTILES {
            let told = |phase: &&Phase| {
                let stats = phase.ops.iter().find(|stats| stats.op == op)?;
                Some(stats.latency.headline().value_at(quantile * 100.0))
            };
            let known: Option<Vec<f64>> = phases.iter().map(told).collect();
            let mean = known.map(|values| values.iter().sum::<f64>() / values.len() as f64);
            let noisy = latency(&phases, &logs, op, quantile);
            let value = noisy.as_ref().ok().map(|noisy| noisy.value).or(mean);
            list.push(Figure { op: op.to_owned(), name, kind: Kind::Latency, value, noisy });
        }
        list.push(failures(&phases, op));
    }
    list.extend(costs(&phases));
    Ok(list)
}

const SHORT: &str = "measured for too few seconds";

/// The points of all operations' series, summed in each second of the measured part.
fn per_second(phase: &Phase, of: impl Fn(&crate::model::SeriesPoint) -> u64, op: Option<&str>) -> Vec<f64> {
    let (first, end) = measured_seconds(phase);
    let mut sums: BTreeMap<u64, f64> = (first..end).map(|second| (second, 0.0)).collect();
    let series = phase.series.iter().filter(|series| op.is_none_or(|op| series.op == op));
    for point in series.flat_map(|series| &series.points) {
        if let Some(sum) = sums.get_mut(&(point.t_s as u64)) {
            *sum += of(point) as f64;
        }
    }
    sums.into_values().collect()
}

fn throughput(phases: &[&Phase]) -> Figure {
    let runs: Option<Vec<Estimate>> =
        phases.iter().map(|phase| steady_mean(&per_second(phase, |point| point.ops, None))).collect();
    let pooled = runs.and_then(|runs| pool(&runs));
    let mean = phases.iter().map(|phase| phase.throughput_per_s).sum::<f64>() / phases.len() as f64;
    let noisy = pooled.filter(|of| of.value > 0.0).map(Noisy::mean).ok_or(SHORT);
    let value = Some(noisy.as_ref().map_or(mean, |noisy| noisy.value));
    Figure { op: ALL.to_owned(), name: "ops/s", kind: Kind::Throughput, value, noisy }
}

/// The share of operations that failed.
fn failures(phases: &[&Phase], op: &str) -> Figure {
    let one = |phase: &&Phase| {
        let failed = per_second(phase, |point| point.errors, Some(op));
        let all = per_second(phase, |point| point.ops + point.errors, Some(op));
        share(&failed, &all)
    };
    let runs: Option<Vec<Estimate>> = phases.iter().map(one).collect();
    let noisy = runs.and_then(|runs| pool(&runs)).map(Noisy::mean).ok_or(SHORT);
    let value = noisy.as_ref().ok().map(|noisy| noisy.value);
    Figure { op: op.to_owned(), name: "failed", kind: Kind::Failures, value, noisy }
}

/// The share of `part` in `all`, second by second; none if there is too little.
fn share(part: &[f64], all: &[f64]) -> Option<Estimate> {
    let (sum, count): (f64, f64) = (part.iter().sum(), all.iter().sum());
    if count <= 0.0 || all.len() < POINTS_MIN {
        return None;
    }
    let value = sum / count;
    let rest: Vec<f64> = part.iter().zip(all).map(|(part, all)| part - value * all).collect();
    let of_rest = steady_mean(&rest)?;
    let error = of_rest.error * all.len() as f64 / count;
    // Chance alone makes as much.
    let least = (value * (1.0 - value) / count).sqrt();
    Some(Estimate { value, error: error.max(least), freedom: of_rest.freedom })
}

fn latency(phases: &[&Phase], logs: &[Option<SecondsByOp>], op: &str, quantile: f64) -> Result<Noisy, &'static str> {
    let mut whole = Histogram::<u64>::new(3).map_err(|_| "no room for a histogram")?;
    let mut runs = Vec::new();
    for (phase, log) in phases.iter().zip(logs) {
        let log = log.as_ref().ok_or("the run's folder has no histogram log")?;
        let seconds = log.get(op).ok_or("the histogram log does not have it")?;
        let (first, end) = measured_seconds(phase);
        if ((end - first) as usize) < POINTS_MIN {
            return Err(SHORT);
        }
        // A second in which nothing ended counts: as one with nothing in it.
        let run: Vec<&[(u64, u64)]> =
            (first..end).map(|second| seconds.get(&second).map_or(&[][..], Vec::as_slice)).collect();
        for &(value, count) in run.iter().copied().flatten() {
            whole.record_n(value, count).map_err(|_| "a latency that no histogram holds")?;
        }
        runs.push(run);
    }
    let value = whole.value_at_quantile(quantile);
    let above = |seen: &[(u64, u64)]| seen.iter().filter(|(at, _)| *at > value).map(|(_, count)| count).sum::<u64>();
    let total: u64 = runs.iter().flatten().map(|seen| above(seen)).sum();
    if total < ABOVE_MIN {
        return Err("too few operations above it");
    }
    let one = |run: &Vec<&[(u64, u64)]>| {
        let part: Vec<f64> = run.iter().map(|seen| above(seen) as f64).collect();
        let all: Vec<f64> = run.iter().map(|seen| seen.iter().map(|(_, count)| *count as f64).sum()).collect();
        share(&part, &all)
    };
    let shares: Option<Vec<Estimate>> = runs.iter().map(one).collect();
    let pooled = shares.and_then(|shares| pool(&shares)).ok_or(SHORT)?;
    Ok(Noisy::quantile(Arc::new(whole), pooled, US_PER_VALUE))
}

/// What a run has one figure of: its noise shows only between runs.
fn costs(phases: &[&Phase]) -> Vec<Figure> {
    let figure = |name: &'static str, kind: Kind, of: &dyn Fn(&Phase) -> Option<f64>| {
        let values: Option<Vec<f64>> = phases.iter().map(|phase| of(phase)).collect();
        let values = values?;
        let runs: Vec<Estimate> =
            values.iter().map(|&value| Estimate { value, error: 0.0, freedom: f64::INFINITY }).collect();
        let noisy = if values.len() > 1 {
            pool(&runs).map(Noisy::mean).ok_or("no run")
        } else {
            Err("one run has one such figure: several runs a side would tell")
        };
        let value = Some(values.iter().sum::<f64>() / values.len() as f64);
        Some(Figure { op: ALL.to_owned(), name, kind, value, noisy })
    };
    let bytes = |value: Option<u64>| value.map(|value| value as f64);
    [
        figure("CPU s/M", Kind::Cpu, &|phase| phase.cpu_s_per_million()),
        figure("on disk", Kind::Bytes, &|phase| bytes(phase.disk_bytes)),
        figure("peak mem", Kind::Bytes, &|phase| bytes(phase.peak_rss_bytes)),
        figure("read gap", Kind::Gap, &|phase| phase.read_gap_s_max),
        figure("write gap", Kind::Gap, &|phase| phase.write_gap_s_max),
    ]
    .into_iter()
    .flatten()
    .collect()
}
