//! The director in a toy store: what it does of itself, what plans come to, and that it gets there whatever is lost.
#![allow(clippy::unwrap_used)]

mod growth;
mod recovery;
mod rest;
mod status;
mod world;

use super::Director;
use cluster::placement::ReplicasWanted;
use cluster::{Change, PlanKind, PlanState};
use vocab::{NodeId, PlanId, Prng, ReplicaId, ShardId};
use world::World;

fn even(world: &World, of: &[u64], within: usize) {
    let loads = world.loads();
    let (least, most) = (of.iter().map(|id| loads[id]).min().unwrap(), of.iter().map(|id| loads[id]).max().unwrap());
    assert!(most - least <= within, "{loads:?}");
}

fn whole(world: &World) {
    for (shard, info) in &world.map.shards {
        let wanted = ReplicasWanted::of(&world.map).of_shard(*shard);
        assert_eq!(info.voters().count(), wanted, "shard {shard}: {info:?}");
        assert_eq!(info.replicas.len(), wanted, "shard {shard}: {info:?}");
        assert!(
            world.groups[shard].members.keys().eq(info.replicas.iter().map(|replica| &replica.id)),
            "shard {shard}"
        );
    }
    let status = world.status();
    assert_eq!((status.under_replicated, status.without_leader, status.without_majority), (0, 0, 0));
}

#[test]
fn a_store_that_is_well_is_left_alone() {
    let mut world = World::new(&["", "", ""], 12, 1);
    let epoch = world.map.epoch;
    world.run(60);
    assert_eq!((world.map.epoch, world.events), (epoch, Vec::<String>::new()));
}

#[test]
fn a_node_that_joins_takes_its_part_one_shard_at_a_time() {
    let mut world = World::new(&["", "", ""], 24, 1);
    world.run(5);
    world.join(4, "");
    world.run_until("the first shard", 10, |world| world.groups.values().any(|of| of.members.len() > 3));
    world.run_until("it is even", 120, World::is_quiet);
    assert_eq!(world.map.plans[&PlanId(1)].kind, PlanKind::AddNode(NodeId(4)));
    assert_eq!(world.map.plans[&PlanId(1)].state, PlanState::Done);
    even(&world, &[1, 2, 3, 4], 2);
    whole(&world);
    assert!(world.made <= 18 + 1 && world.busiest.0 == 1 && world.busiest.1 <= 2, "{} {:?}", world.made, world.busiest);
    world.run(10);
    let leads = world.leads();
    assert!(leads.values().all(|count| (5..=7).contains(count)), "{leads:?}");
    world.run(30);
    assert_eq!(world.map.plans.len(), 1, "that was all");
}

#[test]
fn a_node_that_returns_in_time_costs_nothing() {
    let mut world = World::new(&["", "", "", ""], 12, 1);
    world.run(5);
    let replicas = world.map.shards.clone();
    world.up.remove(&NodeId(2));
    world.run(200);
    assert_eq!(world.map.shards, replicas);
    assert!(world.leads()[&2] == 0 && world.status().under_replicated > 0);
    world.up.insert(NodeId(2));
    world.run(30);
    assert_eq!(world.map.shards, replicas);
    assert_eq!(world.leads()[&2], 3, "it leads again");
    assert!(world.events.iter().any(|text| text.contains("does not answer")), "{:?}", world.events);
    assert!(world.events.iter().any(|text| text.contains("answers again")), "{:?}", world.events);
}

#[test]
fn what_a_lost_node_held_is_made_anew() {
    let mut world = World::new(&["a", "b", "c", "a", "b", "c"], 24, 1);
    world.set("failure-timeout-ms", "10000");
    world.run(5);
    world.up.remove(&NodeId(1));
    world.run(9);
    assert!(world.map.plans.is_empty());
    world.run_until("repaired", 120, |world| world.map.replicas_on(NodeId(1)).next().is_none());
    world.run_until("the plan ends", 10, World::is_quiet);
    whole(&world);
    assert!(world.map.shards[&ShardId::META].replica_on(NodeId(1)).is_none());
    world.up.insert(NodeId(1));
    world.run(30);
    // It is there again, with nothing: it is taken in like a new one, but only once.
    let added =
        |world: &World| world.map.plans.values().filter(|plan| plan.kind == PlanKind::AddNode(NodeId(1))).count();
    assert_eq!(added(&world), 1);
    world.run_until("it has its part", 120, |world| {
        world.is_quiet() && world.map.replicas_on(NodeId(1)).next().is_some()
    });
    // And so each time that it was lost.
    world.up.remove(&NodeId(1));
    world.run_until("repaired again", 120, |world| {
        world.map.replicas_on(NodeId(1)).next().is_none() && world.is_quiet()
    });
    world.up.insert(NodeId(1));
    world.run_until("it is taken in again", 10, |world| !world.is_quiet());
    world.run_until("it has its part again", 120, World::is_quiet);
    assert!(added(&world) == 2 && world.map.replicas_on(NodeId(1)).next().is_some());
    whole(&world);
    world.run(30);
    assert_eq!(added(&world), 2);
    // One that an operator has emptied is left empty, however it returns.
    let drain = world.begin(PlanKind::DrainNode(NodeId(1)));
    world.run_until("drained", 120, World::is_quiet);
    world.up.remove(&NodeId(1));
    world.run(20);
    world.up.insert(NodeId(1));
    world.run(30);
    assert_eq!((world.state(drain), added(&world)), (PlanState::Done, 2));
}

#[test]
fn two_of_five_are_lost() {
    let mut world = World::new(&["", "", "", "", ""], 20, 1);
    world.set("failure-timeout-ms", "10000");
    world.run(5);
    world.up.remove(&NodeId(2));
    world.up.remove(&NodeId(3));
    world.run(200);
    let status = world.status();
    assert!(status.without_majority > 0 && status.without_majority < 20, "{}", status.without_majority);
    for shard in &status.shards {
        let waits = shard.state == "no-majority";
        let gone = [NodeId(2), NodeId(3)].map(|node| node.to_string());
        assert!(if waits { shard.waits_for == gone } else { shard.state == "ok" }, "{shard:?}");
    }
    let open: Vec<_> = status.plans.iter().filter(|plan| plan.state == "running").collect();
    assert_eq!(open.len(), 2);
    assert!(open.iter().all(|plan| plan.waits_for.as_deref().unwrap().contains("no majority")), "{open:?}");
    // Its operator gives up what is lost.
    let lost: Vec<ShardId> =
        status.shards.iter().filter(|of| of.state == "no-majority").map(|of| ShardId(of.id)).collect();
    let plan = world.begin(PlanKind::UnsafeRecover(lost));
    world.run_until("recovered", 200, World::is_quiet);
    assert_eq!(world.state(plan), PlanState::Done);
    whole(&world);
}

#[test]
fn nodes_are_drained_removed_and_replaced() {
    let mut world = World::new(&["", "", "", "", ""], 20, 1);
    world.run(5);
    let drain = world.begin(PlanKind::DrainNode(NodeId(1)));
    world.run_until("drained", 120, World::is_quiet);
    assert_eq!((world.state(drain), world.loads()[&1]), (PlanState::Done, 0));
    assert!(world.map.replicas_on(NodeId(1)).next().is_none() && world.leads()[&1] == 0);
    whole(&world);
    let remove = world.begin(PlanKind::RemoveNode(NodeId(1)));
    world.run_until("removed", 20, World::is_quiet);
    assert_eq!(world.state(remove), PlanState::Done);
    assert!(!world.map.nodes.contains_key(&NodeId(1)) && world.map.leaving.is_empty());
    // One that is dead is removed without waiting for it to be lost.
    world.up.remove(&NodeId(1));
    world.up.remove(&NodeId(2));
    world.set("auto-rebalance", "no");
    world.join(6, "");
    let replace = world.begin(PlanKind::ReplaceNode { node: NodeId(2), with: NodeId(6) });
    let before = world.loads()[&2];
    world.run_until("replaced", 120, World::is_quiet);
    assert_eq!((world.state(replace), world.loads()[&6]), (PlanState::Done, before));
    assert!(!world.map.nodes.contains_key(&NodeId(2)));
    whole(&world);
}

#[test]
fn a_plan_pauses_goes_on_and_is_cancelled() {
    let mut world = World::new(&["", "", "", ""], 40, 1);
    world.run(5);
    let plan = world.begin(PlanKind::DrainNode(NodeId(1)));
    let set = |world: &mut World, was: PlanState, now: PlanState| {
        let change = Change::SetPlan { id: plan, was, now, at_ms: 1, detail: String::new() };
        assert!(cluster::apply(&mut world.map, &change).unwrap().changed);
    };
    world.run(6);
    set(&mut world, PlanState::Running, PlanState::Paused);
    world.run(10);
    assert!(world.map.steps.is_empty(), "what was under way has ended");
    let held = world.loads()[&1];
    world.run(10);
    assert_eq!((world.loads()[&1], world.state(plan)), (held, PlanState::Paused));
    set(&mut world, PlanState::Paused, PlanState::Running);
    world.run(6);
    assert!(world.loads()[&1] < held);
    set(&mut world, PlanState::Running, PlanState::Cancelled);
    world.run(20);
    assert!(world.is_quiet() && world.map.leaving.is_empty());
    whole(&world);
}

#[test]
fn shards_move_and_are_rebuilt() {
    let mut world = World::new(&["", "", "", ""], 8, 1);
    world.run(5);
    let shard = ShardId(3);
    let info = world.map.shards[&shard].clone();
    let to = *world.map.nodes.keys().find(|node| info.replica_on(**node).is_none()).unwrap();
    let from = info.replicas[0].node;
    let plan = world.begin(PlanKind::MoveShard { shard, from, to });
    world.run_until("moved", 20, World::is_quiet);
    assert_eq!(world.state(plan), PlanState::Done);
    assert!(world.map.shards[&shard].replica_on(from).is_none() && world.map.shards[&shard].replica_on(to).is_some());
    let damaged: Vec<(ShardId, ReplicaId)> =
        world.map.replicas_on(to).map(|(shard, of)| (shard, of.id)).take(3).collect();
    world.broken.extend(damaged.iter().copied());
    world.run(2);
    assert_eq!(world.status().under_replicated, 3);
    let plan = world.begin(PlanKind::Rebuild { node: to, shard: None });
    world.run_until("rebuilt", 60, World::is_quiet);
    assert_eq!(world.state(plan), PlanState::Done);
    for (shard, id) in damaged {
        let now = world.map.shards[&shard].replica_on(to).unwrap().id;
        assert!(now > id, "shard {shard} has another replica on the node");
    }
    whole(&world);
}

/// What is found damaged is made anew without being asked: not more often than a disk that works would need, and only where
/// the others go on without it.
#[test]
fn damaged_replicas_are_made_anew_unasked() {
    let node = NodeId(2);
    let damage = |world: &mut World| {
        let held = world.map.replicas_on(node).find(|(shard, _)| *shard != ShardId::META);
        let (shard, id) = held.map(|(shard, replica)| (shard, replica.id)).unwrap();
        world.broken.insert((shard, id));
        (shard, id)
    };
    let is_there = |world: &World, (shard, id)| world.map.replica(shard, id).is_some();
    let mut world = World::new(&["", "", "", ""], 8, 1);
    world.run(5);
    for _ in 0..3 {
        let (shard, id) = damage(&mut world);
        world.run_until("it is made anew", 60, |world| world.is_quiet() && !is_there(world, (shard, id)));
        assert!(world.map.shards[&shard].replica_on(node).unwrap().id > id);
    }
    whole(&world);
    let told = world.map.plans.values().filter(|plan| plan.detail.contains("damaged: damaged")).count();
    assert_eq!(told, 3, "{:?}", world.map.plans);
    // A disk that fails again and again is the operator's.
    let fourth = damage(&mut world);
    world.run(60);
    assert!(world.is_quiet() && is_there(&world, fourth));
    // So is all damage, if that is wanted; and what the others cannot do without is left.
    for is_off in [true, false] {
        let mut world = World::new(&["", "", "", ""], 8, 1);
        world.run(5);
        let damaged = damage(&mut world);
        if is_off {
            world.set("auto-rebuild", "no");
        } else {
            let others = world.map.shards[&damaged.0].voters().filter(|voter| voter.id != damaged.1);
            let other = others.map(|voter| voter.node).next().unwrap();
            world.up.remove(&other);
        }
        world.run(60);
        assert!(world.map.plans.values().all(|plan| !matches!(plan.kind, PlanKind::Rebuild { .. })));
        assert!(is_there(&world, damaged));
    }
}

#[test]
fn shapes_change_by_number_and_by_zone() {
    let mut world = World::new(&["", "", "", "", ""], 10, 1);
    world.run(5);
    let plan = world.begin(PlanKind::SetReplicationFactor(5));
    world.run_until("five replicas", 120, World::is_quiet);
    assert_eq!(world.state(plan), PlanState::Done);
    whole(&world);
    world.begin(PlanKind::SetReplicationFactor(3));
    world.run_until("three replicas", 120, World::is_quiet);
    whole(&world);
    for (node, zone) in [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "c")] {
        world.begin(PlanKind::ChangeZone { node: NodeId(node), zone: zone.to_owned() });
    }
    world.run_until("in zones", 200, World::is_quiet);
    whole(&world);
    for (shard, info) in &world.map.shards {
        let zones: std::collections::BTreeSet<_> =
            info.replicas.iter().map(|replica| world.map.nodes[&replica.node].zone.as_str()).collect();
        assert_eq!(zones.len(), 3, "shard {shard}");
    }
}

/// Who leads on a node that was too busy to report for a few seconds goes on.
#[test]
fn a_node_that_was_silent_keeps_what_it_leads() {
    let mut world = World::new(&["", "", ""], 12, 1);
    world.run(20);
    let terms = |world: &World| world.groups.values().map(|group| group.term).collect::<Vec<_>>();
    let before = terms(&world);
    world.busy.insert(NodeId(2));
    world.run(5);
    world.busy.clear();
    world.run(20);
    assert_eq!((terms(&world), world.leads()[&2]), (before, 4));
}

#[test]
fn a_node_leads_nothing_until_it_is_restarted() {
    let mut world = World::new(&["", "", ""], 12, 1);
    world.run(5);
    let plan = world.begin(PlanKind::DrainLeaders(NodeId(1)));
    world.run(10);
    assert_eq!((world.leads()[&1], world.state(plan)), (0, PlanState::Running));
    let leader = world.groups[&ShardId::META].leader.unwrap();
    assert_ne!(world.map.replica(ShardId::META, leader).unwrap().node, NodeId(1));
    assert!(world.status().plans[0].waits_for.as_deref().unwrap().contains("restarted now"));
    world.run(16 * 60);
    assert_eq!((world.leads()[&1], world.state(plan)), (4, PlanState::Done));
}

/// The metadata group goes last, and the next director does not say that the node leads nothing before it knows.
#[test]
fn the_node_that_directs_leads_nothing_either() {
    for seed in 1..=10 {
        let mut world = World::new(&["", "", ""], 12, seed);
        world.run(5);
        let node = world.directing();
        world.begin(PlanKind::DrainLeaders(node));
        world.loss = 50;
        let says = |world: &World| {
            let status = world.status();
            status.nodes.iter().any(|of| of.id == node.to_string() && of.leads_nothing)
        };
        let until_us = world.now_us + 200_000_000;
        while world.directing() == node {
            assert!(!says(&world) && world.now_us < until_us, "seed {seed}");
            world.step();
        }
        assert_eq!(world.leads()[&node.0], 0, "seed {seed}: the metadata group went first");
        world.director = Director::new();
        assert!(!says(&world), "seed {seed}: no node has reported anything");
        while !says(&world) {
            assert!(world.now_us < until_us, "seed {seed}");
            world.step();
        }
        assert!(world.leads()[&node.0] == 0 && world.directing() != node, "seed {seed}");
    }
}

/// A voter dies while another one is to be made anew: what is dead is replaced first.
#[test]
fn what_cannot_be_let_go_is_in_nobodys_way() {
    let mut world = World::new(&["", "", "", ""], 8, 1);
    world.set("failure-timeout-ms", "10000");
    world.run(5);
    let shard = ShardId(3);
    let on: Vec<NodeId> = world.map.shards[&shard].replicas.iter().map(|replica| replica.node).collect();
    world.up.remove(&on[0]);
    let rebuild = world.begin(PlanKind::Rebuild { node: on[1], shard: Some(shard) });
    world.run_until("it is tried", 2, |world| world.map.steps.contains_key(&shard));
    world.run(6);
    assert!(world.map.steps.is_empty() && world.state(rebuild) == PlanState::Running);
    let waits = world.status().plans[0].waits_for.clone().unwrap();
    assert!(waits.contains("no majority") && waits.contains(&on[0].to_string()), "{waits}");
    world.run_until("all is well", 120, World::is_quiet);
    assert_eq!(world.state(rebuild), PlanState::Done);
    assert!(world.map.replicas_on(on[0]).next().is_none());
    whole(&world);
}

/// Six nodes, five replicas, and a shard that has only four, since the plan that makes one anew was stopped midway: that
/// shard, its nodes before, and the plan.
fn four_of_five(now: PlanState) -> (World, ShardId, Vec<NodeId>, PlanId) {
    let mut world = World::new(&["", "", "", "", "", ""], 10, 1);
    world.run(5);
    world.begin(PlanKind::SetReplicationFactor(5));
    world.run_until("five replicas", 120, World::is_quiet);
    let shard = ShardId(3);
    let on: Vec<NodeId> = world.map.shards[&shard].replicas.iter().map(|replica| replica.node).collect();
    let plan = world.begin(PlanKind::Rebuild { node: on[0], shard: Some(shard) });
    let lacks = |world: &World| world.map.steps.is_empty() && world.map.shards[&shard].replicas.len() == 4;
    world.run_until("four replicas", 20, lacks);
    set_plan(&mut world, plan, PlanState::Running, now);
    (world, shard, on, plan)
}

fn set_plan(world: &mut World, id: PlanId, was: PlanState, now: PlanState) {
    let change = Change::SetPlan { id, was, now, at_ms: 1, detail: String::new() };
    assert!(cluster::apply(&mut world.map, &change).unwrap().changed);
}

/// What is made anew has come elsewhere in between: it is not brought and taken away in turns.
#[test]
fn a_rebuilt_replica_that_came_elsewhere_does_not_come_again() {
    let (mut world, shard, on, rebuild) = four_of_five(PlanState::Paused);
    world.map.leaving.insert(on[0]);
    let fill = world.begin(PlanKind::Rebalance);
    world.run_until("five elsewhere", 60, |world| world.map.shards[&shard].voters().count() == 5);
    world.map.leaving.remove(&on[0]);
    set_plan(&mut world, fill, PlanState::Running, PlanState::Cancelled);
    let next = world.map.shards[&shard].next_replica;
    set_plan(&mut world, rebuild, PlanState::Paused, PlanState::Running);
    world.run_until("all is well", 60, World::is_quiet);
    assert_eq!((world.state(rebuild), world.map.shards[&shard].next_replica), (PlanState::Done, next));
    whole(&world);
}

#[test]
fn a_shard_that_lacks_a_replica_is_drained_too() {
    for replaced in [false, true] {
        let (mut world, shard, on, _) = four_of_five(PlanState::Cancelled);
        let node = on[1];
        world.set("auto-rebalance", "no");
        world.run(20);
        assert!(world.is_quiet() && world.map.shards[&shard].replicas.len() == 4, "no plan was asked for");
        if replaced {
            world.join(7, "");
            world.run(5);
        }
        let replace = PlanKind::ReplaceNode { node, with: NodeId(7) };
        let plan = world.begin(if replaced { replace } else { PlanKind::DrainNode(node) });
        world.run_until("drained", 200, World::is_quiet);
        assert_eq!(world.state(plan), PlanState::Done);
        assert!(world.map.replicas_on(node).next().is_none());
        whole(&world);
    }
}

#[test]
fn a_shard_that_lacks_a_replica_gets_one_unasked() {
    let (mut world, shard, _, _) = four_of_five(PlanState::Cancelled);
    let plan = PlanId(world.map.next_plan);
    world.run_until("a plan", 10, |world| world.map.plans.contains_key(&plan));
    assert_eq!(world.map.plans[&plan].kind, PlanKind::Rebalance);
    assert_eq!(world.map.plans[&plan].detail, format!("shard {shard} has 4 replicas and is to have 5"));
    world.run_until("five replicas", 60, World::is_quiet);
    whole(&world);
    world.run(60);
    assert_eq!(world.map.plans.keys().next_back(), Some(&plan), "that was all");
}

/// Nodes die and return, join and leave, directors change, a third of everything is lost: in the end all is well.
#[test]
fn whatever_happens_it_gets_there() {
    for seed in 1..=40 {
        let mut prng = Prng::new(seed);
        let zones = ["a", "b", "c", "a", "b"];
        let mut world = World::new(&zones[..3 + prng.below(3) as usize], 4 + prng.below(12) as u32, seed);
        world.set("failure-timeout-ms", "8000");
        world.loss = 33;
        let mut next = world.map.nodes.len() as u64 + 1;
        for _ in 0..12 {
            let nodes: Vec<NodeId> = world.map.nodes.keys().copied().collect();
            let node = nodes[prng.below(nodes.len() as u64) as usize];
            match prng.below(8) {
                0 if world.up.len() > 3 => _ = world.up.remove(&node),
                1 | 2 => world.up = world.map.nodes.keys().copied().collect(),
                3 if next < 9 => {
                    world.join(next, ["a", "b", "c"][(next % 3) as usize]);
                    next += 1;
                }
                4 if world.map.nodes.len() - world.map.leaving.len() > 4 => {
                    let (id, kind) = (PlanId(world.map.next_plan), PlanKind::DrainNode(node));
                    let _: Result<_, _> = cluster::apply(
                        &mut world.map,
                        &Change::BeginPlan { id, kind, at_ms: 1, detail: String::new() },
                    );
                }
                5 => world.director = Director::new(),
                6 => {
                    let open = world.map.open_plans().next().map(|plan| (plan.id, plan.state));
                    if let Some((id, was)) = open {
                        let (now, detail) = (PlanState::Cancelled, String::new());
                        cluster::apply(&mut world.map, &Change::SetPlan { id, was, now, at_ms: 1, detail }).unwrap();
                    }
                }
                _ => {}
            }
            world.run(2 + prng.below(20));
        }
        world.up = world.map.nodes.keys().copied().collect();
        world.loss = 0;
        world.run(10);
        let (id, kind) = (PlanId(world.map.next_plan), PlanKind::Rebalance);
        world.apply(&Change::BeginPlan { id, kind, at_ms: 1, detail: String::new() });
        world.run_until(&format!("seed {seed}: all is well"), 600, World::is_quiet);
        whole(&world);
    }
}
