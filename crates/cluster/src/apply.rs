//! The metadata group's state machine: a change applied to the map. Deterministic, and safe to repeat.

use crate::change::Change;
use crate::map::Map;
use crate::membership::Membership;
use crate::planning::Planning;
use crate::refusal::{Outcome, Refusal, Result, UNCHANGED};
use vocab::ShardId;

/// Applies a change. The epoch rises by one if the map becomes another, and only then.
pub fn apply(map: &mut Map, change: &Change) -> Result<Outcome> {
    let epoch = map.epoch;
    let outcome = match change {
        Change::Begin(other) if other.store == map.store => Ok(UNCHANGED),
        Change::Begin(other) => Err(Refusal::OtherStore(other.store)),
        Change::RegisterNode(node) => Membership(map).register_node(node),
        Change::UpdateNode { was, now } => Membership(map).update_node(was, now),
        Change::ForgetNode(node) => Membership(map).forget_node(*node),
        Change::AddReplica { shard, replica, node, learner } => {
            Membership(map).add_replica(*shard, *replica, *node, *learner)
        }
        Change::SetReplicas { shard, members_index, voters, learners } => {
            Membership(map).set_replicas(*shard, *members_index, voters, learners)
        }
        Change::ForgetReplica { shard, replica } => Membership(map).forget_replica(*shard, *replica),
        Change::Setting { name, was, now } => Membership(map).set(name, was.as_deref(), now.as_deref()),
        Change::SetUsers(users) => Membership(map).set_users(users),
        Change::BeginPlan { id, kind, at_ms, detail } => Planning(map).begin_plan(*id, kind, *at_ms, detail),
        Change::SetPlan { id, was, now, at_ms, detail } => Planning(map).set_plan(*id, (*was, *now), *at_ms, detail),
        Change::BeginStep { plan, shard, add, remove } => Planning(map).begin_step(*plan, *shard, *add, *remove),
        Change::EndStep { plan, shard, done } => Planning(map).end_step(*plan, *shard, *done),
        Change::BeginSplit { plan, parent, child, slots } => Planning(map).begin_split(*plan, *parent, *child, slots),
        Change::EndSplit { child } => Planning(map).end_split(*child),
        Change::ChooseSurvivor { plan, shard, replica } => Planning(map).choose_survivor(*plan, *shard, *replica),
        Change::Event { .. } => Ok(UNCHANGED),
    }?;
    assert_eq!(outcome.changed, map.epoch.0 == epoch.0 + 1, "a change raises the epoch, nothing else does");
    Ok(outcome)
}

/// The map as it will be when the splits of `children` have ended: for a reader that knows of the end first.
#[must_use]
pub fn as_split(map: &Map, children: &[ShardId]) -> Map {
    let mut split = map.clone();
    for child in children {
        // One that is not there, or has ended, changes nothing.
        let _ = Planning(&mut split).end_split(*child);
    }
    split.epoch = map.epoch;
    split
}
