//! Latency figures, and how they come from a histogram: never from other percentiles.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Points a halving of the distance to 100 % in a spectrum: HdrHistogram's own default.
const TICKS_PER_HALF_DISTANCE: u32 = 5;

/// Percentiles that are exact in every spectrum.
const PRINTED: [f64; 6] = [66.0, 75.0, 80.0, 98.0, 99.5, 99.95];

/// Latency as measured and, where the start was scheduled, from the intended start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// From the moment the request was sent.
    pub measured: LatencySummary,
    /// From the moment it should have been sent; none in a closed loop.
    #[serde(default)]
    pub intended: Option<LatencySummary>,
}

impl Latency {
    /// The one to show when only one is shown: from the intended start, where there is one.
    #[must_use]
    pub fn headline(&self) -> &LatencySummary {
        self.intended.as_ref().unwrap_or(&self.measured)
    }
}

/// A distribution in figures. All 0 when the count is 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// How many were recorded.
    pub count: u64,
    /// Their mean.
    pub mean_us: f64,
    /// The fastest.
    pub min_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p99_9_us: f64,
    /// 99.99th percentile.
    pub p99_99_us: f64,
    /// The slowest.
    pub max_us: f64,
    /// The whole distribution as HdrHistogram plots it: denser towards 100 %, and ending there.
    #[serde(default)]
    pub spectrum: Vec<SpectrumPoint>,
}

/// One point of a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpectrumPoint {
    /// Per cent of the values that are at most `value_us`, 0 to 100.
    pub percentile: f64,
    /// The latency.
    pub value_us: f64,
}

impl LatencySummary {
    /// From a histogram whose values count units of `us_per_value` microseconds (0.001 when it holds nanoseconds).
    /// Maximum and minimum keep the histogram's resolution.
    #[must_use]
    pub fn from_histogram(histogram: &Histogram<u64>, us_per_value: f64) -> Self {
        Self::with_percentiles(histogram, us_per_value, &[])
    }

    /// The same, with these percentiles among those that [`LatencySummary::value_at`] knows exactly.
    #[must_use]
    pub fn with_percentiles(histogram: &Histogram<u64>, us_per_value: f64, asked: &[f64]) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let max = histogram.max();
        // To the nanosecond: the histogram holds no more, and the JSON stays free of rounding noise.
        let whole_ns = |us: f64| (us * 1e3).round() / 1e3;
        let us = |value: u64| whole_ns(value as f64 * us_per_value);
        // A bucket's upper edge may lie above the largest value that was recorded; a percentile may not.
        let at = |percentile: f64| us(histogram.value_at_percentile(percentile).min(max));
        let mut spectrum: Vec<SpectrumPoint> = histogram
            .iter_quantiles(TICKS_PER_HALF_DISTANCE)
            .map(|step| SpectrumPoint {
                percentile: ((step.quantile_iterated_to() * 1e11).round() / 1e9).min(100.0),
                value_us: us(step.value_iterated_to().min(max)),
            })
            .collect();
        // Those that people print beside the steps of the spectrum.
        let printed = PRINTED.iter().chain(asked);
        spectrum.extend(printed.map(|&percentile| SpectrumPoint { percentile, value_us: at(percentile) }));
        spectrum.sort_by(|a, b| a.percentile.total_cmp(&b.percentile).then(a.value_us.total_cmp(&b.value_us)));
        if spectrum.last().is_none_or(|last| last.percentile < 100.0) {
            spectrum.push(SpectrumPoint { percentile: 100.0, value_us: us(max) });
        }
        Self {
            count: histogram.len(),
            // The mean is of bucket middles, so rounding could put it outside the recorded bounds.
            mean_us: whole_ns(histogram.mean() * us_per_value).clamp(us(histogram.min()), us(max)),
            min_us: us(histogram.min()),
            p50_us: at(50.0),
            p90_us: at(90.0),
            p95_us: at(95.0),
            p99_us: at(99.0),
            p99_9_us: at(99.9),
            p99_99_us: at(99.99),
            max_us: us(max),
            spectrum,
        }
    }

    /// The value at any percentile: exact for those that have a field or were asked for, else the spectrum's next point above.
    #[must_use]
    pub fn value_at(&self, percentile: f64) -> f64 {
        let named = [
            (50.0, self.p50_us),
            (90.0, self.p90_us),
            (95.0, self.p95_us),
            (99.0, self.p99_us),
            (99.9, self.p99_9_us),
            (99.99, self.p99_99_us),
        ];
        let exact = named.into_iter().find(|(at, _)| *at == percentile).map(|(_, us)| us);
        let above = || self.spectrum.iter().find(|point| point.percentile >= percentile).map(|point| point.value_us);
        exact.or_else(above).unwrap_or(self.max_us)
    }

    /// The figures in ascending order, with their names as reports print them.
    #[must_use]
    pub fn ladder(&self) -> [(&'static str, f64); 8] {
        [
            ("min", self.min_us),
            ("p50", self.p50_us),
            ("p90", self.p90_us),
            ("p95", self.p95_us),
            ("p99", self.p99_us),
            ("p99.9", self.p99_9_us),
            ("p99.99", self.p99_99_us),
            ("max", self.max_us),
        ]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_histogram_of_nanoseconds_becomes_microseconds() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        for nanoseconds in 1..=1000u64 {
            histogram.record(nanoseconds * 1000).unwrap();
        }
        let summary = LatencySummary::from_histogram(&histogram, 0.001);
        assert_eq!(summary.count, 1000);
        assert!((summary.p50_us - 500.0).abs() < 1.0, "{summary:?}");
        assert!((summary.p99_us - 990.0).abs() < 1.0, "{summary:?}");
        assert!((summary.max_us - 1000.0).abs() < 1.0, "{summary:?}");
        assert!(summary.spectrum.len() > 20);
        assert_eq!(super::super::validate::latency(&summary, "READ"), Ok(()));
    }

    #[test]
    fn percentiles_that_are_asked_for_are_exact() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        for nanoseconds in 1..=1000u64 {
            histogram.record(nanoseconds * 1000).unwrap();
        }
        let asked: Vec<f64> = (0..=1000).map(|tenth| f64::from(tenth) / 10.0).collect();
        let summary = LatencySummary::with_percentiles(&histogram, 0.001, &asked);
        for percentile in &asked {
            // One value in a thousand is a tenth of a per cent.
            let (found, exact) = (summary.value_at(*percentile), percentile * 10.0);
            assert!((found - exact).abs() < 2.0, "{percentile}: {found}, not {exact}");
        }
        assert_eq!(super::super::validate::latency(&summary, "READ"), Ok(()));
        let without = LatencySummary::from_histogram(&histogram, 0.001);
        assert!(without.value_at(61.0) > 640.0, "the next point above: {}", without.value_at(61.0));
    }

    #[test]
    fn an_empty_histogram_is_all_zero() {
        let histogram = Histogram::<u64>::new(3).unwrap();
        assert_eq!(LatencySummary::from_histogram(&histogram, 1.0), LatencySummary::default());
        assert_eq!(super::super::validate::latency(&LatencySummary::default(), "READ"), Ok(()));
    }
}
