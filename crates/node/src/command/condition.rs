//! Conditions on the value of a string: SET, DELEX and DELIFEQ do what they are asked only where it holds.

use super::args::is_word;
use super::args::{SYNTAX, bytes_of, check_release, string_of};
use super::call::{Error, HandlerRow, Outcome, ReadCall, WriteCall, read, write};
use crate::Kind;
use xxhash_rust::xxh3::xxh3_64;

pub(super) const ROWS: &[HandlerRow] = &[read("DIGEST", digest), write("DELEX", delex), write("DELIFEQ", delifeq)];

const NOT_DIGEST: &str = "ERR must be exactly 16 hexadecimal characters";
/// Hexadecimal digits of a digest.
const DIGITS: usize = 16;

/// What the value of a string is to be. No string is there: it differs from all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    Equals(&'a [u8]),
    Differs(&'a [u8]),
    HasDigest(u64),
    HasOtherDigest(u64),
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
            2 => Self::HasDigest(parse_digest(argument)?),
            _ => Self::HasOtherDigest(parse_digest(argument)?),
        }))
    }

    /// Whether it holds of a value, if there is one.
    pub(super) fn holds(self, value: Option<&[u8]>) -> bool {
        match self {
            Self::Equals(expected) => value == Some(expected),
            Self::Differs(other) => value != Some(other),
            Self::HasDigest(expected) => value.map(xxh3_64) == Some(expected),
            Self::HasOtherDigest(other) => value.map(xxh3_64) != Some(other),
        }
    }
}

fn parse_digest(text: &[u8]) -> Result<u64, Error> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.len() == DIGITS && !text.starts_with('+'));
    digits.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or_else(|| NOT_DIGEST.into())
}

fn digest(call: &mut ReadCall<'_>) -> Outcome {
    match call.space.get(call.args[1])? {
        Some(record) => call.reply.bulk(format!("{:016x}", xxh3_64(string_of(&record)?)).as_bytes()),
        None => call.reply.null(),
    }
    Ok(())
}

fn delex(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let condition = match call.args[2..] {
        [] => None,
        [word, argument] => Some(Condition::parse(word, Some(&argument))?.ok_or(SYNTAX)?),
        _ => return Err("ERR wrong number of arguments for 'delex' command".into()),
    };
    let record = call.space.get(call.args[1])?;
    if let (Some(condition), Some(record)) = (condition, &record) {
        if record.view().kind != Kind::STRING {
            return Err("ERR Key should be of string type if conditions are specified".into());
        }
        if !condition.holds(Some(record.view().payload)) {
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
