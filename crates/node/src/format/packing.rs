//! Settings that decide what bytes a command writes. An entry carries them where they are not the defaults, so that they
//! are the same on every replica whatever its node's settings are.

/// How values are kept. See `Packing::default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Longest sparse HyperLogLog, in bytes: `hll-sparse-max-bytes`.
    pub sketch_bytes: u64,
    /// Entries after which a stream's run is full; 0: no bound. `stream-node-max-entries`.
    pub run_entries: u64,
    /// Bytes of entries after which it is full; 0: no bound. `stream-node-max-bytes`.
    pub run_bytes: u64,
}

impl Default for Packing {
    /// As Redis has it.
    fn default() -> Self {
        Self { sketch_bytes: 3000, run_entries: 100, run_bytes: 4096 }
    }
}
