//! All nodes of a store, and questions about several of them: which one leads, which ones hold an entry.

use crate::checkers::{Checkers, Outcome};
use crate::history::Operation;
use crate::host::Host;
use crate::places::{Place, node_id, place_of};
use crate::schedule::{Micros, SECOND};
use cluster::{Map, ReplicaInfo, ShardInfo};
use node::Ticket;
use node::session::Acks;
use replica::{LogStore, Members};
use std::ops::{Index, IndexMut};
use vocab::{NodeId, ReplicaId, ShardId};

/// A node that has been down for so long is known to be.
const KNOWN_AFTER: Micros = 10 * SECOND;

/// What a node whose power failed has yet to get again.
pub struct Refill {
    place: Place,
    /// How far the log of each shard went.
    ends: Vec<(ShardId, u64)>,
}

/// The nodes of a store, by their places.
pub struct Nodes(Vec<Host>);

impl Index<Place> for Nodes {
    type Output = Host;

    fn index(&self, place: Place) -> &Host {
        &self.0[place]
    }
}

impl IndexMut<Place> for Nodes {
    fn index_mut(&mut self, place: Place) -> &mut Host {
        &mut self.0[place]
    }
}

impl Nodes {
    /// These nodes.
    #[must_use]
    pub fn new(hosts: Vec<Host>) -> Self {
        Self(hosts)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Host> {
        self.0.iter()
    }

    /// All of them, in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Host> {
        self.0.iter_mut()
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// A shard's replica on a node that runs.
    #[must_use]
    pub fn shard(&self, place: Place, shard: ShardId) -> Option<&node::Shard> {
        self.0[place].process.as_ref()?.core.shard(shard)
    }

    /// The node that leads a shard, as the first node has it that believes to lead in the newest term.
    #[must_use]
    pub fn leader_place(&self, shard: ShardId) -> Option<Place> {
        let leads = |place: &Place| {
            let replica = self.shard(*place, shard)?.replica();
            replica.is_leader().then(|| replica.term())
        };
        let found = (0..self.0.len()).filter_map(|place| Some((leads(&place)?, place)));
        found.max_by_key(|(term, place)| (*term, usize::MAX - place)).map(|(_, place)| place)
    }

    /// Whether a node has been down for so long that this is known.
    #[must_use]
    pub fn is_known_down(&self, node: NodeId, now: Micros) -> bool {
        self.0[place_of(node)].down_since.is_some_and(|since| now > since + KNOWN_AFTER)
    }

    /// Whether a replica's log has an entry, or had it and could let go of it.
    fn holds(&self, node: Option<NodeId>, shard: ShardId, replica: ReplicaId, index: u64, term: Option<u64>) -> bool {
        let Some(node) = node else { return false };
        let log = &self.0[place_of(node)].disk.log;
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

    /// What WAIT would count holds the write, and with acks of all every voter does.
    pub fn check_holders(
        &self,
        place: Place,
        shard: ShardId,
        ticket: &Ticket,
        told: &Operation,
        checks: &Checkers,
    ) -> Outcome {
        let Some(version) = told.version() else { return Ok(()) };
        let Some(here) = self.shard(place, shard) else { return Ok(()) };
        let (me, voters) = (here.replica().me(), here.replica().members().voters);
        let holds = |id: &&ReplicaId| **id != me && self.holds(checks.node_of(shard, **id), shard, **id, version, None);
        let holding = voters.iter().filter(holds).count() as u64;
        let counted = here.handle().followers().with(version);
        // One that was removed since, while this leader stood still, held it once.
        let map = checks.map();
        let is_removed = |id: &&ReplicaId| map.as_ref().is_some_and(|map| map.replica(shard, **id).is_none());
        let removed = voters.iter().filter(is_removed).count() as u64;
        if counted > holding + removed {
            return Err(format!("{counted} followers are told to hold entry {version}, {holding} do: {told}"));
        }
        // Who votes since then was not asked.
        let as_then = checks.members_index(shard) < version;
        if ticket.acks == Acks::All && as_then && here.replica().is_leader() && holding + 1 < voters.len() as u64 {
            return Err(format!("acknowledged as held by all of {voters:?}, and {holding} followers do: {told}"));
        }
        Ok(())
    }

    /// Whether a majority of the others holds everything that a node's log has: then nothing is lost with what it did not
    /// fsync.
    #[must_use]
    pub fn may_lose_power(&self, place: Place, checks: &Checkers) -> bool {
        let log = &self.0[place].disk.log;
        log.groups().into_iter().all(|shard| {
            let Ok(Some(state)) = log.state(shard) else { return true };
            let last = state.bounds.1;
            if last <= state.truncated.0 {
                return true;
            }
            let term = log.fetch(shard, last, last + 1, u64::MAX).ok().and_then(|entries| Some(entries.first()?.term));
            let members = Members::from(&state.conf_state);
            let holding = members.voters.iter().filter(|id| {
                let node = checks.node_of(shard, **id);
                **id != state.replica && node != Some(node_id(place)) && self.holds(node, shard, **id, last, term)
            });
            members.voters_outgoing.is_empty() && holding.count() > members.voters.len() / 2
        })
    }

    /// How far each log of a node goes, if the leader of each of its shards is another node that holds as much, and has a majority
    /// without this one: such a node is refilled whatever it loses, as long as those live.
    #[must_use]
    pub fn refill_of(&self, place: Place, checks: &Checkers) -> Option<Refill> {
        let log = &self.0[place].disk.log;
        let mut ends = Vec::new();
        for shard in log.groups() {
            let state = log.state(shard).ok()??;
            let last = state.bounds.1;
            let leader = self.leader_place(shard).filter(|leader| *leader != place)?;
            let replica = self.shard(leader, shard)?.replica();
            let (held_by, members) = (replica.me(), replica.members());
            let runs = |id: &&ReplicaId| {
                let other = checks.node_of(shard, **id).map(place_of).filter(|other| *other != place);
                other.is_some_and(|other| self.0[other].process.is_some())
            };
            if !members.voters_outgoing.is_empty()
                || members.voters.iter().filter(runs).count() <= members.voters.len() / 2
            {
                return None;
            }
            let term = log.fetch(shard, last, last + 1, u64::MAX).ok().and_then(|entries| Some(entries.first()?.term));
            if !self.holds(Some(node_id(leader)), shard, held_by, last, term) {
                return None;
            }
            ends.push((shard, last));
        }
        Some(Refill { place, ends })
    }

    /// Whether a node that has lost entries has got them again.
    #[must_use]
    pub fn is_refilled(&self, refill: &Refill) -> bool {
        let log = &self.0[refill.place].disk.log;
        let is_there = |(shard, last): &(ShardId, u64)| match log.state(*shard) {
            Ok(Some(state)) => state.bounds.1 >= *last,
            _ => true,
        };
        refill.ends.iter().all(is_there)
    }

    /// Whether all replicas of a shard vote, run, and know of the same members as the map.
    #[must_use]
    pub fn is_whole(&self, map: &Map, shard: ShardId) -> bool {
        let info: &ShardInfo = &map.shards[&shard];
        let voters: Vec<ReplicaId> = info.voters().map(|voter| voter.id).collect();
        let knows = |replica: &ReplicaInfo| {
            let here = self.shard(place_of(replica.node), shard).map(node::Shard::replica);
            here.is_some_and(|here| {
                let members = here.members();
                here.me() == replica.id
                    && members.voters == voters
                    && members.voters_outgoing.is_empty()
                    && members.learners.is_empty()
            })
        };
        voters.len() >= 3 && voters.len() == info.replicas.len() && info.replicas.iter().all(knows)
    }

    /// Where a shard's replicas are, with what they say of themselves, for a report.
    #[must_use]
    pub fn describe(&self, map: Option<&Map>, shard: ShardId) -> String {
        let info = map.and_then(|map| map.shards.get(&shard));
        let lines = info.into_iter().flat_map(|info| &info.replicas).map(|replica| {
            let process = self.0[place_of(replica.node)].process.as_ref();
            let here = process.and_then(|process| process.core.shard(shard));
            let serving = here.is_some_and(|here| here.handle().serving());
            let refused = process.and_then(|process| process.refused.get(&(shard, replica.id)));
            let broken = here.and_then(node::Shard::broken).or(refused.map(String::as_str)).unwrap_or_default();
            let status = here.map(|here| here.replica().status());
            format!("  {replica:?}: serving {serving} {broken} {status:?}")
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}
