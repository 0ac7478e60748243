//! What one process of a load that several made together did and used.

use serde::{Deserialize, Serialize};

use super::CpuTime;

/// One agent in one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentUse {
    /// Its address.
    pub name: String,
    /// Its program's version.
    pub version: String,
    /// Operations of the measured part.
    pub operations: u64,
    /// Operations a second.
    pub throughput_per_s: f64,
    /// The 99th percentile of its slowest kind of operation: one agent that is far off the others is worth a look.
    pub p99_us: f64,
    /// Threads that drove its clients.
    pub threads: u32,
    /// Cores of its machine.
    pub cores: u32,
    /// CPU time of the measured part.
    #[serde(default)]
    pub cpu: Option<CpuTime>,
    /// The share of the time in which its threads were busy, of as many cores as they can use.
    #[serde(default)]
    pub busy_share: Option<f64>,
    /// The share in which all cores of its machine were busy, with any process.
    #[serde(default)]
    pub machine_busy_share: Option<f64>,
    /// Its time of day less the coordinator's, before the phase.
    pub clock_offset_us: f64,
    /// The fastest way there and back: the clocks are compared to half of it.
    pub round_trip_us: f64,
    /// By how much its clock ran ahead of the coordinator's from their first comparison to the end of the phase.
    #[serde(default)]
    pub clock_drift_us: Option<f64>,
    /// Why it was lost, if it was.
    #[serde(default)]
    pub lost: Option<String>,
}

impl AgentUse {
    /// An agent busier than this measures itself.
    pub const SATURATED_SHARE: f64 = 0.85;

    /// Whether it was too busy for its figures to be the store's.
    #[must_use]
    pub fn is_saturated(&self) -> bool {
        self.busy_share.is_some_and(|busy| busy > Self::SATURATED_SHARE)
    }
}
