//! The progress of the last verification of the store that this node was asked for.

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};

/// Findings that are kept.
const FINDINGS_MAX: usize = 1000;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Finding {
    /// `map`, `rule`, `replica`, `damage` or `checksum`.
    pub(crate) kind: &'static str,
    /// The shard, if it is about one.
    pub(crate) shard: Option<u32>,
    /// What.
    pub(crate) text: String,
}

impl Finding {
    pub(crate) fn new(kind: &'static str, shard: Option<u32>, text: String) -> Self {
        Self { kind, shard, text }
    }
}

/// How far the last verification is.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Progress {
    /// `never`, `running`, `done` or `stopped`.
    pub(crate) state: &'static str,
    /// Once it is done: `ok`, `wrong`, or `incomplete` if something could not be checked.
    pub(crate) result: Option<&'static str>,
    pub(crate) began_ms: u64,
    pub(crate) ended_ms: u64,
    pub(crate) shards: usize,
    pub(crate) shards_done: usize,
    /// Bytes that were read, on all nodes.
    pub(crate) bytes: u64,
    pub(crate) findings: Vec<Finding>,
    /// What could not be checked.
    pub(crate) missing: Vec<String>,
}

/// The last verification.
#[derive(Default)]
pub(crate) struct Verification {
    progress: Mutex<Progress>,
    stop: AtomicBool,
}

impl Verification {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }

    pub(crate) fn found(&self, finding: Finding) {
        let mut progress = self.lock();
        if progress.findings.len() < FINDINGS_MAX && !progress.findings.contains(&finding) {
            progress.findings.push(finding);
        }
    }

    pub(crate) fn missed(&self, text: String) {
        let mut progress = self.lock();
        if progress.missing.len() < FINDINGS_MAX && !progress.missing.contains(&text) {
            progress.missing.push(text);
        }
    }

    /// Asks the verification that is running to stop, or takes that back.
    pub(crate) fn set_stop(&self, stop: bool) {
        self.stop.store(stop, Ordering::Release);
    }

    pub(crate) fn stop_asked(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
