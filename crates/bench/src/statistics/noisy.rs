//! A figure with its noise, and what may be said of the difference of two.

use std::sync::Arc;

use hdrhistogram::Histogram;

use super::mean::Estimate;
use super::student::{quantile, two_sided_p};

/// A figure with its noise.
#[derive(Clone, Debug)]
pub(crate) struct Noisy {
    /// The figure.
    pub(crate) value: f64,
    freedom: f64,
    noise: Noise,
}

#[derive(Clone, Debug)]
enum Noise {
    /// Alike on both sides.
    Error(f64),
    /// A quantile: what scatters is the share of the values above it, and its bounds are where the distribution has the
    /// bounds of that share (Woodruff, J. Am. Stat. Assoc. 47, 1952).
    Share { distribution: Arc<Histogram<u64>>, above: f64, error: f64, us_per_value: f64 },
}

/// How two figures are set against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// By how many times: both are above 0.
    Ratio,
    /// By how much: a share of failures, which may be 0.
    Difference,
}

/// By how much the second figure differs from the first: as a share of it, or as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Difference {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// How probable a difference as large is when there is none.
    pub(crate) chance: f64,
}

impl Noisy {
    /// A mean.
    #[must_use]
    pub(crate) fn mean(of: Estimate) -> Self {
        Self { value: of.value, freedom: of.freedom, noise: Noise::Error(of.error) }
    }

    /// The quantile of `distribution` that a share `above` of all values exceeds.
    #[must_use]
    pub(crate) fn quantile(distribution: Arc<Histogram<u64>>, above: Estimate, us_per_value: f64) -> Self {
        let value = at(&distribution, above.value) * us_per_value;
        let noise = Noise::Share { distribution, above: above.value, error: above.error, us_per_value };
        Self { value, freedom: above.freedom, noise }
    }

    /// Where it lies if it is off by so many standard errors.
    fn interval(&self, errors: f64) -> (f64, f64) {
        match &self.noise {
            Noise::Error(error) => (self.value - errors * error, self.value + errors * error),
            Noise::Share { distribution, above, error, us_per_value } => {
                let low = at(distribution, (above + errors * error).min(1.0)) * us_per_value;
                let rest = above - errors * error;
                // Beyond the last value nothing is known.
                let high = if rest > 0.0 { at(distribution, rest) * us_per_value } else { f64::INFINITY };
                (low.min(self.value), high.max(self.value))
            }
        }
    }

    /// Where it lies with this confidence.
    #[must_use]
    pub(crate) fn bounds(&self, confidence: f64) -> (f64, f64) {
        self.interval(quantile(confidence, self.freedom))
    }

    /// By how much `after` differs, with bounds of this confidence.
    #[must_use]
    pub(crate) fn to(&self, after: &Self, scale: Scale, confidence: f64) -> Difference {
        let place = |value: f64| match scale {
            Scale::Ratio => value.max(f64::MIN_POSITIVE).ln(),
            Scale::Difference => value,
        };
        let (before, now) = (place(self.value), place(after.value));
        let distance = now - before;
        // Bounds of a difference from those of its parts (MOVER: Zou and Donner, Stat. Med. 27, 2008).
        let reach = |errors: f64| {
            let of = |figure: &Self| {
                let (low, high) = figure.interval(errors);
                (place(low), place(high))
            };
            let ((low, high), (after_low, after_high)) = (of(self), of(after));
            let down = ((now - after_low).powi(2) + (high - before).powi(2)).sqrt();
            let up = ((after_high - now).powi(2) + (before - low).powi(2)).sqrt();
            (distance - down, distance + up)
        };
        let freedom = self.common_freedom(after, place);
        let (low, high) = reach(quantile(confidence, freedom));
        let shown = |distance: f64| match scale {
            Scale::Ratio => distance.exp() - 1.0,
            Scale::Difference => distance,
        };
        let chance = two_sided_p(errors_to_zero(distance, reach), freedom);
        Difference { value: shown(distance), low: shown(low), high: shown(high), chance }
    }

    /// Welch's degrees of freedom.
    fn common_freedom(&self, other: &Self, place: impl Fn(f64) -> f64) -> f64 {
        let variance = |figure: &Self| {
            let (low, high) = figure.interval(1.0);
            let high = if high.is_finite() { place(high) } else { 2.0 * place(figure.value) - place(low) };
            ((high - place(low)) / 2.0).powi(2)
        };
        let (a, b) = (variance(self), variance(other));
        let both = (a + b).powi(2) / (a * a / self.freedom + b * b / other.freedom);
        if both.is_finite() { both } else { self.freedom.min(other.freedom) }
    }
}

/// How many standard errors it takes until no difference is possible.
fn errors_to_zero(distance: f64, reach: impl Fn(f64) -> (f64, f64)) -> f64 {
    const FAR: f64 = 1e4;
    let holds_zero = |errors: f64| {
        let (low, high) = reach(errors);
        low <= 0.0 && high >= 0.0
    };
    if distance == 0.0 {
        return 0.0;
    }
    let (mut near, mut far) = (0.0, FAR);
    if !holds_zero(far) {
        return f64::INFINITY;
    }
    for _ in 0..60 {
        let middle = f64::midpoint(near, far);
        if holds_zero(middle) { far = middle } else { near = middle }
    }
    far
}

/// The value that a share `above` of all values exceeds.
fn at(distribution: &Histogram<u64>, above: f64) -> f64 {
    distribution.value_at_quantile((1.0 - above).clamp(0.0, 1.0)).min(distribution.max()) as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn mean(value: f64, error: f64) -> Noisy {
        Noisy::mean(Estimate { value, error, freedom: 20.0 })
    }

    #[test]
    fn a_difference_is_judged_by_the_noise_of_both() {
        let same = mean(100.0, 2.0).to(&mean(101.0, 2.0), Scale::Ratio, 0.95);
        assert!((same.value - 0.01).abs() < 1e-9 && same.low < 0.0 && same.high > 0.0 && same.chance > 0.5, "{same:?}");
        let less = mean(100.0, 1.0).to(&mean(90.0, 1.0), Scale::Ratio, 0.95);
        assert!(less.high < -0.05 && less.chance < 1e-5, "{less:?}");
        let by = mean(10.0, 3.0).to(&mean(18.0, 4.0), Scale::Difference, 0.95);
        // 8 with an error of 5, and Welch's freedom.
        assert!((two_sided_p(8.0 / 5.0, 37.09) - by.chance).abs() < 1e-3, "{by:?}");
        let exact = mean(5.0, 0.0).to(&mean(6.0, 0.0), Scale::Ratio, 0.95);
        assert!(exact.chance == 0.0 && (exact.high - 0.2).abs() < 1e-9, "{exact:?}");
        assert_eq!(mean(0.0, 0.0).to(&mean(0.0, 0.0), Scale::Difference, 0.95).chance, 1.0);
    }

    #[test]
    fn a_quantile_lies_where_its_share_may_lie() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 10_000_000, 3).unwrap();
        (1..=10_000u64).for_each(|value| histogram.record(value * 100).unwrap());
        let above = Estimate { value: 0.01, error: 0.001, freedom: 1e6 };
        let p99 = Noisy::quantile(Arc::new(histogram), above, 0.01);
        let (low, high) = p99.bounds(0.95);
        for (found, expected) in [(p99.value, 9900.0), (low, 9880.4), (high, 9919.6)] {
            assert!((found / expected - 1.0).abs() < 0.002, "{found}, not {expected}");
        }
        let rare = Estimate { value: 0.0001, error: 0.0001, freedom: 1e6 };
        let Noise::Share { distribution, .. } = &p99.noise else { unreachable!() };
        assert!(Noisy::quantile(Arc::clone(distribution), rare, 0.01).bounds(0.95).1.is_infinite());
    }
}
