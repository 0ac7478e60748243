//! Which share of the requests memory answers, when it holds a share of the records.

use super::options::Requests;
use crate::workload::{THETA, zeta};

/// Sums of so many terms are added up; longer ones are worked out.
const ADDED_UP: u64 = 10_000;
/// The part of a node's memory that can hold data and the system's cache of them.
pub(super) const CACHE_SHARE: f64 = 0.8;

/// The share of requests that miss, with `held` (0 to 1) of so many records in memory: of those that are asked for most.
pub(super) fn miss_share(requests: Requests, held: f64, records: f64) -> f64 {
    let held = held.clamp(0.0, 1.0);
    match requests {
        Requests::Uniform => 1.0 - held,
        Requests::Zipfian => 1.0 - zeta_of((records * held).max(1.0)) / zeta_of(records.max(1.0)),
    }
}

/// The sum of the first `n` terms of i to the power of -THETA: long ones by Euler and Maclaurin's formula.
fn zeta_of(n: f64) -> f64 {
    let whole = (n.floor() as u64).min(ADDED_UP);
    let sum = zeta(0, whole, THETA, 0.0);
    let from = whole as f64;
    if n <= from {
        return sum;
    }
    let integral = |x: f64| x.powf(1.0 - THETA) / (1.0 - THETA);
    sum + integral(n) - integral(from) + (n.powf(-THETA) - from.powf(-THETA)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sums_are_those_that_were_added_up() {
        // As they are known of YCSB's generators.
        for (n, known) in
            [(1000.0, 7.728953217284729), (1e6, 15.391849746037371), (10_000_000_001.0, 26.46902820178302)]
        {
            assert!((zeta_of(n) / known - 1.0).abs() < 1e-6, "{n}: {}", zeta_of(n));
        }
    }

    #[test]
    fn memory_answers_what_is_popular_first() {
        assert_eq!(miss_share(Requests::Uniform, 0.25, 1e9), 0.75);
        let miss = miss_share(Requests::Zipfian, 0.25, 1e9);
        assert!((0.04..0.08).contains(&miss), "{miss}");
        assert!(miss_share(Requests::Zipfian, 1.0, 1e9).abs() < 1e-9);
    }
}
