//! A shard while an entry is applied: commands see the tree with what the entry has written so far above it.

mod bounded_keys;
mod collect;
mod collect_fields;
mod in_order;
mod overlay;
mod requests;
mod stretch;
mod work;
mod writes;

pub(crate) use collect::Collected;
pub(crate) use work::{LoopBudget, Place};

use crate::config::SmallCollections;
use crate::drawn_stretch::DrawnStretch;
use crate::format::entry::{Bounding, CollectFrom, Rules};
use crate::format::key_bound::KeyBound;
use crate::format::keys;
use crate::format::packing::Packing;
use crate::key_usage::KeyUsage;
use crate::keyspace_events::{Event, EventClasses, KeyspaceEvent};
use crate::monitored_calls::MonitoredCalls;
use crate::script_message::ScriptMessage;
use crate::script_watch::ScriptWatch;
use crate::shard_handle::{ShardHandle, live};
use crate::space::spans::{element_span, elements_between};
use crate::space::{Edit, ElementEdit, Emptied};
use crate::tracking::Changes;
use crate::{Evaluation, Fault, Kind, ReadSpace, Record, RecordView, Rows, WriteSpace};
use std::sync::Arc;
use storage::{Slice, Span};
use stretch::{EntrySource, Stretch};
use vocab::limits::{
    EDIT_IN_PLACE_BYTES_MIN, ELEMENT_EDIT_TOUCHED_BYTES, ENTRY_TOUCHED_ITEMS, ENTRY_WRITTEN_BYTES_MAX, ITEM_BYTES_SURE,
    ITEM_EDITS_MAX, ITEM_EDITS_SURE,
};
use vocab::{Database, Prng, slot_of};
use work::Work;
use writes::EntryWrites;

/// A shard within entry `index`. What its commands write is visible to those after them, and to no reader before
/// `commit`.
pub struct EntrySpace<'a> {
    index: u64,
    prng: Prng,
    writes: EntryWrites<'a>,
    /// Counts what its commands have read and written.
    work: Work,
    /// Whether the writes of each item can be undone.
    takes_back: bool,
    /// Why the item under way is refused, if the reason is not how much it has touched.
    refusal: Option<&'static str>,
    /// Large collections that the entry has made.
    new_collections: u64,
    packing: Packing,
    draws: Draws,
    /// Whether a long string is kept in pieces once a part of it is changed.
    rules: Rules,
    /// How many elements were edited that the entry had not written before: in the item under way, and in all.
    first_edits: (usize, usize),
    /// Whether what nodes make of clients' commands is bounded, too.
    bounds_all: bool,
    is_in_script: bool,
}

/// How members of a large set are drawn. Few entries draw any, so that what these need lies elsewhere.
enum Draws {
    /// Each by itself.
    Alone,
    /// Some together, of this entry alone.
    Together(Box<Stretch>),
    /// Some together, also those of several entries; `None`: the entry has drawn none yet.
    GoingOn(Option<Box<DrawnStretch>>),
}

/// Collections that one entry can make: bits of an id below the entry's index.
const COLLECTION_BITS: u32 = 20;

impl<'a> EntrySpace<'a> {
    /// The shard at the beginning of entry `index`.
    #[must_use]
    pub fn new(handle: &'a ShardHandle, index: u64, now_ms: u64, evaluation: Evaluation) -> Self {
        Self::at(Place::Aside, handle, (index, now_ms), evaluation)
    }

    /// The same, for an evaluation at `place`.
    pub(crate) fn at(
        place: Place,
        handle: &'a ShardHandle,
        (index, now_ms): (u64, u64),
        evaluation: Evaluation,
    ) -> Self {
        Self {
            index,
            prng: Prng::new(index.rotate_left(32) ^ u64::from(handle.id().0)),
            writes: EntryWrites::new(place, handle, now_ms, evaluation),
            work: Work::new(evaluation, place),
            takes_back: false,
            refusal: None,
            new_collections: 0,
            packing: Packing::default(),
            draws: Draws::Alone,
            rules: Rules::First,
            first_edits: (0, 0),
            bounds_all: false,
            is_in_script: false,
        }
    }

    /// Sets whether the writes of each item can be undone, which costs something.
    pub(crate) fn take_back(&mut self, takes_back: bool) {
        self.takes_back = takes_back;
    }

    /// Collects keyspace events of these classes.
    pub(crate) fn tell(&mut self, classes: EventClasses) {
        self.writes.tell(classes);
    }

    /// Notes changed keys from here on.
    pub(crate) fn note_changes(&mut self) {
        self.writes.note_changes();
    }

    /// Notes the keys that the item under way reads, from here on.
    pub(crate) fn note_reads(&mut self) {
        self.writes.note_reads();
    }

    /// Takes out the changes so far.
    pub(crate) fn take_changes(&mut self) -> Changes {
        self.writes.take_changes()
    }

    /// Says which item of the entry the next writes belong to; `None`: to no client.
    pub(crate) fn of_item(&mut self, item: Option<usize>) {
        self.writes.of_item(item);
    }

    /// Notes the commands of scripts for counters, and for monitors if there are any.
    pub(crate) fn note_calls(&mut self, is_monitored: bool) {
        *self.writes.calls() = MonitoredCalls::new(is_monitored);
    }

    /// Takes out what was noted of them so far.
    pub(crate) fn take_calls(&mut self) -> MonitoredCalls {
        self.writes.calls().take()
    }

    /// Takes out the messages of scripts so far.
    pub(crate) fn take_messages(&mut self) -> Vec<ScriptMessage> {
        self.writes.take_messages()
    }

    /// Takes out the keyspace events so far.
    pub(crate) fn take_events(&mut self) -> Vec<KeyspaceEvent> {
        self.writes.take_events()
    }

    /// Whether the writes of each item can be undone.
    pub(crate) fn takes_back(&self) -> bool {
        self.takes_back
    }

    /// Begins the next item of the entry.
    pub(crate) fn begin_item(&mut self) {
        self.work.begin_item();
        self.first_edits.0 = 0;
        self.writes.begin_item();
        self.refusal = None;
    }

    /// The text of the refusal of the item under way, if it has one of its own.
    pub(crate) fn refusal(&self) -> Option<&'static str> {
        self.refusal
    }

    /// Whether the item under way has read and written more than any item may: it is refused.
    pub(crate) fn refuses_item(&self) -> bool {
        self.work.is_refused()
    }

    /// Refuses the item under way.
    pub(crate) fn refuse_item(&mut self) -> Result<(), Fault> {
        self.work.refuse()
    }

    /// Sets how the next commands store values.
    pub(crate) fn set_packing(&mut self, packing: Packing) {
        self.packing = packing;
    }

    /// Those of the items behind are refused that would leave these databases with more keys.
    pub(crate) fn bound_keys(&mut self, bounds: &[KeyBound], of: Bounding) {
        self.bounds_all = of == Bounding::OfAll;
        self.writes.bound_keys(bounds);
    }

    /// Whether what nodes make of clients' commands is bounded, too.
    pub(crate) fn bounds_all(&self) -> bool {
        self.bounds_all
    }

    /// Refuses the item under way with that text if it has left a database with more keys than it may have.
    pub(crate) fn judge_keys(&mut self, text: &'static str) -> Result<(), Fault> {
        if self.writes.has_too_many_keys() { self.refuse(text).map_or(Ok(()), Err) } else { Ok(()) }
    }

    /// From here on, commands are evaluated by these rules.
    pub(crate) fn go_by(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// From here on, commands pop members of large sets together.
    pub(crate) fn draw_together(&mut self) {
        self.draws = Draws::Together(Box::default());
    }

    /// The same, and go on where the entry before has ended.
    pub(crate) fn draw_on(&mut self) {
        self.draws = Draws::GoingOn(None);
    }

    /// Begins an attempt: what is written from here on can be undone. Attempts do not nest.
    pub(crate) fn begin_attempt(&mut self) {
        self.writes.begin_attempt();
    }

    /// Keeps what was written since `begin_attempt`, or undoes it.
    pub(crate) fn end_attempt(&mut self, keep: bool) {
        self.writes.end_attempt(keep);
        // The popped members exist again.
        match &mut self.draws {
            Draws::Together(stretch) if !keep => stretch.forget(),
            Draws::GoingOn(Some(stretch)) if !keep => stretch.forget(),
            _ => {}
        }
    }

    /// What the commands wrote so far.
    #[cfg(test)]
    pub(crate) fn writes(&self) -> std::collections::BTreeMap<Slice, Option<Slice>> {
        self.writes.rows()
    }

    /// How many prefixes the commands dropped so far.
    #[cfg(test)]
    pub(crate) fn dropped(&self) -> usize {
        self.writes.dropped()
    }

    /// The keys that the commands have written so far and for which clients wait, in the order of the writes, with their
    /// records.
    pub(crate) fn awaited_keys(&self) -> impl Iterator<Item = (&[u8], Option<Record>)> {
        self.writes.awaited_keys()
    }

    /// All keys that the commands have written so far, with their records.
    pub(crate) fn written_keys(&self) -> impl Iterator<Item = (&[u8], Option<Record>)> {
        self.writes.written_keys()
    }

    /// Writes what the commands wrote to the row cache and the tree, and makes it visible.
    pub fn commit(mut self) {
        let Draws::GoingOn(Some(mut stretch)) = self.draws else { return self.writes.commit(self.index) };
        self.writes.write(keys::DRAWN, Some(Slice::from(stretch.encode())));
        let handle = self.writes.handle();
        self.writes.commit(self.index);
        handle.kept_stretch().keep(stretch);
    }

    /// One step of background collection, from `from` on.
    pub(crate) fn collect(&mut self, from: &CollectFrom) -> Result<Collected, Fault> {
        collect::collect(&mut self.writes, from, self.index)
    }

    /// One step of background collection as entries of format 1 have it.
    pub fn housekeep(&mut self) -> Result<(), Fault> {
        collect::housekeep(&mut self.writes)
    }

    /// Refuses to write so many bytes more than an entry may hold in memory.
    fn may_write(&mut self, bytes: usize) -> Result<(), Fault> {
        let is_too_much = bytes > ITEM_BYTES_SURE && self.writes.bytes() + bytes > ENTRY_WRITTEN_BYTES_MAX;
        if is_too_much && self.writes.evaluation() == Evaluation::Second {
            return self.work.refuse();
        }
        Ok(())
    }

    /// An element is edited that the entry has not written yet, and is in memory from here on: refuses too many of them.
    fn note_first_edit(&mut self) -> Result<(), Fault> {
        self.first_edits.0 += 1;
        self.first_edits.1 += 1;
        let (of_item, of_entry) = self.first_edits;
        let are_many = of_item > ITEM_EDITS_MAX || of_entry > ENTRY_TOUCHED_ITEMS * ITEM_EDITS_MAX;
        if are_many && of_item > ITEM_EDITS_SURE { self.work.refuse() } else { Ok(()) }
    }

    /// As entries of format 1 do: a number that no elements of `key` have, be they of a hash that is gone and not yet
    /// collected. 64 random bits, the same on every replica.
    fn new_keyed_rows(&mut self, key: &[u8]) -> Result<Rows, Fault> {
        let mut generation = self.random_u64()?;
        loop {
            let rows = Rows::of_key(key, generation, 0);
            if self.elements(&rows, None, 1)?.is_empty() {
                return Ok(rows);
            }
            generation = generation.wrapping_add(self.random_u64()? | 1);
        }
    }
}

impl ReadSpace for EntrySpace<'_> {
    fn now_ms(&self) -> u64 {
        self.writes.now_ms()
    }

    fn rules(&self) -> Rules {
        self.rules
    }

    fn version(&self) -> u64 {
        self.index
    }

    fn random_u64(&mut self) -> Result<u64, Fault> {
        Ok(self.prng.next_u64())
    }

    fn stored(&mut self, key: &[u8]) -> Result<Option<Record>, Fault> {
        let now_ms = self.writes.now_ms();
        let record = self.writes.record(key)?;
        self.work.add(1, record.as_ref().map_or(0, |record| record.bytes().len()))?;
        Ok(live(record, now_ms))
    }

    fn element_get(&mut self, rows: &Rows, element: &[u8]) -> Result<Option<Slice>, Fault> {
        let value = self.writes.element(&rows.prefix, element)?;
        self.work.add(1, value.as_ref().map_or(0, |value| value.len()))?;
        Ok(value)
    }

    fn elements(&mut self, rows: &Rows, after: Option<&[u8]>, limit: usize) -> Result<Vec<(Slice, Slice)>, Fault> {
        let prefix = rows.prefix.len();
        self.work.note_scan();
        self.writes.prepare_scan()?;
        let found = self.writes.merged(&element_span(rows, after), limit)?;
        self.work.add(1 + found.len(), found.iter().map(|(tree_key, value)| tree_key.len() + value.len()).sum())?;
        Ok(found.into_iter().map(|(tree_key, value)| (Slice::from(&tree_key[prefix..]), value)).collect())
    }

    fn element_at(
        &mut self,
        rows: &Rows,
        from: &[u8],
        until: &[u8],
        nth: usize,
    ) -> Result<Option<(Slice, Slice)>, Fault> {
        self.work.note_scan();
        self.writes.prepare_scan()?;
        let names = self.writes.merged_keys(&elements_between(rows, from, until), nth + 1)?;
        self.work.add(1 + names.len(), names.iter().map(|tree_key| tree_key.len()).sum())?;
        let Some(tree_key) = names.get(nth) else { return Ok(None) };
        let value = self.writes.row(tree_key)?.unwrap_or_else(Slice::empty);
        self.work.add(1, value.len())?;
        Ok(Some((Slice::from(&tree_key[rows.prefix.len()..]), value)))
    }

    fn afford(&mut self, steps: usize) -> Result<(), Fault> {
        self.work.add(0, steps)
    }

    fn visit_many(&mut self, elements: u64) -> Result<(), Fault> {
        self.work.visit(elements)
    }

    fn steps_left(&self) -> usize {
        self.work.bytes_left()
    }

    fn script_watch(&self) -> Option<&Arc<ScriptWatch>> {
        self.writes.handle().script_watch()
    }

    fn monitored_calls(&mut self) -> Option<&mut MonitoredCalls> {
        Some(self.writes.calls())
    }

    fn notes_reads(&self) -> bool {
        self.writes.notes_reads()
    }

    fn note_read(&mut self, key: &[u8]) {
        self.writes.note_read(key);
    }

    fn run_in_script(&mut self, is_in_script: bool) {
        self.is_in_script = is_in_script;
    }

    fn is_in_script(&self) -> bool {
        self.is_in_script
    }

    fn is_slice(&self) -> bool {
        self.work.is_slice()
    }

    fn counts_reads(&self) -> bool {
        true
    }

    fn refuse(&mut self, text: &'static str) -> Option<Fault> {
        self.refusal = Some(text);
        self.work.refuse().err()
    }

    fn element_before(&mut self, rows: &Rows, before: &[u8]) -> Result<Option<(Slice, Slice)>, Fault> {
        let span = Span { start: rows.prefix.clone(), end: keys::element(&rows.prefix, before) };
        self.work.note_scan();
        self.writes.prepare_scan()?;
        let found = self.writes.last(&span)?;
        self.work.add(1, found.as_ref().map_or(0, |(tree_key, value)| tree_key.len() + value.len()))?;
        Ok(found.map(|(tree_key, value)| (Slice::from(&tree_key[rows.prefix.len()..]), value)))
    }

    // A script may store what it is told: there, what replicas may not agree about is not known.
    fn small_collections(&self) -> SmallCollections {
        if self.is_in_script { SmallCollections::default() } else { self.writes.handle().small_collections() }
    }

    fn pages_records(&self) -> bool {
        !self.is_in_script
    }

    fn usage(&self) -> Option<&KeyUsage> {
        self.writes.handle().usage().filter(|_| !self.is_in_script)
    }

    fn database_size(&mut self, database: Database) -> Result<Option<u64>, Fault> {
        let (size, looked_at) = self.writes.database_size(database);
        self.work.add(1, looked_at)?;
        Ok(Some(size))
    }

    /// A walk may have to wait for the disk, and may be long: an event loop leaves it to a thread.
    fn keys(&mut self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Slice>, Fault> {
        if self.work.is_slice() {
            return Err(Fault::WouldBlock);
        }
        let start = after.map_or_else(|| keys::record(prefix), |after| keys::record(&keys::successor(after)));
        let span = Span { start, end: keys::prefix_end(&keys::record(prefix)) };
        let found = self.writes.merged_keys(&span, limit)?;
        self.work.add(1 + found.len(), found.iter().map(|tree_key| tree_key.len()).sum())?;
        Ok(found.into_iter().map(|tree_key| storage::tail_of(tree_key, 1)).collect())
    }
}

impl WriteSpace for EntrySpace<'_> {
    fn evaluation(&self) -> Evaluation {
        self.writes.evaluation()
    }

    fn packing(&self) -> Packing {
        self.packing
    }

    fn may_store(&mut self, bytes: usize) -> Result<(), Fault> {
        self.may_write(bytes)
    }

    fn put(&mut self, key: &[u8], record: Record) -> Result<(), Fault> {
        self.work.add(1, record.bytes().len())?;
        self.may_write(record.bytes().len())?;
        // What is due lies ahead of where collection has been by now, even if it has expired before.
        self.writes.put(key, &record.stamped(self.index).due_from(self.writes.now_ms() + 1))
    }

    fn put_quietly(&mut self, key: &[u8], record: Record) -> Result<(), Fault> {
        let version = self.writes.record(key)?.map(|record| record.view().version);
        let before = self.writes.quiet_since(key).or(version.filter(|version| *version < self.index));
        self.put(key, record)?;
        if let Some(before) = before {
            self.writes.changed_quietly(key, before);
        }
        Ok(())
    }

    fn edit(&mut self, key: &[u8], edit: &mut Edit<'_>) -> Result<(), Fault> {
        if let Some((payload, expire_at_ms)) = self.writes.edited(key) {
            self.work.add(1, 0)?;
            let view = RecordView { kind: Kind::STRING, version: self.index, expire_at_ms, payload };
            let Some(patch) = edit(Some(view)) else { return Ok(()) };
            let growth = patch.end().saturating_sub(payload.len());
            self.work.add(0, patch.bytes.len() + 2 * growth)?;
            self.may_write(growth)?;
            self.writes.patch(key, &patch);
            return Ok(());
        }
        let old = match self.writes.recent(key) {
            Some(recent) => {
                self.work.add(1, 0)?;
                live(Some(recent), self.writes.now_ms())
            }
            None => self.stored(key)?,
        };
        let view = old.as_ref().map(Record::view);
        let Some(patch) = edit(view) else { return Ok(()) };
        let (payload, expire_at_ms) = view.map_or((&[][..], None), |view| (view.payload, view.expire_at_ms));
        let length = payload.len().max(patch.end());
        // It is copied now, and once more when it is written.
        self.work.add(1, 2 * length)?;
        self.may_write(length)?;
        let mut gap = Vec::new();
        let record = Record::stamped_new(self.index, Kind::STRING, expire_at_ms, &patch.parts_with(payload, &mut gap));
        if length < EDIT_IN_PLACE_BYTES_MIN {
            return self.writes.put(key, &record);
        }
        self.writes.begin_edit(key, &record)
    }

    fn notify(&mut self, event: Event, key: &[u8]) {
        self.writes.notify(event, key);
    }

    fn tells_misses(&self) -> bool {
        self.writes.tells(Event::KEYMISS)
    }

    fn tell_if_missing(&mut self, key: &[u8]) -> Result<(), Fault> {
        let record = self.writes.record(key)?;
        if live(record, self.writes.now_ms()).is_none() {
            self.writes.notify(Event::KEYMISS, key);
        }
        Ok(())
    }

    fn notify_emptied(&mut self, what: Emptied) {
        match what {
            Emptied::Database => self.writes.note_emptied(),
            Emptied::Shard => self.writes.note_cleared(),
        }
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, Fault> {
        self.work.add(1, 0)?;
        self.writes.delete(key)
    }

    fn give_up(&mut self, key: &[u8]) -> Result<(), Fault> {
        if let Some(record) = self.writes.record(key)? {
            self.writes.remove_record(key, &record);
        }
        Ok(())
    }

    fn new_rows(&mut self, key: &[u8]) -> Result<Rows, Fault> {
        if self.writes.evaluation() == Evaluation::First {
            return self.new_keyed_rows(key);
        }
        if self.new_collections + 1 >= 1 << COLLECTION_BITS {
            // Scripts make more than their entry has bytes.
            self.work.refuse()?;
        }
        let id = self.index << COLLECTION_BITS | self.new_collections;
        self.new_collections += 1;
        assert!(self.new_collections < 1 << COLLECTION_BITS, "what would make more collections is refused");
        Ok(Rows { prefix: keys::rows(slot_of(key), id), count: 0 })
    }

    fn element_put(&mut self, rows: &Rows, element: &[u8], value: &[u8]) -> Result<(), Fault> {
        self.work.add(1, rows.prefix.len() + element.len() + value.len())?;
        self.may_write(value.len())?;
        match &mut self.draws {
            Draws::GoingOn(Some(stretch)) => stretch.written(&rows.prefix, element),
            Draws::Together(stretch) => stretch.written(&rows.prefix, element),
            Draws::GoingOn(None) | Draws::Alone => {}
        }
        self.writes.handle().kept_stretch().touched(&rows.prefix, element);
        self.writes.write_element(&rows.prefix, element, Some(Slice::from(value)));
        Ok(())
    }

    fn edit_element(&mut self, rows: &Rows, element: &[u8], edit: &mut ElementEdit<'_>) -> Result<(), Fault> {
        if !self.writes.has_written_element(&rows.prefix, element) {
            self.note_first_edit()?;
        }
        let old = self.writes.element(&rows.prefix, element)?;
        self.work.add(2, ELEMENT_EDIT_TOUCHED_BYTES)?;
        if let Some(new) = edit(old.as_deref()) {
            self.writes.write_element(&rows.prefix, element, Some(Slice::from(new)));
        }
        Ok(())
    }

    fn element_delete(&mut self, rows: &Rows, element: &[u8]) -> Result<(), Fault> {
        self.work.add(1, 0)?;
        match &mut self.draws {
            Draws::GoingOn(Some(stretch)) => stretch.removed(&rows.prefix, element),
            Draws::Together(stretch) => stretch.removed(&rows.prefix, element),
            Draws::GoingOn(None) | Draws::Alone => {}
        }
        self.writes.handle().kept_stretch().touched(&rows.prefix, element);
        self.writes.write_element(&rows.prefix, element, None);
        Ok(())
    }

    fn draw_element(&mut self, rows: &Rows) -> Result<Option<Slice>, Fault> {
        let mut source = EntrySource { writes: &mut self.writes, work: &mut self.work, prng: &mut self.prng };
        match &mut self.draws {
            Draws::Alone => Ok(None),
            Draws::Together(stretch) => stretch.draw(rows, &mut source),
            Draws::GoingOn(Some(stretch)) => stretch.draw(rows, &mut source),
            Draws::GoingOn(goes_on) => goes_on.insert(source.drawn_stretch(rows)?).draw(rows, &mut source),
        }
    }

    fn requests(&mut self, client: &[u8]) -> Result<Option<Slice>, Fault> {
        requests::row_of(&self.writes, client)
    }

    fn put_requests(
        &mut self,
        client: &[u8],
        row: &[u8],
        until_ms: u64,
        was_until_ms: Option<u64>,
    ) -> Result<(), Fault> {
        requests::write(&mut self.writes, client, row, until_ms, was_until_ms)
    }

    fn request_clients(&mut self) -> Result<u64, Fault> {
        requests::client_count(&self.writes)
    }

    fn publish(&mut self, message: ScriptMessage) -> Result<(), Fault> {
        self.work.add(0, message.channel.len() + message.message.len())?;
        self.writes.publish(message);
        Ok(())
    }

    fn put_program(&mut self, name: &[u8], row: Option<&[u8]>) -> Result<(), Fault> {
        self.writes.write(&keys::program(name), row.map(Slice::from));
        Ok(())
    }

    fn stage(&mut self, rows: &Rows, until_ms: u64) -> Result<(), Fault> {
        self.writes.write(&keys::staged(until_ms, &rows.prefix), Some(Slice::from(&[][..])));
        self.writes.handle().expires_at(until_ms);
        Ok(())
    }

    fn is_staged(&mut self, rows: &Rows, until_ms: u64) -> Result<bool, Fault> {
        Ok(self.writes.row(&keys::staged(until_ms, &rows.prefix))?.is_some())
    }

    fn unstage(&mut self, rows: &Rows, until_ms: u64) -> Result<(), Fault> {
        self.writes.write(&keys::staged(until_ms, &rows.prefix), None);
        Ok(())
    }

    fn drop_rows(&mut self, rows: &Rows) -> Result<(), Fault> {
        self.writes.drop_rows(&rows.prefix);
        Ok(())
    }
}
