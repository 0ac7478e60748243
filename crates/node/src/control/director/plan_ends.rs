//! Plans that have nothing left to do, and how each kind ends.

use super::action::DirectorAction;
use super::explicit_moves::{own_moves, receiver};
use super::inputs::Inputs;
use super::leaders::leaders_are_even;
use super::pending_moves::PendingMoves;
use cluster::{Change, Plan, PlanKind, PlanState, ShardInfo};
use std::collections::{BTreeMap, BTreeSet};
use vocab::{NodeId, PlanId, ShardId};

/// A plan must have nothing to do for this long, in µs, before it is done: its last step may not be reported yet.
const QUIET_US: u64 = 1_000_000;
/// A node that is to be restarted is kept from leading for this long at most, in ms.
const DRAINED_MS_MAX: u64 = 15 * 60 * 1000;

/// Plans without anything to do.
#[derive(Debug, Default)]
pub(super) struct PlanEnds {
    /// Since when each has nothing to do, in µs.
    quiet: BTreeMap<PlanId, u64>,
}

impl PlanEnds {
    /// Ends plans that have nothing left to do.
    pub(super) fn end(
        &mut self,
        inputs: &Inputs<'_>,
        pending: &PendingMoves,
        left: &BTreeSet<PlanId>,
        actions: &mut Vec<DirectorAction>,
    ) {
        let &Inputs { map, now, .. } = inputs;
        self.quiet.retain(|plan, _| !left.contains(plan) && map.plans.contains_key(plan));
        for plan in map.open_plans().filter(|plan| plan.state == PlanState::Running) {
            if left.contains(&plan.id) {
                continue;
            }
            let since_us = *self.quiet.entry(plan.id).or_insert(now.mono_us);
            // Nothing to do as of a look that was taken since.
            let unseen = plan.kind.moves_replicas() && pending.at_us < since_us;
            if now.mono_us < since_us + QUIET_US || unseen {
                continue;
            }
            match verdict(inputs, pending, plan) {
                Verdict::Open => {}
                Verdict::Forget(node) => actions.push(DirectorAction::Propose(Change::ForgetNode(node))),
                Verdict::Over(state, detail) => {
                    let (id, was, at_ms) = (plan.id, plan.state, now.wall_ms);
                    let detail = if detail.is_empty() { plan.detail.clone() } else { detail };
                    actions.push(DirectorAction::Propose(Change::SetPlan { id, was, now: state, at_ms, detail }));
                }
            }
        }
    }
}

/// What is to become of a plan.
enum Verdict {
    /// It waits for something.
    Open,
    /// The node is empty: it can be forgotten.
    Forget(NodeId),
    /// It is over: its state, and why.
    Over(PlanState, String),
}

/// What becomes of a plan that has no step and no move.
fn verdict(inputs: &Inputs<'_>, pending: &PendingMoves, plan: &Plan) -> Verdict {
    let &Inputs { map, settings, seen, now } = inputs;
    let done = || Verdict::Over(PlanState::Done, String::new());
    let empty = |node: &NodeId| map.replicas_on(*node).next().is_none();
    match &plan.kind {
        PlanKind::DrainNode(node) if empty(node) => done(),
        PlanKind::RemoveNode(node) | PlanKind::ReplaceNode { node, .. } => match map.nodes.contains_key(node) {
            false => done(),
            true if empty(node) => Verdict::Forget(*node),
            true => Verdict::Open,
        },
        PlanKind::Repair(node) if empty(node) => done(),
        PlanKind::Repair(node) if seen.is_settled(*node, now) => {
            Verdict::Over(PlanState::Done, format!("node {node} has come back"))
        }
        PlanKind::DrainNode(_) | PlanKind::Repair(_) => Verdict::Open,
        PlanKind::AddNode(node) if !map.nodes.contains_key(node) || map.leaving.contains(node) => {
            Verdict::Over(PlanState::Failed, format!("node {node} is to hold nothing"))
        }
        PlanKind::AddNode(node) => {
            // One that does not answer may come back; one that is lost has to be added again.
            match seen.silent_us(*node, now) {
                silent_us if silent_us >= settings.failure_timeout_ms * 1000 => {
                    Verdict::Over(PlanState::Failed, format!("node {node} was lost"))
                }
                _ if seen.answers(*node, now) => done(),
                _ => Verdict::Open,
            }
        }
        kind if plan.steps_done == 0 && receiver(kind).is_some_and(|node| pending.lost.contains(&node)) => {
            Verdict::Over(PlanState::Failed, "the node that was to take it was lost".to_owned())
        }
        PlanKind::MoveShard { shard, to, .. } => {
            let there = map.shards.get(shard).is_some_and(|info| info.replica_on(*to).is_some());
            let failed = || Verdict::Over(PlanState::Failed, "the shard's replicas have changed".to_owned());
            // Another plan may have moved it on since, by the rules of placement.
            if there || plan.steps_done > 0 { done() } else { failed() }
        }
        PlanKind::DrainLeaders(node) => leaders_drained(inputs, plan, *node),
        PlanKind::BalanceLeaders if leaders_are_even(inputs) => done(),
        PlanKind::BalanceLeaders => Verdict::Open,
        // It was begun, but what is to go cannot go yet.
        PlanKind::Rebuild { .. } if !own_moves(map, plan, seen, &pending.lost).is_empty() => Verdict::Open,
        PlanKind::Rebuild { node, shard: named } => match broken_of(inputs, *node, *named) {
            Some(shard) => {
                let text = format!("shard {shard} has no other replica that it could be made from");
                Verdict::Over(PlanState::Failed, text)
            }
            None => done(),
        },
        PlanKind::SplitShard { shard, .. } if plan.steps_done == 0 => {
            Verdict::Over(PlanState::Failed, format!("shard {shard} cannot be divided so any more"))
        }
        PlanKind::Rebalance
        | PlanKind::SetReplicationFactor(_)
        | PlanKind::ChangeZone { .. }
        | PlanKind::SplitShard { .. }
        | PlanKind::SplitAll => done(),
        PlanKind::UnsafeRecover(shards) => recovered(inputs, shards),
    }
}

/// A shard with a damaged replica on that node; of the named shard only, if one is named.
fn broken_of(inputs: &Inputs<'_>, node: NodeId, named: Option<ShardId>) -> Option<ShardId> {
    let &Inputs { map, seen, .. } = inputs;
    let of_plan = |shard: ShardId| named.is_none_or(|named| named == shard);
    let mut broken = seen.broken_on(node);
    broken.find(|(shard, id, _)| of_plan(*shard) && map.replica(*shard, *id).is_some()).map(|(shard, _, _)| shard)
}

/// What becomes of a plan that keeps a node from leading until it is restarted.
fn leaders_drained(inputs: &Inputs<'_>, plan: &Plan, node: NodeId) -> Verdict {
    let &Inputs { map, seen, now, .. } = inputs;
    let figures = seen.nodes.get(&node).and_then(|node| node.figures.as_ref());
    if !map.nodes.contains_key(&node) {
        Verdict::Over(PlanState::Failed, format!("the store has no node {node} any more"))
    } else if figures.is_some_and(|of| of.started_ms > plan.began_ms) && seen.is_settled(node, now) {
        Verdict::Over(PlanState::Done, format!("node {node} was restarted and may lead again"))
    } else if now.wall_ms.abs_diff(plan.began_ms) > DRAINED_MS_MAX {
        // So far ahead, too: the clock of the node that directed then had jumped, and the restart that is waited for would never be later.
        Verdict::Over(PlanState::Done, format!("node {node} was not restarted, and may lead again"))
    } else {
        Verdict::Open
    }
}

/// What becomes of a plan that has shards go on with one replica.
fn recovered(inputs: &Inputs<'_>, shards: &[ShardId]) -> Verdict {
    let &Inputs { map, seen, now, .. } = inputs;
    // One that stood still while the others were destroyed says for a moment that it leads, as it did before.
    let led = |(shard, info): (ShardId, &ShardInfo)| {
        let there = info.voters().filter(|voter| seen.is_there(voter.node, now) && inputs.is_sound(shard, voter));
        seen.is_led(shard, now) && there.count() > info.voters().count() / 2
    };
    if shards.iter().filter_map(|shard| Some((*shard, map.shards.get(shard)?))).all(led) {
        Verdict::Over(PlanState::Done, "each shard has a leader; what it has lost, if anything, is unknown".to_owned())
    } else {
        Verdict::Open
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::control::director::observe::Seen;
    use crate::control::director::test_reports::report_of;
    use crate::test_nodes::node_info;
    use cluster::{Map, Settings};
    use vocab::{Moment, Slot, StoreId};

    const PLAN: PlanId = PlanId(1);
    const SHARD: ShardId = ShardId(1);
    /// When the plan was begun, in ms.
    const BEGAN_MS: u64 = 1_000_000;
    const FAILURE_TIMEOUT_MS: u64 = 30_000;

    /// A store of four nodes, of which nodes 1 to 3 hold all shards, and one plan.
    struct Store {
        map: Map,
        now: Moment,
        /// How long each node has been silent, in seconds, if it does not answer.
        silent: BTreeMap<u64, u64>,
        /// For how long the node that directs has stood still until now, in seconds.
        stood: u64,
        damaged: Vec<u64>,
        /// The node that leads all shards.
        leader: Option<u64>,
        lost: BTreeSet<NodeId>,
        steps_done: u64,
        /// When node 1 was started, in ms.
        started_ms: u64,
    }

    impl Store {
        fn new() -> Self {
            let mut map = cluster::initial_map(StoreId(7), &[1, 2, 3].map(node_info), 3, 3).unwrap();
            cluster::apply(&mut map, &Change::RegisterNode(node_info(4))).unwrap();
            Self {
                map,
                now: Moment { wall_ms: BEGAN_MS + 60_000, mono_us: 60_000_000 },
                silent: BTreeMap::new(),
                stood: 0,
                damaged: Vec::new(),
                leader: None,
                lost: BTreeSet::new(),
                steps_done: 0,
                started_ms: 1,
            }
        }

        /// What the director has seen: each node answers since second 40, but for those that are silent.
        fn seen(&self) -> Seen {
            let mut seen = Seen::default();
            seen.began_us.get_or_insert(1);
            let shards: Vec<ShardId> = self.map.shards.keys().copied().collect();
            for id in self.map.nodes.keys() {
                let leads = if self.leader == Some(id.0) { &shards[..] } else { &[] };
                let silent_us = self.silent.get(&id.0).map_or(0, |seconds| seconds * 1_000_000);
                let last_us = self.now.mono_us - silent_us;
                for mono_us in (40_000_000.min(last_us)..=last_us).step_by(1_000_000) {
                    let mut report = report_of(&self.map, *id, leads, self.damaged.contains(&id.0));
                    if *id == NodeId(1) {
                        report.figures.started_ms = self.started_ms;
                    }
                    seen.report(*id, report, Moment { mono_us, ..self.now });
                }
            }
            seen.stood_still(self.stood * 1_000_000, self.now);
            seen
        }

        /// What becomes of a plan that has had nothing to do for long enough.
        fn end(&mut self, kind: PlanKind) -> String {
            let plan = Plan {
                id: PLAN,
                kind,
                state: PlanState::Running,
                began_ms: BEGAN_MS,
                ended_ms: 0,
                steps_done: self.steps_done,
                detail: "a test".to_owned(),
            };
            self.map.plans.insert(PLAN, plan);
            let settings = Settings { failure_timeout_ms: FAILURE_TIMEOUT_MS, ..Settings::of(&self.map) };
            let (seen, mut ends) = (self.seen(), PlanEnds { quiet: BTreeMap::from([(PLAN, 1)]) });
            let mut pending = PendingMoves::default();
            pending.lost.clone_from(&self.lost);
            pending.at_us = self.now.mono_us;
            let inputs = Inputs { map: &self.map, settings: &settings, seen: &seen, now: self.now };
            let mut actions = Vec::new();
            ends.end(&inputs, &pending, &BTreeSet::new(), &mut actions);
            match &actions[..] {
                [] => "open".to_owned(),
                [DirectorAction::Propose(Change::ForgetNode(node))] => format!("forget {}", node.0),
                [DirectorAction::Propose(Change::SetPlan { id: PLAN, was: PlanState::Running, now, detail, .. })] => {
                    format!("{}: {detail}", now.word())
                }
                other => panic!("{other:?}"),
            }
        }
    }

    const AS_BEGUN: &str = "done: a test";

    fn as_is(_: &mut Store) {}

    /// A kind of plan, what the store is like, and what becomes of the plan.
    type Case = (PlanKind, fn(&mut Store), String);

    fn check(cases: Vec<Case>) {
        for (kind, setup, wanted) in cases {
            let mut store = Store::new();
            setup(&mut store);
            let case = format!("{kind:?}, silent {:?}, damaged {:?}", store.silent, store.damaged);
            assert_eq!(store.end(kind), wanted, "{case}");
        }
    }

    #[test]
    fn what_becomes_of_a_plan_for_a_node_that_has_nothing_to_do() {
        let move_to = |to: u64| PlanKind::MoveShard { shard: SHARD, from: NodeId(1), to: NodeId(to) };
        check(vec![
            (PlanKind::DrainNode(NodeId(4)), as_is, AS_BEGUN.into()),
            (PlanKind::DrainNode(NodeId(1)), as_is, "open".into()),
            (PlanKind::RemoveNode(NodeId(4)), as_is, "forget 4".into()),
            (PlanKind::RemoveNode(NodeId(1)), as_is, "open".into()),
            (PlanKind::RemoveNode(NodeId(9)), as_is, AS_BEGUN.into()),
            (PlanKind::ReplaceNode { node: NodeId(4), with: NodeId(1) }, as_is, "forget 4".into()),
            (PlanKind::Repair(NodeId(4)), as_is, AS_BEGUN.into()),
            (PlanKind::Repair(NodeId(1)), as_is, format!("done: node {} has come back", NodeId(1))),
            (PlanKind::Repair(NodeId(1)), |store| store.silent.extend([(1, 5)]), "open".into()),
            (PlanKind::AddNode(NodeId(4)), as_is, AS_BEGUN.into()),
            (PlanKind::AddNode(NodeId(4)), |store| store.silent.extend([(4, 5)]), "open".into()),
            (
                PlanKind::AddNode(NodeId(4)),
                |store| store.silent.extend([(4, 50)]),
                format!("failed: node {} was lost", NodeId(4)),
            ),
            (
                PlanKind::AddNode(NodeId(4)),
                |store| {
                    store.map.leaving.insert(NodeId(4));
                },
                format!("failed: node {} is to hold nothing", NodeId(4)),
            ),
            (move_to(2), as_is, AS_BEGUN.into()),
            (move_to(4), as_is, "failed: the shard's replicas have changed".into()),
            (move_to(4), |store| store.steps_done = 1, AS_BEGUN.into()),
            (
                move_to(4),
                |store| {
                    store.lost.insert(NodeId(4));
                },
                "failed: the node that was to take it was lost".into(),
            ),
            (PlanKind::DrainLeaders(NodeId(1)), as_is, "open".into()),
            (
                PlanKind::DrainLeaders(NodeId(1)),
                |store| store.started_ms = BEGAN_MS + 1,
                format!("done: node {} was restarted and may lead again", NodeId(1)),
            ),
            (
                PlanKind::DrainLeaders(NodeId(1)),
                |store| store.now.wall_ms = BEGAN_MS + DRAINED_MS_MAX + 1,
                format!("done: node {} was not restarted, and may lead again", NodeId(1)),
            ),
            (
                // The plan began while the clock stood years ahead.
                PlanKind::DrainLeaders(NodeId(1)),
                |store| store.now.wall_ms = BEGAN_MS - DRAINED_MS_MAX - 1,
                format!("done: node {} was not restarted, and may lead again", NodeId(1)),
            ),
            (PlanKind::DrainLeaders(NodeId(9)), as_is, format!("failed: the store has no node {} any more", NodeId(9))),
        ]);
    }

    #[test]
    fn what_becomes_of_another_plan_that_has_nothing_to_do() {
        let rebuild = || PlanKind::Rebuild { node: NodeId(1), shard: None };
        let split = || PlanKind::SplitShard { shard: SHARD, at: Some(Slot(9)) };
        check(vec![
            (PlanKind::BalanceLeaders, as_is, AS_BEGUN.into()),
            (PlanKind::BalanceLeaders, |store| store.leader = Some(1), "open".into()),
            (rebuild(), as_is, AS_BEGUN.into()),
            (rebuild(), |store| store.damaged = vec![1], "open".into()),
            (
                rebuild(),
                |store| {
                    store.map = cluster::initial_map(StoreId(7), &[node_info(1)], 3, 1).unwrap();
                    store.damaged = vec![1];
                },
                "failed: shard 0 has no other replica that it could be made from".into(),
            ),
            (split(), as_is, "failed: shard 1 cannot be divided so any more".into()),
            (split(), |store| store.steps_done = 1, AS_BEGUN.into()),
            (PlanKind::SplitAll, as_is, AS_BEGUN.into()),
            (PlanKind::Rebalance, as_is, AS_BEGUN.into()),
            (PlanKind::SetReplicationFactor(3), as_is, AS_BEGUN.into()),
            (PlanKind::ChangeZone { node: NodeId(1), zone: "b".into() }, as_is, AS_BEGUN.into()),
            (PlanKind::UnsafeRecover(vec![SHARD]), as_is, "open".into()),
            (
                PlanKind::UnsafeRecover(vec![SHARD]),
                |store| store.leader = Some(1),
                "done: each shard has a leader; what it has lost, if anything, is unknown".into(),
            ),
            (
                PlanKind::UnsafeRecover(vec![SHARD]),
                |store| (store.leader, store.damaged) = (Some(1), vec![2, 3]),
                "open".into(),
            ),
            // What was heard before this node stood still, even if it came after, proves no leader.
            (
                PlanKind::UnsafeRecover(vec![SHARD]),
                |store| (store.leader, store.stood, store.silent) = (Some(1), 5, [(1, 5), (2, 5), (3, 5)].into()),
                "open".into(),
            ),
            (PlanKind::UnsafeRecover(vec![SHARD]), |store| (store.leader, store.stood) = (Some(1), 5), "open".into()),
        ]);
    }

    #[test]
    fn a_plan_ends_once_it_has_had_nothing_to_do_for_a_while() {
        let mut store = Store::new();
        store.end(PlanKind::DrainNode(NodeId(4)));
        let (settings, seen) = (Settings::of(&store.map), store.seen());
        let begun = store.now;
        // Per look: µs after the first, whether the plan has something to do, whether the moves were worked out, and
        // whether the plan ends.
        let looks = [
            (0, false, true, false),
            (QUIET_US - 1, false, true, false),
            (QUIET_US, true, true, false),
            (QUIET_US + 1, false, true, false),
            (2 * QUIET_US, false, true, false),
            (2 * QUIET_US + 1, false, false, false),
            (2 * QUIET_US + 2, false, true, true),
        ];
        let mut ends = PlanEnds::default();
        for (after_us, is_left, is_worked_out, does_end) in looks {
            let now = Moment { mono_us: begun.mono_us + after_us, ..begun };
            let inputs = Inputs { map: &store.map, settings: &settings, seen: &seen, now };
            let mut pending = PendingMoves::default();
            pending.at_us = if is_worked_out { now.mono_us } else { begun.mono_us };
            let left: BTreeSet<PlanId> = is_left.then_some(PLAN).into_iter().collect();
            let mut actions = Vec::new();
            ends.end(&inputs, &pending, &left, &mut actions);
            assert_eq!(!actions.is_empty(), does_end, "after {after_us} µs: {actions:?}");
        }
    }
}
