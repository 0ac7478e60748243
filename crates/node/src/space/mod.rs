//! What a command sees of its shard while it runs: records, the elements of large collections, and the time.
//!
//! | trait | what a handler can do with it | who implements it |
//! |-|-|-|
//! | `ReadSpace` | read the keys that its request names | all |
//! | `WriteSpace` | that, and write | `EntrySpace`: a write exists in an entry at apply, and nowhere else |
//! | `ShardSpace` | that of `ReadSpace`, and look at all keys of the shard | `CachedSpace`, `SnapshotSpace`, `RemoteSpace` |
//!
//! The same handler of a read runs on the event loop (`CachedSpace`), on a snapshot of the tree (`SnapshotSpace`) and
//! inside a transaction (`EntrySpace`). A space that cannot show what a handler asks for without the disk answers
//! `Fault::WouldBlock`: the handler is run again on one that can. At apply nothing answers that.

pub(crate) mod apply;
pub(crate) mod long_string;
mod loop_time;
pub(crate) mod read;
pub(crate) mod remote;
pub(crate) mod spans;
pub(crate) mod tree_rows;

use crate::config::SmallCollections;
use crate::format::entry::{Evaluation, Rules};
use crate::format::long_string::{LongString, PIECE_BYTES, ZEROS, piece_name, piece_number};
use crate::format::packing::Packing;
use crate::key_usage::KeyUsage;
use crate::keyspace_events::Event;
use crate::monitored_calls::MonitoredCalls;
use crate::script_message::ScriptMessage;
use crate::script_turn::ScriptTurn;
use crate::script_watch::ScriptWatch;
use crate::{Fault, Kind, Record, RecordView, Rows};
use std::sync::Arc;
use storage::Slice;
use vocab::limits::STRING_INLINE_BYTES_MAX;
use vocab::{ClusterDatabase, Database};

/// So many elements a space reads at once that cannot tell how long they are.
pub(crate) const ELEMENTS_AT_ONCE: usize = 128;
/// So many pieces of a string are read by their names, more by a scan.
const PIECES_BY_NAME: usize = 4;

/// The keys of one shard, for reading.
///
/// Invariants: while commands of an entry run, each sees what those before it in the entry wrote. A record whose time
/// has come is never seen: `get` answers `None`.
pub trait ReadSpace {
    /// The time that decides expiry, in ms since the epoch: the entry's at apply, the leader's clock for reads.
    fn now_ms(&self) -> u64;

    /// The version that writes of this entry get; for reads, the index that is read at.
    fn version(&self) -> u64;

    /// By which rules commands are evaluated: those of an entry by what it says, so that they do the same on every replica.
    fn rules(&self) -> Rules {
        Rules::NEWEST
    }

    /// Random bits, the same on every replica for the same entry, and others at every call.
    fn random_u64(&mut self) -> Result<u64, Fault> {
        Err(Fault::WouldBlock)
    }

    /// The live record of `key`: of a string that is kept in pieces, with its bytes.
    fn get(&mut self, key: &[u8]) -> Result<Option<Record>, Fault> {
        let record = self.stored(key)?;
        record.map(|record| self.whole(key, record)).transpose()
    }

    /// A stored record with all that a command may look at: of a string in pieces, its bytes.
    fn whole(&mut self, key: &[u8], record: Record) -> Result<Record, Fault> {
        let Some(string) = LongString::of(key, &record) else { return Ok(record) };
        let pieces = self.pieces(string.rows(), 0, string.len())?;
        let (mut parts, mut end): (Vec<&[u8]>, usize) = (Vec::with_capacity(pieces.len() + 1), 0);
        let zeros = |from: usize, until: usize| {
            (from..until).step_by(PIECE_BYTES).map(move |at| &ZEROS[..PIECE_BYTES.min(until - at)])
        };
        for (at, piece) in &pieces {
            parts.extend(zeros(end, at * PIECE_BYTES));
            parts.push(piece);
            end = at * PIECE_BYTES + piece.len();
        }
        parts.extend(zeros(end, string.len()));
        let view = record.view();
        Ok(Record::stamped_new(view.version, Kind::STRING, view.expire_at_ms, &parts))
    }

    /// The bytes of a string in those pieces from `from` on and before `until`, as far as there are any.
    fn string_part(&mut self, pieces: &Rows, from: usize, until: usize) -> Result<Vec<u8>, Fault> {
        let length = pieces.count as usize;
        let (from, until) = (from.min(length), until.min(length).max(from.min(length)));
        let found = self.pieces(pieces, from, until)?;
        let mut bytes = vec![0; until - from];
        for (at, piece) in found {
            let (begin, end) = (at * PIECE_BYTES, at * PIECE_BYTES + piece.len());
            let (low, high) = (begin.max(from), end.min(until));
            if low < high {
                bytes[low - from..high - from].copy_from_slice(&piece[low - begin..high - begin]);
            }
        }
        Ok(bytes)
    }

    /// The pieces of a string, with their numbers, that have bytes from `from` on and before `until`, which lies within it.
    fn pieces(&mut self, rows: &Rows, from: usize, until: usize) -> Result<Vec<(usize, Slice)>, Fault> {
        if from >= until {
            return Ok(Vec::new());
        }
        if until - from > STRING_INLINE_BYTES_MAX && self.is_slice() {
            return Err(Fault::WouldBlock);
        }
        let (first, last) = (from / PIECE_BYTES, (until - 1) / PIECE_BYTES);
        let mut found = Vec::new();
        if last - first < PIECES_BY_NAME {
            for at in first..=last {
                found.extend(self.element_get(rows, &piece_name(at))?.map(|piece| (at, piece)));
            }
        } else {
            let mut after = first.checked_sub(1).map(piece_name);
            loop {
                let left = last - after.map_or(0, |after| u32::from_be_bytes(after) as usize + 1) + 1;
                let next =
                    self.elements_within(rows, after.as_ref().map(|after| &after[..]), left, STRING_INLINE_BYTES_MAX)?;
                let behind = next.last().and_then(|(name, _)| piece_number(name));
                let numbered = next.into_iter().filter_map(|(name, piece)| Some((piece_number(&name)?, piece)));
                found.extend(numbered.take_while(|(at, _)| *at <= last));
                match behind {
                    Some(at) if at < last => after = Some(piece_name(at)),
                    _ => break,
                }
            }
        }
        // Zeros are work, too.
        let bytes: usize = found.iter().map(|(_, piece)| piece.len()).sum();
        self.afford((until - from).saturating_sub(bytes))?;
        Ok(found)
    }

    /// The same as it is stored: a long string may be kept in pieces (`space::long_string`), which are not read.
    fn stored(&mut self, key: &[u8]) -> Result<Option<Record>, Fault>;

    /// The value of one element of a large collection.
    fn element_get(&mut self, _rows: &Rows, _element: &[u8]) -> Result<Option<Slice>, Fault> {
        Err(Fault::WouldBlock)
    }

    /// Up to `limit` elements in byte order, beginning after `after` (or at the first); fewer only if there are no
    /// more.
    fn elements(&mut self, _rows: &Rows, _after: Option<&[u8]>, _limit: usize) -> Result<Vec<(Slice, Slice)>, Fault> {
        Err(Fault::WouldBlock)
    }

    /// Element number `nth`, from 0 on, of those whose names are not below `from` and below `until` (empty: all behind).
    fn element_at(
        &mut self,
        _rows: &Rows,
        _from: &[u8],
        _until: &[u8],
        _nth: usize,
    ) -> Result<Option<(Slice, Slice)>, Fault> {
        Err(Fault::WouldBlock)
    }

    /// As `elements`, but it ends after about `bytes_soft` bytes, too: fewer than `limit` do not mean that there are no more,
    /// unless they are fewer than `ELEMENTS_AT_ONCE` and have fewer bytes.
    fn elements_within(
        &mut self,
        rows: &Rows,
        after: Option<&[u8]>,
        limit: usize,
        _bytes_soft: usize,
    ) -> Result<Vec<(Slice, Slice)>, Fault> {
        // Their lengths are not known before they are read.
        self.elements(rows, after, limit.min(ELEMENTS_AT_ONCE))
    }

    /// Up to `limit` keys that begin with `prefix` and follow on `after`, be their time over or not: for questions about a
    /// database, which a shard has whole.
    fn keys(&mut self, _prefix: &[u8], _after: Option<&[u8]>, _limit: usize) -> Result<Vec<Slice>, Fault> {
        Err(Fault::WouldBlock)
    }

    /// How many keys a database has, be their time over or not; `None`: they must be counted.
    fn database_size(&mut self, _database: Database) -> Result<Option<u64>, Fault> {
        Ok(None)
    }

    /// Asked before work that is more than reading: about so many steps, each of a few processor cycles. An event loop leaves
    /// much work to a thread, and an entry has a bound.
    fn afford(&mut self, _steps: usize) -> Result<(), Fault> {
        Ok(())
    }

    /// Asked before so many elements are visited, however few rows they lie in: an event loop leaves many to a thread. No bound of
    /// an entry is about that.
    fn visit_many(&mut self, _elements: u64) -> Result<(), Fault> {
        Ok(())
    }

    /// How many steps it could afford at most.
    fn steps_left(&self) -> usize {
        usize::MAX
    }

    /// Where others see the scripts that run.
    fn script_watch(&self) -> Option<&Arc<ScriptWatch>> {
        None
    }

    /// For how long a script may keep its thread, if there is a bound.
    fn script_turn(&self) -> Option<&Arc<ScriptTurn>> {
        None
    }

    /// What monitors are to see of the commands of scripts.
    fn monitored_calls(&mut self) -> Option<&mut MonitoredCalls> {
        None
    }

    /// Whether the keys that commands read are noted: their client is to be told of changes.
    fn notes_reads(&self) -> bool {
        false
    }

    /// A command is about to read this key.
    fn note_read(&mut self, _key: &[u8]) {}

    /// From now on what runs is a command of a script, or not.
    fn run_in_script(&mut self, _is_in_script: bool) {}

    /// Whether what runs is a command of a script: elements of a set that have no order come in one.
    fn is_in_script(&self) -> bool {
        false
    }

    /// Whether an event loop waits for what runs on it: much work is to be given up, by `Fault::WouldBlock`.
    fn is_slice(&self) -> bool {
        false
    }

    /// Whether replicas must agree about how many rows are read: then a command reads what it has always read, and no less.
    fn counts_reads(&self) -> bool {
        false
    }

    /// Gives up what runs, for it passes a bound: the fault that says so, or none where the text is its reply. In an entry
    /// nothing of it is written.
    fn refuse(&mut self, _text: &'static str) -> Option<Fault> {
        self.is_slice().then_some(Fault::WouldBlock)
    }

    /// The last element whose name is below `before`.
    fn element_before(&mut self, _rows: &Rows, _before: &[u8]) -> Result<Option<(Slice, Slice)>, Fault> {
        Err(Fault::WouldBlock)
    }

    /// What OBJECT ENCODING calls small: told, not stored, so it may differ between replicas.
    fn small_collections(&self) -> SmallCollections {
        SmallCollections::default()
    }

    /// Whether HSCAN, SSCAN and ZSCAN page what is stored in one record. A script that writes sees it whole, on replicas of all
    /// versions alike.
    fn pages_records(&self) -> bool {
        true
    }

    /// What this node knows of the use of keys: told, not stored, so it may differ between replicas.
    fn usage(&self) -> Option<&KeyUsage> {
        None
    }
}

/// Bytes to be written into a string at an offset. What lies between its end and them becomes zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Where the first of them goes.
    pub offset: usize,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Patch {
    /// How long the string is at least with them.
    #[must_use]
    pub fn end(&self) -> usize {
        self.offset + self.bytes.len()
    }

    /// The string that `old` becomes, in four parts: what lies before, the zeros of a gap, the bytes, what lies behind.
    pub(crate) fn parts_with<'a>(&'a self, old: &'a [u8], gap: &'a mut Vec<u8>) -> [&'a [u8]; 4] {
        gap.resize(self.offset.saturating_sub(old.len()), 0);
        [&old[..old.len().min(self.offset)], gap, &self.bytes, old.get(self.end()..).unwrap_or_default()]
    }

    /// The string that `old` becomes.
    #[must_use]
    pub fn applied_to(&self, old: &[u8]) -> Vec<u8> {
        self.parts_with(old, &mut Vec::new()).concat()
    }

    /// The string that `old` becomes by all of them.
    pub(crate) fn all_applied(patches: &[Self], old: &[u8]) -> Vec<u8> {
        let length = patches.iter().map(Self::end).max().unwrap_or(0).max(old.len());
        let mut new = Vec::with_capacity(length);
        new.extend_from_slice(old);
        new.resize(length, 0);
        for patch in patches {
            new[patch.offset..patch.end()].copy_from_slice(&patch.bytes);
        }
        new
    }

    /// One that does what all of them do to `old`; `None` if there are none.
    pub(crate) fn joined(patches: &[Self], old: &[u8]) -> Option<Self> {
        if let [patch] = patches {
            return Some(patch.clone());
        }
        let first = patches.iter().map(|patch| patch.offset).min()?;
        let end = patches.iter().map(Self::end).max()?;
        let mut bytes = old.get(first..end.min(old.len())).unwrap_or_default().to_vec();
        bytes.resize(end - first, 0);
        for patch in patches {
            bytes[patch.offset - first..patch.end() - first].copy_from_slice(&patch.bytes);
        }
        Some(Self { offset: first, bytes })
    }
}

/// Looks at the value at a key, which may be absent, and tells what is to be changed of it, if it is a string.
pub type Edit<'a> = dyn FnMut(Option<RecordView<'_>>) -> Option<Patch> + 'a;

/// Looks at an element, which may be absent, and tells what is to be in its place, if anything.
pub type ElementEdit<'a> = dyn FnMut(Option<&[u8]>) -> Option<Vec<u8>> + 'a;

/// What a command empties as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emptied {
    /// A database of clients that know no clusters.
    Database,
    /// The shard, or what the cluster's clients have of it.
    Shard,
}

/// The keys of one shard while an entry is applied, for writing.
pub trait WriteSpace: ReadSpace {
    /// By which rules the entry is evaluated.
    fn evaluation(&self) -> Evaluation {
        Evaluation::Second
    }

    /// How values are kept, where that is a setting: of the entry, so that it is the same on every replica.
    fn packing(&self) -> Packing {
        Packing::default()
    }

    /// Refuses to store so many bytes more than an entry may hold in memory: before rows that are short, and are many.
    fn may_store(&mut self, bytes: usize) -> Result<(), Fault> {
        let _ = bytes;
        Ok(())
    }

    /// Writes a record and stamps it with `version()`. Keeps the key count, the expiry index and, where a large
    /// collection is replaced by something else, its garbage in order.
    fn put(&mut self, key: &[u8], record: Record) -> Result<(), Fault>;

    /// The same, and clients that watch the key do not see it: a part of it has changed of which WATCH knows nothing.
    fn put_quietly(&mut self, key: &[u8], record: Record) -> Result<(), Fault> {
        self.put(key, record)
    }

    /// Changes the string at `key` as `edit` says, which is shown the record as it is stored, and keeps its expiry. A key that is
    /// absent becomes a string. A long string is copied once in an entry, however many of its commands edit it.
    fn edit(&mut self, key: &[u8], edit: &mut Edit<'_>) -> Result<(), Fault> {
        let old = self.stored(key)?;
        let view = old.as_ref().map(Record::view);
        let Some(patch) = edit(view) else { return Ok(()) };
        let (payload, expire_at_ms) = view.map_or((&[][..], None), |view| (view.payload, view.expire_at_ms));
        let record = Record::stamped_new(self.version(), Kind::STRING, expire_at_ms, &[&patch.applied_to(payload)]);
        self.put(key, record)
    }

    /// Tells what a command has done to a key; after it is done. That a key is new, or has expired, is told by the space.
    fn notify(&mut self, event: Event, key: &[u8]) {
        let _ = (event, key);
    }

    /// Whether keys that are looked up and are not there are told.
    fn tells_misses(&self) -> bool {
        false
    }

    /// A command that is about to run looks this key up: that it is not there is told, if that is wanted. It counts as no work: what
    /// is told may differ between replicas.
    fn tell_if_missing(&mut self, key: &[u8]) -> Result<(), Fault> {
        let _ = key;
        Ok(())
    }

    /// Tells that all keys of it are about to be removed: clients that have cached some are told to forget all, as in Redis, and not of
    /// each key. That holds for those that have cached that there was no key, too.
    fn notify_emptied(&mut self, what: Emptied) {
        let _ = what;
    }

    /// Tells that elements were removed from the collection at a key, and with the last of them the key.
    fn notify_removal(&mut self, event: Event, key: &[u8], is_gone: bool) {
        self.notify(event, key);
        if is_gone {
            self.notify(Event::DEL, key);
        }
    }

    /// Removes a record as `delete` does, and tells it if there was a live one.
    fn delete_told(&mut self, key: &[u8]) -> Result<bool, Fault> {
        let is_deleted = self.delete(key)?;
        if is_deleted {
            self.notify(Event::DEL, key);
        }
        Ok(is_deleted)
    }

    /// Removes a record (and, in the background, a large collection's elements); true if there was a live one.
    fn delete(&mut self, key: &[u8]) -> Result<bool, Fault>;

    /// Removes a record and leaves its elements, which another record refers to now.
    fn give_up(&mut self, key: &[u8]) -> Result<(), Fault>;

    /// A place for the elements of a new large collection in the slot of `key`, where none are and none were.
    fn new_rows(&mut self, key: &[u8]) -> Result<Rows, Fault>;

    /// Writes one element; the caller writes the collection's record too (its count).
    fn element_put(&mut self, rows: &Rows, element: &[u8], value: &[u8]) -> Result<(), Fault>;

    /// Changes one element as `edit` says, which is shown what there is; `None`: it stays as it is. Elements that are so changed are
    /// short, and an entry may change a few of them very often: each change counts as less than reading and writing them does.
    fn edit_element(&mut self, rows: &Rows, element: &[u8], edit: &mut ElementEdit<'_>) -> Result<(), Fault> {
        let old = self.element_get(rows, element)?;
        edit(old.as_deref()).map_or(Ok(()), |new| self.element_put(rows, element, &new))
    }

    /// The name of an element of a large set, each as likely as any other, which the caller removes; `None` if the entry does
    /// not say that members are drawn together.
    fn draw_element(&mut self, rows: &Rows) -> Result<Option<Slice>, Fault> {
        let _ = rows;
        Ok(None)
    }

    /// Removes one element.
    fn element_delete(&mut self, rows: &Rows, element: &[u8]) -> Result<(), Fault>;

    /// What the shard remembers of a client's numbered requests (see `command::idempotency`).
    fn requests(&mut self, client: &[u8]) -> Result<Option<Slice>, Fault>;

    /// Writes what `requests` reads, to be forgotten at `until_ms`. `was_until_ms` is what the row had before, if there
    /// was one.
    fn put_requests(
        &mut self,
        client: &[u8],
        row: &[u8],
        until_ms: u64,
        was_until_ms: Option<u64>,
    ) -> Result<(), Fault>;

    /// Of how many clients the shard remembers requests.
    fn request_clients(&mut self) -> Result<u64, Fault>;

    /// Publishes a message once the entry is applied.
    fn publish(&mut self, _message: ScriptMessage) -> Result<(), Fault> {
        Err(Fault::WouldBlock)
    }

    /// Keeps a program of the store, or forgets it: only in the metadata group.
    fn put_program(&mut self, _name: &[u8], _row: Option<&[u8]>) -> Result<(), Fault> {
        Err(Fault::WouldBlock)
    }

    /// Rows are being made that no record refers to, and are dropped at that time.
    fn stage(&mut self, rows: &Rows, until_ms: u64) -> Result<(), Fault>;

    /// Whether `stage` said so, and neither they were dropped nor `unstage` was called.
    fn is_staged(&mut self, rows: &Rows, until_ms: u64) -> Result<bool, Fault>;

    /// They are no longer to be dropped.
    fn unstage(&mut self, rows: &Rows, until_ms: u64) -> Result<(), Fault>;

    /// Drops rows that no record refers to.
    fn drop_rows(&mut self, rows: &Rows) -> Result<(), Fault>;
}

/// All keys of one shard, for reading: what commands over the whole store, and questions to one shard, are given. A
/// command in an entry cannot ask for them. Keys of a database are seen by a question about that database alone.
pub trait ShardSpace: ReadSpace {
    /// The records of a range, one after the other. Those of databases are among them only if the range begins with one.
    fn records<'a>(&'a mut self, _range: &RecordRange<'_>) -> Result<Box<dyn Records + 'a>, Fault> {
        Err(Fault::WouldBlock)
    }

    /// Up to `range.limit` live keys and the heads of their records: kinds, expiries and versions, perhaps without
    /// payloads. Large values are not read.
    fn heads(&mut self, range: &RecordRange<'_>) -> Result<Heads, Fault> {
        heads(&mut *self.records(range)?, range.limit)
    }

    /// A live key of the shard, each with the same probability; `None` if there is none, or if this space or its tree
    /// cannot draw one so.
    fn sample_key(&mut self) -> Result<Option<Slice>, Fault> {
        Ok(None)
    }

    /// How many keys there are in `slot` (those whose time has come but are not yet collected included).
    fn keys_in_slot(&mut self, slot: vocab::Slot) -> Result<u64, Fault>;

    /// How many keys a database has (likewise).
    fn keys_in_database(&mut self, database: vocab::Database) -> Result<u64, Fault>;

    /// How many keys a cluster database has (likewise), in one slot or in all.
    fn keys_in_cluster_database(&mut self, database: ClusterDatabase, slot: Option<vocab::Slot>) -> Result<u64, Fault>;

    /// How many keys the shard holds (likewise).
    fn key_count(&mut self) -> Result<u64, Fault>;
}

/// Keys with the heads of their records.
pub type Heads = Vec<(Slice, Record)>;

/// Up to `limit` live keys of a list, and the heads of their records.
pub(crate) fn heads(records: &mut dyn Records, limit: usize) -> Result<Heads, Fault> {
    let mut found = Vec::with_capacity(limit.min(1024));
    while found.len() < limit
        && let Some(key) = records.advance()?
    {
        found.extend(records.head()?.map(|record| (key, record)));
    }
    Ok(found)
}

/// Whether a command over the whole store needs each shard that it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It does: a leader that is not known is looked for.
    Each,
    /// The others will do: a shard whose leader is not known is passed over.
    Some,
}

/// Views of shards, by their number.
pub trait ShardSpaces {
    /// A view of shard `i`, wherever it is.
    fn space(&mut self, i: usize) -> &mut dyn ShardSpace;
}

/// All shards of the store, for commands over the whole of it.
pub trait Shards: ShardSpaces {
    /// How many shards there are; they are numbered in order of their first slot.
    fn count(&self) -> usize;

    /// First and last slot of shard `i`, both inclusive.
    fn slots(&self, i: usize) -> (u16, u16);

    /// The shard that owns a slot, and the last of the slots that follow on it and that the same shard owns.
    fn run_from(&self, slot: u16) -> Option<(usize, u16)> {
        let owns = |i: &usize| (self.slots(*i).0..=self.slots(*i).1).contains(&slot);
        (0..self.count()).find(owns).map(|i| (i, self.slots(i).1))
    }

    /// Whether this node leads shard `i`: what clients that ask every node and add up must be told of it here alone.
    fn leads(&self, i: usize) -> bool;

    /// Whether shard `i` is read on this node: from one snapshot, however often.
    fn is_here(&self, i: usize) -> bool;

    /// `ShardSpace::key_count` of each of these shards. Those elsewhere are asked at the same time.
    fn key_counts(&mut self, which: &[usize], need: Need) -> Vec<Result<u64, Fault>>;

    /// `ShardSpace::heads` of each of these shards, by number, in a range of its own. Those elsewhere are asked at the same
    /// time.
    fn heads(&mut self, asked: &[(usize, RecordRange<'_>)]) -> Vec<Result<Heads, Fault>>;

    /// The records of each shard within a range, one list a shard, in order of the shards. Of a shard on this node they
    /// are of the same moment as what `space` shows; of one elsewhere, each page of them is of a moment of its own.
    fn records<'a>(&'a mut self, range: &RecordRange<'_>) -> Vec<Box<dyn Records + 'a>>;

    /// Whether the command is to end without a result: its client has left, or the node stops. What may look at all keys
    /// asks now and then.
    fn is_abandoned(&self) -> bool {
        false
    }

    /// The sources of the store's libraries of functions, as they are now. The error is the text of a reply.
    fn libraries(&mut self) -> Result<Vec<Vec<u8>>, String>;
}

/// Which records are asked of a shard, or of all.
#[derive(Clone, Copy, Debug)]
pub struct RecordRange<'a> {
    /// The first key.
    pub start: &'a [u8],
    /// The first key behind; empty: there is none.
    pub end: &'a [u8],
    /// In falling order of their keys rather than rising.
    pub reverse: bool,
    /// Whether what they hold is wanted: if not, records of shards elsewhere come without.
    pub payloads: bool,
    /// About how many will be looked at, of all shards together: how much it is worth asking for at a time.
    pub limit: usize,
}

impl<'a> RecordRange<'a> {
    /// Up to `limit` keys from `start` on and before `end`, with the heads of their records.
    #[must_use]
    pub fn heads(start: &'a [u8], end: &'a [u8], limit: usize) -> Self {
        Self { start, end, reverse: false, payloads: false, limit }
    }
}

/// Records of one shard, one after the other. Nothing is read of one before it is moved to, and only its key before
/// the rest is asked for.
pub trait Records {
    /// Moves to the next record (at first: to the first one), whether or not its time has come, and tells its key.
    /// After a fault there is nothing to be had.
    fn advance(&mut self) -> Result<Option<Slice>, Fault>;

    /// The record, if its time has not come.
    fn record(&mut self) -> Result<Option<Record>, Fault>;

    /// The same, perhaps without its payload: a large value is not read.
    fn head(&mut self) -> Result<Option<Record>, Fault> {
        self.record()
    }
}
