//! Conditions on the value of a string: SET, DELEX and DELIFEQ do what they are asked only where it holds.

use super::args::is_word;
use super::args::{SYNTAX, bytes_of, check_release, string_of};
use super::call::{Error, HandlerRow, Outcome, ReadCall, WriteCall, read, write};
use crate::{Kind, Rules};
use xxhash_rust::xxh3::xxh3_64;

pub(super) const ROWS: &[HandlerRow] = &[read("DIGEST", digest), write("DELEX", delex), write("DELIFEQ", delifeq)];

const NOT_DIGEST: &str = "ERR must be exactly 16 hexadecimal characters";
const NO_CONDITION: &str = "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE";
/// Hexadecimal digits of a digest.
const DIGITS: usize = 16;

/// What the value of a string is to be. No string is there: it differs from all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    Equals(&'a [u8]),
    Differs(&'a [u8]),
    /// The digest as it was written; what is no digest is that of nothing.
    HasDigest(&'a [u8]),
    HasOtherDigest(&'a [u8]),
}

impl<'a> Condition<'a> {
    /// The condition of a word and what follows it; `None` if the word is another.
    pub(super) fn parse(word: &[u8], argument: Option<&&'a [u8]>) -> Result<Option<Self>, Error> {
        const WORDS: [&str; 4] = ["IFEQ", "IFNE", "IFDEQ", "IFDNE"];
        let Some(at) = WORDS.iter().position(|name| is_word(word, name)) else { return Ok(None) };
        let argument = *argument.ok_or(SYNTAX)?;
        Ok(Some(match at {
            0 => Self::Equals(argument),
            1 => Self::Differs(argument),
            2 => Self::HasDigest(argument),
            _ => Self::HasOtherDigest(argument),
        }))
    }

    /// Whether it holds of a value, if there is one. Only where there is one must a digest be as long as one.
    pub(super) fn holds(self, value: Option<&[u8]>) -> Result<bool, Error> {
        Ok(match self {
            Self::Equals(expected) => value == Some(expected),
            Self::Differs(other) => value != Some(other),
            Self::HasDigest(expected) => has_digest(value, expected)?,
            Self::HasOtherDigest(other) => !has_digest(value, other)?,
        })
    }

    /// Refuses what is no digest, whatever there is: what all rules before the fourth do.
    pub(super) fn check_digest(self) -> Outcome {
        match self {
            Self::HasDigest(text) | Self::HasOtherDigest(text)
                if text.len() != DIGITS || !text.iter().all(u8::is_ascii_hexdigit) =>
            {
                Err(NOT_DIGEST.into())
            }
            _ => Ok(()),
        }
    }
}

fn has_digest(value: Option<&[u8]>, text: &[u8]) -> Result<bool, Error> {
    let Some(value) = value else { return Ok(false) };
    if text.len() != DIGITS {
        return Err(NOT_DIGEST.into());
    }
    Ok(text.eq_ignore_ascii_case(digest_of(value).as_bytes()))
}

fn digest_of(value: &[u8]) -> String {
    format!("{:016x}", xxh3_64(value))
}

fn digest(call: &mut ReadCall<'_>) -> Outcome {
    match call.space.get(call.args[1])? {
        Some(record) => call.reply.bulk(digest_of(string_of(&record)?).as_bytes()),
        None => call.reply.null(),
    }
    Ok(())
}

/// The condition of a word and its argument.
fn told_condition<'a>((word, argument): (&'a [u8], &'a [u8])) -> Result<Condition<'a>, Error> {
    Condition::parse(word, Some(&argument))?.ok_or_else(|| NO_CONDITION.into())
}

fn delex(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let words = match call.args[2..] {
        [] => None,
        [word, argument] => Some((word, argument)),
        _ => return Err("ERR wrong number of arguments for 'delex' command".into()),
    };
    // By earlier rules it is looked at before the key.
    if call.space.rules() < Rules::Fourth
        && let Some(words) = words
    {
        told_condition(words)?.check_digest()?;
    }
    let record = call.space.get(call.args[1])?;
    if let (Some(words), Some(record)) = (words, &record) {
        if record.view().kind != Kind::STRING {
            return Err("ERR Key should be of string type if conditions are specified".into());
        }
        if !told_condition(words)?.holds(Some(record.view().payload))? {
            call.reply.int(0);
            return Ok(());
        }
    }
    let deleted = record.is_some() && call.space.delete_told(call.args[1])?;
    call.reply.int(i64::from(deleted));
    Ok(())
}

fn delifeq(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let record = call.space.get(call.args[1])?;
    let equals = record.is_some() && bytes_of(record.as_ref())? == call.args[2];
    let deleted = equals && call.space.delete_told(call.args[1])?;
    call.reply.int(i64::from(deleted));
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        crate::command::transcript::check("condition");
    }
}
