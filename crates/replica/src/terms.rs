//! The terms of a log's entries, as far as this process has seen them: no entry is read for its term alone.

use std::collections::VecDeque;

/// Runs of entries of one term: the index of the first, and the term; both rise. The last run goes on to the last entry.
#[derive(Default)]
pub(crate) struct Terms {
    runs: VecDeque<(u64, u64)>,
}

impl Terms {
    /// Of a log of which two entries are known, index and term each. Between two of one term all are of that term.
    pub(crate) fn between(first: (u64, u64), last: (u64, u64)) -> Self {
        let known = if first.1 == last.1 { first } else { last };
        Self { runs: VecDeque::from([known]) }
    }

    /// Entry `index` is the last one now.
    pub(crate) fn append(&mut self, index: u64, term: u64) {
        while self.runs.back().is_some_and(|(first, _)| *first >= index) {
            self.runs.pop_back();
        }
        if self.runs.back().is_none_or(|(_, last)| *last != term) {
            self.runs.push_back((index, term));
        }
    }

    /// The term of entry `index`, which is there, if it is known.
    pub(crate) fn of(&self, index: u64) -> Option<u64> {
        let behind = self.runs.partition_point(|(first, _)| *first <= index);
        Some(self.runs.get(behind.checked_sub(1)?)?.1)
    }

    /// Entries up to `index` are not asked for any more.
    pub(crate) fn forget(&mut self, index: u64) {
        while self.runs.get(1).is_some_and(|(next, _)| *next <= index) {
            self.runs.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Prng;

    /// Against a plain list, while leaders replace the end of the log and its beginning is truncated.
    #[test]
    fn terms_are_those_of_the_entries() {
        for seed in 0..200 {
            let mut prng = Prng::new(seed);
            let mut plain = vec![1u64; 10];
            let mut terms = Terms::between((3, 1), (9, 1));
            let (mut truncated, mut term) = (3, 1);
            for _ in 0..100 {
                match prng.below(10) {
                    0 => {
                        term += 1;
                        let kept = truncated + 1 + prng.below((plain.len() - truncated) as u64) as usize;
                        plain.truncate(kept);
                    }
                    1 => {
                        truncated += prng.below((plain.len() - truncated) as u64) as usize;
                        terms.forget(truncated as u64);
                    }
                    _ => {}
                }
                plain.push(term);
                terms.append(plain.len() as u64 - 1, term);
                for (index, expected) in plain.iter().enumerate().skip(truncated) {
                    assert_eq!(terms.of(index as u64), Some(*expected), "entry {index}, seed {seed}");
                }
            }
        }
        let terms = Terms::between((3, 1), (9, 2));
        assert_eq!([8, 9, 10].map(|index| terms.of(index)), [None, Some(2), Some(2)], "what is between is not known");
    }
}
