//! HINCRBY and HINCRBYFLOAT.

use super::expiring::{self, Lifetime};
use super::stored::Stored;
use super::write::put;
use crate::command::args;
use crate::command::call::{Outcome, WriteCall};
use crate::command::number::extended::Extended;
use crate::keyspace_events::Event;
use crate::{Type, WriteSpace};

pub(super) fn hincrby(call: &mut WriteCall<'_>) -> Outcome {
    let by = args::int(call.args[3])?;
    let (key, field) = (call.args[1], call.args[2]);
    let hash = Stored::load(call.space, key)?;
    let old = match &hash {
        Some(hash) => hash.get(call.space, field)?,
        None => None,
    };
    let old = match old {
        Some(text) => resp::parse_integer(&text).ok_or("ERR hash value is not an integer")?,
        None => 0,
    };
    let new = old.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
    put_kept(call.space, key, hash.as_ref(), &[field, args::Decimal::of(new).bytes()])?;
    call.space.notify(Event::HINCRBY, key);
    call.reply.int(new);
    Ok(())
}

pub(super) fn hincrbyfloat(call: &mut WriteCall<'_>) -> Outcome {
    let by = Extended::parse(call.args[3]).ok_or(args::NOT_FLOAT)?;
    if by == Extended::Infinite {
        return Err("ERR value is NaN or Infinity".into());
    }
    let (key, field) = (call.args[1], call.args[2]);
    let hash = Stored::load(call.space, key)?;
    let old = match &hash {
        Some(hash) => hash.get(call.space, field)?,
        None => None,
    };
    let old = match old {
        Some(text) => Extended::parse(&text).ok_or("ERR hash value is not a float")?,
        None => Extended::ZERO,
    };
    let new = old.checked_add(by).ok_or("ERR increment would produce NaN or Infinity")?.to_text();
    put_kept(call.space, key, hash.as_ref(), &[field, new.as_bytes()])?;
    call.space.notify(Event::HINCRBYFLOAT, key);
    call.reply.bulk(new.as_bytes());
    Ok(())
}

/// Sets a field that keeps its expiry.
fn put_kept(space: &mut dyn WriteSpace, key: &[u8], hash: Option<&Stored<'_>>, pair: &[&[u8]]) -> Outcome {
    match hash {
        Some(hash) if hash.has_expiries() => expiring::put(space, key, Some(hash), pair, Lifetime::Kept)?,
        _ => put(space, Type::Hash, key, hash, pair)?,
    };
    Ok(())
}
