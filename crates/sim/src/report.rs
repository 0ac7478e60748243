//! What a node tells the director of itself, twice a second.

use crate::host::Host;
use node::Shard;
use node::peer_protocol::{LeaderReport, MemberReport, NodeFigures, NodeReport, ReplicaReport};
use replica::DiskState;
use vocab::{Moment, ReplicaId};

/// What rows count for, in bytes: enough that shards differ.
const ROW_BYTES: u64 = 1 << 20;

/// The report of a node that runs.
#[must_use]
pub fn of(host: &Host, now: Moment) -> NodeReport {
    let Some(process) = &host.process else { return NodeReport::default() };
    let replicas = process.core.shards().map(one);
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

fn one(shard: &Shard) -> ReplicaReport {
    let (view, replica) = (shard.handle(), shard.replica());
    let status = replica.status();
    ReplicaReport {
        shard: view.id(),
        replica: replica.me(),
        bytes: view.engine().stats().entries_approx * ROW_BYTES,
        keys: view.key_count(),
        applied: status.applied,
        last: status.last,
        term: status.term,
        leads: (replica.serves() && shard.broken().is_none()).then(|| leads(shard)),
        division: view.division(),
        broken: shard.broken().map(str::to_owned),
    }
}

fn leads(shard: &Shard) -> LeaderReport {
    let replica = shard.replica();
    let members = replica.members();
    let followers = replica.followers();
    let mut ids: Vec<ReplicaId> = [&members.voters[..], &members.voters_outgoing, &members.learners].concat();
    ids.sort_unstable();
    ids.dedup();
    let status = replica.status();
    let member = |id: ReplicaId| {
        let of = followers.iter().find(|follower| follower.id == id);
        let me = id == replica.me();
        MemberReport {
            id,
            votes: !members.learners.contains(&id),
            active: me || of.is_some_and(|of| of.active),
            matched: if me { status.last } else { of.map_or(0, |of| of.matched) },
        }
    };
    LeaderReport {
        index: status.applied,
        joint: !members.voters_outgoing.is_empty(),
        members: ids.into_iter().map(member).collect(),
    }
}
