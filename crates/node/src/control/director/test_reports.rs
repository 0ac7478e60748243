//! What nodes report, for tests.

use crate::peer_protocol::{LeaderReport, NodeFigures, NodeReport, ReplicaReport};
use cluster::Map;
use vocab::{NodeId, ShardId};

/// What a node reports that leads the shards `leads`; all of its replicas are damaged if `damaged`.
pub(super) fn report_of(map: &Map, node: NodeId, leads: &[ShardId], damaged: bool) -> NodeReport {
    let replicas = map.replicas_on(node).map(|(shard, replica)| ReplicaReport {
        shard,
        replica: replica.id,
        bytes: 1,
        is_halved: false,
        keys: 1,
        applied: 1,
        last: 1,
        last_term: 1,
        term: 1,
        leads: leads.contains(&shard).then(LeaderReport::default),
        division: None,
        broken: damaged.then(|| "damaged".to_owned()),
    });
    let figures = NodeFigures { can_write: true, started_ms: 1, ..NodeFigures::default() };
    NodeReport { figures, replicas: replicas.collect(), transfers: Vec::new() }
}
