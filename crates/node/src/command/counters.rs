//! INCR, DECR and the like: strings as numbers.

use super::args::{self, NOT_FLOAT, NOT_INTEGER, string_of};
use super::call::{HandlerRow, Outcome, WriteCall, write};
use super::increx::increx;
use super::number::extended::Extended;
use super::string::put_string;
use crate::keyspace_events::Event;

const OVERFLOW: &str = "ERR increment or decrement would overflow";

pub(super) const ROWS: &[HandlerRow] = &[
    write("INCR", |call| add(call, 1)),
    write("DECR", |call| add(call, -1)),
    write("INCRBY", incrby),
    write("DECRBY", decrby),
    write("INCRBYFLOAT", incrbyfloat),
    write("INCREX", increx),
];

fn incrby(call: &mut WriteCall<'_>) -> Outcome {
    let by = args::int(call.args[2])?;
    add(call, by)
}

fn decrby(call: &mut WriteCall<'_>) -> Outcome {
    let by = args::int(call.args[2])?;
    let by = by.checked_neg().ok_or("ERR decrement would overflow")?;
    add(call, by)
}

fn add(call: &mut WriteCall<'_>, by: i64) -> Outcome {
    let key = call.args[1];
    let (old, expire_at_ms) = match call.space.get(key)? {
        Some(record) => {
            let old = resp::parse_integer(string_of(&record)?).ok_or(NOT_INTEGER)?;
            (old, record.view().expire_at_ms)
        }
        None => (0, None),
    };
    let new = old.checked_add(by).ok_or(OVERFLOW)?;
    put_string(call.space, key, expire_at_ms, &[args::Decimal::of(new).bytes()])?;
    call.space.notify(Event::INCRBY, key);
    call.reply.int(new);
    Ok(())
}

fn incrbyfloat(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.args[1];
    let (old, expire_at_ms) = match call.space.get(key)? {
        Some(record) => {
            let old = Extended::parse(string_of(&record)?).ok_or(NOT_FLOAT)?;
            (old, record.view().expire_at_ms)
        }
        None => (Extended::ZERO, None),
    };
    let by = Extended::parse(call.args[2]).ok_or(NOT_FLOAT)?;
    let new = old.checked_add(by).ok_or("ERR increment would produce NaN or Infinity")?.to_text();
    put_string(call.space, key, expire_at_ms, &[new.as_bytes()])?;
    call.space.notify(Event::INCRBYFLOAT, key);
    call.reply.bulk(new.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        super::super::transcript::check("counters");
    }
}
