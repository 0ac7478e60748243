//! What a command sees of its shard while it runs: records, the elements of large collections, and the time.
//!
//! One set of command handlers serves three callers: reads on a leader, reads on a worker's fast path (which may
//! answer `Fault::WouldBlock` rather than wait for the disk), and entries at apply.

pub(crate) mod apply;
pub(crate) mod read;
pub(crate) mod remote;

use crate::config::Config;
use crate::format::entry::Evaluation;
use crate::{Record, Rows};
use storage::Slice;

/// Why a command could not see what it needs. Never to be answered as "not found".
#[derive(Debug)]
pub enum Fault {
    /// The value is not in memory: run the command again where it may wait for the disk.
    WouldBlock,
    /// Storage failed.
    Storage(storage::Error),
    /// The shard is elsewhere, and its leader could not be asked or has refused: the text of the error reply.
    Remote(String),
}

impl From<storage::Error> for Fault {
    fn from(error: storage::Error) -> Self {
        Self::Storage(error)
    }
}

/// The view of one shard.
///
/// Invariant: while commands of an entry run, each sees what those before it in the entry wrote.
/// A record whose time has come is never seen: `get` answers `None`.
pub trait Space {
    /// The time that decides expiry, in ms since the epoch: the entry's at apply, the leader's clock for reads.
    fn now_ms(&self) -> u64;

    /// The version that writes of this entry get; for reads, the index that is read at.
    fn version(&self) -> u64;

    /// Random bits, the same on every replica for the same entry, and others at every call.
    fn random_u64(&mut self) -> Result<u64, Fault>;

    /// The live record of `key`.
    fn get(&mut self, key: &[u8]) -> Result<Option<Record>, Fault>;

    /// Writes a record and stamps it with `version()`. Keeps the key count, the expiry index and, where a large
    /// collection is replaced by something else, its garbage in order. Only in an entry.
    fn put(&mut self, key: &[u8], record: Record) -> Result<(), Fault>;

    /// Removes a record (and, in the background, a large collection's elements); true if there was a live one.
    /// Only in an entry.
    fn delete(&mut self, key: &[u8]) -> Result<bool, Fault>;

    /// Removes a record and leaves its elements, which another record refers to now. Only in an entry.
    fn give_up(&mut self, key: &[u8]) -> Result<(), Fault>;

    /// By which rules the entry is evaluated.
    fn evaluation(&self) -> Evaluation {
        Evaluation::Second
    }

    /// A place for the elements of a new large collection in the slot of `key`, where none are and none were.
    /// Only in an entry.
    fn new_rows(&mut self, key: &[u8]) -> Result<Rows, Fault>;

    /// The value of one element of a large collection.
    fn element_get(&mut self, rows: &Rows, element: &[u8]) -> Result<Option<Slice>, Fault>;

    /// Writes one element; the caller writes the collection's record too (its count). Only in an entry.
    fn element_put(&mut self, rows: &Rows, element: &[u8], value: &[u8]) -> Result<(), Fault>;

    /// Removes one element. Only in an entry.
    fn element_delete(&mut self, rows: &Rows, element: &[u8]) -> Result<(), Fault>;

    /// Up to `limit` elements in byte order, beginning after `after` (or at the first); fewer only if there are no
    /// more.
    fn elements(&mut self, rows: &Rows, after: Option<&[u8]>, limit: usize) -> Result<Vec<(Slice, Slice)>, Fault>;

    /// Up to `limit` live keys and records in byte order within `start` (inclusive) .. `end` (exclusive; empty means
    /// unbounded); in falling order if `reverse`. It is for keys, kinds, expiries and versions: records may come without
    /// their payloads. Large values are not read.
    fn scan(&mut self, start: &[u8], end: &[u8], reverse: bool, limit: usize) -> Result<Vec<(Slice, Record)>, Fault>;

    /// A live key of the shard, each with the same probability; `None` if there is none, or if this space or its tree cannot
    /// draw one so.
    fn sample_key(&mut self) -> Result<Option<Slice>, Fault> {
        Ok(None)
    }

    /// What the shard remembers of a client's numbered requests (see `exec::requests`). This and what belongs to it:
    /// only in an entry.
    fn requests(&mut self, _client: &[u8]) -> Result<Option<Slice>, Fault> {
        Err(Fault::WouldBlock)
    }

    /// Writes what `requests` reads, to be forgotten at `until_ms`. `was_until_ms` is what the row had before, if there
    /// was one.
    fn put_requests(
        &mut self,
        _client: &[u8],
        _row: &[u8],
        _until_ms: u64,
        _was_until_ms: Option<u64>,
    ) -> Result<(), Fault> {
        Err(Fault::WouldBlock)
    }

    /// Of how many clients the shard remembers requests.
    fn request_clients(&mut self) -> Result<u64, Fault> {
        Err(Fault::WouldBlock)
    }

    /// Rows are being made that no record refers to, and are dropped at that time. This and what belongs to it: only in an
    /// entry.
    fn stage(&mut self, _rows: &Rows, _until_ms: u64) -> Result<(), Fault> {
        Err(Fault::WouldBlock)
    }

    /// Whether `stage` said so, and neither they were dropped nor `unstage` was called.
    fn is_staged(&mut self, _rows: &Rows, _until_ms: u64) -> Result<bool, Fault> {
        Err(Fault::WouldBlock)
    }

    /// They are no longer to be dropped.
    fn unstage(&mut self, _rows: &Rows, _until_ms: u64) -> Result<(), Fault> {
        Err(Fault::WouldBlock)
    }

    /// Drops rows that no record refers to.
    fn drop_rows(&mut self, _rows: &Rows) -> Result<(), Fault> {
        Err(Fault::WouldBlock)
    }

    /// The records within `start` .. `end` (likewise), one after the other. Only where a read may wait for the disk.
    fn walk<'a>(&'a mut self, _start: &[u8], _end: &[u8], _reverse: bool) -> Result<Box<dyn Records + 'a>, Fault> {
        Err(Fault::WouldBlock)
    }

    /// What OBJECT ENCODING calls small: told, not stored, so it may differ between replicas.
    fn small_hash(&self) -> SmallHash {
        SmallHash::default()
    }

    /// How many keys there are in `slot` (those whose time has come but are not yet collected included).
    fn keys_in_slot(&mut self, slot: vocab::Slot) -> Result<u64, Fault>;

    /// How many keys the shard holds (likewise).
    fn key_count(&mut self) -> Result<u64, Fault>;
}

/// How large a hash may be that Redis would keep as a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallHash {
    /// Most fields.
    pub fields: u64,
    /// Longest field or value, in bytes.
    pub bytes: u64,
}

impl Default for SmallHash {
    /// As Redis 7.0 has it.
    fn default() -> Self {
        Self { fields: 512, bytes: 64 }
    }
}

impl SmallHash {
    /// As the settings have it.
    #[must_use]
    pub fn of_settings(config: &Config) -> Self {
        let number = |name: &str| config.number(name).and_then(|n| u64::try_from(n).ok());
        let default = Self::default();
        Self {
            fields: number("hash-max-listpack-entries").unwrap_or(default.fields),
            bytes: number("hash-max-listpack-value").unwrap_or(default.bytes),
        }
    }
}

/// All shards of the store, for commands over the whole of it.
pub trait Shards {
    /// How many shards there are; they are numbered in order of their first slot.
    fn count(&self) -> usize;

    /// First and last slot of shard `i`, both inclusive.
    fn slots(&self, i: usize) -> (u16, u16);

    /// Whether this node leads shard `i`: what clients that ask every node and add up must be told of it here alone.
    fn leads(&self, i: usize) -> bool;

    /// A view of shard `i`, wherever it is.
    fn space(&mut self, i: usize) -> &mut dyn Space;

    /// The records of each shard within a range, one list a shard, in order of the shards. Of a shard on this node they
    /// are of the same moment as what `space` shows; of one elsewhere, each page of them is of a moment of its own.
    fn records<'a>(&'a mut self, range: &RecordRange<'_>) -> Vec<Box<dyn Records + 'a>>;
}

/// Which records are asked of all shards.
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
