//! Automatic splits: shards that have grown too large, and shards whose rate is too high.
//!
//! A shard that was split is not split again for a while: its rate shows only after some time. Until the rows that it has given away
//! are removed, its bytes are an estimate, and it is not split for its size: else each part would be split on and on for what it has
//! no more. Where a shard is hot because of one slot, such as that of
//! a database, halves do not help: the slot is split off at either end, one after the other, until it has a shard to itself.

use super::inputs::Inputs;
use super::observe::DivisionSeen;
use super::splits::{SPLITS_AT_ONCE, is_divisible};
use cluster::{Map, PlanKind, PlanState, ShardInfo};
use std::collections::{BTreeMap, BTreeSet};
use vocab::{Database, ShardId, Slot};

/// A shard's rate has to be too high for this long without a pause, in µs, or for a quarter of `split-rest-ms` if that is
/// less.
const HOT_US: u64 = 60_000_000;
/// Of a thousand operations, the busier half may have so many at most. Above that, a split would not help.
const BUSIER_MAX: u16 = 750;
/// Of a thousand operations, the busier part has so many at most where other slots than its busiest one are asked for anything worth
/// a shard of its own. Reports count empty slots a little.
const CROWDED_MAX: u16 = 990;
/// With so many shards a node, shards are not split for their rate: more shards do not help.
const SHARDS_PER_NODE: usize = 256;

/// A new shard may have no leader for this long, in µs: its parent's tree is flushed and forked first.
const MADE_US: u64 = 15_000_000;

/// What the director remembers of splits and of hot shards.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// When each shard was last split, in µs.
    divided: BTreeMap<ShardId, u64>,
    /// New shards that are being made, and since when the director knows it, in µs.
    making: BTreeMap<ShardId, u64>,
    /// Since when the rate of each hot shard is too high, in µs.
    hot: BTreeMap<ShardId, u64>,
    /// Since when the rate of one slot alone is too high that shares a shard with others, in µs.
    crowded: BTreeMap<ShardId, u64>,
}

/// The least rate that the busiest of a shard's slots can have, if it shares the shard with others that are asked too; else 0.
/// What the busier part has beyond the other one, at the slot that divides them best, is one slot's.
fn rate_of_one(rate: f64, by_load: Option<(Slot, u16)>) -> f64 {
    match by_load {
        Some((_, busier @ 500..=CROWDED_MAX)) => rate * f64::from(2 * busier - 1000) / 1000.0,
        _ => 0.0,
    }
}

impl Growth {
    /// Notes which shards are being split, and which are hot.
    pub(super) fn note(&mut self, inputs: &Inputs<'_>) {
        let &Inputs { map, settings, seen, now } = inputs;
        let halves = map.splits.iter().flat_map(|(child, split)| [*child, split.parent]);
        self.divided.extend(halves.map(|shard| (shard, now.mono_us)));
        let is_made = |child: &ShardId| !map.splits.contains_key(child) && seen.leader(*child, now).is_some();
        let counts = |since_us: u64| now.mono_us < since_us + MADE_US;
        self.making.retain(|child, at_us| !is_made(child) && (map.splits.contains_key(child) || counts(*at_us)));
        map.splits.keys().for_each(|child| _ = self.making.entry(*child).or_insert(now.mono_us));
        let rest_us = settings.split_rest_ms * 1000;
        self.divided.retain(|_, at_us| now.mono_us < *at_us + rest_us);
        let above = |rate: fn(&DivisionSeen) -> f64, most: u64, before: &BTreeMap<ShardId, u64>| {
            let often = |shard: &ShardId| seen.division(*shard).is_some_and(|division| rate(division) > most as f64);
            let is_above = |shard: &ShardId| most > 0 && often(shard) && seen.leader(*shard, now).is_some();
            let shards = map.data_shards().map(|(shard, _)| shard).filter(is_above);
            shards.map(|shard| (shard, before.get(&shard).copied().unwrap_or(now.mono_us))).collect()
        };
        self.hot = above(|division| division.rate, settings.split_ops, &self.hot);
        let of_one = |division: &DivisionSeen| rate_of_one(division.rate, division.known.by_load);
        self.crowded = above(of_one, settings.own_shard_ops, &self.crowded);
    }

    /// Whether it is expected that a shard has no leader now: it is being handed over, or made.
    pub(super) fn changes_hands(&self, inputs: &Inputs<'_>, shard: ShardId) -> bool {
        let &Inputs { map, seen, now, .. } = inputs;
        let since_us = self.making.get(&shard).copied();
        // Before this was looked at, it has just begun.
        let made = since_us.map_or(map.splits.contains_key(&shard), |since_us| now.mono_us < since_us + MADE_US);
        made || seen.is_handed_over(shard, now)
    }

    /// A plan for a shard that has grown too large, or is hot.
    pub(super) fn wanted_split(&self, inputs: &Inputs<'_>) -> Option<(PlanKind, String)> {
        let &Inputs { map, settings, seen, .. } = inputs;
        if !settings.auto_split || map.splits.len() >= SPLITS_AT_ONCE {
            return None;
        }
        let resting = self.resting(inputs)?;
        let may_be = |(shard, info): &(ShardId, &ShardInfo)| is_divisible(map, info, None) && !resting.contains(shard);
        map.data_shards().filter(may_be).find_map(|(shard, info)| {
            let bytes = seen.known_bytes(shard).unwrap_or(0);
            if bytes > settings.split_bytes {
                let text = format!("the shard has {} MB, more than split-bytes", bytes / 1_000_000);
                return Some((PlanKind::SplitShard { shard, at: None }, text));
            }
            if let Some((at, rate)) = self.divided_by_load(inputs, shard, info) {
                let text = format!("the shard is asked for {rate:.0} operations a second, more than split-ops");
                return Some((PlanKind::SplitShard { shard, at: Some(at) }, text));
            }
            let (at, rate) = self.divided_beside_one(inputs, shard, info)?;
            let database = [at.0 - 1, at.0].map(|slot| Database::of_slot(Slot(slot)).number()).into_iter().min();
            let text = format!(
                "one slot beside {at} (database {}) is asked for {rate:.0} operations a second, more than own-shard-ops: it \
                 gets a shard to itself",
                database.unwrap_or_default()
            );
            Some((PlanKind::SplitShard { shard, at: Some(at) }, text))
        })
    }

    /// Shards that are not to be split now: they were split, are going to be, or an operator has cancelled it. `None`: no
    /// shard is to be split now.
    fn resting(&self, inputs: &Inputs<'_>) -> Option<BTreeSet<ShardId>> {
        let &Inputs { map, settings, seen, now } = inputs;
        let directs_ms = now.mono_us.saturating_sub(seen.began_us.unwrap_or(now.mono_us)) / 1000;
        let mut resting: BTreeSet<ShardId> = self.divided.keys().copied().collect();
        for plan in map.plans.values() {
            let ended = plan.state.has_ended();
            let lately = now.wall_ms < plan.ended_ms.saturating_add(settings.split_rest_ms);
            // Which shards a plan has made, only the node knew that directed then.
            let of_another = plan.state == PlanState::Done && plan.ended_ms.saturating_add(directs_ms) < now.wall_ms;
            match plan.kind {
                _ if ended && !lately => {}
                PlanKind::SplitShard { .. } | PlanKind::SplitAll if of_another => return None,
                PlanKind::SplitShard { shard, .. } => _ = resting.insert(shard),
                PlanKind::SplitAll if !ended => return None,
                _ => {}
            }
        }
        Some(resting)
    }

    /// Where a hot shard is to be split, and its rate.
    fn divided_by_load(&self, inputs: &Inputs<'_>, shard: ShardId, info: &ShardInfo) -> Option<(Slot, f64)> {
        let &Inputs { map, seen, .. } = inputs;
        if !is_long_enough(self.hot.get(&shard), inputs) {
            return None;
        }
        let division = seen.division(shard)?;
        let (at, busier) = division.known.by_load?;
        let may_be = busier <= BUSIER_MAX && is_divisible(map, info, Some(at));
        (may_be && has_room(map)).then_some((at, division.rate))
    }

    /// At which end the busiest slot of a shard is to be split off, and its rate.
    fn divided_beside_one(&self, inputs: &Inputs<'_>, shard: ShardId, info: &ShardInfo) -> Option<(Slot, f64)> {
        let &Inputs { map, seen, .. } = inputs;
        if !is_long_enough(self.crowded.get(&shard), inputs) {
            return None;
        }
        let division = seen.division(shard)?;
        let (at, _) = division.known.by_load?;
        (is_divisible(map, info, Some(at)) && has_room(map))
            .then(|| (at, rate_of_one(division.rate, division.known.by_load)))
    }
}

/// Whether a rate has been too high for long enough, since that time.
fn is_long_enough(since_us: Option<&u64>, inputs: &Inputs<'_>) -> bool {
    let wait_us = HOT_US.min(inputs.settings.split_rest_ms * 1000 / 4);
    since_us.is_some_and(|since_us| inputs.now.mono_us >= since_us + wait_us)
}

/// Whether one more shard for a rate helps.
fn has_room(map: &Map) -> bool {
    map.shards.len().saturating_sub(1) < map.nodes.len() * SHARDS_PER_NODE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_slot_is_asked_at_least_is_known_by_the_best_division() {
        for (by_load, expected) in [
            (None, 0),
            // Halves are asked the same: no slot need be asked for much.
            (Some((Slot(7), 500)), 0),
            (Some((Slot(7), 750)), 500),
            (Some((Slot(7), 990)), 980),
            // Nothing else is asked: it is alone already, as good as.
            (Some((Slot(7), 991)), 0),
            (Some((Slot(7), 1000)), 0),
        ] {
            assert_eq!(rate_of_one(1000.0, by_load).round() as u64, expected, "{by_load:?}");
        }
    }
}
