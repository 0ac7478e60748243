//! Streams against a list of entries, and their transcripts.

#![allow(clippy::unwrap_used)]

use super::id::StreamId;
use super::stored::{Form, Stream};
use crate::command::call::Error;
use crate::command::testspace::{self, TestSpace};
use crate::{ReadSpace, Rules};
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
fn what_has_been_pending_for_long_is_given_first() {
    crate::command::transcript::check("stream_idle");
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

/// What XINFO STREAM tells of producers and ids that are known.
fn tracked(space: &mut TestSpace) -> [i64; 2] {
    let Value::Array(facts) = run(space, "XINFO STREAM s") else { panic!("no facts") };
    ["pids-tracked", "iids-tracked"].map(|name| {
        let fact = facts.chunks(2).find(|fact| fact[0].as_bytes() == Some(name.as_bytes())).unwrap();
        let Value::Int(number) = fact[1] else { panic!("{fact:?}") };
        number
    })
}

/// Adds an entry for each of these producers, which ask once.
fn ask_once(space: &mut TestSpace, producers: std::ops::Range<u64>) {
    for n in producers {
        assert!(run(space, &format!("XADD s IDMP p{n} r * f v")).as_error().is_none(), "{n}");
    }
}

#[test]
fn ids_of_producers_that_never_come_again_go_with_their_producers() {
    let mut space = TestSpace::new();
    filled(&mut space, 1);
    run(&mut space, "XCFGSET s IDMP-DURATION 1");
    ask_once(&mut space, 0..1000);
    assert_eq!(tracked(&mut space), [1000, 1000]);
    space.now_ms += 2000;
    assert_eq!(tracked(&mut space), [0, 0]);
    // Each request removes some.
    let rows = space.element_count(b"s");
    let before = space.reads + space.writes;
    ask_once(&mut space, 1000..1001);
    assert!(space.reads + space.writes - before < 400, "{}", space.reads + space.writes - before);
    assert!(space.element_count(b"s") < rows - 100);
    ask_once(&mut space, 1001..1050);
    assert_eq!(tracked(&mut space), [50, 50]);
    let stream = Stream::load(&mut space, b"s").unwrap().unwrap();
    let producers = stream.producers.unwrap();
    assert_eq!((producers.producers, producers.ids, producers.ids_ever), (50, 50, 1050));
    // Of each id there are three rows, one of its producer, and one says when to look again.
    assert_eq!(space.element_count(b"s"), 1051 + 50 * 4 + 1);
    space.validate();
}

#[test]
fn ids_that_were_added_by_earlier_rules_go_when_their_producer_comes_again() {
    let mut space = TestSpace::new();
    filled(&mut space, 1);
    run(&mut space, "XCFGSET s IDMP-DURATION 1");
    space.rules = Rules::Later;
    ask_once(&mut space, 0..40);
    space.now_ms += 2000;
    assert_eq!(tracked(&mut space), [40, 40]);
    space.rules = Rules::NEWEST;
    assert_eq!(tracked(&mut space), [40, 40], "they have no row by time");
    ask_once(&mut space, 0..40);
    assert_eq!((tracked(&mut space), run(&mut space, "XLEN s")), ([40, 40], Value::Int(81)));
    // From now on they are as others.
    space.now_ms += 2000;
    assert_eq!(tracked(&mut space), [0, 0]);
    ask_once(&mut space, 100..110);
    let producers = Stream::load(&mut space, b"s").unwrap().unwrap().producers.unwrap();
    assert_eq!((tracked(&mut space), producers.producers, producers.ids), ([10, 10], 10, 10));
    // By earlier rules ids go and leave their rows by time, which mean nothing then.
    space.rules = Rules::Later;
    space.now_ms += 2000;
    ask_once(&mut space, 100..110);
    space.rules = Rules::NEWEST;
    let rows = space.element_count(b"s");
    assert_eq!(tracked(&mut space), [10, 10]);
    ask_once(&mut space, 200..201);
    assert_eq!((tracked(&mut space), space.element_count(b"s")), ([11, 11], rows - 10 + 5));
    space.validate();
}

#[test]
fn ids_that_give_room_to_others_leave_no_row() {
    let mut space = TestSpace::new();
    filled(&mut space, 1);
    run(&mut space, "XCFGSET s IDMP-MAXSIZE 3");
    for n in 0..50 {
        run(&mut space, &format!("XADD s IDMP p i{n} * f v"));
    }
    assert_eq!(tracked(&mut space), [1, 3]);
    assert_eq!(space.element_count(b"s"), 51 + 3 * 3 + 1 + 1);
}

/// The reply of the last of these commands, each of which is evaluated by the same rules.
fn reply_by(rules: Rules, commands: &str) -> String {
    let mut space = TestSpace::new();
    space.rules = rules;
    let mut last = String::new();
    for command in commands.split("; ") {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let mut reply = Reply::new(Proto::Resp2);
        space.version += 1;
        last = match testspace::run(&mut space, &args, &mut reply) {
            Ok(()) => String::from_utf8_lossy(&reply.buf).replace("\r\n", " "),
            Err(Error::Reply(text)) => text.into_owned(),
            Err(Error::Fault(fault)) => panic!("{command}: {fault:?}"),
        };
        space.validate();
    }
    last
}

#[test]
fn by_earlier_rules_all_is_as_it_was() {
    const READ: &str = "XADD s 1-0 f v; XADD s 2-0 f v; XADD s 3-0 f v; XGROUP CREATE s g 0; \
                        XREADGROUP GROUP g a COUNT 1 STREAMS s >";
    const INVALID: &str = "ERR Invalid stream ID specified as stream command argument";
    // What the replies of the last commands end with.
    for (commands, was, is) in [
        ("XDEL s 1-0; XDELEX s DELREF IDS 1 1-0; XACK s g 1-0", ":1 ", ":0 "),
        ("XDEL s 1-0; XDELEX s ACKED IDS 1 1-0", "*1 :-1 ", "*1 :2 "),
        ("XDEL s 1-0; XTRIM s MAXLEN 0 DELREF; XACK s g 1-0", ":0 ", ":1 "),
        ("XGROUP SETID s g 0; XACKDEL s g ACKED IDS 1 1-0", "*1 :1 ", "*1 :2 "),
        ("XDELEX s KEEPREF DELREF IDS 1 1-0", "*1 :1 ", "ERR syntax error"),
        ("XDELEX s IDS 1 9-9 IDS 1 1-0", "ERR syntax error", "*1 :1 "),
        ("XTRIM s MAXLEN 0 KEEPREF DELREF", ":3 ", "ERR syntax error"),
        ("XADD s ACKED DELREF 4-0 f v", "$3 4-0 ", INVALID),
        ("XDELEX t IDS 1 bad", INVALID, "*1 :-1 "),
        ("XNACK s g FAIL FORCE IDS 1 1-0", "ERR syntax error", ":1 "),
        ("XNACK s g FAIL IDS 1 1-0 IDS 1 1-0", "ERR syntax error", ":1 "),
        ("XCFGSET s IDMP-DURATION 1 IDMP-DURATION 2", "+OK ", "ERR IDMP-DURATION specified multiple times"),
        ("XIDMPRECORD s p i 1-0", "ERR not while nodes of an earlier release hold replicas", "+OK "),
        ("XREADGROUP GROUP g b COUNT 1 CLAIM 0 STREAMS s >", "ERR syntax error", "$1 v :0 :1 "),
        ("XTRIM s MAXLEN 1; XINFO GROUPS s", "$12 entries-read :1 $3 lag :2 ", "$12 entries-read :1 $3 lag :1 "),
        ("XDEL s 1-0 2-0; XINFO GROUPS s", "$12 entries-read :1 $3 lag :2 ", "$12 entries-read :1 $3 lag :1 "),
        (
            "XDEL s 1-0 2-0; XREADGROUP GROUP g a STREAMS s >; XINFO GROUPS s",
            "$12 entries-read :2 $3 lag :1 ",
            "$12 entries-read :3 $3 lag :0 ",
        ),
        ("XGROUP SETID s g 0 ENTRIESREAD 9; XINFO GROUPS s", "entries-read :9 $3 lag :-6 ", ":3 $3 lag :3 "),
    ] {
        let commands = format!("{READ}; {commands}");
        let (by_earlier, by_newest) = (reply_by(Rules::Later, &commands), reply_by(Rules::NEWEST, &commands));
        assert!(by_earlier.ends_with(was) && by_newest.ends_with(is), "{commands}: {by_earlier}, {by_newest}");
    }
}

#[test]
fn what_removes_nothing_does_not_write_the_stream() {
    for (rules, is_written) in [(Rules::Later, true), (Rules::NEWEST, false)] {
        let mut space = TestSpace::new();
        for command in ["XGROUP CREATE s g 0 MKSTREAM", "XGROUP CREATE s h 0", "XADD s 1 f v"] {
            run(&mut space, command);
        }
        run(&mut space, "XREADGROUP GROUP g c STREAMS s >");
        space.rules = rules;
        for command in ["XDELEX s ACKED IDS 1 1", "XDELEX s IDS 1 7", "XACKDEL s g ACKED IDS 1 1"] {
            let version = |space: &mut TestSpace| space.get(b"s").unwrap().unwrap().view().version;
            let before = version(&mut space);
            run(&mut space, command);
            assert_eq!(version(&mut space) != before, is_written, "{command}, {rules:?}");
        }
    }
}
