//! Keeps the node's data within its bound: `maxmemory`, or `max-data-bytes`.

use crate::api::Caller;
use crate::os::steady_us;
use crate::shared::NodeShared;
use node::config::EvictionPolicy;
use node::eviction::{Pace, Victims};
use node::{ShardHandle, SnapshotSpace, key_hash};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Between two looks at the data while there is a bound.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Between two looks at the settings while there is none.
const IDLE: Duration = Duration::from_millis(250);
/// For how long the removal of one choice of keys is waited for.
const REMOVED_WITHIN: Duration = Duration::from_secs(2);
/// While keys are evicted, data beyond this part of the bound is refused.
const SLACK_PART: u64 = 8;
/// Of the memory budget, the part that what is known of the use of keys takes.
const USAGE_PART: u64 = 256;
/// Half of what was evicted is no longer waited for after so long, in ms: in memory, and on disk.
const HALF_LIVES_MS: (u64, u64) = (1_000, 10_000);

/// The thread; it ends when the store stops.
pub(super) fn evict(store: &Arc<NodeShared>) {
    let caller = Caller::new(store.clone());
    let mut evictor = Evictor { store, caller, pace: Pace::default(), victims: None };
    while !store.is_stopping() {
        let pause = evictor.turn();
        std::thread::park_timeout(pause);
    }
}

struct Evictor<'a> {
    store: &'a Arc<NodeShared>,
    /// Removes keys, as a client would.
    caller: Caller,
    pace: Pace,
    /// Of the policy that was set last.
    victims: Option<Victims>,
}

impl Evictor<'_> {
    /// Looks at the settings and the data, and evicts some keys if these are too many; when to look again.
    fn turn(&mut self) -> Duration {
        let policy = self.store.config.eviction_policy();
        self.track(policy);
        let Some(bound) = self.store.config.data_bound() else {
            self.store.usage.refuse(false);
            self.store.usage.set_data_bytes(0);
            return IDLE;
        };
        let bytes = data_bytes(self.store);
        self.store.usage.set_data_bytes(bytes);
        let half_life_ms = match self.store.config.data_is_in_memory() {
            true => HALF_LIVES_MS.0,
            false => HALF_LIVES_MS.1,
        };
        let excess = self.pace.excess(bytes, bound, steady_us() / 1000, half_life_ms);
        let Some(policy) = policy else {
            self.store.usage.refuse(bytes > bound);
            return LOOK_EVERY;
        };
        let found = excess == 0 || self.evict(policy, excess, bytes);
        self.store.usage.refuse(bytes > bound && (!found || bytes > bound.saturating_add(bound / SLACK_PART)));
        if excess > 0 && found { Duration::ZERO } else { LOOK_EVERY }
    }

    /// Has uses of keys noted while the policy goes by them.
    fn track(&self, policy: Option<EvictionPolicy>) {
        let (store, config) = (self.store, &self.store.config);
        match policy.filter(|policy| policy.asks_for_usage()) {
            Some(policy) => {
                let number = |name: &str| config.number(name).unwrap_or_default();
                store.usage.set_frequency(number("lfu-log-factor"), number("lfu-decay-time"));
                let bytes = number("memory").unsigned_abs() / USAGE_PART;
                store.usage.track(
                    usize::try_from(bytes).unwrap_or(usize::MAX),
                    policy.goes_by_frequency(),
                    store.now_ms(),
                );
            }
            None => store.usage.stop_tracking(),
        }
    }

    /// Evicts keys of each shard that this node leads, by how much of the data is the shard's. False if no key was found.
    fn evict(&mut self, policy: EvictionPolicy, excess: u64, bytes: u64) -> bool {
        if self.victims.as_ref().is_none_or(|victims| victims.policy() != policy) {
            self.victims = Some(Victims::new(policy, steady_us()));
        }
        // They are not held: who gives up a replica waits for none of the others.
        let handles = self.store.known();
        let led = handles.data_handles().filter(|handle| handle.serving());
        let led: Vec<Weak<ShardHandle>> = led.map(Arc::downgrade).collect();
        drop(handles);
        let mut found = led.is_empty();
        for handle in led.iter().filter_map(Weak::upgrade) {
            if self.store.is_stopping() {
                return true;
            }
            let own_bytes = bytes_of(&handle, self.store.config.data_is_in_memory());
            let goal = (u128::from(excess) * u128::from(own_bytes)).div_ceil(u128::from(bytes.max(1))) as u64;
            let key_bytes = (own_bytes / handle.key_count().max(1)).max(1);
            let wanted = usize::try_from(goal / key_bytes).unwrap_or(usize::MAX).saturating_add(1);
            found |= self.evict_of(&handle, wanted, key_bytes);
        }
        found
    }

    /// Evicts about `wanted` keys of a shard, or as many as one choice may have. False if there are none.
    fn evict_of(&mut self, handle: &ShardHandle, wanted: usize, key_bytes: u64) -> bool {
        let (store, samples) = (self.store, self.store.config.number("maxmemory-samples").unwrap_or(5));
        let Some(victims) = &mut self.victims else { return false };
        let samples = usize::try_from(samples).unwrap_or(1);
        let mut space = SnapshotSpace::new(handle, store.now_ms(), steady_us());
        let chosen = victims.choose(&mut space, handle.id(), (wanted, samples), &store.usage);
        drop(space);
        let chosen = match chosen {
            Ok(chosen) => chosen,
            Err(fault) => {
                log::warn!("shard {}: no key can be evicted: {fault:?}", handle.id());
                return true;
            }
        };
        store.usage.set_going(chosen.iter().map(|victim| key_hash(&victim.key)));
        let (mut under_way, mut evicted) = (0, 0);
        let mut reply = Vec::new();
        for victim in &chosen {
            let version = victim.version.to_string();
            let command: [&[u8]; 4] = [b"KV.DEL", &victim.key, b"IFVERSION", version.as_bytes()];
            under_way += usize::from(!self.caller.submit(0, &command, &mut reply));
        }
        let until = Instant::now() + REMOVED_WITHIN;
        while under_way > 0 && Instant::now() < until {
            self.caller.wait(Some(until), &mut |_, answer| {
                under_way -= 1;
                evicted += u64::from(answer == b":1\r\n");
            });
        }
        store.usage.set_going([]);
        store.usage.note_evicted(evicted);
        self.pace.evicted(evicted * key_bytes);
        !chosen.is_empty()
    }
}

/// The data of all replicas of this node, in bytes.
fn data_bytes(store: &NodeShared) -> u64 {
    let in_memory = store.config.data_is_in_memory();
    store.known().data_handles().map(|handle| bytes_of(handle, in_memory)).sum()
}

fn bytes_of(handle: &ShardHandle, in_memory: bool) -> u64 {
    let stats = handle.engine().stats();
    if in_memory { stats.memtable_bytes } else { stats.wanted_bytes() + stats.memtable_bytes }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::TestNode;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Writes keys of 1 KB each, whose use is noted.
    fn fill(node: &TestNode, keys: std::ops::Range<usize>) {
        let value = "x".repeat(1000);
        for key in keys {
            assert!(node.call(&format!("SET k{key} {value}")).starts_with('+'));
            node.store().usage.note(key_hash(format!("k{key}").as_bytes()), node.store().now_ms(), 0);
        }
    }

    #[test]
    fn data_in_memory_stays_within_its_bound_and_what_is_used_stays() {
        let settings = [("engine", "memory"), ("maxmemory", "1mb"), ("maxmemory-policy", "allkeys-lfu")];
        let node = TestNode::start(&settings);
        let usage = &node.store().usage;
        until("uses are noted", || usage.tracks());
        fill(&node, 0..100);
        // The counter is logarithmic: every chance is taken.
        for _ in 0..50 {
            (0..100).for_each(|key| usage.note(key_hash(format!("k{key}").as_bytes()), node.store().now_ms(), 0));
        }
        fill(&node, 100..3_000);
        until("the data shrinks", || data_bytes(node.store()) <= 1 << 20);
        assert!(usage.evicted() > 1_500, "{}", usage.evicted());
        let used = (0..100).filter(|key| node.call(&format!("EXISTS k{key}")) == ":1\r\n").count();
        assert!(used > 90, "of the 100 keys in use {used} are left");
        node.store().config.set(&[(b"maxmemory-policy", b"noeviction"), (b"maxmemory", b"500kb")]).unwrap();
        until("data is refused", || usage.refuses());
        let evicted = usage.evicted();
        node.store().config.set(&[(b"maxmemory", b"0")]).unwrap();
        until("nothing is refused without a bound", || !usage.refuses());
        assert_eq!(usage.evicted(), evicted);
    }

    #[test]
    fn volatile_keys_alone_go_and_without_them_data_is_refused() {
        let settings = [("engine", "memory"), ("maxmemory-policy", "volatile-ttl")];
        let node = TestNode::start(&settings);
        fill(&node, 0..500);
        for key in 0..200 {
            assert_eq!(node.call(&format!("EXPIRE k{key} {}", 10_000 + key)), ":1\r\n");
        }
        node.store().config.set(&[(b"maxmemory", b"450kb")]).unwrap();
        until("data is within its bound", || data_bytes(node.store()) <= 450 << 10);
        let left =
            |keys: std::ops::Range<usize>| keys.filter(|key| node.call(&format!("EXISTS k{key}")) == ":1\r\n").count();
        assert_eq!(left(200..500), 300);
        assert!(left(0..50) < left(150..200), "those that expire sooner go first");
        node.store().config.set(&[(b"maxmemory", b"100kb")]).unwrap();
        until("nothing more can go", || node.store().usage.refuses());
        assert_eq!((left(0..200), left(200..500)), (0, 300));
    }
}
