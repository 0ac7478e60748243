//! What steps show together: one time axis for all steps of a part, and latency against offered load.

use std::collections::BTreeMap;

use crate::model::StepRecord;
use crate::model::{Event, MetricPoint, MetricSeries, OpSeries, Phase, SeriesPoint};
use crate::report::SuiteReport;

/// All steps of each part that wants a timeline, as if they were one phase.
#[must_use]
pub fn timelines(report: &SuiteReport) -> Vec<(String, Phase)> {
    let mut parts: BTreeMap<usize, Vec<&StepRecord>> = BTreeMap::new();
    for step in report.steps.iter().filter(|step| step.timeline) {
        parts.entry(step.part.0).or_default().push(step);
    }
    parts.into_values().filter_map(|steps| Some((steps.first()?.part.1.clone(), joined(&steps)))).collect()
}

fn joined(steps: &[&StepRecord]) -> Phase {
    let start = steps.iter().map(|step| step.began_ms).min().unwrap_or(0);
    let mut phase = Phase { name: steps[0].part.1.clone(), ..Phase::default() };
    let mut ops: BTreeMap<&str, Vec<SeriesPoint>> = BTreeMap::new();
    let mut metrics: BTreeMap<(usize, Option<&str>), MetricSeries> = BTreeMap::new();
    let mut names: Vec<&str> = Vec::new();
    let mut succeeded = 0;
    for step in steps {
        let offset = (step.began_ms - start) as f64 / 1000.0;
        // What is set before anything is measured is told with the steps.
        if step.does != "act" || !ops.is_empty() {
            phase.events.push(Event { t_s: offset, label: step.step.1.clone() });
        }
        let later = |event: &Event| Event { t_s: event.t_s + offset, label: event.label.clone() };
        let Some(part) = step.phase() else { continue };
        phase.events.extend(part.events.iter().map(later));
        phase.operations += part.operations;
        succeeded += part.succeeded();
        phase.duration_s += part.duration_s;
        for series in &part.series {
            let points = series.points.iter().map(|point| SeriesPoint { t_s: point.t_s + offset, ..*point });
            ops.entry(&series.op).or_default().extend(points);
        }
        for metric in &part.metrics {
            let place = names.iter().position(|name| *name == metric.name).unwrap_or_else(|| {
                names.push(&metric.name);
                names.len() - 1
            });
            let points = metric.points.iter().map(|point| MetricPoint { t_s: point.t_s + offset, ..*point });
            let series = metrics
                .entry((place, metric.node.as_deref()))
                .or_insert_with(|| MetricSeries { points: Vec::new(), ..metric.clone() });
            series.points.extend(points);
        }
    }
    phase.throughput_per_s = succeeded as f64 / phase.duration_s.max(1.0);
    phase.events.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
    phase.series = ops.into_iter().map(|(op, points)| OpSeries { op: op.to_owned(), points }).collect();
    rests(&mut phase.series);
    phase.metrics = metrics.into_values().collect();
    phase
}

/// Puts the points in order of time, and seconds in which nothing was asked for between phases that lie apart: a line from
/// one to the other would tell of operations that were not made.
fn rests(series: &mut [OpSeries]) {
    /// Seconds that lie closer are neighbours.
    const APART_S: f64 = 2.5;
    series.iter_mut().for_each(|of| of.points.sort_by(|a, b| a.t_s.total_cmp(&b.t_s)));
    let mut times: Vec<f64> = series.iter().flat_map(|of| of.points.iter().map(|point| point.t_s)).collect();
    times.sort_by(f64::total_cmp);
    let apart = times.windows(2).filter(|pair| pair[1] - pair[0] > APART_S);
    let nothing = |t_s: f64| SeriesPoint { t_s, ..SeriesPoint::default() };
    let rests: Vec<SeriesPoint> = apart.flat_map(|pair| [nothing(pair[0] + 1.0), nothing(pair[1] - 1.0)]).collect();
    if let Some(first) = series.first_mut() {
        first.points.extend(rests);
        first.points.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
    }
}

/// One percentile at growing loads.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveLine {
    /// Its name.
    pub percentile: &'static str,
    /// Operations a second and microseconds.
    pub points: Vec<(f64, f64)>,
}

/// Latency against offered load, for steps of one part.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The part.
    pub name: String,
    /// One line a percentile.
    pub lines: Vec<CurveLine>,
    /// What was offered and what came of it.
    pub loads: Vec<(f64, f64)>,
}

/// The curves of all parts that offered two loads at least: at one load there is nothing to see.
#[must_use]
pub fn curves(report: &SuiteReport) -> Vec<Curve> {
    let mut parts: BTreeMap<usize, Vec<&StepRecord>> = BTreeMap::new();
    // What a search tried is a chart of its own.
    for step in report.steps.iter().filter(|step| step.does == "run") {
        if step.phase().is_some_and(|phase| phase.offered_per_s.is_some()) {
            parts.entry(step.part.0).or_default().push(step);
        }
    }
    parts.into_values().map(|steps| curve(&steps)).filter(is_curve).collect()
}

fn is_curve(curve: &Curve) -> bool {
    /// Loads that differ by less are one.
    const APART: f64 = 0.02;
    let (low, high) = (curve.loads.first(), curve.loads.last());
    low.zip(high).is_some_and(|(low, high)| high.0 > low.0 * (1.0 + APART))
}

fn curve(steps: &[&StepRecord]) -> Curve {
    let mut phases: Vec<&Phase> = steps.iter().filter_map(|step| step.phase()).collect();
    phases.sort_by(|a, b| a.offered_per_s.unwrap_or(0.0).total_cmp(&b.offered_per_s.unwrap_or(0.0)));
    let line = |name: &'static str, percentile: f64| {
        let points = phases.iter().filter_map(|phase| {
            let slowest = phase.ops.iter().map(|op| op.latency.headline().value_at(percentile)).reduce(f64::max)?;
            Some((phase.offered_per_s?, slowest))
        });
        CurveLine { percentile: name, points: points.collect() }
    };
    Curve {
        name: steps[0].part.1.clone(),
        lines: vec![line("p50", 50.0), line("p95", 95.0), line("p99", 99.0), line("p99.9", 99.9)],
        loads: phases.iter().filter_map(|phase| Some((phase.offered_per_s?, phase.throughput_per_s))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_phases_that_lie_apart_nothing_is_done() {
        let of = |op: &str, times: &[f64]| OpSeries {
            op: op.to_owned(),
            points: times.iter().map(|t_s| SeriesPoint { t_s: *t_s, ops: 5, ..SeriesPoint::default() }).collect(),
        };
        let mut series = [of("INSERT", &[0.0, 1.0]), of("READ", &[10.5, 9.5, 11.5, 11.2])];
        rests(&mut series);
        let seen: Vec<(f64, u64)> = series[0].points.iter().map(|point| (point.t_s, point.ops)).collect();
        assert_eq!(seen, [(0.0, 5), (1.0, 5), (2.0, 0), (8.5, 0)]);
        assert!(series[1].points.is_sorted_by(|a, b| a.t_s < b.t_s) && series[1].points.len() == 4);
    }
}
