//! What is left of a shard goes on, once.

use super::world::World;
use crate::control::director::Director;
use cluster::{PlanKind, PlanState};
use vocab::{NodeId, ShardId};

/// The one that was chosen obeys, and is heard of no more before it can say so: no other one is.
#[test]
fn of_those_that_are_left_only_one_goes_on_alone() {
    for directs_anew in [false, true] {
        let mut world = World::new(&["", "", "", "", "", "", ""], 6, 1);
        world.run(5);
        world.begin(PlanKind::SetReplicationFactor(5));
        world.run_until("five replicas", 200, World::is_quiet);
        let shard = ShardId(3);
        let on: Vec<NodeId> = world.map.shards[&shard].replicas.iter().map(|replica| replica.node).collect();
        on[..3].iter().for_each(|node| _ = world.up.remove(node));
        world.run(10);
        let plan = world.begin(PlanKind::UnsafeRecover(vec![shard]));
        world.run_until("one goes on", 10, |world| world.groups[&shard].members.len() == 1);
        let chosen = *world.groups[&shard].members.keys().next().unwrap();
        let node = world.home(shard, chosen);
        world.up.remove(&node);
        if directs_anew {
            world.director = Director::new();
        }
        world.run(60);
        assert!(world.groups[&shard].members.keys().eq([&chosen]));
        let status = world.status();
        let waits = status.plans.iter().find(|of| of.id == plan.0).unwrap().waits_for.clone().unwrap();
        assert!(waits.contains(&node.to_string()) && waits.contains("cancel this plan"), "{waits}");
        assert_eq!(world.state(plan), PlanState::Running);
        world.up.insert(node);
        world.run_until("it is done", 120, |world| world.state(plan) == PlanState::Done);
        assert!(world.map.survivors.is_empty());
    }
}
