//! KV.KEYS: what DBSIZE, KEYS, RANDOMKEY and SCAN ask of a database, in a transaction that writes or in a script.
//!
//! There they see what was written before them, so the shard answers them in their place. The key of the command is the prefix of
//! the database. SCAN answers all keys at once: its cursor is over.

use super::args::{SYNTAX, is_word};
use super::call::{HandlerRow, Outcome, ReadCall, read};
use super::scan::Options;
use crate::{Fault, ReadSpace};
use storage::Slice;
use vocab::{Database, client_key};

/// How many keys are read at a time.
const CHUNK: usize = 256;
/// So often a random key is drawn that turns out to have expired.
const DRAWS_MAX: usize = 16;
const NO_DATABASE: &str = "ERR KV.KEYS is for clients of databases: KEYS";

pub(super) const ROWS: &[HandlerRow] = &[read("KV.KEYS", answer)];

fn answer(call: &mut ReadCall<'_>) -> Outcome {
    let (prefix, word) = (call.args[1], call.args[2]);
    let database = Database::of_key(prefix).filter(|database| database.prefix() == prefix).ok_or(NO_DATABASE)?;
    match &call.args[3..] {
        [] if is_word(word, "DBSIZE") => {
            let mut count = 0;
            each_key(call.space, prefix, |_, _| {
                count += 1;
                Ok(())
            })?;
            call.reply.int(count);
            Ok(())
        }
        [] if is_word(word, "RANDOMKEY") => random(call, prefix),
        [pattern] if is_word(word, "KEYS") => list(call, prefix, &Options::of_pattern(pattern, database)),
        [_, options @ ..] if is_word(word, "SCAN") => {
            let options = Options::of_database(options, database)?;
            call.reply.array(2);
            call.reply.bulk_int(0);
            list(call, prefix, &options)
        }
        _ => Err(SYNTAX.into()),
    }
}

/// Hands over all keys of the database, expired ones included.
pub(super) fn each_key<S: ReadSpace + ?Sized>(
    space: &mut S,
    prefix: &[u8],
    mut look: impl FnMut(&mut S, &Slice) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut after: Option<Slice> = None;
    loop {
        let keys = space.keys(prefix, after.as_deref(), CHUNK)?;
        for key in &keys {
            look(space, key)?;
        }
        if keys.len() < CHUNK {
            return Ok(());
        }
        after = keys.into_iter().last();
    }
}

/// The keys that are asked for.
fn list(call: &mut ReadCall<'_>, prefix: &[u8], options: &Options<'_>) -> Outcome {
    let (reply, mut count) = (&mut *call.reply, 0);
    let mark = reply.begin_array();
    each_key(call.space, prefix, |space, key| {
        if options.is_wanted(key)
            && let Some(record) = space.get(key)?
            && options.include(key, &record)
        {
            reply.bulk(client_key(key));
            count += 1;
        }
        Ok(())
    })?;
    reply.end_array(mark, count);
    Ok(())
}

fn random(call: &mut ReadCall<'_>, prefix: &[u8]) -> Outcome {
    let mut count: u64 = 0;
    each_key(call.space, prefix, |_, _| {
        count += 1;
        Ok(())
    })?;
    for _ in 0..DRAWS_MAX {
        if count == 0 {
            break;
        }
        // The bias of a 64-bit product is below count / 2^64.
        let place = ((u128::from(call.space.random_u64()?) * u128::from(count)) >> 64) as u64;
        let (mut at, mut drawn) = (0, None);
        each_key(call.space, prefix, |_, key| {
            if at == place {
                drawn = Some(key.clone());
            }
            at += 1;
            Ok(())
        })?;
        let Some(key) = drawn else { break };
        if call.space.get(&key)?.is_some() {
            call.reply.bulk(client_key(&key));
            return Ok(());
        }
    }
    call.reply.null();
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testspace::{START_MS, TestSpace, answer};
    use crate::{Kind, Record, WriteSpace};
    use resp::Value;
    use vocab::Database;

    #[test]
    fn a_database_is_asked_for_its_live_keys() {
        let mut space = TestSpace::new();
        let [one, other] = [1, 2].map(|number| Database::of_number(number).unwrap().prefix());
        let mut ask = |args: &[&[u8]]| {
            let args = [&[&b"KV.KEYS"[..], &one[..]], args].concat();
            answer(&mut space, &args)
        };
        assert_eq!(ask(&[b"RANDOMKEY"]), Value::Null);
        for i in 0..600 {
            for prefix in [&one[..], &other, b""] {
                let expiry = (i == 7).then_some(START_MS);
                let key = [prefix, format!("key{i}").as_bytes()].concat();
                space.put(&key, Record::new(Kind::STRING, expiry, &[])).unwrap();
            }
        }
        let mut ask = |args: &[&[u8]]| {
            let args = [&[&b"KV.KEYS"[..], &one[..]], args].concat();
            answer(&mut space, &args)
        };
        let count = |value: Value| match value {
            Value::Array(elements) => elements.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(count(ask(&[b"KEYS", b"*"])), 599, "one has expired");
        assert_eq!(count(ask(&[b"keys", b"key59?"])), 10);
        let Value::Array(scanned) = ask(&[b"SCAN", b"17", b"MATCH", b"key1*", b"COUNT", b"3"]) else { panic!() };
        assert_eq!((&scanned[0], count(scanned[1].clone())), (&Value::Bulk(b"0".to_vec()), 111));
        assert_eq!(count(ask(&[b"KEYS", b"none"])), 0);
        assert!(matches!(ask(&[b"RANDOMKEY"]), Value::Bulk(key) if key.starts_with(b"key")));
        for wrong in [&[&b"KEYS"[..]][..], &[b"DBSIZE", b"x"], &[b"FLUSHDB"]] {
            assert!(matches!(ask(wrong), Value::Error(_)), "{wrong:?}");
        }
    }
}
