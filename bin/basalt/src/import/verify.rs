//! Whether keys of the source are in the store as they are there.

use super::outcome::{Outcome, shown};
use super::scope::Scope;
use super::source::{Source, value_of};
use client::{Client, StoreUrl};
use rdb::Value;
use resp::Value as Answer;
use vocab::wall_clock_ms;

/// Compares so many keys of each database of the source, drawn at random; all of them where it has no more.
pub(super) fn compare(
    source: &mut Source,
    (scope, node): (Scope<'_>, &StoreUrl),
    keys: u64,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let mut store = Client::open(node).map_err(|e| format!("the store: {e}"))?;
    for database in source.databases()? {
        let Some(into) = scope.of(database) else { continue };
        source.select(database)?;
        if keys >= source.count()? {
            let mut cursor = b"0".to_vec();
            loop {
                let (next, page) = source.page(&cursor)?;
                for key in page {
                    compare_key(source, &mut store, (&key, &into.stored(&key)), outcome)?;
                }
                if next == b"0" {
                    break;
                }
                cursor = next;
            }
            continue;
        }
        for _ in 0..keys {
            let Some(key) = source.random_key()? else { break };
            compare_key(source, &mut store, (&key, &into.stored(&key)), outcome)?;
        }
    }
    Ok(())
}

/// Compares a key, by its names at the source and in the store.
fn compare_key(
    source: &mut Source,
    store: &mut Client,
    (key, stored): (&[u8], &[u8]),
    outcome: &mut Outcome,
) -> Result<(), String> {
    let (here, there) = both(source, store, key, stored)?;
    if here.is_none() {
        return Ok(());
    }
    outcome.compared += 1;
    // It may have changed between the two reads; else it is another.
    if here != there && !matches!(both(source, store, key, stored)?, (here, there) if here == there) {
        outcome.problems.note(format!("{} is not what it is at the source", shown(key)));
    }
    Ok(())
}

/// What a key holds, and when it expires, in ms since the epoch.
type Told = Option<(Value, Option<u64>)>;

/// What a key holds at the source, and in the store.
fn both(source: &mut Source, store: &mut Client, key: &[u8], stored: &[u8]) -> Result<(Told, Told), String> {
    let here = source.read(key, wall_clock_ms())?.value;
    let mut ask = |words: &[&[u8]]| match store.call_repeatable(words).map_err(|e| format!("the store: {e}"))? {
        Answer::Error(text) => Err(format!("the store: {text}")),
        answer => Ok(answer),
    };
    let there = match ask(&[b"DUMP", stored])? {
        Answer::Bulk(dumped) => match ask(&[b"PEXPIRETIME", stored])? {
            Answer::Int(at_ms) => Some((value_of(&dumped)?, u64::try_from(at_ms).ok())),
            _ => None,
        },
        _ => None,
    };
    // How long a key lives is no time that could be compared.
    let is_exact = source.tells_expiry(key)?;
    let comparable = |(value, at_ms): (Value, Option<u64>)| (in_order(value), at_ms.filter(|_| is_exact));
    Ok((here.map(comparable), there.map(comparable)))
}

/// A value whose parts stand in the same order wherever it is read.
fn in_order(value: Value) -> Value {
    match value {
        Value::Set(mut members) => {
            members.sort_unstable();
            Value::Set(members)
        }
        Value::Hash(mut fields) => {
            fields.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            Value::Hash(fields)
        }
        Value::SortedSet(mut members) => {
            members.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            Value::SortedSet(members)
        }
        Value::Stream(mut stream) => {
            stream.groups.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            for group in &mut stream.groups {
                group.consumers.sort_unstable_by(|a, b| a.name.cmp(&b.name));
                // Redis 7.0 does not tell when a consumer last got something.
                group.consumers.iter_mut().for_each(|consumer| consumer.active_ms = None);
            }
            Value::Stream(stream)
        }
        value => value,
    }
}
