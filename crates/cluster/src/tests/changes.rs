//! Changes: what each does and refuses, and that repeating one does nothing.

use super::{drawn, drawn_change, node, small};
use crate::{Change, Map, PlanKind, PlanState, Refusal};
use vocab::{NodeId, PlanId, Prng, ReplicaId, ShardId};

const SHARD: ShardId = ShardId(1);

fn ids(ids: &[u64]) -> Vec<ReplicaId> {
    ids.iter().copied().map(ReplicaId).collect()
}

fn add(replica: u64, node: u64) -> Change {
    Change::AddReplica { shard: SHARD, replica: ReplicaId(replica), node: NodeId(node), learner: true }
}

fn report(members_index: u64, voters: &[u64], learners: &[u64]) -> Change {
    Change::SetReplicas { shard: SHARD, members_index, voters: ids(voters), learners: ids(learners) }
}

fn forget(replica: u64) -> Change {
    Change::ForgetReplica { shard: SHARD, replica: ReplicaId(replica) }
}

fn set(was: Option<&str>, now: Option<&str>) -> Change {
    Change::Setting { name: "durability".to_owned(), was: was.map(str::to_owned), now: now.map(str::to_owned) }
}

/// The replicas of the shard: L for a learner, + for one that is no member yet.
fn replicas(map: &Map) -> String {
    let text = map.shards[&SHARD].replicas.iter().map(|replica| {
        let marks = [(replica.learner, "L"), (!replica.member, "+")];
        let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
        format!("{}{marks}", replica.id)
    });
    text.collect::<Vec<_>>().join(" ")
}

/// Applies each change to the same map and writes down what came of it.
fn transcript(changes: &[Change]) -> String {
    let mut map = small();
    let lines = changes.iter().map(|change| {
        let outcome = match crate::apply(&mut map, change) {
            Ok(outcome) if outcome.changed => "changed".to_owned(),
            Ok(_) => "unchanged".to_owned(),
            Err(refusal) => refusal.to_string(),
        };
        map.validate().unwrap();
        format!("{} | {} | {outcome}\n", map.epoch, replicas(&map))
    });
    lines.collect()
}

#[test]
fn a_replica_moves() {
    let told = transcript(&[
        add(4, 4),
        Change::RegisterNode(node(4, "d", 1)),
        add(5, 4),
        add(4, 4),
        add(4, 4),
        add(5, 4),
        Change::ForgetNode(NodeId(4)),
        report(10, &[1, 2, 3], &[4]),
        report(9, &[1, 2, 3], &[]),
        report(20, &[1, 2, 3, 4], &[]),
        report(30, &[2, 3, 4], &[]),
        report(30, &[2, 3, 4], &[]),
        report(31, &[1, 2, 3, 4], &[]),
        add(1, 1),
    ]);
    let expected = "\
1 | 1 2 3 | the store has no node 0000000000000004
2 | 1 2 3 | changed
2 | 1 2 3 | a new replica of shard 1 cannot be 5: the next is 4
3 | 1 2 3 4L+ | changed
3 | 1 2 3 4L+ | unchanged
3 | 1 2 3 4L+ | node 0000000000000004 has a replica of shard 1 already
3 | 1 2 3 4L+ | node 0000000000000004 still holds a replica of shard 1
4 | 1 2 3 4L | changed
4 | 1 2 3 4L | unchanged
5 | 1 2 3 4 | changed
6 | 2 3 4 | changed
6 | 2 3 4 | unchanged
6 | 2 3 4 | shard 1 has no replica 1 in the map
6 | 2 3 4 | a new replica of shard 1 cannot be 1: the next is 5
";
    assert_eq!(told, expected);
}

#[test]
fn a_replica_is_given_up() {
    let told = transcript(&[
        Change::RegisterNode(node(4, "d", 1)),
        add(4, 4),
        report(10, &[1, 2, 3], &[]),
        forget(1),
        forget(4),
        forget(4),
        add(5, 4),
        report(11, &[], &[1]),
        report(11, &[1, 2], &[2]),
    ]);
    let expected = "\
2 | 1 2 3 | changed
3 | 1 2 3 4L+ | changed
4 | 1 2 3 4L+ | changed
4 | 1 2 3 4L+ | replica 1 of shard 1 is a member of its group, which must remove it first
5 | 1 2 3 | changed
5 | 1 2 3 | unchanged
6 | 1 2 3 5L+ | changed
6 | 1 2 3 5L+ | the members of shard 1 have no voter, or name a replica twice
6 | 1 2 3 5L+ | the members of shard 1 have no voter, or name a replica twice
";
    assert_eq!(told, expected);
}

#[test]
fn nodes_and_settings_change_from_what_is_known() {
    let (four, moved, again) = (node(4, "d", 1), node(4, "e", 1), node(4, "f", 1));
    let update =
        |was: &crate::NodeInfo, now: &crate::NodeInfo| Change::UpdateNode { was: was.clone(), now: now.clone() };
    let told = transcript(&[
        update(&four, &moved),
        Change::RegisterNode(four.clone()),
        Change::RegisterNode(four.clone()),
        Change::RegisterNode(moved.clone()),
        update(&four, &moved),
        update(&four, &moved),
        update(&moved, &again),
        update(&four, &moved),
        Change::ForgetNode(NodeId(4)),
        Change::ForgetNode(NodeId(4)),
        set(None, Some("nosync")),
        set(None, Some("nosync")),
        set(None, Some("sync")),
        set(Some("nosync"), None),
        Change::RegisterNode(node(5, "a zone", 1)),
        Change::Setting { name: "A".to_owned(), was: None, now: None },
        // As a newer release may know them: what is proposed was looked at by the one that has proposed it.
        Change::Setting { name: "nosuch".to_owned(), was: None, now: Some("1".to_owned()) },
        set(None, Some("never")),
        set(None, Some("SYNC")),
        set(Some("never"), Some("SYNC")),
    ]);
    let told: Vec<&str> = told.lines().map(|line| line.rsplit(" | ").next().unwrap()).collect();
    let expected = [
        "the store has no node 0000000000000004",
        "changed",
        "unchanged",
        "node 0000000000000004 is registered with other addresses, zone or capacity",
        "changed",
        "unchanged",
        "changed",
        "node 0000000000000004 was changed in the meantime",
        "changed",
        "unchanged",
        "changed",
        "unchanged",
        "the setting durability was changed in the meantime",
        "changed",
        "node 0000000000000005: the zone contains a space, comma or control character",
        "a setting's name consists of lower-case letters, digits and hyphens",
        "changed",
        "changed",
        "the setting durability was changed in the meantime",
        "changed",
    ];
    assert_eq!(told, expected);
}

/// Whatever a release knows of settings, it comes to the same map as the one that has proposed a change.
#[test]
fn settings_of_another_release_are_kept_and_have_no_effect() {
    let mut map = small();
    let mut change = |name: &str, now: Option<&str>| {
        let was = map.settings.get(name).cloned();
        crate::apply(&mut map, &Change::Setting { name: name.to_owned(), was, now: now.map(str::to_owned) })
    };
    for (name, value) in [("from-the-future", "a;b=c"), ("split-bytes", "as much as fits"), ("moves-per-node", "1000")]
    {
        assert!(change(name, Some(value)).unwrap().changed, "{name}");
    }
    for (name, value) in [("Name", "1"), ("", "1"), ("a", &*"x".repeat(vocab::limits::SETTING_VALUE_BYTES_MAX + 1))] {
        assert!(matches!(change(name, Some(value)), Err(Refusal::OutOfBounds(_))), "{name}");
    }
    assert_eq!(crate::Settings::of(&map), crate::Settings::default());
    assert_eq!(Map::decode(&map.encode()).as_ref(), Ok(&map));
}

#[test]
fn the_first_map_comes_once() {
    let mut map = small();
    crate::apply(&mut map, &set(None, Some("nosync"))).unwrap();
    let before = map.clone();
    assert!(!crate::apply(&mut map, &Change::Begin(small())).unwrap().changed);
    let other = Map { store: vocab::StoreId(8), ..small() };
    assert_eq!(crate::apply(&mut map, &Change::Begin(other)), Err(Refusal::OtherStore(vocab::StoreId(8))));
    assert_eq!(map, before);
}

#[test]
fn drawn_changes_keep_the_rules_and_nothing_happens_twice() {
    let mut prng = Prng::new(5);
    let mut changed = 0;
    for _ in 0..40 {
        let mut map = drawn(&mut prng);
        for _ in 0..200 {
            let before = map.clone();
            let change = drawn_change(&map, &mut prng);
            let outcome = crate::apply(&mut map, &change);
            map.validate().unwrap();
            let is_other = Map { epoch: before.epoch, ..map.clone() } != before;
            assert_eq!(outcome.as_ref().is_ok_and(|outcome| outcome.changed), is_other, "{change:?}: {outcome:?}");
            assert_eq!(map.epoch.0, before.epoch.0 + u64::from(is_other), "{change:?}");
            let once = map.clone();
            assert!(!crate::apply(&mut map, &change).is_ok_and(|outcome| outcome.changed), "{change:?}");
            assert_eq!(map, once, "{change:?} twice");
            changed += u32::from(is_other);
        }
    }
    assert!(changed > 1000, "only {changed} changes did anything");
}

/// The choice is one plan's, and goes with it.
#[test]
fn one_replica_is_chosen_to_go_on_alone() {
    let mut map = small();
    let choose = |plan: u64, replica: u64| Change::ChooseSurvivor {
        plan: PlanId(plan),
        shard: SHARD,
        replica: ReplicaId(replica),
    };
    let begin = |id: u64, shards: Vec<ShardId>| Change::BeginPlan {
        id: PlanId(id),
        kind: PlanKind::UnsafeRecover(shards),
        at_ms: 1,
        detail: String::new(),
    };
    let end = |id: u64| Change::SetPlan {
        id: PlanId(id),
        was: PlanState::Running,
        now: PlanState::Cancelled,
        at_ms: 2,
        detail: String::new(),
    };
    assert_eq!(crate::apply(&mut map, &choose(1, 2)), Err(Refusal::PlanChanged(PlanId(1))));
    for change in [begin(1, vec![SHARD]), begin(2, vec![SHARD, ShardId(2)]), choose(1, 2)] {
        assert!(crate::apply(&mut map, &change).unwrap().changed, "{change:?}");
        assert_eq!(Map::decode(&map.encode()).as_ref(), Ok(&map));
    }
    assert!(!crate::apply(&mut map, &choose(1, 2)).unwrap().changed);
    assert!(matches!(crate::apply(&mut map, &choose(1, 3)), Err(Refusal::Impossible(_))), "another replica");
    assert!(matches!(crate::apply(&mut map, &choose(2, 3)), Err(Refusal::Impossible(_))), "for another plan");
    assert!(crate::apply(&mut map, &end(1)).unwrap().changed && map.survivors.is_empty());
    assert!(matches!(crate::apply(&mut map, &choose(2, 9)), Err(Refusal::UnknownReplica(..))));
    assert!(crate::apply(&mut map, &choose(2, 3)).unwrap().changed);
    assert_eq!(Map::decode(&map.encode()), Ok(map));
}
