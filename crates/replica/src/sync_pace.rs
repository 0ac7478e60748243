//! How often the log is fsynced, for each write of it: a write that is fsynced at once had better go past the page cache,
//! and writes that share an fsync, as with `nosync`, had better not.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Writes after which it is looked at anew.
const WINDOW: u32 = 16;

/// Recent fsyncs and writes. They decide only whether the log counts as fast.
#[derive(Debug, Default)]
pub(crate) struct SyncPace {
    writes: AtomicU32,
    syncs: AtomicU32,
    often: AtomicBool,
    /// Written to the file that is appended to.
    bytes: AtomicU64,
}

impl SyncPace {
    /// Notes a write of so many bytes; answers whether about every other one, or more of them, had an fsync recently.
    pub(crate) fn wrote(&self, bytes: usize) -> bool {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if self.writes.fetch_add(1, Ordering::Relaxed) + 1 >= WINDOW {
            self.writes.store(0, Ordering::Relaxed);
            self.often.store(self.syncs.swap(0, Ordering::Relaxed) * 2 >= WINDOW, Ordering::Relaxed);
        }
        self.is_often()
    }

    /// Notes an fsync.
    pub(crate) fn synced(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether about every other write, or more of them, had an fsync recently.
    pub(crate) fn is_often(&self) -> bool {
        self.often.load(Ordering::Relaxed)
    }

    /// Another file is appended to.
    pub(crate) fn new_file(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Bytes written since then.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{SyncPace, WINDOW};

    #[test]
    fn it_is_often_while_every_other_write_has_an_fsync() {
        let pace = SyncPace::default();
        for every in [1, 2, 3, 8, 2] {
            for n in 0..2 * WINDOW {
                pace.wrote(10);
                if n % every == 0 {
                    pace.synced();
                }
            }
            assert_eq!(pace.is_often(), every <= 2, "an fsync every {every} writes");
        }
        assert_eq!(pace.bytes(), u64::from(5 * 2 * WINDOW * 10));
        pace.new_file();
        assert_eq!(pace.bytes(), 0);
    }
}
