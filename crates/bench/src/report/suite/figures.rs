//! The figures of one step, and of the published row beside it, by the name of a table's column.

use crate::model::StepRecord;
use crate::model::{LatencySummary, Link, OpStats, Phase, RunReport};
use crate::published::PublishedRow;

use crate::figure;

/// A column of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Operations a second.
    Rate,
    /// Operations a second for each busy core of the store's processes.
    PerBusyCore,
    /// Operations a second for each core of the machine, which clients use too; for published rows, for each core of the servers.
    PerCore,
    /// How many times the published figure per core.
    Times,
    /// The step's name.
    Step,
    /// From what was done to the store until its plans were done.
    Moved,
    /// Reads: mean, 95 % and 99 %.
    Read,
    /// Writes: the same.
    Write,
    /// Reads a second.
    Reads,
    /// Writes a second.
    Writes,
    /// Mean latency of all operations.
    Mean,
    /// The highest 95th percentile of any operation.
    P95,
    /// The highest 99th percentile of any operation.
    P99,
    /// 95th percentile of reads.
    ReadP95,
    /// 95th percentile of writes.
    WriteP95,
    /// The slowest operation.
    Max,
    /// Operations a second that were offered.
    Offered,
    /// Records.
    Records,
    /// Operations in flight.
    Threads,
    /// Bytes on all nodes' disks.
    OnDisk,
    /// Cores that the store kept busy.
    Cpu,
    /// How long it took.
    Took,
    /// Operations that went wrong.
    Errors,
    /// The longest time without a successful read.
    ReadGap,
    /// The longest time without a successful write.
    WriteGap,
}

/// Names of columns, what they are, and what they hold.
const NAMES: [(&str, Figure, &str); 25] = [
    ("ops/s", Figure::Rate, "Operations a second"),
    (
        "per core",
        Figure::PerCore,
        "Operations a second by all cores: ours of this machine, on which the clients ran too; the published ones of all servers, without the clients' machines",
    ),
    (
        "per busy core",
        Figure::PerBusyCore,
        "Operations a second of one core of the time that the store's processes were busy",
    ),
    ("step", Figure::Step, "What was done"),
    ("until moved", Figure::Moved, "From what was done to the store until all replicas were where they belong"),
    (
        "times",
        Figure::Times,
        "Our figure per core (of this machine, clients included) by the published one; `in memory`: ours came from memory, theirs from disk",
    ),
    ("read", Figure::Read, "Reads: mean, 95 % and 99 %, in ms"),
    ("write", Figure::Write, "Writes: mean, 95 % and 99 %, in ms"),
    ("reads/s", Figure::Reads, "Reads a second"),
    ("writes/s", Figure::Writes, "Writes a second"),
    ("mean", Figure::Mean, "Mean latency of all operations"),
    ("p95", Figure::P95, "95 % took at most this; of the slower kind of operation"),
    ("p99", Figure::P99, "99 % took at most this; of the slower kind of operation"),
    ("read p95", Figure::ReadP95, "95 % of the reads took at most this"),
    ("write p95", Figure::WriteP95, "95 % of the writes took at most this"),
    ("max", Figure::Max, "The slowest operation"),
    ("offered", Figure::Offered, "Operations a second that were offered"),
    ("records", Figure::Records, "Records in the store"),
    ("threads", Figure::Threads, "Operations in flight at once"),
    ("on disk", Figure::OnDisk, "Bytes on the disks of all nodes"),
    ("busy cores", Figure::Cpu, "Cores that the store's processes kept busy"),
    ("took", Figure::Took, "How long it took"),
    ("wrong", Figure::Errors, "Operations that failed, records that were missing, answers that were wrong"),
    ("read gap", Figure::ReadGap, "The longest time without a successful read"),
    ("write gap", Figure::WriteGap, "The longest time without a successful write"),
];

impl Figure {
    /// The figure that a column of this name shows; none for a value that steps show.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, ..)| *known == name).map(|(_, figure, _)| *figure)
    }

    /// What the column holds.
    #[must_use]
    pub fn help(name: &str) -> &'static str {
        NAMES.iter().find(|(known, ..)| *known == name).map_or("", |(.., help)| help)
    }

    /// The figures of one of our steps.
    #[must_use]
    pub fn of(self, step: &StepRecord, beside: Option<PublishedRow<'_>>) -> Option<String> {
        let report = step.report.as_ref()?;
        let phase = step.phase()?;
        let rate = |value: Option<f64>| value.map(figure::rate);
        let kind = |writes: bool| merged(phase, writes);
        match self {
            Self::Rate => rate(Some(phase.throughput_per_s)),
            Self::PerBusyCore => rate(per_busy_core_s(phase)),
            Self::PerCore => rate(per_core_s(report, phase)),
            Self::Step => Some(step.step.1.clone()),
            Self::Moved => moved(phase),
            Self::Times => {
                let times = per_core_s(report, phase)? / beside?.per_core_s()?;
                // What memory answers is not set against what a disk answers without a word.
                let unlike = !beside?.in_memory() && in_memory(report, phase);
                Some(format!("{} ×{}", figure::rate(times), if unlike { ", in memory" } else { "" }))
            }
            Self::Read => three(&kind(false)?.latency.headline().clone()),
            Self::Write => three(&kind(true)?.latency.headline().clone()),
            Self::Reads => rate(count_of(phase, false).map(|count| count as f64 / phase.duration_s)),
            Self::Writes => rate(count_of(phase, true).map(|count| count as f64 / phase.duration_s)),
            Self::Mean => Some(figure::latency(mean_us(phase)?)),
            Self::P95 => slowest(phase, |latency| latency.p95_us),
            Self::P99 => slowest(phase, |latency| latency.p99_us),
            Self::ReadP95 => Some(figure::latency(kind(false)?.latency.headline().p95_us)),
            Self::WriteP95 => Some(figure::latency(kind(true)?.latency.headline().p95_us)),
            Self::Max => slowest(phase, |latency| latency.max_us),
            Self::Offered => rate(phase.offered_per_s),
            Self::Records => Some(figure::count(report.configuration.record_count)),
            Self::Threads => Some((report.configuration.clients * report.configuration.pipeline_depth).to_string()),
            Self::OnDisk => phase.disk_bytes.map(figure::bytes),
            Self::Cpu => store_cpu_s(phase).map(|cpu| format!("{:.2}", cpu / phase.duration_s)),
            Self::Took => Some(figure::span(phase.warm_up_s + phase.duration_s)),
            Self::Errors => {
                Some(figure::count(phase.error_count() + phase.not_found() + phase.verification_failures()))
            }
            Self::ReadGap => phase.read_gap_s_max.map(|gap| format!("{gap:.2} s")),
            Self::WriteGap => phase.write_gap_s_max.map(|gap| format!("{gap:.2} s")),
        }
    }

    /// The figures of a published row.
    #[must_use]
    pub fn published(self, row: PublishedRow<'_>) -> Option<String> {
        let rate = |name: &str| row.number(name).map(figure::rate);
        let ms = |name: &str| Some(latencies(&row.numbers(name).or_else(|| Some(vec![row.number(name)?]))?, "–"));
        match self {
            Self::Rate => rate("ops_per_s"),
            Self::PerCore => {
                let (_, threads) = row.cores()?;
                let each = figure::rate(row.per_core_s()?);
                Some(if threads { format!("{each} a thread") } else { each })
            }
            Self::Read => row.numbers("read_ms").map(|list| plain_ms(&list)),
            Self::Write => row.numbers("write_ms").map(|list| plain_ms(&list)),
            Self::Reads => rate("reads_per_s"),
            Self::Writes => rate("writes_per_s"),
            Self::Mean => ms("ms").or_else(|| ms("write_mean_ms")),
            Self::P99 => ms("p99_ms"),
            Self::ReadP95 => ms("read_p95_ms"),
            Self::WriteP95 => ms("write_p95_ms"),
            Self::Records => row.number("records").map(|count| figure::count(count as u64)),
            Self::Threads => row.number("threads").map(|count| figure::count(count as u64)),
            Self::OnDisk => row.number("on_disk_tb_per_node").map(|tb| format!("{tb} TB a node")),
            Self::Step => Some(String::new()),
            Self::Took | Self::Moved => row.number("hours").map(|hours| figure::span(hours * 3600.0)),
            _ => None,
        }
    }
}

/// CPU seconds of the store's processes; of the whole process where the store is in it.
pub fn store_cpu_s(phase: &Phase) -> Option<f64> {
    phase.cpu.server.or(phase.cpu.process).map(|cpu| cpu.total_s())
}

/// Operations a second of one core that the store keeps busy.
#[must_use]
pub fn per_busy_core_s(phase: &Phase) -> Option<f64> {
    let cpu = store_cpu_s(phase).filter(|cpu| *cpu > 0.0)?;
    Some(phase.succeeded() as f64 / cpu)
}

/// Operations a second of one core of the machine that ran all of it; none where the store ran on others, whose cores
/// it is not told.
#[must_use]
pub fn per_core_s(report: &RunReport, phase: &Phase) -> Option<f64> {
    let here = report.environment.link != Link::Network;
    here.then(|| phase.throughput_per_s / f64::from(report.environment.cores.max(1)))
}

/// Whether all that the nodes of this machine had on disk fitted into the memory that they had for it.
#[must_use]
pub fn in_memory(report: &RunReport, phase: &Phase) -> bool {
    let memory = report.configuration.memory_limit_bytes.unwrap_or(report.environment.memory_bytes);
    phase.disk_bytes.is_some_and(|bytes| bytes < memory)
}

/// From the first thing that was done to the store until its last plan was done; none where no plan was seen.
fn moved(phase: &Phase) -> Option<String> {
    let is_plan = |label: &str| label.starts_with("plan ");
    let done = |label: &str| is_plan(label) && label.ends_with(": done");
    let begun = phase.events.iter().find(|event| !is_plan(&event.label))?.t_s;
    let plans = phase.events.iter().filter(|event| is_plan(&event.label));
    let number = |label: &str| label.split(' ').nth(1).unwrap_or_default().to_owned();
    let ended: Vec<String> =
        phase.events.iter().filter(|event| done(&event.label)).map(|event| number(&event.label)).collect();
    let is_open = plans.clone().any(|event| !ended.contains(&number(&event.label)));
    let last = plans.map(|event| event.t_s).reduce(f64::max)?;
    if is_open {
        let seen = phase.warm_up_s + phase.duration_s - begun;
        return Some(format!("more than {}", figure::span(seen)));
    }
    Some(figure::span(last - begun))
}

fn is_write(op: &OpStats) -> bool {
    !matches!(op.op.as_str(), "READ" | "SCAN" | "CLEANUP")
}

/// The operation that stands for all reads, or all writes: the most frequent one.
fn merged(phase: &Phase, writes: bool) -> Option<&OpStats> {
    let kinds = phase.ops.iter().filter(|op| op.op != "CLEANUP" && is_write(op) == writes);
    kinds.filter(|op| op.latency.measured.count > 0).max_by_key(|op| op.count())
}

fn count_of(phase: &Phase, writes: bool) -> Option<u64> {
    let kinds = phase.ops.iter().filter(|op| op.op != "CLEANUP" && is_write(op) == writes);
    kinds
        .map(|op| op.count().saturating_sub(op.parts + op.failed_wholes()))
        .reduce(|sum, next| sum + next)
        .filter(|_| phase.duration_s > 0.0)
}

fn mean_us(phase: &Phase) -> Option<f64> {
    let whole = || phase.ops.iter().filter(|op| op.op != "CLEANUP" && op.parts == 0).map(|op| op.latency.headline());
    let count: u64 = whole().map(|latency| latency.count).sum();
    (count > 0).then(|| whole().map(|latency| latency.mean_us * latency.count as f64).sum::<f64>() / count as f64)
}

fn slowest(phase: &Phase, of: fn(&LatencySummary) -> f64) -> Option<String> {
    let kinds = phase.ops.iter().filter(|op| op.op != "CLEANUP" && op.latency.measured.count > 0);
    kinds.map(|op| of(op.latency.headline())).reduce(f64::max).map(figure::latency)
}

/// Mean, 95 % and 99 %, as Oracle printed them: in milliseconds.
fn three(latency: &LatencySummary) -> Option<String> {
    let list = [latency.mean_us, latency.p95_us, latency.p99_us];
    (latency.count > 0).then(|| list.map(|us| figure::measured_milliseconds(us / 1e3)).join(" / "))
}

fn plain_ms(list: &[f64]) -> String {
    list.iter().map(|ms| figure::milliseconds(*ms)).collect::<Vec<_>>().join(" / ")
}

fn latencies(ms: &[f64], between: &str) -> String {
    ms.iter().map(|ms| figure::latency(ms * 1e3)).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Event;

    #[test]
    fn what_a_plan_took_counts_from_what_called_for_it() {
        let of = |list: &[(f64, &str)]| {
            let event = |(t_s, label): &(f64, &str)| Event { t_s: *t_s, label: (*label).to_owned() };
            moved(&Phase { duration_s: 60.0, events: list.iter().map(event).collect(), ..Phase::default() })
        };
        let killed = (5.0, "node 2 killed");
        let running = (21.0, "plan 3 (repair): running");
        assert_eq!(of(&[killed, running, (29.5, "plan 3 (repair): done")]).as_deref(), Some("24.5 s"));
        assert_eq!(of(&[killed, running]).as_deref(), Some("more than 55.0 s"));
        assert_eq!(of(&[killed]), None);
    }
}
