//! A store of which this node has nothing, held against one that is here.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::command::testspace;
use crate::command::testspace::{START_MS, TestShards};
use crate::command::{Error, ScanCursors, peer_handler};
use crate::{Heads, Kind, Need, ShardSpaces, Shards};
use resp::Reply;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The leaders of all shards of a store in memory.
#[derive(Clone)]
struct Leaders {
    shards: Rc<RefCell<TestShards>>,
    calls: Rc<RefCell<usize>>,
    /// How often leaders were asked together.
    rounds: Rc<RefCell<usize>>,
    dead: Option<ShardId>,
}

impl Remote for Leaders {
    fn call(&mut self, shard: ShardId, command: &[&[u8]]) -> RemoteAnswer {
        *self.calls.borrow_mut() += 1;
        if self.dead == Some(shard) {
            return Err("CLUSTERDOWN Hash slot not served".into());
        }
        let mut shards = self.shards.borrow_mut();
        let mut reply = Reply::new(resp::Proto::Resp3);
        let run = peer_handler(command).unwrap();
        let space = &mut shards.shards[shard.0 as usize].2;
        match run.run(command, space, &mut reply) {
            Ok(()) => Ok(reply.buf),
            Err(Error::Reply(text)) => Err(text.into_owned()),
            Err(Error::Fault(fault)) => panic!("{fault:?}"),
        }
    }

    fn call_each(&mut self, calls: &[RemoteCall<'_>]) -> Vec<RemoteAnswer> {
        *self.rounds.borrow_mut() += 1;
        calls.iter().map(|call| self.call(call.shard, &call.command)).collect()
    }
}

/// A store of which this node has nothing.
struct Elsewhere {
    remote: Leaders,
    slots: Vec<(u16, u16)>,
    spaces: Vec<RemoteSpace<Leaders>>,
}

impl Elsewhere {
    fn new(remote: &Leaders) -> Self {
        let slots: Vec<_> = remote.shards.borrow().shards.iter().map(|shard| (shard.0, shard.1)).collect();
        let space = |i: usize| RemoteSpace::new(remote.clone(), ShardId(i as u32), START_MS, i as u64);
        Self { remote: remote.clone(), spaces: (0..slots.len()).map(space).collect(), slots }
    }
}

impl ShardSpaces for Elsewhere {
    fn space(&mut self, i: usize) -> &mut dyn ShardSpace {
        &mut self.spaces[i]
    }
}

impl Shards for Elsewhere {
    fn count(&self) -> usize {
        self.slots.len()
    }

    fn is_here(&self, _i: usize) -> bool {
        false
    }

    fn slots(&self, i: usize) -> (u16, u16) {
        self.slots[i]
    }

    fn leads(&self, _: usize) -> bool {
        false
    }

    fn key_counts(&mut self, which: &[usize], _need: Need) -> Vec<Result<u64, Fault>> {
        let ids: Vec<ShardId> = which.iter().map(|i| ShardId(*i as u32)).collect();
        remote_counts(&mut self.remote, &ids)
    }

    fn heads(&mut self, asked: &[(usize, RecordRange<'_>)]) -> Vec<Result<Heads, Fault>> {
        let asked: Vec<_> = asked.iter().map(|(i, range)| (ShardId(*i as u32), *range)).collect();
        remote_heads(&mut self.remote, &asked)
    }

    fn records<'a>(&'a mut self, range: &RecordRange<'_>) -> Vec<Box<dyn Records + 'a>> {
        let ids: Vec<ShardId> = (0..self.slots.len()).map(|i| ShardId(i as u32)).collect();
        remote_records(&self.remote, &ids, range)
    }

    fn libraries(&mut self) -> Result<Vec<Vec<u8>>, String> {
        Ok(Vec::new())
    }
}

/// Five shards with strings, short and long hashes, and keys whose time has come.
fn leaders() -> Leaders {
    let mut shards = TestShards::new(5);
    let mut run = |line: &str| {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut reply = Reply::default();
        let space = shards.owner(args[1]);
        space.version += 1;
        testspace::run(space, &args, &mut reply).unwrap();
    };
    (0..400).for_each(|i| run(&format!("SET key:{i:03} value-{i}")));
    (0..9).for_each(|i| run(&format!("SET gone:{i} x PX 10")));
    (0..5).for_each(|i| run(&format!("HSET short:{i} f {i} g 2")));
    let fields: String = (0..200).map(|i| format!(" field{i} {i}")).collect();
    (0..5).for_each(|i| run(&format!("HSET long:{i}{fields}")));
    shards.shards.iter_mut().for_each(|shard| shard.2.now_ms += 1000);
    Leaders { shards: Rc::new(RefCell::new(shards)), calls: Rc::default(), rounds: Rc::default(), dead: None }
}

fn ask(shards: &mut dyn Shards, line: &str) -> Result<Value, String> {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let (mut reply, cursors) = (Reply::default(), ScanCursors::default());
    match testspace::run_on_store(shards, &cursors, &args, &mut reply) {
        Ok(()) => Ok(resp::decode(&reply.buf).unwrap().unwrap().0),
        Err(Error::Reply(text)) => Err(text.into_owned()),
        Err(Error::Fault(Fault::Remote(text))) => Err(text),
        Err(Error::Fault(fault)) => panic!("{fault:?}"),
    }
}

#[test]
fn a_store_elsewhere_answers_as_one_that_is_here() {
    let leaders = leaders();
    for line in [
        "KV.RANGE - + LIMIT 10000",
        "KV.RANGE - + LIMIT 10000 REVERSE",
        "KV.RANGE [key:100 (key:200 LIMIT 7",
        "KV.RANGE [key:100 (key:200 LIMIT 1 KEYS REVERSE",
        "KV.RANGE [long: (long; VALUES",
        "KV.RANGE - + KEYS LIMIT 500",
        "SCAN 0 COUNT 10000 STORE",
        "SCAN 0 COUNT 10000 TYPE hash STORE",
        "SCAN 0 STORE MATCH *:1* COUNT 100",
        "DBSIZE STORE",
        "KEYS * STORE",
        "KEYS key:?9? STORE",
    ] {
        let here = ask(&mut *leaders.shards.borrow_mut(), line).unwrap();
        let there = ask(&mut Elsewhere::new(&leaders), line).unwrap();
        assert_eq!(here, there, "{line}");
    }
    assert_eq!(ask(&mut Elsewhere::new(&leaders), "DBSIZE"), Ok(Value::Int(0)), "it leads nothing");
    let mut drawn = BTreeSet::new();
    for _ in 0..30 {
        let key = ask(&mut Elsewhere::new(&leaders), "RANDOMKEY").unwrap();
        drawn.insert(key.as_bytes().unwrap().to_vec());
    }
    assert!(drawn.iter().all(|key| !key.starts_with(b"gone")), "{drawn:?}");
}

#[test]
fn a_short_range_takes_one_question_a_shard() {
    let leaders = leaders();
    ask(&mut Elsewhere::new(&leaders), "KV.RANGE [key:100 + LIMIT 20").unwrap();
    assert_eq!(leaders.calls.take(), 5);
    ask(&mut Elsewhere::new(&leaders), "KV.RANGE - + LIMIT 10000").unwrap();
    assert_eq!(leaders.calls.take(), 5);
}

#[test]
fn what_cannot_be_asked_is_an_error() {
    let leaders = Leaders { dead: Some(ShardId(3)), ..leaders() };
    for line in ["KV.RANGE - +", "SCAN 0 COUNT 10000 STORE", "DBSIZE STORE", "KEYS * STORE"] {
        let error = ask(&mut Elsewhere::new(&leaders), line).unwrap_err();
        assert_eq!(error, "CLUSTERDOWN Hash slot not served", "{line}");
    }
}

#[test]
fn senseless_answers_are_errors() {
    let range = RecordRange { start: b"b", end: b"y", reverse: false, payloads: true, limit: 1 };
    let text = |record: Record| {
        let text = String::from_utf8(record.bytes().to_vec()).unwrap();
        format!("${}\r\n{text}\r\n", text.len())
    };
    let string = text(Record::new(Kind::STRING, None, &[&[0; 16]]));
    for answer in [
        "".to_owned(),
        "+OK\r\n".into(),
        "*2\r\n:0\r\n*1\r\n$1\r\nc\r\n".into(),
        "*2\r\n:1\r\n*0\r\n".into(),
        "*2\r\n:0\r\n*2\r\n$1\r\nc\r\n$1\r\nx\r\n".into(),
        format!("*2\r\n:0\r\n*2\r\n$1\r\na\r\n{string}"),
        format!("*2\r\n:0\r\n*2\r\n$1\r\ny\r\n{string}"),
        format!("*2\r\n:0\r\n*4\r\n$1\r\nc\r\n{string}$1\r\nc\r\n{string}"),
    ] {
        #[derive(Clone)]
        struct Parrot(Vec<u8>);
        impl Remote for Parrot {
            fn call(&mut self, _: ShardId, _: &[&[u8]]) -> RemoteAnswer {
                Ok(self.0.clone())
            }
        }
        let mut lists = remote_records(&Parrot(answer.clone().into_bytes()), &[ShardId(1)], &range);
        let got = lists[0].advance();
        assert!(matches!(&got, Err(Fault::Remote(text)) if text.starts_with("ERR another node")), "{answer}");
        assert!(matches!(lists[0].advance(), Ok(None)), "after a fault there is nothing");
    }
}

#[test]
fn all_shards_are_asked_at_the_same_time() {
    let leaders = leaders();
    for (line, calls) in [("DBSIZE STORE", 5), ("KEYS * STORE", 5), ("KEYS key:?9? STORE", 5)] {
        ask(&mut Elsewhere::new(&leaders), line).unwrap();
        assert_eq!((leaders.rounds.take(), leaders.calls.take()), (1, calls), "{line}");
    }
}

#[test]
fn a_random_key_comes_from_a_shard_that_has_a_leader() {
    let leaders = Leaders { dead: Some(ShardId(2)), ..leaders() };
    for _ in 0..30 {
        let key = ask(&mut Elsewhere::new(&leaders), "RANDOMKEY").unwrap();
        assert!(key.as_bytes().is_some(), "another shard has one");
    }
}
