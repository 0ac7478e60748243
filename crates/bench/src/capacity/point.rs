//! What one measured phase tells a model.

use crate::compare::RunFolder;
use crate::model::{BuildProfile, Link, Phase, RunReport};

/// Kinds of operations whose costs are told apart.
pub(super) const KINDS: [&str; 3] = ["read", "update", "insert"];

/// One phase of one run.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// Run and phase.
    pub(super) name: String,
    /// The workload, so that only like is fitted with like.
    pub(super) like: String,
    /// How many of each of [`KINDS`], parts of others included.
    pub(super) counts: [f64; 3],
    pub(super) throughput_per_s: f64,
    /// Operations in flight at most.
    pub(super) concurrency: f64,
    pub(super) nodes: f64,
    pub(super) copies: f64,
    /// CPU seconds of the store.
    pub(super) store_cpu_s: f64,
    /// CPU seconds of what made the load; none when it shares the store's process.
    pub(super) client_cpu_s: Option<f64>,
    /// Bytes on disk for each byte of a record and each copy of it.
    pub(super) space: Option<f64>,
    /// Bytes that the nodes' processes wrote for each byte that a write brought, copies included.
    pub(super) written: Option<f64>,
    /// Throughput was given, not found out.
    pub(super) paced: bool,
}

/// The phases that can be used, and why the others cannot.
pub(super) fn points(runs: &[RunFolder]) -> (Vec<Point>, Vec<String>) {
    let (mut points, mut left_out) = (Vec::new(), Vec::new());
    for run in runs {
        for phase in &run.report.phases {
            let name = format!("{} {}", run.path.display(), phase.name);
            match point(&name, &run.report, phase) {
                Ok(point) => points.push(point),
                Err(why) => left_out.push(format!("{name}: {why}")),
            }
        }
    }
    (points, left_out)
}

fn point(name: &str, report: &RunReport, phase: &Phase) -> Result<Point, &'static str> {
    let asked = &report.configuration;
    let of = |ops: &[&str]| -> f64 {
        let stats = phase.ops.iter().filter(|stats| ops.contains(&stats.op.as_str()));
        stats.map(|stats| stats.count() as f64).sum()
    };
    // A read-modify-write is its parts, which are counted.
    let counts = [of(&["READ"]), of(&["UPDATE", "DELETE"]), of(&["INSERT"])];
    if of(&["SCAN"]) > 0.0 {
        return Err("scans are not modelled: one costs as much as it is long");
    }
    if counts.iter().sum::<f64>() <= 0.0 || phase.duration_s <= 0.0 {
        return Err("nothing was done");
    }
    let store_cpu = phase.cpu.server.or(phase.cpu.process).ok_or("the store's CPU time is not known")?;
    if store_cpu.total_s() <= 0.0 {
        return Err("too short for its CPU time to be told");
    }
    let nodes = phase.nodes.len().max(1) as f64;
    let copies = leading_number(&asked.replication).unwrap_or(1.0).max(1.0);
    let bytes = asked.record_count as f64 * asked.record_size_bytes as f64;
    let space = phase.disk_bytes.filter(|_| bytes > 0.0 && counts[2] == 0.0);
    let brought = counts[1] * asked.record_size_bytes as f64 / fields_written(report)
        + counts[2] * asked.record_size_bytes as f64;
    let written = mean_disk_writes(phase).filter(|_| brought > 0.0).map(|per_s| per_s * phase.duration_s / brought);
    let properties = &asked.properties;
    let property = |name: &str| properties.get(name).map_or("", String::as_str);
    let shares: Vec<String> = counts.iter().map(|count| format!("{:.3}", count / counts.iter().sum::<f64>())).collect();
    Ok(Point {
        name: name.to_owned(),
        like: [
            shares.join("/"),
            asked.distribution.clone(),
            asked.record_count.to_string(),
            asked.record_size_bytes.to_string(),
            property("basalt.update").to_owned(),
            asked.system.clone(),
            asked.durability.clone(),
            asked.replication.clone(),
        ]
        .join(" · "),
        counts,
        throughput_per_s: phase.throughput_per_s,
        concurrency: f64::from(asked.clients) * f64::from(asked.pipeline_depth),
        nodes,
        copies,
        store_cpu_s: store_cpu.total_s(),
        client_cpu_s: phase.cpu.client.map(|cpu| cpu.total_s()),
        space: space.map(|disk| disk as f64 / bytes / copies),
        written: written.map(|times| times / copies),
        paced: phase.offered_per_s.is_some(),
    })
}

/// How many updates it takes to write all fields of a record.
fn fields_written(report: &RunReport) -> f64 {
    let property = |name: &str| report.configuration.properties.get(name).map_or("", String::as_str);
    let whole = property("writeallfields").eq_ignore_ascii_case("true");
    if whole { 1.0 } else { property("fieldcount").parse::<f64>().unwrap_or(1.0).max(1.0) }
}

/// What all nodes together wrote a second, over the measured part.
fn mean_disk_writes(phase: &Phase) -> Option<f64> {
    let series = phase.metrics.iter().filter(|metric| metric.name == "disk writes");
    let means: Vec<f64> = series
        .filter_map(|metric| {
            let points: Vec<f64> =
                metric.points.iter().filter(|point| point.t_s >= phase.warm_up_s).map(|point| point.value).collect();
            (!points.is_empty()).then(|| points.iter().sum::<f64>() / points.len() as f64)
        })
        .collect();
    (!means.is_empty()).then(|| means.iter().sum())
}

/// `3 on 3 nodes` begins with 3.
fn leading_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// What the reader must know of the runs.
pub(super) fn cautions(runs: &[RunFolder]) -> Vec<String> {
    let mut list = Vec::new();
    let any = |of: &dyn Fn(&RunReport) -> bool| runs.iter().any(|run| of(&run.report));
    if any(&|report| report.environment.build == BuildProfile::Debug) {
        list.push(
            "Debug builds were measured: what follows is of a program several times slower than the real one."
                .to_owned(),
        );
    }
    if any(&|report| report.environment.link == Link::Loopback) {
        list.push(
            "Client and server shared one machine and its loopback interface: a network's interrupts are in no figure."
                .to_owned(),
        );
    }
    if any(&|report| report.environment.link == Link::InProcess) {
        list.push("Of an embedded store, the client's CPU time is in the store's.".to_owned());
    }
    list
}
