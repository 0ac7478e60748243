//! What this node knows of comparisons of replicas: each is computed in the background at a bounded rate.

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Snapshots that are read at the same time: each keeps old rows from being removed.
const AT_ONCE_MAX: usize = 4;
/// Comparisons that are remembered.
const KEPT_MAX: usize = 256;

/// How far a comparison is on this node.
#[derive(Clone, Debug)]
pub(crate) enum Digest {
    Running { rows: u64, bytes: u64 },
    Done { digest: u64, rows: u64, bytes: u64 },
    Failed(String),
}

/// Digests by comparison, and the order in which the comparisons came.
#[derive(Default)]
struct Kept {
    order: Vec<u64>,
    digests: BTreeMap<u64, Digest>,
}

/// The comparisons that this node knows.
#[derive(Default)]
pub(crate) struct Digests(Mutex<Kept>);

impl Digests {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock()
    }

    pub(crate) fn set(&self, comparison: u64, digest: Digest) {
        let mut kept = self.lock();
        if kept.digests.insert(comparison, digest).is_none() {
            kept.order.push(comparison);
        }
        while kept.order.len() > KEPT_MAX {
            let oldest = kept.order.remove(0);
            kept.digests.remove(&oldest);
        }
    }

    /// Enters a comparison that begins; false if as many are running as may.
    pub(crate) fn begin(&self, comparison: u64) -> bool {
        let running = self.lock().digests.values().filter(|digest| matches!(digest, Digest::Running { .. })).count();
        let may = running < AT_ONCE_MAX;
        let busy = || Digest::Failed("this node reads as many replicas as it may already".to_owned());
        self.set(comparison, if may { Digest::Running { rows: 0, bytes: 0 } } else { busy() });
        may
    }

    /// The state of a comparison, as JSON.
    pub(crate) fn found(&self, comparison: u64) -> Value {
        match self.lock().digests.get(&comparison) {
            None => json!({"state": "unknown"}),
            Some(Digest::Running { rows, bytes }) => json!({"state": "running", "rows": rows, "bytes": bytes}),
            Some(Digest::Done { digest, rows, bytes }) => {
                json!({"state": "done", "digest": format!("{digest:016x}"), "rows": rows, "bytes": bytes})
            }
            Some(Digest::Failed(why)) => json!({"state": "failed", "error": why}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_at_once_and_so_many_kept() {
        let digests = Digests::default();
        for comparison in 0..AT_ONCE_MAX as u64 {
            assert!(digests.begin(comparison));
        }
        assert!(!digests.begin(99));
        assert_eq!(digests.found(99)["state"], "failed");
        digests.set(0, Digest::Done { digest: 0xAB, rows: 1, bytes: 2 });
        assert_eq!(digests.found(0)["digest"], "00000000000000ab");
        assert!(digests.begin(100));
        for comparison in 1000..1000 + KEPT_MAX as u64 {
            digests.set(comparison, Digest::Failed(String::new()));
        }
        assert_eq!(digests.found(0)["state"], "unknown");
        assert_eq!(digests.found(1000)["state"], "failed");
    }
}
