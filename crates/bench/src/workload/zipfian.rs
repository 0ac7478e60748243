//! Zipfian ranks as YCSB draws them (Gray et al., "Quickly Generating Billion-Record Synthetic Databases").

/// The skew of YCSB's zipfian choosers.
pub const THETA: f64 = 0.99;

/// Up to here ζ is summed term by term, bit for bit as YCSB sums it; beyond, the tail is Euler and Maclaurin's formula,
/// whose error is far below a double's resolution here. Three billion terms would take minutes.
const SUMMED_TERMS_MAX: u64 = 1 << 22;

/// Extends ζ, the sum of 1/i^θ, from the first `from` terms (whose sum is `sum`) to the first `to`.
#[must_use]
pub fn zeta(from: u64, to: u64, theta: f64, sum: f64) -> f64 {
    let summed_to = if to - from.min(to) > SUMMED_TERMS_MAX { from + SUMMED_TERMS_MAX } else { to };
    let mut sum = sum;
    for i in from..summed_to {
        sum += 1.0 / ((i + 1) as f64).powf(theta);
    }
    if summed_to == to { sum } else { sum + tail(summed_to as f64, to as f64, theta) }
}

/// The terms after `a` up to `n`, for a large `a`.
fn tail(a: f64, n: f64, theta: f64) -> f64 {
    let integral = (n.powf(1.0 - theta) - a.powf(1.0 - theta)) / (1.0 - theta);
    let ends = (n.powf(-theta) - a.powf(-theta)) / 2.0;
    let slopes = theta / 12.0 * (a.powf(-theta - 1.0) - n.powf(-theta - 1.0));
    integral + ends + slopes
}

/// Draws numbers of a range of which the lowest are the most popular.
#[derive(Clone, Debug)]
pub struct Zipfian {
    min: u64,
    items: u64,
    theta: f64,
    alpha: f64,
    eta: f64,
    zeta_2: f64,
    zeta_n: f64,
    /// How many terms `zeta_n` has.
    zeta_terms: u64,
}

impl Zipfian {
    /// Over `min..=max`.
    #[must_use]
    pub fn new(min: u64, max: u64) -> Self {
        assert!(min <= max, "an empty range has no member");
        Self::with_zeta(min, max, zeta(0, max - min + 1, THETA, 0.0))
    }

    /// Over `min..=max`, when ζ of its size is known.
    #[must_use]
    pub fn with_zeta(min: u64, max: u64, zeta_n: f64) -> Self {
        let items = max - min + 1;
        let mut zipfian = Self {
            min,
            items,
            theta: THETA,
            alpha: 1.0 / (1.0 - THETA),
            eta: 0.0,
            zeta_2: zeta(0, 2, THETA, 0.0),
            zeta_n,
            zeta_terms: items,
        };
        zipfian.eta = zipfian.eta();
        zipfian
    }

    /// The highest number that is drawn.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.min + self.items - 1
    }

    /// From the original number of items, also after growth: so does YCSB.
    fn eta(&self) -> f64 {
        (1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta)) / (1.0 - self.zeta_2 / self.zeta_n)
    }

    /// The number that a uniform `u` in [0, 1) stands for.
    #[must_use]
    pub fn at(&self, u: f64) -> u64 {
        self.of(u, self.items)
    }

    /// The same when there are `items` by now. More than ever before extend ζ; fewer keep it.
    pub fn at_grown(&mut self, u: f64, items: u64) -> u64 {
        if items > self.zeta_terms {
            self.zeta_n = zeta(self.zeta_terms, items, self.theta, self.zeta_n);
            self.zeta_terms = items;
            self.eta = self.eta();
        }
        self.of(u, items)
    }

    fn of(&self, u: f64, items: u64) -> u64 {
        let scaled = u * self.zeta_n;
        if scaled < 1.0 {
            self.min
        } else if scaled < 1.0 + 0.5f64.powf(self.theta) {
            self.min + 1
        } else {
            self.min + (items as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Prng;

    #[test]
    fn golden_constants() {
        for (n, value) in [
            (2, 1.5034777750283594),
            (100, 5.294568831377164),
            (1000, 7.728953217284729),
            (1_000_000, 15.391849746037371),
        ] {
            assert_eq!(zeta(0, n, THETA, 0.0), value, "zeta({n})");
        }
        let zipfian = Zipfian::new(0, 999);
        assert_eq!(zipfian.eta, 0.07480608670689805);
        assert_eq!(zipfian.alpha, 99.99999999999991);
    }

    #[test]
    fn huge_sums_are_instant_and_right() {
        let exact = (SUMMED_TERMS_MAX..SUMMED_TERMS_MAX * 2)
            .fold(zeta(0, SUMMED_TERMS_MAX, THETA, 0.0), |sum, i| sum + 1.0 / ((i + 1) as f64).powf(THETA));
        let quick = zeta(0, SUMMED_TERMS_MAX * 2, THETA, 0.0);
        assert!((exact - quick).abs() < 1e-10, "{exact} {quick}");
        // YCSB's constant of the scrambled zipfian, which took it minutes.
        let scrambled = zeta(0, 10_000_000_001, THETA, 0.0);
        assert!((scrambled - 26.469_028_201_783_02).abs() < 1e-7, "{scrambled}");
    }

    #[test]
    fn growth_extends_the_sum_and_shrinking_keeps_it() {
        let mut zipfian = Zipfian::new(0, 99);
        let original = zipfian.clone();
        zipfian.at_grown(0.5, 1000);
        assert_eq!(zipfian.zeta_n, Zipfian::new(0, 999).zeta_n);
        let expected = (1.0 - (2.0f64 / 100.0).powf(1.0 - THETA)) / (1.0 - original.zeta_2 / zipfian.zeta_n);
        assert_eq!(zipfian.eta, expected);
        let before = zipfian.zeta_n;
        zipfian.at_grown(0.5, 50);
        assert_eq!(zipfian.zeta_n, before);
    }

    #[test]
    fn top_ranks_of_a_million_draws() {
        let zipfian = Zipfian::new(0, 999);
        let mut prng = Prng::new(1);
        let mut counts = [0f64; 1000];
        for _ in 0..1_000_000 {
            counts[zipfian.at(prng.next_f64()) as usize] += 1.0;
        }
        // YCSB's own million draws. Its ranks 0 and 1 are exact; the next are an approximation of its formula.
        for (rank, ycsb) in [129_692.0, 65_216.0, 51_074.0, 36_038.0, 28_115.0].into_iter().enumerate() {
            let deviations = (counts[rank] - ycsb) / f64::sqrt(2.0 * ycsb);
            assert!(deviations.abs() < 5.0, "rank {rank}: {} against {ycsb}", counts[rank]);
        }
    }
}
