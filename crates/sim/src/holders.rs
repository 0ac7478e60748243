//! Who holds an entry, by the logs of all nodes: for what is told of that, and for what may be lost.

use crate::event::Place;
use crate::history::Operation;
use crate::schedule::SECOND;
use crate::world::{Outcome, World, node_id, place_of};
use node::Ticket;
use node::session::Acks;
use replica::{LogStore, Members};
use vocab::{NodeId, ReplicaId, ShardId};

/// A node that has been down for so long is known to be.
const KNOWN_AFTER: u64 = 10 * SECOND;

impl World {
    /// Whether a replica's log has an entry, or had it and could let go of it.
    fn holds(&self, shard: ShardId, replica: ReplicaId, index: u64, term: Option<u64>) -> bool {
        let Some(node) = self.maps.node_of(shard, replica) else { return false };
        let log = &self.hosts[place_of(node)].disk.log;
        let Ok(Some(state)) = log.state(shard) else { return false };
        if state.replica != replica {
            return false;
        }
        let same = |term: u64| {
            let found = log.fetch(shard, index, index + 1, u64::MAX).unwrap_or_default();
            found.first().is_some_and(|entry| entry.term == term)
        };
        state.truncated.0 >= index || (state.bounds.1 >= index && term.is_none_or(same))
    }

    /// A shard's members have changed, as one of its replicas has applied.
    pub(crate) fn removed(&mut self, shard: ShardId, index: u64, members: &Members) -> Outcome {
        if !members.voters_outgoing.is_empty() {
            return Ok(());
        }
        let now = self.now();
        let (maps, hosts) = (&self.maps, &self.hosts);
        let down = |node: NodeId| hosts[place_of(node)].down_since.is_some_and(|since| now > since + KNOWN_AFTER);
        let is_dead = |id: ReplicaId| maps.node_of(shard, id).is_some_and(down);
        self.removals.changed(shard, index, &members.voters, is_dead)
    }

    /// What WAIT would count holds the write, and with acks of all every voter does.
    pub(crate) fn check_holders(&self, place: Place, shard: ShardId, ticket: &Ticket, told: &Operation) -> Outcome {
        let Some(version) = told.version().filter(|_| self.plan.sync) else { return Ok(()) };
        let process = self.hosts[place].process.as_ref();
        let Some(here) = process.and_then(|process| process.core.shard(shard)) else { return Ok(()) };
        let (me, voters) = (here.replica().me(), here.replica().members().voters);
        let holding = voters.iter().filter(|id| **id != me && self.holds(shard, **id, version, None)).count() as u64;
        let counted = here.view().followers_with(version);
        if counted > holding {
            return Err(format!("{counted} followers are told to hold entry {version}, {holding} do: {told}"));
        }
        // Who votes since then was not asked.
        let as_then = self.removals.newest(shard) < version;
        if ticket.acks == Acks::All && as_then && here.replica().is_leader() && holding + 1 < voters.len() as u64 {
            return Err(format!("acknowledged as held by all of {voters:?}, and {holding} followers do: {told}"));
        }
        Ok(())
    }

    /// Whether a majority of the others holds everything that a node's log has: then nothing is lost with what it did not
    /// fsync.
    pub(crate) fn may_lose_power(&self, place: Place) -> bool {
        let log = &self.hosts[place].disk.log;
        log.groups().into_iter().all(|shard| {
            let Ok(Some(state)) = log.state(shard) else { return true };
            let last = state.bounds.1;
            if last <= state.truncated.0 {
                return true;
            }
            let term = log.fetch(shard, last, last + 1, u64::MAX).ok().and_then(|entries| Some(entries.first()?.term));
            let members = Members::from(&state.conf_state);
            let others = members
                .voters
                .iter()
                .filter(|id| **id != state.replica && self.maps.node_of(shard, **id) != Some(node_id(place)));
            let holding = others.filter(|id| self.holds(shard, **id, last, term)).count();
            members.voters_outgoing.is_empty() && holding > members.voters.len() / 2
        })
    }
}
