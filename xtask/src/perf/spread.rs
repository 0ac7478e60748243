//! The middle of some figures and the ends, and how figures are written.

use serde_json::{Value, json};

/// The middle of some figures, and the ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
}

impl Spread {
    /// None of no figures.
    pub fn of(figures: impl Iterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { median: f64::midpoint(low, high), min, max })
    }

    /// All of it.
    pub fn json(self) -> Value {
        json!({ "median": self.median, "min": self.min, "max": self.max })
    }

    /// As a ratio, or a time in ms.
    pub fn ratio(self) -> String {
        format!("{:.2} ({:.2}–{:.2})", self.median, self.min, self.max)
    }

    /// As a rate.
    pub fn rate(self) -> String {
        format!("{} ({}–{})", grouped(self.median), grouped(self.min), grouped(self.max))
    }

    /// The median alone.
    pub fn middle(self) -> String {
        format!("{:.2}", self.median)
    }
}

/// 1234567.8 as 1,234,568.
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Spread, grouped};

    #[test]
    fn medians_of_odd_even_and_none() {
        for (figures, expected) in [
            (vec![], None),
            (vec![3.0], Some((3.0, 3.0, 3.0))),
            (vec![5.0, 1.0], Some((3.0, 1.0, 5.0))),
            (vec![9.0, 1.0, 2.0], Some((2.0, 1.0, 9.0))),
        ] {
            let expected = expected.map(|(median, min, max)| Spread { median, min, max });
            assert_eq!(Spread::of(figures.into_iter()), expected);
        }
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0.0, "0"), (999.0, "999"), (1000.0, "1,000"), (1_234_567.8, "1,234,568")] {
            assert_eq!(grouped(number), text);
        }
    }
}
