//! Which keys of a shard go: as in Redis, the worst of a sample; and the next worst are remembered for the next choice.

use crate::config::{Among, By, EvictionPolicy};
use crate::format::keys::successor;
use crate::key_usage::KeyUsage;
use crate::request::key_hash;
use crate::{Fault, ReadSpace, Record, RecordRange, ShardSpace, SnapshotSpace};
use std::collections::HashMap;
use vocab::{Prng, ShardId};

/// Keys that one choice chooses, at most.
const CHOSEN_MAX: usize = 256;
/// Keys that are sampled for each that is chosen, at most.
const SAMPLES_MAX: usize = 16;
/// The next worst that are remembered of a shard.
const POOL_MAX: usize = 16;
/// Scores that are remembered of a shard.
const SCORES_MAX: usize = 1024;
/// As often keys are sampled for one choice, at most, while those that were found are in use.
const PAGES_MAX: usize = 8;

/// A key that is to go, unless it is written before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The key.
    pub key: Vec<u8>,
    /// The version that it had.
    pub version: u64,
    /// Its elements are rows of their own, whose room comes back late.
    pub is_large: bool,
    /// The higher, the sooner it goes.
    score: u64,
}

/// Where the sampling of a shard is.
#[derive(Debug, Default)]
struct Sweep {
    /// From here on keys are sampled next: a key, or a place in the expiry index.
    from: Vec<u8>,
    /// The worst that were sampled and not chosen.
    pool: Vec<Victim>,
    scores: Scores,
}

/// Chooses keys that go, shard by shard.
#[derive(Debug)]
pub struct Victims {
    sweeps: HashMap<ShardId, Sweep>,
    chance: Prng,
    /// Of which policy the sweeps are.
    policy: EvictionPolicy,
}

impl Victims {
    /// Chooses by `policy`.
    #[must_use]
    pub fn new(policy: EvictionPolicy, seed: u64) -> Self {
        Self { sweeps: HashMap::new(), chance: Prng::new(seed), policy }
    }

    /// By which policy it chooses.
    #[must_use]
    pub fn policy(&self) -> EvictionPolicy {
        self.policy
    }

    /// Up to `wanted` keys of a shard that go: the worst of as many samples for each. What it reads is bounded. None: the
    /// policy finds no key.
    pub fn choose(
        &mut self,
        space: &mut SnapshotSpace<'_>,
        shard: ShardId,
        (wanted, samples): (usize, usize),
        usage: &KeyUsage,
    ) -> Result<Vec<Victim>, Fault> {
        let (wanted, samples) = (wanted.clamp(1, CHOSEN_MAX), samples.clamp(1, SAMPLES_MAX));
        let policy = self.policy;
        let sweep = self.sweeps.entry(shard).or_default();
        let mut candidates = std::mem::take(&mut sweep.pool);
        let now_ms = space.now_ms();
        for _ in 0..PAGES_MAX {
            let sampled = sweep.sample(space, policy, wanted * samples)?;
            let is_empty = sampled.is_empty();
            for Sampled { key, version, is_large, expires_at_ms } in sampled {
                let score = match policy.by {
                    By::LeastRecentlyUsed => usage.idle_ms(key_hash(&key), now_ms),
                    By::LeastFrequentlyUsed => u64::from(u8::MAX - usage.frequency(key_hash(&key), now_ms)),
                    By::Chance => self.chance.next_u64(),
                    By::TimeToLive => u64::MAX - expires_at_ms.unwrap_or(u64::MAX),
                };
                sweep.scores.note(score);
                candidates.push(Victim { key, version, is_large, score });
            }
            let bar = sweep.scores.bar(samples);
            let good = candidates.iter().filter(|victim| victim.score >= bar).count();
            if is_empty || !policy.asks_for_usage() || (sweep.scores.are_many() && good >= wanted) {
                break;
            }
        }
        candidates.sort_by(|a, b| b.score.cmp(&a.score).then_with(|| a.key.cmp(&b.key)));
        candidates.dedup_by(|a, b| a.key == b.key);
        let good = match policy.asks_for_usage() {
            // If none is as bad as that, some go all the same.
            true => {
                candidates.partition_point(|victim| victim.score >= sweep.scores.bar(samples)).max(wanted / 8).max(1)
            }
            false => wanted,
        };
        let mut rest = candidates.split_off(candidates.len().min(good).min(wanted));
        rest.truncate(POOL_MAX);
        sweep.pool = rest;
        Ok(candidates)
    }

    /// Forgets shards that this node does not lead any more.
    pub fn keep(&mut self, leads: impl Fn(ShardId) -> bool) {
        self.sweeps.retain(|shard, _| leads(*shard));
    }
}

/// A key that was looked at.
struct Sampled {
    key: Vec<u8>,
    version: u64,
    is_large: bool,
    expires_at_ms: Option<u64>,
}

impl Sweep {
    /// The next `limit` keys; behind the last one it begins again.
    fn sample(
        &mut self,
        space: &mut SnapshotSpace<'_>,
        policy: EvictionPolicy,
        limit: usize,
    ) -> Result<Vec<Sampled>, Fault> {
        let mut sampled = self.sample_on(space, policy, limit)?;
        if sampled.len() < limit {
            self.from.clear();
            sampled.extend(self.sample_on(space, policy, limit - sampled.len())?);
        }
        Ok(sampled)
    }

    /// Fewer than `limit` keys at the end.
    fn sample_on(
        &mut self,
        space: &mut SnapshotSpace<'_>,
        policy: EvictionPolicy,
        limit: usize,
    ) -> Result<Vec<Sampled>, Fault> {
        let sampled = |key: &[u8], head: &Record| Sampled {
            key: key.to_vec(),
            version: head.view().version,
            is_large: head.view().kind.is_large(),
            expires_at_ms: head.view().expire_at_ms,
        };
        if policy.among == Among::All {
            let heads = space.heads(&RecordRange::heads(&self.from, b"", limit))?;
            if let Some((last, _)) = heads.last() {
                self.from = [last, &[0][..]].concat();
            }
            return Ok(heads.iter().map(|(key, head)| sampled(key, head)).collect());
        }
        // Those that expire soonest come first there, so that nothing is to be sampled.
        let start = if policy.by == By::TimeToLive { &[][..] } else { self.from.as_slice() };
        let (keys, next) = space.expiring(start, limit)?;
        self.from = next;
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let end = successor(&key);
            let head = space.heads(&RecordRange::heads(&key, &end, 1))?.pop();
            found.extend(head.map(|(_, head)| sampled(&key, &head)));
        }
        Ok(found)
    }
}

/// The scores of the keys that were sampled last. Neighbours in the order of keys are often alike: how bad one is, only the
/// scores of many tell.
#[derive(Debug, Default)]
struct Scores {
    last: Vec<u64>,
    /// The place of the next one.
    next: usize,
}

impl Scores {
    fn note(&mut self, score: u64) {
        if self.last.len() < SCORES_MAX {
            self.last.push(score);
        } else {
            self.last[self.next] = score;
            self.next = (self.next + 1) % SCORES_MAX;
        }
    }

    fn are_many(&self) -> bool {
        self.last.len() >= SCORES_MAX / 2
    }

    /// The score that one of `samples` keys reaches.
    fn bar(&self, samples: usize) -> u64 {
        let mut sorted = self.last.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        sorted.get(sorted.len() / samples).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_shard::empty_shard;
    use crate::{EntrySpace, Evaluation, Kind, WriteSpace};
    use std::collections::BTreeSet;

    const NOW_MS: u64 = 1_700_000_000_000;
    const KEYS: u64 = 1_000;

    /// Chooses all keys of a shard in turn, by that policy; every tenth key expires, and keys below 500 are in use.
    fn order(name: &str, wanted: usize, samples: usize) -> Vec<u64> {
        let policy =
            EvictionPolicy::of_name(EvictionPolicy::NAMES.iter().position(|own| *own == name).unwrap()).unwrap();
        let (handle, _folder) = empty_shard(ShardId(1));
        let key = |n: u64| format!("k{n:04}").into_bytes();
        let mut space = EntrySpace::new(&handle, 1, NOW_MS, Evaluation::Second);
        for n in 0..KEYS {
            let expiry = (n % 10 == 0).then_some(NOW_MS + 1_000_000 - n);
            space.put(&key(n), Record::new(Kind::STRING, expiry, &[b"v"])).unwrap();
        }
        space.commit();
        let usage = KeyUsage::default();
        usage.track(1 << 20, true, NOW_MS - 1_000_000);
        usage.set_frequency(0, 1);
        for _ in 0..10 {
            (0..KEYS / 2).for_each(|n| usage.note(key_hash(&key(n)), NOW_MS, 0));
        }
        let mut victims = Victims::new(policy, 7);
        let mut chosen = Vec::new();
        for index in 2.. {
            let mut read = SnapshotSpace::new(&handle, NOW_MS, 1);
            let some = victims.choose(&mut read, ShardId(1), (wanted, samples), &usage).unwrap();
            drop(read);
            if some.is_empty() {
                break;
            }
            assert!(some.len() <= wanted);
            let mut space = EntrySpace::new(&handle, index, NOW_MS, Evaluation::Second);
            for victim in some {
                if space.delete(&victim.key).unwrap() {
                    assert_eq!(victim.version, 1);
                    chosen.push(String::from_utf8_lossy(&victim.key[1..]).parse().unwrap());
                }
            }
            space.commit();
        }
        assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), chosen.len(), "each key goes once");
        chosen
    }

    #[test]
    fn each_policy_takes_its_own_keys_and_the_right_ones_first() {
        for name in ["allkeys-lru", "allkeys-lfu"] {
            let order = order(name, 20, 5);
            assert_eq!(order.len() as u64, KEYS, "{name}");
            let in_use = order[..400].iter().filter(|n| **n < KEYS / 2).count();
            assert!(in_use < 100, "{name}: {in_use} of the first 400 were in use");
        }
        for name in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"] {
            let order = order(name, 5, 5);
            assert_eq!(order.len() as u64, KEYS / 10, "{name}");
            assert!(order.iter().all(|n| n % 10 == 0), "{name} takes keys that do not expire");
        }
        let soonest: Vec<u64> = (0..100).rev().map(|n| n * 10).collect();
        assert_eq!(order("volatile-ttl", 5, 5), soonest);
        assert_eq!(order("allkeys-random", 64, 1).len() as u64, KEYS);
    }
}
