//! Transcripts, which Redis itself is held against; a model for both forms; and what only large hashes promise.
#![allow(clippy::unwrap_used)]

use super::build::{copy, restore};
use super::stored::Stored;
use crate::command::call::Error;
use crate::command::testspace::{self, TestSpace};
use crate::command::transcript;
use crate::format::keys;
use crate::{Kind, ReadSpace, Record, Rows, Type, WriteSpace};
use resp::{Proto, Reply};
use std::collections::{BTreeMap, BTreeSet};
use vocab::Slot;
use vocab::{Prng, limits};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[test]
fn fields_that_expire() {
    transcript::check("hash_expiry");
}

#[test]
fn small_hashes() {
    transcript::check("hash");
}

/// Runs a command; the reply's bytes, or the error's text.
fn run(space: &mut TestSpace, args: &[&[u8]]) -> Result<Vec<u8>, String> {
    let name = String::from_utf8(args[0].to_vec()).unwrap();
    let mut reply = Reply::new(Proto::Resp2);
    let outcome = testspace::run(space, args, &mut reply);
    match outcome {
        Ok(()) => Ok(reply.buf),
        Err(Error::Reply(text)) => Err(text.into_owned()),
        Err(Error::Fault(fault)) => panic!("{name}: {fault:?}"),
    }
}

/// As `run`, for replies that are strings or arrays of them: the strings.
fn strings(space: &mut TestSpace, args: &[&[u8]]) -> Vec<Vec<u8>> {
    let reply = run(space, args).unwrap();
    let mut found = Vec::new();
    let mut rest = &reply[..];
    while !rest.is_empty() {
        let end = rest.iter().position(|&b| b == b'\r').unwrap();
        let length: usize = std::str::from_utf8(&rest[1..end]).unwrap().parse().unwrap();
        let is_bulk = rest[0] == b'$';
        rest = &rest[end + 2..];
        if is_bulk {
            found.push(rest[..length].to_vec());
            rest = &rest[length + 2..];
        }
    }
    found
}

fn pairs(flat: &[Vec<u8>]) -> Model {
    assert!(flat.len().is_multiple_of(2));
    let model: Model = flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    assert_eq!(model.len() * 2, flat.len(), "no field comes twice");
    model
}

fn int(n: usize) -> Result<Vec<u8>, String> {
    Ok(format!(":{n}\r\n").into_bytes())
}

/// A hash `h` of `n` fields `f0`, `f1`, … of value `v`.
fn space_with(n: usize) -> TestSpace {
    let mut space = TestSpace::new();
    let fields: Vec<String> = (0..n).map(|i| format!("f{i}")).collect();
    let mut args: Vec<&[u8]> = vec![b"HSET", b"h"];
    args.extend(fields.iter().flat_map(|field| [field.as_bytes(), b"v"]));
    assert_eq!(run(&mut space, &args), int(n));
    space.validate();
    space
}

fn kind(space: &mut TestSpace) -> Kind {
    space.get(b"h").unwrap().unwrap().view().kind
}

fn rows(space: &mut TestSpace) -> Rows {
    space.get(b"h").unwrap().unwrap().view().rows(b"h").unwrap()
}

/// One random step on the hash and on the model.
fn step(prng: &mut Prng, space: &mut TestSpace, model: &mut Model, names: u64, grow: bool) {
    let field = |prng: &mut Prng| match prng.below(names) {
        0 => Vec::new(),
        n => format!("field{n}").into_bytes(),
    };
    let many = prng.below(10) == 0;
    let count = 1 + prng.below(if many { 40 } else { 3 }) as usize;
    if grow && prng.below(5) < 3 {
        let sets: Vec<(Vec<u8>, Vec<u8>)> =
            (0..count).map(|_| (field(prng), vec![b'x'; prng.below(150) as usize])).collect();
        let mut args: Vec<&[u8]> = vec![b"HSET", b"h"];
        args.extend(sets.iter().flat_map(|(field, value)| [&field[..], &value[..]]));
        let before = model.len();
        model.extend(sets.iter().cloned());
        assert_eq!(run(space, &args), int(model.len() - before));
    } else {
        let gone: Vec<Vec<u8>> = (0..count).map(|_| field(prng)).collect();
        let mut args: Vec<&[u8]> = vec![b"HDEL", b"h"];
        args.extend(gone.iter().map(|field| &field[..]));
        let before = model.len();
        model.retain(|field, _| !gone.contains(field));
        assert_eq!(run(space, &args), int(before - model.len()));
    }
    let field = field(prng);
    let expected = model.get(&field).map_or(b"$-1\r\n".to_vec(), |value| {
        let mut reply = Reply::default();
        reply.bulk(value);
        reply.buf
    });
    assert_eq!(run(space, &[b"HGET", b"h", &field]).unwrap(), expected);
    assert_eq!(run(space, &[b"HLEN", b"h"]), int(model.len()));
}

#[test]
fn agrees_with_a_model_in_both_forms() {
    for (seed, names) in [(1, 50), (2, 300), (3, 300)] {
        let (mut prng, mut space, mut model) = (Prng::new(seed), TestSpace::new(), Model::new());
        let mut kinds = BTreeSet::new();
        for round in 0..40 {
            for _ in 0..50 {
                space.version += 1;
                step(&mut prng, &mut space, &mut model, names, round % 20 < 10);
                kinds.insert(space.get(b"h").unwrap().map(|record| record.view().kind.is_large()));
            }
            space.validate();
            assert_eq!(pairs(&strings(&mut space, &[b"HGETALL", b"h"])), model);
            let fields: BTreeSet<Vec<u8>> = strings(&mut space, &[b"HKEYS", b"h"]).into_iter().collect();
            assert!(fields.iter().eq(model.keys()));
            let mut args: Vec<&[u8]> = vec![b"HMGET", b"h"];
            args.extend(model.keys().map(|field| &field[..]));
            if args.len() > 2 {
                assert!(strings(&mut space, &args).iter().eq(model.values()));
            }
        }
        assert!(kinds.contains(&None) && kinds.contains(&Some(false)), "{kinds:?}");
        assert_eq!(kinds.contains(&Some(true)), names > 50);
    }
}

#[test]
fn large_beyond_the_limits_and_stays_so() {
    let mut space = space_with(limits::INLINE_FIELDS_MAX);
    assert_eq!(kind(&mut space), Kind::HASH);
    let record = space.get(b"h").unwrap().unwrap();
    space.put(b"h", Record::new(Kind::HASH, Some(u64::MAX), &[record.view().payload])).unwrap();
    assert_eq!(run(&mut space, &[b"HSET", b"h", b"one more", b"v"]), int(1));
    assert_eq!(kind(&mut space), Kind::large(Type::Hash));
    assert_eq!(space.element_count(b"h"), limits::INLINE_FIELDS_MAX + 1);
    assert_eq!(space.get(b"h").unwrap().unwrap().view().expire_at_ms, Some(u64::MAX), "the expiry stays");
    for i in 1..limits::INLINE_FIELDS_MAX {
        assert_eq!(run(&mut space, &[b"HDEL", b"h", format!("f{i}").as_bytes()]), int(1));
    }
    assert_eq!(kind(&mut space), Kind::large(Type::Hash));
    assert_eq!(space.get(b"h").unwrap().unwrap().view().expire_at_ms, Some(u64::MAX));
    assert_eq!(run(&mut space, &[b"HDEL", b"h", b"f0", b"one more", b"f0"]), int(2));
    assert_eq!(space.get(b"h").unwrap(), None);
    assert_eq!(space.element_count(b"h"), 0);

    let value = vec![b'x'; limits::INLINE_COLLECTION_BYTES_MAX];
    run(&mut space, &[b"HSET", b"h", b"f", b"v"]).unwrap();
    run(&mut space, &[b"HSET", b"h", b"f", &value[..value.len() - 5]]).unwrap();
    assert_eq!(kind(&mut space), Kind::HASH, "just fits: a count, a field of 1 + 1 bytes and a value of 2 + 8187");
    run(&mut space, &[b"HSET", b"h", b"f", &value[..value.len() - 4]]).unwrap();
    assert_eq!(kind(&mut space), Kind::large(Type::Hash));
    assert_eq!(strings(&mut space, &[b"HVALS", b"h"]), [&value[..value.len() - 4]]);
}

#[test]
fn a_write_costs_the_same_however_large_the_hash() {
    let mut space = space_with(10_000);
    let commands: [(&[&[u8]], u64, u64); 6] = [
        (&[b"HSET", b"h", b"new", b"v"], 2, 2),
        (&[b"HSET", b"h", b"f7", b"w"], 2, 2),
        (&[b"HINCRBY", b"h", b"n", b"1"], 3, 2),
        (&[b"HSETNX", b"h", b"m", b"1"], 3, 2),
        (&[b"HDEL", b"h", b"f1", b"f2"], 3, 3),
        (&[b"HGET", b"h", b"f3"], 2, 0),
    ];
    for (args, reads_max, writes) in commands {
        (space.reads, space.writes) = (0, 0);
        run(&mut space, args).unwrap();
        assert!(space.reads <= reads_max, "{:?}: {} reads", args[0].escape_ascii(), space.reads);
        assert_eq!(space.writes, writes, "{:?}", args[0].escape_ascii());
    }
}

#[test]
fn a_hash_made_again_in_one_entry_has_rows_of_its_own() {
    let mut space = space_with(200);
    let before = rows(&mut space).prefix;
    run(&mut space, &[b"DEL", b"h"]).unwrap();
    let mut args: Vec<&[u8]> = vec![b"HSET", b"h"];
    let fields: Vec<String> = (0..200).map(|i| format!("f{i}")).collect();
    args.extend(fields.iter().flat_map(|field| [field.as_bytes(), b"w"]));
    run(&mut space, &args).unwrap();
    assert_ne!(rows(&mut space).prefix, before);
}

#[test]
fn a_scan_meets_every_field_that_stays() {
    for (seed, count) in [(1, "1"), (2, "10"), (3, "300"), (4, "9223372036854775807")] {
        let mut prng = Prng::new(seed);
        let mut space = space_with(1000);
        run(&mut space, &[b"HSET", b"h", b"", b"v"]).unwrap();
        let mut stays: BTreeSet<Vec<u8>> = (0..1000).map(|i| format!("f{i}").into_bytes()).collect();
        let mut seen: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let mut cursor = b"0".to_vec();
        loop {
            let reply = strings(&mut space, &[b"HSCAN", b"h", &cursor, b"COUNT", count.as_bytes()]);
            cursor = reply[0].clone();
            pairs(&reply[1..]).into_keys().for_each(|field| *seen.entry(field).or_default() += 1);
            if cursor == b"0" {
                break;
            }
            let next: u64 = std::str::from_utf8(&cursor).unwrap().parse().unwrap();
            assert!(next < 1 << 53, "a double holds it");
            // In between, fields come and go.
            run(&mut space, &[b"HSET", b"h", format!("new{}", prng.next_u64()).as_bytes(), b"v"]).unwrap();
            let gone = format!("f{}", prng.below(1000)).into_bytes();
            run(&mut space, &[b"HDEL", b"h", &gone]).unwrap();
            stays.remove(&gone);
        }
        assert!(stays.iter().all(|field| seen.contains_key(field)));
        assert!(seen.contains_key(&b""[..]));
        assert!(seen.values().all(|&times| times == 1), "none twice");
    }
    let mut space = space_with(1000);
    assert_eq!(strings(&mut space, &[b"HSCAN", b"h", b"0", b"COUNT", b"17"]).len(), 1 + 2 * 17);
    let beyond = strings(&mut space, &[b"HSCAN", b"h", b"18446744073709551615"]);
    assert_eq!(beyond, [b"0"]);
    let some = strings(&mut space, &[b"HSCAN", b"h", b"0", b"MATCH", b"f99?", b"COUNT", b"2000"]);
    assert_eq!(some.len(), 1 + 2 * 10);
}

#[test]
fn a_scan_keeps_fields_of_one_position_together() {
    let mut space = TestSpace::new();
    let rows = Rows { prefix: keys::rows(Slot(1), 1), count: 4 };
    space.put(b"h", Record::large(Type::Hash, 1, None, &rows)).unwrap();
    for name in [b"\0\0\0\0\0\x07a", b"\0\0\0\0\0\x07b", b"\0\0\0\0\0\x07c", b"\0\0\0\0\0\x09d"] {
        space.element_put(&rows, name, b"v").unwrap();
    }
    for count in [&b"1"[..], b"2", b"3"] {
        let first = strings(&mut space, &[b"HSCAN", b"h", b"0", b"COUNT", count]);
        assert_eq!(first, [&b"9"[..], b"a", b"v", b"b", b"v", b"c", b"v"]);
    }
    assert_eq!(strings(&mut space, &[b"HSCAN", b"h", b"9", b"COUNT", b"1"]), [&b"0"[..], b"d", b"v"]);
    assert_eq!(strings(&mut space, &[b"HSCAN", b"h", b"7"]).len(), 1 + 2 * 4, "a position is met from its beginning");
}

#[test]
fn random_fields_are_fair() {
    for (fields, counts) in [(50, [1, 10, -1, -10, -40]), (128, [1, 10, 100, -1, -100]), (500, [1, 5, 250, -5, -250])] {
        for count in counts {
            let mut space = space_with(fields);
            let mut drawn: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
            let rounds = 20 * fields / i32::unsigned_abs(count) as usize;
            for _ in 0..rounds {
                let args: [&[u8]; 3] = [b"HRANDFIELD", b"h", &count.to_string().into_bytes()];
                // Without a count it is as with 1.
                let found = strings(&mut space, if count == 1 { &args[..2] } else { &args });
                found.into_iter().for_each(|field| *drawn.entry(field).or_default() += 1);
            }
            let expected = f64::from(drawn.values().sum::<u32>()) / fields as f64;
            assert!(expected > 15.0);
            let unseen = (fields - drawn.len()) as f64 * expected;
            let chi: f64 = drawn.values().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum::<f64>() + unseen;
            let freedom = fields as f64 - 1.0;
            assert!(chi < freedom + 5.0 * (2.0 * freedom).sqrt(), "{count} of {fields} fields: {chi}");
        }
    }
}

#[test]
fn random_fields_by_count() {
    for fields in [1, 60, 200, 1000] {
        let mut space = space_with(fields);
        let all = pairs(&strings(&mut space, &[b"HGETALL", b"h"]));
        for count in [1, 10, fields / 4 + 1, fields / 3 + 1, fields / 2 + 1, fields, fields + 1] {
            let text = count.to_string();
            let found = strings(&mut space, &[b"HRANDFIELD", b"h", text.as_bytes()]);
            assert_eq!(found.len(), count.min(fields), "{fields} {count}");
            let distinct: BTreeSet<&Vec<u8>> = found.iter().collect();
            assert_eq!(distinct.len(), found.len(), "none twice");
            assert!(found.iter().all(|field| all.contains_key(field)));
            let found = strings(&mut space, &[b"HRANDFIELD", b"h", text.as_bytes(), b"WITHVALUES"]);
            assert!(pairs(&found).iter().all(|(field, value)| all.get(field) == Some(value)));

            let found = strings(&mut space, &[b"HRANDFIELD", b"h", format!("-{count}").as_bytes(), b"WITHVALUES"]);
            assert_eq!(found.len(), 2 * count);
            assert!(found.chunks(2).all(|pair| all.get(&pair[0]) == Some(&pair[1])));
        }
        let many = format!("-{}", limits::RANDOM_FIELDS_MAX + 1);
        let refused = run(&mut space, &[b"HRANDFIELD", b"h", many.as_bytes()]);
        assert_eq!(refused, Err("ERR value is out of range".to_owned()));
    }
}

#[test]
fn a_field_too_long_is_refused() {
    let long = vec![b'x'; limits::FIELD_BYTES_MAX + 1];
    for fields in [1, 1000] {
        let mut space = space_with(fields);
        let writes = space.writes;
        let commands: [&[&[u8]]; 4] = [
            &[b"HSET", b"h", b"a", b"v", &long, b"v"],
            &[b"HSETNX", b"h", &long, b"v"],
            &[b"HINCRBY", b"h", &long, b"1"],
            &[b"HSET", b"other", &long, b"v"],
        ];
        for args in commands {
            let refused = run(&mut space, args);
            assert_eq!(refused, Err("ERR field exceeds maximum allowed size (32000 bytes)".to_owned()));
        }
        space.reads = 0;
        assert_eq!(run(&mut space, &[b"HGET", b"h", &long]).unwrap(), b"$-1\r\n");
        assert_eq!(space.reads, 1, "the tree is not asked for what it cannot hold");
        assert_eq!(run(&mut space, &[b"HDEL", b"h", &long]), int(0));
        assert_eq!(space.writes, writes);
        assert_eq!(run(&mut space, &[b"HSET", b"h", &long[1..], b"v"]), int(1));
        assert_eq!(strings(&mut space, &[b"HGET", b"h", &long[1..]]), [b"v"]);
        space.validate();
    }
}

#[test]
fn copies_and_restores_both_forms() {
    for fields in [1, 128, 129, 1000] {
        let mut space = space_with(fields);
        let all = strings(&mut space, &[b"HGETALL", b"h"]);
        let from = Stored::load(&mut space, b"h").unwrap().unwrap();
        copy(&mut space, &from, b"copy", Some(u64::MAX)).unwrap();
        assert_eq!(strings(&mut space, &[b"HGETALL", b"copy"]), all);
        assert_eq!(space.get(b"copy").unwrap().unwrap().view().expire_at_ms, Some(u64::MAX));

        let mut flat: Vec<(&[u8], &[u8])> = all.chunks(2).map(|pair| (&pair[0][..], &pair[1][..])).collect();
        assert!(restore(&mut space, Type::Hash, b"restored", None, &lasting(&flat)).unwrap());
        assert_eq!(strings(&mut space, &[b"HGETALL", b"restored"]), all);
        let writes = space.writes;
        flat.push(flat[0]);
        assert!(!restore(&mut space, Type::Hash, b"twice", None, &lasting(&flat)).unwrap());
        assert!(!restore(&mut space, Type::Hash, b"none", None, &[]).unwrap());
        assert_eq!(space.writes, writes);
        space.validate();
    }
}

#[test]
fn encodings_are_named_as_in_redis() {
    let (short, long) = (vec![b'x'; 64], vec![b'x'; 65]);
    for (field, value, expected) in
        [(&short, &short, "listpack"), (&long, &short, "hashtable"), (&short, &long, "hashtable")]
    {
        let mut space = space_with(2);
        run(&mut space, &[b"HSET", b"h", field, value]).unwrap();
        assert_eq!(encoding(&mut space), expected);
    }
    // However it is kept here: large from 129 fields on.
    for (fields, expected) in [(128, "listpack"), (129, "listpack"), (512, "listpack"), (513, "hashtable")] {
        assert_eq!(encoding(&mut space_with(fields)), expected, "{fields} fields");
    }
    let mut space = space_with(300);
    run(&mut space, &[b"HSET", b"h", b"f7", &long]).unwrap();
    assert_eq!(encoding(&mut space), "hashtable");
}

fn encoding(space: &mut TestSpace) -> &'static str {
    Stored::load(space, b"h").unwrap().unwrap().encoding(space).unwrap()
}

#[test]
fn a_reply_that_is_made_at_once_has_a_bound() {
    let mut space = TestSpace::new();
    let value = "v".repeat(1 << 20);
    for i in 0..40 {
        run(&mut space, &[b"HSET", b"h", format!("f{i}").as_bytes(), value.as_bytes()]).unwrap();
    }
    // Few fields, drawn often: one after the other, and in one pass.
    for count in ["-10", "-1000", "-1000000"] {
        let args: [&[u8]; 4] = [b"HRANDFIELD", b"h", count.as_bytes(), b"WITHVALUES"];
        let (mut reply, spec) = (Reply::default(), resp::table::lookup(args[0]).unwrap());
        let Some(crate::command::Handler::Read(handler)) = crate::command::handler(spec) else { panic!("no read") };
        let done = handler.run(&args, &mut space, &mut reply);
        assert_eq!(done.is_ok(), count == "-10", "{count}");
        assert!(reply.buf.len() <= limits::ITEM_REPLY_BYTES_MAX + (64 << 20) && !reply.is_limited(), "{count}");
    }
}

/// Fields without an expiry.
fn lasting<'a>(fields: &[(&'a [u8], &'a [u8])]) -> Vec<(&'a [u8], &'a [u8], Option<u64>)> {
    fields.iter().map(|(field, value)| (*field, *value, None)).collect()
}

/// Values and expiries by field.
type Expiring = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// One random step on a hash of which fields expire, and on the model.
fn expiring_step(prng: &mut Prng, space: &mut TestSpace, model: &mut Expiring, names: u64) {
    let field = match prng.below(names) {
        0 => Vec::new(),
        n => format!("field{n}").into_bytes(),
    };
    let value = vec![b'x'; prng.below(90) as usize];
    let at_ms = space.now_ms + 1 + prng.below(2_000);
    let at = at_ms.to_string().into_bytes();
    let was = model.get(&field).cloned();
    match prng.below(12) {
        0..=4 => {
            model.insert(field.clone(), (value.clone(), None));
            assert_eq!(run(space, &[b"HSET", b"h", &field, &value]), int(usize::from(was.is_none())));
        }
        5..=7 => {
            let answer = if was.is_some() { "*1\r\n:1\r\n" } else { "*1\r\n:-2\r\n" };
            model.entry(field.clone()).and_modify(|(_, expiry)| *expiry = Some(at_ms));
            let found = run(space, &[b"HPEXPIREAT", b"h", &at, b"FIELDS", b"1", &field]).unwrap();
            assert_eq!(found, answer.as_bytes());
        }
        8 => {
            model.insert(field.clone(), (value.clone(), was.and_then(|(_, expiry)| expiry)));
            assert_eq!(run(space, &[b"HSETEX", b"h", b"KEEPTTL", b"FIELDS", b"1", &field, &value]), int(1));
        }
        9 => {
            model.insert(field.clone(), (value.clone(), Some(at_ms)));
            assert_eq!(run(space, &[b"HSETEX", b"h", b"PXAT", &at, b"FIELDS", b"1", &field, &value]), int(1));
        }
        10 => {
            model.entry(field.clone()).and_modify(|(_, expiry)| *expiry = None);
            run(space, &[b"HPERSIST", b"h", b"FIELDS", b"1", &field]).unwrap();
        }
        _ => {
            model.remove(&field);
            assert_eq!(run(space, &[b"HDEL", b"h", &field]), int(usize::from(was.is_some())));
        }
    }
}

#[test]
fn fields_that_expire_agree_with_a_model_in_both_forms() {
    for (seed, names) in [(1, 40), (2, 300), (3, 300)] {
        let (mut prng, mut space, mut model) = (Prng::new(seed), TestSpace::new(), Expiring::new());
        let mut was_large = BTreeSet::new();
        for round in 0..2_500 {
            space.version += 1;
            if prng.below(4) == 0 {
                space.now_ms += prng.below(40);
                let now_ms = space.now_ms;
                model.retain(|_, (_, expiry)| expiry.is_none_or(|at_ms| at_ms > now_ms));
            }
            expiring_step(&mut prng, &mut space, &mut model, names);
            space.validate();
            assert_eq!(run(&mut space, &[b"HLEN", b"h"]), int(model.len()), "round {round}");
            if round % 25 == 0 {
                let expected: Model = model.iter().map(|(field, (value, _))| (field.clone(), value.clone())).collect();
                assert_eq!(pairs(&strings(&mut space, &[b"HGETALL", b"h"])), expected, "round {round}");
                assert_eq!(pairs(&all_scanned(&mut space)), expected, "round {round}");
                let drawn = strings(&mut space, &[b"HRANDFIELD", b"h", b"20", b"WITHVALUES"]);
                assert_eq!(drawn.len(), 2 * model.len().min(20), "round {round}");
                assert!(pairs(&drawn).iter().all(|pair| expected.get_key_value(pair.0) == Some(pair)));
                run(&mut space, &[b"DEL", b"copy"]).unwrap();
                run(&mut space, &[b"COPY", b"h", b"copy"]).unwrap();
                space.validate();
                for (field, (_, expiry)) in model.iter().take(5) {
                    let at = expiry.map_or(-1, |at_ms| at_ms as i64);
                    for key in [b"h".as_slice(), b"copy"] {
                        let told = run(&mut space, &[b"HPEXPIRETIME", key, b"FIELDS", b"1", field]).unwrap();
                        assert_eq!(told, format!("*1\r\n:{at}\r\n").into_bytes());
                    }
                }
            }
            was_large.insert(space.get(b"h").unwrap().is_some_and(|record| record.view().kind.is_large()));
        }
        assert_eq!(was_large.contains(&true), names > 128);
    }
}

/// All fields and values, by HSCAN.
fn all_scanned(space: &mut TestSpace) -> Vec<Vec<u8>> {
    let (mut cursor, mut found) = (b"0".to_vec(), Vec::new());
    loop {
        let mut answer = strings(space, &[b"HSCAN", b"h", &cursor, b"COUNT", b"30"]).into_iter();
        cursor = answer.next().unwrap();
        found.extend(answer);
        if cursor == b"0" {
            return found;
        }
    }
}

/// What background collection has not come to costs HLEN no more than a bound: as in Redis, the rest counts until it is gone.
#[test]
fn the_length_is_told_in_bounded_time_however_many_have_expired() {
    let max = vocab::limits::EXPIRED_FIELDS_COUNTED_MAX as usize;
    for (expiring, lasting) in [(max, 7), (max - 1, 200), (3 * max, 7)] {
        let mut space = space_with(expiring + lasting);
        let at = (space.now_ms + 500).to_string().into_bytes();
        for n in 0..expiring {
            let field = format!("f{n}").into_bytes();
            run(&mut space, &[b"HPEXPIREAT", b"h", &at, b"FIELDS", b"1", &field]).unwrap();
        }
        assert_eq!(run(&mut space, &[b"HLEN", b"h"]), int(expiring + lasting));
        space.now_ms += 500;
        assert_eq!(run(&mut space, &[b"HLEN", b"h"]), int(expiring.saturating_sub(max) + lasting));
        assert_eq!(strings(&mut space, &[b"HKEYS", b"h"]).len(), lasting);
    }
}

#[test]
fn fields_that_expire_are_dumped_and_restored() {
    for fields in [3, 400] {
        let mut space = space_with(fields);
        let at = (space.now_ms + 500).to_string().into_bytes();
        run(&mut space, &[b"HPEXPIREAT", b"h", &at, b"FIELDS", b"2", b"f0", b"f1"]).unwrap();
        let dumped = strings(&mut space, &[b"DUMP", b"h"]).remove(0);
        space.version += 1;
        assert_eq!(run(&mut space, &[b"RESTORE", b"r", b"0", &dumped]).unwrap(), b"+OK\r\n");
        space.validate();
        let told = run(&mut space, &[b"HPEXPIRETIME", b"r", b"FIELDS", b"3", b"f0", b"f1", b"f2"]).unwrap();
        assert_eq!(told, [b"*3\r\n:", &at[..], b"\r\n:", &at, b"\r\n:-1\r\n"].concat());
        space.now_ms += 500;
        assert_eq!(run(&mut space, &[b"HLEN", b"r"]), int(fields - 2));
        let dumped_late = strings(&mut space, &[b"DUMP", b"h"]).remove(0);
        for (key, dumped) in [(b"late".as_slice(), &dumped), (b"later", &dumped_late)] {
            space.version += 1;
            assert_eq!(run(&mut space, &[b"RESTORE", key, b"0", dumped]).unwrap(), b"+OK\r\n");
            assert_eq!(run(&mut space, &[b"HLEN", key]), int(fields - 2));
        }
        space.validate();
    }
}
