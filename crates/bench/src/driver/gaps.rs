//! How long nothing succeeded: one bit for each hundredth of a second in which something did.

use std::time::Duration;

const STEP_MS: u64 = 10;
/// A phase of more than a day is not watched beyond it.
const STEPS_MAX: u64 = 24 * 3600 * 1000 / STEP_MS;

/// The moments of successes of one thread, or of all.
#[derive(Default)]
pub(super) struct Successes {
    bits: Vec<u64>,
}

impl Successes {
    /// Something succeeded so long after the phase began.
    #[inline]
    pub(super) fn note(&mut self, since: Duration) {
        let step = since.as_millis() as u64 / STEP_MS;
        let place = (step / 64) as usize;
        if place >= self.bits.len() {
            self.grow(step);
        }
        if let Some(word) = self.bits.get_mut(place) {
            *word |= 1 << (step % 64);
        }
    }

    #[cold]
    fn grow(&mut self, step: u64) {
        if step < STEPS_MAX {
            self.bits.resize((step / 64) as usize + 64, 0);
        }
    }

    /// As another process takes them.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.bits.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// What [`Successes::to_bytes`] made; more than a day of it is cut off.
    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("chunks of eight")));
        Self { bits: words.take((STEPS_MAX / 64) as usize + 64).collect() }
    }

    /// Adds another thread's.
    pub(super) fn merge(&mut self, other: &Self) {
        self.bits.resize(self.bits.len().max(other.bits.len()), 0);
        self.bits.iter_mut().zip(&other.bits).for_each(|(word, other)| *word |= other);
    }

    /// The longest time between `from` and `to` without a success; none when there was never one at all.
    pub(super) fn longest_gap(&self, from: Duration, to: Duration) -> Option<Duration> {
        if self.bits.iter().all(|word| *word == 0) {
            return None;
        }
        let step = |at: Duration| at.as_millis() as u64 / STEP_MS;
        let end = step(to).min(STEPS_MAX);
        let succeeded = |at: u64| self.bits.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 1);
        let (mut longest, mut since) = (0, step(from));
        for at in step(from)..end {
            if succeeded(at) {
                longest = longest.max(at - since);
                since = at + 1;
            }
        }
        Some(Duration::from_millis(longest.max(end.saturating_sub(since)) * STEP_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_is_found_over_all_threads() {
        let ms = Duration::from_millis;
        let (mut one, mut two) = (Successes::default(), Successes::default());
        assert_eq!(one.longest_gap(ms(0), ms(1000)), None);
        (0..1000).step_by(5).filter(|at| !(300..700).contains(at)).for_each(|at| one.note(ms(at)));
        assert_eq!(one.longest_gap(ms(0), ms(1000)), Some(ms(400)));
        two.note(ms(450));
        two.note(ms(6_000));
        one.merge(&two);
        assert_eq!(one.longest_gap(ms(0), ms(1000)), Some(ms(240)), "from 460 to 700");
        assert_eq!(one.longest_gap(ms(0), ms(6_010)), Some(ms(5_000)));
        assert_eq!(one.longest_gap(ms(500), ms(800)), Some(ms(200)), "only within the bounds");
        assert_eq!(one.longest_gap(ms(0), ms(9_000)), Some(ms(5_000)));
        assert_eq!(one.longest_gap(ms(0), ms(20_000)), Some(ms(13_990)), "at the end, too");
    }
}
