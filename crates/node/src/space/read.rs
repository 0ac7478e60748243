//! Reads of a shard on this node: `CachedSpace` reads the row cache alone, `SnapshotSpace` a snapshot of the tree.

use crate::config::SmallCollections;
use crate::format::keys;
use crate::key_usage::KeyUsage;
use crate::monitored_calls::MonitoredCalls;
use crate::script_turn::ScriptTurn;
use crate::script_watch::ScriptWatch;
use crate::shard_handle::{ABSENT, ShardHandle};
use crate::space::loop_time::{LoopTime, ROWS_OF_SCAN};
use crate::space::spans::{element_span, elements_between, record_span};
use crate::space::tree_rows::TreeRows;
use crate::stats::Lookups;
use crate::tracking::KeysRead;
use crate::{Fault, ReadSpace, Record, RecordRange, Records, Rows, ShardSpace};
use std::ops::Deref;
use std::sync::Arc;
use storage::{BlockRead, Cursor, FillMode, HeldBlock, Look, Short, Slice, Snapshot, Span};
use vocab::limits::{READ_INLINE_US_MAX, SCAN_INLINE_REMOVALS_MAX};
use vocab::{ClusterDatabase, Database, Prng, Slot, SteadyClock, database_keys, is_database_key};

/// The space that the event loop tries first: it answers one row from the row cache, or `Fault::WouldBlock`.
///
/// Invariant: a row that it shows has `version ≤ applied`. A newer row of the cache belongs to an entry that no reader
/// may see yet.
pub struct CachedSpace<'a> {
    handle: &'a ShardHandle,
    /// The applied index when the read began.
    applied: u64,
    now_ms: u64,
    /// How many rows it has shown.
    shown: u64,
    lookups: Lookups,
}

impl<'a> CachedSpace<'a> {
    /// A read that begins now.
    #[must_use]
    pub fn new(handle: &'a ShardHandle, now_ms: u64) -> Self {
        Self { handle, applied: handle.engine().applied_index(), now_ms, shown: 0, lookups: Lookups::default() }
    }

    /// How many keys the handler has asked for, found or not.
    #[must_use]
    pub fn lookups(&self) -> Lookups {
        self.lookups
    }
}

impl ReadSpace for CachedSpace<'_> {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn version(&self) -> u64 {
        self.applied
    }

    fn stored(&mut self, key: &[u8]) -> Result<Option<Record>, Fault> {
        // Another entry may have been applied since the first row was read: two rows need a snapshot.
        if self.shown > 0 {
            return Err(Fault::WouldBlock);
        }
        let Ok(bytes) = self.handle.cache().get(self.handle.id().0, key) else { return Err(Fault::WouldBlock) };
        if bytes.is_empty() {
            self.shown += 1;
            self.lookups.note(false);
            return Ok(None);
        }
        let record = self.handle.decode(bytes)?;
        // To copy a long one would keep the event loop.
        if record.view().version > self.applied || record.bytes().len() > CACHED_ROW_BYTES_MAX {
            return Err(Fault::WouldBlock);
        }
        self.shown += 1;
        let live = self.handle.live(Some(record), self.now_ms);
        self.lookups.note(live.is_some());
        Ok(live)
    }

    fn is_slice(&self) -> bool {
        true
    }

    fn afford(&mut self, steps: usize) -> Result<(), Fault> {
        if steps > FEW_ROWS_BYTES { Err(Fault::WouldBlock) } else { Ok(()) }
    }

    fn visit_many(&mut self, elements: u64) -> Result<(), Fault> {
        if elements > FEW_ELEMENTS { Err(Fault::WouldBlock) } else { Ok(()) }
    }

    fn small_collections(&self) -> SmallCollections {
        self.handle.small_collections()
    }

    fn usage(&self) -> Option<&KeyUsage> {
        self.handle.usage()
    }
}

impl ShardSpace for CachedSpace<'_> {
    fn keys_in_slot(&mut self, slot: Slot) -> Result<u64, Fault> {
        Ok(self.handle.cluster_keys_in_slot(slot))
    }

    fn keys_in_database(&mut self, database: Database) -> Result<u64, Fault> {
        Ok(self.handle.database_keys_in_slot(database.slot()))
    }

    fn keys_in_cluster_database(&mut self, database: ClusterDatabase, slot: Option<Slot>) -> Result<u64, Fault> {
        Ok(match slot {
            Some(slot) => self.handle.cluster_database_keys_in_slot(slot, database),
            None => self.handle.keys_of_cluster_database(database),
        })
    }

    fn key_count(&mut self) -> Result<u64, Fault> {
        Ok(self.handle.cluster_key_count())
    }
}

/// The snapshot that a space reads.
enum Source<'a> {
    Own(Box<dyn Snapshot>),
    Lent(&'a (dyn Snapshot + 'static)),
}

impl Deref for Source<'_> {
    type Target = dyn Snapshot + 'static;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Own(snapshot) => &**snapshot,
            Self::Lent(snapshot) => *snapshot,
        }
    }
}

/// The shard as of one index. May wait for the disk, unless it was made `without_waiting`.
pub struct SnapshotSpace<'a> {
    handle: &'a ShardHandle,
    snapshot: Source<'a>,
    now_ms: u64,
    prng: Prng,
    tree_key: Vec<u8>,
    lookups: Lookups,
    /// The blocks that were read for it, where it may not wait for the disk.
    held: Option<&'a mut Held>,
    /// Whether rows that it reads from the tree go into the row cache.
    fill: FillMode,
    /// Rows that it may still read.
    rows_left: usize,
    /// Bytes of rows after which it reads no more.
    bytes_left: usize,
    /// The time that an event loop has for it.
    time: LoopTime,
    is_late: bool,
    /// The last long row that was found, and its key: a transaction may ask for parts of it thousands of times.
    long: Option<(Box<[u8]>, Record)>,
    /// Whether keys expire by `now_ms` alone.
    at_one_time: bool,
    /// What monitors are to see of the commands of scripts.
    calls: MonitoredCalls,
    /// The keys that commands read, if they are noted.
    reads: Option<KeysRead>,
    is_in_script: bool,
    /// For how long a script may keep its thread.
    turn: Option<Arc<ScriptTurn>>,
}

/// The most rows that an event loop reads for one command.
const FEW_ROWS: usize = 256;
/// The most elements that it visits at a time for one command.
const FEW_ELEMENTS: u64 = 4096;
/// After how many bytes of rows it reads no more: to unpack them and to take pages for them takes up to 2 ms for 1 MiB. The same for steps
/// of another kind that a command says it takes.
const FEW_ROWS_BYTES: usize = 256 << 10;
/// The longest row of the row cache that it shows, in bytes: it is copied once, into the answer.
const CACHED_ROW_BYTES_MAX: usize = 512 << 10;
/// How many keys whose time has come one draw may hit before it gives up.
const SAMPLES_MAX: usize = 64;

/// The blocks that were read from disk for a read that does not wait, and the one that it lacks.
pub struct Held {
    /// The blocks, of the tree's files.
    pub blocks: Vec<HeldBlock>,
    /// The block that the read needs next, if it is known.
    pub lacking: Option<BlockRead>,
}

impl<'a> SnapshotSpace<'a> {
    /// The shard as of the applied index now.
    #[must_use]
    pub fn new(handle: &'a ShardHandle, now_ms: u64, seed: u64) -> Self {
        Self::with_source(handle, Source::Own(handle.snapshot()), now_ms, seed)
    }

    /// The shard as of the applied index now, from memory and `held` alone: what is in neither is `Fault::WouldBlock`.
    #[must_use]
    pub fn without_waiting(handle: &'a ShardHandle, now_ms: u64, seed: u64, held: &'a mut Held) -> Self {
        Self { held: Some(held), ..Self::new(handle, now_ms, seed) }
    }

    /// The shard as of a snapshot.
    #[must_use]
    pub fn of(handle: &'a ShardHandle, snapshot: &'a (dyn Snapshot + 'static), now_ms: u64, seed: u64) -> Self {
        Self::with_source(handle, Source::Lent(snapshot), now_ms, seed)
    }

    fn with_source(handle: &'a ShardHandle, snapshot: Source<'a>, now_ms: u64, seed: u64) -> Self {
        let prng = Prng::new(seed ^ snapshot.index());
        let (lookups, fill) = (Lookups::default(), FillMode::Again);
        Self {
            handle,
            snapshot,
            now_ms,
            prng,
            tree_key: Vec::new(),
            lookups,
            held: None,
            fill,
            rows_left: usize::MAX,
            bytes_left: usize::MAX,
            time: LoopTime::new(None, 0),
            is_late: false,
            long: None,
            at_one_time: false,
            calls: MonitoredCalls::default(),
            reads: None,
            is_in_script: false,
            turn: None,
        }
    }

    /// The same space, which puts every row that it reads into the row cache: for prefetching.
    #[must_use]
    pub fn bringing_in(self) -> Self {
        Self { fill: FillMode::Always, ..self }
    }

    /// The same space for an event loop: a command that reads many rows, or for long by that clock, gets `Fault::WouldBlock`, and is
    /// run again in a thread of the pool.
    #[must_use]
    pub fn of_few_rows(self, clock: Option<SteadyClock>) -> Self {
        let time = LoopTime::new(clock, READ_INLINE_US_MAX);
        Self { rows_left: FEW_ROWS, bytes_left: FEW_ROWS_BYTES, time, ..self }
    }

    /// The same space, in which what has expired depends on its time alone: the same rows are live however often they
    /// are read. That time is to come from `ShardHandle::read_time`.
    #[must_use]
    pub fn at_one_time(self) -> Self {
        Self { at_one_time: true, ..self }
    }

    /// The same space, which notes the commands of scripts for counters and monitors.
    #[must_use]
    pub fn showing_calls(self) -> Self {
        let is_wanted = self.handle.script_watch().is_some_and(|watch| watch.is_monitored());
        Self { calls: MonitoredCalls::new(is_wanted), ..self }
    }

    /// The same space, for a script that has its thread for that turn.
    #[must_use]
    pub fn in_turn(self, turn: Arc<ScriptTurn>) -> Self {
        Self { turn: Some(turn), ..self }
    }

    /// The same space, which notes the keys that commands read.
    #[must_use]
    pub fn noting_reads(self) -> Self {
        Self { reads: Some(KeysRead::default()), ..self }
    }

    /// The keys that were noted, which are taken out.
    pub fn take_reads(&mut self) -> Option<KeysRead> {
        self.reads.take()
    }

    /// What is told of the commands of scripts, which is taken out.
    pub fn take_calls(&mut self) -> MonitoredCalls {
        self.calls.take()
    }

    /// The snapshot that it made for itself; `None` if it was lent one.
    #[must_use]
    pub fn into_snapshot(self) -> Option<Box<dyn Snapshot>> {
        match self.snapshot {
            Source::Own(snapshot) => Some(snapshot),
            Source::Lent(_) => None,
        }
    }

    fn live(&self, record: Record) -> Option<Record> {
        if !self.at_one_time {
            return self.handle.live(Some(record), self.now_ms);
        }
        let gone_at_ms = record.view().gone_at_ms();
        let is_live = gone_at_ms.is_none_or(|at_ms| at_ms > self.now_ms);
        if !is_live {
            self.handle.found_expired(self.now_ms);
        }
        is_live.then_some(record)
    }

    /// Elements of a large collection after `after`: up to `elements_max`, and no more once they have `bytes_soft` bytes.
    pub(crate) fn slice(
        &self,
        rows: &Rows,
        after: Option<&[u8]>,
        elements_max: usize,
        bytes_soft: usize,
    ) -> Result<Vec<(Slice, Slice)>, Fault> {
        let mut found = Vec::new();
        let mut bytes = 0;
        let span = element_span(rows, after);
        for row in self.snapshot.iter_passing(self.removals_max(), span, false).take(elements_max) {
            let (tree_key, value) = row?;
            bytes += tree_key.len() + value.len();
            found.push((storage::tail_of(tree_key, rows.prefix.len()), value));
            if bytes >= bytes_soft {
                break;
            }
        }
        Ok(found)
    }

    /// How many keys the handler has asked for, found or not.
    #[must_use]
    pub fn lookups(&self) -> Lookups {
        self.lookups
    }

    /// Refuses to read rows that are not asked for by name, where that would wait or be too many.
    fn may_read_rows(&mut self) -> Result<(), Fault> {
        self.may_wait()?;
        if self.rows_left != usize::MAX && !self.handle.engine().scans_at_once() {
            return Err(Fault::WouldBlock);
        }
        self.time.note(ROWS_OF_SCAN);
        self.has_left()
    }

    /// How many removals a scan may pass over.
    fn removals_max(&self) -> u64 {
        if self.rows_left == usize::MAX { u64::MAX } else { SCAN_INLINE_REMOVALS_MAX }
    }

    fn has_left(&self) -> Result<(), Fault> {
        if self.rows_left == 0 || self.bytes_left == 0 || self.is_late { Err(Fault::WouldBlock) } else { Ok(()) }
    }

    /// Refuses to show a row of so many bytes to an event loop, if they are many: copying them would keep it.
    fn may_show(&self, bytes: usize) -> Result<(), Fault> {
        if self.rows_left != usize::MAX && bytes > FEW_ROWS_BYTES { Err(Fault::WouldBlock) } else { Ok(()) }
    }

    /// Counts rows that were read.
    fn took(&mut self, rows: usize, bytes: usize) {
        if self.rows_left != usize::MAX {
            self.rows_left = self.rows_left.saturating_sub(rows);
            self.bytes_left = self.bytes_left.saturating_sub(bytes);
            self.is_late |= self.time.passes(rows, bytes);
        }
    }

    fn found(&mut self, key: &[u8]) -> Result<Option<Record>, Fault> {
        self.has_left()?;
        if let Some((of, record)) = &self.long
            && **of == *key
        {
            return Ok(self.live(record.clone()));
        }
        let shard = self.handle.id().0;
        let stamp = match self.handle.cache().get(shard, key) {
            // The cache does not say since when the key is absent: this snapshot may still have it.
            Ok(bytes) if bytes.is_empty() => None,
            Ok(bytes) => {
                let record = self.handle.decode(bytes)?;
                self.may_show(record.bytes().len())?;
                if record.view().version <= self.snapshot.index() {
                    self.took(1, record.bytes().len());
                    return Ok(self.live(record));
                }
                None
            }
            Err(stamp) => Some(stamp),
        };
        // Only the newest row may be cached. This is asked after the stamp is taken: a write that begins later changes
        // the stamp.
        let newest = self.handle.is_newest(self.snapshot.index());
        keys::record_into(&mut self.tree_key, key);
        let found = match self.held.as_deref_mut() {
            None if self.rows_left != usize::MAX => match self.snapshot.get_short(&self.tree_key, FEW_ROWS_BYTES)? {
                Short::Found(found) => found,
                Short::Long => return Err(Fault::WouldBlock),
            },
            held => value_of(&*self.snapshot, held, &self.tree_key)?,
        };
        self.may_show(found.as_ref().map_or(0, |bytes| bytes.len()))?;
        if newest && let Some(stamp) = stamp {
            self.handle.cache().fill(shard, key, found.as_deref().unwrap_or(ABSENT), stamp, self.fill);
        }
        self.took(1, found.as_ref().map_or(0, |bytes| bytes.len()));
        let Some(bytes) = found else { return Ok(None) };
        let record = self.handle.decode(bytes)?;
        if record.bytes().len() > FEW_ROWS_BYTES {
            self.long = Some((key.into(), record.clone()));
        }
        Ok(self.live(record))
    }

    /// Refuses to read rows whose blocks are not known, where the disk may not be waited for.
    fn may_wait(&self) -> Result<(), Fault> {
        if self.held.is_some() { Err(Fault::WouldBlock) } else { Ok(()) }
    }

    /// Up to `limit` keys that expire, in the order of their times, from a place in the expiry index on; and the place behind
    /// them.
    pub fn expiring(&self, from: &[u8], limit: usize) -> Result<(Vec<Vec<u8>>, Vec<u8>), Fault> {
        let (start, end) = keys::expiries();
        let mut index = self.snapshot.cursor(Span { start: start.max(from.to_vec()), end }, false);
        let (mut found, mut next) = (Vec::new(), from.to_vec());
        while found.len() < limit
            && let Some(tree_key) = index.advance()?
        {
            found.extend(keys::parse_expiry(&tree_key).map(|(_, key)| key.to_vec()));
            next = keys::successor(&tree_key);
        }
        Ok((found, next))
    }

    /// The records within `start` (inclusive) .. `end` (exclusive; empty: unbounded).
    #[must_use]
    pub fn live_records(&self, start: &[u8], end: &[u8], reverse: bool) -> Box<dyn Records + '_> {
        let cursor = self.snapshot.cursor(record_span(start, end), reverse);
        Box::new(LiveRecords { space: self, cursor, later: None })
    }

    /// The same for a list of keys: those of databases only where `start` is one of them.
    #[must_use]
    pub fn listed_records(&self, start: &[u8], end: &[u8], reverse: bool) -> Box<dyn Records + '_> {
        if is_database_key(start) {
            return self.live_records(start, end, reverse);
        }
        let Span { start, end } = record_span(start, end);
        let (first, behind) = database_keys();
        let below = Span { end: keys::record(first).min(end.clone()), start: start.clone() };
        let above = Span { start: keys::record(behind).max(start), end };
        let (now, later) = if reverse { (above, below) } else { (below, above) };
        let later = (later.start < later.end).then_some((later, reverse));
        let now = if now.start < now.end { now } else { Span { start: now.end.clone(), end: now.end } };
        Box::new(LiveRecords { space: self, cursor: self.snapshot.cursor(now, reverse), later })
    }
}

/// The value of a tree key. With `held`: from memory and the blocks there, and the missing block is noted there.
fn value_of(snapshot: &dyn Snapshot, held: Option<&mut Held>, tree_key: &[u8]) -> Result<Option<Slice>, Fault> {
    let Some(held) = held else { return Ok(snapshot.get(tree_key)?) };
    match snapshot.look(tree_key, &held.blocks) {
        Look::Found(value) => Ok(value),
        Look::Missing(block) => {
            held.lacking = Some(block);
            Err(Fault::WouldBlock)
        }
        Look::Unknown => Err(Fault::WouldBlock),
    }
}

struct LiveRecords<'a> {
    space: &'a SnapshotSpace<'a>,
    cursor: Box<dyn Cursor + 'a>,
    /// What follows on the cursor's rows, and whether in falling order.
    later: Option<(Span, bool)>,
}

impl Records for LiveRecords<'_> {
    fn advance(&mut self) -> Result<Option<Slice>, Fault> {
        loop {
            if let Some(tree_key) = self.cursor.advance()? {
                return Ok(Some(storage::tail_of(tree_key, 1)));
            }
            let Some((span, reverse)) = self.later.take() else { return Ok(None) };
            self.cursor = self.space.snapshot.cursor(span, reverse);
        }
    }

    fn record(&mut self) -> Result<Option<Record>, Fault> {
        let record = self.space.handle.decode(self.cursor.value()?)?;
        let Some(record) = self.space.live(record) else { return Ok(None) };
        TreeRows(&*self.space.snapshot).whole(b"", record).map(Some)
    }

    fn head(&mut self) -> Result<Option<Record>, Fault> {
        match Record::decode_head(self.cursor.value_head()?) {
            Ok(head) => Ok(self.space.live(head)),
            // The whole record says what is wrong, or that nothing is.
            Err(_) => self.record(),
        }
    }
}

impl ReadSpace for SnapshotSpace<'_> {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn version(&self) -> u64 {
        self.snapshot.index()
    }

    fn random_u64(&mut self) -> Result<u64, Fault> {
        Ok(self.prng.next_u64())
    }

    fn stored(&mut self, key: &[u8]) -> Result<Option<Record>, Fault> {
        let found = self.found(key)?;
        self.lookups.note(found.is_some());
        Ok(found)
    }

    fn element_get(&mut self, rows: &Rows, element: &[u8]) -> Result<Option<Slice>, Fault> {
        self.has_left()?;
        let value = value_of(&*self.snapshot, self.held.as_deref_mut(), &keys::element(&rows.prefix, element))?;
        self.took(1, value.as_ref().map_or(0, |value| value.len()));
        Ok(value)
    }

    fn elements(&mut self, rows: &Rows, after: Option<&[u8]>, limit: usize) -> Result<Vec<(Slice, Slice)>, Fault> {
        self.may_read_rows()?;
        let prefix = rows.prefix.len();
        let found = self.snapshot.iter_passing(self.removals_max(), element_span(rows, after), false).take(limit);
        let found = found.map(|row| row.map(|(k, v)| (Slice::from(&k[prefix..]), v)).map_err(Fault::from));
        let found: Vec<(Slice, Slice)> = found.collect::<Result<_, _>>()?;
        self.took(found.len(), found.iter().map(|(name, value)| name.len() + value.len()).sum());
        Ok(found)
    }

    fn keys(&mut self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Slice>, Fault> {
        self.may_read_rows()?;
        let start = after.map_or_else(|| keys::record(prefix), |after| keys::record(&keys::successor(after)));
        let mut cursor = self.snapshot.cursor(Span { start, end: keys::prefix_end(&keys::record(prefix)) }, false);
        cursor.pass_at_most(self.removals_max());
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(tree_key) = cursor.advance()?
        {
            found.push(storage::tail_of(tree_key, 1));
        }
        drop(cursor);
        self.took(1 + found.len(), found.iter().map(|key| key.len()).sum());
        Ok(found)
    }

    fn element_at(
        &mut self,
        rows: &Rows,
        from: &[u8],
        until: &[u8],
        nth: usize,
    ) -> Result<Option<(Slice, Slice)>, Fault> {
        self.may_read_rows()?;
        let mut cursor = self.snapshot.cursor(elements_between(rows, from, until), false);
        cursor.pass_at_most(self.removals_max());
        let mut left = nth;
        let found = loop {
            let tree_key = cursor.advance()?;
            if left == 0 || tree_key.is_none() {
                break tree_key;
            }
            left -= 1;
        };
        let found = match found {
            Some(tree_key) => Some((storage::tail_of(tree_key, rows.prefix.len()), cursor.value()?)),
            None => None,
        };
        drop(cursor);
        self.took(1 + nth - left, found.as_ref().map_or(0, |(name, value)| name.len() + value.len()));
        Ok(found)
    }

    fn elements_within(
        &mut self,
        rows: &Rows,
        after: Option<&[u8]>,
        limit: usize,
        bytes_soft: usize,
    ) -> Result<Vec<(Slice, Slice)>, Fault> {
        self.may_read_rows()?;
        let (rows_max, bytes_max) = (limit.min(self.rows_left), bytes_soft.min(self.bytes_left));
        let found = self.slice(rows, after, rows_max, bytes_max)?;
        let bytes: usize = found.iter().map(|(name, value)| rows.prefix.len() + name.len() + value.len()).sum();
        // The caller would take what is left out here for the end.
        if found.len() == rows_max && rows_max < limit || bytes >= bytes_max && bytes_max < bytes_soft {
            return Err(Fault::WouldBlock);
        }
        self.took(found.len(), bytes);
        Ok(found)
    }

    fn is_slice(&self) -> bool {
        self.rows_left != usize::MAX || self.held.is_some()
    }

    fn script_watch(&self) -> Option<&Arc<ScriptWatch>> {
        self.handle.script_watch()
    }

    fn script_turn(&self) -> Option<&Arc<ScriptTurn>> {
        self.turn.as_ref()
    }

    fn monitored_calls(&mut self) -> Option<&mut MonitoredCalls> {
        Some(&mut self.calls)
    }

    fn notes_reads(&self) -> bool {
        self.reads.is_some()
    }

    fn note_read(&mut self, key: &[u8]) {
        if let Some(reads) = &mut self.reads {
            reads.note(key);
        }
    }

    fn run_in_script(&mut self, is_in_script: bool) {
        self.is_in_script = is_in_script;
    }

    fn is_in_script(&self) -> bool {
        self.is_in_script
    }

    fn afford(&mut self, steps: usize) -> Result<(), Fault> {
        self.may_show(steps)
    }

    fn visit_many(&mut self, elements: u64) -> Result<(), Fault> {
        if self.rows_left != usize::MAX && elements > FEW_ELEMENTS { Err(Fault::WouldBlock) } else { Ok(()) }
    }

    fn element_before(&mut self, rows: &Rows, before: &[u8]) -> Result<Option<(Slice, Slice)>, Fault> {
        self.may_read_rows()?;
        let span = Span { start: rows.prefix.clone(), end: keys::element(&rows.prefix, before) };
        let mut found = self.snapshot.iter_passing(self.removals_max(), span, true);
        let Some((tree_key, value)) = found.next().transpose()? else { return Ok(None) };
        drop(found);
        self.took(1, tree_key.len() + value.len());
        Ok(Some((storage::tail_of(tree_key, rows.prefix.len()), value)))
    }

    fn small_collections(&self) -> SmallCollections {
        self.handle.small_collections()
    }

    fn usage(&self) -> Option<&KeyUsage> {
        self.handle.usage()
    }
}

impl ShardSpace for SnapshotSpace<'_> {
    fn records<'b>(&'b mut self, range: &RecordRange<'_>) -> Result<Box<dyn Records + 'b>, Fault> {
        self.may_wait()?;
        if self.rows_left != usize::MAX {
            return Err(Fault::WouldBlock);
        }
        Ok(self.listed_records(range.start, range.end, range.reverse))
    }

    fn sample_key(&mut self) -> Result<Option<Slice>, Fault> {
        self.may_wait()?;
        let span = record_span(b"", b"");
        for _ in 0..SAMPLES_MAX {
            let prng = &mut self.prng;
            let Some(tree_key) = self.snapshot.sample(&span, &mut |bound| prng.below(bound))? else { break };
            let key = storage::tail_of(tree_key, 1);
            if is_database_key(&key) {
                continue;
            }
            let mut records = self.live_records(&key, b"", false);
            if records.advance()?.as_ref() == Some(&key) && records.head()?.is_some() {
                drop(records);
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    fn keys_in_slot(&mut self, slot: Slot) -> Result<u64, Fault> {
        Ok(self.handle.cluster_keys_in_slot(slot))
    }

    fn keys_in_database(&mut self, database: Database) -> Result<u64, Fault> {
        Ok(self.handle.database_keys_in_slot(database.slot()))
    }

    fn keys_in_cluster_database(&mut self, database: ClusterDatabase, slot: Option<Slot>) -> Result<u64, Fault> {
        Ok(match slot {
            Some(slot) => self.handle.cluster_database_keys_in_slot(slot, database),
            None => self.handle.keys_of_cluster_database(database),
        })
    }

    fn key_count(&mut self) -> Result<u64, Fault> {
        Ok(self.handle.cluster_key_count())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_shard::entry;
    use crate::{Kind, WriteSpace};
    use storage::{EngineKind, RowCache, SharedResources, StorageOptions, open_engine};
    use vocab::ShardId;

    /// How many rows there are says little of how long they take.
    #[test]
    fn an_event_loop_gives_up_what_takes_long_by_its_clock() {
        // Each look is as long as an event loop has.
        fn clock() -> u64 {
            use std::sync::atomic::{AtomicU64, Ordering};
            static NOW_US: AtomicU64 = AtomicU64::new(0);
            NOW_US.fetch_add(READ_INLINE_US_MAX, Ordering::Relaxed)
        }
        let folder = tempfile::tempdir().unwrap();
        let resources = SharedResources::new(StorageOptions::default());
        let tree = open_engine(EngineKind::Lsm, folder.path(), &resources).unwrap();
        let handle = ShardHandle::open(ShardId(1), (0, 16383), tree, Arc::new(RowCache::new(1 << 20))).unwrap();
        let (collection, mut read) = (Rows { prefix: b"collection".to_vec(), count: 1 }, Vec::new());
        for clock in [None, Some(clock as SteadyClock)] {
            let mut space = SnapshotSpace::new(&handle, 1_000, 1).of_few_rows(clock);
            let scan = |_: &u32| space.elements_within(&collection, None, 1, 1).is_ok();
            read.push((0..1000).take_while(scan).count());
        }
        assert_eq!(read[0], 1000, "the scans find nothing, and no one looks at a clock");
        assert!((1..100).contains(&read[1]), "{}", read[1]);
    }

    /// A transaction may ask 20,000 times for 200 bytes of a string of 32 MB.
    #[test]
    fn a_long_row_is_read_once_for_all_commands_of_a_transaction() {
        let folder = tempfile::tempdir().unwrap();
        let resources = SharedResources::new(StorageOptions::default());
        let tree = open_engine(EngineKind::Lsm, folder.path(), &resources).unwrap();
        let cache = Arc::new(RowCache::new(1 << 20));
        let handle = ShardHandle::open(ShardId(1), (0, 16383), tree, cache).unwrap();
        let lengths = [FEW_ROWS_BYTES + 1, FEW_ROWS_BYTES + 2, 1000];
        for (n, length) in lengths.into_iter().enumerate() {
            let record = || Record::new(Kind::STRING, None, &[&vec![b'v'; length]]);
            entry(&handle, 1_000, |space| space.put(&[n as u8], record()).unwrap());
        }
        handle.engine().flush().unwrap();
        let mut space = SnapshotSpace::new(&handle, 1_000, 1);
        let mut at = |n: u8| {
            let record = space.get(&[n]).unwrap().unwrap();
            assert_eq!(record.view().payload.len(), lengths[usize::from(n)]);
            (record.bytes().as_ptr() as usize, record)
        };
        let (first, _kept) = at(0);
        // A short one does not take its place, another long one does.
        at(2);
        assert_eq!(at(0).0, first);
        at(1);
        assert_ne!(at(0).0, first);
    }
}
