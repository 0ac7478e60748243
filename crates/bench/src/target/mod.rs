//! Systems under test: what a driver needs of one, and the ones there are.

pub(crate) mod adapter;
mod canned;
mod collections;
mod embedded;
mod first_wrong;
mod info_client;
mod lane;
#[cfg(test)]
pub(crate) mod map_store;
mod nodes;
mod noop;
mod noop_server;
mod outcome;
mod packed;
mod redis;
mod replies;
mod requests;
mod session;
mod socket;
mod table;
mod transport;

use std::sync::Arc;

use crate::model::CpuTime;
use crate::workload::Workload;

pub(crate) use adapter::check_frame;
pub use adapter::{AdapterTarget, AdapterUrl, DATA_VARIABLE};
pub use canned::NoopShape;
pub use embedded::{EmbeddedHandle, EmbeddedStore, EmbeddedTarget};
pub use info_client::InfoFields;
pub use noop::NoopTarget;
pub use noop_server::NoopServer;
pub use outcome::{Completion, Fault, OpOutcome, OpStage, StoreError};
pub use redis::{RedisOptions, RedisTarget};
pub use session::Session;
pub use table::{Reach, TARGETS, TargetRow, target_help, targets_expected};

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
    /// The memory budget, when there is one; of all nodes together.
    pub memory_budget_bytes: Option<u64>,
    /// Connections of each thread to each node, where there are connections.
    pub connections: Option<u32>,
}

/// What one node of a target has used so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeUse {
    /// Its address.
    pub name: String,
    /// CPU time of all processes that it has been, as far as they were seen.
    pub cpu: Option<CpuTime>,
    /// The highest resident memory of one of them.
    pub peak_rss_bytes: Option<u64>,
    /// Bytes on the disk of its data directory.
    pub disk_bytes: Option<u64>,
}

/// What a target's processes have used so far, as far as it can be told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetUsage {
    /// CPU time, when the store is other processes; none unless all of them are known.
    pub server_cpu: Option<CpuTime>,
    /// Bytes on the disk of the data directories.
    pub disk_bytes: Option<u64>,
    /// The highest resident memory of the other processes, summed.
    pub peak_rss_bytes: Option<u64>,
    /// The same by node, where the store has nodes.
    pub nodes: Vec<NodeUse>,
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

    /// What processes beside this one have used so far for the client's part of the work.
    fn client_cpu(&self) -> Option<CpuTime> {
        None
    }

    /// Called about once a second while a phase runs, for a target whose processes come and go.
    fn look(&self) {}

    /// The processes of its nodes that are on this machine, by the nodes' names. Called about once a second while a phase
    /// runs, by a thread of its own.
    fn processes(&self) -> Vec<(String, u32)> {
        Vec::new()
    }

    /// What its nodes tell of themselves now, by their names. Called likewise.
    fn node_infos(&self) -> Vec<(String, InfoFields)> {
        Vec::new()
    }

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
