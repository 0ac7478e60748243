//! Whether keys of the source are in the store as they are there.

use super::outcome::{Outcome, shown};
use super::scope::Scope;
use super::source::{Source, value_of};
use super::walk::{KeyWalk, ask};
use client::{Client, StoreUrl};
use rdb::Value;
use resp::Value as Answer;
use vocab::{client_key, wall_clock_ms};

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

/// Finds keys that the store has and the source has not. `is_cluster`: each key is at one of several masters.
pub(super) fn find_others(
    (url, is_cluster): (&StoreUrl, bool),
    (scope, node): (Scope<'_>, &StoreUrl),
    outcome: &mut Outcome,
) -> Result<(), String> {
    let mut store = Client::open(node).map_err(|e| format!("the store: {e}"))?;
    let mut cluster = if is_cluster { Some(Client::open(url).map_err(|e| format!("the source: {e}"))?) } else { None };
    let mut source = Source::open(url)?;
    for of in scope.destinations() {
        let mut walk = KeyWalk::new(of, None);
        while let Some(keys) = walk.next(&mut store)? {
            let Some(first) = keys.first() else { continue };
            source.select(scope.source_of(first))?;
            for stored in keys {
                let key = client_key(&stored);
                let is_there = match &mut cluster {
                    Some(cluster) => ask_source(cluster, key)?,
                    None => source.has(key)?,
                };
                // It may have expired meanwhile, at both.
                if !is_there && ask(&mut store, &[b"EXISTS", &stored])?.as_int() == Some(1) {
                    outcome.problems.note(format!("{} is in the store, and not at the source", shown(&stored)));
                }
            }
        }
    }
    Ok(())
}

fn ask_source(cluster: &mut Client, key: &[u8]) -> Result<bool, String> {
    match cluster.call_repeatable(&[b"EXISTS", key]).map_err(|e| format!("the source: {e}"))? {
        Answer::Error(text) => Err(format!("the source: {text}")),
        answer => Ok(answer.as_int() == Some(1)),
    }
}

/// Compares a key, by its names at the source and in the store.
fn compare_key(
    source: &mut Source,
    store: &mut Client,
    (key, stored): (&[u8], &[u8]),
    outcome: &mut Outcome,
) -> Result<(), String> {
    let mut told = both(source, store, key, stored)?;
    if matches!(told, Ok((None, _))) {
        return Ok(());
    }
    if matches!(&told, Ok((here, there)) if here != there) {
        // It may have changed between the two reads; else it is another.
        told = both(source, store, key, stored)?;
    }
    match told {
        Ok((here, there)) => {
            outcome.compared += 1;
            if here != there {
                outcome.problems.note(format!("{} is not what it is at the source", shown(key)));
            }
        }
        Err(why) => outcome.problems.note(why),
    }
    Ok(())
}

/// What a key holds, and when it expires, in ms since the epoch.
type Told = Option<(Value, Option<u64>)>;

/// What a key holds at the source, and in the store; else, why that cannot be read.
type Both = Result<(Told, Told), String>;

/// Reads a key at the source, and in the store. The outer error ends the comparison.
fn both(source: &mut Source, store: &mut Client, key: &[u8], stored: &[u8]) -> Result<Both, String> {
    let here = source.read(key, wall_clock_ms())?.value;
    let there = match ask(store, &[b"DUMP", stored])? {
        Answer::Bulk(dumped) => match ask(store, &[b"PEXPIRETIME", stored])? {
            Answer::Int(at_ms) => value_of(&dumped).map(|value| Some((value, u64::try_from(at_ms).ok()))),
            _ => Ok(None),
        },
        _ => Ok(None),
    };
    let (here, there) = match (here, there) {
        (Ok(here), Ok(there)) => (here, there),
        (Err(why), _) => return Ok(Err(format!("{} cannot be compared: at the source, {why}", shown(key)))),
        (_, Err(why)) => return Ok(Err(format!("{} cannot be compared: in the store, {why}", shown(key)))),
    };
    // How long a key lives is no time that could be compared.
    let is_exact = source.tells_expiry(key)?;
    let comparable = |(value, at_ms): (Value, Option<u64>)| (in_order(value), at_ms.filter(|_| is_exact));
    let (mut here, mut there) = (here.map(comparable), there.map(comparable));
    if let (Some((here, _)), Some((there, _))) = (&mut here, &mut there) {
        leave_unknown(here, there);
    }
    Ok(Ok((here, there)))
}

/// How many entries of a stream a group has read counts only where both know it.
fn leave_unknown(here: &mut Value, there: &mut Value) {
    let (Value::Stream(here), Value::Stream(there)) = (here, there) else { return };
    for (here, there) in here.groups.iter_mut().zip(&mut there.groups) {
        if here.read.is_none() || there.read.is_none() {
            (here.read, there.read) = (None, None);
        }
    }
}

/// A value whose parts stand in the same order wherever it is read, without what a Redis does not tell its replicas.
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
                // Redis 8.8 tells that an entry is of no consumer; a dump of Basalt does not.
                group.name_released();
                group.consumers.sort_unstable_by(|a, b| a.name.cmp(&b.name));
                group.consumers.iter_mut().for_each(|consumer| (consumer.seen_ms, consumer.active_ms) = (0, None));
            }
            Value::Stream(stream)
        }
        Value::String(mut string) if string.starts_with(HYPERLOGLOG) && string.len() >= COUNTED.end => {
            string[COUNTED].fill(0);
            Value::String(string)
        }
        value => value,
    }
}

/// With what a HyperLogLog begins.
const HYPERLOGLOG: &[u8] = b"HYLL";
/// Where it keeps what PFCOUNT has counted last, or that it has to count anew.
const COUNTED: std::ops::Range<usize> = 8..16;

#[cfg(test)]
mod tests {
    use super::*;
    use rdb::{Consumer, Group, Stream};

    #[test]
    fn what_is_not_replicated_is_not_compared() {
        let hyperloglog = |count: &[u8; 8], registers: &[u8]| {
            in_order(Value::String([&b"HYLL\x01\0\0\0"[..], count, registers].concat()))
        };
        assert_eq!(hyperloglog(b"\0\0\0\0\0\0\0\x80", b"x"), hyperloglog(b"\x05\0\0\0\0\0\0\0", b"x"));
        assert_ne!(hyperloglog(b"\0\0\0\0\0\0\0\0", b"x"), hyperloglog(b"\0\0\0\0\0\0\0\0", b"y"));
        let stream = |seen_ms, active_ms, read| {
            let consumer = Consumer { name: b"c".to_vec(), seen_ms, active_ms, pending: Vec::new() };
            let (last_id, consumers, released) = (Default::default(), vec![consumer], Vec::new());
            let group = Group { name: b"g".to_vec(), last_id, read, consumers, released };
            in_order(Value::Stream(Box::new(Stream { groups: vec![group], ..Stream::default() })))
        };
        let same = |mut here: Value, mut there: Value| {
            leave_unknown(&mut here, &mut there);
            here == there
        };
        assert!(same(stream(5, Some(4), Some(1)), stream(9, None, None)));
        assert!(!same(stream(5, None, Some(1)), stream(5, None, Some(2))));
    }
}
