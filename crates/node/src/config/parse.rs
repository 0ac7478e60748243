//! Values of settings from text and back, with the errors of Redis 7.

use super::Kind;
use super::output_limit::OutputLimits;
use crate::skipped;
use std::borrow::Cow;
use vocab::limits::SETTING_VALUE_BYTES_MAX;
use vocab::memory_bytes;

/// A value in the form in which it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Of `Bool` (0 and 1), `Integer`, `Memory` (bytes) and `Word` (which one).
    Number(i64),
    /// Of everything else.
    Text(String),
}

const EVENT_LETTERS: &str = "Ag$lshzxeKEtmdn";

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

    /// The text of a value of a setting of this kind.
    pub(super) fn format(self, number: i64, text: &str) -> String {
        match self {
            Self::Bool => if number == 0 { "no" } else { "yes" }.to_owned(),
            Self::Integer { .. } | Self::Memory { .. } => number.to_string(),
            Self::Word(words) => {
                usize::try_from(number).ok().and_then(|n| words.get(n)).copied().unwrap_or("").to_owned()
            }
            Self::Text | Self::Entries | Self::SavePoints | Self::OutputLimits | Self::EventLetters => text.to_owned(),
        }
    }
}

fn within(n: i64, min: i64, max: i64) -> Result<Value, Cow<'static, str>> {
    if (min..=max).contains(&n) {
        return Ok(Value::Number(n));
    }
    Err(format!("argument must be between {min} and {max} inclusive").into())
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

/// The letters in the order in which Redis answers them; `A` stands for all classes but `m` and `n`.
fn event_letters(text: &str) -> Result<Value, Cow<'static, str>> {
    const ALL: &str = "g$lshzxetd";
    if !text.chars().all(|letter| EVENT_LETTERS.contains(letter)) {
        return Err(format!("Invalid event class character. Use '{EVENT_LETTERS}'.").into());
    }
    let has = |letter: char| text.contains(letter) || (text.contains('A') && ALL.contains(letter));
    let mut kept = String::new();
    if ALL.chars().all(has) {
        kept.push('A');
    } else {
        kept.extend(ALL.chars().filter(|&letter| has(letter)));
    }
    kept.extend("nKEm".chars().filter(|&letter| has(letter)));
    Ok(Value::Text(kept))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{event_letters, save_points};
    use crate::config::parse::Value;

    #[test]
    fn letters_and_save_points_have_one_form() {
        for (given, kept) in [("KEA", "AKE"), ("xE", "xE"), ("g$lshzxetd", "A"), ("", ""), ("nKm$", "$nKm")] {
            assert_eq!(event_letters(given), Ok(Value::Text(kept.into())), "{given}");
        }
        assert!(event_letters("Q").is_err());
        assert_eq!(save_points(" 900 1  300 10").unwrap(), Value::Text("900 1 300 10".into()));
        for wrong in ["900", "0 1", "1 -1", "a b"] {
            assert!(save_points(wrong).is_err(), "{wrong}");
        }
    }
}
