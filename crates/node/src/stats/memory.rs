//! Where the memory of a node goes.

use crate::session::Host;

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
        let buffers = host.clients().all().iter().map(|client| client.buffers()).fold(0, |sum, (a, b)| sum + a + b);
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

/// A number of bytes as people read it, in the form of Redis: `1.50M`.
#[must_use]
pub(super) fn human(bytes: u64) -> String {
    let units = [(1u64 << 40, 'T'), (1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, letter)) => format!("{:.2}{letter}", bytes as f64 / unit as f64),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn human_sizes() {
        for (bytes, text) in [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (1_572_864, "1.50M"), (5 << 40, "5.00T")] {
            assert_eq!(human(bytes), text);
        }
    }
}
