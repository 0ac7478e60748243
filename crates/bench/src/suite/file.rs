//! A suite as its file has it: TOML that people read and change. docs/BENCH.md describes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// A whole file. Parts keep their names unfilled: a scale fills them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SuiteFile {
    /// A word for it.
    pub(crate) name: String,
    /// What it is, in a line.
    pub(crate) title: String,
    /// What it is for, in a paragraph.
    pub(crate) about: String,
    /// What differs from the published experiment, beyond what the machine tells itself.
    #[serde(default)]
    pub(crate) differs: Vec<String>,
    /// Parts run in this order.
    #[serde(default)]
    pub(crate) order: Order,
    /// Values for names, by the scale's name.
    pub(crate) scales: BTreeMap<String, ScaleFile>,
    /// What every step of the suite has that does not say otherwise.
    #[serde(default)]
    pub(crate) every_step: Table,
    /// Each a store and what is done with it.
    #[serde(rename = "part")]
    pub(crate) parts: Vec<Table>,
    /// What the report shows first.
    #[serde(default, rename = "table")]
    pub(crate) tables: Vec<TableFile>,
}

/// In which order parts run.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// As they stand in the file.
    #[default]
    Given,
    /// At random, from the seed.
    Random,
}

/// One scale.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ScaleFile {
    /// How long it takes on which machine, in words.
    pub(crate) takes: String,
    /// Values for names.
    #[serde(flatten)]
    pub(crate) names: BTreeMap<String, Value>,
}

/// A store and what is done with it, one step after the other; the steps are read apart from it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct PartFile {
    /// What it is called; unique.
    pub(crate) name: String,
    /// The report draws one timeline of all its steps.
    #[serde(default)]
    pub(crate) timeline: bool,
    /// The store.
    pub(crate) store: StoreFile,
}

/// A store to be started.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct StoreFile {
    /// `basalt`, `embedded`, `noop`, or a peer such as `redis`.
    pub system: String,
    /// How many nodes.
    pub nodes: u16,
    /// How many shards.
    pub shards: u32,
    /// How many replicas of each shard; three, or one a node if there are fewer.
    pub replication_factor: Option<u16>,
    /// `sync` or `nosync`.
    pub durability: String,
    /// `lsm` or `memory`.
    pub engine: String,
    /// Memory of each node, such as `256M`.
    pub memory: String,
    /// Megabytes that the kernel gives each node, its cache of the node's files included; 0 = no bound.
    pub memory_limit_mb: u64,
    /// Where the data lies: on the run folder's disk, or on one that is slowed down.
    pub disk: DiskFile,
    /// Further settings of every node.
    pub set: BTreeMap<String, Value>,
    /// Settings of the system that are not equal to the others', in words, for the report.
    pub differs: Vec<String>,
}

/// Where a store's data lies.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskFile {
    /// In the run folder.
    #[default]
    Own,
    /// On a device that is slowed down as a spinning disk would be: an emulation.
    Slow,
}

/// One step of a part.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct StepFile {
    /// What it is called; unique within its part. What it does, if not given.
    pub(crate) name: Option<String>,
    /// What it does.
    pub(crate) does: Does,
    /// A built-in workload or a property file.
    pub(crate) workload: Option<String>,
    /// Properties of the workload.
    #[serde(default)]
    pub(crate) properties: BTreeMap<String, Value>,
    pub(crate) clients: Option<usize>,
    pub(crate) depth: Option<usize>,
    pub(crate) threads: Option<usize>,
    /// Client processes of this machine that make the load together.
    pub(crate) processes: Option<u16>,
    pub(crate) connections: Option<usize>,
    /// Operations a second that are offered; with `rate-of` a share of what that step of the part has reached.
    pub(crate) rate: Option<f64>,
    pub(crate) rate_of: Option<String>,
    pub(crate) arrivals: Option<String>,
    pub(crate) warm_up: Option<String>,
    pub(crate) duration: Option<String>,
    pub(crate) timeout: Option<String>,
    pub(crate) retry_for: Option<String>,
    #[serde(default)]
    pub(crate) tolerate: Vec<String>,
    pub(crate) read_from: Option<String>,
    pub(crate) durability: Option<String>,
    pub(crate) acks: Option<String>,
    /// What `does = "search"` looks for, such as `p99 < 5ms`.
    pub(crate) goal: Option<String>,
    /// What is done to the store meanwhile.
    #[serde(default, rename = "event")]
    pub(crate) events: Vec<EventFile>,
    /// What `does = "act"` does to the store.
    #[serde(default)]
    pub(crate) action: Option<ActionFile>,
    /// The published row that this step repeats: `report`, and values that its row has.
    #[serde(default)]
    pub(crate) published: BTreeMap<String, Value>,
    /// Values that tables show of it.
    #[serde(default)]
    pub(crate) shows: BTreeMap<String, Value>,
}

/// What a step does.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Does {
    /// Inserts the workload's records.
    Load,
    /// Runs the workload.
    Run,
    /// Looks for the highest rate that keeps a promise.
    Search,
    /// Removes the workload's records.
    Delete,
    /// Waits until flushes, compactions and plans are done.
    Settle,
    /// Does something to the store.
    Act,
}

impl Does {
    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Run => "run",
            Self::Search => "search",
            Self::Delete => "delete",
            Self::Settle => "settle",
            Self::Act => "act",
        }
    }
}

/// Something that is done to the store while a phase runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct EventFile {
    /// When, from the beginning of the phase, its warm-up included.
    pub(crate) at: String,
    /// What.
    #[serde(flatten)]
    pub(crate) action: ActionFile,
}

/// What can be done to a store.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum ActionFile {
    /// Ends a node at once.
    Kill {
        /// From 1 on.
        node: usize,
    },
    /// Holds a node's process up.
    Pause {
        /// From 1 on.
        node: usize,
    },
    /// Lets it go on.
    Resume {
        /// From 1 on.
        node: usize,
    },
    /// Starts a node again that was killed, or stops and starts one that runs.
    Restart {
        /// From 1 on.
        node: usize,
    },
    /// Adds a node, which takes shards by itself.
    AddNode,
    /// Cuts a node off from the others.
    Partition {
        /// From 1 on.
        node: usize,
    },
    /// Ends that.
    Heal {
        /// From 1 on.
        node: usize,
    },
    /// Restarts all nodes in turn and empties the system's cache of their files: what is read next comes from the disk.
    FlushCache,
    /// `basalt ctl` with these arguments, such as `["plan", "split", "3"]`.
    Ctl {
        /// Its arguments, without the store's address.
        args: Vec<String>,
    },
}

/// A table of the report.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TableFile {
    /// Above it.
    pub title: String,
    /// What its rows are.
    #[serde(default)]
    pub kind: TableKind,
    /// The steps that it shows, by the beginnings of their names; all that measured, if none is given.
    #[serde(default)]
    pub steps: Vec<String>,
    /// Its columns: values that steps show, and figures.
    #[serde(default)]
    pub columns: Vec<String>,
    /// A sentence below it.
    #[serde(default)]
    pub remark: String,
}

/// What a table's rows are.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TableKind {
    /// One row a step, and the published one below it.
    #[default]
    Steps,
    /// One row an operation of a step: the latency at falling percentiles.
    Percentiles,
    /// One row a group of steps that show the same values: medians of several runs and how far they scatter.
    Medians,
}
