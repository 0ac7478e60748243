//! KV.EXEC: several operations on the keys of one slot, all or nothing.
//!
//! `KV.EXEC count (words op …)… [DURABILITY word [word]] [REQUEST client number]`, each operation preceded by how many words it has:
//! `GET key` · `PUT key value [IFABSENT|IFPRESENT|IFVERSION v] [TTL ms] [RETURN]` · `DEL key [IFVERSION v]` ·
//! `CHECK key v`. For example `KV.EXEC 2 3 CHECK {a}x 7 3 PUT {a}y new`.
//!
//! Each operation sees what those before it did. If every condition holds, all is written and the reply is
//! `[1, [reply of each operation]]`: of GET, PUT and DEL as of KV.GET, KV.PUT and KV.DEL, of CHECK the key's version.
//! If one does not hold, nothing is written and the reply is `[0, index, reply]`: which operation it was, counted
//! from 0, and its answer: of PUT as of KV.PUT, of DEL and CHECK the key's version, null if it is absent.
//! Version 0 means "absent". All that is written gets one version. CHECK and DEL take keys of any kind.

use super::get_put::{Condition, Put, answer_get, if_version, version, version_or_null};
use crate::command::args::{SYNTAX, is_word};
use crate::command::call::{Error, HandlerRow, Outcome, WriteCall, write};
use crate::command::idempotency::{RequestId, once};
use crate::keyspace_events::Event;
use crate::{Kind, ReadSpace, Record};
use resp::Reply;

const BAD_COUNT: &str = "ERR the count of operations or of an operation's words does not fit the request";

pub(in crate::command) const ROWS: &[HandlerRow] = &[write("KV.EXEC", exec)];

/// One parsed operation.
enum Operation<'a> {
    Get(&'a [u8]),
    Put(Put<'a>),
    Del(&'a [u8], Option<u64>),
    Check(&'a [u8], u64),
}

impl<'a> Operation<'a> {
    fn parse(words: &[&'a [u8]], now_ms: u64) -> Result<Self, Error> {
        match words {
            [op, key] if is_word(op, "GET") => Ok(Self::Get(key)),
            [op, rest @ ..] if is_word(op, "PUT") => Put::parse(rest, now_ms).map(Self::Put),
            [op, key, rest @ ..] if is_word(op, "DEL") => Ok(Self::Del(key, if_version(rest)?)),
            [op, key, v] if is_word(op, "CHECK") => Ok(Self::Check(key, version(v)?)),
            _ => Err(SYNTAX.into()),
        }
    }

    fn key(&self) -> &'a [u8] {
        match self {
            Self::Get(key) | Self::Del(key, _) | Self::Check(key, _) => key,
            Self::Put(put) => put.key,
        }
    }
}

/// The state of a key after the operations so far.
struct Draft<'a> {
    key: &'a [u8],
    record: Option<Record>,
    changed: bool,
}

/// The drafts of a request's keys, in order of their first mention.
struct Drafts<'a> {
    drafts: Vec<Draft<'a>>,
    places: std::collections::HashMap<&'a [u8], usize>,
}

impl<'a> Drafts<'a> {
    fn of(&mut self, space: &mut dyn ReadSpace, key: &'a [u8]) -> Result<&mut Draft<'a>, Error> {
        let place = match self.places.get(key) {
            Some(place) => *place,
            None => {
                self.drafts.push(Draft { key, record: space.get(key)?, changed: false });
                self.places.insert(key, self.drafts.len() - 1);
                self.drafts.len() - 1
            }
        };
        Ok(&mut self.drafts[place])
    }
}

impl Draft<'_> {
    /// Runs `operation` on the draft and writes its reply; false if its condition does not hold.
    fn run(&mut self, operation: &Operation<'_>, version: u64, reply: &mut Reply) -> Result<bool, Error> {
        let current = self.record.as_ref();
        match operation {
            Operation::Get(_) => answer_get(current, reply)?,
            Operation::Put(put) => {
                // A PUT that does not read a collection may replace it, as KV.PUT does.
                let seen = current.filter(|_| put.looks());
                if !put.answer(seen, version, reply)? {
                    return Ok(false);
                }
                self.record = Some(Record::stamped_new(version, Kind::STRING, put.expire_at_ms, &[put.value]));
                self.changed = true;
            }
            Operation::Del(_, condition) => {
                if condition.is_some_and(|v| !Condition::Version(v).holds(current)) {
                    version_or_null(current, reply);
                    return Ok(false);
                }
                reply.int(i64::from(current.is_some()));
                self.changed |= self.record.take().is_some();
            }
            Operation::Check(_, v) => {
                version_or_null(current, reply);
                return Ok(Condition::Version(*v).holds(current));
            }
        }
        Ok(true)
    }
}

fn exec(call: &mut WriteCall<'_>) -> Outcome {
    let now_ms = call.space.now_ms();
    let mut end = 2;
    let operations = resp::table::exec_ops(call.args)
        .map(|op| {
            let op = op.map_err(|_| BAD_COUNT)?;
            end = op.at + op.args.len();
            Operation::parse(op.args, now_ms)
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let id = RequestId::whole(&call.args[end..])?;
    once(call, id, |call| run_all(call, &operations))
}

fn run_all(call: &mut WriteCall<'_>, operations: &[Operation<'_>]) -> Outcome {
    let version = call.space.version();
    let mut drafts = Drafts { drafts: Vec::new(), places: std::collections::HashMap::new() };
    let mark = call.reply.buf.len();
    call.reply.array(2);
    call.reply.int(1);
    call.reply.array(operations.len());
    for (i, operation) in operations.iter().enumerate() {
        let draft = drafts.of(call.space, operation.key())?;
        let before = call.reply.buf.len();
        if !draft.run(operation, version, call.reply)? {
            let answer = call.reply.buf.split_off(before);
            call.reply.buf.truncate(mark);
            call.reply.array(3);
            call.reply.int(0);
            call.reply.int(i as i64);
            call.reply.buf.extend_from_slice(&answer);
            return Ok(());
        }
    }
    for Draft { key, record, .. } in drafts.drafts.into_iter().filter(|draft| draft.changed) {
        match record {
            Some(record) => {
                let expires = record.view().expire_at_ms.is_some();
                call.space.put(key, record)?;
                call.space.notify(Event::SET, key);
                if expires {
                    call.space.notify(Event::EXPIRE, key);
                }
            }
            None => _ = call.space.delete_told(key)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        crate::command::transcript::check("kv_exec");
    }
}
