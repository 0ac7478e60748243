//! The search itself: which rate to trial next, in the face of noise. No clock, no store.

use crate::slo::Judged;

/// Below this multiple of the bound one trial is enough: noise makes latencies longer, seldom shorter. A trial that fails is
/// believed at once only when the store fell far behind.
const CLEARLY_HOLDS: f64 = 0.6;
/// From one rate to the next while there is no bound on one side.
const STRIDE: f64 = 1.6;
/// A search that takes more trials than this has no answer.
const TRIALS_MAX: u32 = 60;
/// The most steps down without a rate that holds: if there is none by then, something other than load delays operations.
const STEPS_DOWN_MAX: u32 = 12;

/// How it searches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hunt {
    /// The first rate.
    pub(super) start_per_s: f64,
    /// The distance between what holds and what does not, as a share, at which it ends.
    pub(super) tolerance: f64,
    /// Trials of a rate that most of them decide about.
    pub(super) repeats: u32,
    /// Nothing below it is tried: there are too few operations in a trial to tell what is asked for.
    pub(super) rate_min: f64,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Found {
    /// The highest rate that holds: it was tried, as often as was asked unless the search had to be ended.
    pub(super) best_per_s: Option<f64>,
    /// The lowest above it that does not.
    pub(super) failed_per_s: Option<f64>,
    /// It took too many trials and was ended.
    pub(super) ended: bool,
}

/// No measurement comes any more: the run was stopped, or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended;

struct Searcher<'a> {
    hunt: Hunt,
    trials: u32,
    measure: &'a mut dyn FnMut(f64) -> Result<Judged, Ended>,
}

/// Looks for the highest rate at which `measure` says that the objective holds.
pub(super) fn hunt(hunt: Hunt, measure: &mut dyn FnMut(f64) -> Result<Judged, Ended>) -> Result<Found, Ended> {
    let mut searcher = Searcher { hunt, trials: 0, measure };
    let (mut low, mut high) = searcher.bracket()?;
    let mut sure = None;
    // It held by luck: the first step down is as far as what is looked for is wide.
    let mut step = 1.0 + hunt.tolerance;
    while let (Some(holds), Some(fails)) = (low, high) {
        if !searcher.goes_on() {
            break;
        }
        if fails / holds > 1.0 + hunt.tolerance {
            let middle = (holds * fails).sqrt();
            if searcher.decide(middle)? { low = Some(middle) } else { high = Some(middle) }
        } else if sure == low || searcher.most_of(holds, hunt.repeats)? {
            return Ok(Found { best_per_s: low, failed_per_s: high, ended: false });
        } else {
            (low, high) = searcher.below(holds, &mut step)?;
            sure = low;
        }
    }
    Ok(Found { best_per_s: low, failed_per_s: high, ended: !searcher.goes_on() })
}

impl Searcher<'_> {
    fn goes_on(&self) -> bool {
        self.trials < TRIALS_MAX
    }

    fn one(&mut self, rate: f64) -> Result<Judged, Ended> {
        self.trials += 1;
        (self.measure)(rate)
    }

    /// One trial if it is clear, else most of several.
    fn decide(&mut self, rate: f64) -> Result<bool, Ended> {
        let first = self.one(rate)?;
        if first.ratio < CLEARLY_HOLDS || first.ratio.is_infinite() {
            return Ok(first.holds);
        }
        self.most_after(rate, first.holds, self.hunt.repeats)
    }

    fn most_of(&mut self, rate: f64, of: u32) -> Result<bool, Ended> {
        let first = self.one(rate)?.holds;
        self.most_after(rate, first, of)
    }

    /// Goes on until one side has most of `of` trials.
    fn most_after(&mut self, rate: f64, first: bool, of: u32) -> Result<bool, Ended> {
        let enough = of / 2 + 1;
        let (mut held, mut failed) = (u32::from(first), u32::from(!first));
        while held < enough && failed < enough {
            if self.one(rate)?.holds { held += 1 } else { failed += 1 }
        }
        Ok(held >= enough)
    }

    /// A lower rate that holds as often as was asked, and the lowest above it that does not. Steps grow: a store that has
    /// become slower since is not followed down by a twentieth at a time.
    fn below(&mut self, from: f64, step: &mut f64) -> Result<(Option<f64>, Option<f64>), Ended> {
        let mut fails = from;
        while self.goes_on() && fails > self.hunt.rate_min {
            let rate = (fails / *step).max(self.hunt.rate_min);
            *step = (*step * *step).min(STRIDE);
            let first = self.one(rate)?;
            if first.ratio.is_finite() && self.most_after(rate, first.holds, self.hunt.repeats)? {
                return Ok((Some(rate), Some(fails)));
            }
            fails = rate;
        }
        Ok((None, Some(fails)))
    }

    /// A rate that holds and one that does not, as far as there are any.
    fn bracket(&mut self) -> Result<(Option<f64>, Option<f64>), Ended> {
        let mut rate = self.hunt.start_per_s.max(self.hunt.rate_min);
        let (mut low, mut high) = (None, None);
        let mut steps_down = 0;
        while self.goes_on() && (low.is_none() || high.is_none()) {
            if self.decide(rate)? {
                low = Some(rate);
                rate *= STRIDE;
            } else {
                high = Some(rate);
                steps_down += 1;
                if rate <= self.hunt.rate_min || steps_down > STEPS_DOWN_MAX {
                    break;
                }
                rate = (rate / STRIDE).max(self.hunt.rate_min);
            }
        }
        Ok((low, high))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::Prng;

    /// A queue whose p99 grows as one over what is left of its capacity, with noise.
    fn store(capacity: f64, noise: f64, prng: &mut Prng) -> impl FnMut(f64) -> Result<Judged, Ended> {
        move |rate| {
            let why = String::new();
            if rate > capacity * 0.98 {
                return Ok(Judged { holds: false, ratio: f64::INFINITY, why });
            }
            let factor = (noise * ((0..12).map(|_| prng.next_f64()).sum::<f64>() - 6.0)).exp();
            // 1 ms at rest; the objective is 5 ms, so it breaks at four fifths of the capacity.
            let ratio = 1.0 / (1.0 - rate / capacity) / 5.0 * factor;
            Ok(Judged { holds: ratio < 1.0, ratio, why })
        }
    }

    #[test]
    fn the_highest_rate_is_found_from_any_start() {
        for start_per_s in [3.0, 500.0, 79_000.0, 5e6] {
            let hunt_it = Hunt { start_per_s, tolerance: 0.05, repeats: 3, rate_min: 1.0 };
            let found = hunt(hunt_it, &mut store(100_000.0, 0.0, &mut Prng::new(1))).unwrap();
            let (best, failed) = (found.best_per_s.unwrap(), found.failed_per_s.unwrap());
            assert!(best < 80_000.0 && failed >= 80_000.0 && failed / best <= 1.05, "{start_per_s}: {found:?}");
        }
    }

    #[test]
    fn noise_costs_tries_and_little_truth() {
        let (mut off, mut most) = (0, 0);
        for seed in 0..200 {
            let mut prng = Prng::new(seed);
            let mut trials = 0;
            let mut noisy = store(100_000.0, 0.15, &mut prng);
            let mut counted = |rate| {
                trials += 1;
                noisy(rate)
            };
            let hunt_it = Hunt { start_per_s: 50_000.0, tolerance: 0.05, repeats: 3, rate_min: 1.0 };
            let best = hunt(hunt_it, &mut counted).unwrap().best_per_s.unwrap();
            // Noise of 15 % in a p99 blurs the place where it breaks by some 3 %.
            off += u32::from(!(72_000.0..=84_000.0).contains(&best));
            most = most.max(trials);
        }
        assert!(off <= 10 && most <= 45, "{off} of 200 were off, {most} trials at most");
    }

    #[test]
    fn a_promise_that_cannot_be_kept_has_no_rate() {
        let mut never = |_: f64| Ok(Judged { holds: false, ratio: 9.0, why: String::new() });
        let far = Hunt { start_per_s: 1e6, tolerance: 0.05, repeats: 3, rate_min: 1.0 };
        assert!(hunt(far, &mut never).unwrap().failed_per_s.unwrap() > 1000.0, "it does not go down without end");
        let hunt_it = Hunt { start_per_s: 100.0, tolerance: 0.05, repeats: 3, rate_min: 1.0 };
        let nothing = Found { best_per_s: None, failed_per_s: Some(1.0), ended: false };
        assert_eq!(hunt(hunt_it, &mut never), Ok(nothing));
        assert_eq!(hunt(hunt_it, &mut |_| Err(Ended)), Err(Ended));
        let mut always = |_: f64| Ok(Judged { holds: true, ratio: 0.1, why: String::new() });
        let found = hunt(hunt_it, &mut always).unwrap();
        assert!(found.failed_per_s.is_none() && found.ended, "it ends all the same");
    }

    #[test]
    fn the_answer_was_tried_and_held_even_if_the_store_becomes_slower_meanwhile() {
        let mut ended = 0;
        for (seed, good_for) in (0..200).map(|seed| (seed, seed % 40)) {
            let (mut early, mut late) = (Prng::new(seed), Prng::new(seed + 1000));
            let mut held = Vec::new();
            let mut trials = 0;
            let mut before = store(100_000.0, 0.15, &mut early);
            let mut after = store(20_000.0, 0.25, &mut late);
            let mut changing = |rate| {
                trials += 1;
                let judged = if trials <= good_for { before(rate) } else { after(rate) }?;
                held.extend(judged.holds.then_some(rate));
                Ok(judged)
            };
            let hunt_it = Hunt { start_per_s: 50_000.0, tolerance: 0.05, repeats: 3, rate_min: 100.0 };
            let found = hunt(hunt_it, &mut changing).unwrap();
            assert!(found.best_per_s.is_none_or(|best| held.contains(&best)), "seed {seed}: {found:?} never held");
            assert!(found.best_per_s.is_some() || found.ended, "seed {seed}: some rate holds");
            assert!((!found.ended || trials >= 60) && trials <= 65, "seed {seed}: {trials} trials");
            ended += u32::from(found.ended);
        }
        assert!(ended <= 20, "{ended} of 200 did not come to an end");
    }
}
