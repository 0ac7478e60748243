//! What an operator may set about storage, and how the settings are spelled.

use std::str::FromStr;

/// What keeps a shard's map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// A log-structured merge tree on disk.
    #[default]
    Lsm,
    /// A sorted map in memory, with snapshot files.
    Memory,
}

impl EngineKind {
    /// How it is spelled in settings and in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lsm => "lsm",
            Self::Memory => "memory",
        }
    }
}

impl FromStr for EngineKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "lsm" => Ok(Self::Lsm),
            "memory" => Ok(Self::Memory),
            _ => Err(format!("'{text}' is not an engine: lsm or memory")),
        }
    }
}

/// How what goes to disk is compressed. May change on an existing data directory: every block and every value says
/// what was done to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4: little CPU.
    #[default]
    Lz4,
    /// Zstandard value by value: smaller, more CPU.
    Zstd,
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "lz4" => Ok(Self::Lz4),
            "zstd" => Ok(Self::Zstd),
            _ => Err(format!("'{text}' is not a compression: none, lz4 or zstd")),
        }
    }
}

/// Settings of the storage of one node: all its trees share them.
#[derive(Clone, Debug)]
pub struct StorageOptions {
    /// Memory for blocks read from disk, in bytes.
    pub block_cache_bytes: u64,
    /// Memory for writes that are not yet in files, in bytes, over all trees: half for what is being written to,
    /// half for what is being flushed.
    pub memtable_bytes_total: u64,
    /// Most bytes that compaction may write in a second, over all trees; flushes count but never wait. 0: no limit.
    pub rate_limit_bytes_per_s: u64,
    /// How values and blocks are compressed.
    pub compression: Compression,
    /// Values of at least this many bytes are kept out of the tree's levels, so that compaction does not move them.
    /// 0: none are. The default is a block: from there on a scan reads a block a row anyway. Measured on 600 MB of
    /// writes over 200 MB of keys: with 4 KB values 0.4 times the CPU and a quarter of the bytes written, at 1.8 times
    /// the room; reads cost the same.
    pub separation_bytes: u32,
    /// Size of one table file, in bytes. A tree's first sorted level holds four.
    pub table_bytes: u64,
    /// Files kept open, over all trees.
    pub open_files_max: usize,
    /// The memory engine writes a snapshot when it has applied this many bytes (and its own size) since the last.
    pub snapshot_bytes_min: u64,
}

impl Default for StorageOptions {
    fn default() -> Self {
        Self {
            block_cache_bytes: 256 * MIB,
            memtable_bytes_total: 256 * MIB,
            rate_limit_bytes_per_s: 0,
            compression: Compression::default(),
            separation_bytes: 4 * 1024,
            table_bytes: 32 * MIB,
            open_files_max: 900,
            snapshot_bytes_min: 64 * MIB,
        }
    }
}

const MIB: u64 = 1024 * 1024;
