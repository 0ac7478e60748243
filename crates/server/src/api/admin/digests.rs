//! Computes digests of this node's replicas, as of the entries that a comparison has marked.

use crate::os::{NICE_BACKGROUND, now_ms, set_niceness};
use crate::shared::{Digest, NodeShared};
use cluster::Settings;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::{Duration, Instant};
use storage::{Snapshot, Span};
use xxhash_rust::xxh3::Xxh3Default;

/// Marks that are older than this come from a replay of the log, in ms.
const FRESH_MS: u64 = 60_000;
/// Bytes after which the rate is checked.
const PACE_BYTES: u64 = 1 << 20;

/// An entry has marked this moment of a shard, whose rows are those of its own slots. The thread that applies calls
/// this, so it only starts the work.
pub(crate) fn digest_marked(store: &Arc<NodeShared>, comparison: u64, at_ms: u64, rows: Box<dyn Snapshot>) {
    if at_ms + FRESH_MS < now_ms() || !store.digests.begin(comparison) {
        return;
    }
    let of_thread = store.clone();
    let run = move || {
        set_niceness(NICE_BACKGROUND);
        let digest = read(&of_thread, comparison, &*rows).unwrap_or_else(|e| Digest::Failed(e.to_string()));
        of_thread.digests.set(comparison, digest);
    };
    if let Err(e) = std::thread::Builder::new().name("digest".to_owned()).spawn(run) {
        store.digests.set(comparison, Digest::Failed(e.to_string()));
    }
}

fn read(store: &NodeShared, comparison: u64, rows: &dyn Snapshot) -> storage::Result<Digest> {
    let mut hasher = Xxh3Default::new();
    let (mut count, mut bytes, mut paced) = (0, 0, 0);
    let began = Instant::now();
    let mut cursor = rows.cursor(Span { start: Vec::new(), end: Vec::new() }, false);
    while let Some(key) = cursor.advance()? {
        let value = cursor.value()?;
        for part in [&*key, &*value] {
            // The lengths tell rows apart whose bytes are the same only when joined.
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
