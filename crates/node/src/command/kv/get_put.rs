//! Basalt's own words for strings: values with their versions, and writes that depend on them.
//!
//! | command | reply |
//! |-|-|
//! | `KV.GET key [ABSOLUTE|ANY|LAG ms|VERSION token]` | `[value, version]`; a null array if the key is absent |
//! | `KV.PUT key value [condition] [TTL ms]` | the new version; null if the condition failed |
//! | `KV.PUT … RETURN` | `[new version, previous value, previous version]`; if the condition failed `[null, current value, current version]`; the latter two are null for an absent key |
//! | `KV.DEL key [IFVERSION v]` | 1; 0 if the key was absent; null if its version is another |
//!
//! Behind all else KV.PUT, KV.DEL and KV.EXEC take `DURABILITY word [word]`, for this write as KV.DURABILITY for those
//! of a connection, and `REQUEST client number`: see `requests`.
//!
//! The condition is `IFABSENT`, `IFPRESENT` or `IFVERSION v`, where version 0 means "absent". Without TTL the new
//! value never expires. Every write of a key, an EXPIRE too, gives it a new version, and versions of a key only rise.
//! KV.GET and a KV.PUT that looks at the old value (a condition or RETURN) answer WRONGTYPE for a key that holds a
//! collection; a plain KV.PUT replaces it, as SET does, and KV.DEL removes it, as DEL does.

use crate::Record;
use crate::command::args::{SYNTAX, is_word, string_of};
use crate::command::call::{Error, HandlerRow, Outcome, ReadCall, WriteCall, read, write};
use crate::command::idempotency::{RequestId, once};
use crate::command::string::{Unit, set_string};
use crate::guarantees::Consistency;
use crate::keyspace_events::Event;
use resp::Reply;

pub(in crate::command) const ROWS: &[HandlerRow] =
    &[read("KV.GET", get), read("KV.VERSION", version_of), write("KV.PUT", put), write("KV.DEL", del)];

/// What must hold of a key for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Absent,
    Present,
    /// 0 means absent.
    Version(u64),
}

impl Condition {
    pub(super) fn holds(self, current: Option<&Record>) -> bool {
        match self {
            Self::Absent => current.is_none(),
            Self::Present => current.is_some(),
            Self::Version(v) => current.map_or(0, |record| record.view().version) == v,
        }
    }
}

/// A version as clients write it.
pub(super) fn version(text: &[u8]) -> Result<u64, Error> {
    let version = resp::parse_integer(text).and_then(|v| u64::try_from(v).ok());
    version.ok_or("ERR version is not an integer or out of range".into())
}

/// `key value [IFABSENT|IFPRESENT|IFVERSION v] [TTL ms] [RETURN]`
pub(super) struct Put<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub condition: Option<Condition>,
    pub expire_at_ms: Option<u64>,
    pub returns: bool,
}

impl<'a> Put<'a> {
    pub(super) fn parse(words: &[&'a [u8]], now_ms: u64) -> Result<Self, Error> {
        let [key, value, options @ ..] = words else { return Err(SYNTAX.into()) };
        let mut put = Self { key, value, condition: None, expire_at_ms: None, returns: false };
        let mut options = options.iter();
        while let Some(word) = options.next() {
            let condition = if is_word(word, "IFABSENT") {
                Condition::Absent
            } else if is_word(word, "IFPRESENT") {
                Condition::Present
            } else if is_word(word, "IFVERSION") {
                Condition::Version(version(options.next().ok_or(SYNTAX)?)?)
            } else if is_word(word, "TTL") && put.expire_at_ms.is_none() {
                let ttl = options.next().ok_or(SYNTAX)?;
                put.expire_at_ms = Some(Unit::Millis.expiry(ttl, now_ms, "kv.put")?);
                continue;
            } else if is_word(word, "RETURN") && !put.returns {
                put.returns = true;
                continue;
            } else {
                return Err(SYNTAX.into());
            };
            if put.condition.replace(condition).is_some() {
                return Err(SYNTAX.into());
            }
        }
        Ok(put)
    }

    /// Whether the key's record must be read first.
    pub(super) fn looks(&self) -> bool {
        self.condition.is_some() || self.returns
    }

    /// Writes the reply, `version` being the new one; false if the condition does not hold for `current`.
    pub(super) fn answer(&self, current: Option<&Record>, version: u64, reply: &mut Reply) -> Result<bool, Error> {
        let value = current.map(string_of).transpose()?;
        let holds = self.condition.is_none_or(|condition| condition.holds(current));
        if self.returns {
            reply.array(3);
        }
        if holds {
            reply.int(version as i64);
        } else {
            reply.null();
        }
        if self.returns {
            reply.bulk_or_null(value);
            version_or_null(current, reply);
        }
        Ok(holds)
    }
}

/// The version of `record`, or null.
pub(super) fn version_or_null(record: Option<&Record>, reply: &mut Reply) {
    match record {
        Some(record) => reply.int(record.view().version as i64),
        None => reply.null(),
    }
}

/// The reply of KV.GET.
pub(super) fn answer_get(record: Option<&Record>, reply: &mut Reply) -> Outcome {
    let Some(record) = record else {
        reply.null_array();
        return Ok(());
    };
    let value = string_of(record)?;
    reply.array(2);
    reply.bulk(value);
    reply.int(record.view().version as i64);
    Ok(())
}

fn get(call: &mut ReadCall<'_>) -> Outcome {
    if let [_, _, words @ ..] = call.args
        && !words.is_empty()
    {
        // The shell has read the consistency before; here it is only checked.
        Consistency::parse(words)?;
    }
    let record = call.space.get(call.args[1])?;
    answer_get(record.as_ref(), call.reply)
}

fn version_of(call: &mut ReadCall<'_>) -> Outcome {
    let record = call.space.get(call.args[1])?;
    version_or_null(record.as_ref(), call.reply);
    Ok(())
}

fn put(call: &mut WriteCall<'_>) -> Outcome {
    let (words, id) = RequestId::split(&call.args[1..], 2)?;
    let put = Put::parse(words, call.space.now_ms())?;
    once(call, id, |call| {
        let current = if put.looks() { call.space.get(put.key)? } else { None };
        if put.answer(current.as_ref(), call.space.version(), call.reply)? {
            set_string(call.space, put.key, put.expire_at_ms, put.value)?;
            if put.expire_at_ms.is_some() {
                call.space.notify(Event::EXPIRE, put.key);
            }
        }
        Ok(())
    })
}

/// `[IFVERSION v]`
pub(super) fn if_version(words: &[&[u8]]) -> Result<Option<u64>, Error> {
    match words {
        [] => Ok(None),
        [word, v] if is_word(word, "IFVERSION") => version(v).map(Some),
        _ => Err(SYNTAX.into()),
    }
}

fn del(call: &mut WriteCall<'_>) -> Outcome {
    let (words, id) = RequestId::split(&call.args[1..], 1)?;
    let (key, condition) = (words[0], if_version(&words[1..])?);
    once(call, id, |call| {
        if let Some(v) = condition
            && let Some(record) = call.space.get(key)?
            && record.view().version != v
        {
            call.reply.null();
            return Ok(());
        }
        let deleted = call.space.delete_told(key)?;
        call.reply.int(i64::from(deleted));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        crate::command::transcript::check("kv");
    }
}
