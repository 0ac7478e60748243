//! Shards that are divided unasked: those that have grown too large, and those that are asked too often.
//!
//! What was divided rests: how many bytes each half has is an estimate until the rows that it has given away are removed,
//! and who asks for what shows only after a while. A shard that is asked too often because of one slot is left as it is: no division helps.

use super::Director;
use super::splits::{SPLITS_AT_ONCE, is_divisible};
use cluster::{Map, PlanKind, PlanState, Settings, ShardInfo};
use std::collections::{BTreeMap, BTreeSet};
use vocab::{Moment, ShardId, Slot};

/// For so long a shard has to be asked too often without a pause, in µs; or for a quarter of the rest, if that is less.
const HOT_US: u64 = 60_000_000;
/// Most operations of a thousand that the busier half may have; above that, a division would not help.
const BUSIER_MAX: u16 = 750;
/// Shards are not divided for being asked too often where there are so many for each node: more of them do not help.
const SHARDS_PER_NODE: usize = 256;

/// For so long a new shard may have no leader, in µs: its parent's tree is flushed and forked first.
const MADE_US: u64 = 15_000_000;

/// What is known of shards that were divided, or may have to be.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// Shards that have been divided, and when last, in µs.
    divided: BTreeMap<ShardId, u64>,
    /// New shards that are being made, and since when that is known, in µs.
    making: BTreeMap<ShardId, u64>,
    /// Shards that are asked too often, and since when, in µs.
    hot: BTreeMap<ShardId, u64>,
}

impl Director {
    /// Notes what is being divided, and which shards are asked too often.
    pub(super) fn note_growth(&mut self, map: &Map, settings: &Settings, now: Moment) {
        let halves = map.splits.iter().flat_map(|(child, split)| [*child, split.parent]);
        self.growth.divided.extend(halves.map(|shard| (shard, now.mono_us)));
        let seen = &self.seen;
        let is_made = |child: &ShardId| !map.splits.contains_key(child) && seen.leader(*child, now).is_some();
        let counts = |since_us: u64| now.mono_us < since_us + MADE_US;
        self.growth.making.retain(|child, at_us| !is_made(child) && (map.splits.contains_key(child) || counts(*at_us)));
        map.splits.keys().for_each(|child| _ = self.growth.making.entry(*child).or_insert(now.mono_us));
        let rest_us = settings.split_rest_ms * 1000;
        self.growth.divided.retain(|_, at_us| now.mono_us < *at_us + rest_us);
        let is_hot = |shard: &ShardId| {
            let often = self.seen.division(*shard).is_some_and(|seen| seen.rate > settings.split_ops as f64);
            settings.split_ops > 0 && often && self.seen.leader(*shard, now).is_some()
        };
        let hot = map.data_shards().map(|(shard, _)| shard).filter(is_hot);
        let before = &self.growth.hot;
        let hot = hot.map(|shard| (shard, before.get(&shard).copied().unwrap_or(now.mono_us))).collect();
        self.growth.hot = hot;
    }

    /// Whether a shard has no leader for a moment, as is planned: it is handed over, or is just being made.
    pub(super) fn changes_hands(&self, map: &Map, shard: ShardId, now: Moment) -> bool {
        let since_us = self.growth.making.get(&shard).copied();
        // Before this was looked at, it has just begun.
        let made = since_us.map_or(map.splits.contains_key(&shard), |since_us| now.mono_us < since_us + MADE_US);
        made || self.seen.is_handed_over(shard, now)
    }

    /// A plan for a shard that has grown too large, or is asked too often.
    pub(super) fn wanted_split(&self, map: &Map, settings: &Settings, now: Moment) -> Option<(PlanKind, String)> {
        if !settings.auto_split || map.splits.len() >= SPLITS_AT_ONCE {
            return None;
        }
        let resting = self.resting(map, settings, now)?;
        let may_be = |(shard, info): &(ShardId, &ShardInfo)| is_divisible(map, info, None) && !resting.contains(shard);
        map.data_shards().filter(may_be).find_map(|(shard, info)| {
            let bytes = self.seen.bytes(shard).unwrap_or(0);
            if bytes > settings.split_bytes {
                let text = format!("the shard has {} MB, more than split-bytes", bytes / 1_000_000);
                return Some((PlanKind::SplitShard { shard, at: None }, text));
            }
            let (at, rate) = self.divided_by_load(map, (shard, info), settings, now)?;
            let text = format!("the shard is asked for {rate:.0} operations a second, more than split-ops");
            Some((PlanKind::SplitShard { shard, at: Some(at) }, text))
        })
    }

    /// Shards that are not to be divided now, or none where that is so of all: what was divided, what is going to be, and
    /// what an operator has cancelled.
    fn resting(&self, map: &Map, settings: &Settings, now: Moment) -> Option<BTreeSet<ShardId>> {
        let directs_ms = now.mono_us.saturating_sub(self.seen.began_us.unwrap_or(now.mono_us)) / 1000;
        let mut resting: BTreeSet<ShardId> = self.growth.divided.keys().copied().collect();
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

    /// Where a shard that is asked too often is to be divided, and how often it is asked.
    fn divided_by_load(
        &self,
        map: &Map,
        (shard, info): (ShardId, &ShardInfo),
        settings: &Settings,
        now: Moment,
    ) -> Option<(Slot, f64)> {
        let since_us = *self.growth.hot.get(&shard)?;
        if now.mono_us < since_us + HOT_US.min(settings.split_rest_ms * 1000 / 4) {
            return None;
        }
        let seen = self.seen.division(shard)?;
        let (at, busier) = seen.known.by_load?;
        let may_be = busier <= BUSIER_MAX && is_divisible(map, info, Some(at));
        let has_room = map.shards.len().saturating_sub(1) < map.nodes.len() * SHARDS_PER_NODE;
        (may_be && has_room).then_some((at, seen.rate))
    }
}
