//! The group of a replica: on which nodes its members are, who leads, and what a leader tells of its followers.

use crate::peer_protocol::{LeaderReport, MemberReport};
use crate::shard_handle::ShardHandle;
use replica::{FollowerState, Replica};
use vocab::{NodeId, ReplicaId};

/// Who leads, as of a term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeaderNews {
    /// The leader's node, if one leads.
    pub(super) node: Option<NodeId>,
    pub(super) term: u64,
}

/// What one replica knows of its group beside the log.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// On which nodes the replicas are, as the map says.
    nodes: Vec<(ReplicaId, NodeId)>,
    /// The leader as it was last told to the shell.
    told: LeaderNews,
}

impl Group {
    /// The map says where the replicas are. The leader is told again: its node may be known only now.
    pub(super) fn place(&mut self, nodes: Vec<(ReplicaId, NodeId)>) {
        self.nodes = nodes;
        self.told.term = 0;
    }

    pub(super) fn node_of(&self, replica: ReplicaId) -> Option<NodeId> {
        self.nodes.iter().find(|(id, _)| *id == replica).map(|(_, node)| *node)
    }

    pub(super) fn replica_on(&self, node: NodeId) -> Option<ReplicaId> {
        self.nodes.iter().find(|(_, on)| *on == node).map(|(id, _)| *id)
    }

    /// The nodes of all its replicas.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().map(|(_, node)| *node)
    }

    /// The node of the replica that leads, as far as is known.
    pub(super) fn leader_node(&self, replica: &Replica) -> Option<NodeId> {
        self.node_of(replica.leader()?)
    }

    /// Who leads, if that is not what was told last.
    pub(super) fn leader_news(&mut self, replica: &Replica) -> Option<LeaderNews> {
        self.news(LeaderNews { node: self.leader_node(replica), term: replica.term() })
    }

    fn news(&mut self, now: LeaderNews) -> Option<LeaderNews> {
        (now != self.told).then(|| {
            self.told = now;
            now
        })
    }
}

/// Tells what followers hold, for WAIT and for the director.
pub(super) fn tell_followers(replica: &Replica, handle: &ShardHandle) {
    let leads = replica.is_leader();
    let followers = if leads { replica.followers() } else { Vec::new() };
    let heard = followers.iter().filter(|follower| follower.active && !follower.learner);
    let term = if leads { replica.term() } else { 0 };
    handle.followers().tell(term, heard.map(|follower| follower.matched).collect());
    handle.set_group(leads.then(|| report(replica, &followers)));
}

fn report(replica: &Replica, followers: &[FollowerState]) -> LeaderReport {
    let (members, status) = (replica.members(), replica.status());
    let mut ids = [&members.voters[..], &members.voters_outgoing, &members.learners].concat();
    ids.sort_unstable();
    ids.dedup();
    let member = |id: ReplicaId| {
        let follower = followers.iter().find(|follower| follower.id == id);
        MemberReport {
            id,
            votes: !members.learners.contains(&id),
            active: follower.is_none_or(|follower| follower.active),
            matched: follower.map_or(status.last, |follower| follower.matched),
        }
    };
    LeaderReport {
        index: status.applied,
        joint: !members.voters_outgoing.is_empty(),
        members: ids.into_iter().map(member).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_of_the_leader_are_told_once_and_again_after_the_map_has_placed_the_replicas() {
        let mut group = Group::default();
        let led = |node: u64, term: u64| LeaderNews { node: Some(NodeId(node)), term };
        assert_eq!(group.news(LeaderNews::default()), None, "none leads, which needs no telling");
        for (now, expected) in [(led(2, 1), Some(led(2, 1))), (led(2, 1), None), (led(3, 1), Some(led(3, 1)))] {
            assert_eq!(group.news(now), expected);
        }
        group.place(vec![(ReplicaId(1), NodeId(7)), (ReplicaId(2), NodeId(8))]);
        assert_eq!((group.news(led(3, 1)), group.news(led(3, 1))), (Some(led(3, 1)), None));
        assert_eq!((group.node_of(ReplicaId(2)), group.node_of(ReplicaId(3))), (Some(NodeId(8)), None));
        assert_eq!((group.replica_on(NodeId(7)), group.replica_on(NodeId(1))), (Some(ReplicaId(1)), None));
        assert!(group.nodes().eq([NodeId(7), NodeId(8)]));
    }
}
