//! Stores to predict: the one that the options describe, and published ones.

use std::collections::BTreeMap;

use toml::Value;

use super::options::{ModelOptions, Preset, Requests};
use super::point::KINDS;
use crate::published;

/// A hardware thread is half a core: two share its units.
const CORES_PER_THREAD: f64 = 0.5;

/// A store and what is asked of it.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) nodes: f64,
    /// The cores of each node.
    pub(super) cores: f64,
    pub(super) records: f64,
    pub(super) record_bytes: f64,
    /// How many of each of [`KINDS`] one operation has; what comes from disk follows from the memory.
    pub(super) shares: [f64; KINDS.len()],
    pub(super) copies: f64,
    /// Bytes of memory of each node; none where all comes from where it came in the runs.
    pub(super) memory_bytes: Option<f64>,
    /// Which records are asked for; none for those that came last, which memory holds.
    pub(super) requests: Option<Requests>,
    /// Reads a second of each node's disks, where they are a bound.
    pub(super) disk_reads_per_s: Option<f64>,
    pub(super) published: Option<Published>,
    /// What is taken for granted of it.
    pub(super) assumes: Vec<String>,
}

/// What its author printed.
#[derive(Clone, Debug)]
pub(super) struct Published {
    pub(super) source: String,
    pub(super) ops_per_s: f64,
    pub(super) hours: Option<f64>,
    pub(super) disk_tb_per_node: Option<f64>,
}

/// Everything that is asked for.
pub(super) fn shapes(options: &ModelOptions) -> Result<Vec<Shape>, String> {
    let mut list = Vec::new();
    if let (Some(nodes), Some(records)) = (options.nodes, options.records) {
        list.push(Shape {
            name: "the store".to_owned(),
            nodes: f64::from(nodes),
            cores: f64::from(options.cores),
            records,
            record_bytes: f64::from(options.record_bytes),
            shares: {
                let (scans, rows) = (options.mix.scans, options.mix.scans * options.scan_rows);
                [options.mix.reads, options.mix.writes, 0.0, scans, rows, 0.0]
            },
            copies: f64::from(options.rf),
            memory_bytes: options.memory_gb.map(|gb| gb * 1e9),
            requests: Some(options.requests),
            disk_reads_per_s: options.disk_reads_per_s,
            published: None,
            assumes: Vec::new(),
        });
    }
    let all = [Preset::Oracle, Preset::Yugabyte, Preset::Voltdb, Preset::Flash];
    let presets = if list.is_empty() && options.preset.is_empty() { &all[..] } else { &options.preset[..] };
    for preset in presets {
        list.extend(match preset {
            Preset::Oracle => oracle()?,
            Preset::Yugabyte => yugabyte()?,
            Preset::Voltdb => voltdb()?,
            Preset::Flash => flash()?,
        });
    }
    for shape in &list {
        if shape.copies > shape.nodes {
            let (copies, nodes) = (shape.copies, shape.nodes);
            return Err(format!(
                "{}: {copies} copies of each record need as many nodes; there are {nodes}",
                shape.name
            ));
        }
    }
    Ok(list)
}

fn row(report: &str, pairs: &[(&str, Value)]) -> Result<published::PublishedRow<'static>, String> {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let wanted: BTreeMap<String, Value> = pairs.chain([("report".to_owned(), Value::from(report))]).collect();
    published::row(&wanted)
}

fn printed(row: published::PublishedRow<'_>) -> Option<Published> {
    Some(Published {
        source: format!("{}, {}", row.of.source, row.of.date),
        ops_per_s: row.number("ops_per_s")?,
        hours: row.number("hours"),
        disk_tb_per_node: row.number("on_disk_tb_per_node"),
    })
}

fn oracle() -> Result<Vec<Shape>, String> {
    /// Two sockets of eight.
    const CORES: f64 = 16.0;
    [2i64, 4, 8, 10]
        .into_iter()
        .map(|shards| {
            let row = row("oracle-nosql-1.2m", &[("shards", Value::from(shards))])?;
            let cores = row.cores().map_or(CORES, |(cores, _)| cores);
            Ok(Shape {
                name: format!("oracle, {shards} shards"),
                nodes: cores / CORES,
                cores: CORES,
                records: row.number("records").unwrap_or(0.0),
                record_bytes: 1102.0 + 13.0,
                shares: simple(0.95, 0.05, 0.0),
                copies: 3.0,
                memory_bytes: memory(row),
                requests: Some(Requests::Zipfian),
                disk_reads_per_s: None,
                published: printed(row),
                assumes: vec!["oracle: its updates compare a version; ours cost what was measured.".to_owned()],
            })
        })
        .collect()
}

fn yugabyte() -> Result<Vec<Shape>, String> {
    /// Virtual CPUs of a node.
    const THREADS: f64 = 32.0;
    ["load", "random reads", "recent reads"]
        .into_iter()
        .map(|phase| {
            let row = row("yugabytedb-30b", &[("phase", Value::from(phase))])?;
            let shares = match (row.number("reads_per_s"), row.number("writes_per_s")) {
                (Some(reads), Some(writes)) => simple(reads / (reads + writes), writes / (reads + writes), 0.0),
                _ => simple(0.0, 0.0, 1.0),
            };
            Ok(Shape {
                name: format!("yugabyte, {phase}"),
                nodes: 4.0,
                cores: THREADS * CORES_PER_THREAD,
                records: 30e9,
                record_bytes: 50.0 + 256.0,
                shares,
                copies: 3.0,
                memory_bytes: memory(row),
                requests: (phase != "recent reads").then_some(Requests::Uniform),
                disk_reads_per_s: None,
                published: printed(row),
                assumes: vec![
                    "yugabyte, voltdb: a virtual CPU is taken for half a core.".to_owned(),
                    "yugabyte: what was written last, and is read in its recent reads, is in memory.".to_owned(),
                ],
            })
        })
        .collect()
}

fn voltdb() -> Result<Vec<Shape>, String> {
    const THREADS: f64 = 32.0;
    /// Rows of workload E's scans, of which each length up to 100 is as frequent.
    const ROWS: f64 = 50.5;
    let scans = [0.0, 0.0, 0.05, 0.95, 0.95 * ROWS, 0.0];
    [
        ("A", 3i64, simple(0.5, 0.5, 0.0)),
        ("A", 12, simple(0.5, 0.5, 0.0)),
        ("B", 3, simple(0.95, 0.05, 0.0)),
        ("B", 12, simple(0.95, 0.05, 0.0)),
        ("E", 12, scans),
    ]
    .into_iter()
    .map(|(workload, nodes, shares)| {
        let row = row("voltdb-4.2", &[("workload", Value::from(workload)), ("nodes", Value::from(nodes))])?;
        Ok(Shape {
            name: format!("voltdb, {workload} on {nodes}"),
            nodes: nodes as f64,
            cores: THREADS * CORES_PER_THREAD,
            records: 10e6 * nodes as f64,
            record_bytes: 1000.0 + 23.0,
            shares,
            copies: 2.0,
            memory_bytes: memory(row),
            requests: Some(Requests::Zipfian),
            disk_reads_per_s: None,
            published: printed(row),
            assumes: vec!["yugabyte, voltdb: a virtual CPU is taken for half a core.".to_owned()],
        })
    })
    .collect()
}

fn flash() -> Result<Vec<Shape>, String> {
    /// Two sockets of eight.
    const CORES: f64 = 16.0;
    /// What the maker of the flash printed.
    const READS_PER_S: f64 = 235_000.0;
    let workloads = [("A", simple(0.5, 0.5, 0.0)), ("B", simple(0.95, 0.05, 0.0)), ("C", simple(1.0, 0.0, 0.0))];
    let sizes = [32i64, 256, 1000];
    let each = workloads.iter().flat_map(|workload| sizes.map(|gb| (*workload, gb)));
    each.map(|((workload, shares), gb)| {
        let pairs = [
            ("workload", Value::from(workload)),
            ("storage", Value::from("flash")),
            ("distribution", Value::from("uniform")),
            ("gb", Value::from(gb)),
        ];
        let row = row("oracle-nosql-flash", &pairs)?;
        Ok(Shape {
            name: format!("flash, {workload}, {gb} GB"),
            nodes: 3.0,
            cores: CORES,
            records: gb as f64 * 1e6,
            record_bytes: 1024.0,
            shares,
            copies: 3.0,
            memory_bytes: memory(row),
            requests: Some(Requests::Uniform),
            disk_reads_per_s: Some(READS_PER_S),
            published: printed(row),
            assumes: vec![
                "flash: one client machine made all of its load; ours may have as many as it takes.".to_owned(),
            ],
        })
    })
    .collect()
}

/// Shares of reads, updates and inserts.
fn simple(reads: f64, updates: f64, inserts: f64) -> [f64; KINDS.len()] {
    [reads, updates, inserts, 0.0, 0.0, 0.0]
}

fn memory(row: published::PublishedRow<'_>) -> Option<f64> {
    Some(f64::from(row.of.ram_gb_per_server) * 1e9)
}
