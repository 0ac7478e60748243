//! The operator: has the store made, restarts what cannot go on, orders leaders about, and wants plans. What changes the map
//! it can only propose.

use crate::casualties::Casualties;
use crate::chance::Chance;
use crate::checkers::Outcome;
use crate::event::{Event, NodeEvent};
use crate::host::Host;
use crate::places::Place;
use crate::planner::{Planner, unshaped};
use crate::schedule::MILLISECOND;
use crate::splitting;
use crate::store::Store;
use cluster::Map;
use node::peer_protocol::Order;
use vocab::ShardId;

/// Looks of the operator after which a replica that stands still gets its node restarted.
const STUCK_LOOKS_MAX: u32 = 25;

/// The operator, and what it knows of damage and death.
#[derive(Default)]
pub struct Operator {
    casualties: Casualties,
}

impl Operator {
    /// What is damaged, dead or lost.
    #[must_use]
    pub fn casualties(&self) -> &Casualties {
        &self.casualties
    }

    /// Looks at what is to be done.
    pub fn look(&mut self, store: &mut Store) -> Outcome {
        store.env.after(200 * MILLISECOND, Event::Operate);
        init(store);
        splitting::check_split_rows(store)?;
        check_poison(store)?;
        look_after(store);
        self.plan(store, |planner| planner.look())
    }

    /// Wants a plan, or has second thoughts about one.
    pub fn want(&mut self, store: &mut Store) -> Outcome {
        self.plan(store, |planner| planner.want())
    }

    /// Wants a shard divided, or all.
    pub fn want_split(&mut self, store: &mut Store) -> Outcome {
        self.plan(store, |planner| planner.want_split())
    }

    fn plan(&mut self, store: &mut Store, what: impl FnOnce(&mut Planner<'_>) -> Outcome) -> Outcome {
        let Some(map) = store.checks.map() else { return Ok(()) };
        what(&mut Planner::new(store, &mut self.casualties, &map))
    }

    /// The files of a tree on a node are damaged while it is down.
    pub fn damage(&mut self, store: &mut Store, place: Place) {
        self.casualties.damage(store, place);
    }

    /// A node dies for good.
    pub fn kill(&mut self, store: &mut Store, place: Place) {
        self.casualties.kill(store, place);
    }

    /// So many nodes die that shards lose their majority.
    pub fn destroy(&mut self, store: &mut Store) {
        self.casualties.destroy(store);
    }

    /// What is not yet as it should be, once nothing goes wrong any more.
    #[must_use]
    pub fn unshaped(&self, store: &Store, map: &Map) -> Option<String> {
        unshaped(store, &self.casualties, map)
    }
}

/// Only an fsync that has failed poisons a node: no lack of room, descriptors or memory does.
fn check_poison(store: &Store) -> Outcome {
    let is_wrong = |host: &&Host| {
        let process = host.process.as_ref();
        process.is_some_and(|process| process.log.is_poisoned()) && !host.disk.has_failed()
    };
    match store.nodes.iter().find(is_wrong) {
        Some(host) => Err(format!("node {} is poisoned, and no fsync of its disk has failed", host.info.id)),
        None => Ok(()),
    }
}

/// Restarts nodes with a replica that cannot go on, as their operators would.
fn look_after(store: &mut Store) {
    for place in 0..store.nodes.count() {
        let Some(process) = &mut store.nodes[place].process else { continue };
        let stuck = process.log.is_poisoned()
            || !process.refused.is_empty()
            || process.core.shards().any(|shard| shard.broken().is_some() || shard.replica().is_installing());
        process.stuck_looks = if stuck { process.stuck_looks + 1 } else { 0 };
        if process.stuck_looks == STUCK_LOOKS_MAX {
            store.restart_soon(place);
        }
    }
}

/// A leader is told to hand over.
pub fn transfer(store: &mut Store) {
    let Some(map) = store.checks.map() else { return };
    let shards: Vec<ShardId> = map.shards.keys().copied().collect();
    let shard = *store.env.pick(&shards);
    let to = store.env.pick(&map.shards[&shard].replicas).node;
    let Some(place) = store.nodes.leader_place(shard) else { return };
    let delay = store.env.between(100, 5 * MILLISECOND);
    store.env.later(delay, place, NodeEvent::Order(shard, Order::Transfer { to }));
}

/// The first node is told to make the store, until it has.
fn init(store: &mut Store) {
    let Some(process) = &mut store.nodes[0].process else { return };
    if process.map.is_none()
        && let Err(e) = process.control.init()
    {
        store.env.note(format_args!("{e}"));
    }
}
