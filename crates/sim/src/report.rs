//! What a node tells the director of itself, twice a second.

use crate::host::Host;
use node::peer_protocol::{NodeFigures, NodeReport, ReplicaReport};
use replica::DiskState;
use vocab::Moment;

/// The report of a node that runs.
#[must_use]
pub fn of(host: &Host, now: Moment) -> NodeReport {
    let Some(process) = &host.process else { return NodeReport::default() };
    let replicas = process.core.shards().map(|shard| shard.handle().report(shard.replica().me()));
    let refused = process.refused.iter();
    let refused = refused.map(|(&(shard, replica), why)| ReplicaReport::broken(shard, replica, why.clone()));
    let figures = NodeFigures {
        started_ms: now.wall_ms,
        can_write: process.log.health().state() == DiskState::Healthy,
        version: "simulated".to_owned(),
        ..NodeFigures::default()
    };
    NodeReport { figures, replicas: replicas.chain(refused).collect(), transfers: Vec::new() }
}
