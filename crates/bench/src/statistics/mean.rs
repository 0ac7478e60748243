//! The mean of a series whose neighbours resemble each other, and how sure it is.
//!
//! Seconds of a run are not independent: a compaction lasts for several of them. The standard error that ignores it is
//! too small, and any two runs then seem to differ. Two estimates that allow for it are made, and the larger holds:
//! - *blocking* (Flyvbjerg and Petersen, J. Chem. Phys. 91, 1989): neighbours are averaged in pairs, again and again,
//!   until a block is so long that blocks are independent. The level is chosen by the criterion of Lee, Mitas and
//!   Wagner: the first block length B with B³ > 2n (s_B / s_1)⁴.
//! - *cosines* (Lazarus, Lewis, Stock and Watson, J. Bus. Econ. Stat. 36, 2018): the mean square of the series' first
//!   cosine coefficients, which is about the spectrum at frequency 0.

use std::f64::consts::PI;

/// A figure, its standard error, and how many degrees of freedom that error has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) error: f64,
    pub(crate) freedom: f64,
}

/// A shorter series says nothing of its noise.
pub(crate) const POINTS_MIN: usize = 8;
/// Fewer blocks than this say nothing of their variance.
const BLOCKS_MIN: usize = 4;

/// The mean of a series in order of time; none if it is too short.
#[must_use]
pub(crate) fn steady_mean(series: &[f64]) -> Option<Estimate> {
    if series.len() < POINTS_MIN {
        return None;
    }
    let value = mean(series);
    let (blocks, cosines) = (blocking(series), cosines(series, value));
    let (variance, freedom) = if blocks.0 >= cosines.0 { blocks } else { cosines };
    Some(Estimate { value, error: variance.sqrt(), freedom })
}

/// The mean of several runs' figures. What lies between the runs counts if it is more than what lies within them.
#[must_use]
pub(crate) fn pool(runs: &[Estimate]) -> Option<Estimate> {
    let count = runs.len() as f64;
    let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
    match runs {
        [] => None,
        [only] => Some(*only),
        _ => {
            let within: f64 = runs.iter().map(|run| run.error * run.error).sum::<f64>() / (count * count);
            let between = variance(&values) / count;
            let freedom = if between >= within { count - 1.0 } else { runs.iter().map(|run| run.freedom).sum::<f64>() };
            Some(Estimate { value: mean(&values), error: between.max(within).sqrt(), freedom })
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let middle = mean(values);
    values.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

/// The variance of the mean, and its degrees of freedom.
fn blocking(series: &[f64]) -> (f64, f64) {
    let count = series.len() as f64;
    let alone = variance(series) / count;
    let mut blocks = series.to_vec();
    let mut length = 1.0f64;
    loop {
        let here = variance(&blocks) / blocks.len() as f64;
        let settled = alone == 0.0 || length.powi(3) > 2.0 * count * (here / alone).powi(2);
        if settled || blocks.len() / 2 < BLOCKS_MIN {
            return (here, blocks.len() as f64 - 1.0);
        }
        // The oldest is left out where the number is odd.
        let odd = blocks.len() % 2;
        blocks = blocks[odd..].chunks_exact(2).map(|pair| f64::midpoint(pair[0], pair[1])).collect();
        length *= 2.0;
    }
}

/// The same from the first cosine coefficients. How many is a compromise between bias and scatter.
fn cosines(series: &[f64], middle: f64) -> (f64, f64) {
    let count = series.len() as f64;
    let terms = (0.4 * count.powf(2.0 / 3.0)).round().max(3.0);
    let square = |k: f64| {
        let wave = |(at, value): (usize, &f64)| (value - middle) * (PI * k * (at as f64 + 0.5) / count).cos();
        (series.iter().enumerate().map(wave).sum::<f64>()).powi(2) * 2.0 / count
    };
    let spectrum = (1..=terms as u32).map(|k| square(f64::from(k))).sum::<f64>() / terms;
    (spectrum / count, terms)
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::statistics::student::two_sided_p;
    use vocab::Prng;

    /// Noise whose neighbours resemble each other: each is `likeness` times the last and something new.
    pub(crate) fn alike(count: usize, likeness: f64, prng: &mut Prng) -> Vec<f64> {
        let mut normal = || (0..12).map(|_| prng.next_f64()).sum::<f64>() - 6.0;
        let mut value = normal() / (1.0 - likeness * likeness).sqrt();
        (0..count)
            .map(|_| {
                let now = value;
                value = likeness * value + normal();
                now
            })
            .collect()
    }

    /// How often, of `trials`, two series that differ by `shift` are told apart at 5 %.
    fn told_apart(count: usize, likeness: f64, shift: f64, trials: u32) -> f64 {
        let mut prng = Prng::new(7);
        let found = (0..trials).filter(|_| {
            let a = steady_mean(&alike(count, likeness, &mut prng)).unwrap();
            let b = steady_mean(&alike(count, likeness, &mut prng)).unwrap();
            let (va, vb) = (a.error * a.error, b.error * b.error);
            let freedom = (va + vb).powi(2) / (va * va / a.freedom + vb * vb / b.freedom);
            two_sided_p((a.value - b.value + shift) / (va + vb).sqrt(), freedom) < 0.05
        });
        found.count() as f64 / f64::from(trials)
    }

    #[test]
    fn equal_series_are_told_apart_about_as_often_as_promised() {
        for (count, likeness, at_most) in [(30, 0.3, 0.06), (60, 0.0, 0.06), (60, 0.5, 0.07), (120, 0.6, 0.07)] {
            let found = told_apart(count, likeness, 0.0, 2000);
            assert!((0.01..at_most).contains(&found), "{count} points, likeness {likeness}: {found}");
        }
    }

    #[test]
    fn a_shift_is_found() {
        // Noise of 5 % with a likeness of one half: a shift of 5 % is one deviation of the noise.
        let deviation = 1.0 / (1.0f64 - 0.25).sqrt();
        let found = told_apart(120, 0.5, deviation, 500);
        assert!(found > 0.95, "{found}");
    }

    #[test]
    fn runs_that_lie_apart_are_less_sure_than_each_of_them() {
        let of = |value| Estimate { value, error: 0.1, freedom: 20.0 };
        let apart = pool(&[of(9.0), of(10.0), of(11.0)]).unwrap();
        assert_eq!((apart.value, apart.freedom), (10.0, 2.0));
        assert!((apart.error - (1.0f64 / 3.0).sqrt()).abs() < 1e-12);
        let close = pool(&[of(10.0), of(10.0), of(10.0)]).unwrap();
        assert_eq!((close.value, close.freedom), (10.0, 60.0));
        assert!((close.error - 0.1 / 3.0f64.sqrt()).abs() < 1e-12);
        assert_eq!(pool(&[]), None);
        assert_eq!(steady_mean(&[1.0; POINTS_MIN - 1]), None);
        assert_eq!(steady_mean(&[3.0; 20]).unwrap().error, 0.0);
    }
}
