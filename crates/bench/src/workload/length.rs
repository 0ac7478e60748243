//! How long a field or a scan is.

use vocab::Prng;

use super::zipfian::Zipfian;

/// A distribution of lengths.
#[derive(Clone, Debug)]
pub enum Lengths {
    /// Always the same.
    Constant(u64),
    /// Each of `min..=max` alike.
    Uniform {
        /// The shortest.
        min: u64,
        /// The longest.
        max: u64,
    },
    /// Short ones are the most frequent.
    Zipfian(Zipfian),
    /// As a file of YCSB's histogram form has it.
    Histogram(Histogram),
}

impl Lengths {
    /// The next length.
    pub fn next(&self, prng: &mut Prng) -> u64 {
        match self {
            Self::Constant(length) => *length,
            Self::Uniform { min, max } => min + prng.below(max - min + 1),
            Self::Zipfian(zipfian) => zipfian.at(prng.next_f64()),
            Self::Histogram(histogram) => histogram.at(prng.below(histogram.area)),
        }
    }

    /// Whether every length is the same, and then which.
    #[must_use]
    pub fn constant(&self) -> Option<u64> {
        if let Self::Constant(length) = self { Some(*length) } else { None }
    }

    /// The longest.
    #[must_use]
    pub fn max(&self) -> u64 {
        match self {
            Self::Constant(length) => *length,
            Self::Uniform { max, .. } => *max,
            Self::Zipfian(zipfian) => zipfian.max(),
            Self::Histogram(histogram) => (histogram.buckets.len() as u64 - 1) * histogram.block_size,
        }
    }

    /// The mean, by sampling where there is no formula.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant(length) => *length as f64,
            Self::Uniform { min, max } => (min + max) as f64 / 2.0,
            Self::Zipfian(_) | Self::Histogram(_) => {
                const SAMPLES: u32 = 10_000;
                let mut prng = Prng::new(0);
                (0..SAMPLES).map(|_| self.next(&mut prng) as f64).sum::<f64>() / f64::from(SAMPLES)
            }
        }
    }
}

/// Lengths in buckets of one size, as YCSB's `fieldlengthhistogram` file gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    block_size: u64,
    buckets: Vec<u64>,
    area: u64,
}

impl Histogram {
    /// Reads `BlockSize<TAB>n` and then lines of `bucket<TAB>count`, the buckets ascending from 0.
    ///
    /// # Errors
    /// What is wrong, and in which line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let first = lines.next().and_then(|(_, line)| line.trim().strip_prefix("BlockSize"));
        let block_size = first.and_then(|rest| rest.trim().parse().ok()).filter(|&size| size > 0);
        let block_size = block_size.ok_or("line 1 must be BlockSize, a tab and a number above 0")?;
        let mut buckets = Vec::new();
        for (index, line) in lines {
            let mut words = line.split_whitespace();
            let (bucket, count) = (words.next(), words.next().and_then(|count| count.parse::<u64>().ok()));
            match (bucket.and_then(|bucket| bucket.parse::<usize>().ok()), count) {
                (Some(bucket), Some(count)) if bucket == buckets.len() => buckets.push(count),
                _ => return Err(format!("line {} must be bucket {}, a tab and a count", index + 1, buckets.len())),
            }
        }
        let area = buckets.iter().sum();
        if area == 0 { Err("every bucket is empty".to_owned()) } else { Ok(Self { block_size, buckets, area }) }
    }

    /// The length that a `number` below the area stands for. The last bucket answers its lower edge: so does YCSB.
    fn at(&self, number: u64) -> u64 {
        let mut rest = number;
        let last = self.buckets.len() - 1;
        for (bucket, &count) in self.buckets[..last].iter().enumerate() {
            if rest <= count {
                return (bucket as u64 + 1) * self.block_size;
            }
            rest -= count;
        }
        last as u64 * self.block_size
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_length_is_within_its_bounds() {
        let mut prng = Prng::new(3);
        for lengths in [Lengths::Uniform { min: 1, max: 9 }, Lengths::Zipfian(Zipfian::new(1, 9))] {
            let mut seen = [0u32; 10];
            for _ in 0..10_000 {
                seen[lengths.next(&mut prng) as usize] += 1;
            }
            assert!(seen[0] == 0 && seen[1..].iter().all(|&n| n > 50), "{lengths:?}: {seen:?}");
            assert_eq!(lengths.max(), 9, "{lengths:?}");
        }
        assert_eq!(Lengths::Constant(5).next(&mut prng), 5);
    }

    #[test]
    fn a_histogram_file() {
        let histogram = Histogram::parse("BlockSize\t10\n0\t2\n1\t3\n2\t5\n").unwrap();
        let lengths: Vec<u64> = (0..histogram.area).map(|number| histogram.at(number)).collect();
        assert_eq!(lengths, [10, 10, 10, 20, 20, 20, 20, 20, 20, 20]);
        assert_eq!(Lengths::Histogram(histogram).max(), 20);
        for bad in ["", "BlockSize 0", "Blocks 4\n", "BlockSize 4\n1 2", "BlockSize 4\n0 x", "BlockSize 4\n0 0"] {
            assert!(Histogram::parse(bad).is_err(), "{bad}");
        }
    }
}
