//! Figures of one tree.

/// Figures of one tree, for INFO, metrics and `inspect`.
#[derive(Clone, Debug, Default)]
pub struct EngineStats {
    /// Bytes of files on disk.
    pub disk_bytes: u64,
    /// About how many of them belong to rows that `purge` is to remove.
    pub unwanted_bytes: u64,
    /// About how many of them, and of those that are sealed and not yet in files, belong to rows that were removed, and come back by
    /// compaction. None while compaction gives nothing back (`keeps_removed`).
    pub removed_bytes: u64,
    /// About how many bytes in memtables removed rows take: they come back by a flush.
    pub removed_memory_bytes: u64,
    /// Removed rows stay in files for now: a purge goes first, or a file is known to be damaged.
    pub keeps_removed: bool,
    /// Rows that a fork has taken over are still there, and what is wanted is known as an estimate only.
    pub is_halved: bool,
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

impl EngineStats {
    /// About how many bytes of files there will be when what is to be purged is gone.
    #[must_use]
    pub fn wanted_bytes(&self) -> u64 {
        self.disk_bytes.saturating_sub(self.unwanted_bytes)
    }
}
