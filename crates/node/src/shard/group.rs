//! A replica as a part of its group: it hands over, changes members, and tells what it knows of the others.

use super::Shard;
use crate::peer_protocol::{LeaderReport, MemberReport};
use replica::{FollowerState, MemberChange};
use vocab::ReplicaId;

impl Shard {
    /// Hands leadership over to another replica; false if that cannot be begun.
    pub fn transfer(&mut self, to: ReplicaId) -> bool {
        if !self.replica.serves() || self.replica.is_transferring() {
            return false;
        }
        self.lease.spend(&self.replica, &self.view);
        self.replica.transfer_leader(to)
    }

    /// Proposes another set of members; false if this replica cannot.
    pub fn change_members(&mut self, changes: &[MemberChange]) -> bool {
        if !self.replica.serves() {
            return false;
        }
        // A group of one had a lease without end.
        self.lease.end(&self.view);
        match self.replica.propose_members(changes, Vec::new()) {
            Ok(_) => true,
            Err(e) => {
                log::warn!("shard {}: its members cannot be changed now: {e}", self.view.id());
                false
            }
        }
    }

    /// What followers hold: for WAIT, and for the director. Told about once a second even if unasked.
    pub(crate) fn tell_followers(&self) {
        let leads = self.replica.is_leader();
        let followers = if leads { self.replica.followers() } else { Vec::new() };
        let heard = followers.iter().filter(|follower| follower.active && !follower.learner);
        self.view.set_followers(heard.map(|follower| follower.matched).collect());
        self.view.set_group(leads.then(|| self.group(&followers)));
    }

    fn group(&self, followers: &[FollowerState]) -> LeaderReport {
        let (members, status) = (self.replica.members(), self.replica.status());
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
}
