//! Figures of the whole node, and how fast they rise.

use std::collections::VecDeque;

/// Two samples are at least this far apart.
const STEP_MS: u64 = 100;
/// So the rates are those of the last 1.6 seconds, as in Redis.
const SAMPLES: usize = 16;

/// What a node has counted since it started, or since CONFIG RESETSTAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Commands that ran.
    pub commands: u64,
    /// Connections that were accepted.
    pub connections: u64,
    /// Connections that were refused.
    pub rejected_connections: u64,
    /// Connections that `client-output-buffer-limit` has closed.
    pub output_limit_disconnections: u64,
    /// Connections that `maxmemory-clients` has closed.
    pub evicted_clients: u64,
    /// Bytes from clients.
    pub input_bytes: u64,
    /// Bytes to clients.
    pub output_bytes: u64,
    /// Reads from client sockets.
    pub reads: u64,
    /// Writes to client sockets.
    pub writes: u64,
    /// Keys that reads have looked for and found.
    pub keyspace_hits: u64,
    /// Keys that reads looked for and did not find.
    pub keyspace_misses: u64,
}

impl Totals {
    /// What came after `earlier`.
    #[must_use]
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            commands: self.commands.wrapping_sub(earlier.commands),
            connections: self.connections.wrapping_sub(earlier.connections),
            rejected_connections: self.rejected_connections.wrapping_sub(earlier.rejected_connections),
            output_limit_disconnections: self
                .output_limit_disconnections
                .wrapping_sub(earlier.output_limit_disconnections),
            evicted_clients: self.evicted_clients.wrapping_sub(earlier.evicted_clients),
            input_bytes: self.input_bytes.wrapping_sub(earlier.input_bytes),
            output_bytes: self.output_bytes.wrapping_sub(earlier.output_bytes),
            reads: self.reads.wrapping_sub(earlier.reads),
            writes: self.writes.wrapping_sub(earlier.writes),
            keyspace_hits: self.keyspace_hits.wrapping_sub(earlier.keyspace_hits),
            keyspace_misses: self.keyspace_misses.wrapping_sub(earlier.keyspace_misses),
        }
    }
}

/// How fast figures rose lately, by the second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Commands.
    pub commands: f64,
    /// Bytes from clients.
    pub input_bytes: f64,
    /// Bytes to clients.
    pub output_bytes: f64,
}

/// The last samples of the totals.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    samples: VecDeque<(u64, Totals)>,
}

impl Sampler {
    /// Takes a sample if it is time.
    pub(super) fn tick(&mut self, now_ms: u64, totals: impl FnOnce() -> Totals) {
        if self.samples.back().is_some_and(|(at, _)| now_ms < at + STEP_MS) {
            return;
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((now_ms, totals()));
    }

    /// The rates between the first and the last sample.
    pub(super) fn rates(&self) -> Rates {
        let (Some((from_ms, from)), Some((to_ms, to))) = (self.samples.front(), self.samples.back()) else {
            return Rates::default();
        };
        if to_ms <= from_ms {
            return Rates::default();
        }
        let seconds = (to_ms - from_ms) as f64 / 1000.0;
        let rise = to.since(from);
        Rates {
            commands: rise.commands as f64 / seconds,
            input_bytes: rise.input_bytes as f64 / seconds,
            output_bytes: rise.output_bytes as f64 / seconds,
        }
    }
}
