//! Streams against a list of entries, and their transcripts.

#![allow(clippy::unwrap_used)]

use super::id::StreamId;
use super::stored::{Form, Stream};
use crate::command::call::Error;
use crate::command::testspace::{self, TestSpace};
use resp::{Proto, Reply, Value};
use std::collections::BTreeMap;
use vocab::Prng;

#[test]
fn entries_that_groups_know_are_removed_with_regard_to_them() {
    crate::command::transcript::check("stream_references");
}

#[test]
fn pending_entries_are_given_back() {
    crate::command::transcript::check("stream_nack");
}

#[test]
fn requests_of_producers_are_applied_once() {
    crate::command::transcript::check("stream_producers");
}

#[test]
fn transcript() {
    crate::command::transcript::check("stream");
    crate::command::transcript::check("stream_groups");
}

fn run(space: &mut TestSpace, text: &str) -> Value {
    let args: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
    run_args(space, &args)
}

fn run_args(space: &mut TestSpace, args: &[&[u8]]) -> Value {
    space.version += 1;
    let mut reply = Reply::new(Proto::Resp2);
    let spec = resp::table::resolve(args).expect("a command");
    match testspace::run_of(space, spec, args, &mut reply) {
        Ok(()) => {}
        Err(Error::Reply(text)) => reply.error(&text),
        Err(Error::Fault(fault)) => panic!("{fault:?}"),
    }
    let (value, used) = resp::decode(&reply.buf).unwrap().unwrap();
    assert_eq!(used, reply.buf.len());
    value
}

fn entries_of(value: &Value) -> Vec<(u64, Vec<u8>)> {
    let Value::Array(entries) = value else { panic!("{value:?}") };
    let entry = |entry: &Value| {
        let Value::Array(parts) = entry else { panic!("{entry:?}") };
        let Value::Array(strings) = &parts[1] else { panic!("{entry:?}") };
        let id = StreamId::parse(parts[0].as_bytes().unwrap(), 0).unwrap();
        (id.ms, strings[1].as_bytes().unwrap().to_vec())
    };
    entries.iter().map(entry).collect()
}

/// What a stream should hold.
#[derive(Default)]
struct Model {
    entries: BTreeMap<u64, Vec<u8>>,
    last: u64,
}

impl Model {
    fn check(&self, space: &mut TestSpace) {
        space.validate();
        assert_eq!(run(space, "XLEN s"), Value::Int(self.entries.len() as i64));
        let all: Vec<(u64, Vec<u8>)> = self.entries.clone().into_iter().collect();
        assert_eq!(entries_of(&run(space, "XRANGE s - +")), all);
        let mut reversed = all.clone();
        reversed.reverse();
        assert_eq!(entries_of(&run(space, "XREVRANGE s + -")), reversed);
        if let Some(stream) = Stream::load(space, b"s").unwrap() {
            assert_eq!(stream.meta.first_id.ms, all.first().map_or(0, |(id, _)| *id));
            assert_eq!(stream.meta.length, all.len() as u64);
            assert_eq!(stream.meta.last_id.ms, self.last);
        }
    }

    fn step(&mut self, space: &mut TestSpace, prng: &mut Prng) {
        match prng.below(20) {
            0..12 => {
                self.last += 1 + prng.below(3);
                let value = vec![b'v'; prng.below(40) as usize];
                run_args(space, &[b"XADD", b"s", self.last.to_string().as_bytes(), b"f", &value]);
                self.entries.insert(self.last, value);
            }
            12..16 => {
                let from = prng.below(self.last + 1);
                let ids: Vec<u64> = (from..from + prng.below(8) + 1).collect();
                let texts: Vec<String> = ids.iter().map(u64::to_string).collect();
                let mut args: Vec<&[u8]> = vec![b"XDEL", b"s"];
                args.extend(texts.iter().map(|text| text.as_bytes()));
                let gone = ids.iter().filter(|id| self.entries.remove(id).is_some()).count();
                assert_eq!(run_args(space, &args), Value::Int(gone as i64));
            }
            16 => {
                let length = self.entries.len() - self.entries.len().min(prng.below(20) as usize);
                let gone = run(space, &format!("XTRIM s MAXLEN {length}"));
                assert_eq!(gone, Value::Int((self.entries.len() - length) as i64));
                while self.entries.len() > length {
                    self.entries.pop_first();
                }
            }
            17 => {
                let first = self.entries.keys().next().copied().unwrap_or(0);
                let from = first + prng.below(20);
                let before = self.entries.len();
                self.entries.retain(|id, _| *id >= from);
                let gone = before - self.entries.len();
                assert_eq!(run(space, &format!("XTRIM s MINID {from}")), Value::Int(gone as i64));
            }
            _ => {
                let (from, count) = (prng.below(self.last + 2), prng.below(10) + 1);
                let expected: Vec<_> = self.entries.range(from..).take(count as usize).collect();
                let found = entries_of(&run(space, &format!("XRANGE s {from} + COUNT {count}")));
                assert!(found.iter().map(|(id, value)| (id, value)).eq(expected));
                let expected: Vec<_> = self.entries.range(..=from).rev().take(count as usize).collect();
                let found = entries_of(&run(space, &format!("XREVRANGE s {from} - COUNT {count}")));
                assert!(found.iter().map(|(id, value)| (id, value)).eq(expected));
            }
        }
    }
}

#[test]
fn a_stream_holds_what_a_list_would() {
    for seed in 0..12 {
        let (mut space, mut prng, mut model) = (TestSpace::new(), Prng::new(seed), Model::default());
        for step in 0..600 {
            model.step(&mut space, &mut prng);
            if step % 40 == 0 {
                model.check(&mut space);
            }
        }
        model.check(&mut space);
    }
}

fn filled(space: &mut TestSpace, entries: u64) {
    for n in 1..=entries {
        run(space, &format!("XADD s {n} f {n}"));
    }
}

#[test]
fn what_is_gone_is_counted_over_blocks_and_trimmed_at_once() {
    let mut space = TestSpace::new();
    let mut model = Model { last: 4000, ..Model::default() };
    filled(&mut space, 4000);
    model.entries = (1..=4000).map(|n: u64| (n, n.to_string().into_bytes())).collect();
    for n in (5..3900_u64).filter(|n| n % 3 == 0 || (1000..1100).contains(n)) {
        run(&mut space, &format!("XDEL s {n}"));
        model.entries.remove(&n);
    }
    model.check(&mut space);
    for length in [2400, 2399, 1500, 1000, 3, 0] {
        run(&mut space, &format!("XTRIM s MAXLEN {length}"));
        while model.entries.len() > length {
            model.entries.pop_first();
        }
        model.check(&mut space);
    }
    assert_eq!(space.element_count(b"s"), 0, "no row is left behind");
    run(&mut space, "XADD s 5000 f v");
    assert_eq!(space.element_count(b"s"), 1);
}

#[test]
fn what_trimming_costs_does_not_grow_with_what_it_removes() {
    let costs: Vec<u64> = [2_000, 20_000]
        .into_iter()
        .map(|entries| {
            let mut space = TestSpace::new();
            filled(&mut space, entries);
            let before = space.writes + space.reads;
            run(&mut space, "XTRIM s MAXLEN 1");
            space.writes + space.reads - before
        })
        .collect();
    assert!(costs.iter().all(|cost| *cost < 1_200), "{costs:?}");
}

#[test]
fn a_stream_is_dumped_restored_renamed_and_copied() {
    for entries in [3, 2_000] {
        let mut space = TestSpace::new();
        filled(&mut space, entries);
        run(&mut space, "XDEL s 2");
        let whole = run(&mut space, "XRANGE s - +");
        let dump = run(&mut space, "DUMP s");
        let dump = dump.as_bytes().unwrap().to_vec();
        assert_eq!(run_args(&mut space, &[b"RESTORE", b"r", b"0", &dump]), Value::Simple("OK".into()));
        assert_eq!(run(&mut space, "COPY s c"), Value::Int(1));
        assert_eq!(run(&mut space, "RENAME s m"), Value::Simple("OK".into()));
        for key in ["r", "c", "m"] {
            assert_eq!(run(&mut space, &format!("XRANGE {key} - +")), whole, "{key}");
            assert_eq!(run(&mut space, &format!("XADD {key} {entries} f v")).as_error().map(|_| ()), Some(()));
            let stream = Stream::load(&mut space, key.as_bytes()).unwrap().unwrap();
            assert_eq!((stream.meta.max_deleted_id.ms, stream.meta.added), (2, entries));
            assert_eq!(matches!(stream.form, Form::Large(_)), entries > 16);
        }
    }
}

#[test]
fn groups_are_dumped_restored_renamed_and_copied() {
    let mut space = TestSpace::new();
    filled(&mut space, 300);
    for group in ["g", "h"] {
        run(&mut space, &format!("XGROUP CREATE s {group} 0"));
        for consumer in ["a", "b"] {
            run(&mut space, &format!("XREADGROUP GROUP {group} {consumer} COUNT 100 STREAMS s >"));
        }
    }
    run(&mut space, "XACK s g 7 8");
    run(&mut space, "XDEL s 9");
    let questions =
        ["XPENDING K g", "XPENDING K h - + 300 b", "XINFO GROUPS K", "XINFO CONSUMERS K g", "XINFO STREAM K FULL"];
    let told = |space: &mut TestSpace, key: &str| questions.map(|question| run(space, &question.replace('K', key)));
    let expected = told(&mut space, "s");
    let dump = run(&mut space, "DUMP s").as_bytes().unwrap().to_vec();
    assert_eq!(run_args(&mut space, &[b"RESTORE", b"r", b"0", &dump]), Value::Simple("OK".into()));
    run(&mut space, "COPY s c");
    run(&mut space, "RENAME s m");
    space.validate();
    for key in ["r", "c", "m"] {
        let found = told(&mut space, key);
        // A restored stream numbers its entries anew, which the radix tree that it tells of follows.
        assert_eq!(found[..4], expected[..4], "{key}");
        let pending = run(&mut space, &format!("XREADGROUP GROUP g a STREAMS {key} 0"));
        assert_eq!(entries_pending(&pending), 98, "{key}");
        assert!(matches!(run(&mut space, &format!("XAUTOCLAIM {key} g b 0 0 COUNT 1000")), Value::Array(_)));
        assert_eq!(run(&mut space, &format!("XGROUP DESTROY {key} g")), Value::Int(1));
        assert_eq!(run(&mut space, &format!("XGROUP DELCONSUMER {key} h a")), Value::Int(99 + 1));
    }
    space.validate();
}

#[test]
fn a_consumer_with_many_pending_entries_goes_with_them_and_nothing_else_does() {
    for many in [100, 2000] {
        let mut space = TestSpace::new();
        filled(&mut space, many + 600);
        run(&mut space, "XGROUP CREATE s g 0");
        run(&mut space, &format!("XREADGROUP GROUP g a COUNT {many} STREAMS s >"));
        run(&mut space, "XREADGROUP GROUP g b COUNT 500 STREAMS s >");
        assert_eq!(run(&mut space, "XGROUP DELCONSUMER s g a"), Value::Int(many as i64));
        assert_eq!(entries_pending(&run(&mut space, "XREADGROUP GROUP g a STREAMS s 0")), 0);
        run(&mut space, "XREADGROUP GROUP g a COUNT 10 STREAMS s >");
        assert_eq!(entries_pending(&run(&mut space, "XREADGROUP GROUP g a STREAMS s 0")), 10);
        assert_eq!(entries_pending(&run(&mut space, "XREADGROUP GROUP g b STREAMS s 0")), 500);
        let Value::Array(pending) = run(&mut space, "XPENDING s g") else { panic!("no sums") };
        assert_eq!(pending[0], Value::Int(510));
        space.validate();
    }
}

fn entries_pending(reply: &Value) -> usize {
    let Value::Array(streams) = reply else { panic!("{reply:?}") };
    let Value::Array(stream) = &streams[0] else { panic!("{reply:?}") };
    let Value::Array(entries) = &stream[1] else { panic!("{reply:?}") };
    entries.len()
}

#[test]
fn what_makes_no_stream_is_not_restored() {
    let items: [&[&[&[u8]]]; 9] = [
        &[],
        &[&[b"E", b"1", b"f", b"v"]],
        &[&[b"E", b"2", b"f", b"v"], &[b"E", b"1", b"f", b"v"], &[b"S", b"2", b"0", b"2"]],
        &[&[b"E", b"1", b"f"], &[b"S", b"2", b"0", b"2"]],
        &[&[b"S", b"2", b"0", b"2"], &[b"E", b"1", b"f", b"v"]],
        &[&[b"E", b"3", b"f", b"v"], &[b"S", b"2", b"0", b"2"]],
        &[&[b"S", b"2", b"0", b"2"], &[b"C", b"g", b"c", b"1", b"-1"]],
        &[&[b"S", b"2", b"0", b"2"], &[b"G", b"g", b"0", b"-1"], &[b"P", b"g", b"c", b"1", b"1", b"1"]],
        &[&[b"S", b"2", b"0", b"2"], &[b"G", b"g", b"0", b"-1"], &[b"G", b"g", b"0", b"-1"]],
    ];
    for (i, items) in items.iter().enumerate() {
        let mut space = TestSpace::new();
        let items: Vec<Vec<&[u8]>> = items.iter().map(|item| item.to_vec()).collect();
        assert!(!super::restore(&mut space, b"s", None, &items).unwrap(), "{i}");
        assert_eq!(space.writes, 0, "{i}");
    }
}
