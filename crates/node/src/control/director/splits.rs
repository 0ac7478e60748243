//! Plans that split shards: which slots go, and how many splits are under way at once.

use super::action::DirectorAction;
use super::inputs::Inputs;
use crate::peer_protocol::Order;
use cluster::{Change, Map, Plan, PlanKind, PlanState, ShardInfo};
use std::collections::BTreeSet;
use vocab::limits::MAP_SHARDS_MAX;
use vocab::{PlanId, ShardId, Slot};

/// Splits that are under way at once. Four took so much of two processors that requests queued for seconds (the suite
/// `reshape`); one takes less than half a second.
pub(super) const SPLITS_AT_ONCE: usize = 1;

/// Orders leaders to make the splits that the map wants.
pub(super) fn advance(inputs: &Inputs<'_>, actions: &mut Vec<DirectorAction>) {
    let &Inputs { map, seen, now, .. } = inputs;
    for (&child, split) in &map.splits {
        if let Some(leader) = seen.leader(split.parent, now) {
            let order = Order::Split { child, slots: split.slots.clone() };
            actions.push(DirectorAction::Order { node: leader.node, shard: split.parent, order });
        }
    }
}

/// Begins splits that plans want, as many as may be under way. Adds to `left` the plans that still want some.
pub(super) fn begin(inputs: &Inputs<'_>, left: &mut BTreeSet<PlanId>, actions: &mut Vec<DirectorAction>) {
    let &Inputs { map, seen, now, .. } = inputs;
    let mut room = SPLITS_AT_ONCE.saturating_sub(map.splits.len());
    let mut child = map.next_shard;
    let mut parents: BTreeSet<ShardId> = map.splits.values().map(|split| split.parent).collect();
    for plan in map.open_plans() {
        for (parent, at) in wanted(map, plan) {
            left.insert(plan.id);
            let Some(info) = map.shards.get(&parent) else { continue };
            let free = !map.steps.contains_key(&parent) && parents.insert(parent);
            let settled = info.replicas.iter().all(|replica| replica.member && !replica.learner);
            // One after the other, in their order: by that it is known which were split.
            if room == 0 || !free || !settled || plan.state != PlanState::Running || seen.leader(parent, now).is_none()
            {
                break;
            }
            // Without an operator's choice both halves get equally many keys, by the leader's figures.
            let by_keys = || seen.division(parent)?.known.by_keys;
            let at = at.or_else(|| by_keys().filter(|at| is_divisible(map, info, Some(*at))));
            let slots = given_away(info, at);
            let change = Change::BeginSplit { plan: plan.id, parent, child: ShardId(child), slots };
            actions.push(DirectorAction::Propose(change));
            (room, child) = (room - 1, child + 1);
        }
    }
}

/// The shards that a plan still wants to split, and where.
fn wanted(map: &Map, plan: &Plan) -> Vec<(ShardId, Option<Slot>)> {
    let under_way = map.splits.values().filter(|split| split.plan == plan.id).count();
    let begun = plan.steps_done as usize + under_way;
    let divisible =
        |shard: &ShardId, at: Option<Slot>| map.shards.get(shard).is_some_and(|info| is_divisible(map, info, at));
    match plan.kind {
        PlanKind::SplitShard { shard, at } if begun == 0 && divisible(&shard, at) => vec![(shard, at)],
        PlanKind::SplitAll => {
            // Numbers rise and plans go by them: what the plan has made comes last, what it found is before.
            let count = map.data_shards().count().saturating_sub(begun);
            let made: Vec<&ShardInfo> = map.data_shards().skip(count).map(|(_, info)| info).collect();
            let mut split = 0;
            let mut is_left = |info: &ShardInfo| {
                if split == begun {
                    return is_divisible(map, info, None);
                }
                // It was begun with, but for one of a single slot, as a database may have it for itself. What is left of a shard may have
                // one, too: its child begins behind it.
                split +=
                    usize::from(info.slot_count() > 1 || made.get(split).is_some_and(|child| follows(info, child)));
                false
            };
            let found = map.data_shards().take(count).filter(|(_, info)| is_left(info));
            found.map(|(shard, _)| (shard, None)).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether the slots of `child` begin where those of `info` end.
fn follows(info: &ShardInfo, child: &ShardInfo) -> bool {
    let (last, first) = (info.slots.last().map(|range| range.1), child.slots.first().map(|range| range.0));
    last.and_then(|last| last.checked_add(1)).is_some_and(|next| first == Some(next))
}

/// Whether a shard can be split at that slot: another plan may have given the slots away.
pub(super) fn is_divisible(map: &Map, info: &ShardInfo, at: Option<Slot>) -> bool {
    let first = info.slots.first().map(|range| range.0);
    let divides = |at: Slot| info.owns(at) && first != Some(at.0);
    map.shards.len() < MAP_SHARDS_MAX && info.slot_count() > 1 && at.is_none_or(divides)
}

/// The slots that a new shard gets: those from `at` on, or the upper half of them.
fn given_away(info: &ShardInfo, at: Option<Slot>) -> Vec<(u16, u16)> {
    let half = info.slot_count() / 2;
    let mut before = 0;
    let mut given = Vec::new();
    for &(first, last) in &info.slots {
        let count = usize::from(last - first) + 1;
        let from = match at {
            Some(at) => first.max(at.0),
            None => first + half.saturating_sub(before).min(count) as u16,
        };
        before += count;
        if from <= last && from >= first {
            given.push((from, last));
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_half_goes_or_what_begins_at_a_slot() {
        let info = |slots: Slots<'_>| ShardInfo { slots: slots.to_vec(), ..ShardInfo::default() };
        type Slots<'a> = &'a [(u16, u16)];
        let cases: &[(Slots<'_>, Option<u16>, Slots<'_>)] = &[
            (&[(0, 99)], None, &[(50, 99)]),
            (&[(0, 98)], None, &[(49, 98)]),
            (&[(0, 99)], Some(10), &[(10, 99)]),
            (&[(0, 9), (20, 29)], None, &[(20, 29)]),
            (&[(0, 9), (20, 49)], None, &[(30, 49)]),
            (&[(0, 9), (20, 49)], Some(5), &[(5, 9), (20, 49)]),
            (&[(7, 8)], None, &[(8, 8)]),
        ];
        for (slots, at, expected) in cases {
            assert_eq!(given_away(&info(slots), at.map(Slot)), *expected, "{slots:?} at {at:?}");
        }
    }
}
