//! The one table that answers "how fast was it, and was it right": the same cells on the terminal, in Markdown and HTML.

use crate::model::{OpStats, Pacing, Phase, RunReport};

use crate::figure;

/// YCSB's name for the client's own closing work, which is no part of the workload.
const CLEANUP: &str = "CLEANUP";

/// One column of figures.
pub struct Column {
    /// Its head.
    pub name: &'static str,
    /// What it holds, in a sentence.
    pub help: &'static str,
}

/// The columns of figures, in order.
pub const COLUMNS: [Column; 12] = [
    Column { name: "ops/s", help: "Operations a second over the measured part" },
    Column { name: "mean", help: "Mean latency" },
    Column { name: "p50", help: "Median latency" },
    Column { name: "p95", help: "95 % of the operations took at most this" },
    Column { name: "p99", help: "99 % of the operations took at most this" },
    Column { name: "p99.9", help: "99.9 % of the operations took at most this" },
    Column { name: "max", help: "The slowest operation" },
    Column { name: "errors", help: "Operations that failed" },
    Column { name: "not-found", help: "Records that must exist and were not found" },
    Column { name: "CPU s/M", help: "CPU seconds per million operations" },
    Column { name: "on disk", help: "Bytes on disk at the end of the phase" },
    Column { name: "peak mem", help: "Highest resident memory so far" },
];

/// The columns of COLUMNS that alarm when they are not zero.
const ALARMING: [usize; 2] = [7, 8];

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadlineRow {
    /// The phase's name; empty when the line above has it.
    pub phase: String,
    /// The operation, or `all` for a phase of several.
    pub op: String,
    /// The figures; an empty one does not apply.
    pub cells: [String; COLUMNS.len()],
    /// Whether `op` stands for all operations of a phase.
    pub is_total: bool,
}

impl HeadlineRow {
    /// Whether a cell shows that something went wrong.
    #[must_use]
    pub fn alarms(&self, column: usize) -> bool {
        ALARMING.contains(&column) && !self.cells[column].is_empty() && self.cells[column] != "0"
    }
}

/// All lines, in the order of the phases.
#[must_use]
pub fn rows(report: &RunReport) -> Vec<HeadlineRow> {
    report.phases.iter().flat_map(phase_rows).collect()
}

/// What the latencies count from.
#[must_use]
pub fn latency_basis(report: &RunReport) -> &'static str {
    match report.configuration.pacing {
        Pacing::Closed => "latency from the moment a request was sent",
        Pacing::Open { .. } => "latency from the moment a request was due",
    }
}

/// One sentence about what was checked.
#[must_use]
pub fn verdict(report: &RunReport) -> String {
    let sum = |of: fn(&OpStats) -> u64| -> u64 {
        report.phases.iter().flat_map(|phase| &phase.ops).map(of).fold(0, u64::saturating_add)
    };
    let (verified, wrong) = (sum(|op| op.verified), sum(|op| op.verification_failures));
    let (retries, conflicts) = (sum(|op| op.retries), sum(|op| op.conflicts));
    let mut text = match verified {
        0 => "No answers were verified".to_owned(),
        _ => format!("{} verified, {} wrong", figure::plural(verified, "answer"), figure::count(wrong)),
    };
    for (name, times) in [("retries", retries), ("lost compare-and-set races", conflicts)] {
        if times > 0 {
            text.push_str(&format!("; {} {name}", figure::count(times)));
        }
    }
    text.push('.');
    text
}

fn phase_rows(phase: &Phase) -> Vec<HeadlineRow> {
    let ops: Vec<&OpStats> = phase.ops.iter().filter(|op| op.op != CLEANUP).collect();
    let mut rows = Vec::with_capacity(ops.len() + 1);
    if let [only] = ops[..] {
        rows.push(op_row(phase, only));
    } else {
        rows.push(total_row(phase));
        rows.extend(ops.iter().map(|op| op_row(phase, op)));
    }
    if let Some(first) = rows.first_mut() {
        first.phase.clone_from(&phase.name);
        first.cells[0] = figure::rate(phase.throughput_per_s);
        let or_empty = |value: Option<u64>| value.map_or_else(String::new, figure::bytes);
        first.cells[9] = phase.cpu_s_per_million().map_or_else(String::new, figure::cpu_seconds);
        first.cells[10] = or_empty(phase.disk_bytes);
        first.cells[11] = or_empty(phase.peak_rss_bytes);
    }
    rows
}

fn total_row(phase: &Phase) -> HeadlineRow {
    let mut cells = <[String; COLUMNS.len()]>::default();
    cells[7] = figure::count(phase.error_count());
    cells[8] = figure::count(phase.not_found());
    HeadlineRow { phase: String::new(), op: "all".to_owned(), cells, is_total: true }
}

fn op_row(phase: &Phase, op: &OpStats) -> HeadlineRow {
    let mut cells = <[String; COLUMNS.len()]>::default();
    if phase.duration_s > 0.0 {
        cells[0] = figure::rate(op.succeeded() as f64 / phase.duration_s);
    }
    let shown = op.latency.headline();
    if shown.count > 0 {
        let latencies = [shown.mean_us, shown.p50_us, shown.p95_us, shown.p99_us, shown.p99_9_us, shown.max_us];
        for (cell, us) in cells[1..7].iter_mut().zip(latencies) {
            *cell = figure::latency(us);
        }
    }
    cells[7] = figure::count(op.error_count());
    cells[8] = figure::count(op.not_found);
    HeadlineRow { phase: String::new(), op: op.op.clone(), cells, is_total: false }
}
