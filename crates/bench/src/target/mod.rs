//! Systems under test: what a driver needs of one, and the ones there are.

mod embedded;
#[cfg(test)]
pub(crate) mod map_store;
mod noop;
mod outcome;
mod packed;
mod redis;
mod replies;
mod session;
mod socket;
mod transport;

use std::sync::Arc;

use crate::model::CpuTime;
use crate::workload::Workload;

pub use embedded::{EmbeddedHandle, EmbeddedStore, EmbeddedTarget};
pub use noop::{NoopServer, NoopShape, NoopTarget};
pub use outcome::{Completion, Fault, Outcome, Part};
pub use redis::RedisTarget;
pub use session::Session;

/// One thread's share of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// Clients.
    pub clients: usize,
    /// Operations that each keeps in flight.
    pub depth: usize,
}

impl Lanes {
    /// Operations in flight at most.
    #[must_use]
    pub fn count(self) -> usize {
        self.clients * self.depth
    }
}

/// What a target tells of itself, for the report. `unknown` where it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetFacts {
    /// Product and version.
    pub system: String,
    /// When an acknowledged write is safe.
    pub durability: String,
    /// How many copies.
    pub replication: String,
    /// What a read may see.
    pub consistency: String,
    /// How the data is compressed.
    pub compression: String,
    /// The storage engine.
    pub engine: String,
    /// The memory budget, when there is one.
    pub memory_budget_bytes: Option<u64>,
}

/// What a target's process has used so far, as far as it can be told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TargetUsage {
    /// CPU time, when the store is another process.
    pub server_cpu: Option<CpuTime>,
    /// Bytes on the disk of the data directory.
    pub disk_bytes: Option<u64>,
    /// The highest resident memory of another process.
    pub peak_rss_bytes: Option<u64>,
}

/// A system under test.
pub trait Target: Sync {
    /// As it was given, e.g. `redis://127.0.0.1:7000`.
    fn name(&self) -> String;

    /// Whether client and store share a process.
    fn in_process(&self) -> bool;

    /// Whether values are checked. Only a target without a store may say no.
    fn verifies(&self) -> bool {
        true
    }

    /// What it tells of itself.
    fn facts(&self) -> TargetFacts;

    /// What it has used so far.
    fn usage(&self) -> TargetUsage;

    /// The data directory, when it is on this machine.
    fn data_dir(&self) -> Option<&std::path::Path> {
        None
    }

    /// Opens one thread's way to it.
    ///
    /// # Errors
    /// It cannot be reached, or cannot do what the workload asks.
    fn open(&self, workload: &Arc<Workload>, lanes: Lanes) -> std::io::Result<Box<dyn Session>>;
}
