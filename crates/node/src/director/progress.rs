//! How far plans are: bytes that were moved, and how fast. Kept in memory: who directs anew counts from there.

use super::observe::Seen;
use cluster::Map;
use std::collections::BTreeMap;
use vocab::{Moment, PlanId, ReplicaId, ShardId};

/// Over how long a plan's rate is measured, in µs.
const RATE_US: u64 = 10_000_000;

/// What was moved for one plan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    /// Bytes of shards that have arrived.
    pub(super) bytes: u64,
    /// Bytes of those that are on their way.
    pub(super) under_way: u64,
    /// Bytes a second.
    pub(super) rate: f64,
    sampled: (u64, u64),
}

/// See the module's words.
#[derive(Debug, Default)]
pub(super) struct Progress {
    plans: BTreeMap<PlanId, Moved>,
    /// Replicas that are being filled.
    filling: BTreeMap<ShardId, (PlanId, ReplicaId)>,
}

impl Progress {
    pub(super) fn of(&self, plan: PlanId) -> Moved {
        self.plans.get(&plan).copied().unwrap_or_default()
    }

    pub(super) fn note(&mut self, map: &Map, seen: &Seen, now: Moment) {
        self.plans.retain(|plan, _| map.plans.contains_key(plan));
        self.plans.values_mut().for_each(|moved| moved.under_way = 0);
        let votes = |shard: ShardId, id: ReplicaId| map.replica(shard, id).is_some_and(|of| of.member && !of.learner);
        for (shard, (plan, replica)) in std::mem::take(&mut self.filling) {
            if votes(shard, replica) {
                self.plans.entry(plan).or_default().bytes += seen.bytes(shard).unwrap_or(0);
            }
        }
        for (&shard, step) in &map.steps {
            let Some(add) = step.add.filter(|add| !votes(shard, *add)) else { continue };
            self.filling.insert(shard, (step.plan, add));
            let transfers = seen.nodes.values().flat_map(|node| &node.transfers);
            let bytes: u64 = transfers.filter(|of| !of.inbound && of.shard == shard).map(|of| of.bytes).sum();
            self.plans.entry(step.plan).or_default().under_way += bytes;
        }
        for moved in self.plans.values_mut() {
            moved.sample(now);
        }
    }
}

impl Moved {
    fn sample(&mut self, now: Moment) {
        let (at_us, before) = self.sampled;
        let bytes = self.bytes + self.under_way;
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
