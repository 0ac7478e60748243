//! What a suite's run found, and the stores and tables that its file names: what its folder keeps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Value;

use super::{Environment, Event, Identity, Phase, RunOutcome, RunReport};

/// What a whole suite's run is, but for its steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SuiteRecord {
    /// The layout of this folder.
    pub schema: u32,
    /// Which run this is, and how to repeat it.
    pub identity: Identity,
    /// The machine that it ran on.
    pub environment: Environment,
    /// The suite's word.
    pub name: String,
    /// What it is, in a line.
    pub title: String,
    /// What it is for.
    pub about: String,
    /// What differs from the published experiment, as the file says.
    pub differs: Vec<String>,
    /// The scale.
    pub scale: String,
    /// How long the file says that it takes.
    pub takes: String,
    /// The scale's values.
    pub names: BTreeMap<String, String>,
    /// What is shown first.
    pub tables: Vec<TableFile>,
    /// How the last run ended.
    pub outcome: RunOutcome,
    /// What the reader must know.
    pub notes: Vec<String>,
}

/// One step that has been taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The part's number and name.
    pub part: (usize, String),
    /// The step's number and name within it.
    pub step: (usize, String),
    /// What it did, in a word.
    pub does: String,
    /// The store's system, as the suite names it.
    pub system: String,
    /// The part is to be drawn as one timeline.
    pub timeline: bool,
    /// Values that tables show.
    pub shows: BTreeMap<String, String>,
    /// The published row that it repeats.
    pub published: BTreeMap<String, Value>,
    /// What the reader must know of it.
    pub notes: Vec<String>,
    /// Whether it came to its end. What is not done is done again when the run is resumed.
    pub done: bool,
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// How long it took.
    pub took_s: f64,
    /// What was done to the store in it, seconds after its beginning; a phase has its own in its report.
    pub events: Vec<Event>,
    /// What was measured, if it measured.
    pub report: Option<RunReport>,
}

impl StepRecord {
    /// The phase that stands for the step: the one that it measured; of a search a trial that held at the rate that was
    /// found, and none if none was found.
    #[must_use]
    pub fn phase(&self) -> Option<&Phase> {
        let report = self.report.as_ref()?;
        let Some(search) = report.searches.first() else { return report.phases.first() };
        let best = search.best_per_s?;
        let mut held = search.trials.iter().rev().filter(|tried| tried.holds && tried.offered_per_s == best);
        let name = &held.next()?.phase;
        report.phases.iter().find(|phase| phase.name == *name)
    }
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

/// A value as a text has it.
#[must_use]
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        Value::Datetime(when) => when.to_string(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Table(table) => {
            table.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect::<Vec<_>>().join(", ")
        }
    }
}
