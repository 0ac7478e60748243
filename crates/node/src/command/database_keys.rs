//! KV.KEYS: what DBSIZE, KEYS, RANDOMKEY and SCAN ask of a database, in a transaction that writes or in a script.
//!
//! There they see what was written before them, so the shard answers them in their place. The key of the command is the prefix of
//! the database. SCAN answers all keys at once: its cursor is over.

use super::args::{SYNTAX, is_word};
use super::call::{HandlerRow, Outcome, ReadCall, read};
use super::scan::{Options, parse_cursor};
use crate::{Fault, ReadSpace, Rules};
use storage::Slice;
use vocab::{Database, client_key};

/// How many keys are read at a time.
const CHUNK: usize = 256;
/// So many keys that follow on a random one are looked at, where that one has expired.
const EXPIRED_MAX: usize = 1024;
const NO_DATABASE: &str = "ERR KV.KEYS is for clients of databases: KEYS";

pub(super) const ROWS: &[HandlerRow] = &[read("KV.KEYS", answer)];

fn answer(call: &mut ReadCall<'_>) -> Outcome {
    let (prefix, word) = (call.args[1], call.args[2]);
    let database = Database::of_key(prefix).filter(|database| database.prefix() == prefix).ok_or(NO_DATABASE)?;
    match &call.args[3..] {
        [] if is_word(word, "DBSIZE") => {
            let count = count(call.space, database)?;
            call.reply.int(i64::try_from(count).unwrap_or(i64::MAX));
            Ok(())
        }
        [] if is_word(word, "RANDOMKEY") => random(call, database),
        [pattern] if is_word(word, "KEYS") => list(call, prefix, &Options::of_pattern(pattern, database)),
        [cursor, options @ ..] if is_word(word, "SCAN") => {
            if call.space.rules() >= Rules::Later {
                parse_cursor(cursor)?;
            }
            let options = Options::of_database(options, database)?;
            call.reply.array(2);
            call.reply.bulk_int(0);
            list(call, prefix, &options)
        }
        _ => Err(SYNTAX.into()),
    }
}

/// Whether the words of such a question have all keys of the database looked at.
#[must_use]
pub fn walks_keys(args: &[&[u8]]) -> bool {
    args.get(2).is_some_and(|word| !is_word(word, "DBSIZE"))
}

/// How many keys the database has, expired ones included.
fn count(space: &mut dyn ReadSpace, database: Database) -> Result<u64, Fault> {
    if let Some(count) = space.database_size(database)? {
        return Ok(count);
    }
    let mut count = 0;
    each_key(space, &database.prefix(), |_, _| {
        count += 1;
        Ok(())
    })?;
    Ok(count)
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

fn random(call: &mut ReadCall<'_>, database: Database) -> Outcome {
    let count = count(call.space, database)?;
    // The bias of a 64-bit product is below count / 2^64.
    let place = ((u128::from(call.space.random_u64()?) * u128::from(count)) >> 64) as u64;
    let drawn = key_at(call.space, &database.prefix(), place)?;
    match drawn.map(|key| first_live(call.space, &database.prefix(), key)).transpose()?.flatten() {
        Some(key) => call.reply.bulk(client_key(&key)),
        None => call.reply.null(),
    }
    Ok(())
}

/// The key of that place among all that begin with `prefix`.
fn key_at(space: &mut dyn ReadSpace, prefix: &[u8], place: u64) -> Result<Option<Slice>, Fault> {
    let (mut left, mut after): (u64, Option<Slice>) = (place, None);
    loop {
        let keys = space.keys(prefix, after.as_deref(), CHUNK)?;
        if let Some(key) = usize::try_from(left).ok().and_then(|at| keys.get(at)) {
            return Ok(Some(key.clone()));
        }
        left -= keys.len() as u64;
        if keys.len() < CHUNK {
            return Ok(None);
        }
        after = keys.into_iter().last();
    }
}

/// The key itself if it has not expired, else the next one that has not, of some behind it and of the first ones.
fn first_live(space: &mut dyn ReadSpace, prefix: &[u8], drawn: Slice) -> Result<Option<Slice>, Fault> {
    if space.stored(&drawn)?.is_some() {
        return Ok(Some(drawn));
    }
    for after in [Some(&drawn[..]), None] {
        for key in space.keys(prefix, after, EXPIRED_MAX)? {
            if space.stored(&key)?.is_some() {
                return Ok(Some(key));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testspace::{START_MS, TestSpace, answer};
    use super::walks_keys;
    use crate::{Kind, Record, WriteSpace};
    use resp::Value;
    use vocab::Database;

    #[test]
    fn a_random_key_is_one_that_has_not_expired() {
        let mut space = TestSpace::new();
        let prefix = Database::of_number(1).unwrap().prefix();
        let mut fill = |range: std::ops::Range<usize>, expiry| {
            for i in range {
                let key = [&prefix[..], format!("key{i:04}").as_bytes()].concat();
                space.put(&key, Record::new(Kind::STRING, expiry, &[])).unwrap();
            }
        };
        fill(0..700, Some(START_MS));
        fill(350..351, None);
        let mut ask = |word: &[u8]| answer(&mut space, &[&b"KV.KEYS"[..], &prefix, word]);
        for _ in 0..40 {
            assert_eq!(ask(b"RANDOMKEY"), Value::Bulk(b"key0350".to_vec()), "the only one");
        }
        assert_eq!(ask(b"DBSIZE"), Value::Int(700), "as in Redis, expired ones count");
    }

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
        for words in [&[&b"KEYS"[..], b"*"][..], &[b"SCAN", b"0"], &[b"RANDOMKEY"]] {
            assert!(walks_keys(&[&[&b"KV.KEYS"[..], &one[..]], words].concat()), "{words:?}");
        }
        assert!(!walks_keys(&[&b"KV.KEYS"[..], &one, b"dbsize"]));
        for wrong in [&[&b"KEYS"[..]][..], &[b"DBSIZE", b"x"], &[b"FLUSHDB"]] {
            assert!(matches!(ask(wrong), Value::Error(_)), "{wrong:?}");
        }
    }
}
