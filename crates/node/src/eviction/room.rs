//! The room that clients have for more data, and what becomes of a write that has none.
//!
//! The thread that evicts looks at the data and says how many bytes there may still be. Writes that are admitted take their
//! bytes from that. When half of it is taken, the thread is asked to look again, so that it evicts ahead of the bound. When
//! all of it is taken, writes wait for it. They are refused only after it has found nothing to evict.
//!
//! ```text
//! state = OPEN: no bound; METERED: left_bytes > 0 → admitted, else it waits; FULL: refused
//! ```

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

const OPEN: u8 = 0;
const METERED: u8 = 1;
const FULL: u8 = 2;

/// What becomes of a command that may add data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It runs.
    Now,
    /// It waits until there is room, or until it is known that there will be none.
    Later,
    /// It is refused.
    Never,
}

/// What all threads of a node share of the bound on its data.
#[derive(Debug, Default)]
pub struct Room {
    state: AtomicU8,
    /// Bytes that clients may still write.
    left_bytes: AtomicI64,
    /// When no more bytes are left than this, the data is looked at again.
    low_bytes: AtomicI64,
    /// Some writes wait.
    waits: AtomicBool,
    /// The data is to be looked at before its time.
    asked: Mutex<bool>,
    changed: Condvar,
    data_bytes: AtomicU64,
}

impl Room {
    /// What becomes of a command that may add as many bytes as `bytes` says.
    #[inline]
    pub fn admit(&self, bytes: impl FnOnce() -> usize) -> Admitted {
        match self.state.load(Ordering::Relaxed) {
            OPEN => Admitted::Now,
            METERED => self.take(bytes()),
            _ => Admitted::Never,
        }
    }

    #[cold]
    fn take(&self, bytes: usize) -> Admitted {
        if self.left_bytes.load(Ordering::Relaxed) <= 0 {
            self.waits.store(true, Ordering::Release);
            self.ask();
            return Admitted::Later;
        }
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let before = self.left_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let low = self.low_bytes.load(Ordering::Relaxed);
        if before > low && before.saturating_sub(bytes) <= low {
            self.ask();
        }
        Admitted::Now
    }

    /// A command may remove data: what is refused until then is worth another look.
    #[inline]
    pub fn reconsider(&self) {
        if self.refuses() {
            self.left_bytes.store(0, Ordering::Relaxed);
            self.state.store(METERED, Ordering::Release);
        }
    }

    /// Whether commands that may add data are refused.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FULL
    }

    /// There is no bound.
    pub fn open(&self) {
        self.state.store(OPEN, Ordering::Release);
    }

    /// So many bytes may still be written; none, or fewer: writes wait.
    pub fn leave(&self, bytes: i64) {
        self.low_bytes.store(bytes / 2, Ordering::Relaxed);
        self.left_bytes.store(bytes, Ordering::Relaxed);
        self.state.store(METERED, Ordering::Release);
    }

    /// Nothing can be evicted: more data is refused.
    pub fn fill(&self) {
        self.state.store(FULL, Ordering::Release);
    }

    /// Whether writes have waited that need wait no longer: they are to be tried again. Asked after each look.
    pub fn frees_waiting(&self) -> bool {
        let waits_on = self.state.load(Ordering::Acquire) == METERED && self.left_bytes.load(Ordering::Relaxed) <= 0;
        !waits_on && self.waits.swap(false, Ordering::AcqRel)
    }

    fn ask(&self) {
        let mut asked = self.asked.lock();
        if !std::mem::replace(&mut *asked, true) {
            self.changed.notify_one();
        }
    }

    /// Waits until the data is to be looked at, `within` at most.
    pub fn wait(&self, within: Duration) {
        let mut asked = self.asked.lock();
        if !*asked {
            self.changed.wait_for(&mut asked, within);
        }
        *asked = false;
    }

    /// The data that the bound is about has so many bytes.
    pub fn set_data_bytes(&self, bytes: u64) {
        self.data_bytes.store(bytes, Ordering::Relaxed);
    }

    /// How many bytes the data has that the bound is about, at the last look; 0 while there is no bound.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn writes_take_room_wait_for_it_and_are_refused_when_there_will_be_none() {
        let room = Room::default();
        let admit = |bytes| room.admit(|| bytes);
        assert_eq!(admit(1 << 40), Admitted::Now, "there is no bound");
        room.leave(100);
        assert!(!room.frees_waiting());
        assert_eq!([admit(40), admit(59), admit(100), admit(1)], {
            use Admitted::{Later, Now};
            [Now, Now, Now, Later]
        });
        assert!(!room.frees_waiting(), "there is none yet");
        room.leave(1);
        assert!(room.frees_waiting() && !room.frees_waiting(), "they are told once");
        assert_eq!([admit(5), admit(5)], [Admitted::Now, Admitted::Later]);
        room.fill();
        assert!(room.frees_waiting() && room.refuses());
        assert_eq!(admit(1), Admitted::Never);
        room.reconsider();
        assert_eq!(admit(1), Admitted::Later, "what was removed may have made room");
        room.open();
        assert!(room.frees_waiting());
        assert_eq!(admit(1), Admitted::Now);
    }

    #[test]
    fn the_data_is_looked_at_when_half_of_the_room_is_taken_and_when_none_is_left() {
        let room = Room::default();
        room.leave(100);
        assert_eq!(room.admit(|| 49), Admitted::Now);
        assert!(!*room.asked.lock());
        assert_eq!(room.admit(|| 1), Admitted::Now);
        room.wait(LONG);
        assert_eq!(room.admit(|| 30), Admitted::Now);
        assert!(!*room.asked.lock(), "once is enough");
        assert_eq!([room.admit(|| 30), room.admit(|| 1)], [Admitted::Now, Admitted::Later]);
        room.wait(LONG);
        room.wait(Duration::ZERO);
    }
}
