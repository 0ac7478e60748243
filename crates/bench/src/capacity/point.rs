//! A measured phase as a data point of a model.

use crate::compare::RunFolder;
use crate::model::{BuildProfile, Link, Phase, RunReport};
use crate::workload::{Lengths, Zipfian};

/// Kinds of work whose costs are told apart.
pub(super) const KINDS: [&str; 6] = ["read", "update", "insert", "scan", "row", "disk read"];
/// Places in [`KINDS`].
pub(super) const READ: usize = 0;
pub(super) const UPDATE: usize = 1;
pub(super) const INSERT: usize = 2;
pub(super) const SCAN: usize = 3;
pub(super) const ROW: usize = 4;
pub(super) const DISK: usize = 5;
/// Fewer reads of the device than this share of the operations are those of flushes and of other processes.
const DISK_SHARE_MIN: f64 = 0.05;
/// Longer scans are not told apart.
const ROWS_MAX: u64 = 1_000_000;
/// What a phase must miss at least for its device reads to tell what a miss costs.
const MISS_SHARE_MIN: f64 = 0.2;

/// One phase of one run.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// Run and phase.
    pub(super) name: String,
    /// The workload, so that only like is fitted with like.
    pub(super) like: String,
    /// How many of each of [`KINDS`], parts of others included.
    pub(super) counts: [f64; KINDS.len()],
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
    /// Reads of the device for each read that cannot have come from memory, where that can be told.
    pub(super) reads_a_miss: Option<f64>,
    /// Seconds in which the device was busy, for each of its reads, where it did little else.
    pub(super) device_s: Option<f64>,
    /// Throughput was given, not found out.
    pub(super) paced: bool,
}

impl Point {
    /// Operations: what a client asked for, parts of others included.
    pub(super) fn operations(&self) -> f64 {
        self.counts[..ROW].iter().sum()
    }
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
        stats.map(|stats| stats.count()).sum::<u64>() as f64
    };
    // A read-modify-write is its parts, which are counted.
    let mut counts = [of(&["READ"]), of(&["UPDATE", "DELETE"]), of(&["INSERT"]), of(&["SCAN"]), 0.0, 0.0];
    counts[ROW] = counts[SCAN] * rows_a_scan(report);
    let operations: f64 = counts[..ROW].iter().sum();
    if operations <= 0.0 || phase.duration_s <= 0.0 {
        return Err("nothing was done");
    }
    let store_cpu = phase.cpu.server.or(phase.cpu.process).ok_or("the store's CPU time is not known")?;
    if store_cpu.total_s() <= 0.0 {
        return Err("too short for its CPU time to be told");
    }
    let device_reads = mean(phase, "device reads").map_or(0.0, |per_s| per_s * phase.duration_s);
    if device_reads > operations * DISK_SHARE_MIN {
        counts[DISK] = device_reads;
    }
    let nodes = phase.nodes.len().max(1) as f64;
    let copies = leading_number(&asked.replication).unwrap_or(1.0).max(1.0);
    let bytes = asked.record_count as f64 * asked.record_size_bytes as f64;
    // What the trees hold, where that is told: the log does not grow with the records.
    let on_disk = last(phase, "data in trees").or(phase.disk_bytes.map(|bytes| bytes as f64));
    let space = on_disk.filter(|_| bytes > 0.0 && counts[INSERT] == 0.0);
    let brought = counts[UPDATE] * asked.record_size_bytes as f64 / fields_written(report)
        + counts[INSERT] * asked.record_size_bytes as f64;
    let written = mean(phase, "disk writes").filter(|_| brought > 0.0).map(|per_s| per_s * phase.duration_s / brought);
    let properties = &asked.properties;
    let property = |name: &str| properties.get(name).map_or("", String::as_str);
    let shares: Vec<String> = counts[..ROW].iter().map(|count| format!("{:.3}", count / operations)).collect();
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
        space: space.map(|disk| disk / bytes / copies),
        written: written.map(|times| times / copies),
        reads_a_miss: reads_a_miss(report, phase, &counts),
        device_s: device_s(phase, device_reads / operations),
        paced: phase.offered_per_s.is_some(),
    })
}

/// How many updates it takes to write all fields of a record.
fn fields_written(report: &RunReport) -> f64 {
    let property = |name: &str| report.configuration.properties.get(name).map_or("", String::as_str);
    let whole = property("writeallfields").eq_ignore_ascii_case("true");
    if whole { 1.0 } else { property("fieldcount").parse::<f64>().unwrap_or(1.0).max(1.0) }
}

/// How long a scan is on average, as its properties say.
fn rows_a_scan(report: &RunReport) -> f64 {
    let property = |name: &str| report.configuration.properties.get(name).and_then(|text| text.parse::<u64>().ok());
    let (min, max) = (property("minscanlength").unwrap_or(1), property("maxscanlength").unwrap_or(1000));
    let zipfian = report.configuration.properties.get("scanlengthdistribution").is_some_and(|name| name == "zipfian");
    let max = max.clamp(min, min.max(ROWS_MAX));
    let lengths = if zipfian { Lengths::Zipfian(Zipfian::new(min, max)) } else { Lengths::Uniform { min, max } };
    lengths.mean()
}

/// Of reads of anything in a store whose memory is bounded: reads of the device for each that memory cannot have held.
fn reads_a_miss(report: &RunReport, phase: &Phase, counts: &[f64; KINDS.len()]) -> Option<f64> {
    let asked = &report.configuration;
    let (limit, on_disk) = (asked.memory_limit_bytes? as f64, phase.disk_bytes? as f64);
    let missing = 1.0 - limit / on_disk;
    let reads_only = counts[READ] > 0.9 * counts[..ROW].iter().sum::<f64>();
    let tells = asked.distribution == "uniform" && reads_only && missing > MISS_SHARE_MIN && counts[DISK] > 0.0;
    tells.then(|| counts[DISK] / (counts[READ] * missing))
}

/// How long the device was busy for each of its reads, in a phase that had it do little else.
fn device_s(phase: &Phase, reads_an_operation: f64) -> Option<f64> {
    let (reads, writes) = (mean(phase, "device reads")?, mean(phase, "device writes").unwrap_or(0.0));
    let busy = mean(phase, "device busy")? / 100.0;
    (reads_an_operation > DISK_SHARE_MIN && reads > 4.0 * writes && busy > 0.0).then(|| busy / reads)
}

/// The mean over the measured part of what all nodes together did a second.
fn mean(phase: &Phase, name: &str) -> Option<f64> {
    let series = phase.metrics.iter().filter(|metric| metric.name == name);
    let means: Vec<f64> = series
        .filter_map(|metric| {
            let points: Vec<f64> =
                metric.points.iter().filter(|point| point.t_s >= phase.warm_up_s).map(|point| point.value).collect();
            (!points.is_empty()).then(|| points.iter().sum::<f64>() / points.len() as f64)
        })
        .collect();
    (!means.is_empty()).then(|| means.iter().sum())
}

/// What all nodes together came to at last, with what is still to be written.
fn last(phase: &Phase, name: &str) -> Option<f64> {
    let sum = |name: &str| {
        let series = phase.metrics.iter().filter(|metric| metric.name == name);
        series.filter_map(|metric| metric.points.last()).map(|point| point.value).reduce(|sum, next| sum + next)
    };
    Some(sum(name)? + sum("memtables").unwrap_or(0.0))
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
