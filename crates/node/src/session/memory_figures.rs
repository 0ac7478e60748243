//! Where the memory of a node goes.

use super::host::Host;

/// Figures of memory, in bytes but for `keys`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryFigures {
    /// Resident memory of the process; 0 if it is not known.
    pub rss_bytes: u64,
    /// The most there has been.
    pub rss_bytes_peak: u64,
    /// The setting `memory`.
    pub budget_bytes: u64,
    /// Caches of blocks and rows.
    pub cache_bytes: u64,
    /// Memtables, or the map of the memory engine.
    pub memtable_bytes: u64,
    /// Requests that wait to be parsed, and answers that wait to be read.
    pub client_bytes: u64,
    /// Keys of all shards.
    pub keys: u64,
}

impl MemoryFigures {
    /// The figures now.
    #[must_use]
    pub fn of(host: &dyn Host) -> Self {
        let node = host.node_facts();
        let shards = host.shard_facts();
        let rss_bytes = node.rss_bytes.unwrap_or(0);
        let buffers = host.clients().all().iter().map(|client| client.buffers().total_bytes).sum::<u64>();
        Self {
            rss_bytes,
            rss_bytes_peak: node.rss_bytes_peak.unwrap_or(rss_bytes).max(rss_bytes),
            budget_bytes: host.config().number("memory").map_or(0, |bytes| bytes as u64),
            cache_bytes: node.cache_bytes,
            memtable_bytes: shards.iter().map(|shard| shard.engine.memtable_bytes).sum(),
            client_bytes: buffers,
            keys: shards.iter().map(|shard| shard.keys).sum(),
        }
    }

    /// What holds data.
    #[must_use]
    pub fn dataset_bytes(&self) -> u64 {
        self.cache_bytes + self.memtable_bytes
    }
}
