//! Latencies in buckets: eight for each doubling, so that a percentile is at most an eighth too high.

/// Below this everything is in the first bucket.
const FIRST_NS: u64 = 1 << FIRST_BITS;
const FIRST_BITS: u32 = 7;
/// From here on (137 s) everything is in the last bucket.
const LAST_BITS: u32 = 37;
const PER_DOUBLING_BITS: u32 = 3;

/// How many buckets there are.
pub(super) const BUCKETS: usize = 2 + (((LAST_BITS - FIRST_BITS) as usize) << PER_DOUBLING_BITS);

/// The bucket of a latency.
#[inline]
pub(super) fn bucket_of(ns: u64) -> usize {
    if ns < FIRST_NS {
        return 0;
    }
    let doubling = ns.ilog2();
    if doubling >= LAST_BITS {
        return BUCKETS - 1;
    }
    let part = (ns >> (doubling - PER_DOUBLING_BITS)) as usize & ((1 << PER_DOUBLING_BITS) - 1);
    1 + ((doubling - FIRST_BITS) << PER_DOUBLING_BITS) as usize + part
}

/// The first latency that is beyond the bucket.
fn end_of(bucket: usize) -> u64 {
    if bucket == 0 {
        return FIRST_NS;
    }
    let (doubling, part) = ((bucket - 1) >> PER_DOUBLING_BITS, (bucket - 1) & ((1 << PER_DOUBLING_BITS) - 1));
    let start = FIRST_NS << doubling;
    start + (start >> PER_DOUBLING_BITS) * (part as u64 + 1)
}

/// How many latencies fell into each bucket.
#[derive(Clone, Debug)]
pub struct Histogram {
    pub(super) counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }
}

impl Histogram {
    /// Counts one latency.
    pub fn record(&mut self, ns: u64) {
        self.counts[bucket_of(ns)] += 1;
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many took less than so many ns, as a power of two.
    #[must_use]
    pub fn below(&self, bits: u32) -> u64 {
        let end = 1u64 << bits.min(63);
        (0..BUCKETS).take_while(|bucket| end_of(*bucket) <= end).map(|bucket| self.counts[bucket]).sum()
    }

    /// The latency, in ns, that `percentile` (0 to 100) of all do not exceed; 0 if there are none.
    #[must_use]
    pub fn percentile_ns(&self, percentile: f64) -> u64 {
        let count = self.count();
        let rank = ((percentile / 100.0 * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut sum = 0;
        for (bucket, n) in self.counts.iter().enumerate() {
            sum += n;
            if sum >= rank {
                return end_of(bucket) - 1;
            }
        }
        0
    }

    /// The cumulative distribution as LATENCY HISTOGRAM has it: microseconds, doubling from 1, and how many took no
    /// longer; only where the count rises. Redis labels its buckets by the largest value that they cannot tell from
    /// their bound: 33, 66, 132 rather than 32, 65, 131.
    #[must_use]
    pub fn cumulative_us(&self) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let (mut sum, mut bucket) = (0, 0);
        for bits in 10..=LAST_BITS + 1 {
            let end: u64 = 1 << bits;
            let before = sum;
            while bucket < BUCKETS && (end_of(bucket) <= end || bits > LAST_BITS) {
                sum += self.counts[bucket];
                bucket += 1;
            }
            if sum > before {
                found.push(((end + end / 128 - 1) / 1000, sum));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_hold_what_they_say() {
        let mut last = 0;
        for ns in (0..40u32).flat_map(|bits| [1u64 << bits, (1 << bits) + (1 << bits) / 3, (2 << bits) - 1]) {
            let bucket = bucket_of(ns);
            assert!(bucket >= last && bucket < BUCKETS, "{ns}");
            assert!(ns < end_of(bucket) || bucket == BUCKETS - 1, "{ns}");
            assert!(bucket == 0 || bucket == BUCKETS - 1 || end_of(bucket - 1) <= ns, "{ns}");
            last = bucket;
        }
    }

    #[test]
    fn percentiles_and_the_cumulative_form() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.percentile_ns(50.0), histogram.cumulative_us()), (0, vec![]));
        for ns in 1..=1000u64 {
            histogram.record(ns * 1000);
        }
        for (percentile, ns) in [(50.0, 500_000), (99.0, 990_000), (99.9, 999_000), (100.0, 1_000_000)] {
            let got = histogram.percentile_ns(percentile);
            assert!(got >= ns && got <= ns + ns / 8 + 1, "{percentile}: {got}");
        }
        let expected = vec![(1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (33, 32), (66, 65), (132, 131), (264, 262)];
        assert_eq!(histogram.cumulative_us()[..9], expected[..]);
        assert_eq!([10, 14, 20, 34].map(|bits| histogram.below(bits)), [1, 16, 1000, 1000]);
        assert_eq!(histogram.cumulative_us()[9..], [(528, 524), (1056, 1000)]);
        histogram.record(u64::MAX);
        assert_eq!(histogram.cumulative_us().last().map(|last| last.1), Some(1001));
    }
}
