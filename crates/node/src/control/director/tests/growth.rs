//! Shards that are divided unasked, and where.

use super::set_plan;
use super::world::World;
use crate::control::director::Director;
use cluster::{PlanKind, PlanState};
use vocab::{PlanId, ShardId, Slot};

/// The rest, and the quarter of it for which a shard has to be asked too often, in s.
const REST: u64 = 120;
const HOT: u64 = 30;

/// A store with one data shard, whose slots are asked for so much.
fn asked(slots: impl IntoIterator<Item = (u16, u64)>) -> World {
    let mut world = World::new(&["", "", ""], 1, 1);
    world.asked = slots.into_iter().collect();
    world.set("split-ops", "1000");
    world.set("split-rest-ms", "120000");
    world.run(5);
    world
}

fn shards(world: &World) -> Vec<ShardId> {
    world.map.data_shards().map(|(shard, _)| shard).collect()
}

#[test]
fn a_shard_that_is_asked_too_often_is_divided_by_what_it_is_asked() {
    // Nearly all of it in a quarter of the slots.
    let mut world = asked((0..4096).step_by(16).map(|slot| (slot, 8)).chain([(16_000, 100)]));
    world.run(HOT - 10);
    assert_eq!(shards(&world).len(), 1, "not before it was so for a while");
    world.run_until("it is divided", 30, |world| shards(world).len() == 2 && world.is_quiet());
    let plan = &world.map.plans[&PlanId(1)];
    assert!(plan.state == PlanState::Done && plan.detail.contains("split-ops"), "{plan:?}");
    let (lower, upper) = (world.weights(ShardId(1)).0, world.weights(ShardId(2)).0);
    assert!(lower.abs_diff(upper) <= 16, "{lower} {upper}");
    // Both are asked for more than that, and rest.
    world.run(REST - 10);
    assert_eq!(shards(&world).len(), 2);
    world.run_until("the halves are divided", HOT + 20, |world| shards(world).len() == 4 && world.is_quiet());
    assert!(shards(&world).iter().all(|shard| world.weights(*shard).0 <= 1000));
    world.run(10 * REST);
    assert_eq!(shards(&world).len(), 4, "that was all");
    assert_eq!(world.map.plans.len(), 3);
}

#[test]
fn what_no_division_helps_is_left_as_it_is() {
    // One slot; one that has nearly all; one that is asked for too little; only for a moment; and not wanted.
    let mut one = asked([(5000, 100_000)]);
    let mut nearly = asked((0..100).map(|slot| (slot, if slot == 50 { 90_000 } else { 100 })));
    let mut few = asked((0..100).map(|slot| (slot, 9)));
    let mut off = asked((0..100).map(|slot| (slot, 900)));
    off.set("split-ops", "0");
    nearly.set("own-shard-ops", "0");
    for world in [&mut one, &mut nearly, &mut few, &mut off] {
        world.run(4 * REST);
        assert!(shards(world).len() == 1 && world.map.plans.is_empty(), "{:?}", world.map.plans);
    }
    let mut moment = asked((0..100).map(|slot| (slot, 900)));
    for _ in 0..20 {
        world_asked(&mut moment, 900);
        moment.run(HOT / 2);
        world_asked(&mut moment, 1);
        moment.run(HOT);
    }
    assert!(moment.map.plans.is_empty(), "{:?}", moment.map.plans);
}

/// What a database is asked, all in one slot: it need not share its shard.
#[test]
fn a_slot_that_alone_is_asked_too_often_gets_a_shard_to_itself() {
    let slots_of = |world: &World| {
        let owner = shards(world).into_iter().find(|shard| world.map.shards[shard].owns(Slot(4096))).unwrap();
        world.map.shards[&owner].slots.clone()
    };
    let mut world = asked((4000..4200).map(|slot| (slot, if slot == 4096 { 9_000 } else { 3 })));
    world.set("own-shard-ops", "5000");
    world.run(HOT - 10);
    assert_eq!(shards(&world).len(), 1, "not before it was so for a while");
    world.run_until("it is alone", 3 * REST, |world| slots_of(world) == [(4096, 4096)] && world.is_quiet());
    let plan = &world.map.plans[&PlanId(1)];
    assert!(plan.state == PlanState::Done && plan.detail.contains("(database 2)"), "{plan:?}");
    world.run(3 * REST);
    assert_eq!((shards(&world).len(), world.map.plans.len()), (3, 2), "that was all");
    // A slot that nothing is asked beside is as good as alone.
    let mut alone = asked([(4096, 9_000)]);
    alone.set("own-shard-ops", "5000");
    alone.run(4 * REST);
    assert!(alone.map.plans.is_empty(), "{:?}", alone.map.plans);
}

fn world_asked(world: &mut World, each: u64) {
    world.asked.values_mut().for_each(|rate| *rate = each);
}

/// The one hot slot comes to be alone among others, and then nothing more is done.
#[test]
fn a_hot_slot_among_others_does_not_make_shards_without_end() {
    let mut world = asked((0..1000).map(|slot| (slot, if slot == 500 { 20_000 } else { 40 })));
    world.run(40 * REST);
    let hot = shards(&world).into_iter().find(|shard| world.map.shards[shard].owns(Slot(500))).unwrap();
    assert!(world.weights(hot).0 < 30_000, "it has lost some of the others");
    let count = shards(&world).len();
    assert!(count <= 80, "{count}");
    world.run(10 * REST);
    assert_eq!(shards(&world).len(), count, "that was all");
}

#[test]
fn what_was_divided_rests_under_every_director() {
    let mut world = asked((0..1000).map(|slot| (slot, 40)));
    world.run_until("it is divided", HOT + 20, |world| shards(world).len() == 2 && world.is_quiet());
    for _ in 0..4 {
        world.director = Director::new();
        world.run(REST / 5);
        assert_eq!(shards(&world).len(), 2);
    }
    world.run_until("the rest is over", REST, |world| shards(world).len() > 2);
}

#[test]
fn what_an_operator_has_cancelled_is_not_wanted_again_at_once() {
    let mut world = asked((0..1000).map(|slot| (slot, 40)));
    world.run_until("a plan", HOT + 20, |world| !world.map.plans.is_empty());
    assert!(world.map.splits.is_empty());
    set_plan(&mut world, PlanId(1), PlanState::Running, PlanState::Cancelled);
    world.map.plans.get_mut(&PlanId(1)).unwrap().ended_ms = world.now().wall_ms;
    world.run(REST - 10);
    assert_eq!(world.map.plans.len(), 1);
    world.run_until("it is wanted again", HOT + 20, |world| world.map.plans.len() == 2);
}

#[test]
fn a_shard_that_has_grown_is_divided_where_its_keys_are() {
    let mut world = World::new(&["", "", ""], 1, 1);
    world.set("split-bytes", "1073741824");
    world.keys = (3000..3300).map(|slot| (slot, 10)).collect();
    world.key_bytes = 1 << 20;
    world.run_until("it is divided", 20, |world| shards(world).len() == 2 && world.is_quiet());
    assert_eq!(world.map.plans[&PlanId(1)].kind, PlanKind::SplitShard { shard: ShardId(1), at: None });
    let (lower, upper) = (world.weights(ShardId(1)).1, world.weights(ShardId(2)).1);
    assert_eq!((lower, upper), (1500, 1500));
    // Halves that are too large are divided again, once they have rested.
    world.run(9 * 60);
    assert_eq!(shards(&world).len(), 2);
    world.run_until("they are divided", 120, |world| shards(world).len() == 4 && world.is_quiet());
    // A slot more or less: those without keys count a little.
    let keys: Vec<u64> = shards(&world).iter().map(|shard| world.weights(*shard).1).collect();
    assert!(keys.iter().all(|count| (730..=770).contains(count)), "{keys:?} {:?}", world.map.shards);
}

#[test]
fn what_a_split_has_left_behind_is_no_reason_to_split_again() {
    let mut world = World::new(&["", "", ""], 1, 1);
    world.set("split-bytes", "1073741824");
    world.set("split-rest-ms", "1000");
    // One slot has it all: wherever its shard is divided, one half has nothing.
    world.keys = [(3000, 3000)].into();
    world.key_bytes = 1 << 20;
    // No step removes anything.
    world.halved = (1..100).map(ShardId).collect();
    world.run(60);
    assert_eq!(shards(&world).len(), 1, "its size is an estimate");
    world.halved.remove(&ShardId(1));
    world.run_until("it is divided", 20, |world| shards(world).len() == 2 && world.is_quiet());
    world.halved.insert(ShardId(1));
    world.run(600);
    assert_eq!(shards(&world).len(), 2, "{:?}", world.map.plans);
    world.halved.clear();
    world.run(600);
    let large = |world: &World| shards(world).into_iter().filter(|shard| world.weights(*shard).1 > 1000).count();
    assert_eq!((large(&world), shards(&world).len()), (1, 3), "the slot has a shard to itself: {:?}", world.map.shards);
}
