//! Which charts a phase gets, and which of its figures they show.

use crate::model::{LatencySummary, Phase, SeriesPoint};

use super::chart::{Across, Chart, Line, Mark, View};
use super::scale::{self, Quantity};
use crate::figure;

/// Longer series are thinned: more points than pixels show nothing.
const POINTS_MAX: usize = 1200;
/// Colours for nodes; further ones are dashed.
const NODE_COLOURS: usize = 6;
/// The percentile that is shown first.
const FIRST_VIEW: usize = 2;

/// The class that gives an operation its colour, the same in every chart.
#[must_use]
pub fn class_of(op: &str) -> &'static str {
    match op {
        "READ" => "op-read",
        "UPDATE" => "op-update",
        "INSERT" => "op-insert",
        "SCAN" => "op-scan",
        "READ-MODIFY-WRITE" => "op-rmw",
        "DELETE" => "op-delete",
        _ => "op-other",
    }
}

/// All charts of the phase that is the `index`th of its run.
#[must_use]
pub fn of_phase(index: usize, phase: &Phase) -> Vec<Chart> {
    let mut charts = Vec::new();
    // One point makes no line.
    if phase.series.iter().any(|series| series.points.len() > 1) {
        charts.push(throughput(index, phase));
        charts.push(latency(index, phase));
    }
    if phase.series.iter().flat_map(|series| &series.points).any(|point| point.errors > 0) {
        charts.push(errors(index, phase));
    }
    if phase.ops.iter().any(|op| !op.latency.measured.spectrum.is_empty()) {
        charts.push(distribution(index, phase));
    }
    charts.extend(metrics(index, phase));
    charts
}

/// All charts of a run as images.
#[must_use]
pub fn images(report: &crate::model::RunReport) -> Vec<super::image::Image> {
    let searches = report.searches.iter().enumerate();
    let searches = searches.flat_map(|(index, of)| super::search::charts(&format!("search{index}"), of, report));
    let mut found: Vec<super::image::Image> = searches.map(|chart| chart.image()).collect();
    let phases = report.phases.iter().enumerate();
    found.extend(phases.flat_map(|(index, phase)| of_phase(index, phase)).map(|chart| chart.image()));
    found
}

/// A chart over the phase's time, without its lines.
fn over_time(index: usize, kind: &str, phase: &Phase) -> Chart {
    Chart {
        id: format!("p{index}-{kind}"),
        group: format!("p{index}"),
        title: String::new(),
        summary: String::new(),
        across: Across::Time,
        quantity: Quantity::Rate,
        stacked: false,
        views: Vec::new(),
        shown: 0,
        warm_up_s: phase.warm_up_s,
        until_s: until(phase),
        events: phase.events.iter().map(|event| (event.t_s, event.label.clone())).collect(),
        level: None,
        stretch: None,
        wide: false,
        remark: String::new(),
    }
}

/// A second's figure stands in its middle: drawn at its beginning, what an event did would be seen before the event.
fn middle(point: &SeriesPoint) -> f64 {
    point.t_s + 0.5
}

/// Where the axes of all charts over the phase's time end, so that what stands above one another happened at one time.
fn until(phase: &Phase) -> f64 {
    let seconds = phase.series.iter().filter_map(|series| series.points.last()).map(|point| point.t_s + 1.0);
    let samples = phase.metrics.iter().filter_map(|metric| metric.points.last()).map(|point| point.t_s);
    let told = phase.events.iter().map(|event| event.t_s);
    seconds.chain(samples).chain(told).fold(0.0, f64::max)
}

fn throughput(index: usize, phase: &Phase) -> Chart {
    let longest = phase.series.iter().map(|series| series.points.len()).max().unwrap_or(0);
    let lines = phase
        .series
        .iter()
        .map(|series| {
            let points = series.points.iter().map(|point| (middle(point), point.ops as f64)).collect();
            line(&series.op, &series.op, thin(points, |values| values.iter().sum::<f64>() / values.len() as f64))
        })
        .collect();
    Chart {
        title: "Operations a second".to_owned(),
        summary: format!(
            "Operations a second over time in phase {}: {} over the measured part.",
            phase.name,
            figure::rate(phase.throughput_per_s)
        ),
        stacked: true,
        views: vec![View { name: String::new(), lines }],
        remark: thinned(longest, "mean"),
        ..over_time(index, "throughput", phase)
    }
}

fn errors(index: usize, phase: &Phase) -> Chart {
    let failing = phase.series.iter().filter(|series| series.points.iter().any(|point| point.errors > 0));
    let longest = phase.series.iter().map(|series| series.points.len()).max().unwrap_or(0);
    let lines = failing.map(|series| {
        let points = series.points.iter().map(|point| (middle(point), point.errors as f64)).collect();
        line(&series.op, &series.op, thin(points, |values| values.iter().copied().fold(0.0, f64::max)))
    });
    Chart {
        title: "Failed operations a second".to_owned(),
        summary: format!(
            "Failed operations a second over time in phase {}: {} in all.",
            phase.name,
            figure::count(phase.error_count())
        ),
        stacked: true,
        views: vec![View { name: String::new(), lines: lines.collect() }],
        remark: thinned(longest, "highest"),
        ..over_time(index, "errors", phase)
    }
}

fn latency(index: usize, phase: &Phase) -> Chart {
    type Pick = fn(&SeriesPoint) -> f64;
    let picks: [(&str, Pick); 4] =
        [("p50", |at| at.p50_us), ("p95", |at| at.p95_us), ("p99", |at| at.p99_us), ("max", |at| at.max_us)];
    let longest = phase.series.iter().map(|series| series.points.len()).max().unwrap_or(0);
    let view = |(name, pick): (&str, Pick)| {
        let lines = phase.series.iter().map(|series| {
            let known = series.points.iter().filter(|point| point.ops > 0);
            let points = known.map(|point| (middle(point), pick(point))).collect();
            line(&series.op, &series.op, thin(points, |values| values.iter().copied().fold(0.0, f64::max)))
        });
        View { name: name.to_owned(), lines: lines.collect() }
    };
    let worst = phase.series.iter().flat_map(|series| &series.points).map(|point| point.p99_us).fold(0.0, f64::max);
    Chart {
        title: "Latency of each second".to_owned(),
        summary: format!(
            "99th percentile of latency over time in phase {}: {} in the worst second.",
            phase.name,
            figure::latency(worst)
        ),
        quantity: Quantity::Latency,
        views: picks.into_iter().map(view).collect(),
        shown: FIRST_VIEW,
        remark: thinned(longest, "highest"),
        ..over_time(index, "latency", phase)
    }
}

fn distribution(index: usize, phase: &Phase) -> Chart {
    let mut lines = Vec::new();
    for op in phase.ops.iter().filter(|op| op.op != "CLEANUP") {
        match &op.latency.intended {
            Some(intended) => {
                lines.push(line(&op.op, &format!("{}, from when due", op.op), spectrum(intended)));
                let sent = spectrum(&op.latency.measured);
                lines.push(Line { dashed: true, ..line(&op.op, &format!("{}, from when sent", op.op), sent) });
            }
            None => lines.push(line(&op.op, &op.op, spectrum(&op.latency.measured))),
        }
    }
    Chart {
        group: format!("p{index}-distribution"),
        title: "Latency distribution of the measured part".to_owned(),
        summary: format!("Latency by percentile in phase {}; the table below has the figures.", phase.name),
        across: Across::Percentile,
        until_s: 0.0,
        quantity: Quantity::Latency,
        views: vec![View { name: String::new(), lines }],
        warm_up_s: 0.0,
        events: Vec::new(),
        remark: "Equal width for each nine; a line ends at its maximum.".to_owned(),
        ..over_time(index, "distribution", phase)
    }
}

fn spectrum(latency: &LatencySummary) -> Vec<(f64, f64)> {
    let place = |percentile: f64| (scale::nines(percentile, latency.count) * 1e4).round() / 1e4;
    latency.spectrum.iter().map(|point| (place(point.percentile), point.value_us)).collect()
}

/// One chart a metric, one line a node.
fn metrics(index: usize, phase: &Phase) -> Vec<Chart> {
    let mut names: Vec<&str> = Vec::new();
    // One point makes no line.
    for metric in phase.metrics.iter().filter(|metric| metric.points.len() > 1) {
        if !names.contains(&metric.name.as_str()) {
            names.push(&metric.name);
        }
    }
    let nodes = node_names(phase);
    let chart = |(number, name): (usize, &str)| {
        let of_name = || phase.metrics.iter().filter(|metric| metric.name == name);
        let unit = of_name().next().map_or("", |metric| metric.unit.as_str());
        let (quantity, unit) = match unit {
            "bytes" => (Quantity::Bytes, String::new()),
            "us" | "µs" => (Quantity::Latency, String::new()),
            "" => (Quantity::Number, String::new()),
            "/s" => (Quantity::Rate, String::new()),
            "bytes/s" => (Quantity::Bytes, ", a second".to_owned()),
            unit => (Quantity::Number, format!(", {unit}")),
        };
        let line = |metric: &crate::model::MetricSeries| {
            let points = metric.points.iter().map(|point| (point.t_s, point.value)).collect();
            let place = metric.node.as_ref().and_then(|node| nodes.iter().position(|known| known == node));
            Line {
                name: metric.node.clone().unwrap_or_else(|| metric.name.clone()),
                class: place.map_or_else(|| "metric".to_owned(), |place| format!("node-{}", place % NODE_COLOURS)),
                dashed: place.is_some_and(|place| place >= NODE_COLOURS),
                mark: Mark::Line,
                points: thin(points, |values| values.iter().copied().fold(f64::MIN, f64::max)),
            }
        };
        let longest = of_name().map(|metric| metric.points.len()).max().unwrap_or(0);
        Chart {
            title: format!("Store: {name}{unit}"),
            summary: format!("{name} over time in phase {}.", phase.name),
            quantity,
            views: vec![View { name: String::new(), lines: of_name().map(line).collect() }],
            remark: thinned(longest, "highest"),
            ..over_time(index, &format!("metric{number}"), phase)
        }
    };
    names.into_iter().enumerate().map(chart).collect()
}

/// Nodes in the order in which they are met: each keeps its colour in all charts.
fn node_names(phase: &Phase) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for node in phase.metrics.iter().filter_map(|metric| metric.node.as_ref()) {
        if !names.contains(node) {
            names.push(node.clone());
        }
    }
    names
}

fn line(op: &str, name: &str, points: Vec<(f64, f64)>) -> Line {
    Line { name: name.to_owned(), class: class_of(op).to_owned(), dashed: false, mark: Mark::Line, points }
}

/// How many neighbours one point stands for.
fn bucket(points: usize) -> usize {
    points.div_ceil(POINTS_MAX).max(1)
}

fn thinned(points: usize, how: &str) -> String {
    match bucket(points) {
        1 => String::new(),
        width => format!("Each point is the {how} of {width} seconds."),
    }
}

/// Groups neighbours so that at most [`POINTS_MAX`] points are left; each stands at its group's beginning.
fn thin(points: Vec<(f64, f64)>, join: impl Fn(&[f64]) -> f64) -> Vec<(f64, f64)> {
    let width = bucket(points.len());
    if width == 1 {
        return points;
    }
    let group = |group: &[(f64, f64)]| {
        let values: Vec<f64> = group.iter().map(|point| point.1).collect();
        (group[0].0, join(&values))
    };
    points.chunks(width).map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_its_peaks() {
        let mut points: Vec<(f64, f64)> = (0..3600).map(|t| (f64::from(t), 1.0)).collect();
        points[1801].1 = 99.0;
        let thin = thin(points, |values| values.iter().copied().fold(0.0, f64::max));
        assert_eq!(thin.len(), 1200);
        assert_eq!(thin[600], (1800.0, 99.0));
        assert_eq!(thinned(3600, "highest"), "Each point is the highest of 3 seconds.");
        assert_eq!(thinned(1200, "highest"), "");
    }
}
