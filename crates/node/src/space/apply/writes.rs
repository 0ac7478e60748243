//! The writes of one entry, above the tree that does not have them yet: one for each tree key, a later write in place of
//! an earlier one.

use super::bounded_keys::BoundedKeys;
use super::overlay::{Edits, KeysOnce, NearRows, Overlay, UndoneRows};
use super::work::Place;
use crate::counters::Counted;
use crate::format::key_bound::KeyBound;
use crate::format::keys;
use crate::keyspace_events::{EntryEvents, Event, EventClasses, KeyspaceEvent};
use crate::monitored_calls::{CallsLen, MonitoredCalls};
use crate::quiet_changes::QuietKeys;
use crate::request::key_hash;
use crate::script_message::ScriptMessage;
use crate::shard_handle::{ShardHandle, live};
use crate::space::Patch;
use crate::tracking::{Changes, ChangesLen};
use crate::{Evaluation, Fault, Record, Rows, Type};
use storage::{PutMode, Short, Slice, Span, WriteBatch};
use vocab::Database;
use vocab::limits::{APPLY_INLINE_BYTES_MAX, EDIT_IN_PLACE_BYTES_MIN, SCAN_INLINE_REMOVALS_MAX};

/// The writes of one entry, with what they change of the shard's counters.
pub(super) struct EntryWrites<'a> {
    handle: &'a ShardHandle,
    /// Where the entry is evaluated.
    place: Place,
    /// The event loop may scan: there is little to put in order first, in the tree that this entry has not changed yet.
    may_scan: bool,
    /// The time of the entry.
    now_ms: u64,
    evaluation: Evaluation,
    overlay: Overlay,
    /// Strings that are changed in place, and written last.
    edits: Edits,
    /// The key whose record was read or written last, if it is known, and that record.
    recent: Recent,
    near: NearRows,
    /// Bytes of values that it holds in the overlay, and to take writes back.
    bytes: usize,
    /// Prefixes of the rows of collections that are gone.
    drops: Vec<Slice>,
    /// Keys that came and went, each with 1 or -1.
    counts: Vec<(Counted, i64)>,
    /// The databases that may have so many, where the entry says so.
    bounded: Option<Box<BoundedKeys>>,
    /// Keys that got an expiry or lost it, each with 1 or -1.
    expiring: Vec<(Counted, i64)>,
    /// Keys that went, or were replaced, after their time had come.
    expired: u64,
    /// Keys that were not there when they were written.
    made: KeysOnce,
    /// Keys that were changed in ways alone that WATCH does not see.
    quiet: QuietKeys,
    /// Keys that were written and for which clients wait, in the order of the first writes.
    awaited: KeysOnce,
    /// Keys that were written or removed, where clients are told of it.
    changes: Changes,
    /// The item of the entry that is evaluated; `None`: it is no client's.
    item: Option<usize>,
    /// Its client is to be told of changes of what it reads.
    notes_reads: bool,
    /// What has happened to keys, where it is to be told.
    events: EntryEvents,
    /// What scripts have published.
    messages: Vec<ScriptMessage>,
    /// What monitors are to see of the commands of scripts.
    calls: MonitoredCalls,
    tree_key: Vec<u8>,
    /// What takes back the writes since `begin_attempt`.
    undo: Option<Undo>,
}

/// A record, so that a command that reads and writes one looks it up once.
#[derive(Default)]
struct Recent {
    key: Vec<u8>,
    /// None: the key has no record.
    record: Option<Record>,
    is_known: bool,
}

impl Recent {
    fn is_of(&self, key: &[u8]) -> bool {
        self.is_known && self.key == key
    }

    fn know(&mut self, key: &[u8], record: Option<Record>) {
        self.key.clear();
        self.key.extend_from_slice(key);
        (self.record, self.is_known) = (record, true);
    }
}

/// What takes back what has been written since an attempt began. Of what is only added to, how many there were.
#[derive(Default)]
struct Undo {
    /// Tree keys, and what the entry had written there before, oldest first.
    rows: UndoneRows,
    /// What `EntryWrites::bytes` was.
    bytes: usize,
    counts: usize,
    expiring: usize,
    expired: u64,
    made: usize,
    drops: usize,
    events: usize,
    changes: ChangesLen,
    messages: usize,
    calls: CallsLen,
}

impl<'a> EntryWrites<'a> {
    /// An entry that has written nothing.
    pub(super) fn new(place: Place, handle: &'a ShardHandle, now_ms: u64, evaluation: Evaluation) -> Self {
        Self {
            handle,
            place,
            may_scan: false,
            now_ms,
            evaluation,
            overlay: Overlay::default(),
            edits: Edits::default(),
            recent: Recent::default(),
            near: NearRows::default(),
            bytes: 0,
            drops: Vec::new(),
            counts: Vec::new(),
            bounded: None,
            expiring: Vec::new(),
            expired: 0,
            made: KeysOnce::default(),
            quiet: QuietKeys::default(),
            awaited: KeysOnce::default(),
            changes: Changes::Unknown,
            item: None,
            notes_reads: false,
            events: EntryEvents::default(),
            messages: Vec::new(),
            calls: MonitoredCalls::default(),
            tree_key: Vec::new(),
            undo: None,
        }
    }

    /// How many prefixes are dropped so far.
    #[cfg(test)]
    pub(super) fn dropped(&self) -> usize {
        self.drops.len()
    }

    /// Changes are noted.
    pub(super) fn note_changes(&mut self) {
        self.changes = Changes::noted();
    }

    /// All keys of a database are about to be removed.
    pub(super) fn note_emptied(&mut self) {
        self.changes.note_emptied();
    }

    /// All keys of the shard are about to be removed: all clients are to forget all.
    pub(super) fn note_cleared(&mut self) {
        self.changes = Changes::Unknown;
    }

    /// What is written from here on is of an item of the entry; `None`: of no client.
    pub(super) fn of_item(&mut self, item: Option<usize>) {
        (self.item, self.notes_reads) = (item, false);
        self.calls.of_item(item);
    }

    /// Whether the keys that the item reads are noted.
    pub(super) fn notes_reads(&self) -> bool {
        self.notes_reads
    }

    /// Notes the keys that the item reads from here on.
    pub(super) fn note_reads(&mut self) {
        self.notes_reads = true;
    }

    /// The item is about to read a key.
    pub(super) fn note_read(&mut self, key: &[u8]) {
        if let Some(item) = self.item {
            self.changes.note_read(key, item);
        }
    }

    /// The changes so far, which are taken out.
    pub(super) fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Events of these classes are collected.
    pub(super) fn tell(&mut self, classes: EventClasses) {
        self.events = EntryEvents::of(classes);
    }

    /// Whether events of that kind are told.
    pub(super) fn tells(&self, event: Event) -> bool {
        self.events.tells(event)
    }

    /// Something has happened to a key.
    #[inline]
    pub(super) fn notify(&mut self, event: Event, key: &[u8]) {
        if self.events.is_off() {
            return;
        }
        // What is told is not stored: it may go by what this node alone knows.
        let is_evicted = event == Event::DEL && self.handle.usage().is_some_and(|usage| usage.is_going(key_hash(key)));
        self.events.push(if is_evicted { Event::EVICTED } else { event }, key);
    }

    /// What monitors are to see of the commands of scripts.
    pub(super) fn calls(&mut self) -> &mut MonitoredCalls {
        &mut self.calls
    }

    /// A script publishes a message.
    pub(super) fn publish(&mut self, message: ScriptMessage) {
        self.messages.push(message);
    }

    /// The messages so far, which are taken out.
    pub(super) fn take_messages(&mut self) -> Vec<ScriptMessage> {
        std::mem::take(&mut self.messages)
    }

    /// The events so far, which are taken out.
    pub(super) fn take_events(&mut self) -> Vec<KeyspaceEvent> {
        self.events.take()
    }

    /// The shard.
    pub(super) fn handle(&self) -> &'a ShardHandle {
        self.handle
    }

    /// The time of the entry, in ms since the epoch.
    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// By which rules the entry is evaluated.
    pub(super) fn evaluation(&self) -> Evaluation {
        self.evaluation
    }

    /// What is written from here on can be taken back. Attempts do not nest.
    pub(super) fn begin_attempt(&mut self) {
        assert!(self.undo.is_none(), "one item is evaluated at a time");
        self.end_edits();
        self.undo = Some(Undo {
            bytes: self.bytes,
            expired: self.expired,
            made: self.made.len(),
            drops: self.drops.len(),
            counts: self.counts.len(),
            expiring: self.expiring.len(),
            events: self.events.len(),
            changes: self.changes.len(),
            messages: self.messages.len(),
            calls: self.calls.len(),
            ..Undo::default()
        });
    }

    /// Keeps what was written since `begin_attempt`, or takes it back.
    pub(super) fn end_attempt(&mut self, keep: bool) {
        let undo = self.undo.take().expect("an attempt was begun");
        if keep {
            self.bytes -= undo.rows.bytes_before();
            return;
        }
        self.edits.forget();
        self.recent.is_known = false;
        self.bytes = undo.bytes;
        for (tree_key, before) in undo.rows.newest_first() {
            match before {
                Some(value) => _ = self.overlay.put(&tree_key, value),
                None => self.overlay.take_back(&tree_key),
            }
        }
        self.counts.truncate(undo.counts);
        self.expiring.truncate(undo.expiring);
        self.expired = undo.expired;
        self.made.truncate(undo.made);
        self.drops.truncate(undo.drops);
        self.events.truncate(undo.events);
        self.changes.truncate(undo.changes);
        self.messages.truncate(undo.messages);
        self.calls.truncate(undo.calls);
    }

    /// What the entry wrote so far.
    #[cfg(test)]
    pub(super) fn rows(&self) -> std::collections::BTreeMap<Slice, Option<Slice>> {
        self.overlay.rows().iter().cloned().collect()
    }

    /// The keys that were written and for which clients wait, in the order of the writes, with their records.
    pub(super) fn awaited_keys(&self) -> impl Iterator<Item = (&[u8], Option<Record>)> {
        self.awaited.iter().filter_map(|key| {
            let row = self.overlay.get(&keys::record(key))?;
            Some((key, row.clone().and_then(|row| Record::decode(row).ok())))
        })
    }

    /// All keys that were written, with their records.
    pub(super) fn written_keys(&self) -> impl Iterator<Item = (&[u8], Option<Record>)> {
        self.overlay.rows().iter().filter_map(|(tree_key, row)| {
            let key = keys::key_of_record(tree_key)?;
            Some((key, row.clone().and_then(|row| Record::decode(row).ok())))
        })
    }

    /// Notes a key that is written, if clients wait for it, or are told of it.
    fn note_written(&mut self, key: &[u8]) {
        self.changes.note(key, self.item);
        self.quiet.changed(key);
        let awaited = self.handle.awaited();
        if awaited.any() && awaited.has(key_hash(key)) {
            self.awaited.push(key);
        }
    }

    /// The version that a key had before the entry, if the entry has changed it quietly alone so far. It counts as changed from
    /// here on.
    pub(super) fn quiet_since(&mut self, key: &[u8]) -> Option<u64> {
        self.quiet.changed(key)
    }

    /// The entry has changed a key quietly alone, which had that version before.
    pub(super) fn changed_quietly(&mut self, key: &[u8], before: u64) {
        self.quiet.push(key, before);
    }

    /// Writes all to the row cache and the tree as entry `index`, and makes it visible.
    ///
    /// The cache goes first: a reader whose index is older takes no row that is newer and reads the tree instead, so
    /// all readers see the entry from one moment on, that at which the tree shows it.
    pub(super) fn commit(mut self, index: u64) {
        self.end_edits();
        let shard = self.handle.id().0;
        self.handle.begin_write(index);
        self.handle.expect_rows(self.counts.iter().map(|(counted, _)| counted.slot));
        if self.handle.absent().any() {
            self.made.iter().for_each(|key| self.handle.absent().made(key));
        }
        self.handle.quiet().note(self.quiet, index);
        for (tree_key, value) in self.overlay.rows() {
            if let Some(key) = keys::key_of_record(tree_key) {
                self.handle.cache().put(shard, key, value.as_ref(), PutMode::Allocate);
            }
        }
        let writes = self.overlay.into_rows();
        self.handle.engine().apply(index, WriteBatch { writes, drops: self.drops });
        for (counted, by) in self.counts {
            self.handle.counters().change(counted, by);
        }
        for (counted, by) in self.expiring {
            self.handle.counters().change_expiring(counted, by);
        }
        self.handle.expired(self.expired);
        self.handle.clock().reach(self.now_ms);
    }

    /// The record of `key`, whether or not its time has come.
    pub(super) fn record(&mut self, key: &[u8]) -> Result<Option<Record>, Fault> {
        if let Some(edited) = self.edits.end(key) {
            self.end_edit(key, edited);
        }
        if self.recent.is_of(key) {
            return Ok(self.recent.record.clone());
        }
        keys::record_into(&mut self.tree_key, key);
        let found = match self.overlay.get(&self.tree_key) {
            Some(written) => written.clone(),
            None => {
                let shard = self.handle.id().0;
                match self.handle.cache().get(shard, key) {
                    // As of one that is not there: an event loop leaves it to a thread.
                    Ok(row) if self.place.is_event_loop() && row.len() > APPLY_INLINE_BYTES_MAX => {
                        return Err(Fault::WouldBlock);
                    }
                    Ok(row) => (!row.is_empty()).then_some(row),
                    Err(_) => self.stored(&self.tree_key)?,
                }
            }
        };
        let found = found.map(|bytes| self.handle.decode(bytes)).transpose()?;
        self.recent.know(key, found.clone());
        Ok(found)
    }

    /// The record of `key` if it is a long one, was read last and has not been written since.
    pub(super) fn recent(&self, key: &[u8]) -> Option<Record> {
        let is_long = |record: &Record| record.bytes().len() >= EDIT_IN_PLACE_BYTES_MIN;
        self.recent.record.as_ref().filter(|record| self.recent.is_of(key) && is_long(record)).cloned()
    }

    /// A row that is no record.
    pub(super) fn row(&self, tree_key: &[u8]) -> Result<Option<Slice>, Fault> {
        match self.overlay.get(tree_key) {
            Some(written) => Ok(written.clone()),
            None => self.stored(tree_key),
        }
    }

    /// What the tree has. An event loop does not read a long value: `Fault::WouldBlock`.
    fn stored(&self, tree_key: &[u8]) -> Result<Option<Slice>, Fault> {
        if !self.place.is_event_loop() {
            return Ok(self.handle.engine().get(tree_key)?);
        }
        match self.handle.engine().get_short(tree_key, APPLY_INLINE_BYTES_MAX)? {
            Short::Found(found) => Ok(found),
            Short::Long => Err(Fault::WouldBlock),
        }
    }

    /// Refuses a scan to an event loop where many rows in memory are not in order yet: the first scan would sort them.
    pub(super) fn prepare_scan(&mut self) -> Result<(), Fault> {
        if !self.may_scan && self.place.is_event_loop() {
            self.may_scan = self.handle.engine().scans_at_once();
            if !self.may_scan {
                return Err(Fault::WouldBlock);
            }
        }
        Ok(())
    }

    /// How many removals a scan may pass over.
    fn removals_max(&self) -> u64 {
        if self.place.is_event_loop() { SCAN_INLINE_REMOVALS_MAX } else { u64::MAX }
    }

    /// A row of a collection.
    pub(super) fn element(&mut self, prefix: &[u8], element: &[u8]) -> Result<Option<Slice>, Fault> {
        keys::element_into(&mut self.tree_key, prefix, element);
        if let Some(written) = self.overlay.get(&self.tree_key) {
            return Ok(written.clone());
        }
        if !self.near.keeps(&self.tree_key) {
            return self.stored(&self.tree_key);
        }
        if let Some(found) = self.near.get(&self.tree_key) {
            return Ok(found);
        }
        let found = self.stored(&self.tree_key)?;
        self.near.keep(&self.tree_key, found.clone());
        Ok(found)
    }

    /// Whether the entry has written, or removed, that row of a collection.
    pub(super) fn has_written_element(&mut self, prefix: &[u8], element: &[u8]) -> bool {
        keys::element_into(&mut self.tree_key, prefix, element);
        self.overlay.get(&self.tree_key).is_some()
    }

    /// The next item of the entry begins.
    pub(super) fn begin_item(&mut self) {
        self.near.begin_item();
        if let Some(bounded) = &mut self.bounded {
            bounded.begin_item(&self.counts);
        }
    }

    /// From here on these databases may have so many keys.
    pub(super) fn bound_keys(&mut self, bounds: &[KeyBound]) {
        self.bounded = Some(Box::new(BoundedKeys::of(bounds, self.handle)));
    }

    /// Whether the item under way has left a database with more keys than it may have.
    pub(super) fn has_too_many_keys(&self) -> bool {
        self.bounded.as_ref().is_some_and(|bounded| bounded.are_passed(&self.counts))
    }

    /// Writes a row of a collection, or removes it.
    pub(super) fn write_element(&mut self, prefix: &[u8], element: &[u8], value: Option<Slice>) {
        let mut tree_key = std::mem::take(&mut self.tree_key);
        keys::element_into(&mut tree_key, prefix, element);
        self.write(&tree_key, value);
        self.tree_key = tree_key;
    }

    /// Writes a row, or removes it.
    pub(super) fn write(&mut self, tree_key: &[u8], value: Option<Slice>) {
        if keys::key_of_record(tree_key).is_some_and(|key| self.recent.is_of(key)) {
            self.recent.is_known = false;
        }
        self.bytes += value.as_ref().map_or(0, |value| value.len());
        let before = self.overlay.put(tree_key, value);
        match &mut self.undo {
            Some(undo) => undo.rows.push(tree_key, before),
            None => self.bytes -= before.flatten().map_or(0, |before| before.len()),
        }
    }

    /// Bytes of values that are in memory for this entry.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.edits.bytes()
    }

    /// The string at `key` and its expiry, if it is changed in place.
    pub(super) fn edited(&self, key: &[u8]) -> Option<(&[u8], Option<u64>)> {
        self.edits.string(key)
    }

    /// Puts a string's record that is changed in place from here on.
    pub(super) fn begin_edit(&mut self, key: &[u8], record: &Record) -> Result<(), Fault> {
        self.put(key, record)?;
        self.edits.begin(key, record);
        // The record itself comes when the edit ends.
        self.overlay.put(&keys::record(key), Some(Slice::empty()));
        self.bytes -= record.bytes().len();
        Ok(())
    }

    /// Changes the string at `key`, which is changed in place.
    pub(super) fn patch(&mut self, key: &[u8], patch: &Patch) {
        self.changes.note(key, self.item);
        self.edits.patch(key, patch);
    }

    fn end_edit(&mut self, key: &[u8], edited: Slice) {
        self.write(&keys::record(key), Some(edited));
    }

    fn end_edits(&mut self) {
        for (key, edited) in self.edits.end_all() {
            self.end_edit(&key, edited);
        }
    }

    /// Drops all rows whose keys begin so.
    pub(super) fn drop_rows(&mut self, prefix: &[u8]) {
        self.drops.push(Slice::from(prefix));
    }

    /// Writes a record: keeps the key count, the expiry index and the elements of what it replaces in order.
    pub(super) fn put(&mut self, key: &[u8], record: &Record) -> Result<(), Fault> {
        let old = self.record(key)?;
        let (old_expiry, old_due, old_rows) = old.as_ref().map_or((None, None, None), |old| {
            let view = old.view();
            (view.expire_at_ms, view.fields_due_ms(), view.rows(key))
        });
        let (expiry, due) = (record.view().expire_at_ms, record.view().fields_due_ms());
        let there = old.as_ref().is_some_and(|old| old.view().gone_at_ms().is_none_or(|at_ms| at_ms > self.now_ms));
        if !there && self.handle.absent().any() {
            self.made.push(key);
        }
        self.note_written(key);
        if old.is_none() {
            self.count(key, 1);
        }
        if old_expiry != expiry {
            if let Some(at_ms) = old_expiry {
                self.unschedule(at_ms, key);
            }
            if let Some(at_ms) = expiry {
                self.count_expiring(key, 1);
                self.write(&keys::expiry(at_ms, key), Some(Slice::from(&[][..])));
                self.handle.expires_at(at_ms);
                if at_ms <= self.now_ms {
                    // A large collection was copied while its time came.
                    self.handle.expires_behind();
                }
            }
        }
        if old_due != due {
            if let Some(at_ms) = old_due {
                self.write(&keys::fields_due(at_ms, key), None);
                let is_emptied = !there && old_expiry.is_none_or(|at_ms| at_ms > self.now_ms);
                // A hash is written without the fields that have expired.
                if at_ms <= self.now_ms && (is_emptied || record.view().kind.ty == Type::Hash) {
                    self.events.push(Event::HEXPIRED, key);
                }
                if is_emptied {
                    self.events.push(Event::DEL, key);
                }
            }
            if let Some(at_ms) = due {
                self.write(&keys::fields_due(at_ms, key), Some(Slice::from(&[][..])));
                self.handle.expires_at(at_ms);
                if !there && at_ms <= self.now_ms {
                    self.handle.expires_behind();
                }
            }
        }
        if let Some(old_rows) = old_rows
            && record.view().rows(key).is_none_or(|rows| rows.prefix != old_rows.prefix)
        {
            self.discard_elements(old_rows);
        }
        if !there {
            self.events.push(Event::NEW, key);
        }
        self.write_record(key, Some(record.bytes().clone()));
        self.recent.know(key, Some(record.clone()));
        Ok(())
    }

    /// Removes the record of `key` and its elements; true if it was live.
    pub(super) fn delete(&mut self, key: &[u8]) -> Result<bool, Fault> {
        let Some(record) = self.record(key)? else { return Ok(false) };
        self.remove(key, &record);
        Ok(live(Some(record), self.now_ms).is_some())
    }

    /// Removes a record that is there: its count, its place in the expiry index, and its elements in the background.
    pub(super) fn remove(&mut self, key: &[u8], record: &Record) {
        if let Some(rows) = record.view().rows(key) {
            self.discard_elements(rows);
        }
        self.remove_record(key, record);
    }

    /// The same, and leaves its elements.
    pub(super) fn remove_record(&mut self, key: &[u8], record: &Record) {
        self.note_written(key);
        self.count(key, -1);
        if let Some(at_ms) = record.view().expire_at_ms {
            self.unschedule(at_ms, key);
        }
        if let Some(at_ms) = record.view().fields_due_ms() {
            self.write(&keys::fields_due(at_ms, key), None);
        }
        self.write_record(key, None);
    }

    fn write_record(&mut self, key: &[u8], record: Option<Slice>) {
        let mut tree_key = std::mem::take(&mut self.tree_key);
        keys::record_into(&mut tree_key, key);
        self.write(&tree_key, record);
        self.tree_key = tree_key;
    }

    /// How many keys a database has by now, and how many bytes were looked at to find out.
    pub(super) fn database_size(&self, database: Database) -> (u64, usize) {
        let of_database = |counted: &Counted| counted.slot == database.slot() && counted.is_of_database();
        let by: i64 = self.counts.iter().filter(|(counted, _)| of_database(counted)).map(|(_, by)| by).sum();
        let size = self.handle.database_keys_in_slot(database.slot()).saturating_add_signed(by);
        (size, size_of_val(&self.counts[..]))
    }

    /// A key came, or went.
    fn count(&mut self, key: &[u8], by: i64) {
        self.counts.push((Counted::of(key), by));
    }

    /// A key got an expiry, or lost it.
    fn count_expiring(&mut self, key: &[u8], by: i64) {
        self.expiring.push((Counted::of(key), by));
    }

    /// Takes a key that was to expire at `at_ms` out of the expiry index.
    fn unschedule(&mut self, at_ms: u64, key: &[u8]) {
        self.count_expiring(key, -1);
        if at_ms <= self.now_ms {
            self.expired += 1;
            self.events.push(Event::EXPIRED, key);
        }
        self.write(&keys::expiry(at_ms, key), None);
    }

    fn discard_elements(&mut self, rows: Rows) {
        // An id is used once, so the rows below it can go at once.
        if self.evaluation == Evaluation::Second || keys::has_id(&rows.prefix) {
            self.drops.push(Slice::from(rows.prefix));
        } else {
            self.write(&keys::garbage(&rows.prefix), Some(Slice::from(&[][..])));
            self.handle.garbage(true);
        }
    }

    /// Up to `limit` rows of `span`: the tree's with the entry's own writes above them.
    pub(super) fn merged(&mut self, span: &Span, limit: usize) -> Result<Vec<(Slice, Slice)>, Fault> {
        if !span.end.is_empty() && span.start >= span.end {
            return Ok(Vec::new());
        }
        let snapshot = self.handle.snapshot();
        let mut tree = snapshot.iter_passing(self.removals_max(), span.clone(), false);
        let mut written = self.overlay.within(span).peekable();
        let mut found = Vec::new();
        let mut at = tree.next().transpose()?;
        while found.len() < limit {
            let written = match &at {
                None => written.next(),
                Some((key, _)) => written.next_if(|(other, _)| *other <= key),
            };
            let Some((key, value)) = written else {
                let Some(row) = at.take() else { break };
                found.push(row);
                at = tree.next().transpose()?;
                continue;
            };
            if at.as_ref().is_some_and(|(other, _)| other == key) {
                at = tree.next().transpose()?;
            }
            found.extend(value.clone().map(|value| (key.clone(), value)));
        }
        Ok(found)
    }

    /// The last row of `span`, likewise.
    pub(super) fn last(&mut self, span: &Span) -> Result<Option<(Slice, Slice)>, Fault> {
        let snapshot = self.handle.snapshot();
        let mut tree = snapshot.iter_passing(self.removals_max(), span.clone(), true);
        let mut written = self.overlay.within(span).rev().peekable();
        let mut at = tree.next().transpose()?;
        loop {
            let written = match &at {
                None => written.next(),
                Some((key, _)) => written.next_if(|(other, _)| *other >= key),
            };
            let Some((key, value)) = written else { return Ok(at) };
            if let Some(value) = value {
                return Ok(Some((key.clone(), value.clone())));
            }
            if at.as_ref().is_some_and(|(other, _)| other == key) {
                at = tree.next().transpose()?;
            }
        }
    }

    /// Up to `limit` keys of the rows of `span`, likewise. Reads no values.
    pub(super) fn merged_keys(&mut self, span: &Span, limit: usize) -> Result<Vec<Slice>, Fault> {
        self.merged_keys_until(span, limit, |_| false)
    }

    /// The same, up to and with the first key that is the last one wanted.
    pub(super) fn merged_keys_until(
        &mut self,
        span: &Span,
        limit: usize,
        is_last: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<Slice>, Fault> {
        if !span.end.is_empty() && span.start >= span.end {
            return Ok(Vec::new());
        }
        let snapshot = self.handle.snapshot();
        let mut tree = snapshot.cursor(span.clone(), false);
        tree.pass_at_most(self.removals_max());
        let mut written = self.overlay.within(span).peekable();
        let mut found: Vec<Slice> = Vec::new();
        let mut at = tree.advance()?;
        while found.len() < limit && !found.last().is_some_and(|key| is_last(key)) {
            let written = match &at {
                None => written.next(),
                Some(key) => written.next_if(|(other, _)| *other <= key),
            };
            let Some((key, value)) = written else {
                let Some(key) = at.take() else { break };
                found.push(key);
                at = tree.advance()?;
                continue;
            };
            if at.as_ref() == Some(key) {
                at = tree.advance()?;
            }
            found.extend(value.is_some().then(|| key.clone()));
        }
        Ok(found)
    }
}
