//! How `--memory` is divided. What is left over is for the log's index, the buffers of clients, and the allocator.

use storage::EngineKind;
use vocab::limits;

/// The parts of the memory, in bytes.
pub(crate) struct Budget {
    pub(crate) row_cache: usize,
    pub(crate) block_cache: u64,
    pub(crate) memtables: u64,
    /// For writes that wait for their shard's next entry.
    pub(crate) queued_writes: usize,
}

impl Budget {
    pub(crate) fn of(memory: u64, engine: EngineKind) -> Self {
        // A write may be in memory four times: as it came, in the log's tail, in the log write, and as it is applied.
        let queued_writes = usize::try_from(memory / 32).unwrap_or(usize::MAX).min(limits::QUEUED_WRITE_BYTES_MAX);
        match engine {
            EngineKind::Lsm => Self {
                row_cache: (memory / 100 * 45) as usize,
                block_cache: memory / 100 * 15,
                memtables: memory / 100 * 20,
                queued_writes,
            },
            // The tree is in memory itself.
            EngineKind::Memory => Self { row_cache: 1 << 20, block_cache: 1 << 20, memtables: memory, queued_writes },
        }
    }
}
