//! INCREX: a number that is kept within bounds, and when its key expires.

use super::args::{Decimal, NOT_FLOAT, NOT_INTEGER, SYNTAX, check_release, is_word, string_of};
use super::call::{Error, Outcome, WriteCall};
use super::number::extended::Extended;
use super::string::{Unit, end_write, put_string};
use crate::WriteSpace;
use crate::keyspace_events::Event;
use resp::{Proto, Reply};
use std::borrow::Cow;

/// An amount, or a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Integer(i64),
    Float(Extended),
}

/// What INCREX is asked to do.
struct Request<'a> {
    /// By how much, as it was written; `None` is 1.
    amount: Option<&'a [u8]>,
    is_float: bool,
    lowest: Option<&'a [u8]>,
    highest: Option<&'a [u8]>,
    /// What lies beyond a bound becomes the bound; otherwise nothing is done.
    saturates: bool,
    expiry: Option<(Unit, &'a [u8])>,
    persists: bool,
    /// A present expiry stays.
    only_without_expiry: bool,
}

impl<'a> Request<'a> {
    fn parse(words: &[&'a [u8]]) -> Result<Self, Error> {
        let mut request = Self {
            amount: None,
            is_float: false,
            lowest: None,
            highest: None,
            saturates: false,
            expiry: None,
            persists: false,
            only_without_expiry: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let is_float = is_word(word, "BYFLOAT");
            if let Some(unit) = Unit::of_word(word) {
                once(request.expiry.replace((unit, words.next().ok_or(SYNTAX)?)).is_none())?;
            } else if is_float || is_word(word, "BYINT") {
                request.is_float = is_float;
                once(request.amount.replace(words.next().ok_or(SYNTAX)?).is_none())?;
            } else if is_word(word, "LBOUND") {
                once(request.lowest.replace(words.next().ok_or(SYNTAX)?).is_none())?;
            } else if is_word(word, "UBOUND") {
                once(request.highest.replace(words.next().ok_or(SYNTAX)?).is_none())?;
            } else if is_word(word, "SATURATE") {
                once(!std::mem::replace(&mut request.saturates, true))?;
            } else if is_word(word, "PERSIST") {
                once(!std::mem::replace(&mut request.persists, true))?;
            } else if is_word(word, "ENX") {
                once(!std::mem::replace(&mut request.only_without_expiry, true))?;
            } else {
                return Err(SYNTAX.into());
            }
        }
        if request.persists && (request.expiry.is_some() || request.only_without_expiry) {
            return Err(SYNTAX.into());
        }
        if request.only_without_expiry && request.expiry.is_none() {
            return Err("ERR ENX flag requires an expiration".into());
        }
        Ok(request)
    }

    /// A number among the arguments, of the kind that is asked for.
    fn number(&self, text: Option<&[u8]>, name: &str) -> Result<Option<Number>, Error> {
        let Some(text) = text else { return Ok(None) };
        let (number, kind) = if self.is_float {
            let finite = Extended::parse(text).filter(|number| *number != Extended::Infinite);
            (finite.map(Number::Float), "a valid float")
        } else {
            (resp::parse_integer(text).map(Number::Integer), "an integer or out of range")
        };
        let wrong = || Error::Reply(Cow::Owned(format!("ERR {name} is not {kind}")));
        number.map(Some).ok_or_else(wrong)
    }

    /// When the key expires afterwards, in ms since the epoch.
    fn expire_at_ms(&self, set_ms: Option<u64>, was_ms: Option<u64>) -> Option<u64> {
        match set_ms {
            None if self.persists => None,
            None => was_ms,
            Some(_) if self.only_without_expiry && was_ms.is_some() => was_ms,
            Some(set_ms) => Some(set_ms),
        }
    }
}

fn once(is_first: bool) -> Outcome {
    if is_first { Ok(()) } else { Err(SYNTAX.into()) }
}

/// The bounds of the result, inclusive.
struct Bounds {
    lowest: Option<Number>,
    highest: Option<Number>,
    saturates: bool,
}

impl Bounds {
    fn validate(&self) -> Outcome {
        let crossed = match (self.lowest, self.highest) {
            (Some(Number::Integer(lowest)), Some(Number::Integer(highest))) => lowest > highest,
            (Some(Number::Float(lowest)), Some(Number::Float(highest))) => highest.is_below(lowest),
            _ => false,
        };
        if crossed { Err("ERR LBOUND can't be greater than UBOUND".into()) } else { Ok(()) }
    }

    /// The sum and what it differs by from `old`; `None` if it is out of bounds.
    fn add_integer(&self, old: i64, by: i64) -> Result<Option<(Number, Number)>, Error> {
        let bound = |bound: Option<Number>, other: i64| match bound {
            Some(Number::Integer(bound)) => i128::from(bound),
            _ => i128::from(other),
        };
        let (lowest, highest) = (bound(self.lowest, i64::MIN), bound(self.highest, i64::MAX));
        let sum = i128::from(old) + i128::from(by);
        let kept = sum.clamp(lowest, highest);
        if kept != sum && !self.saturates {
            return Ok(None);
        }
        let delta = i64::try_from(kept - i128::from(old)).map_err(|_| "ERR increment or decrement would overflow")?;
        let new = i64::try_from(kept).map_err(|_| "ERR increment or decrement would overflow")?;
        Ok(Some((Number::Integer(new), Number::Integer(delta))))
    }

    /// The same of floats.
    fn add_float(&self, old: Extended, by: Extended) -> Result<Option<(Number, Number)>, Error> {
        const INFINITE: &str = "ERR increment would produce NaN or Infinity";
        let float = |bound: Option<Number>| if let Some(Number::Float(bound)) = bound { Some(bound) } else { None };
        let (lowest, highest) = (float(self.lowest), float(self.highest));
        let kept = match old.checked_add(by) {
            Some(sum) => match (lowest, highest) {
                (Some(lowest), _) if sum.is_below(lowest) => Some(lowest),
                (_, Some(highest)) if highest.is_below(sum) => Some(highest),
                _ => return Ok(Some((Number::Float(sum), Number::Float(by)))),
            },
            None if by.is_negative() => lowest,
            None => highest,
        };
        if !self.saturates {
            return Ok(None);
        }
        let kept = kept.ok_or(INFINITE)?;
        let delta = kept.checked_sub(old).ok_or(INFINITE)?;
        Ok(Some((Number::Float(kept), Number::Float(delta))))
    }
}

fn write_number(number: Number, reply: &mut Reply) {
    match number {
        Number::Integer(number) => reply.int(number),
        Number::Float(number) => {
            let text = number.to_text();
            match (reply.proto, text.parse()) {
                (Proto::Resp3, Ok(number)) => reply.double(number),
                _ => reply.bulk(text.as_bytes()),
            }
        }
    }
}

/// Writes the number. `expires`: the request gives the expiry, which may have passed.
fn put(
    space: &mut dyn WriteSpace,
    key: &[u8],
    expire_at_ms: Option<u64>,
    number: Number,
    expires: bool,
) -> Result<(), Error> {
    let is_past = expire_at_ms.is_some_and(|at_ms| at_ms <= space.now_ms());
    let expire_at_ms = expire_at_ms.filter(|_| !is_past);
    match number {
        Number::Integer(number) => {
            put_string(space, key, expire_at_ms, &[Decimal::of(number).bytes()])?;
            space.notify(Event::INCRBY, key);
        }
        Number::Float(number) => {
            put_string(space, key, expire_at_ms, &[number.to_text().as_bytes()])?;
            space.notify(Event::INCRBYFLOAT, key);
        }
    }
    end_write(space, key, expires, is_past)?;
    Ok(())
}

pub(super) fn increx(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.args[1];
    let request = Request::parse(&call.args[2..])?;
    let by = request.number(request.amount, "Increment")?.unwrap_or(Number::Integer(1));
    let bounds = Bounds {
        lowest: request.number(request.lowest, "LBOUND")?,
        highest: request.number(request.highest, "UBOUND")?,
        saturates: request.saturates,
    };
    bounds.validate()?;
    let now_ms = call.space.now_ms();
    let set_ms = request.expiry.map(|(unit, text)| unit.expiry(text, now_ms, "increx")).transpose()?;
    check_release(call.space)?;
    let record = call.space.get(key)?;
    let was_ms = record.as_ref().and_then(|record| record.view().expire_at_ms);
    let old = record.as_ref().map(string_of).transpose()?;
    let (old, sum) = match by {
        Number::Integer(by) => {
            let old = old.map_or(Some(0), resp::parse_integer).ok_or(NOT_INTEGER)?;
            (Number::Integer(old), bounds.add_integer(old, by)?)
        }
        Number::Float(by) => {
            let old = old.map_or(Some(Extended::ZERO), Extended::parse).ok_or(NOT_FLOAT)?;
            (Number::Float(old), bounds.add_float(old, by)?)
        }
    };
    if let Some((new, _)) = sum {
        let expire_at_ms = request.expire_at_ms(set_ms, was_ms);
        put(call.space, key, expire_at_ms, new, set_ms.is_some() && expire_at_ms == set_ms)?;
    }
    let nothing = if matches!(old, Number::Integer(_)) { Number::Integer(0) } else { Number::Float(Extended::ZERO) };
    let (new, delta) = sum.unwrap_or((old, nothing));
    call.reply.array(2);
    write_number(new, call.reply);
    write_number(delta, call.reply);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        crate::command::transcript::check("increx");
    }
}
