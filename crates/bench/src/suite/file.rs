//! A suite as its file has it: TOML that people read and change. docs/BENCH.md describes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::model::{ActionFile, StoreFile, TableFile};

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
    /// Looks for the highest rate that keeps an SLO.
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
