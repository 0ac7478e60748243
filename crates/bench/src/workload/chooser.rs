//! Which record an operation is about: YCSB's request distributions, over the offsets of a [`RecordRange`].
//!
//! [`RecordRange`]: super::range::RecordRange

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vocab::Prng;

use super::key::fnv;
use super::zipfian::Zipfian;

/// The ranks of the scrambled zipfian are of this many items whatever the record count, so that ζ need not be summed.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Chooses offsets. Each thread has its own; only `Sequential` shares its counter.
#[derive(Clone, Debug)]
pub enum KeyChooser {
    /// Each alike.
    Uniform {
        /// How many.
        count: u64,
    },
    /// Popular records, scattered over the key space by a hash.
    Scrambled {
        /// Draws the rank.
        ranks: Zipfian,
        /// How many, those included that the run is expected to insert.
        count: u64,
        /// Mixed into the rank before it is hashed: one for each process that is stood in for, each with other hot keys. 0
        /// is YCSB's own choice.
        salts: Vec<u64>,
        /// Which of them is used.
        drawn: usize,
    },
    /// The newest records are the most popular.
    Latest(Zipfian),
    /// One after the other, and again from the beginning.
    Sequential {
        /// How many.
        count: u64,
        /// How many have been chosen.
        turn: Arc<AtomicU64>,
    },
    /// A part of the records gets a part of the operations.
    Hotspot {
        /// How many.
        count: u64,
        /// How many of the lowest offsets are hot.
        hot: u64,
        /// The share of the operations that goes to them.
        share: f64,
    },
    /// The newest records are the most popular, by an exponential law.
    Exponential {
        /// The law's rate.
        gamma: f64,
    },
}

impl KeyChooser {
    /// Scrambled zipfian over `0..=highest`.
    #[must_use]
    pub fn scrambled(highest: u64, salts: Vec<u64>) -> Self {
        assert!(!salts.is_empty(), "at least one process asks for keys");
        let ranks = Zipfian::with_zeta(0, SCRAMBLED_ITEMS, SCRAMBLED_ZETA);
        Self::Scrambled { ranks, count: highest + 1, salts, drawn: 0 }
    }

    /// Exponential: `percentile` per cent of the requests go to the newest `reach` records.
    #[must_use]
    pub fn exponential(percentile: f64, reach: f64) -> Self {
        Self::Exponential { gamma: -(1.0 - percentile / 100.0).ln() / reach }
    }

    /// The next offset below `end`, the number of offsets that may be read: drawn again until it is one.
    pub fn next(&mut self, prng: &mut Prng, end: u64) -> u64 {
        loop {
            let drawn = match self {
                Self::Uniform { count } => Some(below(prng, *count)),
                Self::Sequential { count, turn } => Some(turn.fetch_add(1, Ordering::Relaxed) % *count),
                Self::Hotspot { count, hot, share } => {
                    if *hot > 0 && (*hot == *count || prng.next_f64() < *share) {
                        Some(below(prng, *hot))
                    } else {
                        Some(*hot + below(prng, *count - *hot))
                    }
                }
                Self::Scrambled { salts, drawn, .. } => {
                    if salts.len() > 1 {
                        *drawn = prng.below(salts.len() as u64) as usize;
                    }
                    self.at(prng.next_f64(), end)
                }
                Self::Latest(_) | Self::Exponential { .. } => self.at(prng.next_f64(), end),
            };
            if let Some(number) = drawn.filter(|&number| number < end) {
                return number;
            }
        }
    }

    /// The offset that a uniform `u` in [0, 1) stands for, of the choosers that take one; none when it must be redrawn.
    fn at(&mut self, u: f64, end: u64) -> Option<u64> {
        match self {
            Self::Scrambled { ranks, count, salts, drawn } => Some(fnv((ranks.at(u) ^ salts[*drawn]) as i64) % *count),
            Self::Latest(ranks) => {
                let limit = end - 1;
                Some(limit - ranks.at_grown(u, limit).min(limit - 1))
            }
            Self::Exponential { gamma } => (end - 1).checked_sub(exponential(u, *gamma) as u64),
            Self::Uniform { .. } | Self::Sequential { .. } | Self::Hotspot { .. } => None,
        }
    }
}

/// The exponential law's value for a uniform `u`.
fn exponential(u: f64, gamma: f64) -> f64 {
    -u.ln() / gamma
}

/// As YCSB: the absolute value of a signed random number, modulo.
fn below(prng: &mut Prng, count: u64) -> u64 {
    (prng.next_u64() as i64).unsigned_abs() % count
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// u, zipf(1000), scrambled rank, scrambled(0..999), latest(counter 1000), exponential(95, 857.1428571).
    const GOLDEN: [(f64, u64, u64, u64, u64, f64); 8] = [
        (0.04023622747639077, 0, 1, 620, 999, 919.304210),
        (0.23427523730722954, 2, 199, 78, 997, 415.236027),
        (0.2764275113385283, 3, 576, 833, 996, 367.896692),
        (0.4038971921104527, 10, 13385, 200, 989, 259.396127),
        (0.643986762193989, 67, 3877301, 728, 932, 125.915441),
        (0.7341600082528429, 134, 30079817, 644, 865, 88.419578),
        (0.9167435101693864, 535, 1682178398, 792, 465, 24.871825),
        (0.9955624317975772, 967, 9100920093, 186, 33, 1.272508),
    ];

    #[test]
    fn golden_draws() {
        let zipfian = Zipfian::new(0, 999);
        let ranks = Zipfian::with_zeta(0, SCRAMBLED_ITEMS, SCRAMBLED_ZETA);
        let mut scrambled = KeyChooser::scrambled(999, vec![0]);
        let mut latest = KeyChooser::Latest(Zipfian::new(0, 998));
        let KeyChooser::Exponential { gamma } = KeyChooser::exponential(95.0, 857.1428571) else { unreachable!() };
        for (u, rank, scrambled_rank, number, newest, x) in GOLDEN {
            assert_eq!(zipfian.at(u), rank, "zipf({u})");
            assert_eq!(ranks.at(u), scrambled_rank, "scrambled rank({u})");
            assert_eq!(scrambled.at(u, 1000), Some(number), "scrambled({u})");
            assert_eq!(latest.at(u, 1000), Some(newest), "latest({u})");
            assert_eq!(format!("{:.6}", exponential(u, gamma)), format!("{x:.6}"), "exponential({u})");
        }
    }

    #[test]
    fn the_scrambled_favourites() {
        let mut chooser = KeyChooser::scrambled(999, vec![0]);
        let mut own = KeyChooser::scrambled(999, vec![0x5555]);
        let mut prng = Prng::new(11);
        let (mut counts, mut own_counts) = (vec![0f64; 1000], vec![0f64; 1000]);
        for _ in 0..1_000_000 {
            counts[chooser.next(&mut prng, 1000) as usize] += 1.0;
            own_counts[own.next(&mut prng, 1000) as usize] += 1.0;
        }
        for (number, ycsb) in [(211, 38_920.0), (620, 20_331.0), (393, 16_438.0), (802, 12_097.0), (769, 9_700.0)] {
            let deviations = (counts[number] - ycsb) / f64::sqrt(2.0 * ycsb);
            assert!(deviations.abs() < 5.0, "{number}: {} against {ycsb}", counts[number]);
        }
        let hottest = |counts: &[f64]| (0..1000).max_by(|&a, &b| counts[a].total_cmp(&counts[b])).unwrap();
        assert_eq!(hottest(&counts), 211);
        assert_ne!(hottest(&own_counts), 211, "another salt must have other favourites");
    }

    #[test]
    fn every_chooser_stays_in_its_range() {
        let choosers = [
            (KeyChooser::Uniform { count: 50 }, 0..50),
            (KeyChooser::scrambled(400, vec![0]), 0..200),
            (KeyChooser::Latest(Zipfian::new(0, 198)), 1..200),
            (KeyChooser::Sequential { count: 50, turn: Arc::default() }, 0..50),
            (KeyChooser::Hotspot { count: 50, hot: 5, share: 0.8 }, 0..50),
            (KeyChooser::Hotspot { count: 50, hot: 0, share: 0.8 }, 0..50),
            (KeyChooser::Hotspot { count: 50, hot: 50, share: 0.8 }, 0..50),
            (KeyChooser::exponential(95.0, 857.0), 0..200),
        ];
        for (mut chooser, range) in choosers {
            let mut prng = Prng::new(13);
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..20_000 {
                seen.insert(chooser.next(&mut prng, 200));
            }
            assert!(seen.iter().all(|number| range.contains(number)), "{chooser:?}: {seen:?}");
            assert!(seen.len() as u64 > (range.end - range.start) / 2, "{chooser:?}: {seen:?}");
        }
    }

    #[test]
    fn hotspot_sends_its_share_to_the_hot() {
        let mut chooser = KeyChooser::Hotspot { count: 1000, hot: 200, share: 0.8 };
        let mut prng = Prng::new(17);
        let hot = (0..100_000).filter(|_| chooser.next(&mut prng, 1000) < 200).count();
        assert!((79_000..81_000).contains(&hot), "{hot}");
    }
}
