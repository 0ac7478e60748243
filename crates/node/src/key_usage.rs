//! What a node knows of the use of keys: when each was used last, and how often lately.
//!
//! ```text
//! cell = used_s(u32) << 32 | faded_min(u24) << 8 | frequency(u8); 0: no use is known
//! ```
//! Keys share cells by their hashes: one that shares its cell with a key in use looks used, and stays. The frequency is
//! logarithmic and fades, as in Redis.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// The frequency of a key at its first use.
const FIRST_FREQUENCY: u8 = 5;
const MINUTES: u64 = 0xFF_FFFF;

/// What all threads of a node share of eviction.
#[derive(Debug, Default)]
pub struct KeyUsage {
    /// Uses are noted.
    tracks: AtomicBool,
    /// The policy goes by frequency.
    by_frequency: AtomicBool,
    /// Since when uses are noted, in ms since the epoch.
    since_ms: AtomicU64,
    /// `lfu-log-factor`: uses that a frequency stands for grow by it.
    log_factor: AtomicI64,
    /// `lfu-decay-time`: minutes without use after which a frequency falls by one; 0: it does not.
    decay_minutes: AtomicI64,
    evicted: AtomicU64,
    /// Some keys are being evicted.
    evicts: AtomicBool,
    /// Hashes of these keys.
    going: Mutex<HashSet<u64>>,
    cells: OnceLock<Box<[AtomicU64]>>,
}

impl KeyUsage {
    /// Notes uses from now on, in about `bytes` of memory, which the first call decides.
    pub fn track(&self, bytes: usize, by_frequency: bool, now_ms: u64) {
        let count = (bytes / size_of::<AtomicU64>()).next_power_of_two().max(2);
        self.cells.get_or_init(|| (0..count).map(|_| AtomicU64::new(0)).collect());
        self.by_frequency.store(by_frequency, Ordering::Relaxed);
        if !self.tracks.swap(true, Ordering::Relaxed) {
            self.since_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Notes no more uses.
    pub fn stop_tracking(&self) {
        self.tracks.store(false, Ordering::Relaxed);
        self.by_frequency.store(false, Ordering::Relaxed);
    }

    /// `lfu-log-factor` and `lfu-decay-time`.
    pub fn set_frequency(&self, log_factor: i64, decay_minutes: i64) {
        self.log_factor.store(log_factor, Ordering::Relaxed);
        self.decay_minutes.store(decay_minutes, Ordering::Relaxed);
    }

    /// Whether uses are noted.
    #[inline]
    #[must_use]
    pub fn tracks(&self) -> bool {
        self.tracks.load(Ordering::Relaxed)
    }

    /// Whether the policy goes by frequency.
    #[must_use]
    pub fn by_frequency(&self) -> bool {
        self.by_frequency.load(Ordering::Relaxed)
    }

    /// The keys of those hashes are being evicted, and no others: events say so, rather than that they were deleted.
    pub fn set_going(&self, keys: impl IntoIterator<Item = u64>) {
        let mut going = self.going.lock();
        going.clear();
        going.extend(keys);
        self.evicts.store(!going.is_empty(), Ordering::Release);
    }

    /// Whether the key of that hash is being evicted.
    pub(crate) fn is_going(&self, hash: u64) -> bool {
        self.evicts.load(Ordering::Acquire) && self.going.lock().contains(&hash)
    }

    /// So many keys were evicted.
    pub fn note_evicted(&self, keys: u64) {
        self.evicted.fetch_add(keys, Ordering::Relaxed);
    }

    /// How many keys were evicted since the node started.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Notes a use of the key of that hash. `chance`: random bits.
    pub fn note(&self, hash: u64, now_ms: u64, chance: u64) {
        let Some(cell) = self.cell(hash) else { return };
        let before = cell.load(Ordering::Relaxed);
        let minutes = (now_ms / 60_000) & MINUTES;
        let frequency = match before {
            0 => FIRST_FREQUENCY,
            _ => self.raised(self.faded(before, minutes), chance),
        };
        let after = (now_ms / 1000) << 32 | minutes << 8 | u64::from(frequency);
        if after != before {
            cell.store(after, Ordering::Relaxed);
        }
    }

    /// For how long the key of that hash has not been used, in ms: as far as is known.
    #[must_use]
    pub fn idle_ms(&self, hash: u64, now_ms: u64) -> u64 {
        let used_s = self.cell(hash).map_or(0, |cell| cell.load(Ordering::Relaxed) >> 32);
        let used_ms = if used_s == 0 { self.since_ms.load(Ordering::Relaxed) } else { used_s * 1000 };
        now_ms.saturating_sub(used_ms)
    }

    /// How often the key of that hash is used: from 0, never, to 255.
    #[must_use]
    pub fn frequency(&self, hash: u64, now_ms: u64) -> u8 {
        let cell = self.cell(hash).map_or(0, |cell| cell.load(Ordering::Relaxed));
        if cell == 0 { 0 } else { self.faded(cell, (now_ms / 60_000) & MINUTES) }
    }

    fn cell(&self, hash: u64) -> Option<&AtomicU64> {
        let cells = self.cells.get()?;
        // Others use the lowest and the highest bits of these hashes.
        cells.get((hash >> 16) as usize & (cells.len() - 1))
    }

    fn faded(&self, cell: u64, minutes: u64) -> u8 {
        let passed = minutes.wrapping_sub(cell >> 8) & MINUTES;
        let decay = self.decay_minutes.load(Ordering::Relaxed).unsigned_abs();
        let steps = passed.checked_div(decay).unwrap_or(0);
        (cell as u8).saturating_sub(u8::try_from(steps).unwrap_or(u8::MAX))
    }

    /// One more, with a probability that falls the higher it is.
    fn raised(&self, frequency: u8, chance: u64) -> u8 {
        let beyond = u64::from(frequency.saturating_sub(FIRST_FREQUENCY));
        let one_of = beyond.saturating_mul(self.log_factor.load(Ordering::Relaxed).unsigned_abs()).saturating_add(1);
        let is_raised = u128::from(chance) * u128::from(one_of) < 1u128 << 64;
        frequency.saturating_add(u8::from(is_raised))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Prng;

    const NOW_MS: u64 = 1_700_000_000_000;

    #[test]
    fn nothing_is_noted_before_a_policy_asks() {
        let usage = KeyUsage::default();
        usage.note(7 << 16, NOW_MS, 0);
        assert!(!usage.tracks());
        assert_eq!(usage.frequency(7 << 16, NOW_MS), 0);
        usage.track(1 << 10, false, NOW_MS);
        assert_eq!(usage.idle_ms(7 << 16, NOW_MS + 9_000), 9_000, "no use is known, but since when");
        usage.note(7 << 16, NOW_MS + 9_000, 0);
        assert_eq!(usage.idle_ms(7 << 16, NOW_MS + 11_500), 2_500);
        assert_eq!(usage.idle_ms(8 << 16, NOW_MS + 11_500), 11_500, "another key");
    }

    #[test]
    fn a_frequency_is_logarithmic_and_fades() {
        let usage = KeyUsage::default();
        usage.track(1 << 10, true, NOW_MS);
        usage.set_frequency(10, 1);
        let mut chance = Prng::new(3);
        let mut after = |uses: usize| {
            (0..uses).for_each(|_| usage.note(9 << 16, NOW_MS, chance.next_u64()));
            usage.frequency(9 << 16, NOW_MS)
        };
        assert_eq!(after(1), 5);
        let hundred = after(100);
        let many = after(100_000);
        assert!((6..30).contains(&hundred) && (100..=255).contains(&many), "{hundred} {many}");
        assert_eq!(usage.frequency(9 << 16, NOW_MS + 10 * 60_000), many - 10);
        assert_eq!(usage.frequency(9 << 16, NOW_MS + 500 * 60_000), 0);
        usage.set_frequency(10, 0);
        assert_eq!(usage.frequency(9 << 16, NOW_MS + 500 * 60_000), many);
    }

    #[test]
    fn keys_go_until_others_do() {
        let usage = KeyUsage::default();
        assert!(!usage.is_going(1));
        usage.set_going([1, 2]);
        assert!(usage.is_going(1) && usage.is_going(2) && !usage.is_going(3));
        usage.set_going([]);
        assert!(!usage.is_going(1));
    }
}
