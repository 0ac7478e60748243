//! How far plans are: bytes that were moved, and how fast. It is kept in memory, so a new director counts from 0.

use super::inputs::Inputs;
use std::collections::BTreeMap;
use vocab::{Moment, PlanId, ReplicaId, ShardId};

/// The time over which a plan's rate is measured, in µs.
const RATE_US: u64 = 10_000_000;

/// What was moved for one plan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    /// Bytes of shards that have arrived.
    pub(super) bytes: u64,
    /// Bytes of those that are on their way.
    pub(super) under_way: u64,
    /// Bytes a second that went from node to node.
    pub(super) rate: f64,
    /// Bytes that were sent, by the reports. They differ from `bytes`, where a shard counts with all its rows at once
    /// when it has arrived.
    sent: u64,
    sampled: (u64, u64),
}

/// A replica that is being filled.
#[derive(Clone, Copy, Debug)]
struct Filling {
    plan: PlanId,
    replica: ReplicaId,
    /// Bytes that were sent for it by the last report.
    sent: u64,
}

/// What was moved for each plan.
#[derive(Debug, Default)]
pub(super) struct Progress {
    plans: BTreeMap<PlanId, Moved>,
    filling: BTreeMap<ShardId, Filling>,
}

impl Progress {
    pub(super) fn of(&self, plan: PlanId) -> Moved {
        self.plans.get(&plan).copied().unwrap_or_default()
    }

    pub(super) fn note(&mut self, inputs: &Inputs<'_>) {
        let &Inputs { map, seen, now, .. } = inputs;
        self.plans.retain(|plan, _| map.plans.contains_key(plan));
        self.plans.values_mut().for_each(|moved| moved.under_way = 0);
        let votes = |shard: ShardId, id: ReplicaId| map.replica(shard, id).is_some_and(|of| of.member && !of.learner);
        let before = std::mem::take(&mut self.filling);
        for (shard, filling) in &before {
            if votes(*shard, filling.replica) {
                let moved = self.plans.entry(filling.plan).or_default();
                let bytes = seen.bytes(*shard).unwrap_or(0);
                moved.bytes += bytes;
                // Between two reports, as a whole.
                moved.sent += if filling.sent == 0 { bytes } else { 0 };
            }
        }
        let mut sent: BTreeMap<ShardId, u64> = BTreeMap::new();
        for of in seen.nodes.values().flat_map(|node| &node.transfers).filter(|of| !of.inbound) {
            *sent.entry(of.shard).or_default() += of.bytes;
        }
        for (&shard, step) in &map.steps {
            let Some(add) = step.add.filter(|add| !votes(shard, *add)) else { continue };
            let bytes = sent.get(&shard).copied().unwrap_or(0);
            let known = before.get(&shard).filter(|filling| filling.replica == add).map_or(0, |filling| filling.sent);
            self.filling.insert(shard, Filling { plan: step.plan, replica: add, sent: bytes.max(known) });
            let moved = self.plans.entry(step.plan).or_default();
            moved.under_way += bytes;
            moved.sent += bytes.saturating_sub(known);
        }
        for moved in self.plans.values_mut() {
            moved.sample(now);
        }
    }
}

impl Moved {
    fn sample(&mut self, now: Moment) {
        let (at_us, before) = self.sampled;
        let bytes = self.sent;
        let passed_us = now.mono_us.saturating_sub(at_us);
        if at_us > 0 && passed_us < RATE_US / 20 {
            return;
        }
        if at_us > 0 {
            let rate = bytes.saturating_sub(before) as f64 * 1e6 / passed_us as f64;
            let weight = (passed_us as f64 / RATE_US as f64).min(1.0);
            self.rate = if self.rate == 0.0 { rate } else { self.rate + (rate - self.rate) * weight };
        }
        self.sampled = (now.mono_us, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_of_what_was_sent_not_of_what_has_arrived() {
        let mut moved = Moved::default();
        let at = |seconds: u64| Moment { mono_us: seconds * 1_000_000, ..Moment::default() };
        for second in 1..=20 {
            moved.sent += 1_000_000;
            // Every five seconds a shard of fourteen megabytes has arrived.
            moved.bytes += if second % 5 == 0 { 14_000_000 } else { 0 };
            moved.sample(at(second));
        }
        assert!((900_000.0..1_100_000.0).contains(&moved.rate), "{}", moved.rate);
    }
}
