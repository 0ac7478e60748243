//! The operator: has the store made, replaces replicas, orders leaders about, and starts what is down. What changes the map
//! it can only propose.

use crate::chance::Chance;
use crate::event::{Event, NodeEvent, Place};
use crate::schedule::MILLISECOND;
use crate::world::{Outcome, World, node_id, place_of};
use node::peer::Order;
use replica::DiskState;
use vocab::ShardId;

/// Looks of the operator after which a replica that stands still gets its node restarted.
const STUCK_LOOKS_MAX: u32 = 25;

impl World {
    /// Looks at what is to be done.
    pub(crate) fn operate(&mut self) -> Outcome {
        self.schedule.after(200 * MILLISECOND, Event::Operate);
        self.init();
        self.check_split_rows()?;
        self.look_after();
        self.look_at_shape()
    }

    /// Restarts nodes with a replica that cannot go on, as their operators would.
    fn look_after(&mut self) {
        for place in 0..self.plan.nodes {
            let Some(process) = &mut self.hosts[place].process else { continue };
            let stuck = process.health.state() == DiskState::Poisoned
                || !process.refused.is_empty()
                || process.core.shards().any(|shard| shard.broken().is_some() || shard.replica().is_installing());
            process.stuck_looks = if stuck { process.stuck_looks + 1 } else { 0 };
            if process.stuck_looks == STUCK_LOOKS_MAX {
                self.restart_soon(place);
            }
        }
    }

    /// A leader is told to hand over.
    pub(crate) fn transfer(&mut self) {
        let Some(map) = self.map.clone() else { return };
        let shards: Vec<ShardId> = map.shards.keys().copied().collect();
        let shard = *self.prng.pick(&shards);
        let to = self.prng.pick(&map.shards[&shard].replicas).node;
        self.order(shard, Order::Transfer { to });
    }

    fn order(&mut self, shard: ShardId, order: Order) {
        let Some(place) = self.leader_place(shard) else { return };
        let delay = self.prng.between(100, 5 * MILLISECOND);
        self.later(delay, place, NodeEvent::Order(shard, order));
    }

    /// The first node is told to make the store, until it has.
    fn init(&mut self) {
        let Some(process) = &mut self.hosts[0].process else { return };
        if process.map.is_none()
            && let Err(e) = process.control.init()
        {
            self.note(format_args!("{e}"));
        }
    }

    /// A node that cannot go on is restarted, as its operator would.
    pub(crate) fn restart_soon(&mut self, place: Place) {
        let most = if self.healing { 100 } else { 5000 };
        let delay = self.prng.between(10, most) * MILLISECOND;
        self.later(delay, place, NodeEvent::Restart);
    }

    /// All faults stop.
    pub(crate) fn heal(&mut self) {
        self.healing = true;
        self.note(format_args!("all faults stop"));
        self.network.heal();
        let now = self.now();
        for place in 0..self.plan.nodes {
            self.mend(place);
            self.hosts[place].clock.drift(now, 1000);
            self.hosts[place].clock.set_right();
            if self.hosts[place].paused {
                self.schedule.after(0, Event::Resume(place));
            }
            self.schedule.after(node_id(place).0 * MILLISECOND, Event::Start(place));
        }
    }

    /// Where a shard's replicas are, with what they say of themselves, for a report.
    pub(crate) fn describe(&self, shard: ShardId) -> String {
        let info = self.map.as_ref().and_then(|map| map.shards.get(&shard));
        let lines = info.into_iter().flat_map(|info| &info.replicas).map(|replica| {
            let process = self.hosts[place_of(replica.node)].process.as_ref();
            let here = process.and_then(|process| process.core.shard(shard));
            let serving = here.is_some_and(|here| here.view().serving());
            let refused = process.and_then(|process| process.refused.get(&(shard, replica.id)));
            let broken = here.and_then(node::Shard::broken).or(refused.map(String::as_str)).unwrap_or_default();
            let status = here.map(|here| here.replica().status());
            format!("  {replica:?}: serving {serving} {broken} {status:?}")
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}
