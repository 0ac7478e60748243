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

/// What a key holds at the source, and in the store.
fn both(
    source: &mut Source,
    store: &mut Client,
    key: &[u8],
    stored: &[u8],
) -> Result<(Option<Value>, Option<Value>), String> {
    let here = source.read(key, wall_clock_ms())?.value.map(|(value, _)| in_order(value));
    let there = match store.call_repeatable(&[b"DUMP", stored]).map_err(|e| format!("the store: {e}"))? {
        Answer::Bulk(dumped) => Some(in_order(value_of(&dumped)?)),
        Answer::Error(text) => return Err(format!("the store: {text}")),
        _ => None,
    };
    Ok((here, there))
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
