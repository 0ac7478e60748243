//! Times and numbers of operations, as options have them.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::driver::Limit;

/// A time (`500ms`, `10s`, `2m`, `1h`) or a number of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Span {
    /// A time.
    Time(Duration),
    /// A number of operations.
    Operations(u64),
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let bad = || format!("`{text}` is neither a time such as 500ms, 10s, 2m or 1h nor a number of operations");
        let number: u64 = number.parse().map_err(|_| bad())?;
        let seconds = |factor: u64| number.checked_mul(factor).map(Duration::from_secs).ok_or_else(bad);
        Ok(match unit {
            "" => Self::Operations(number),
            "ms" => Self::Time(Duration::from_millis(number)),
            "s" => Self::Time(seconds(1)?),
            "m" | "min" => Self::Time(seconds(60)?),
            "h" => Self::Time(seconds(3600)?),
            _ => return Err(bad()),
        })
    }
}

impl Span {
    /// As a limit.
    #[must_use]
    pub fn limit(self) -> Limit {
        match self {
            Self::Time(time) => Limit { time: Some(time), operations: None },
            Self::Operations(operations) => Limit { operations: Some(operations), time: None },
        }
    }

    /// As a time.
    ///
    /// # Errors
    /// It is a number of operations.
    pub fn time(self, option: &str) -> Result<Duration, String> {
        match self {
            Self::Time(time) => Ok(time),
            Self::Operations(n) => Err(format!("{option} {n}: give a unit, such as {n}s")),
        }
    }
}

/// Something that will happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedEvent {
    /// When, from the beginning of the phase.
    pub at: Duration,
    /// What.
    pub text: String,
}

impl FromStr for PlannedEvent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (at, label) = text.split_once(':').ok_or_else(|| format!("`{text}`: expected a time, `:` and a text"))?;
        let at = at.parse::<Span>()?.time("--event")?;
        Ok(Self { at, text: label.trim().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn spans() {
        for (text, span) in [
            ("500ms", Some(Span::Time(Duration::from_millis(500)))),
            ("2m", Some(Span::Time(Duration::from_secs(120)))),
            ("1000", Some(Span::Operations(1000))),
            ("", None),
            ("s", None),
            ("10 s", None),
        ] {
            assert_eq!(text.parse().ok(), span, "{text}");
        }
        assert!(Span::Operations(3).time("--timeout").is_err());
    }
}
