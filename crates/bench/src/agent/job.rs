//! The job of an agent: its share of a phase.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::driver::{Limit, OnlyErrors, Pace, PhasePlan};
use crate::options::PhaseOptions;
use crate::workload::{Properties, Task};

/// One agent's share of a phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) task: Task,
    /// How the target is reached.
    pub(crate) options: PhaseOptions,
    /// The workload, with this process's share of the keys.
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) clients: usize,
    pub(crate) depth: usize,
    /// As many as there are cores, if not given.
    pub(crate) threads: Option<usize>,
    pub(crate) pace: Pace,
    pub(crate) warm_up: Option<Limit>,
    pub(crate) measure: Limit,
    pub(crate) seed: u64,
    pub(crate) only_errors: OnlyErrors,
}

/// One of so many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) index: usize,
    pub(crate) of: usize,
}

impl Share {
    /// Of things that can be counted; the first ones get what is left over.
    pub(crate) fn count(self, all: u64) -> u64 {
        let (index, of) = (self.index as u64, self.of as u64);
        all / of + u64::from(index < all % of)
    }

    fn limit(self, limit: Limit) -> Limit {
        Limit { operations: limit.operations.map(|all| self.count(all)), time: limit.time }
    }
}

impl Job {
    /// The share of `plan` that one agent does. `threads` are those of each process.
    pub(crate) fn of(
        plan: &PhasePlan,
        task: Task,
        options: &PhaseOptions,
        properties: &Properties,
        threads: Option<usize>,
        share: Share,
    ) -> Self {
        let mut own = properties.clone();
        own.set("basalt.processes", &share.of.to_string());
        own.set("basalt.process", &share.index.to_string());
        let part = 1.0 / share.of as f64;
        let pace = match plan.pace {
            Pace::Closed => Pace::Closed,
            Pace::Throttled { target_per_s } => Pace::Throttled { target_per_s: target_per_s * part },
            Pace::Open { rate_per_s, arrivals } => Pace::Open { rate_per_s: rate_per_s * part, arrivals },
        };
        Self {
            name: plan.name.clone(),
            task,
            options: options.clone(),
            properties: own.effective(),
            clients: share.count(plan.clients as u64) as usize,
            depth: plan.depth,
            threads,
            pace,
            warm_up: plan.warm_up.map(|limit| share.limit(limit)),
            measure: share.limit(plan.measure),
            only_errors: plan.only_errors,
            seed: plan.seed ^ (share.index as u64 + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_the_whole() {
        for (all, of) in [(10, 3), (2, 4), (1_000_000_007, 7), (0, 2)] {
            let shares: Vec<Share> = (0..of).map(|index| Share { index, of }).collect();
            assert_eq!(shares.iter().map(|share| share.count(all)).sum::<u64>(), all);
        }
    }
}
