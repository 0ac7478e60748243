//! The plan of a phase, made before it begins.

use std::time::Duration;

use super::error_streak::OnlyErrors;
use super::events::EventLog;
use super::pace::Pace;

/// Where a stage of a phase ends: at whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limit {
    /// After so many operations.
    pub operations: Option<u64>,
    /// After so long.
    pub time: Option<Duration>,
}

/// What a phase is to do.
#[derive(Clone, Debug)]
pub struct PhasePlan {
    /// Its name in reports.
    pub name: String,
    /// What it does, in a few words.
    pub title: String,
    /// Clients of all threads together.
    pub clients: usize,
    /// Operations that each keeps in flight.
    pub depth: usize,
    /// Threads that drive them.
    pub threads: usize,
    /// How operations are paced.
    pub pace: Pace,
    /// What is done before anything counts; none = no warm-up.
    pub warm_up: Option<Limit>,
    /// What counts.
    pub measure: Limit,
    /// The seed from which all random choices derive.
    pub seed: u64,
    /// Whether to keep each second's histograms.
    pub keeps_log: bool,
    /// What happens meanwhile.
    pub events: EventLog,
    /// What it does when nothing but one error comes back.
    pub only_errors: OnlyErrors,
}
