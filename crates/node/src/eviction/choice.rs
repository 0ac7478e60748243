//! Which keys of a shard go: as in Redis, the worst of a sample; and the next worst are remembered for the next choice.

use crate::config::{Among, By, EvictionPolicy};
use crate::format::keys::successor;
use crate::key_usage::KeyUsage;
use crate::request::key_hash;
use crate::space::heads;
use crate::{Fault, ReadSpace, Record, RecordRange, ShardSpace, SnapshotSpace};
use std::collections::HashMap;
use vocab::{Database, Prng, ShardId};

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
    /// None of the keys that were sampled last may go: those behind them are sampled next, also where the first ones are the worst.
    passes: bool,
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
    /// Only keys of the database at that place go; none: all keys may.
    place: Option<Database>,
}

/// Which of the keys that a policy chooses may go, by the key and whether it expires.
pub type MayGo<'a> = &'a dyn Fn(&[u8], bool) -> bool;

impl Victims {
    /// Chooses by `policy`.
    #[must_use]
    pub fn new(policy: EvictionPolicy, seed: u64) -> Self {
        Self { sweeps: HashMap::new(), chance: Prng::new(seed), policy, place: None }
    }

    /// Chooses keys of the database at that place alone.
    #[must_use]
    pub fn of_database(policy: EvictionPolicy, seed: u64, place: Database) -> Self {
        Self { place: Some(place), ..Self::new(policy, seed) }
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
        (usage, may_go): (&KeyUsage, MayGo<'_>),
    ) -> Result<Vec<Victim>, Fault> {
        let (wanted, samples) = (wanted.clamp(1, CHOSEN_MAX), samples.clamp(1, SAMPLES_MAX));
        let (policy, place) = (self.policy, self.place);
        let sweep = self.sweeps.entry(shard).or_default();
        let mut candidates = std::mem::take(&mut sweep.pool);
        let now_ms = space.now_ms();
        for _ in 0..PAGES_MAX {
            let sampled = match place {
                Some(place) => sweep.sample_database(space, policy, wanted * samples, place)?,
                None => sweep.sample(space, policy, wanted * samples)?,
            };
            let is_empty = sampled.is_empty();
            let before = candidates.len();
            for Sampled { key, version, is_large, expires_at_ms } in sampled {
                if !may_go(&key, expires_at_ms.is_some()) {
                    continue;
                }
                let score = match policy.by {
                    By::LeastRecentlyUsed => usage.idle_ms(key_hash(&key), now_ms),
                    By::LeastFrequentlyUsed => u64::from(u8::MAX - usage.frequency(key_hash(&key), now_ms)),
                    By::Chance => self.chance.next_u64(),
                    By::TimeToLive => u64::MAX - expires_at_ms.unwrap_or(u64::MAX),
                };
                sweep.scores.note(score);
                candidates.push(Victim { key, version, is_large, score });
            }
            sweep.passes = !is_empty && candidates.len() == before;
            let bar = sweep.scores.bar(samples);
            let good = candidates.iter().filter(|victim| victim.score >= bar).count();
            if is_empty || (!policy.asks_for_usage() && !sweep.passes) || (sweep.scores.are_many() && good >= wanted) {
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

impl Sampled {
    fn of(key: &[u8], head: &Record) -> Self {
        let view = head.view();
        Self {
            key: key.to_vec(),
            version: view.version,
            is_large: view.kind.is_large(),
            expires_at_ms: view.expire_at_ms,
        }
    }
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

    /// About `limit` of the keys of a database that the policy chooses among, or fewer where they are rare. What keys expire next is
    /// known of a shard alone: of a database, all keys are looked at.
    fn sample_database(
        &mut self,
        space: &mut SnapshotSpace<'_>,
        policy: EvictionPolicy,
        limit: usize,
        place: Database,
    ) -> Result<Vec<Sampled>, Fault> {
        let (prefix, end) = (place.prefix(), place.end());
        let mut found = Vec::new();
        let mut turns = 0;
        for _ in 0..PAGES_MAX {
            let start = if self.from.is_empty() { &prefix[..] } else { &self.from };
            let heads = heads(&mut *space.live_records(start, &end, false), limit)?;
            let is_last = heads.len() < limit;
            if let Some((last, _)) = heads.last() {
                self.from = successor(last);
            }
            let chosen =
                heads.iter().filter(|(_, head)| policy.among == Among::All || head.view().expire_at_ms.is_some());
            found.extend(chosen.map(|(key, head)| Sampled::of(key, head)));
            if is_last {
                self.from.clear();
                turns += 1;
            }
            if found.len() >= limit || turns == 2 {
                break;
            }
        }
        Ok(found)
    }

    /// Fewer than `limit` keys at the end.
    fn sample_on(
        &mut self,
        space: &mut SnapshotSpace<'_>,
        policy: EvictionPolicy,
        limit: usize,
    ) -> Result<Vec<Sampled>, Fault> {
        if policy.among == Among::All {
            // Those of databases too.
            let heads = heads(&mut *space.live_records(&self.from, b"", false), limit)?;
            if let Some((last, _)) = heads.last() {
                self.from = [last, &[0][..]].concat();
            }
            return Ok(heads.iter().map(|(key, head)| Sampled::of(key, head)).collect());
        }
        // Those that expire soonest come first there, so that nothing is to be sampled.
        let start = if policy.by == By::TimeToLive && !self.passes { &[][..] } else { self.from.as_slice() };
        let (keys, next) = space.expiring(start, limit)?;
        self.from = next;
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let end = successor(&key);
            let head = space.heads(&RecordRange::heads(&key, &end, 1))?.pop();
            found.extend(head.map(|(_, head)| Sampled::of(&key, &head)));
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
            let some = victims.choose(&mut read, ShardId(1), (wanted, samples), (&usage, &|_, _| true)).unwrap();
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

    /// What goes of two databases, of which one is chosen from and half of the keys expire.
    fn gone(name: &str, place: Option<Database>, may_go: MayGo<'_>) -> Vec<Vec<u8>> {
        let policy = EvictionPolicy::of_name(EvictionPolicy::NAMES.iter().position(|own| *own == name).unwrap());
        let (handle, _folder) = empty_shard(ShardId(1));
        let mut space = EntrySpace::new(&handle, 1, NOW_MS, Evaluation::Second);
        for number in [1, 2] {
            for n in 0..100 {
                let key = [&Database::of_number(number).unwrap().prefix()[..], format!("k{n:03}").as_bytes()].concat();
                let expiry = (n % 2 == 0).then_some(NOW_MS + 1_000_000 - n);
                space.put(&key, Record::new(Kind::STRING, expiry, &[b"v"])).unwrap();
            }
        }
        space.commit();
        let mut victims = match place {
            Some(place) => Victims::of_database(policy.unwrap(), 7, place),
            None => Victims::new(policy.unwrap(), 7),
        };
        let mut gone = Vec::new();
        for index in 2.. {
            let mut read = SnapshotSpace::new(&handle, NOW_MS, 1);
            let usage = KeyUsage::default();
            let some = victims.choose(&mut read, ShardId(1), (10, 5), (&usage, may_go)).unwrap();
            drop(read);
            if some.is_empty() {
                break;
            }
            let mut space = EntrySpace::new(&handle, index, NOW_MS, Evaluation::Second);
            for victim in some {
                if space.delete(&victim.key).unwrap() {
                    gone.push(victim.key);
                }
            }
            space.commit();
        }
        gone
    }

    #[test]
    fn a_database_loses_its_own_keys_alone_and_keys_that_may_not_go_stay() {
        let [one, other] = [1, 2].map(|number| Database::of_number(number).unwrap());
        for (name, count) in [("allkeys-lru", 100), ("allkeys-random", 100), ("volatile-ttl", 50), ("volatile-lfu", 50)]
        {
            let gone = gone(name, Some(one), &|_, _| true);
            assert_eq!(gone.len(), count, "{name}");
            assert!(gone.iter().all(|key| Database::of_key(key) == Some(one)), "{name} takes another's keys");
        }
        let spares_one = |key: &[u8], _: bool| Database::of_key(key) != Some(one);
        let gone = gone("volatile-ttl", None, &spares_one);
        assert_eq!(gone.len(), 50);
        assert!(gone.iter().all(|key| Database::of_key(key) == Some(other)));
    }
}
