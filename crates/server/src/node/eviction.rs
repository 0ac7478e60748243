//! Keeps the node's data within its bound: `maxmemory`, or `max-data-bytes`.
//!
//! ```text
//! engine memory:  evicted from 15/16 of the bound on; writes wait at the bound
//! engine lsm:     evicted from the bound on;          writes wait at 9/8 of it, since a tree gives room back late
//! ```
//! Writes that wait go on when keys are gone. They are refused if nothing can be evicted, and no room is to come back.
//!
//! A tree on disk has removed keys until compaction gives their room back. They count for the bound, but no other keys go for
//! them: `bytes - removed_bytes ≤ bound`. If they are many, their trees are flushed and compacted for them. Of a tree that gives nothing
//! back for now, since it is damaged or to be purged, they do not count so: what was evicted of it is remembered for a while.
//!
//! And the keys of single databases within `max-bytes`, where this node leads them: these are weighed (`Weighing`), and are within
//! their bound as soon as keys are gone. What the policy of a database spares goes for no other bound either.

use crate::api::Caller;
use crate::mailbox::WorkerMessage;
use crate::os::steady_us;
use crate::shared::{FreeSpace, NodeShared};
use cluster::{DatabaseRow, Databases};
use node::config::{Among, EvictionPolicy};
use node::eviction::{DataBytes, MayGo, Pace, Victim, Victims, Weighing};
use node::{ShardHandle, SnapshotSpace, key_hash};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use storage::EngineStats;
use vocab::{Database, ShardId};

/// The time between two checks of the data while there is a bound, unless writes ask for one.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The time between two checks of the settings while there is no bound.
const IDLE: Duration = Duration::from_millis(250);
/// How long the thread waits for the removal of one choice of keys.
const REMOVED_WITHIN: Duration = Duration::from_secs(2);
/// Waiting writes are refused after this time in which no key was removed.
const STUCK_AFTER: Duration = Duration::from_secs(5);
/// With the memory engine, eviction begins this part of the bound before it.
const AHEAD_PART: u64 = 16;
/// With the lsm engine, writes wait from this part of the bound beyond it.
const SLACK_PART: u64 = 8;
/// The part of the memory budget for what is known of the use of keys.
const USAGE_PART: u64 = 256;
/// The half-life, in ms, of evicted bytes whose room has not come back yet: in memory, and on disk, where their removal is flushed
/// before they are looked for.
const HALF_LIVES_MS: (u64, u64) = (1_000, 60_000);
/// Trees are compacted for removed rows that take more than one byte of so many of the bound: each time, all of a tree is written.
/// The room that writes have beyond the bound is twice as much.
const REMOVED_PART: u64 = 2 * SLACK_PART;
/// Only trees of which they take more than one byte of so many: half as much, so that some tree is among them.
const TREE_REMOVED_PART: u64 = 2 * REMOVED_PART;
/// What is in memory is written to files if it takes more than one byte of so many of the bound: there it takes less.
const MEMORY_PART: u64 = 8;
/// The time between two requests for that room.
const RECLAIM_EVERY: Duration = Duration::from_millis(200);
/// Where room is to come back, waiting writes are refused after this time in which little did and no key was removed.
const RECLAIMED_WITHIN: Duration = Duration::from_secs(120);
/// Less than one byte of so many, of those at which writes wait, is little.
const PROGRESS_PART: u64 = 64;

/// The thread; it ends when the store stops.
pub(super) fn evict(store: &Arc<NodeShared>) {
    let caller = Caller::new(store.clone());
    let mut evictor = Evictor {
        store,
        caller,
        pace: Pace::default(),
        victims: None,
        databases: BTreeMap::new(),
        token: 0,
        moved: Instant::now(),
        last_bytes: u64::MAX,
        awaits_room: false,
        awaited: None,
        reclaimed: Instant::now(),
        told_to_seal: BTreeMap::new(),
    };
    while !store.is_stopping() {
        let pause = evictor.turn().min(evictor.look_at_databases());
        if store.room.frees_waiting() {
            store.mailboxes.tell_all(|| WorkerMessage::Led);
        }
        if !pause.is_zero() {
            store.room.wait(pause);
        }
    }
}

struct Evictor<'a> {
    store: &'a Arc<NodeShared>,
    /// Removes keys, as a client would.
    caller: Caller,
    pace: Pace,
    /// The chooser of the present policy.
    victims: Option<Victims>,
    /// The databases that have a bound and that this node leads, by the places of their keys.
    databases: BTreeMap<Database, BoundedDatabase>,
    /// The number of the next removal.
    token: u32,
    /// When a key was last removed, room last came back, or writes last had room.
    moved: Instant,
    /// The data when writes that wait last came nearer to their room, in bytes; the most that there is while none wait.
    last_bytes: u64,
    /// Trees are to give room back.
    awaits_room: bool,
    /// When room was last on its way back: a single look may not see that it is.
    awaited: Option<Instant>,
    /// When they were last asked to.
    reclaimed: Instant,
    /// The shards that were told to seal what they had in memory then, in bytes. Those that send their rows do not.
    told_to_seal: BTreeMap<ShardId, u64>,
}

/// A database that has a bound.
struct BoundedDatabase {
    weighing: Weighing,
    /// Of its policy, as of the last time that keys were to go.
    victims: Option<Victims>,
    /// When a key was last removed, or writes last had room.
    moved: Instant,
}

/// The bytes of data at which something happens.
struct Bounds {
    /// From here on keys are evicted.
    evict: u64,
    /// From here on writes wait.
    wait: u64,
}

/// A key to evict, and how many of its bytes come back late without a tree telling so.
struct Chosen {
    victim: Victim,
    late_bytes: u64,
}

/// The outcome of one choice of keys.
#[derive(Default)]
struct Round {
    /// The policy finds keys.
    found: bool,
    /// So many are gone.
    removed: u64,
}

impl Evictor<'_> {
    /// Checks the settings and the data, and evicts some keys if there is too much; answers when to check again.
    fn turn(&mut self) -> Duration {
        let store = self.store;
        let config = &store.config;
        let policy = config.eviction_policy();
        let databases = store.known().databases.clone();
        let of_databases = rows_of(store, &databases).filter_map(|(_, row)| policy_of(row, policy));
        self.track(policy.into_iter().chain(of_databases).find(|policy| policy.asks_for_usage()));
        let Some(bound) = config.data_bound() else {
            self.moved = Instant::now();
            store.room.open();
            store.room.set_data_bytes(0);
            return IDLE;
        };
        let data = data_of(store);
        store.room.set_data_bytes(data.bytes);
        self.reclaim(bound, data);
        let led = self.led();
        if led.is_empty() {
            // Other nodes lead, and evict: clients are told where to go.
            store.room.open();
            return LOOK_EVERY;
        }
        let Some(policy) = policy else {
            self.moved = Instant::now();
            if data.bytes > bound {
                store.room.fill()
            } else {
                self.leave(bound, data.bytes)
            }
            return LOOK_EVERY;
        };
        let (bounds, half_life_ms) = match config.data_is_in_memory() {
            true => (Bounds { evict: bound - bound / AHEAD_PART, wait: bound }, HALF_LIVES_MS.0),
            false => (Bounds { evict: bound, wait: bound.saturating_add(bound / SLACK_PART) }, HALF_LIVES_MS.1),
        };
        let excess = self.pace.excess(data, bounds.evict, steady_us() / 1000, half_life_ms);
        if excess == 0 && data.bytes <= bounds.wait {
            self.moved = Instant::now();
            self.last_bytes = u64::MAX;
            self.leave(bounds.wait, data.bytes);
            return LOOK_EVERY;
        }
        let round = match excess {
            0 => Round { found: true, removed: 0 },
            _ => self.evict(policy, &databases, &led, excess, data),
        };
        self.settle(bounds.wait, &round);
        if round.removed > 0 { Duration::ZERO } else { LOOK_EVERY }
    }

    /// After a choice of keys: writes go on, wait at `wait` bytes, or are refused.
    fn settle(&mut self, wait: u64, round: &Round) {
        let bytes = data_of(self.store).bytes;
        let shrinks = bytes.saturating_add(wait / PROGRESS_PART) <= self.last_bytes;
        if round.removed > 0 || bytes <= wait || (self.awaits_room && shrinks) {
            self.moved = Instant::now();
            self.last_bytes = if bytes <= wait { u64::MAX } else { bytes };
        }
        let waited = self.moved.elapsed();
        let is_stuck = match self.awaits_room {
            true => waited > RECLAIMED_WITHIN,
            false => {
                let is_forgotten = self.awaited.is_none_or(|at| at.elapsed() > STUCK_AFTER);
                is_forgotten && (!round.found || waited > STUCK_AFTER)
            }
        };
        if bytes <= wait || !is_stuck {
            return self.leave(wait, bytes);
        }
        // Before writes are refused, keys go for what was evicted and has not come back.
        if round.found && !self.store.config.data_is_in_memory() && self.pace.forget() {
            self.moved = Instant::now();
            return self.leave(wait, bytes);
        }
        self.store.room.fill();
    }

    /// Above the bound: has trees flushed and compacted where that gives much room back.
    fn reclaim(&mut self, bound: u64, data: DataBytes) {
        let is_asked = self.awaits_room || !self.told_to_seal.is_empty();
        if is_asked && self.reclaimed.elapsed() < RECLAIM_EVERY {
            return;
        }
        self.awaits_room = false;
        let store = self.store;
        if data.bytes <= bound || store.config.data_is_in_memory() {
            self.told_to_seal.clear();
            return;
        }
        // They are not held: who gives up a replica waits for none of the others.
        let of = |handle: &Arc<ShardHandle>| (Arc::downgrade(handle), handle.engine().stats());
        let trees: Vec<_> = store.known().data_handles().map(of).collect();
        let sum = |of: fn(&EngineStats) -> u64| trees.iter().map(|(_, stats)| of(stats)).sum::<u64>();
        let memory = sum(|stats| stats.memtable_bytes);
        // Where removed rows are many, those in memory go first, unless they are few of them: that costs less.
        let has_many = data.removed_bytes > bound / REMOVED_PART;
        let flushes = has_many && sum(|stats| stats.removed_memory_bytes) > bound / (2 * TREE_REMOVED_PART);
        let compacts = has_many && !flushes || sum(|stats| stats.removed_bytes) > bound / REMOVED_PART;
        let seals_most = self.pace.wants_seal(bound / REMOVED_PART) || memory > bound / MEMORY_PART || flushes;
        // Those that have the greater part of it together.
        let share = memory / (2 * trees.len().max(1) as u64);
        let mut told_to_seal = BTreeMap::new();
        // New files are written before the old ones go.
        let mut spare = if compacts { spare_bytes(store) } else { 0 };
        for (handle, stats) in &trees {
            let Some(handle) = handle.upgrade() else { continue };
            let engine = handle.engine();
            let written = stats.disk_bytes.saturating_sub(stats.removed_bytes);
            let is_worth = stats.removed_bytes > stats.disk_bytes / TREE_REMOVED_PART;
            let mut seals = seals_most && stats.memtable_bytes > share;
            if compacts && is_worth && written <= spare {
                spare -= written;
                let flushes_first = engine.reclaim();
                self.awaits_room |= !flushes_first;
                seals |= flushes_first;
                store.background.wake();
            }
            if seals {
                let (id, bytes, is_sealed) = (handle.id(), stats.memtable_bytes, engine.needs_flush());
                // One that was told before and still has as much in memory does not seal.
                let obeys = self.told_to_seal.get(&id).is_none_or(|before| bytes < *before);
                self.awaits_room |= is_sealed || obeys;
                if !is_sealed {
                    told_to_seal.insert(id, bytes);
                    store.mailboxes.tell_owner(id, WorkerMessage::Seal(id));
                }
            }
        }
        self.told_to_seal = told_to_seal;
        self.reclaimed = Instant::now();
        if self.awaits_room {
            self.awaited = Some(self.reclaimed);
        }
    }

    /// Writes may go on until the data has `bound`; it has `bytes`, and some are under way.
    fn leave(&self, bound: u64, bytes: u64) {
        let taken = bytes.saturating_add(self.store.queued_bytes() as u64);
        self.store.room.leave(left(bound, taken));
    }

    /// Turns on the noting of uses of keys while the policy needs them.
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

    /// The shards that this node leads. They are not held: who gives up a replica waits for none of the others.
    fn led(&self) -> Vec<Weak<ShardHandle>> {
        let known = self.store.known();
        known.data_handles().filter(|handle| handle.serving()).map(Arc::downgrade).collect()
    }

    /// Evicts keys of all these shards, by how much of the data is the shard's: their removals are under way at the same
    /// time, and waited for once.
    fn evict(
        &mut self,
        policy: EvictionPolicy,
        databases: &Databases,
        led: &[Weak<ShardHandle>],
        excess: u64,
        data: DataBytes,
    ) -> Round {
        let may_go = |key: &[u8], expires: bool| {
            let database = Database::of_key(key).map(|place| databases.database_at(place));
            let row = database.and_then(|database| databases.row(database));
            row.is_none_or(|row| may_lose(row, policy, expires))
        };
        let in_memory = self.store.config.data_is_in_memory();
        let mut victims = match self.victims.take() {
            Some(victims) if victims.policy() == policy => victims,
            _ => Victims::new(policy, steady_us()),
        };
        let (mut round, mut chosen) = (Round::default(), Vec::new());
        for handle in led.iter().filter_map(Weak::upgrade) {
            let stats = handle.engine().stats();
            let own_bytes = bytes_of(&stats, in_memory).kept();
            let goal = (u128::from(excess) * u128::from(own_bytes)).div_ceil(u128::from(data.kept().max(1))) as u64;
            let key_bytes = (own_bytes / handle.key_count().max(1)).max(1);
            let wanted = usize::try_from(goal / key_bytes).unwrap_or(usize::MAX).saturating_add(1);
            match self.choose(&mut victims, &handle, wanted, &may_go) {
                Ok(some) => chosen.extend(some.into_iter().map(|victim| {
                    let late_bytes = if victim.is_large || stats.keeps_removed { key_bytes } else { 0 };
                    Chosen { victim, late_bytes }
                })),
                Err(fault) => {
                    log::warn!("shard {}: no key can be evicted: {fault:?}", handle.id());
                    round.found = true;
                }
            }
        }
        self.victims = Some(victims);
        round.found |= !chosen.is_empty();
        round.removed = self.remove(&chosen);
        round
    }

    fn choose(
        &self,
        victims: &mut Victims,
        handle: &ShardHandle,
        wanted: usize,
        may_go: MayGo<'_>,
    ) -> Result<Vec<Victim>, node::Fault> {
        let store = self.store;
        let samples = usize::try_from(store.config.number("maxmemory-samples").unwrap_or(5)).unwrap_or(1);
        let mut space = SnapshotSpace::new(handle, store.now_ms(), steady_us());
        victims.choose(&mut space, handle.id(), (wanted, samples), (&store.usage, may_go))
    }

    /// Looks at each database that has a bound and that this node leads, and evicts some keys of those that have too many; when to look
    /// again.
    fn look_at_databases(&mut self) -> Duration {
        let store = self.store;
        let known = store.known();
        let leads = |place: Database| {
            let handle = known.handle_of(place.slot());
            handle.filter(|handle| handle.serving()).map(Arc::downgrade)
        };
        let bounded = rows_of(store, &known.databases).filter_map(|(database, row)| {
            let place = known.databases.place_of(database);
            Some((place, row.bytes_max?, policy_of(row, store.config.eviction_policy()), leads(place)?))
        });
        let bounded: Vec<_> = bounded.collect();
        drop(known);
        let mut before = std::mem::take(&mut self.databases);
        store.room.bound(bounded.iter().map(|(place, ..)| *place));
        let mut pause = if bounded.is_empty() { IDLE } else { LOOK_EVERY };
        for (place, bound, policy, handle) in bounded {
            let new = || BoundedDatabase { weighing: Weighing::default(), victims: None, moved: Instant::now() };
            let mut database = before.remove(&place).unwrap_or_else(new);
            if let Some(handle) = handle.upgrade() {
                match self.look_at(&mut database, (place, bound), policy, &handle) {
                    Ok(next) => pause = pause.min(next),
                    Err(fault) => log::warn!("database at {}: no key can be evicted: {fault:?}", place.number()),
                }
            }
            self.databases.insert(place, database);
        }
        pause
    }

    /// The same for one database.
    fn look_at(
        &mut self,
        database: &mut BoundedDatabase,
        (place, bound): (Database, u64),
        policy: Option<EvictionPolicy>,
        handle: &Arc<ShardHandle>,
    ) -> Result<Duration, node::Fault> {
        let store = self.store;
        let mut space = SnapshotSpace::new(handle, store.now_ms(), steady_us());
        let bytes = database.weighing.look(&mut space, handle, place)?;
        drop(space);
        let Some(policy) = policy else {
            match bytes > bound {
                true => store.room.fill_of(place),
                false => store.room.leave_to(place, left(bound, bytes)),
            }
            return Ok(LOOK_EVERY);
        };
        let keys = handle.database_keys_in_slot(place.slot());
        let key_bytes = (bytes / keys.max(1)).max(1);
        let excess = bytes.saturating_sub(bound - bound / AHEAD_PART);
        let round = match excess {
            0 => Round { found: true, removed: 0 },
            _ => {
                let known = database.victims.take().filter(|victims| victims.policy() == policy);
                let mut victims = known.unwrap_or_else(|| Victims::of_database(policy, steady_us(), place));
                let wanted = usize::try_from(excess / key_bytes).unwrap_or(usize::MAX).saturating_add(1);
                let some = self.choose(&mut victims, handle, wanted, &|_, _| true)?;
                database.victims = Some(victims);
                let chosen: Vec<Chosen> = some.into_iter().map(|victim| Chosen { victim, late_bytes: 0 }).collect();
                Round { found: !chosen.is_empty(), removed: self.remove(&chosen) }
            }
        };
        let bytes = bytes.saturating_sub(round.removed.saturating_mul(key_bytes));
        if round.removed > 0 || bytes <= bound {
            database.moved = Instant::now();
        }
        match bytes > bound && (!round.found || database.moved.elapsed() > STUCK_AFTER) {
            true => store.room.fill_of(place),
            false => store.room.leave_to(place, left(bound, bytes)),
        }
        Ok(if round.removed > 0 { Duration::ZERO } else { LOOK_EVERY })
    }

    /// Removes the keys that were not written since; answers how many.
    fn remove(&mut self, chosen: &[Chosen]) -> u64 {
        let (store, first) = (self.store, self.token);
        let usage = &store.usage;
        usage.set_going(chosen.iter().map(|chosen| key_hash(&chosen.victim.key)));
        let mut under_way = 0;
        let mut reply = Vec::new();
        for Chosen { victim, .. } in chosen {
            let version = victim.version.to_string();
            let command: [&[u8]; 4] = [b"KV.DEL", &victim.key, b"IFVERSION", version.as_bytes()];
            under_way += usize::from(!self.caller.submit(self.token, &command, &mut reply));
            self.token = self.token.wrapping_add(1);
        }
        let until = Instant::now() + REMOVED_WITHIN;
        let (mut removed, mut late_bytes) = (0, 0);
        while under_way > 0 && Instant::now() < until && !store.is_stopping() {
            self.caller.wait(Some(until), &mut |token, answer| {
                // Answers to what was earlier choices may come late.
                let Some(chosen) = chosen.get(token.wrapping_sub(first) as usize) else { return };
                under_way -= 1;
                if answer == b":1\r\n" {
                    removed += 1;
                    late_bytes += chosen.late_bytes;
                }
            });
        }
        usage.set_going([]);
        usage.note_evicted(removed);
        self.pace.evicted(late_bytes);
        removed
    }
}

/// The settings of single databases.
fn rows_of<'a>(store: &NodeShared, set: &'a Databases) -> impl Iterator<Item = (Database, &'a DatabaseRow)> {
    let all = (0..store.config.databases()).filter_map(Database::of_number);
    all.filter_map(|database| Some((database, set.row(database)?)))
}

/// The policy within a database's own bound; `of_store` is that of the store.
fn policy_of(row: &DatabaseRow, of_store: Option<EvictionPolicy>) -> Option<EvictionPolicy> {
    row.eviction.map_or(of_store, EvictionPolicy::of_name)
}

/// Whether a key of a database may go for the bound of the store, by whose policy it was chosen.
fn may_lose(row: &DatabaseRow, of_store: EvictionPolicy, expires: bool) -> bool {
    policy_of(row, Some(of_store)).is_some_and(|policy| policy.among == Among::All || expires)
}

/// How many bytes may still be written. The data may have as many bytes as the bound says: one more write begins then.
fn left(bound: u64, taken: u64) -> i64 {
    let left = i128::from(bound) - i128::from(taken) + 1;
    i64::try_from(left).unwrap_or(if left < 0 { i64::MIN } else { i64::MAX })
}

/// What the data of all replicas of this node takes.
fn data_of(store: &NodeShared) -> DataBytes {
    let in_memory = store.config.data_is_in_memory();
    let known = store.known();
    let each = known.data_handles().map(|handle| bytes_of(&handle.engine().stats(), in_memory));
    each.fold(DataBytes::default(), DataBytes::with)
}

fn bytes_of(stats: &EngineStats, in_memory: bool) -> DataBytes {
    match in_memory {
        true => DataBytes { bytes: stats.memtable_bytes, removed_bytes: 0 },
        false => {
            let bytes = stats.wanted_bytes() + stats.memtable_bytes;
            // Both are estimates, and one tree's are not to hide what another one keeps.
            let removed_bytes = (stats.removed_bytes + stats.removed_memory_bytes).min(bytes);
            DataBytes { bytes, removed_bytes }
        }
    }
}

/// How many bytes may be written to the device before others are freed.
fn spare_bytes(store: &NodeShared) -> u64 {
    let free = FreeSpace::of(store.dir.root());
    // Where that cannot be told, writing says it.
    free.map_or(u64::MAX, |space| space.free_bytes.saturating_sub(space.reserve_bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::TestNode;
    use node::eviction::Admitted;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn data_bytes(store: &NodeShared) -> u64 {
        data_of(store).bytes
    }

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
        until("data is refused", || node.store().room.refuses());
        let evicted = usage.evicted();
        node.store().config.set(&[(b"maxmemory", b"0")]).unwrap();
        until("nothing is refused without a bound", || !node.store().room.refuses());
        assert_eq!(usage.evicted(), evicted);
    }

    #[test]
    fn data_on_disk_stays_near_its_bound_and_is_not_emptied() {
        const BOUND: u64 = 4 << 20;
        let settings = [("max-data-bytes", "4mb"), ("maxmemory-policy", "allkeys-random"), ("durability", "nosync")];
        let node = TestNode::start(&settings);
        let mut prng = vocab::Prng::new(29);
        for key in 0..10_000 {
            // Digits at random: no compression makes them much smaller.
            let value: String = (0..63).map(|_| format!("{:016x}", prng.next_u64())).collect();
            assert_eq!(node.call(&format!("SET k{key} {value}")), "+OK\r\n");
        }
        let is_near = || data_bytes(node.store()) <= BOUND + BOUND / REMOVED_PART;
        until("a tree that nothing is written to gives room back", is_near);
        let left = (0..10_000).filter(|key| node.call(&format!("EXISTS k{key}")) == ":1\r\n").count();
        // How many go beyond those that have no room depends on how long flushes take.
        assert!(left > 400, "of 4,000 keys that have room {left} are left");
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
        until("nothing more can go", || node.store().room.refuses());
        assert_eq!((left(0..200), left(200..500)), (0, 300));
    }

    fn database(number: u64) -> Database {
        Database::of_number(number).unwrap()
    }

    /// Writes keys of 1 KB each to a database.
    fn fill_database(node: &TestNode, number: u64, keys: usize) {
        let mut caller = Caller::new(node.store().clone());
        for key in 0..keys {
            let key = [&database(number).prefix()[..], format!("k{key}").as_bytes()].concat();
            assert_eq!(caller.call(&[b"SET", &key, "x".repeat(1000).as_bytes()]), b"+OK\r\n");
        }
    }

    fn keys_of(node: &TestNode, number: u64) -> u64 {
        let slot = database(number).slot();
        let known = node.store().known();
        let shard = known.shard_of(slot).unwrap();
        known.handle(shard).unwrap().database_keys_in_slot(slot)
    }

    fn set_databases(node: &TestNode, text: &str) {
        let mut caller = Caller::new(node.store().clone());
        let answer = caller.call(&[b"KV.ADMIN", b"SETTINGS", b"SET", b"database-settings", text.as_bytes()]);
        assert!(!answer.starts_with(b"-"), "{}", answer.escape_ascii());
    }

    #[test]
    fn a_database_stays_within_its_own_bound_and_others_keep_their_keys() {
        let node = TestNode::start(&[]);
        set_databases(&node, "3:max-bytes=204800,eviction=allkeys-lru");
        fill_database(&node, 3, 1_000);
        fill_database(&node, 4, 300);
        until("the database shrinks", || keys_of(&node, 3) <= 200);
        assert!(keys_of(&node, 3) > 100, "no more goes than has to");
        assert_eq!(keys_of(&node, 4), 300);
        let admit = |number: u64| node.store().room.admit(|| Some(database(number)), || 1);
        set_databases(&node, "3:max-bytes=50kb,eviction=noeviction");
        until("data of the database is refused", || admit(3) == Admitted::Never);
        assert_eq!(admit(4), Admitted::Now);
        let left = keys_of(&node, 3);
        set_databases(&node, "");
        until("there is no bound any more", || admit(3) == Admitted::Now);
        assert_eq!(keys_of(&node, 3), left);
    }

    #[test]
    fn the_bound_of_the_store_is_for_databases_too_unless_their_policy_spares_them() {
        let settings = [("engine", "memory"), ("maxmemory-policy", "allkeys-random")];
        let node = TestNode::start(&settings);
        set_databases(&node, "4:eviction=noeviction");
        fill_database(&node, 3, 1_000);
        fill_database(&node, 4, 200);
        node.store().config.set(&[(b"maxmemory", b"700kb")]).unwrap();
        until("keys of a database go", || keys_of(&node, 3) < 600 && data_bytes(node.store()) <= 700 << 10);
        assert_eq!(keys_of(&node, 4), 200);
    }
}
