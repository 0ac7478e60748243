//! What this node's replicas hold at the entries that a comparison has marked: computed aside, at a bounded rate.

use crate::store::{Store, now_ms};
use cluster::Settings;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use storage::{Snapshot, Span};
use xxhash_rust::xxh3::Xxh3Default;

/// Marks older than this are replayed, not meant.
const FRESH_MS: u64 = 60_000;
/// Snapshots that are read at the same time: each keeps old rows from going.
const AT_ONCE_MAX: usize = 4;
/// Comparisons that are remembered.
const KEPT_MAX: usize = 256;
/// Bytes after which the rate is looked at.
const PACE_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug)]
enum Digest {
    Running { rows: u64, bytes: u64 },
    Done { digest: u64, rows: u64, bytes: u64 },
    Failed(String),
}

/// By comparison, in the order in which they came.
#[derive(Default)]
struct Known {
    order: Vec<u64>,
    digests: BTreeMap<u64, Digest>,
}

/// See the module's words.
#[derive(Default)]
pub(crate) struct Digests(Mutex<Known>);

impl Digests {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, comparison: u64, digest: Digest) {
        let mut known = self.lock();
        if known.digests.insert(comparison, digest).is_none() {
            known.order.push(comparison);
        }
        while known.order.len() > KEPT_MAX {
            let oldest = known.order.remove(0);
            known.digests.remove(&oldest);
        }
    }

    /// Enters one that begins; false if as many are under way as may be.
    fn begin(&self, comparison: u64) -> bool {
        let running = self.lock().digests.values().filter(|digest| matches!(digest, Digest::Running { .. })).count();
        let may = running < AT_ONCE_MAX;
        let busy = || Digest::Failed("this node reads as many replicas as it may already".to_owned());
        self.set(comparison, if may { Digest::Running { rows: 0, bytes: 0 } } else { busy() });
        may
    }

    /// What is known of a comparison on this node.
    pub(super) fn found(&self, comparison: u64) -> Value {
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

impl Store {
    /// An entry has marked this moment of a shard, whose rows are those of its own slots. Called by the thread that applies,
    /// so it only sets out.
    pub(crate) fn marked(self: &Arc<Self>, comparison: u64, at_ms: u64, rows: Box<dyn Snapshot>) {
        if at_ms + FRESH_MS < now_ms() || !self.digests.begin(comparison) {
            return;
        }
        let store = self.clone();
        let run = move || {
            crate::vital::give_way(crate::vital::SOON);
            let digest = read(&store, comparison, &*rows).unwrap_or_else(|e| Digest::Failed(e.to_string()));
            store.digests.set(comparison, digest);
        };
        if let Err(e) = std::thread::Builder::new().name("digest".to_owned()).spawn(run) {
            self.digests.set(comparison, Digest::Failed(e.to_string()));
        }
    }
}

fn read(store: &Store, comparison: u64, rows: &dyn Snapshot) -> storage::Result<Digest> {
    let mut hasher = Xxh3Default::new();
    let (mut count, mut bytes, mut paced) = (0, 0, 0);
    let began = Instant::now();
    let mut cursor = rows.cursor(Span { start: Vec::new(), end: Vec::new() }, false);
    while let Some(key) = cursor.advance()? {
        let value = cursor.value()?;
        for part in [&*key, &*value] {
            // The lengths keep rows apart that only together are the same bytes.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        count += 1;
        bytes += (key.len() + value.len()) as u64;
        if bytes - paced > PACE_BYTES {
            paced = bytes;
            store.digests.set(comparison, Digest::Running { rows: count, bytes });
            if store.is_stopping() {
                return Ok(Digest::Failed("the node stops".to_owned()));
            }
            let settings = store.known().map.as_ref().map(|map| Settings::of(map)).unwrap_or_default();
            let due = Duration::from_secs_f64(bytes as f64 / (settings.verify_rate_mb as f64 * 1e6));
            std::thread::sleep(due.saturating_sub(began.elapsed()).min(Duration::from_secs(1)));
        }
    }
    Ok(Digest::Done { digest: hasher.finish(), rows: count, bytes })
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
