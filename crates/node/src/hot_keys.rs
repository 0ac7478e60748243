//! HOTKEYS: the keys that cost a node most.
//!
//! While a session is on, each request gives its time and its bytes to its keys in equal parts. Of each kind of cost a bounded
//! number of keys is counted (Space-Saving): a key that is counted anew takes the place and the sum of the one with the
//! smallest sum. So a sum may be too high by the smallest one, and the keys with the highest sums are among those counted.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use vocab::{Slot, client_key, slot_of};

/// Keys that are answered of each kind of cost, at most.
pub const HOT_KEYS_MAX: usize = 64;
/// Keys that are counted for each that is answered.
const COUNTED_PART: usize = 8;

/// What a session counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotKeysOrder {
    /// The time of requests.
    pub time: bool,
    /// The bytes of requests and replies.
    pub bytes: bool,
    /// How many keys are answered of each.
    pub count: usize,
    /// One request of so many is counted.
    pub one_of: u64,
    /// For how long, in ms; `None`: until it is stopped.
    pub duration_ms: Option<u64>,
    /// Only keys of these slots, in order; `None`: all.
    pub slots: Option<Vec<Slot>>,
    /// The slots as they are answered: first and last of each range.
    pub shown_slots: Vec<(u16, u16)>,
}

/// What requests have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotCost {
    /// Their time, in ns.
    pub ns: u64,
    /// Bytes of requests and replies.
    pub bytes: u64,
}

impl HotCost {
    fn add(&mut self, other: Self) {
        self.ns += other.ns;
        self.bytes += other.bytes;
    }

    /// Its time, in µs.
    #[must_use]
    pub fn us(self) -> u64 {
        self.ns / 1000
    }
}

/// What a session has found.
#[derive(Clone, Debug)]
pub struct HotKeysReport {
    /// What it was asked to count.
    pub order: HotKeysOrder,
    /// It still counts.
    pub is_on: bool,
    /// When it began, in ms since the epoch.
    pub began_ms: u64,
    /// For how long it has counted, in ms.
    pub lasted_ms: u64,
    /// Processor time of the process meanwhile, in user mode and in the kernel, in µs.
    pub cpu_us: (u64, u64),
    /// What all requests have cost.
    pub all: HotCost,
    /// What those with keys of the slots have cost.
    pub selected: HotCost,
    /// What those of them have cost that were counted.
    pub sampled: HotCost,
    /// The keys with the highest costs, and these: µs, and bytes.
    pub by_time: Vec<(Vec<u8>, u64)>,
    /// The same by bytes.
    pub by_bytes: Vec<(Vec<u8>, u64)>,
}

/// The session of a node, which all its threads share.
#[derive(Debug, Default)]
pub struct HotKeys {
    /// Requests pay one load of it while no session is on.
    is_on: AtomicBool,
    session: Mutex<Option<Session>>,
}

#[derive(Debug)]
struct Session {
    order: HotKeysOrder,
    began_ms: u64,
    /// When it was stopped.
    ended_ms: Option<u64>,
    /// Processor time of the process when it began, and when it ended, in µs.
    cpu_us: ((u64, u64), Option<(u64, u64)>),
    /// Requests so far.
    requests: u64,
    all: HotCost,
    selected: HotCost,
    sampled: HotCost,
    by_time: Sums,
    by_bytes: Sums,
}

impl Session {
    /// When it ends by itself or has ended.
    fn end_ms(&self) -> Option<u64> {
        self.ended_ms.or_else(|| self.order.duration_ms.map(|duration_ms| self.began_ms + duration_ms))
    }

    fn is_on(&self, now_ms: u64) -> bool {
        self.end_ms().is_none_or(|end_ms| now_ms < end_ms)
    }

    fn selects(&self, key: &[u8]) -> bool {
        self.order.slots.as_ref().is_none_or(|slots| slots.binary_search(&slot_of(key)).is_ok())
    }

    fn note(&mut self, keys: &[&[u8]], cost: HotCost) {
        self.all.add(cost);
        let selected: Vec<&[u8]> = keys.iter().copied().filter(|key| self.selects(key)).collect();
        if selected.is_empty() {
            return;
        }
        self.selected.add(cost);
        self.requests += 1;
        if !self.requests.is_multiple_of(self.order.one_of) {
            return;
        }
        self.sampled.add(cost);
        let parts = keys.len() as u64;
        for key in selected {
            if self.order.time {
                self.by_time.add(client_key(key), cost.ns / parts);
            }
            if self.order.bytes {
                self.by_bytes.add(client_key(key), cost.bytes / parts);
            }
        }
    }
}

impl HotKeys {
    /// Whether requests are counted.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether a session is on at that time.
    #[must_use]
    pub fn is_on_at(&self, now_ms: u64) -> bool {
        self.session.lock().as_ref().is_some_and(|session| session.is_on(now_ms))
    }

    /// Begins a session; false if one is on. `cpu_us`: processor time of the process.
    pub fn start(&self, order: HotKeysOrder, now_ms: u64, cpu_us: (u64, u64)) -> bool {
        let mut session = self.session.lock();
        if session.as_ref().is_some_and(|session| session.is_on(now_ms)) {
            return false;
        }
        let sums = Sums::of(order.count * COUNTED_PART);
        *session = Some(Session {
            order,
            began_ms: now_ms,
            ended_ms: None,
            cpu_us: (cpu_us, None),
            requests: 0,
            all: HotCost::default(),
            selected: HotCost::default(),
            sampled: HotCost::default(),
            by_time: sums.clone(),
            by_bytes: sums,
        });
        self.is_on.store(true, Ordering::Relaxed);
        true
    }

    /// Ends the session; false if none is on. What it has found stays.
    pub fn stop(&self, now_ms: u64, cpu_us: (u64, u64)) -> bool {
        let mut session = self.session.lock();
        self.is_on.store(false, Ordering::Relaxed);
        let Some(session) = session.as_mut().filter(|session| session.is_on(now_ms)) else { return false };
        session.ended_ms = Some(now_ms);
        session.cpu_us.1 = Some(cpu_us);
        true
    }

    /// Forgets what was found; false while a session is on.
    pub fn reset(&self, now_ms: u64) -> bool {
        let mut session = self.session.lock();
        if session.as_ref().is_some_and(|session| session.is_on(now_ms)) {
            return false;
        }
        *session = None;
        self.is_on.store(false, Ordering::Relaxed);
        true
    }

    /// A request of these keys is done, or handed on.
    pub fn note(&self, keys: &[&[u8]], cost: HotCost, now_ms: u64) {
        let mut session = self.session.lock();
        match &mut *session {
            Some(session) if session.is_on(now_ms) => session.note(keys, cost),
            _ => self.is_on.store(false, Ordering::Relaxed),
        }
    }

    /// What the session has found, if there was one.
    pub fn report(&self, now_ms: u64, cpu_us: (u64, u64)) -> Option<HotKeysReport> {
        let session = self.session.lock();
        let session = session.as_ref()?;
        let (from, to) = (session.cpu_us.0, session.cpu_us.1.unwrap_or(cpu_us));
        let order = session.order.clone();
        let us = |(key, ns): (Vec<u8>, u64)| (key, ns / 1000);
        Some(HotKeysReport {
            is_on: session.is_on(now_ms),
            began_ms: session.began_ms,
            lasted_ms: session.end_ms().map_or(now_ms, |end_ms| end_ms.min(now_ms)).saturating_sub(session.began_ms),
            cpu_us: (to.0.saturating_sub(from.0), to.1.saturating_sub(from.1)),
            all: session.all,
            selected: session.selected,
            sampled: session.sampled,
            by_time: session.by_time.highest(order.count).into_iter().map(us).collect(),
            by_bytes: session.by_bytes.highest(order.count),
            order,
        })
    }
}

/// Sums by key, of a bounded number of keys.
#[derive(Clone, Debug)]
struct Sums {
    sums: HashMap<Vec<u8>, u64>,
    keys_max: usize,
}

impl Sums {
    fn of(keys_max: usize) -> Self {
        Self { sums: HashMap::with_capacity(keys_max), keys_max }
    }

    fn add(&mut self, key: &[u8], amount: u64) {
        if let Some(sum) = self.sums.get_mut(key) {
            *sum += amount;
            return;
        }
        let mut sum = amount;
        if self.sums.len() >= self.keys_max
            && let Some((smallest, of_it)) = self.sums.iter().min_by_key(|(key, sum)| (**sum, *key))
        {
            let (smallest, of_it) = (smallest.clone(), *of_it);
            self.sums.remove(&smallest);
            sum += of_it;
        }
        self.sums.insert(key.to_vec(), sum);
    }

    fn highest(&self, count: usize) -> Vec<(Vec<u8>, u64)> {
        let mut all: Vec<(Vec<u8>, u64)> = self.sums.iter().map(|(key, sum)| (key.clone(), *sum)).collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::Prng;

    fn order() -> HotKeysOrder {
        HotKeysOrder {
            time: true,
            bytes: true,
            count: 10,
            one_of: 1,
            duration_ms: None,
            slots: None,
            shown_slots: vec![(0, 16383)],
        }
    }

    #[test]
    fn the_keys_with_the_highest_costs_are_found_among_many() {
        let (hot, mut random) = (HotKeys::default(), Prng::new(3));
        assert!(!hot.is_on() && hot.report(0, (0, 0)).is_none());
        assert!(hot.start(HotKeysOrder { one_of: 7, ..order() }, 1_000, (5, 6)));
        assert!(!hot.start(order(), 1_001, (0, 0)), "one at a time");
        for _ in 0..50_000 {
            let at = random.next_u64();
            let key = if at % 10 < 8 { format!("hot{}", at / 10 % 10) } else { format!("cold{}", at / 10 % 5_000) };
            hot.note(&[key.as_bytes()], HotCost { ns: 2_000, bytes: 100 }, 1_500);
        }
        assert!(!hot.reset(2_000));
        assert!(hot.is_on_at(3_000) && hot.stop(3_000, (9, 16)) && !hot.is_on());
        assert!(!hot.is_on_at(3_000) && !hot.stop(4_000, (50, 50)), "it has ended");
        let report = hot.report(9_000, (99, 99)).unwrap();
        assert_eq!((report.is_on, report.lasted_ms, report.cpu_us), (false, 2_000, (4, 10)));
        assert_eq!((report.all.us(), report.all.bytes), (100_000, 5_000_000));
        assert_eq!(report.sampled.bytes, 5_000_000 / 700 * 100);
        for found in [&report.by_time, &report.by_bytes] {
            assert_eq!(found.len(), 10);
            assert!(found.iter().all(|(key, _)| key.starts_with(b"hot")), "{found:?}");
        }
        assert!(hot.reset(9_000) && hot.report(9_000, (0, 0)).is_none());
    }

    #[test]
    fn keys_of_other_slots_do_not_count_and_a_session_ends_by_itself() {
        let hot = HotKeys::default();
        let slots = Some(vec![slot_of(b"a")]);
        assert!(hot.start(HotKeysOrder { slots, bytes: false, duration_ms: Some(100), ..order() }, 0, (0, 0)));
        hot.note(&[b"a"], HotCost { ns: 5_000, bytes: 1 }, 50);
        hot.note(&[b"b"], HotCost { ns: 7_000, bytes: 1 }, 99);
        hot.note(&[], HotCost { ns: 1_000, bytes: 1 }, 99);
        hot.note(&[b"a"], HotCost { ns: 9_000, bytes: 1 }, 100);
        assert!(!hot.is_on());
        let report = hot.report(200, (0, 0)).unwrap();
        assert_eq!((report.is_on, report.lasted_ms, report.all.us(), report.selected.us()), (false, 100, 13, 5));
        assert_eq!((report.by_time, report.by_bytes), (vec![(b"a".to_vec(), 5)], Vec::new()));
        assert!(hot.start(order(), 200, (0, 0)));
    }
}
