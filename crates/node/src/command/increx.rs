//! INCREX: a number that is kept within bounds, and when its key expires.

use super::args::{Decimal, NOT_FLOAT, NOT_INTEGER, SYNTAX, check_release, is_word, string_of};
use super::call::{Error, Outcome, WriteCall};
use super::number::extended::Extended;
use super::string::{Unit, end_write, put_string};
use crate::keyspace_events::Event;
use crate::{Rules, WriteSpace};
use resp::Reply;
use std::borrow::Cow;

/// An amount, or a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Integer(i64),
    Float(Extended),
}

/// A bound of floats, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FloatBound {
    NegativeInfinity,
    At(Extended),
    Infinity,
}

impl FloatBound {
    fn is_below(self, other: Self) -> bool {
        match (self, other) {
            (Self::At(bound), Self::At(other)) => bound.is_below(other),
            (Self::NegativeInfinity, Self::NegativeInfinity) => false,
            (Self::NegativeInfinity, _) | (_, Self::Infinity) => self != other,
            (Self::Infinity, _) | (_, Self::NegativeInfinity) => false,
        }
    }
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

    /// By how much.
    fn increment(&self) -> Result<Number, Error> {
        let Some(text) = self.amount else { return Ok(Number::Integer(1)) };
        if !self.is_float {
            return integer(text, "Increment").map(Number::Integer);
        }
        match float(text, "Increment")? {
            Extended::Infinite => Err("ERR BYFLOAT increment cannot be Infinity".into()),
            by => Ok(Number::Float(by)),
        }
    }

    fn integer_bounds(&self) -> Result<IntegerBounds, Error> {
        let lowest = self.lowest.map_or(Ok(i64::MIN), |text| integer(text, "LBOUND"))?;
        let highest = self.highest.map_or(Ok(i64::MAX), |text| integer(text, "UBOUND"))?;
        if lowest > highest {
            return Err(CROSSED.into());
        }
        Ok(IntegerBounds { lowest, highest, saturates: self.saturates })
    }

    fn float_bounds(&self, rules: Rules) -> Result<FloatBounds, Error> {
        let is_known = rules >= Rules::Fourth;
        let bound = |text: &[u8], name: &str| -> Result<FloatBound, Error> {
            Ok(match float(text, name)? {
                Extended::Infinite if !is_known => return Err(not_a(name, FLOAT)),
                Extended::Infinite if text.starts_with(b"-") => FloatBound::NegativeInfinity,
                Extended::Infinite => FloatBound::Infinity,
                bound => FloatBound::At(bound),
            })
        };
        // By earlier rules, a sum that is too large becomes no number.
        let ends = if is_known {
            [Extended::LOWEST, Extended::HIGHEST].map(FloatBound::At)
        } else {
            [FloatBound::NegativeInfinity, FloatBound::Infinity]
        };
        let lowest = self.lowest.map_or(Ok(ends[0]), |text| bound(text, "LBOUND"))?;
        let highest = self.highest.map_or(Ok(ends[1]), |text| bound(text, "UBOUND"))?;
        if highest.is_below(lowest) {
            return Err(CROSSED.into());
        }
        Ok(FloatBounds { lowest, highest, saturates: self.saturates, tells_difference: is_known })
    }

    /// When the key expires afterwards; it is told when it did, and when it shall, both in ms since the epoch.
    fn expiry_of(&self, set_ms: Option<u64>, was_ms: Option<u64>) -> Expiry {
        let is_set = set_ms.is_some() && !(self.only_without_expiry && was_ms.is_some());
        let is_removed = self.persists && was_ms.is_some();
        let kept_ms = was_ms.filter(|_| !self.persists);
        Expiry { at_ms: if is_set { set_ms } else { kept_ms }, is_set, is_removed }
    }
}

const FLOAT: &str = "a valid float";
const CROSSED: &str = "ERR LBOUND can't be greater than UBOUND";

fn not_a(name: &str, kind: &str) -> Error {
    Error::Reply(Cow::Owned(format!("ERR {name} is not {kind}")))
}

fn integer(text: &[u8], name: &str) -> Result<i64, Error> {
    resp::parse_integer(text).ok_or_else(|| not_a(name, "an integer or out of range"))
}

fn float(text: &[u8], name: &str) -> Result<Extended, Error> {
    Extended::parse(text).ok_or_else(|| not_a(name, FLOAT))
}

fn once(is_first: bool) -> Outcome {
    if is_first { Ok(()) } else { Err(SYNTAX.into()) }
}

/// The bounds of the sum, and what is added.
enum Bounds {
    Integers(IntegerBounds, i64),
    Floats(FloatBounds, Extended),
}

/// A number that was added to, and by how much it was.
struct Sum {
    new: Number,
    delta: Number,
}

/// The bounds of integers, inclusive.
struct IntegerBounds {
    lowest: i64,
    highest: i64,
    saturates: bool,
}

impl IntegerBounds {
    /// `None` if the sum is out of bounds.
    fn add(&self, old: i64, by: i64) -> Result<Option<Sum>, Error> {
        const OVERFLOWS: &str = "ERR applied increment would overflow";
        let sum = i128::from(old) + i128::from(by);
        let kept = sum.clamp(self.lowest.into(), self.highest.into());
        if kept != sum && !self.saturates {
            return Ok(None);
        }
        let delta = i64::try_from(kept - i128::from(old)).map_err(|_| OVERFLOWS)?;
        let new = i64::try_from(kept).map_err(|_| OVERFLOWS)?;
        Ok(Some(Sum { new: Number::Integer(new), delta: Number::Integer(delta) }))
    }
}

/// The bounds of floats.
struct FloatBounds {
    lowest: FloatBound,
    highest: FloatBound,
    saturates: bool,
    /// By how much the number has changed is told: of two that are far apart that may be less than was asked for.
    tells_difference: bool,
}

impl FloatBounds {
    /// `None` if the sum is out of bounds.
    fn add(&self, old: Extended, by: Extended) -> Result<Option<Sum>, Error> {
        const INFINITE: &str = "ERR applied increment would be Infinity";
        let sum = old.checked_add(by);
        let beyond = match sum.map(FloatBound::At) {
            Some(sum) if self.highest.is_below(sum) => Some(self.highest),
            Some(sum) if sum.is_below(self.lowest) => Some(self.lowest),
            Some(_) => None,
            None if by.is_negative() => Some(self.lowest),
            None => Some(self.highest),
        };
        let new = match (beyond, sum) {
            (None, Some(sum)) if !self.tells_difference => {
                return Ok(Some(Sum { new: Number::Float(sum), delta: Number::Float(by) }));
            }
            (None, Some(sum)) => sum,
            _ if !self.saturates => return Ok(None),
            (Some(FloatBound::At(bound)), _) => bound,
            _ => return Err(INFINITE.into()),
        };
        let delta = new.checked_sub(old).ok_or(INFINITE)?;
        Ok(Some(Sum { new: Number::Float(new), delta: Number::Float(delta) }))
    }
}

fn write_number(number: Number, reply: &mut Reply) {
    match number {
        Number::Integer(number) => reply.int(number),
        // With the digits that were stored, as Redis does.
        Number::Float(number) => reply.digits(&number.to_text()),
    }
}

/// When the key expires afterwards.
struct Expiry {
    /// In ms since the epoch.
    at_ms: Option<u64>,
    /// The request gives it; it may have passed.
    is_set: bool,
    /// There was one, which is removed.
    is_removed: bool,
}

/// Writes the number.
fn put(space: &mut dyn WriteSpace, key: &[u8], number: Number, expiry: &Expiry) -> Result<(), Error> {
    let is_past = expiry.at_ms.is_some_and(|at_ms| at_ms <= space.now_ms());
    if is_past && expiry.is_set && space.rules() >= Rules::Fourth {
        // Redis writes nothing then: a key that was there is removed.
        space.delete_told(key)?;
        return Ok(());
    }
    let expire_at_ms = expiry.at_ms.filter(|_| !is_past);
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
    if expiry.is_removed {
        space.notify(Event::PERSIST, key);
    }
    end_write(space, key, expiry.is_set, is_past)?;
    Ok(())
}

pub(super) fn increx(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.args[1];
    let rules = call.space.rules();
    let request = Request::parse(&call.args[2..])?;
    let by = request.increment()?;
    let bounds = match by {
        Number::Integer(by) => Bounds::Integers(request.integer_bounds()?, by),
        Number::Float(by) => Bounds::Floats(request.float_bounds(rules)?, by),
    };
    let now_ms = call.space.now_ms();
    let set_ms = request.expiry.map(|(unit, text)| unit.expiry(text, now_ms, "increx")).transpose()?;
    check_release(call.space)?;
    let record = call.space.get(key)?;
    let was_ms = record.as_ref().and_then(|record| record.view().expire_at_ms);
    let old = record.as_ref().map(string_of).transpose()?;
    let (sum, unchanged) = match bounds {
        Bounds::Integers(bounds, by) => {
            let old = old.map_or(Some(0), resp::parse_integer).ok_or(NOT_INTEGER)?;
            (bounds.add(old, by)?, Sum { new: Number::Integer(old), delta: Number::Integer(0) })
        }
        Bounds::Floats(bounds, by) => {
            let old = old.map_or(Some(Extended::ZERO), Extended::parse).ok_or(NOT_FLOAT)?;
            if old == Extended::Infinite && rules >= Rules::Fourth {
                return Err("ERR value cannot be Infinity".into());
            }
            (bounds.add(old, by)?, Sum { new: Number::Float(old), delta: Number::Float(Extended::ZERO) })
        }
    };
    if let Some(sum) = &sum {
        put(call.space, key, sum.new, &request.expiry_of(set_ms, was_ms))?;
    }
    let Sum { new, delta } = sum.unwrap_or(unchanged);
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
