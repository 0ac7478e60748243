//! Medians of several runs, and how sure they are.

use crate::model::StepRecord;

use super::figures::{Figure, per_busy_core_s, per_core_s, store_cpu_s};
use crate::figure;

/// A figure of several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scatter {
    figure: Figure,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The ends of its confidence interval.
    pub low: f64,
    /// See `low`.
    pub high: f64,
}

impl Scatter {
    /// The median over the runs that have the figure; none if no median is taken of this figure, or no run has it.
    #[must_use]
    pub fn of(figure: Figure, runs: &[&StepRecord]) -> Option<Self> {
        let values: Option<Vec<f64>> = runs.iter().map(|step| value(figure, step)).collect();
        let mut values = values.filter(|values| !values.is_empty())?;
        values.sort_by(f64::total_cmp);
        let (low, high) = interval(values.len());
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Self { figure, median, low: values[low], high: values[high] })
    }

    /// `12,345 (11,900 to 12,800)`.
    #[must_use]
    pub fn text(&self) -> String {
        let print = |value: f64| match self.figure {
            Figure::Rate | Figure::PerBusyCore | Figure::PerCore | Figure::Cpu => figure::rate(value),
            Figure::Errors => figure::count(value as u64),
            Figure::OnDisk => figure::bytes(value as u64),
            _ => figure::latency(value),
        };
        if self.low == self.high {
            return print(self.median);
        }
        format!("{} ({} to {})", print(self.median), print(self.low), print(self.high))
    }
}

fn value(figure: Figure, step: &StepRecord) -> Option<f64> {
    let phase = step.phase()?;
    let slowest = |of: fn(&crate::model::LatencySummary) -> f64| {
        let known = phase.ops.iter().filter(|op| op.op != "CLEANUP" && op.latency.measured.count > 0);
        known.map(|op| of(op.latency.headline())).reduce(f64::max)
    };
    match figure {
        Figure::Rate => Some(phase.throughput_per_s),
        Figure::PerBusyCore => per_busy_core_s(phase),
        Figure::PerCore => per_core_s(step.report.as_ref()?, phase),
        Figure::Cpu => store_cpu_s(phase).map(|cpu| cpu / phase.duration_s),
        Figure::P95 => slowest(|latency| latency.p95_us),
        Figure::P99 => slowest(|latency| latency.p99_us),
        Figure::Max => slowest(|latency| latency.max_us),
        Figure::OnDisk => phase.disk_bytes.map(|bytes| bytes as f64),
        Figure::Errors => Some((phase.error_count() + phase.not_found() + phase.verification_failures()) as f64),
        _ => None,
    }
}

/// The widest-known rule that takes nothing for granted: between the k-th lowest and the k-th highest of n values lies
/// the true median with a chance that follows from coin tosses; k is the largest with 90 % at least, or else 1.
fn interval(count: usize) -> (usize, usize) {
    let mut best = 0;
    for k in 0..count / 2 {
        if confidence(count, k) >= 0.9 {
            best = k;
        }
    }
    (best, count - 1 - best)
}

/// The chance that the median lies between the values at `k` and `count - 1 - k`.
#[must_use]
pub fn confidence(count: usize, k: usize) -> f64 {
    let mut chance = 0.5f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut outside = 0.0;
    for tosses in 0..=k {
        outside += chance;
        chance *= (count - tosses) as f64 / (tosses + 1) as f64;
    }
    1.0 - 2.0 * outside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_runs_lie_around_the_median_with_94_per_cent() {
        assert_eq!(interval(5), (0, 4));
        assert!((confidence(5, 0) - 0.9375).abs() < 1e-9);
        assert_eq!(interval(9), (1, 7));
        assert!((confidence(9, 1) - 0.9609).abs() < 1e-3);
        assert_eq!(interval(1), (0, 0));
    }
}
