//! Seeded fuzzing without coverage, for tests: valid input is mutated, and what reads it must not panic.

use crate::Prng;
use std::time::{Duration, Instant};

/// Rounds that every run makes, however short it is to be.
const ROUNDS_MIN: u64 = 500;

/// Calls `round` with a generator that follows from `seed`, again and again: for `BASALT_FUZZ_SECONDS`, or for one second.
pub fn rounds(seed: u64, mut round: impl FnMut(&mut Prng)) {
    let seconds = std::env::var("BASALT_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    rounds_within(Duration::from_secs(seconds), seed, &mut round);
}

fn rounds_within(time: Duration, seed: u64, round: &mut dyn FnMut(&mut Prng)) {
    let (until, mut prng, mut done) = (Instant::now() + time, Prng::new(seed), 0);
    while done < ROUNDS_MIN || Instant::now() < until {
        round(&mut prng);
        done += 1;
    }
}

/// Makes one to `changes_max` changes to `bytes`, which are not empty before or afterwards: bytes are replaced, inserted, cut
/// off.
pub fn mutate(bytes: &mut Vec<u8>, changes_max: u64, prng: &mut Prng) {
    for _ in 0..=prng.below(changes_max) {
        let at = prng.below(bytes.len() as u64) as usize;
        match prng.below(4) {
            0 => bytes[at] = prng.next_u64() as u8,
            1 => bytes[at] ^= 1 << prng.below(8),
            2 => bytes.truncate(at.max(1)),
            _ => bytes.insert(at, prng.next_u64() as u8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutation_is_small_and_each_kind_occurs() {
        let base = vec![0u8; 20];
        let (mut shorter, mut longer, mut other) = (0, 0, 0);
        let mut prng = Prng::new(1);
        for _ in 0..1000 {
            let mut bytes = base.clone();
            mutate(&mut bytes, 3, &mut prng);
            assert!((1..=23).contains(&bytes.len()), "{}", bytes.len());
            match bytes.len().cmp(&base.len()) {
                std::cmp::Ordering::Less => shorter += 1,
                std::cmp::Ordering::Greater => longer += 1,
                std::cmp::Ordering::Equal => other += u64::from(bytes != base),
            }
        }
        assert!(shorter > 100 && longer > 100 && other > 100, "{shorter} {longer} {other}");
    }

    #[test]
    fn a_run_makes_rounds_that_follow_from_its_seed() {
        let first = |seed| {
            let mut drawn = Vec::new();
            rounds_within(Duration::ZERO, seed, &mut |prng| drawn.push(prng.next_u64()));
            drawn
        };
        let drawn = first(1);
        assert_eq!((drawn.len() as u64, &drawn), (ROUNDS_MIN, &first(1)));
        assert_ne!(drawn, first(2));
    }
}
