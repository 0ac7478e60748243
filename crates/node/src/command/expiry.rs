//! When keys cease to be seen: EXPIRE, TTL, PERSIST and the like.

use super::args::{int, is_word};
use super::call::{Error, HandlerRow, Outcome, ReadCall, WriteCall, read, write};
use super::string::put_expiry;
use std::borrow::Cow;

pub(super) const ROWS: &[HandlerRow] = &[
    write("EXPIRE", |call| expire(call, "expire", 1000, true)).rewrites(|_| 0),
    write("PEXPIRE", |call| expire(call, "pexpire", 1, true)).rewrites(|_| 0),
    write("EXPIREAT", |call| expire(call, "expireat", 1000, false)).rewrites(|_| 0),
    write("PEXPIREAT", |call| expire(call, "pexpireat", 1, false)).rewrites(|_| 0),
    read("TTL", |call| tell(call, |at, now| (at - now + 500) / 1000)),
    read("PTTL", |call| tell(call, |at, now| at - now)),
    read("EXPIRETIME", |call| tell(call, |at, _| at.saturating_add(500) / 1000)),
    read("PEXPIRETIME", |call| tell(call, |at, _| at)),
    write("PERSIST", persist).rewrites(|_| 0),
];

/// On which present expiry an EXPIRE depends.
#[derive(Default)]
pub(super) struct Conditions {
    absent: bool,
    present: bool,
    greater: bool,
    less: bool,
}

impl Conditions {
    /// Whether a word is one of these conditions.
    pub(super) fn has(word: &[u8]) -> bool {
        ["NX", "XX", "GT", "LT"].iter().any(|name| is_word(word, name))
    }

    pub(super) fn parse(words: &[&[u8]]) -> Result<Self, Error> {
        let mut conditions = Self::default();
        for word in words {
            let flag = if is_word(word, "NX") {
                &mut conditions.absent
            } else if is_word(word, "XX") {
                &mut conditions.present
            } else if is_word(word, "GT") {
                &mut conditions.greater
            } else if is_word(word, "LT") {
                &mut conditions.less
            } else {
                let text = format!("ERR Unsupported option {}", String::from_utf8_lossy(word));
                return Err(Error::Reply(Cow::Owned(text)));
            };
            *flag = true;
        }
        if conditions.absent && (conditions.present || conditions.greater || conditions.less) {
            return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
        }
        if conditions.greater && conditions.less {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(conditions)
    }

    /// A key without an expiry counts as one that expires after all others.
    pub(super) fn hold(&self, current: Option<i64>, new: i64) -> bool {
        let refused = self.absent && current.is_some()
            || self.present && current.is_none()
            || self.greater && current.is_none_or(|current| new <= current)
            || self.less && current.is_some_and(|current| new >= current);
        !refused
    }
}

fn expire(call: &mut WriteCall<'_>, command: &str, scale: i64, from_now: bool) -> Outcome {
    let key = call.args[1];
    let conditions = Conditions::parse(&call.args[3..])?;
    let amount = int(call.args[2])?;
    let base = if from_now { call.space.now_ms() } else { 0 };
    let invalid = || Error::Reply(Cow::Owned(format!("ERR invalid expire time in '{command}' command")));
    let at = amount.checked_mul(scale).and_then(|ms| ms.checked_add_unsigned(base)).ok_or_else(invalid)?;
    let Some(record) = call.space.stored(key)? else {
        call.reply.int(0);
        return Ok(());
    };
    let holds = conditions.hold(record.view().expire_at_ms.map(|at| at as i64), at);
    if holds {
        // A time before the epoch is in the past, as 0 is.
        put_expiry(call.space, key, &record, Some(at.max(0).unsigned_abs()))?;
    }
    call.reply.int(i64::from(holds));
    Ok(())
}

/// Answers a figure of the time of expiry and of now; -1 if the key has no expiry, -2 if it is absent.
fn tell(call: &mut ReadCall<'_>, figure: fn(i64, i64) -> i64) -> Outcome {
    let record = call.space.stored(call.args[1])?;
    let now = call.space.now_ms() as i64;
    call.reply.int(match record.map(|record| record.view().expire_at_ms) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => figure(at as i64, now),
    });
    Ok(())
}

fn persist(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.args[1];
    let record = call.space.stored(key)?.filter(|record| record.view().expire_at_ms.is_some());
    if let Some(record) = &record {
        put_expiry(call.space, key, record, None)?;
    }
    call.reply.int(i64::from(record.is_some()));
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        super::super::transcript::check("expiry");
    }
}
