//! What commands tell: those of Redis 7.4, 8 and Valkey, whose events no unit of Redis 7.0 checks.
#![allow(clippy::unwrap_used)]

use super::EventClasses;
use crate::command::{Call, Handler, ReadHandler, handler};
use crate::format::entry::CollectFrom;
use crate::test_shard::empty_shard;
use crate::{EntrySpace, Evaluation, ShardHandle};
use resp::Reply;
use std::sync::Arc;
use vocab::ShardId;

const NOW_MS: u64 = 1_700_000_000_000;

/// Commands in turn, each an entry, and the events that each tells with their keys. `+10`: the clock moves on, in ms, and what
/// has expired is collected.
const TOLD: &[(&str, &str)] = &[
    ("HSET h a 1 b 2", "hset h"),
    ("HEXPIRE h 10 FIELDS 2 a nosuch", "hexpire h"),
    ("HEXPIRE h 10 FIELDS 1 nosuch", ""),
    ("HEXPIRE h 20 NX FIELDS 1 a", ""),
    ("HPEXPIREAT h 1900000000000 GT FIELDS 1 a", "hexpire h"),
    ("HPERSIST h FIELDS 2 a b", "hpersist h"),
    ("HPERSIST h FIELDS 1 b", ""),
    ("HGETEX h FIELDS 1 a", ""),
    ("HGETEX h EX 10 FIELDS 2 a nosuch", "hexpire h"),
    ("HGETEX h PERSIST FIELDS 2 a b", "hpersist h"),
    ("HGETEX h PERSIST FIELDS 2 a b", ""),
    ("HEXPIRE h 0 FIELDS 1 a", "hdel h"),
    ("HGETEX h PXAT 1 FIELDS 1 b", "hdel h, del h"),
    ("HSETEX h EX 10 FIELDS 1 a 1", "hset h, hexpire h"),
    ("HSETEX h FNX FIELDS 1 a 2", ""),
    ("HSETEX h KEEPTTL FIELDS 1 a 2", "hset h"),
    ("HSETEX h PXAT 1 FIELDS 1 a 3", "hset h, hdel h, del h"),
    ("HSETEX h PXAT 1 FIELDS 1 a 3", "hset h, hdel h, del h"),
    ("HSET h a 1 b 2", "hset h"),
    ("HGETDEL h FIELDS 1 nosuch", ""),
    ("HGETDEL h FIELDS 1 a", "hdel h"),
    ("HGETDEL h FIELDS 2 b c", "hdel h, del h"),
    // Fields that expire are told by the command that writes the hash without them, or when they are collected.
    ("HSETEX h PX 5 FIELDS 1 a 1", "hset h, hexpire h"),
    ("HSET h b 1", "hset h"),
    ("HEXPIRE h 0 FIELDS 1 b", "hdel h"),
    ("HSET h b 1", "hset h"),
    ("HSETEX gone PX 5 FIELDS 1 a 1", "hset gone, hexpire gone"),
    ("+10", "hexpired gone, del gone, hexpired h"),
    ("HSETEX h PX 5 FIELDS 1 a 1", "hset h, hexpire h"),
    ("~10", ""),
    ("HSET h c 1", "hexpired h, hset h"),
    ("DEL h", "del h"),
    // Conditions.
    ("SET s 1", "set s"),
    ("SET s 2 IFEQ 3", ""),
    ("SET s 2 IFEQ 1 EX 10", "set s, expire s"),
    ("DELIFEQ s 1", ""),
    ("DELIFEQ s 2", "del s"),
    ("SET s 1", "set s"),
    ("DELEX s IFEQ 2", ""),
    ("DELEX s IFNE 2", "del s"),
    ("MSETEX 2 s 1 t 2 NX", "set s, set t"),
    ("MSETEX 2 s 1 t 2 NX", ""),
    ("MSETEX 1 s 1 EX 10", "set s, expire s"),
    ("INCREX n", "incrby n"),
    ("INCREX n BYINT 5 EX 10", "incrby n, expire n"),
    ("INCREX n BYFLOAT 0.5", "incrbyfloat n"),
    // Streams.
    ("XADD x 1-1 f v", "xadd x"),
    ("XADD x 2-1 f v", "xadd x"),
    ("XGROUP CREATE x g 0", "xgroup-create x"),
    ("XDELEX x IDS 1 9-9", ""),
    ("XDELEX x KEEPREF IDS 1 1-1", "xdel x"),
    ("XREADGROUP GROUP g c STREAMS x >", "xgroup-createconsumer x"),
    ("XACKDEL x g DELREF IDS 1 2-1", "xdel x"),
];

fn run(space: &mut EntrySpace<'_>, text: &str) {
    let args: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
    let mut reply = Reply::default();
    match handler(resp::table::resolve(&args).unwrap()).unwrap() {
        Handler::Write(run) => run(&mut Call { args: &args, space, reply: &mut reply }).unwrap(),
        Handler::Read(ReadHandler::Keys(run)) => run(&mut Call { args: &args, space, reply: &mut reply }).unwrap(),
        _ => panic!("{text}"),
    }
}

fn told(handle: &Arc<ShardHandle>, now_ms: u64, run: impl FnOnce(&mut EntrySpace<'_>)) -> String {
    let index = handle.engine().applied_index() + 1;
    let mut space = EntrySpace::new(handle, index, now_ms, Evaluation::Second);
    space.tell(EventClasses::parse("AKE").unwrap());
    run(&mut space);
    let events = space.take_events();
    space.commit();
    let word = |event: &super::KeyspaceEvent| format!("{} {}", event.event.name, String::from_utf8_lossy(&event.key));
    events.iter().map(word).collect::<Vec<_>>().join(", ")
}

#[test]
fn each_command_tells_what_it_has_done() {
    let (handle, _folder) = empty_shard(ShardId(1));
    let (mut now_ms, mut from) = (NOW_MS, CollectFrom::default());
    for (command, expected) in TOLD {
        let events = if let Some(ms) = command.strip_prefix('~') {
            now_ms += ms.parse::<u64>().unwrap();
            String::new()
        } else if let Some(ms) = command.strip_prefix('+') {
            now_ms += ms.parse::<u64>().unwrap();
            told(&handle, now_ms, |space| from = space.collect(&from).unwrap().next)
        } else {
            told(&handle, now_ms, |space| run(space, command))
        };
        assert_eq!(events, *expected, "{command}");
    }
}
