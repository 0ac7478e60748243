//! Student's t distribution, for as many degrees of freedom as there are, whole or not.

/// The probability that |t| is at least this large by chance.
#[must_use]
pub(crate) fn two_sided_p(t: f64, freedom: f64) -> f64 {
    if t.is_nan() || freedom <= 0.0 {
        return 1.0;
    }
    if t.is_infinite() {
        return 0.0;
    }
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// What |t| stays below with this `confidence`, such as 0.95.
#[must_use]
pub(crate) fn quantile(confidence: f64, freedom: f64) -> f64 {
    let chance = 1.0 - confidence;
    let mut high = 1.0;
    while two_sided_p(high, freedom) > chance && high < 1e12 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if two_sided_p(middle, freedom) > chance { low = middle } else { high = middle }
    }
    high
}

/// The logarithm of the gamma function, by Stirling's series above 10 and the recurrence below.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < 10.0 {
        below += x.ln();
        x += 1.0;
    }
    let square = x * x;
    let series = (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - below
}

/// The regularised incomplete beta function.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The continued fraction converges fast on this side of the mean only.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * continued_fraction(x, a, b) / a
    } else {
        1.0 - front * continued_fraction(1.0 - x, b, a) / b
    }
}

/// The continued fraction of the incomplete beta function, evaluated from the front (Lentz).
fn continued_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let keep = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut numerator = 1.0;
    let mut denominator = 1.0 / keep(1.0 - (a + b) * x / (a + 1.0));
    let mut result = denominator;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut factor = 1.0;
        for term in [even, odd] {
            denominator = 1.0 / keep(1.0 + term * denominator);
            numerator = keep(1.0 + term / numerator);
            factor = denominator * numerator;
            result *= factor;
        }
        if (factor - 1.0).abs() < 1e-14 {
            break;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_as_tables_print_them() {
        for (confidence, freedom, expected) in [
            (0.95, 1.0, 12.7062),
            (0.95, 2.0, 4.3027),
            (0.95, 5.0, 2.5706),
            (0.95, 10.0, 2.2281),
            (0.99, 10.0, 3.1693),
            (0.95, 30.0, 2.0423),
            (0.90, 4.0, 2.1318),
            (0.95, 1e6, 1.9600),
        ] {
            let found = quantile(confidence, freedom);
            assert!((found - expected).abs() < 6e-5, "{confidence} {freedom}: {found}, not {expected}");
            assert!((two_sided_p(found, freedom) - (1.0 - confidence)).abs() < 1e-9);
        }
        assert_eq!((two_sided_p(0.0, 5.0), two_sided_p(f64::INFINITY, 5.0)), (1.0, 0.0));
    }
}
