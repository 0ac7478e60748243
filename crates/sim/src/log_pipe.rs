//! What a node writes to its log: one write under way, and at most one that waits for it.

use node::multi_raft::Logging;
use replica::{DiskHealth, DiskState, LogWrite};
use std::sync::Arc;

/// A write to the log, and whose it is.
pub type Pending = (LogWrite, Logging);

/// The writes of a node's log, and whether its disk takes them.
pub struct LogPipe {
    health: Arc<DiskHealth>,
    writing: Option<Pending>,
    next: Option<Pending>,
}

impl Default for LogPipe {
    /// The pipe of a node that serves: it waits for what it lacks, as a server does once its shards are open.
    fn default() -> Self {
        let health = Arc::new(DiskHealth::default());
        health.be_patient();
        Self { health, writing: None, next: None }
    }
}

impl LogPipe {
    /// Whether the disk takes writes.
    #[must_use]
    pub fn health(&self) -> &Arc<DiskHealth> {
        &self.health
    }

    /// Whether the disk takes writes, as far as is known.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.health.state() == DiskState::Healthy
    }

    /// Whether an fsync has failed.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.health.state() == DiskState::Poisoned
    }

    /// Whether no write is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.writing.is_none()
    }

    /// Whether it takes another write; `overlaps`: also while one is under way.
    #[must_use]
    pub fn takes(&self, overlaps: bool) -> bool {
        self.writing.is_none() || (overlaps && self.next.is_none())
    }

    /// Takes a write; true if it is the one under way now.
    pub fn put(&mut self, pending: Pending) -> bool {
        let is_idle = self.is_idle();
        let slot = if is_idle { &mut self.writing } else { &mut self.next };
        assert!(slot.is_none(), "a third write is put into a log's pipe");
        *slot = Some(pending);
        is_idle
    }

    /// Bytes of the write under way.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.writing.as_ref().map_or(0, |(write, _)| write.bytes())
    }

    /// The write under way has come to its end.
    pub fn take(&mut self) -> Option<Pending> {
        self.writing.take()
    }

    /// The write that waited is under way now; false if none did.
    pub fn advance(&mut self) -> bool {
        self.writing = self.next.take();
        self.writing.is_some()
    }

    /// What was under way when the process ended.
    #[must_use]
    pub fn under_way(self) -> Option<LogWrite> {
        self.writing.map(|(write, _)| write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_write_is_under_way_and_one_waits() {
        let mut pipe = LogPipe::default();
        let pending = || (LogWrite::default(), Logging::default());
        assert!(pipe.is_idle() && pipe.takes(false) && pipe.put(pending()));
        assert!(!pipe.takes(false) && pipe.takes(true) && !pipe.put(pending()));
        assert!(!pipe.takes(true));
        assert!(pipe.take().is_some() && pipe.advance());
        assert!(pipe.takes(true) && pipe.take().is_some() && !pipe.advance() && pipe.is_idle());
        pipe.health().poison("an fsync failed");
        assert!(pipe.is_poisoned() && !pipe.is_healthy());
    }
}
