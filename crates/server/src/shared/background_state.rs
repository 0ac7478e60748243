//! How background threads are woken, and what they have done.

use super::shard_claims::ShardClaims;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often each background thread looks for work without being woken.
pub(crate) const BACKGROUND_PAUSE: Duration = Duration::from_millis(200);
/// For every tree that it looked at, a thread that found no work waits so much longer.
const PAUSE_EACH: Duration = Duration::from_micros(100);

/// The wake-ups and counters of background threads.
#[derive(Default)]
pub(crate) struct BackgroundState {
    wakes: Mutex<u64>,
    changed: Condvar,
    pub(crate) flushes: AtomicU64,
    /// How many flushes are running.
    pub(crate) flushing: AtomicU64,
    pub(crate) flush_claims: ShardClaims,
    pub(crate) compactions: AtomicU64,
    /// How many threads found something to compact when they looked last.
    pub(crate) compacting: AtomicU64,
    pub(crate) compaction_claims: ShardClaims,
}

impl BackgroundState {
    /// There may be work.
    pub(crate) fn wake(&self) {
        *self.wakes.lock() += 1;
        self.changed.notify_all();
    }

    /// Whether the last look found nothing to compact.
    pub(crate) fn is_idle(&self) -> bool {
        self.compacting.load(Ordering::Acquire) == 0
    }

    /// Waits until there was a wake-up since the `seen`-th, or for a pause after a look at so many trees; answers the
    /// number of wake-ups so far.
    pub(crate) fn wait(&self, seen: u64, trees: usize) -> u64 {
        let mut wakes = self.wakes.lock();
        if *wakes != seen {
            return *wakes;
        }
        let pause = BACKGROUND_PAUSE + PAUSE_EACH * trees as u32;
        self.changed.wait_for(&mut wakes, pause);
        *wakes
    }
}
