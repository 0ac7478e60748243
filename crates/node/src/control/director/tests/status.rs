//! What operators are shown while all is as planned, and when it is not.

use super::world::World;
use cluster::{PlanKind, PlanState};
use vocab::{NodeId, ShardId, Slot};

/// Shards that are said to have no leader.
fn leaderless(world: &World) -> usize {
    world.status().without_leader
}

#[test]
fn leaders_that_are_handed_over_are_not_missing_but_those_that_stay_away_are() {
    let mut world = World::new(&["", "", ""], 12, 1);
    world.run(5);
    world.begin(PlanKind::DrainLeaders(NodeId(1)));
    for _ in 0..80 {
        world.step();
        assert_eq!(leaderless(&world), 0);
    }
    assert_eq!(world.leads()[&1], 0);
    // The old leader has said that it leads no more, the new one has not spoken yet.
    world.unelected.insert(ShardId(3));
    world.run_until("it has no leader", 2, |world| world.status().shards.iter().any(|shard| shard.leader.is_none()));
    assert_eq!(leaderless(&world), 0);
    world.unelected.clear();
    world.run(3);
    // One whose leader says that it leads no more, and has no successor.
    world.unelected.insert(ShardId(3));
    world.run_until("it is told", 4, |world| leaderless(world) == 1);
    world.unelected.clear();
    world.run(3);
    assert_eq!(leaderless(&world), 0);
}

#[test]
fn a_shard_that_is_being_made_is_not_missing() {
    let mut world = World::new(&["", "", ""], 2, 1);
    world.run(5);
    world.begin(PlanKind::SplitShard { shard: ShardId(1), at: Some(Slot(100)) });
    for _ in 0..40 {
        world.step();
        assert_eq!(leaderless(&world), 0, "{:?}", world.map.splits);
    }
    assert_eq!(world.map.shards.len(), 4);
    // One whose parent never comes to it.
    world.deaf = true;
    world.begin(PlanKind::SplitShard { shard: ShardId(2), at: None });
    world.run_until("it is told", 30, |world| leaderless(world) == 1);
}

/// Zone c has one node, which does not answer and holds nothing: zone a's replicas do not wait for it.
#[test]
fn a_drain_does_not_wait_for_a_zone_that_is_silent_and_holds_nothing() {
    let mut world = World::new(&["a", "a", "b", "b"], 8, 1);
    world.set("auto-rebalance", "no");
    world.run(5);
    world.join(5, "c");
    world.run(5);
    world.up.remove(&NodeId(5));
    world.run(5);
    let plan = world.begin(PlanKind::DrainNode(NodeId(1)));
    world.run_until("drained", 120, |world| world.state(plan) == PlanState::Done);
    assert!(world.map.replicas_on(NodeId(1)).next().is_none());
}
