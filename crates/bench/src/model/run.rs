//! One run: which it is, the machine, what was asked for, and what each phase found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::agent::AgentUse;
use super::cpu::{CpuTime, CpuUse};
use super::latency::{Latency, LatencySummary};
use super::search::Search;

/// The version of this data model, as `schema` in the JSON. It grows by one when a reader of the old form would err.
pub const SCHEMA: u32 = 1;

/// The word for errors of a store that cannot be reached, or has no leader to answer.
pub const UNAVAILABLE: &str = "unavailable";

/// Whether an error of this kind says that the store could not answer, rather than that it answered wrongly.
#[must_use]
pub fn is_unavailable(kind: &str) -> bool {
    const REPLIES: [&str; 5] = ["NOREPLICAS", "STALE", "TIMEOUT", "UNAVAILABLE", "UNKNOWN"];
    let failed = client::Failure::ALL.iter().filter(|failure| **failure != client::Failure::Protocol);
    failed.map(|failure| failure.name()).chain(REPLIES).any(|name| name == kind)
}

/// Everything that is known about one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// [`SCHEMA`] of the program that wrote it.
    pub schema: u32,
    /// Which run this is, and how to repeat it.
    pub identity: Identity,
    /// The machine.
    pub environment: Environment,
    /// What was asked for.
    pub configuration: Configuration,
    /// What happened, in order.
    pub phases: Vec<Phase>,
    /// Whether the run came to its end.
    pub outcome: RunOutcome,
    /// What the driver wants the reader to know before the figures, in whole sentences.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Searches for a rate that the phases were trials of.
    #[serde(default)]
    pub searches: Vec<Search>,
}

/// Which run this is, and how to repeat it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Names the run among others, e.g. `2026-11-21T19-03-20Z-default`.
    pub id: String,
    /// What ran, in a word or two, e.g. `default` or `workloada`; part of the run folder's name.
    pub name: String,
    /// When it began, RFC 3339 in UTC.
    pub date: String,
    /// The version of Basalt.
    pub product_version: String,
    /// The commit that it was built from, when known.
    pub git_commit: Option<String>,
    /// The command line, one argument an element, the program first.
    pub command_line: Vec<String>,
    /// The seed from which all random choices derive.
    pub seed: u64,
}

/// The machine and the build.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Operating system and kernel, as uname tells.
    pub kernel: String,
    /// The CPU's model name.
    pub cpu_model: String,
    /// Logical cores that this process may use.
    pub cores: u32,
    /// Physical memory (or the cgroup's bound where lower).
    pub memory_bytes: u64,
    /// The disk below the data directory, e.g. its device and model; none when no data directory was ours.
    pub disk: Option<String>,
    /// The file system of the data directory, e.g. `ext4`.
    pub filesystem: Option<String>,
    /// Where client and server met.
    pub link: Link,
    /// How the client (and an embedded store) was compiled.
    pub build: BuildProfile,
}

/// Where client and server met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// The store ran inside the client's process.
    #[default]
    InProcess,
    /// Over the loopback interface: no network was measured.
    Loopback,
    /// Over a network.
    Network,
}

/// How the client was compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuildProfile {
    /// Without optimisation: its figures mean nothing.
    #[default]
    Debug,
    /// Optimised.
    Release,
}

impl BuildProfile {
    /// The profile of the program that asks.
    #[must_use]
    pub const fn current() -> Self {
        if cfg!(debug_assertions) { Self::Debug } else { Self::Release }
    }
}

/// What was asked for. Strings that do not apply to a target are `n/a`, and `unknown` when it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// The target as given, e.g. `embedded` or `redis://127.0.0.1:7000`.
    pub target: String,
    /// The product behind the target and its version, as it tells.
    pub system: String,
    /// When an acknowledged write is safe, e.g. `sync`.
    pub durability: String,
    /// How many copies, e.g. `1`.
    pub replication: String,
    /// What a read may see, e.g. `absolute`.
    pub consistency: String,
    /// How the data is compressed, e.g. `lz4`.
    pub compression: String,
    /// The store's memory budget, when it has one.
    pub memory_budget_bytes: Option<u64>,
    /// What the kernel gives all nodes together, its cache of their files included, when it is bounded.
    #[serde(default)]
    pub memory_limit_bytes: Option<u64>,
    /// The storage engine, e.g. `lsm`.
    pub engine: String,
    /// Records that the load writes.
    pub record_count: u64,
    /// Bytes of one record's fields (their mean, where the length varies), without key and field names.
    pub record_size_bytes: u64,
    /// Client connections, or threads of an embedded run.
    pub clients: u32,
    /// Requests that a client keeps in flight.
    pub pipeline_depth: u32,
    /// Threads that drive the clients.
    pub threads: u32,
    /// Connections of each thread to each node, which its clients share; 0 = one for each client, none = no sockets.
    #[serde(default)]
    pub connections: Option<u32>,
    /// Errors that do not fail the run, e.g. `unavailable`.
    #[serde(default)]
    pub tolerates: Vec<String>,
    /// How requests are paced.
    pub pacing: Pacing,
    /// Which keys are chosen, e.g. `zipfian`.
    pub distribution: String,
    /// The rule, fixed beforehand, by which a phase's warm-up ends, in words.
    pub warm_up_rule: String,
    /// What of the answers is checked, in words.
    pub verification: String,
    /// Every property of the workload, defaults included.
    pub properties: BTreeMap<String, String>,
}

/// How requests are paced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "loop")]
pub enum Pacing {
    /// A client sends its next request when the answer to the last has come.
    #[default]
    Closed,
    /// Requests start at fixed times whatever the answers do.
    Open {
        /// Operations a second that are offered.
        offered_per_s: f64,
    },
}

/// How the run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunOutcome {
    /// Every phase came to its end.
    #[default]
    Completed,
    /// The user stopped it; the phases show what had been done by then.
    Interrupted,
    /// It could not go on.
    Failed,
}

/// One phase: a load, or one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name, e.g. `load` or `A`.
    pub name: String,
    /// What it does, e.g. `50% read, 50% update, zipfian`.
    pub title: String,
    /// When its measured part began, RFC 3339 in UTC.
    pub started_at: String,
    /// When it ended, RFC 3339 in UTC.
    pub ended_at: String,
    /// Seconds of warm-up before the measured part; 0 when it had none.
    pub warm_up_s: f64,
    /// Seconds of the measured part.
    pub duration_s: f64,
    /// Operations that were completed in the measured part, failures included.
    pub operations: u64,
    /// Operations a second that succeeded over the measured part. Reports of releases before count those that failed too.
    pub throughput_per_s: f64,
    /// Operations a second that were offered; none in a closed loop.
    pub offered_per_s: Option<f64>,
    /// Operations of an open loop that were due in the measured part and not started within 5 s after it. They have no latency:
    /// each had waited for longer than that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_started: u64,
    /// Figures per operation, in YCSB's order.
    pub ops: Vec<OpStats>,
    /// CPU time that the measured part took.
    pub cpu: CpuUse,
    /// Bytes on the data directory's disk when the phase ended.
    pub disk_bytes: Option<u64>,
    /// The highest resident memory of the store's process so far (client included when embedded); of all nodes' summed.
    pub peak_rss_bytes: Option<u64>,
    /// What each node of the store used, where they can be seen.
    #[serde(default)]
    pub nodes: Vec<NodeUsage>,
    /// The longest time of the measured part without a successful read, in steps of 0.01 s; none without reads.
    #[serde(default)]
    pub read_gap_s_max: Option<f64>,
    /// The same for writes.
    #[serde(default)]
    pub write_gap_s_max: Option<f64>,
    /// The processes that made the load, when it was not one.
    #[serde(default)]
    pub agents: Vec<AgentUse>,
    /// Per-second series of each operation, warm-up included.
    pub series: Vec<OpSeries>,
    /// What the server told of itself, on the same axis.
    #[serde(default)]
    pub metrics: Vec<MetricSeries>,
    /// What happened when, on the same axis.
    #[serde(default)]
    pub events: Vec<Event>,
}

/// What one node used in the measured part of a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeUsage {
    /// Its address.
    pub name: String,
    /// CPU time, of all its processes when it was started again.
    pub cpu: Option<CpuTime>,
    /// The highest resident memory so far.
    pub peak_rss_bytes: Option<u64>,
    /// Bytes on its data directory's disk when the phase ended.
    pub disk_bytes: Option<u64>,
}

/// The figures of one kind of operation in one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpStats {
    /// The operation as YCSB spells it: `READ`, `UPDATE`, `INSERT`, `SCAN`, `READ-MODIFY-WRITE`, `DELETE`, `CLEANUP`.
    pub op: String,
    /// Latency of those that succeeded.
    pub latency: Latency,
    /// Latency of those that failed, when any did.
    #[serde(default)]
    pub failed_latency: Option<LatencySummary>,
    /// How many ended in each return code, e.g. `OK`, `NOT_FOUND`, `ERROR`; sums to all operations of this kind.
    pub returned: BTreeMap<String, u64>,
    /// Errors by their kind, e.g. the first word of the error reply, or `timeout`.
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
    /// What the store said the first time, by the kind of error; none where it said nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub error_texts: BTreeMap<String, String>,
    /// Records that had to exist and were not found.
    #[serde(default)]
    pub not_found: u64,
    /// Attempts beyond the first.
    #[serde(default)]
    pub retries: u64,
    /// Compare-and-set updates that lost a race.
    #[serde(default)]
    pub conflicts: u64,
    /// Writes that failed and may have been done all the same: a reader may find the value before or after.
    #[serde(default)]
    pub unknown: u64,
    /// Reads of a replica that did not have the record yet; the leader had it.
    #[serde(default)]
    pub stale: u64,
    /// Operations of this kind that were parts of a READ-MODIFY-WRITE, which counts itself.
    #[serde(default)]
    pub parts: u64,
    /// Those of them that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_parts: u64,
    /// Answers that were checked against what must have been written.
    #[serde(default)]
    pub verified: u64,
    /// Checked answers that were wrong.
    #[serde(default)]
    pub verification_failures: u64,
    /// The first of them in words, of any kind of operation of the phase: the operation, the key, the field, what was expected and
    /// what was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_wrong: Option<String>,
}

/// One operation's series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpSeries {
    /// The operation, as in [`OpStats::op`].
    pub op: String,
    /// In order of time, one a second.
    pub points: Vec<SeriesPoint>,
}

/// One second of one operation. The latencies are of the operations that ended in it, 0 when none did; from the
/// intended start when the loop is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// The second's beginning.
    pub t_s: f64,
    /// Operations that ended in the second (scaled to a whole one where it was cut short).
    pub ops: u64,
    /// Median latency.
    pub p50_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// The slowest.
    pub max_us: f64,
    /// Operations that failed in the second (scaled likewise).
    #[serde(default)]
    pub errors: u64,
}

/// One figure that the server tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricSeries {
    /// Its name, e.g. `compaction pending`.
    pub name: String,
    /// Its unit, e.g. `bytes`; empty for a plain number.
    pub unit: String,
    /// The node that told it; none for the store as a whole.
    #[serde(default)]
    pub node: Option<String>,
    /// In order of time.
    pub points: Vec<MetricPoint>,
}

/// One sample of a metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricPoint {
    /// When.
    pub t_s: f64,
    /// How much.
    pub value: f64,
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub t_s: f64,
    /// What, in a few words.
    pub label: String,
}

/// Figures that are seldom another than 0 are not written then: reports stay as they were.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl OpStats {
    /// Operations of this kind that succeeded.
    #[must_use]
    pub fn succeeded(&self) -> u64 {
        self.returned.get("OK").copied().unwrap_or_default()
    }

    /// Operations of this kind that did not succeed and were no parts of others.
    #[must_use]
    pub fn failed_wholes(&self) -> u64 {
        self.count().saturating_sub(self.succeeded()).saturating_sub(self.failed_parts)
    }

    /// Operations of this kind, failures included.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.returned.values().sum()
    }

    /// Operations that failed, not-found excluded.
    #[must_use]
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }
}

impl Phase {
    /// CPU seconds for a million operations: of the whole CPU time given, none when nothing was done.
    #[must_use]
    pub fn per_million(&self, cpu_s: f64) -> Option<f64> {
        let succeeded = self.succeeded();
        (succeeded > 0).then(|| cpu_s * 1e6 / succeeded as f64)
    }

    /// All known CPU seconds for a million operations.
    #[must_use]
    pub fn cpu_s_per_million(&self) -> Option<f64> {
        self.cpu.total_s().and_then(|total| self.per_million(total))
    }

    /// Operations a second that one core gives that does nothing else, all known CPU time counted.
    #[must_use]
    pub fn per_core_s(&self) -> Option<f64> {
        self.cpu.total_s().filter(|total| *total > 0.0).map(|total| self.succeeded() as f64 / total)
    }

    /// Operations that did not succeed: errors, missing records and wrong answers.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.ops.iter().map(OpStats::failed_wholes).sum()
    }

    /// Operations that succeeded: rates are of them, for an error may cost next to nothing.
    #[must_use]
    pub fn succeeded(&self) -> u64 {
        self.operations.saturating_sub(self.failed())
    }

    /// Failed operations of all kinds.
    #[must_use]
    pub fn error_count(&self) -> u64 {
        self.ops.iter().map(OpStats::error_count).sum()
    }

    /// Writes that may have been done.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.ops.iter().map(|op| op.unknown).sum()
    }

    /// Records that had to exist and were not found.
    #[must_use]
    pub fn not_found(&self) -> u64 {
        self.ops.iter().map(|op| op.not_found).sum()
    }

    /// Answers that were wrong.
    #[must_use]
    pub fn verification_failures(&self) -> u64 {
        self.ops.iter().map(|op| op.verification_failures).sum()
    }
}

impl Configuration {
    /// Bytes of all records' fields.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.record_count.saturating_mul(self.record_size_bytes)
    }
}

impl RunReport {
    /// Whether an error of this kind does not fail the run.
    #[must_use]
    pub fn tolerates(&self, kind: &str) -> bool {
        self.configuration.tolerates.iter().any(|word| word == UNAVAILABLE) && is_unavailable(kind)
    }

    /// Whether it ended as it should, without an error that is not tolerated, a missing record or a wrong answer: the
    /// exit code's question.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        // Trials of a search at more than the store takes may fail: that is what they are for.
        let searched = !self.searches.is_empty();
        let is_tolerated = |(kind, times): (&String, &u64)| *times == 0 || searched || self.tolerates(kind);
        let clean = |phase: &Phase| {
            phase.not_found() + phase.verification_failures() == 0
                && phase.ops.iter().all(|op| op.errors.iter().all(is_tolerated))
        };
        self.outcome == RunOutcome::Completed && self.phases.iter().all(clean)
    }
}
