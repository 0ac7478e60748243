//! Seeded fuzzing without coverage, for tests: valid input is mutated, and what reads it must not panic.

use crate::Prng;
use std::time::{Duration, Instant};

/// Rounds that every run makes, however short it is to be.
const ROUNDS_MIN: u64 = 500;
/// So many rounds go by between two looks at the clock.
const ROUNDS_A_LOOK: u64 = 50;

/// Calls `round` with a generator that follows from `seed`, again and again: for `BASALT_FUZZ_SECONDS` of this thread's
/// processor time, or for one second of it.
pub fn rounds(seed: u64, mut round: impl FnMut(&mut Prng)) {
    let seconds = std::env::var("BASALT_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    rounds_within(Duration::from_secs(seconds), seed, &mut round);
}

fn rounds_within(time: Duration, seed: u64, round: &mut dyn FnMut(&mut Prng)) {
    let (clock, mut prng, mut done) = (WorkClock::new(), Prng::new(seed), 0);
    while done < ROUNDS_MIN || done % ROUNDS_A_LOOK != 0 || clock.elapsed() < time {
        round(&mut prng);
        done += 1;
    }
}

/// How much processor time a thread has had: a test that goes by it does the same work on a busy machine. Where the system
/// does not tell, it is the time on the wall, and it is always at least a twentieth of that, so that a thread that waits
/// comes to an end.
pub struct WorkClock {
    wall: Instant,
    begun: Option<Duration>,
}

impl WorkClock {
    /// Begins now, for this thread.
    #[must_use]
    pub fn new() -> Self {
        Self { wall: Instant::now(), begun: Self::processor_time() }
    }

    /// The processor time of the calling thread, which made this, since then.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let wall = self.wall.elapsed();
        let worked = Self::processor_time().zip(self.begun).map(|(now, begun)| now.saturating_sub(begun));
        worked.map_or(wall, |worked| worked.max(wall / 20))
    }

    fn processor_time() -> Option<Duration> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        let nanos = text.split_whitespace().next()?.parse().ok()?;
        // A kernel that does not count says 0.
        Some(Duration::from_nanos(nanos)).filter(|time| !time.is_zero())
    }
}

impl Default for WorkClock {
    fn default() -> Self {
        Self::new()
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
