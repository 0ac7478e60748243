//! The room that clients have for more data, and what becomes of a write that has none.
//!
//! The thread that evicts looks at the data and says how many bytes there may still be. Writes that are admitted take their
//! bytes from that. When half of it is taken, the thread is asked to look again, so that it evicts ahead of the bound. When
//! all of it is taken, writes wait for it. They are refused only after it has found nothing to evict.
//!
//! ```text
//! state = OPEN: no bound; METERED: left_bytes > 0 → admitted, else it waits; FULL: refused
//! ```

use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use vocab::Database;

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

/// What may still be written of what one bound is about.
#[derive(Debug, Default)]
struct Meter {
    state: AtomicU8,
    /// Bytes that clients may still write.
    left_bytes: AtomicI64,
    /// When no more bytes are left than this, the data is looked at again.
    low_bytes: AtomicI64,
    /// Some writes wait.
    waits: AtomicBool,
}

/// What a meter says of a write.
struct Metered {
    admitted: Admitted,
    /// The data is to be looked at before its time.
    asks: bool,
}

impl Meter {
    #[cold]
    fn take(&self, bytes: usize) -> Metered {
        if self.state.load(Ordering::Relaxed) == FULL {
            return Metered { admitted: Admitted::Never, asks: false };
        }
        if self.left_bytes.load(Ordering::Relaxed) <= 0 {
            self.waits.store(true, Ordering::Release);
            return Metered { admitted: Admitted::Later, asks: true };
        }
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let before = self.left_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let low = self.low_bytes.load(Ordering::Relaxed);
        Metered { admitted: Admitted::Now, asks: before > low && before.saturating_sub(bytes) <= low }
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.state.load(Ordering::Relaxed) == OPEN
    }

    fn refuses(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FULL
    }

    fn reconsider(&self) {
        if self.refuses() {
            self.left_bytes.store(0, Ordering::Relaxed);
            self.state.store(METERED, Ordering::Release);
        }
    }

    fn leave(&self, bytes: i64) {
        self.low_bytes.store(bytes / 2, Ordering::Relaxed);
        self.left_bytes.store(bytes, Ordering::Relaxed);
        self.state.store(METERED, Ordering::Release);
    }

    fn frees_waiting(&self) -> bool {
        let waits_on = self.state.load(Ordering::Acquire) == METERED && self.left_bytes.load(Ordering::Relaxed) <= 0;
        !waits_on && self.waits.swap(false, Ordering::AcqRel)
    }
}

/// What all threads of a node share of the bounds on its data: on all of it, and on that of single databases.
#[derive(Debug, Default)]
pub struct Room {
    all: Meter,
    /// Some databases have a bound.
    has_databases: AtomicBool,
    /// Those that this node looks after.
    databases: ArcSwap<BTreeMap<Database, Meter>>,
    /// Writes of databases have waited whose bound is gone.
    has_dropped: AtomicBool,
    /// The data is to be looked at before its time.
    asked: Mutex<bool>,
    changed: Condvar,
    data_bytes: AtomicU64,
}

impl Room {
    /// What becomes of a command that may add as many bytes as `bytes` says to the database whose slot `database` tells.
    #[inline]
    pub fn admit(&self, database: impl FnOnce() -> Option<Database>, bytes: impl Fn() -> usize) -> Admitted {
        if self.has_databases.load(Ordering::Relaxed)
            && let Some(database) = database()
        {
            let admitted = self.admit_to(database, bytes());
            if admitted != Admitted::Now {
                return admitted;
            }
        }
        if self.all.is_open() {
            return Admitted::Now;
        }
        self.admit_by(&self.all, bytes())
    }

    #[cold]
    fn admit_to(&self, database: Database, bytes: usize) -> Admitted {
        match self.databases.load().get(&database).filter(|meter| !meter.is_open()) {
            Some(meter) => self.admit_by(meter, bytes),
            None => Admitted::Now,
        }
    }

    #[cold]
    fn admit_by(&self, meter: &Meter, bytes: usize) -> Admitted {
        let Metered { admitted, asks } = meter.take(bytes);
        if asks {
            self.ask();
        }
        admitted
    }

    /// Whether anything is bounded.
    #[inline]
    pub fn is_bounded(&self) -> bool {
        !self.all.is_open() || self.has_databases.load(Ordering::Relaxed)
    }

    /// A command may remove data: what is refused until then is worth another look.
    #[inline]
    pub fn reconsider(&self) {
        self.all.reconsider();
        if self.has_databases.load(Ordering::Relaxed) {
            self.databases.load().values().for_each(Meter::reconsider);
        }
    }

    /// Whether commands that may add data are refused, whatever they are about.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.all.refuses()
    }

    /// There is no bound on all data.
    pub fn open(&self) {
        self.all.state.store(OPEN, Ordering::Release);
    }

    /// So many bytes may still be written; none, or fewer: writes wait.
    pub fn leave(&self, bytes: i64) {
        self.all.leave(bytes);
    }

    /// Nothing can be evicted: more data is refused.
    pub fn fill(&self) {
        self.all.state.store(FULL, Ordering::Release);
    }

    /// These databases have a bound that this node looks after, and no others.
    pub fn bound(&self, databases: impl Iterator<Item = Database>) {
        let wanted: BTreeSet<Database> = databases.collect();
        let known = self.databases.load();
        if wanted.iter().ne(known.keys()) {
            let waits = known.values().any(|meter| meter.waits.load(Ordering::Acquire));
            self.has_dropped.fetch_or(waits, Ordering::AcqRel);
            self.has_databases.store(!wanted.is_empty(), Ordering::Release);
            self.databases.store(Arc::new(wanted.into_iter().map(|database| (database, Meter::default())).collect()));
        }
    }

    /// So many bytes may still be written to a database; none, or fewer: its writes wait.
    pub fn leave_to(&self, database: Database, bytes: i64) {
        if let Some(meter) = self.databases.load().get(&database) {
            meter.leave(bytes);
        }
    }

    /// No key of a database can be evicted: more of its data is refused.
    pub fn fill_of(&self, database: Database) {
        if let Some(meter) = self.databases.load().get(&database) {
            meter.state.store(FULL, Ordering::Release);
        }
    }

    /// Whether writes have waited that need wait no longer: they are to be tried again. Asked after each look.
    pub fn frees_waiting(&self) -> bool {
        let of_databases = || {
            let databases = self.databases.load();
            databases.values().fold(false, |frees, meter| frees | meter.frees_waiting())
        };
        self.all.frees_waiting()
            | self.has_dropped.swap(false, Ordering::AcqRel)
            | (self.has_databases.load(Ordering::Relaxed) && of_databases())
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn writes_take_room_wait_for_it_and_are_refused_when_there_will_be_none() {
        let room = Room::default();
        let admit = |bytes| room.admit(|| None, || bytes);
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
        assert_eq!(room.admit(|| None, || 49), Admitted::Now);
        assert!(!*room.asked.lock());
        assert_eq!(room.admit(|| None, || 1), Admitted::Now);
        room.wait(LONG);
        assert_eq!(room.admit(|| None, || 30), Admitted::Now);
        assert!(!*room.asked.lock(), "once is enough");
        assert_eq!([room.admit(|| None, || 30), room.admit(|| None, || 1)], [Admitted::Now, Admitted::Later]);
        room.wait(LONG);
        room.wait(Duration::ZERO);
    }

    #[test]
    fn a_database_has_its_own_bound_beside_that_of_all_data() {
        use Admitted::{Later, Never, Now};
        let [one, other] = [1, 2].map(Database::of_number);
        let room = Room::default();
        let admit = |database: Option<Database>, bytes: usize| room.admit(|| database, || bytes);
        room.bound(one.into_iter());
        assert_eq!([admit(one, 1 << 40), admit(other, 1)], [Now, Now], "it has not been looked at yet");
        room.leave_to(one.unwrap(), 10);
        room.leave_to(other.unwrap(), 10);
        assert_eq!([admit(one, 10), admit(one, 1), admit(other, 100), admit(None, 100)], [Now, Later, Now, Now]);
        assert!(!room.frees_waiting(), "there is none yet");
        room.bound(one.into_iter());
        assert_eq!(admit(one, 1), Later, "it is the same bound");
        room.fill_of(one.unwrap());
        assert!(room.frees_waiting() && !room.refuses());
        assert_eq!([admit(one, 1), admit(other, 1)], [Never, Now]);
        room.reconsider();
        assert_eq!(admit(one, 1), Later);
        room.bound(other.into_iter());
        assert!(room.frees_waiting(), "there is no bound any more");
        assert_eq!(admit(one, 1), Now);
        room.fill();
        assert_eq!([admit(one, 1), admit(other, 1)], [Never, Never], "all data has a bound too");
    }
}
