//! RANDOMKEY: a random key, without walking the store.
//!
//! The shard is drawn by its number of keys. A tree on disk draws a key of it, each with the same probability. Where that
//! cannot be done, a key is drawn evenly from shards of up to `SCANNED_MAX` keys. A larger shard is then narrowed, byte by
//! byte, to a prefix that so few keys share: keys with rare beginnings come up more often than others.

use super::args::within_namespace;
use super::call::{HandlerRow, Outcome, StoreCall, store_at};
use super::scan::{NOT_SERVED, slot_of_database, unknown_words};
use crate::format::keys::{prefix_end, successor};
use crate::{Fault, Need, Record, RecordRange, ShardSpace};
use storage::Slice;
use vocab::{ClusterDatabase, Database, Namespace, client_key};

/// Keys that are drawn from evenly.
const SCANNED_MAX: usize = 256;
/// How often a byte is drawn that no key has, before the next one that a key has is taken.
const MISSES_MAX: usize = 16;
/// How often a shard is drawn whose keys turn out to have expired, before all are asked in turn.
const DRAWS_MAX: usize = 8;

pub(super) const ROWS: &[HandlerRow] = &[store_at("RANDOMKEY", random_key, slot_of_database)];

/// A number below `bound`.
fn below(space: &mut dyn ShardSpace, bound: u64) -> Result<u64, Fault> {
    // The bias of a 64-bit product is below bound / 2^64.
    Ok(((u128::from(space.random_u64()?) * u128::from(bound)) >> 64) as u64)
}

fn random_key(call: &mut StoreCall<'_>) -> Outcome {
    match within_namespace(&call.args[1..])? {
        ([], None) => of_store(call, None),
        ([], Some(Namespace::Cluster(database))) => of_store(call, Some(database)),
        ([], Some(Namespace::Database(database))) => of_database(call, database),
        _ => Err(unknown_words(call.args[0])),
    }
}

/// The keys of a database share their beginning.
fn of_database(call: &mut StoreCall<'_>, database: Database) -> Outcome {
    let (shard, _) = call.shards.run_from(database.slot().0).ok_or(NOT_SERVED)?;
    let drawn = narrow(call.shards.space(shard), database.prefix().to_vec())?;
    call.reply.bulk_or_null(drawn.as_deref().map(client_key));
    Ok(())
}

/// Of a cluster database, or of the keys that have no namespace.
fn of_store(call: &mut StoreCall<'_>, of: Option<ClusterDatabase>) -> Outcome {
    let shards = call.shards.count();
    let all: Vec<usize> = (0..shards).collect();
    let (mut counts, mut failed) = (vec![0; shards], Vec::new());
    let counted: Vec<Result<u64, Fault>> = match of {
        Some(database) => all.iter().map(|i| call.shards.space(*i).keys_in_cluster_database(database, None)).collect(),
        None => call.shards.key_counts(&all, Need::Some),
    };
    for (i, count) in counted.into_iter().enumerate() {
        match count {
            Ok(count) => counts[i] = count,
            // A shard without a leader has no part in the draw.
            Err(fault) => failed.push(fault),
        }
    }
    if failed.len() == shards
        && let Some(fault) = failed.pop()
    {
        return Err(fault.into());
    }
    let total: u64 = counts.iter().sum();
    let mut drawn = None;
    if total > 0 {
        for _ in 0..DRAWS_MAX {
            let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
            let mut lot = below(call.shards.space(first), total)?;
            let i = counts.iter().position(|&count| {
                let here = lot < count;
                lot = if here { lot } else { lot - count };
                here
            });
            drawn = draw(call.shards.space(i.expect("the lot is below the total")), of)?;
            if drawn.is_some() {
                break;
            }
        }
        // Counts include expired keys: a live one may be anywhere.
        let mut rest = 0..shards;
        while drawn.is_none()
            && let Some(i) = rest.find(|i| counts[*i] > 0)
        {
            drawn = draw(call.shards.space(i), of)?;
        }
    }
    call.reply.bulk_or_null(drawn.as_deref().map(client_key));
    Ok(())
}

/// A random key of the shard; `None` if it has none that is live.
fn draw(space: &mut dyn ShardSpace, of: Option<ClusterDatabase>) -> Result<Option<Slice>, Fault> {
    if let Some(database) = of {
        return narrow(space, database.mark().to_vec());
    }
    if let Some(key) = space.sample_key()? {
        return Ok(Some(key));
    }
    narrow(space, Vec::new())
}

/// A random key of those that begin with `prefix`.
fn narrow(space: &mut dyn ShardSpace, mut prefix: Vec<u8>) -> Result<Option<Slice>, Fault> {
    loop {
        let end = prefix_end(&prefix);
        let rows = space.heads(&RecordRange::heads(&prefix, &end, SCANNED_MAX + 1))?;
        let (Some((first, _)), Some((last, _))) =
            (rows.first(), space.heads(&RecordRange { reverse: true, ..RecordRange::heads(&prefix, &end, 1) })?.pop())
        else {
            return Ok(None);
        };
        if rows.len() <= SCANNED_MAX {
            let i = below(space, rows.len() as u64)? as usize;
            return Ok(rows.into_iter().nth(i).map(|(key, _): (Slice, Record)| key));
        }
        let common = first.iter().zip(last.iter()).take_while(|(a, b)| a == b).count();
        prefix = first[..common].to_vec();
        let ends_here = first.len() == common;
        match draw_byte(space, &prefix, first.get(common).copied(), last[common])? {
            Some(byte) => prefix.push(byte),
            None if ends_here => return Ok(Some(first.clone())),
            None => return Ok(None),
        }
    }
}

/// One of the bytes with which the keys that begin with `prefix` go on, from `first` (`None`: there is a key that
/// ends there, and `None` may be drawn) to `last`.
fn draw_byte(space: &mut dyn ShardSpace, prefix: &[u8], first: Option<u8>, last: u8) -> Result<Option<u8>, Fault> {
    let mut found = None;
    for _ in 0..MISSES_MAX {
        let lowest = first.map_or(0, u64::from);
        let choices = u64::from(last) - lowest + 1 + u64::from(first.is_none());
        let Ok(byte) = u8::try_from(lowest + below(space, choices)?) else { return Ok(None) };
        if first.is_none() && byte > last {
            return Ok(None);
        }
        let start = [prefix, &[byte]].concat();
        let next = space.heads(&RecordRange::heads(&start, &prefix_end(prefix), 1))?.pop();
        let Some(next) = next.and_then(|(key, _)| key.get(prefix.len()).copied()) else { continue };
        found = Some(next);
        if next == byte {
            break;
        }
    }
    if found.is_none() && first.is_none() {
        let next = space.heads(&RecordRange::heads(&successor(prefix), &prefix_end(prefix), 1))?.pop();
        found = next.and_then(|(key, _)| key.get(prefix.len()).copied());
    }
    Ok(found.or(first))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::ScanCursors;
    use super::super::call::StoreCall;
    use super::super::testspace::{START_MS, TestShards};
    use crate::{Kind, Record, WriteSpace};
    use resp::{Proto, Reply};
    use std::collections::HashMap;

    fn run(shards: &mut TestShards) -> String {
        let mut reply = Reply::new(Proto::Resp2);
        let cursors = ScanCursors::default();
        let args: &[&[u8]] = &[b"RANDOMKEY"];
        super::random_key(&mut StoreCall { args, shards, streams: false, cursors: &cursors, reply: &mut reply })
            .unwrap();
        String::from_utf8(reply.buf).unwrap().lines().nth(1).unwrap_or("nothing").to_owned()
    }

    fn fill(shards: &mut TestShards, keys: impl Iterator<Item = String>) {
        for key in keys {
            shards.owner(key.as_bytes()).put(key.as_bytes(), Record::new(Kind::STRING, None, &[])).unwrap();
        }
    }

    #[test]
    fn few_keys_are_drawn_evenly() {
        let mut shards = TestShards::new(3);
        assert_eq!(run(&mut shards), "nothing");
        fill(&mut shards, (0..20).map(|i| format!("key{i}")));
        let mut drawn = HashMap::new();
        (0..4000).for_each(|_| *drawn.entry(run(&mut shards)).or_insert(0) += 1);
        assert!(drawn.len() == 20 && drawn.values().all(|n| (140..260).contains(n)), "{drawn:?}");
    }

    #[test]
    fn many_keys_are_spread_well() {
        let mut shards = TestShards::new(2);
        let nested = (0..40).map(|i| "x".repeat(i));
        fill(&mut shards, (0..6000).map(|i| format!("user{:06}", i * 7919 % 1_000_003)).chain(nested));
        let mut drawn = HashMap::new();
        (0..4000).for_each(|_| *drawn.entry(run(&mut shards)).or_insert(0) += 1);
        assert!(drawn.len() > 2000, "{}", drawn.len());
    }

    #[test]
    fn only_live_keys_are_drawn() {
        let mut shards = TestShards::new(4);
        for i in 0..50 {
            let key = format!("dead{i}");
            let record = Record::new(Kind::STRING, Some(START_MS), &[]);
            shards.owner(key.as_bytes()).put(key.as_bytes(), record).unwrap();
        }
        assert_eq!(run(&mut shards), "nothing");
        fill(&mut shards, ["alive".to_owned()].into_iter());
        (0..20).for_each(|_| assert_eq!(run(&mut shards), "alive"));
    }
}
