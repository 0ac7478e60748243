//! Values of settings from text and back, with the errors of Redis 7.

use super::Kind;
use super::output_limit::OutputLimits;
use crate::keyspace_events::{EVENT_LETTERS, EventClasses};
use crate::skipped;
use std::borrow::Cow;
use vocab::limits::SETTING_VALUE_BYTES_MAX;
use vocab::memory_bytes;

/// A value in the form in which it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Of `Bool` (0 and 1), `Integer`, `Memory` (bytes), `MemoryOrPercent`, `Word` (which one) and `EventLetters` (a set).
    Number(i64),
    /// Of everything else.
    Text(String),
}

impl Kind {
    /// Reads a value of a setting of this kind, or says what is wrong with it.
    pub(super) fn parse(self, text: &[u8]) -> Result<Value, Cow<'static, str>> {
        match self {
            Self::Bool => match text {
                _ if text.eq_ignore_ascii_case(b"yes") => Ok(Value::Number(1)),
                _ if text.eq_ignore_ascii_case(b"no") => Ok(Value::Number(0)),
                _ => Err("argument must be 'yes' or 'no'".into()),
            },
            Self::Integer { min, max } => {
                let n = resp::parse_integer(text).ok_or("argument couldn't be parsed into an integer")?;
                within(n, min, max)
            }
            Self::Memory { min, max } => {
                let n = memory_bytes(text).ok_or("argument must be a memory value")?;
                within(i64::try_from(n).unwrap_or(i64::MAX), min, max)
            }
            Self::MemoryOrPercent => memory_or_percent(text),
            Self::Word(words) => words
                .iter()
                .position(|word| text.eq_ignore_ascii_case(word.as_bytes()))
                .map(|at| Value::Number(at as i64))
                .ok_or_else(|| format!("argument(s) must be one of the following: {}", words.join(", ")).into()),
            Self::Text => plain(text).map(|text| Value::Text(text.to_owned())),
            Self::Entries => entries(plain(text)?),
            Self::SavePoints => save_points(plain(text)?),
            Self::OutputLimits => Ok(Value::Text(OutputLimits::parse(plain(text)?)?.text())),
            Self::EventLetters => event_letters(plain(text)?),
        }
    }

    /// The one text of a value that may be written in several ways.
    pub(super) fn normal(self, text: &str) -> Result<String, Cow<'static, str>> {
        Ok(match self.parse(text.as_bytes())? {
            Value::Number(n) => self.format(n, ""),
            Value::Text(text) => text,
        })
    }

    /// The text of a value of a setting of this kind.
    pub(super) fn format(self, number: i64, text: &str) -> String {
        match self {
            Self::Bool => if number == 0 { "no" } else { "yes" }.to_owned(),
            Self::MemoryOrPercent if number < 0 => format!("{}%", -number),
            Self::Integer { .. } | Self::Memory { .. } | Self::MemoryOrPercent => number.to_string(),
            Self::Word(words) => {
                usize::try_from(number).ok().and_then(|n| words.get(n)).copied().unwrap_or("").to_owned()
            }
            Self::EventLetters => EventClasses::of_bits(number).letters(),
            Self::Text | Self::Entries | Self::SavePoints | Self::OutputLimits => text.to_owned(),
        }
    }
}

fn within(n: i64, min: i64, max: i64) -> Result<Value, Cow<'static, str>> {
    if (min..=max).contains(&n) {
        return Ok(Value::Number(n));
    }
    Err(format!("argument must be between {min} and {max} inclusive").into())
}

fn memory_or_percent(text: &[u8]) -> Result<Value, Cow<'static, str>> {
    let Some(percent) = text.strip_suffix(b"%") else {
        let bytes = memory_bytes(text).ok_or("argument must be a memory or percent value")?;
        return within(i64::try_from(bytes).unwrap_or(i64::MAX), 0, i64::MAX);
    };
    match resp::parse_integer(percent) {
        Some(percent @ 0..=100) => Ok(Value::Number(-percent)),
        Some(percent) if percent > 100 => Err("percentage argument must be less or equal to 100".into()),
        _ => Err("argument must be a memory or percent value".into()),
    }
}

fn plain(text: &[u8]) -> Result<&str, Cow<'static, str>> {
    if text.len() > SETTING_VALUE_BYTES_MAX {
        return Err(format!("argument must have at most {SETTING_VALUE_BYTES_MAX} bytes").into());
    }
    std::str::from_utf8(text).map_err(|_| "argument must be text".into())
}

fn entries(text: &str) -> Result<Value, Cow<'static, str>> {
    skipped::parse(text).ok_or("argument must be a list of entries, such as 3:1027,4:88")?;
    Ok(Value::Text(text.to_owned()))
}

fn save_points(text: &str) -> Result<Value, Cow<'static, str>> {
    let numbers: Option<Vec<i64>> = text.split_whitespace().map(|word| resp::parse_integer(word.as_bytes())).collect();
    let valid = |numbers: &[i64]| numbers.chunks(2).all(|pair| pair.len() == 2 && pair[0] >= 1 && pair[1] >= 0);
    match numbers {
        Some(numbers) if valid(&numbers) => {
            Ok(Value::Text(numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")))
        }
        _ => Err("Invalid save parameters".into()),
    }
}

fn event_letters(text: &str) -> Result<Value, Cow<'static, str>> {
    let classes = EventClasses::parse(text);
    let classes = classes.ok_or_else(|| format!("Invalid event class character. Use '{EVENT_LETTERS}'."))?;
    Ok(Value::Number(classes.bits()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{memory_or_percent, save_points};
    use crate::config::Kind;
    use crate::config::parse::Value;

    #[test]
    fn bytes_and_percentages() {
        for (given, kept, shown) in [("0", 0, "0"), ("2kb", 2048, "2048"), ("5%", -5, "5%"), ("100%", -100, "100%")] {
            assert_eq!(memory_or_percent(given.as_bytes()), Ok(Value::Number(kept)), "{given}");
            assert_eq!(Kind::MemoryOrPercent.format(kept, ""), shown);
        }
        for wrong in ["101%", "-1%", "%", "x", "-1"] {
            assert!(memory_or_percent(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn save_points_have_one_form() {
        assert_eq!(save_points(" 900 1  300 10").unwrap(), Value::Text("900 1 300 10".into()));
        for wrong in ["900", "0 1", "1 -1", "a b"] {
            assert!(save_points(wrong).is_err(), "{wrong}");
        }
    }
}
