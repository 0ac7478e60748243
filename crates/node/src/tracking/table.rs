//! The keys that clients may have cached, and who they are.

use super::changes::{ChangedKey, ChangedKeys, Invalidation, sent_bytes};
use super::listeners::Listeners;
use super::prefixes::Prefix;
use super::step_map::{Entries, StepMap};
use super::told_room::ToldRoom;
use super::tracker::{Audience, Tracker};
use crate::subscriber::Subscriber;
use parking_lot::{Mutex, MutexGuard, RwLock};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use vocab::limits::{TRACKED_CLIENTS_PER_KEY, TRACKED_KEY_BYTES_MAX};

/// After so many keys that a request registers others have the lock.
const KEYS_PER_LOCK: usize = 256;

/// What a node remembers of what its clients may have cached, but for the keys themselves.
#[derive(Debug, Default)]
pub struct Tracking {
    /// How many clients have tracking on.
    clients: AtomicUsize,
    /// How many keys are registered, and how many clients for all of them.
    keys: AtomicUsize,
    items: AtomicUsize,
    /// What the keys take, in bytes.
    bytes: AtomicUsize,
    prefixes: RwLock<Listeners>,
    prefix_count: AtomicUsize,
    /// The clients of databases at this node that ask for prefixes: the nodes that lead databases are to tell it for them.
    passed_on: RwLock<BTreeSet<Subscriber>>,
    lost: Mutex<Lost>,
    has_lost: AtomicBool,
}

/// Clients that are to forget all.
#[derive(Debug, Default)]
struct Lost {
    clients: BTreeSet<Subscriber>,
    /// Keys whose clients are not yet among them.
    tables: Vec<Entries<Trackers>>,
}

/// What a key takes of memory, about, in bytes.
fn bytes_of(key: &[u8]) -> usize {
    96 + key.len()
}

impl Tracking {
    /// So many more clients have tracking on, or fewer.
    pub fn count_client(&self, is_on: bool) {
        if is_on {
            self.clients.fetch_add(1, Ordering::Relaxed);
        } else {
            self.clients.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// How many clients have tracking on.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// How many keys are registered.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// How many clients are registered for keys; one that is for two counts twice.
    #[must_use]
    pub fn items(&self) -> usize {
        self.items.load(Ordering::Relaxed)
    }

    /// How many prefixes are asked for.
    #[must_use]
    pub fn prefixes(&self) -> usize {
        self.prefix_count.load(Ordering::SeqCst)
    }

    /// Whether a client may ask for these prefixes too.
    #[must_use]
    pub fn has_room(&self, prefixes: &[Prefix]) -> bool {
        self.prefixes.read().has_room(prefixes)
    }

    /// A client asks for prefixes.
    pub fn add_prefixes(&self, prefixes: &[Prefix], tracker: Tracker, audience: Audience) {
        let mut all = self.prefixes.write();
        all.add(prefixes, tracker, audience);
        self.prefix_count.store(all.len(), Ordering::SeqCst);
    }

    /// A client asks for prefixes no longer.
    pub fn remove_prefixes(&self, prefixes: &[Prefix], client: Subscriber, audience: Audience) {
        let mut all = self.prefixes.write();
        all.remove(prefixes, client, audience);
        self.prefix_count.store(all.len(), Ordering::SeqCst);
    }

    /// A client of a database asks for prefixes, or no longer.
    pub fn pass_on(&self, client: Subscriber, is_on: bool) {
        let mut all = self.passed_on.write();
        if is_on {
            all.insert(client)
        } else {
            all.remove(&client)
        };
    }

    /// The clients of databases that ask for prefixes, of a worker.
    #[must_use]
    pub fn passed_on(&self, worker: u32) -> Vec<Subscriber> {
        self.passed_on.read().iter().filter(|client| client.worker == worker).copied().collect()
    }

    /// The node has come to lead a shard: who is told by leaders alone may have missed changes before.
    pub fn leads(&self) {
        if self.prefixes() > 0 {
            self.lose(self.prefixes.read().clients_of_databases(), StepMap::default());
        }
    }

    /// What clients are told of the next changes of an entry, which is visible, while there is room; whether this node leads its shard.
    #[must_use]
    pub fn told(
        &self,
        keys: &TrackedKeys,
        changed: &mut ChangedKeys,
        room: &mut ToldRoom,
        leads: bool,
    ) -> Vec<Invalidation> {
        let (mut told, mut taken) = (Vec::new(), Vec::new());
        while !room.is_over()
            && let Some(next) = changed.take_one()
        {
            let registered = keys.take(&next);
            let mut bytes = registered.as_ref().map_or(0, Invalidation::bytes_of_all);
            if self.prefixes() > 0 {
                bytes += sent_bytes(&next.key).saturating_mul(self.prefixes.read().reach(&next.key, leads));
            }
            room.take(bytes);
            told.extend(registered);
            taken.push(next);
        }
        if self.prefixes() > 0 {
            told.extend(self.prefixes.read().invalidations(&taken, leads));
        }
        told
    }

    /// These clients, and those of the table, are to forget all.
    fn lose(&self, clients: impl IntoIterator<Item = Subscriber>, table: StepMap<Trackers>) {
        let mut lost = self.lost.lock();
        lost.clients.extend(clients);
        if table.len() > 0 {
            lost.tables.push(table.into_iter());
        }
        self.has_lost.store(!lost.clients.is_empty() || !lost.tables.is_empty(), Ordering::Release);
    }

    /// All that have asked for prefixes.
    fn listeners(&self) -> BTreeSet<Subscriber> {
        if self.prefixes() > 0 { self.prefixes.read().clients() } else { BTreeSet::new() }
    }

    /// Whether clients are to forget all.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Acquire)
    }

    /// The clients that are to forget all, each once. `None`: there are none, or they are not all found; it looks at `most` of them.
    #[must_use]
    pub fn take_lost(&self, most: usize) -> Option<Invalidation> {
        if !self.has_lost() {
            return None;
        }
        let mut lost = self.lost.lock();
        let Lost { clients, tables } = &mut *lost;
        let (mut left, mut items) = (most, 0);
        while let Some(table) = tables.last_mut().filter(|_| left > 0) {
            match table.next() {
                Some((_, trackers)) => {
                    items += trackers.len();
                    left = left.saturating_sub(trackers.len());
                    clients.extend(trackers.iter().map(|tracker| tracker.client));
                }
                None => _ = tables.pop(),
            }
        }
        self.items.fetch_sub(items, Ordering::Relaxed);
        if !tables.is_empty() {
            return None;
        }
        self.has_lost.store(false, Ordering::Release);
        Some(Invalidation::forget_all(std::mem::take(clients).into_iter().collect()))
    }

    /// How many keys too many are registered, where `keys_max` may be, or any number if that is 0.
    #[must_use]
    pub fn excess(&self, keys_max: usize) -> usize {
        let key_bytes = self.bytes.load(Ordering::Relaxed);
        excess_of(self.keys(), key_bytes + self.items() * size_of::<Tracker>(), keys_max)
    }
}

/// How many keys of those that take so many bytes, with their clients, are too many.
fn excess_of(keys: usize, bytes: usize, keys_max: usize) -> usize {
    let too_many = if keys_max == 0 { 0 } else { keys.saturating_sub(keys_max) };
    let over = bytes.saturating_sub(TRACKED_KEY_BYTES_MAX);
    // Keys take about the same.
    let too_large = if over == 0 { 0 } else { 1 + keys.saturating_mul(over) / bytes };
    too_many.max(too_large).min(keys)
}

/// The clients that are registered for one key, in their order.
type Trackers = SmallVec<[Tracker; 2]>;

/// The keys of one shard that clients may have cached.
#[derive(Debug, Default)]
pub struct TrackedKeys {
    /// How many there are, so that entries need not take the lock when there are none.
    count: AtomicUsize,
    keys: Mutex<StepMap<Trackers>>,
    /// What they take, in bytes.
    bytes: AtomicUsize,
    node: Arc<Tracking>,
}

impl TrackedKeys {
    /// None yet, at a node.
    #[must_use]
    pub fn of(node: Arc<Tracking>) -> Self {
        Self { count: AtomicUsize::new(0), keys: Mutex::default(), bytes: AtomicUsize::new(0), node }
    }

    /// What the node remembers.
    #[must_use]
    pub fn node(&self) -> &Tracking {
        &self.node
    }

    /// Whether a client is registered, or has asked for a prefix.
    #[must_use]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0 || self.node.prefixes() > 0
    }

    /// Registers a client for keys that it is about to read.
    pub fn add<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, tracker: Tracker) {
        let mut all = self.keys.lock();
        for (n, key) in keys.enumerate() {
            if n % KEYS_PER_LOCK == KEYS_PER_LOCK - 1 {
                // Event loops that want to know who is registered do not wait for a request of very many keys.
                self.count.store(all.len(), Ordering::SeqCst);
                MutexGuard::bump(&mut all);
            }
            self.add_one(&mut all, key, tracker);
        }
        self.count.store(all.len(), Ordering::SeqCst);
    }

    /// Registers a client for a key; whether it was not registered for it.
    pub(crate) fn add_if_new(&self, key: &[u8], tracker: Tracker) -> bool {
        let mut all = self.keys.lock();
        let is_new = self.add_one(&mut all, key, tracker);
        self.count.store(all.len(), Ordering::SeqCst);
        is_new
    }

    fn add_one(&self, all: &mut StepMap<Trackers>, key: &[u8], tracker: Tracker) -> bool {
        let trackers = match all.get_mut(key) {
            Some(trackers) => trackers,
            None => {
                self.node.keys.fetch_add(1, Ordering::Relaxed);
                self.node.bytes.fetch_add(bytes_of(key), Ordering::Relaxed);
                self.bytes.fetch_add(bytes_of(key), Ordering::Relaxed);
                all.insert(key)
            }
        };
        let at = match trackers.binary_search_by_key(&tracker.client, |other| other.client) {
            Ok(at) => {
                trackers[at].no_loop = tracker.no_loop;
                return false;
            }
            Err(at) => at,
        };
        if trackers.len() < TRACKED_CLIENTS_PER_KEY {
            self.node.items.fetch_add(1, Ordering::Relaxed);
            trackers.insert(at, tracker);
        } else {
            // Most of so many are gone by now; one that is not is told to forget all.
            let at = at.min(trackers.len() - 1);
            let other = std::mem::replace(&mut trackers[at], tracker);
            self.node.lose([other.client], StepMap::default());
        }
        true
    }

    /// The clients that are told of a change, of those that are registered for its key, and from here on are not. A client that has read
    /// the key behind the change stays, with the same entry; so does one that has changed it itself and does not want to know.
    fn take(&self, changed: &ChangedKey) -> Option<Invalidation> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let key = &changed.key[..];
        let mut all = self.keys.lock();
        let trackers = all.get_mut(key)?;
        let is_own = |tracker: &Tracker| tracker.no_loop && Some(tracker.client) == changed.client;
        let stays = |tracker: &Tracker| changed.stay.iter().find(|stays| stays.client == tracker.client);
        let is_told = |tracker: &&Tracker| !is_own(tracker) && stays(tracker).is_none_or(|stays| stays.is_told);
        let clients: Vec<Subscriber> = trackers.iter().filter(is_told).map(|tracker| tracker.client).collect();
        let before = trackers.len();
        trackers.retain(|tracker| is_own(tracker) || stays(tracker).is_some());
        let left = trackers.len();
        if left == 0 {
            all.remove(key);
            self.count.store(all.len(), Ordering::SeqCst);
            self.forgot(key, before);
        } else {
            self.node.items.fetch_sub(before - left, Ordering::Relaxed);
        }
        drop(all);
        (!clients.is_empty()).then(|| Invalidation { keys: Some(vec![key.to_vec()]), is_broadcast: false, clients })
    }

    /// These clients may have missed changes: they are to forget all.
    pub fn lose_clients(&self, clients: impl IntoIterator<Item = Subscriber>) {
        self.node.lose(clients, StepMap::default());
    }

    /// Some of them, while there is room in the step, to make room in the table: their clients are told as if the keys had changed.
    #[must_use]
    pub fn evict(&self, room: &mut ToldRoom) -> Vec<Invalidation> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let mut all = self.keys.lock();
        let keys = all.some_keys(room.count(), room.bytes());
        let mut told = Vec::with_capacity(keys.len());
        for key in keys {
            if room.is_over() {
                break;
            }
            let trackers = all.remove(&key).unwrap_or_default();
            self.forgot(&key, trackers.len());
            let clients = trackers.iter().map(|tracker| tracker.client).collect();
            let evicted = Invalidation { keys: Some(vec![key.into_vec()]), is_broadcast: false, clients };
            room.take(evicted.bytes_of_all());
            told.push(evicted);
        }
        self.count.store(all.len(), Ordering::SeqCst);
        told
    }

    /// Changes may have been missed, or may be from here on: all that are registered are to forget all.
    pub fn lose(&self) {
        if self.any() {
            self.lose_with(self.node.listeners());
        }
    }

    /// Databases of the shard were emptied: all that are registered are to forget all, and if `is_told` those who are told of keys of
    /// databases.
    pub(crate) fn lose_databases(&self, is_told: bool) {
        if self.any() {
            let is_told = is_told && self.node.prefixes() > 0;
            self.lose_with(if is_told { self.node.prefixes.read().clients_of_databases() } else { BTreeSet::new() });
        }
    }

    fn lose_with(&self, listeners: BTreeSet<Subscriber>) {
        let mut all = self.keys.lock();
        let gone = std::mem::take(&mut *all);
        self.count.store(0, Ordering::SeqCst);
        self.node.keys.fetch_sub(gone.len(), Ordering::Relaxed);
        self.node.bytes.fetch_sub(self.bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        drop(all);
        self.node.lose(listeners, gone);
    }

    fn forgot(&self, key: &[u8], items: usize) {
        self.node.keys.fetch_sub(1, Ordering::Relaxed);
        self.node.items.fetch_sub(items, Ordering::Relaxed);
        self.node.bytes.fetch_sub(bytes_of(key), Ordering::Relaxed);
        self.bytes.fetch_sub(bytes_of(key), Ordering::Relaxed);
    }
}

impl Drop for TrackedKeys {
    fn drop(&mut self) {
        self.lose();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::changes::Changes;
    use super::*;

    fn client(connection: u32) -> Subscriber {
        Subscriber { worker: 0, connection, generation: 1 }
    }

    fn tracker(connection: u32) -> Tracker {
        Tracker { client: client(connection), no_loop: connection >= 10 }
    }

    /// Of the clients 10, 11, …
    fn changed(keys: &[(&str, usize)]) -> ChangedKeys {
        let mut changes = Changes::noted();
        keys.iter().for_each(|(key, item)| changes.note(key.as_bytes(), Some(*item)));
        changes.by_client(|item| Some(client(10 + item as u32))).unwrap()
    }

    /// For so many keys, however long they are.
    fn room(count: usize) -> ToldRoom {
        ToldRoom::new(count, usize::MAX)
    }

    fn told(keys: &TrackedKeys, given: &[(&str, usize)]) -> String {
        shown(&keys.node().told(keys, &mut changed(given), &mut room(100), true))
    }

    /// Who is told what: keys, or `*` for all, and connections.
    fn shown(told: &[Invalidation]) -> String {
        let one = |told: &Invalidation| {
            let keys = told.keys.as_ref().map_or("*".to_owned(), |keys| {
                keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>().join("+")
            });
            let clients: Vec<String> = told.clients.iter().map(|client| client.connection.to_string()).collect();
            format!("{keys}: {}", clients.join(","))
        };
        told.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    fn add(keys: &TrackedKeys, names: &[&str], connection: u32) {
        keys.add(names.iter().map(|name| name.as_bytes()), tracker(connection));
    }

    #[test]
    fn a_key_is_told_once_to_those_who_have_read_it() {
        let keys = TrackedKeys::default();
        assert!(!keys.any());
        let told = |given: &[(&str, usize)]| told(&keys, given);
        add(&keys, &["a", "b"], 1);
        add(&keys, &["a", "a"], 2);
        add(&keys, &["a"], 10);
        assert_eq!((keys.node().keys(), keys.node().items()), (2, 4));
        assert_eq!(told(&[("c", 0)]), "");
        assert_eq!(told(&[("a", 0)]), "a: 1,2", "10 has changed it itself");
        assert_eq!((keys.node().keys(), keys.node().items()), (2, 2));
        assert_eq!(told(&[("a", 1)]), "a: 10", "it may have read it behind its change");
        assert_eq!(told(&[("a", 1)]), "");
        add(&keys, &["a"], 10);
        assert_eq!(told(&[("b", 1), ("a", 1)]), "b: 1; a: 10");
        assert_eq!((keys.any(), keys.node().keys(), keys.node().items()), (false, 0, 0));
    }

    #[test]
    fn what_an_entry_reads_behind_its_changes_stays_registered() {
        // The items of an entry that write the key or read it, and who is told of its changes, then of another one. Of the clients, 2 is
        // registered before the entry, and 10 does not want to know of its own changes.
        for (deeds, own, other) in [
            ("r1 w1", "a: 1,2", ""),
            ("w1 r1", "a: 2", "a: 1"),
            ("w2 r2", "a: 2", "a: 2"),
            ("w1 r10 w10", "a: 2", "a: 10"),
            ("r10 w10", "a: 2", "a: 10"),
            ("r10 w1", "a: 2,10", ""),
            ("w1 r1 r2 w2", "a: 2; a: 1,2", ""),
            ("r1 r3", "", "a: 1,2,3"),
        ] {
            let keys = TrackedKeys::default();
            add(&keys, &["a"], 2);
            let mut changes = Changes::noted();
            for deed in deeds.split(' ') {
                let (deed, item) = deed.split_at(1);
                let item = item.parse().unwrap();
                if deed == "r" { changes.note_read(b"a", item) } else { changes.note(b"a", Some(item)) }
            }
            changes.register(|item| Some(tracker(item as u32)), |key, tracker| keys.add_if_new(key, tracker));
            assert!(keys.any());
            let mut of_entry = changes.by_client(|item| Some(client(item as u32))).unwrap();
            assert_eq!(shown(&keys.node().told(&keys, &mut of_entry, &mut room(9), true)), own, "{deeds}");
            assert_eq!(told(&keys, &[("a", 99)]), other, "{deeds}");
            assert_eq!((keys.any(), keys.node().keys(), keys.node().items()), (false, 0, 0), "{deeds}");
        }
    }

    #[test]
    fn prefixes_are_told_of_all_that_they_fit() {
        let keys = TrackedKeys::default();
        let node = keys.node();
        let names: Vec<Prefix> = ["a:", "b:"].map(|name| name.as_bytes().into()).to_vec();
        node.add_prefixes(&names, tracker(1), Audience::Cluster);
        node.add_prefixes(&names[..1], tracker(10), Audience::Cluster);
        assert!(keys.any() && node.prefixes() == 2);
        let given = [("a:1", 0), ("b:1", 0), ("a:2", 1), ("c", 0), ("a:1", 0)];
        assert_eq!(told(&keys, &given), "a:1+a:2: 1; a:2: 10; b:1: 1");
        let mut some = changed(&given);
        assert_eq!(shown(&node.told(&keys, &mut some, &mut room(1), true)), "a:1: 1", "some at a time");
        assert_eq!(shown(&node.told(&keys, &mut some, &mut room(9), true)), "a:1+a:2: 1; a:2: 10; b:1: 1");
        keys.lose();
        assert_eq!(shown(&node.take_lost(9).into_iter().collect::<Vec<_>>()), "*: 1,10");
        node.remove_prefixes(&names, client(1), Audience::Cluster);
        assert_eq!(told(&keys, &given), "a:2: 10");
        node.remove_prefixes(&names, client(10), Audience::Cluster);
        assert!(!keys.any());
    }

    #[test]
    fn a_step_ends_by_the_bytes_that_its_clients_are_told() {
        let long = |n: usize| format!("{n}{}", "k".repeat(1000));
        let names: Vec<String> = (0..9).map(long).collect();
        let given: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 0)).collect();
        // Of 9 keys of 1,000 bytes, each told to 10 clients, 3 are told in a step of 25,000 bytes.
        for is_broadcast in [true, false] {
            let keys = TrackedKeys::default();
            for n in 0..10 {
                if is_broadcast {
                    keys.node().add_prefixes(&[Prefix::from(&b""[..])], tracker(n), Audience::Cluster);
                } else {
                    names.iter().for_each(|name| add(&keys, &[name], n));
                }
            }
            let mut left = changed(&given);
            for expected in [6, 3, 0] {
                let told = keys.node().told(&keys, &mut left, &mut ToldRoom::new(100, 25_000), true);
                assert!(told.iter().all(|told| told.clients.len() == 10));
                assert_eq!((told.is_empty(), left.len()), (false, expected), "{is_broadcast}");
            }
        }
        let keys = TrackedKeys::default();
        names.iter().for_each(|name| (0..10).for_each(|n| add(&keys, &[name], n)));
        assert_eq!(keys.evict(&mut ToldRoom::new(100, 25_000)).len(), 3);
        assert_eq!(keys.node().keys(), 6, "what is not told stays");
    }

    #[test]
    fn what_may_have_been_missed_is_forgotten() {
        let keys = TrackedKeys::default();
        let node = keys.node.clone();
        assert_eq!(node.take_lost(9), None);
        add(&keys, &["a", "b"], 2);
        add(&keys, &["a"], 1);
        keys.lose();
        assert_eq!(node.take_lost(1), None, "not all are found");
        assert_eq!(shown(&node.take_lost(9).into_iter().collect::<Vec<_>>()), "*: 1,2");
        assert_eq!((node.take_lost(9), node.keys(), node.items(), keys.any()), (None, 0, 0, false));
        // The replica is closed.
        add(&keys, &["a"], 1);
        drop(keys);
        assert_eq!((node.take_lost(9).unwrap().clients, node.keys()), (vec![client(1)], 0));
        assert_eq!(node.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_has_asked_for_prefixes_of_databases_is_told_that_one_is_emptied() {
        let keys = TrackedKeys::default();
        let node = keys.node();
        let prefix: [Prefix; 1] = [b"".as_slice().into()];
        node.add_prefixes(&prefix, tracker(1), Audience::Cluster);
        node.add_prefixes(&prefix, tracker(2), Audience::Databases);
        for (is_told, expected) in [(true, "*: 2,3"), (false, "*: 3")] {
            add(&keys, &["a"], 3);
            keys.lose_databases(is_told);
            assert_eq!(shown(&node.take_lost(9).into_iter().collect::<Vec<_>>()), expected);
            assert_eq!(node.keys(), 0);
        }
    }

    #[test]
    fn clients_that_are_registered_for_the_same_keys_count() {
        let node = Tracking::default();
        // How many keys there are, of 100 bytes each, how many clients for each of them, and how many keys are too many.
        for (keys, clients, expected) in [(0, 0, 0), (100, 10_000, 0), (10_000, 1, 0), (10_000, 10_000, 8324)] {
            node.keys.store(keys, Ordering::Relaxed);
            node.bytes.store(100 * keys, Ordering::Relaxed);
            node.items.store(keys * clients, Ordering::Relaxed);
            assert_eq!(node.excess(0), expected, "{keys} keys of {clients} clients");
        }
    }

    #[test]
    fn the_table_is_bounded() {
        let keys = TrackedKeys::default();
        for n in 0..5 {
            add(&keys, &[&format!("k{n}")], 1);
        }
        assert_eq!((keys.node().excess(0), keys.node().excess(5), keys.node().excess(2)), (0, 0, 3));
        let told = keys.evict(&mut room(3));
        assert!(told.len() == 3 && told.iter().all(|told| told.clients == [client(1)]));
        assert_eq!(keys.node().keys(), 2);
        let long = "k".repeat(TRACKED_KEY_BYTES_MAX / 4);
        (0..5).for_each(|n| add(&keys, &[&format!("{n}{long}")], 1));
        assert!((1..=4).contains(&keys.node().excess(0)), "{}", keys.node().excess(0));
        drop(keys.evict(&mut room(usize::MAX)));
        assert_eq!((keys.node().keys(), keys.node().excess(0)), (0, 0));
        (0..2).for_each(|n| add(&keys, &[&format!("k{n}")], 1));
        let left = TRACKED_CLIENTS_PER_KEY as u32 + 3;
        (0..left).for_each(|n| add(&keys, &["busy"], 100 + n));
        assert_eq!(keys.node().take_lost(9).unwrap().clients.len(), 3);
        assert_eq!(keys.node().items(), 2 + TRACKED_CLIENTS_PER_KEY);
    }
}
