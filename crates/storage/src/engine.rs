//! The door to a tree: what the rest of Basalt asks of storage, whatever keeps it.

use crate::Slice;
use std::fmt;
use std::path::PathBuf;

/// What storage can fail with. None of these may be answered as "not found".
#[derive(Debug)]
pub enum Error {
    /// The operating system refused; names the file or folder.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No room on the device: writes are refused, reads go on, and it heals by itself when there is room.
    Full {
        /// The folder that is full.
        path: PathBuf,
    },
    /// A checksum does not match or a structure cannot be parsed; names the file where it can be told.
    Corrupt {
        /// The file or folder.
        path: PathBuf,
        /// What was wrong.
        detail: String,
    },
    /// An fsync failed: nothing more is written until restart.
    Poisoned {
        /// What failed.
        detail: String,
    },
}

/// The result of a storage call.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Full { path } => write!(f, "no space left on the device of {}", path.display()),
            Self::Corrupt { path, detail } => write!(f, "corrupt data in {}: {detail}", path.display()),
            Self::Poisoned { detail } => write!(f, "the store is poisoned until restart: {detail}"),
        }
    }
}

impl std::error::Error for Error {}

/// The writes of one Raft entry, applied as one: every key at most once, in any order.
/// `None` removes the key.
#[derive(Debug, Default)]
pub struct WriteBatch {
    /// Tree key → value, or `None` for a removal.
    pub writes: Vec<(Slice, Option<Slice>)>,
}

/// A range of tree keys: `start` inclusive, `end` exclusive; an empty `end` means "to the end of the tree".
#[derive(Clone, Debug)]
pub struct Span {
    /// First key that may be returned.
    pub start: Vec<u8>,
    /// First key after the range.
    pub end: Vec<u8>,
}

/// Figures of one tree, for INFO, metrics and `inspect`.
#[derive(Clone, Debug, Default)]
pub struct EngineStats {
    /// Bytes of files on disk.
    pub disk_bytes: u64,
    /// Bytes in memtables (or, for the memory engine, in the map).
    pub memtable_bytes: u64,
    /// Tables (files) in each level.
    pub level_tables: Vec<usize>,
    /// Files of values kept out of the levels.
    pub blob_files: usize,
    /// Bytes in blob files that nothing refers to.
    pub blob_stale_bytes: u64,
    /// Runs in the first level: compaction debt.
    pub l0_runs: usize,
    /// Entries, versions and tombstones included.
    pub entries_approx: u64,
}

/// One shard's ordered map of tree keys to values, each write stamped with its Raft index.
///
/// Invariants: `write` and `publish` are called by one thread, with rising indexes, once per index; any thread may read at any time.
/// A read at `snapshot` s sees exactly the entries with index ≤ s, as long as `pin(s)` was taken while s was the
/// applied index. After a crash the map is that of `flushed_index()`, and the log is applied from there.
pub trait Engine: Send + Sync {
    /// Writes one entry's writes; readers do not see them before `publish`. Never waits for the disk.
    /// Between the two the caller brings the row cache up to date, so that a reader whose index is older never takes
    /// a newer row for its own.
    fn write(&self, index: u64, batch: WriteBatch);

    /// Makes everything up to `index` visible at once: it is the applied index from now on.
    fn publish(&self, index: u64);

    /// The index up to which entries are applied and visible.
    fn applied_index(&self) -> u64;

    /// The value of `key` as of the applied index. May wait for the disk.
    fn get(&self, key: &[u8]) -> Result<Option<Slice>>;

    /// A snapshot as of the applied index. Holding it keeps old versions alive: keep it short.
    fn snapshot(&self) -> Box<dyn Snapshot + '_>;

    /// The index that survives a crash: everything up to it is in files.
    fn flushed_index(&self) -> u64;

    /// Whether the memory that unflushed writes take makes a flush worthwhile.
    fn wants_flush(&self) -> bool;

    /// Writes everything applied so far to files and fsyncs them; afterwards `flushed_index()` is at least the
    /// applied index at the call. Blocks; for background threads. `bytes_per_s` of 0 means no rate limit.
    fn flush(&self) -> Result<()>;

    /// One step of compaction, if any is due; true if there may be more to do. Blocks; for background threads.
    fn compact(&self) -> Result<bool>;

    /// Removes every key as of entry `index`, durably enough that a crash never brings one back.
    fn clear(&self, index: u64) -> Result<()>;

    /// Figures of the tree.
    fn stats(&self) -> EngineStats;

    /// Reads every block and checks every checksum; the error names the file. Blocks.
    fn verify(&self) -> Result<()>;
}

/// A consistent view of one tree.
pub trait Snapshot {
    /// The index that this is a view of.
    fn index(&self) -> u64;

    /// The value of `key` then.
    fn get(&self, key: &[u8]) -> Result<Option<Slice>>;

    /// The keys and values of `span` in order, or in reverse order.
    fn iter(&self, span: Span, reverse: bool) -> Box<dyn Iterator<Item = Result<(Slice, Slice)>> + '_>;
}
