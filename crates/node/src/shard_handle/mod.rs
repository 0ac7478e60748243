//! What all threads share of a shard: its tree, its part of the row cache, its counters and whether it may be read.

mod clock;
pub(crate) mod damage;
mod followers;
mod freshness;
mod lease;
pub(crate) mod load;
mod ownership;
#[cfg(test)]
mod tests;

use crate::absent_watch::{AbsentKeys, AbsentWatch};
use crate::awaited_keys::AwaitedKeys;
use crate::cluster_database_counts::ClusterDatabaseKeys;
use crate::config::{Config, SmallCollections};
use crate::counters::{Counters, DatabaseKeys, Stored};
use crate::drawn_stretch::KeptStretch;
use crate::fault::Fault;
use crate::format::Fact;
use crate::format::packing::Packing;
use crate::format::record::{Kind, Record, Type};
use crate::format::slots::{OwnedRows, Slots};
use crate::format::{keys, snapshot_point};
use crate::key_usage::KeyUsage;
use crate::keyspace_events::EventClasses;
use crate::peer_protocol::{DivisionReport, LeaderReport, ReplicaReport};
use crate::quiet_changes::QuietChanges;
use crate::script_watch::ScriptWatch;
use crate::skipped;
use crate::store_clock::entry_time;
use crate::subscriber::Subscriber;
use crate::tracking::{ChangedKeys, Changes, TrackedKeys, Tracker, Tracking};
use clock::ShardClock;
use damage::Damage;
use followers::Followers;
use freshness::FreshnessCell;
use lease::LeaseCell;
use ownership::Ownership;
use parking_lot::Mutex;
use replica::{ReplicaStatus, SnapshotPoint};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use storage::{BlockRead, Engine, Look, RowCache, Slice, Snapshot, Span};
use vocab::{ClusterDatabase, Millis, ReplicaId, ShardId, Slot, SlotSpan, cluster_database_keys, database_keys};

/// The cached row of a key that is known to be absent; no record is as short. Only readers put it into the cache, and only
/// while no newer write is on its way. A removal takes the row out of the cache instead, or readers would see it too early.
pub(crate) const ABSENT: &[u8] = &[];

/// The shared part of one shard. Only the thread that owns the shard writes; any thread reads.
pub struct ShardHandle {
    id: ShardId,
    /// What it owns, as of the applied index, and what its leader has proposed to give away.
    slots: Ownership,
    engine: Arc<dyn Engine>,
    cache: Arc<RowCache>,
    counters: Counters,
    lease: LeaseCell,
    freshness: FreshnessCell,
    /// Up to which entry the replica had known all to be committed before it was started.
    replayed_at: AtomicU64,
    /// The newest entry that is being, or has been, written to the tree: ahead of the applied index for a moment.
    writing: AtomicU64,
    /// No key expires before this time, in ms since the epoch.
    next_expiry_ms: AtomicU64,
    /// The latest time at which an entry was applied or a key was found to have expired.
    clock: ShardClock,
    /// Keys removed because their time had come.
    expired: AtomicU64,
    /// A key was put whose time had come already: it may lie before where collection goes on.
    expires_behind: AtomicBool,
    /// Whether there may be elements to collect.
    has_garbage: AtomicBool,
    /// Entries whose evaluation took long, and for how many µs.
    slow_us: AtomicU64,
    /// A WAIT waits for followers.
    followers_wanted: AtomicBool,
    /// Long replies from this replica, which is closed, are to end.
    replies_end: AtomicBool,
    followers: Followers,
    /// Where the replica stood when it last changed.
    status: Mutex<ReplicaStatus>,
    /// What the leader knows of its group, as last told; none if this replica does not lead.
    group: Mutex<Option<LeaderReport>>,
    /// Why the replica serves nothing any more, if so.
    broken: Mutex<Option<String>>,
    damage: Damage,
    /// Keys that are watched while they are absent.
    absent: Arc<AbsentKeys>,
    /// Changes that those who watch a key do not see.
    quiet: QuietChanges,
    /// Members of a set that SPOP goes on with.
    kept_stretch: KeptStretch,
    /// Keys for which clients wait.
    awaited: Arc<AwaitedKeys>,
    /// Keys that clients of this node may have cached.
    tracked: OnceLock<TrackedKeys>,
    /// The node's settings, for what is only told and never stored.
    config: OnceLock<Arc<Config>>,
    /// What the node knows of the use of keys.
    usage: OnceLock<Arc<KeyUsage>>,
    /// Where others see the scripts that run on the node.
    script_watch: OnceLock<Arc<ScriptWatch>>,
    /// Entries that the operator has the replica go on without.
    skipped: OnceLock<Vec<u64>>,
}

impl ShardHandle {
    /// The handle of a shard whose tree has just been opened. `slots` are what it owns if the tree does not say so itself.
    pub fn open(
        id: ShardId,
        slots: impl Into<Slots>,
        engine: Arc<dyn Engine>,
        cache: Arc<RowCache>,
    ) -> storage::Result<Arc<Self>> {
        let slots = slots.into();
        let handle = Self {
            id,
            counters: Counters::new(&slots),
            slots: Ownership::of(slots),
            engine,
            cache,
            lease: LeaseCell::default(),
            freshness: FreshnessCell::default(),
            replayed_at: AtomicU64::new(0),
            writing: AtomicU64::new(0),
            next_expiry_ms: AtomicU64::new(0),
            clock: ShardClock::default(),
            expired: AtomicU64::new(0),
            expires_behind: AtomicBool::new(false),
            has_garbage: AtomicBool::new(true),
            slow_us: AtomicU64::new(0),
            followers_wanted: AtomicBool::new(false),
            replies_end: AtomicBool::new(false),
            followers: Followers::default(),
            status: Mutex::default(),
            group: Mutex::default(),
            broken: Mutex::default(),
            damage: Damage::default(),
            absent: Arc::default(),
            quiet: QuietChanges::default(),
            kept_stretch: KeptStretch::default(),
            awaited: Arc::default(),
            tracked: OnceLock::new(),
            config: OnceLock::new(),
            usage: OnceLock::new(),
            script_watch: OnceLock::new(),
            skipped: OnceLock::new(),
        };
        handle.load_facts(handle.engine.applied_index())?;
        Ok(Arc::new(handle))
    }

    /// Reads what the tree keeps beside its rows, which are as of that entry. Every release counts keys; of the other counts, those that a
    /// release did not know stayed as they came with a snapshot, and are made anew.
    fn load_facts(&self, index: u64) -> storage::Result<()> {
        if let Some(bytes) = self.engine.meta(keys::META_SLOTS)? {
            self.set_slots(Slots::decode(&bytes).map_err(|detail| self.corrupt(detail))?);
        }
        self.counters.restart(&self.slots.slots());
        if let Some(bytes) = self.engine.meta(keys::META_COUNTERS)? {
            self.counters.load_keys(&bytes).map_err(|detail| self.corrupt(detail))?;
        }
        let counted_at = self.engine.meta(keys::META_COUNTED_AT)?;
        let is_current = counted_at.is_none_or(|at| at[..] == index.to_le_bytes());
        let kept = |name: &[u8]| if is_current { self.engine.meta(name) } else { Ok(None) };
        let of_databases = kept(keys::META_OF_DATABASES)?;
        match of_databases.zip(kept(keys::META_EXPIRING_OF_DATABASES)?) {
            Some((keys, expiring)) => {
                let loaded = self.counters.load_of_databases(&keys);
                let loaded = loaded.and_then(|()| self.counters.load_expiring_of_databases(&expiring));
                loaded.map_err(|detail| self.corrupt(detail))?;
            }
            None => self.count_databases()?,
        }
        match kept(keys::META_OF_CLUSTER_DATABASES)? {
            Some(bytes) => {
                self.counters.load_of_cluster_databases(&bytes).map_err(|detail| self.corrupt(detail))?;
            }
            None => self.count_cluster_databases()?,
        }
        match kept(keys::META_EXPIRING)? {
            Some(bytes) => self.counters.load_expiring(&bytes).map_err(|detail| self.corrupt(detail)),
            None => self.count_expiries(),
        }
    }

    fn set_slots(&self, slots: Slots) {
        let slots = Arc::new(slots);
        if slots.is_partial() {
            self.engine.keep_only(slots.keep());
        }
        self.slots.set(slots);
    }

    /// What the tree is to keep beside its rows, as of the applied index: for the thread that owns the shard.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        facts_of(self.counters.encode(None), &self.slots.slots(), self.engine.applied_index())
    }

    /// What is kept beside the rows of a shard that gets `slots`, which are this one's now, and begins behind that entry.
    pub(crate) fn facts_of_child(&self, slots: &Slots, index: u64) -> Vec<Fact> {
        facts_of(self.counters.encode(Some(slots)), &slots.clone().of_forked(), index)
    }

    /// The facts that outlive a FLUSHALL.
    pub(crate) fn facts_when_cleared(&self) -> Vec<Fact> {
        vec![(Slice::from(keys::META_SLOTS), Slice::from(self.slots.slots().encode()))]
    }

    /// `slots` are another shard's from entry `index` on, which is being applied.
    pub(crate) fn give_away(&self, slots: &Slots) {
        self.set_slots(self.slots.slots().without(slots));
        self.counters.forget(slots);
        // Changes of keys that are watched or cached there cannot be seen any more: they count as changed.
        self.absent.made_all();
        self.lose_trackers();
        self.fence(None);
    }

    /// Rows of those slots are about to be written. A tree that has kept nothing yet has its slots of the map, which may
    /// know of a split that the entries, from the first on, have yet to come to: until then its rows must be told apart.
    pub(crate) fn expect_rows(&self, mut slots: impl Iterator<Item = Slot>) {
        if slots.all(|slot| self.slots.has(slot)) {
            return;
        }
        let owned = self.slots.slots();
        if !owned.is_partial() {
            self.slots.set(Arc::new(Slots::clone(&owned).of_forked()));
        }
    }

    /// The leader has proposed to give `slots` away: from now on nothing is read or written there. `None`: it has not.
    pub(crate) fn fence(&self, slots: Option<Slots>) {
        self.slots.fence(slots);
    }

    /// Whether the shard answers for `slot`. To be asked before a read is made and, before `readable`, after it.
    #[must_use]
    pub fn owns(&self, slot: Slot) -> bool {
        self.slots.owns(slot)
    }

    /// The same of all slots of a span.
    #[must_use]
    pub fn owns_all(&self, span: SlotSpan) -> bool {
        self.slots.owns_all(span)
    }

    /// Whether all slots of a span are the shard's as of the applied index.
    #[must_use]
    pub fn has_all(&self, span: SlotSpan) -> bool {
        self.slots.has_all(span)
    }

    /// Whether `slot` is the shard's as of the applied index, whatever its leader has proposed since.
    #[must_use]
    pub fn has_slot(&self, slot: Slot) -> bool {
        self.slots.has(slot)
    }

    /// The slots that it owns; none while it is not sure.
    #[must_use]
    pub fn owned(&self) -> Option<Arc<Slots>> {
        let slots = self.slots.slots();
        (!self.slots.is_fenced()).then_some(slots)
    }

    /// The slots that it owns as of the applied index.
    #[must_use]
    pub fn applied_slots(&self) -> Arc<Slots> {
        self.slots.slots()
    }

    /// The rows as of the applied index: those of its own slots.
    #[must_use]
    pub fn snapshot(&self) -> Box<dyn Snapshot> {
        let slots = self.slots.slots();
        let rows = self.engine.snapshot();
        // Asked again: the first row of another slot may have come in between.
        if slots.is_partial() || self.slots.slots().is_partial() { Box::new(OwnedRows::of(rows, slots)) } else { rows }
    }

    /// The shard begins as a part of `parent`: time does not go back.
    pub fn begin_after(&self, parent: &Self) {
        self.clock.reach(parent.clock.now_ms());
    }

    /// Replaces everything by the rows of a snapshot as of entry `index`. The rows' own facts are with them. It may be tried
    /// again for want of room, descriptors or memory: `rows` are there as long as they are not in place.
    pub(crate) fn install(&self, rows: &mut Option<Box<dyn storage::Ingested>>, index: u64) -> storage::Result<()> {
        self.begin_write(index);
        // The cache goes first, so that no one sees a row of it beside the new tree; what readers of the old tree bring
        // is older than `index`, and not taken.
        self.cache.clear_shard(self.id.0);
        self.absent.made_all();
        self.kept_stretch.forget();
        if let Some(whole) = rows.take() {
            self.engine.install(whole).map_err(|not| {
                *rows = not.rows;
                not.error
            })?;
        }
        self.lose_trackers();
        self.load_facts(index)?;
        self.garbage(true);
        self.next_expiry(0);
        Ok(())
    }

    /// How many keys have an expiry, of a tree that was last sealed before this was kept by slot, or never: before
    /// anything is applied.
    fn count_expiries(&self) -> storage::Result<()> {
        let (start, end) = keys::expiries();
        let snapshot = self.snapshot();
        let mut index = snapshot.cursor(Span { start, end }, false);
        while let Some(tree_key) = index.advance()? {
            if let Some((_, key)) = keys::parse_expiry(&tree_key) {
                self.counters.note_expiring(key);
            }
        }
        Ok(())
    }

    /// How many keys databases have, of a tree that was last sealed before this was kept, or never: before anything is
    /// applied. There are none, unless a node of an earlier release has followed.
    fn count_databases(&self) -> storage::Result<()> {
        self.each_key(database_keys(), |key, expires| self.counters.note_of_database(key, expires))
    }

    /// The same of cluster databases.
    fn count_cluster_databases(&self) -> storage::Result<()> {
        self.each_key(cluster_database_keys(), |key, expires| self.counters.note_of_cluster_database(key, expires))
    }

    /// Hands over each key of a range, and whether it has an expiry.
    fn each_key(&self, (first, behind): (&[u8], &[u8]), mut each: impl FnMut(&[u8], bool)) -> storage::Result<()> {
        let snapshot = self.snapshot();
        let mut records = snapshot.cursor(Span { start: keys::record(first), end: keys::record(behind) }, false);
        while let Some(tree_key) = records.advance()? {
            let Some(key) = keys::key_of_record(&tree_key) else { continue };
            let head = match Record::decode_head(records.value_head()?) {
                Ok(head) => head,
                Err(_) => Record::decode(records.value()?).map_err(|detail| self.corrupt(detail))?,
            };
            each(key, head.view().expire_at_ms.is_some());
        }
        Ok(())
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// First and last slot, both inclusive.
    #[must_use]
    pub fn slots(&self) -> (u16, u16) {
        self.slots.slots().span()
    }

    /// Its tree.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// How many keys it holds.
    #[must_use]
    pub fn key_count(&self) -> u64 {
        self.counters.total()
    }

    /// How many keys have an expiry (those whose time has come but are not yet collected included).
    #[must_use]
    pub fn expiring(&self) -> u64 {
        self.counters.expiring()
    }

    /// How many keys have been removed because their time had come, since the shard was opened.
    #[must_use]
    pub fn expired_ever(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    pub(crate) fn expired(&self, keys: u64) {
        self.expired.fetch_add(keys, Ordering::Relaxed);
    }

    /// How many of its keys are no database's: what clients of Redis Cluster see in database 0.
    #[must_use]
    pub fn cluster_key_count(&self) -> u64 {
        self.counters.total_of_cluster()
    }

    /// How many keys of one of its slots are no database's.
    #[must_use]
    pub fn cluster_keys_in_slot(&self, slot: Slot) -> u64 {
        self.counters.of_cluster_in_slot(slot)
    }

    /// How many keys a cluster database has in it.
    #[must_use]
    pub fn keys_of_cluster_database(&self, database: ClusterDatabase) -> u64 {
        self.counters.cluster_databases().of(database).keys
    }

    /// How many keys of one of its slots are those of a cluster database.
    #[must_use]
    pub fn cluster_database_keys_in_slot(&self, slot: Slot, database: ClusterDatabase) -> u64 {
        self.counters.cluster_databases().of_slot(slot, database).keys
    }

    /// The cluster databases that have keys in it.
    #[must_use]
    pub fn cluster_databases(&self) -> Vec<ClusterDatabaseKeys> {
        self.counters.each_cluster_database()
    }

    /// How many keys of one of its slots are those of the slot's database.
    #[must_use]
    pub fn database_keys_in_slot(&self, slot: Slot) -> u64 {
        self.counters.of_database_in_slot(slot)
    }

    /// The databases that have keys in it.
    #[must_use]
    pub fn databases(&self) -> Vec<DatabaseKeys> {
        self.counters.databases()
    }

    /// How many keys one of its slots holds.
    #[must_use]
    pub fn keys_in_slot(&self, slot: Slot) -> u64 {
        self.counters.in_slot(slot)
    }

    /// The first block that reading the record of a key would wait for, where that can be told. Does not wait.
    #[must_use]
    pub fn missing(&self, key: &[u8]) -> Option<BlockRead> {
        if self.is_cached(key) {
            return None;
        }
        match self.engine.look(&keys::record(key), &[]) {
            Look::Missing(block) => Some(block),
            Look::Found(_) | Look::Unknown => None,
        }
    }

    /// Has the disk begin to read the record of a key that is not in the row cache.
    pub fn prefetch(&self, key: &[u8]) {
        self.engine.prefetch(&keys::record(key));
    }

    /// Whether the row cache holds the record of `key`: then a command that needs it will not wait for the disk.
    #[must_use]
    pub fn is_cached(&self, key: &[u8]) -> bool {
        self.cache.get_with(self.id.0, key, |_| ()).is_ok()
    }

    /// How long the record of `key` is, in bytes, with the pieces of a string, if the row cache knows: 0 for a key that is known to be absent.
    #[must_use]
    pub fn cached_bytes(&self, key: &[u8]) -> Option<usize> {
        self.cache.get_with(self.id.0, key, Record::answer_bytes).ok()
    }

    /// How long the record of `key` is, in bytes, as far as the row cache knows; a hint.
    #[must_use]
    pub(crate) fn likely_bytes(&self, key: &[u8]) -> Option<usize> {
        self.cache.likely_bytes(self.id.0, key)
    }

    /// What the row cache holds of `key`: its kind, none if it is known to be absent. `None` if it does not hold it.
    pub(crate) fn cached_kind(&self, key: &[u8]) -> Option<Option<Kind>> {
        let kind = |row: &Slice| Record::decode(row.clone()).ok().map(|record| record.view().kind);
        self.cache.get(self.id.0, key).ok().map(|row| kind(&row))
    }

    /// Whether there is a collection of that type with more than so many elements at `key`, or there may be one: the row cache
    /// does not tell.
    #[must_use]
    pub fn may_hold_larger(&self, key: &[u8], ty: Type, elements: u64) -> bool {
        let is_larger = |row: Slice| {
            let record = Record::decode(row).ok();
            let rows = record.as_ref().and_then(|record| record.view().rows(key));
            let is_of_type = record.as_ref().is_some_and(|record| record.view().kind.ty == ty);
            is_of_type && rows.is_some_and(|rows| rows.count > elements)
        };
        self.cache.get(self.id.0, key).map_or(true, is_larger)
    }

    /// Whether background collection has something to do at `now_ms`.
    #[must_use]
    pub fn wants_housekeeping(&self, now_ms: u64) -> bool {
        self.next_expiry_ms.load(Ordering::Relaxed) <= now_ms
            || self.has_garbage.load(Ordering::Relaxed)
            || self.expires_behind.load(Ordering::Relaxed)
    }

    /// Whether the tree at index `applied` is all that there is: only then may a row read from it be cached.
    pub(crate) fn is_newest(&self, applied: u64) -> bool {
        self.writing.load(Ordering::SeqCst) <= applied
    }

    /// Members of a set that SPOP goes on with.
    pub(crate) fn kept_stretch(&self) -> &KeptStretch {
        &self.kept_stretch
    }

    pub(crate) fn begin_write(&self, index: u64) {
        self.writing.store(index, Ordering::SeqCst);
    }

    /// The replica is closed. Its tree stands still, and the shard's part of the row cache may soon be another replica's:
    /// what those read that still have this handle is not brought in.
    pub(crate) fn retire(&self) {
        self.begin_write(u64::MAX);
        self.lose_trackers();
    }

    /// Another replica of the shard is to take this closed one's place: long replies from it end.
    pub fn end_replies(&self) {
        self.replies_end.store(true, Ordering::Release);
    }

    /// Whether long replies from this replica are to end.
    pub(crate) fn replies_end(&self) -> bool {
        self.replies_end.load(Ordering::Acquire)
    }

    /// The evaluation of an entry has taken so many µs, which is long.
    pub fn note_slow_entry(&self, us: u64) {
        self.slow_us.fetch_add(us, Ordering::Relaxed);
    }

    /// How long such entries have taken together, in µs, since the replica was opened.
    #[must_use]
    pub fn slow_us(&self) -> u64 {
        self.slow_us.load(Ordering::Relaxed)
    }

    /// Whether a session asks what followers hold.
    pub fn watch_followers(&self, wanted: bool) {
        if self.followers_wanted() != wanted {
            self.followers_wanted.store(wanted, Ordering::Release);
        }
    }

    pub(crate) fn followers_wanted(&self) -> bool {
        self.followers_wanted.load(Ordering::Acquire)
    }

    /// What its followers hold, if it leads.
    #[must_use]
    pub fn followers(&self) -> &Followers {
        &self.followers
    }

    /// Where the replica stood when it last applied something.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        *self.status.lock()
    }

    pub(crate) fn set_status(&self, status: ReplicaStatus) {
        *self.status.lock() = status;
    }

    /// Tells it the node's settings.
    pub fn set_config(&self, config: Arc<Config>) {
        let skipped = config.text("skip-entry").map(|text| skipped::of_shard(&text, self.id)).unwrap_or_default();
        // A handle belongs to one node: a second call brings the same.
        let _ = self.skipped.set(skipped);
        let _ = self.config.set(config);
    }

    /// Tells it what the node knows of the use of keys.
    pub fn set_usage(&self, usage: Arc<KeyUsage>) {
        // A handle belongs to one node: a second call brings the same.
        let _ = self.usage.set(usage);
    }

    /// What the node knows of the use of keys.
    pub(crate) fn usage(&self) -> Option<&KeyUsage> {
        self.usage.get().map(|usage| &**usage)
    }

    /// Entries that the operator has the replica go on without.
    #[must_use]
    pub fn skipped(&self) -> &[u64] {
        self.skipped.get().map_or(&[], |skipped| skipped)
    }

    /// Whether the operator has the replica go on without entry `index`.
    pub(crate) fn skips(&self, index: u64) -> bool {
        self.skipped().contains(&index)
    }

    /// What OBJECT ENCODING calls small.
    pub(crate) fn small_collections(&self) -> SmallCollections {
        self.config.get().map_or_else(SmallCollections::default, |config| SmallCollections::of_settings(config))
    }

    /// Tells it where others see the scripts that run on the node.
    pub fn set_script_watch(&self, watch: Arc<ScriptWatch>) {
        // A handle belongs to one node: a second call brings the same.
        let _ = self.script_watch.set(watch);
    }

    /// Where others see the scripts that run on the node.
    pub(crate) fn script_watch(&self) -> Option<&Arc<ScriptWatch>> {
        self.script_watch.get()
    }

    /// Tells it what the node remembers of what its clients have cached.
    pub fn set_tracking(&self, tracking: Arc<Tracking>) {
        // A handle belongs to one node: a second call brings the same.
        let _ = self.tracked.set(TrackedKeys::of(tracking));
    }

    /// The keys that clients of this node may have cached, where that is remembered.
    #[must_use]
    pub fn tracked(&self) -> Option<&TrackedKeys> {
        self.tracked.get()
    }

    /// Whether a client is to be told of changes.
    pub(crate) fn has_trackers(&self) -> bool {
        self.tracked.get().is_some_and(TrackedKeys::any)
    }

    /// The keys that an entry has changed, whose clients are to be told; `client` finds the client of an item. Where they are not
    /// known, all clients are to forget all.
    pub(crate) fn changed_keys(
        &self,
        changes: Changes,
        client: impl Fn(usize) -> Option<Subscriber>,
    ) -> Option<ChangedKeys> {
        if let Some(flush) = changes.flush()
            && let Some(tracked) = self.tracked.get()
        {
            // Who has asked for prefixes of a database is told by leaders alone, as of single keys.
            tracked.lose_databases(flush.has_changed && self.leading());
        }
        let changed = changes.by_client(client);
        if changed.is_none() {
            self.lose_trackers();
        }
        changed
    }

    /// Registers the clients of an entry for the keys that its items have read; `tracker` finds the client of an item.
    pub(crate) fn register_reads(&self, changes: &mut Changes, tracker: impl Fn(usize) -> Option<Tracker>) {
        if let Some(tracked) = self.tracked.get() {
            changes.register(tracker, |key, tracker| tracked.add_if_new(key, tracker));
        }
    }

    /// What an entry has read for these clients is not known, or the shard's changes are not seen in time any more: they are to
    /// forget all.
    pub(crate) fn lose_readers(&self, trackers: impl Iterator<Item = Tracker>) {
        if let Some(tracked) = self.tracked.get() {
            tracked.lose_clients(trackers.map(|tracker| tracker.client));
        }
    }

    /// Changes may have been missed, or may be from here on: those who may have cached keys are to forget all.
    pub fn lose_trackers(&self) {
        if let Some(tracked) = self.tracked.get() {
            tracked.lose();
        }
    }

    /// Which keyspace events are told, by this node's settings.
    pub(crate) fn event_classes(&self) -> EventClasses {
        self.config.get().map_or(EventClasses::NONE, |config| config.event_classes().told())
    }

    /// How values are kept, by this node's settings.
    pub(crate) fn packing(&self) -> Packing {
        self.config.get().map_or_else(Packing::default, |config| config.packing())
    }

    /// Begins to watch a key that may be absent: to be called before it is looked at, and kept if it is.
    #[must_use]
    pub fn watch_absent(&self, key: &[u8]) -> AbsentWatch {
        self.absent.watch(key)
    }

    /// The keys for which clients wait: those that wait keep it.
    #[must_use]
    pub fn awaited(&self) -> &Arc<AwaitedKeys> {
        &self.awaited
    }

    pub(crate) fn quiet(&self) -> &QuietChanges {
        &self.quiet
    }

    /// Watched keys with the versions that EXEC is to compare: changes that WATCH does not see are none.
    #[must_use]
    pub fn watches_now(&self, watches: &[(Vec<u8>, u64)]) -> Vec<(Vec<u8>, u64)> {
        let mut watches = watches.to_vec();
        self.quiet.follow(&mut watches);
        watches
    }

    pub(crate) fn absent(&self) -> &AbsentKeys {
        &self.absent
    }

    pub(crate) fn set_group(&self, group: Option<LeaderReport>) {
        *self.group.lock() = group;
    }

    /// Whether it leads, and until when its reads count.
    #[must_use]
    pub fn lease(&self) -> &LeaseCell {
        &self.lease
    }

    /// Whether this replica leads, and a majority has confirmed it.
    #[must_use]
    pub fn serving(&self) -> bool {
        self.lease.serving()
    }

    /// Whether this replica leads its group, as far as it knows.
    #[must_use]
    pub fn leading(&self) -> bool {
        self.lease.leading()
    }

    /// How old its rows may be.
    #[must_use]
    pub fn freshness(&self) -> &FreshnessCell {
        &self.freshness
    }

    /// Whether the replica has taken part in its group: before, it holds nothing that could be read.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.engine.applied_index() > 0
    }

    /// The replica has been started, and knew before that entries up to `committed` were.
    pub(crate) fn set_replayed_at(&self, committed: u64) {
        self.replayed_at.store(committed, Ordering::Release);
    }

    /// Whether the replica, which was started again, has yet to apply some of what it knew then to be committed. No read
    /// is answered before, however old its answer may be: a replica does not go back to what it was long ago.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        self.engine.applied_index() < self.replayed_at.load(Ordering::Acquire)
    }

    /// The snapshot that the tree was filled from, if it was.
    pub fn snapshot_point(&self) -> storage::Result<Option<SnapshotPoint>> {
        let Some(bytes) = self.engine.meta(keys::META_SNAPSHOT)? else { return Ok(None) };
        snapshot_point::decode(&bytes).map(Some).ok_or_else(|| self.corrupt("the mark of its snapshot is wrong"))
    }

    /// So many operations were asked of a slot: counted, or guessed from a part of them.
    pub fn note_operations(&self, slot: Slot, count: u64) {
        self.counters.note_operations(slot, count);
    }

    /// Of a leader: where the shard would be divided. To be asked in about equal intervals: what was asked long ago fades.
    #[must_use]
    pub fn division(&self) -> Option<DivisionReport> {
        if self.id == ShardId::META || !self.leading() {
            return None;
        }
        let slots = self.slots.slots();
        Some(DivisionReport {
            operations: self.counters.operations(),
            by_keys: self.counters.halves_by_keys(&slots).map(|(slot, _)| slot),
            by_load: self.counters.halves_by_load(&slots),
        })
    }

    /// Damage that was found on its disk.
    #[must_use]
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    pub(crate) fn set_broken(&self, why: &str) {
        *self.broken.lock() = Some(why.to_owned());
    }

    /// Why the replica serves nothing any more, if so.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        self.broken.lock().clone()
    }

    /// What the director is told of this replica, of that id.
    #[must_use]
    pub fn report(&self, replica: ReplicaId) -> ReplicaReport {
        let status = self.status();
        let stats = self.engine.stats();
        let leads = self.group.lock().clone().filter(|_| self.leading());
        let is_member = leads.as_ref().is_some_and(|group| group.members.iter().any(|member| member.id == replica));
        ReplicaReport {
            shard: self.id,
            replica,
            bytes: stats.wanted_bytes() + stats.memtable_bytes,
            is_halved: stats.is_halved && is_member,
            keys: self.key_count(),
            applied: self.engine.applied_index(),
            last: status.last,
            last_term: status.last_term,
            term: status.term,
            leads,
            division: self.division(),
            broken: self.broken().or_else(|| self.damage.detail().map(str::to_owned)),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn cache(&self) -> &RowCache {
        &self.cache
    }

    pub(crate) fn expires_at(&self, at_ms: u64) {
        self.next_expiry_ms.fetch_min(at_ms, Ordering::Relaxed);
    }

    pub(crate) fn next_expiry(&self, at_ms: u64) {
        self.next_expiry_ms.store(at_ms, Ordering::Relaxed);
    }

    /// Collection is to begin again.
    pub(crate) fn expires_behind(&self) {
        self.expires_behind.store(true, Ordering::Relaxed);
    }

    /// Whether it is; asked once.
    pub(crate) fn take_expires_behind(&self) -> bool {
        self.expires_behind.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn garbage(&self, has: bool) {
        self.has_garbage.store(has, Ordering::Relaxed);
    }

    /// The shard's time.
    pub(crate) fn clock(&self) -> &ShardClock {
        &self.clock
    }

    /// A record that a reader found, unless its time has come.
    pub(crate) fn live(&self, record: Option<Record>, now_ms: u64) -> Option<Record> {
        record.filter(|record| record.view().gone_at_ms().is_none_or(|at_ms| !self.clock.is_past(at_ms, now_ms)))
    }

    /// The time by which a read goes that looks at the same rows more than once.
    #[must_use]
    pub fn read_time(&self, now_ms: Millis) -> Millis {
        entry_time(now_ms, self.clock.now_ms())
    }

    /// A reader that goes by `now_ms` has found a row expired: it stays so for all.
    pub(crate) fn found_expired(&self, now_ms: Millis) {
        self.clock.reach(now_ms);
    }

    pub(crate) fn decode(&self, bytes: Slice) -> Result<Record, Fault> {
        Record::decode(bytes).map_err(|detail| Fault::Storage(self.corrupt(detail)))
    }

    pub(crate) fn corrupt(&self, detail: &str) -> storage::Error {
        storage::Error::Corrupt { path: format!("shard {}", self.id).into(), detail: detail.to_owned() }
    }
}

fn facts_of(counters: Stored, slots: &Slots, index: u64) -> Vec<Fact> {
    let fact = |name: &[u8], bytes: Vec<u8>| (Slice::from(name), Slice::from(bytes));
    vec![
        fact(keys::META_COUNTERS, counters.keys),
        fact(keys::META_EXPIRING, counters.expiring),
        fact(keys::META_OF_DATABASES, counters.of_databases),
        fact(keys::META_EXPIRING_OF_DATABASES, counters.expiring_of_databases),
        fact(keys::META_OF_CLUSTER_DATABASES, counters.of_cluster_databases),
        fact(keys::META_COUNTED_AT, index.to_le_bytes().to_vec()),
        fact(keys::META_SLOTS, slots.encode()),
    ]
}

/// A record that is there and whose time has not come.
pub(crate) fn live(record: Option<Record>, now_ms: u64) -> Option<Record> {
    record.filter(|record| record.view().gone_at_ms().is_none_or(|at| at > now_ms))
}
