#![allow(clippy::unwrap_used)]
use super::error::{BAD_DATA, TOO_LARGE, TORN};
use super::restore::restore;
use crate::command::call::{Call, Error};
use crate::command::testspace::{self, TestSpace};
use crate::space::apply::{LoopBudget, Place};
use crate::test_shard::empty_shard;
use crate::{EntrySpace, Evaluation, Fault, ReadSpace, Rules};
use resp::{Proto, Reply};
use vocab::ShardId;
use vocab::limits::{BULK_BYTES_MAX, VALUE_BYTES_MAX};
use xxhash_rust::xxh3::xxh3_64;

#[test]
fn transcript() {
    crate::command::transcript::check("dump");
}

fn run(space: &mut TestSpace, args: &[&[u8]]) -> Result<Vec<u8>, Error> {
    let mut reply = Reply::new(Proto::Resp2);
    space.version += 1;
    testspace::run(space, args, &mut reply)?;
    space.validate();
    Ok(reply.buf)
}

fn dumped(space: &mut TestSpace, key: &[u8]) -> Vec<u8> {
    let reply = run(space, &[b"DUMP", key]).unwrap();
    let head = reply.iter().position(|&b| b == b'\n').unwrap() + 1;
    reply[head..reply.len() - 2].to_vec()
}

#[test]
fn a_large_hash_is_dumped_restored_renamed_and_copied() {
    let mut space = TestSpace::new();
    let values: Vec<String> = (0..2000).map(|i| format!("{i}")).collect();
    for value in &values {
        run(&mut space, &[b"HSET", b"h", format!("f{value}").as_bytes(), value.as_bytes()]).unwrap();
    }
    let whole = run(&mut space, &[b"HGETALL", b"h"]).unwrap();
    let bytes = dumped(&mut space, b"h");
    assert_eq!(run(&mut space, &[b"RESTORE", b"r", b"0", &bytes]).unwrap(), b"+OK\r\n");
    assert_eq!(run(&mut space, &[b"COPY", b"h", b"c"]).unwrap(), b":1\r\n");
    assert_eq!(run(&mut space, &[b"RENAME", b"h", b"m"]).unwrap(), b"+OK\r\n");
    assert_eq!(run(&mut space, &[b"COPY", b"m", b"c", b"REPLACE"]).unwrap(), b":1\r\n");
    for (key, elements) in [("r", 2000), ("c", 2000), ("m", 2000), ("h", 0)] {
        assert_eq!(space.element_count(key.as_bytes()), elements, "{key}");
        if elements > 0 {
            assert_eq!(run(&mut space, &[b"HGETALL", key.as_bytes()]).unwrap(), whole, "{key}");
        }
    }
    run(&mut space, &[b"RENAME", b"r", b"c"]).unwrap();
    run(&mut space, &[b"SET", b"m", b"1"]).unwrap();
    assert_eq!(space.element_count(b"m"), 0);
    assert_eq!(run(&mut space, &[b"HGETALL", b"c"]).unwrap(), whole);
}

#[test]
fn what_is_dumped_is_restored_up_to_the_largest_and_no_larger_one_is_dumped() {
    let mut space = TestSpace::new();
    let frame = 1 + rdb::length_bytes(BULK_BYTES_MAX as u64) + rdb::FOOTER_BYTES;
    for (bytes, fits) in [(BULK_BYTES_MAX - frame, true), (BULK_BYTES_MAX - frame + 1, false)] {
        run(&mut space, &[b"SET", b"s", &vec![b'x'; bytes]]).unwrap();
        match run(&mut space, &[b"DUMP", b"s"]) {
            Ok(_) => assert!(fits && dumped(&mut space, b"s").len() == BULK_BYTES_MAX),
            Err(Error::Reply(text)) => assert!(!fits && text == TOO_LARGE, "{text}"),
            Err(Error::Fault(fault)) => panic!("{fault:?}"),
        }
    }
}

#[test]
fn no_torn_or_changed_dump_is_restored() {
    let mut space = TestSpace::new();
    run(&mut space, &[b"HSET", b"h", b"field", b"value"]).unwrap();
    run(&mut space, &[b"SET", b"s", b"value"]).unwrap();
    for key in [b"h", b"s"] {
        let bytes = dumped(&mut space, key);
        for i in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[i] ^= 1;
            for bad in [&bytes[..i], &changed] {
                let outcome = run(&mut space, &[b"RESTORE", b"x", b"0", bad]);
                assert!(matches!(outcome, Err(Error::Reply(text)) if text == TORN));
            }
        }
    }
    let of_version_1 = |body: &[u8]| {
        let mut bytes = [body, &1u16.to_le_bytes()].concat();
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        bytes
    };
    let sealed = |body: &[u8]| rdb::seal(body.to_vec(), rdb::VERSION);
    let of_version_1 = [
        &b""[..],
        b"\x03",
        b"\x02",
        b"\x02\x01",
        b"\x02\x01\0\0\0a",
        b"\x02\xff\xff\xff\xffa",
        b"\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ]
    .map(of_version_1);
    // A hash without fields, with a name twice and with a name alone; a type that there is not; more than the value.
    let of_redis = [
        &b""[..],
        b"\x04\0",
        b"\x04\x02\x01f\x01v\x01f\x01v",
        b"\x04\x01\x01f",
        b"\x63\x01a",
        b"\x00\x01ab",
        b"\x02\x80\xff\xff\xff\xff\x01a",
    ]
    .map(sealed);
    for bytes in of_version_1.iter().chain(&of_redis) {
        let outcome = run(&mut space, &[b"RESTORE", b"x", b"0", bytes]);
        assert!(matches!(outcome, Err(Error::Reply(text)) if text == BAD_DATA), "{}", bytes.escape_ascii());
    }
    assert!(space.get(b"x").unwrap().is_none());
}

#[test]
fn an_event_loop_leaves_what_takes_long_to_read_to_a_thread() {
    let (handle, _folder) = empty_shard(ShardId(1));
    let restored = |place: Place, dump: &[u8]| {
        let mut space = EntrySpace::at(place, &handle, (1, 1_000), Evaluation::Second);
        let mut reply = Reply::new(Proto::Resp2);
        let args: [&[u8]; 4] = [b"RESTORE", b"k", b"0", dump];
        restore(&mut Call { args: &args, space: &mut space, reply: &mut reply })
    };
    let on_loop = || Place::EventLoop(LoopBudget::default());
    // A packed set that says that it becomes 1 MiB, and does not.
    let mut much = vec![rdb::types::SET_LISTPACK, 0xc3];
    rdb::put_length(&mut much, 12_000);
    rdb::put_length(&mut much, 1 << 20);
    much.resize(much.len() + 12_000, 0);
    for (dump, error) in [(rdb::seal(much, rdb::VERSION), BAD_DATA), (vec![7; 64 << 10], TORN)] {
        assert!(matches!(restored(on_loop(), &dump), Err(Error::Fault(Fault::WouldBlock))), "{error}");
        assert!(matches!(restored(Place::Aside, &dump), Err(Error::Reply(text)) if text == error), "{error}");
    }
    let few = rdb::seal(b"\x02\x02\x01a\x01b".to_vec(), rdb::VERSION);
    assert!(restored(on_loop(), &few).is_ok());
}

#[test]
fn what_basalt_dumped_before_is_restored() {
    let mut space = TestSpace::new();
    for (kind, parts, read, expected) in [
        (1u8, &[][..], &[&b"GET"[..], b"k"][..], &b"$4\r\ntext\r\n"[..]),
        (2, &[&b"f"[..], b"v"], &[b"HGET", b"k", b"f"], b"$1\r\nv\r\n"),
        (4, &[b"m"], &[b"SISMEMBER", b"k", b"m"], b":1\r\n"),
        (5, &[b"a", b"b"], &[b"LINDEX", b"k", b"1"], b"$1\r\nb\r\n"),
        (6, &[b"m", &1.5f64.to_le_bytes()], &[b"ZSCORE", b"k", b"m"], b"$3\r\n1.5\r\n"),
    ] {
        let mut bytes = vec![kind];
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        bytes.extend_from_slice(if kind == 1 { b"text\x01\0" } else { b"\x01\0" });
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        assert_eq!(run(&mut space, &[b"RESTORE", b"k", b"0", &bytes, b"REPLACE"]).unwrap(), b"+OK\r\n");
        assert_eq!(run(&mut space, read).unwrap(), expected, "{kind}");
    }
}

/// What one dump holds is what the next one of what was restored holds, for each type, small and large.
#[test]
fn each_type_comes_back() {
    let mut space = TestSpace::new();
    for count in [3, 3000] {
        for n in 0..count {
            let text = n.to_string();
            let text = text.as_bytes();
            run(&mut space, &[b"SET", b"string", text]).unwrap();
            run(&mut space, &[b"HSET", b"hash", text, b"value"]).unwrap();
            run(&mut space, &[b"SADD", b"set", text]).unwrap();
            run(&mut space, &[b"ZADD", b"sorted", text, b"member", text, text]).unwrap();
            run(&mut space, &[b"RPUSH", b"list", text]).unwrap();
            run(&mut space, &[b"XADD", b"stream", format!("{}-1", count + n).as_bytes(), b"field", text]).unwrap();
        }
        _ = run(&mut space, &[b"XGROUP", b"CREATE", b"stream", b"group", b"0"]);
        run(&mut space, &[b"XREADGROUP", b"GROUP", b"group", b"one", b"COUNT", b"2", b"STREAMS", b"stream", b">"])
            .unwrap();
        for key in [&b"string"[..], b"hash", b"set", b"sorted", b"list", b"stream"] {
            let bytes = dumped(&mut space, key);
            run(&mut space, &[b"RESTORE", b"copy", b"0", &bytes, b"REPLACE"]).unwrap();
            assert!(dumped(&mut space, b"copy") == bytes, "{} of {count}", key.escape_ascii());
        }
    }
}

#[test]
fn the_expiry_of_a_field_is_no_later_than_that_of_a_key() {
    let mut space = TestSpace::new();
    let field =
        |name: &[u8], at_ms| rdb::HashField { name: name.to_vec(), value: b"v".to_vec(), expire_at_ms: Some(at_ms) };
    let hash = rdb::Value::Hash(vec![field(b"a", space.now_ms + 1000), field(b"b", u64::MAX)]);
    let dump = rdb::write_dump(&hash).unwrap();
    run(&mut space, &[b"RESTORE", b"h", b"0", &dump]).unwrap();
    let told = run(&mut space, &[b"HPEXPIRETIME", b"h", b"FIELDS", b"1", b"b"]).unwrap();
    assert_eq!(told, format!("*1\r\n:{}\r\n", i64::MAX).as_bytes());
}

#[test]
fn what_redis_8_8_gave_back_is_pending_for_no_consumer() {
    let id = |ms: u64| (u128::from(ms) << 64).to_be_bytes();
    let stream = [
        // No entries; the last id, the first one, the highest that was deleted, and how many there were.
        &[rdb::types::STREAM_5, 0, 0, 5, 0, 0, 0, 0, 0, 2][..],
        // A group, in which two are pending; a consumer that has the second; the first, which was given back.
        &[1, 1, b'g', 5, 0, 2, 2],
        &id(1),
        &0u64.to_le_bytes(),
        &[3],
        &id(2),
        &1000u64.to_le_bytes(),
        &[2, 1, 1, b'c'],
        &1000u64.to_le_bytes(),
        &1000u64.to_le_bytes(),
        &[1],
        &id(2),
        &[1],
        &id(1),
        // How long requests of producers are kept and how many, and that there are none.
        &[0x40, 100, 0x40, 100, 0, 0, 0],
    ]
    .concat();
    let mut space = TestSpace::new();
    assert_eq!(run(&mut space, &[b"RESTORE", b"s", b"0", &rdb::seal(stream, 14)]).unwrap(), b"+OK\r\n");
    let first = run(&mut space, &[b"XPENDING", b"s", b"g", b"-", b"+", b"1"]).unwrap();
    assert_eq!(first, b"*1\r\n*4\r\n$3\r\n1-0\r\n$0\r\n\r\n:-1\r\n:3\r\n");
    let all = run(&mut space, &[b"XPENDING", b"s", b"g"]).unwrap();
    assert_eq!(all, b"*4\r\n:2\r\n$3\r\n1-0\r\n$3\r\n2-0\r\n*1\r\n*2\r\n$1\r\nc\r\n$1\r\n1\r\n");
}

#[test]
fn dumps_that_releases_before_refuse_are_refused_by_their_rules() {
    let body = b"\0\x01v";
    let mut unchecked = rdb::seal(body.to_vec(), rdb::VERSION);
    let sum = unchecked.len() - size_of::<u64>();
    unchecked[sum..].fill(0);
    for dump in [rdb::seal(body.to_vec(), 13), rdb::seal(body.to_vec(), 81), unchecked] {
        let mut space = TestSpace::new();
        space.rules = Rules::Later;
        let outcome = run(&mut space, &[b"RESTORE", b"k", b"0", &dump]);
        assert!(matches!(outcome, Err(Error::Reply(text)) if text == TORN));
        space.rules = Rules::Fourth;
        assert_eq!(run(&mut space, &[b"RESTORE", b"k", b"0", &dump]).unwrap(), b"+OK\r\n");
    }
}

#[test]
fn a_string_that_is_too_long_is_refused_before_it_is_unpacked() {
    // Each three bytes repeat 264.
    let times = VALUE_BYTES_MAX / 264 + 1;
    let packed = [&[0, b'a'][..], &[0xe0, 255, 0].repeat(times)].concat();
    let mut body = vec![rdb::types::STRING, 0xc3];
    rdb::put_length(&mut body, packed.len() as u64);
    rdb::put_length(&mut body, 1 + times as u64 * 264);
    body.extend_from_slice(&packed);
    let dump = rdb::seal(body, rdb::VERSION);
    // By the rules before, a key whose time is over goes first.
    for (rules, refuses_what_is_over) in [(Rules::Later, false), (Rules::Fourth, true)] {
        let mut space = TestSpace::new();
        space.rules = rules;
        run(&mut space, &[b"SET", b"k", b"v"]).unwrap();
        let outcome = run(&mut space, &[b"RESTORE", b"k", b"0", &dump, b"REPLACE"]);
        assert!(matches!(outcome, Err(Error::Reply(text)) if text == BAD_DATA));
        let outcome = run(&mut space, &[b"RESTORE", b"k", b"1", &dump, b"REPLACE", b"ABSTTL"]);
        assert_eq!(matches!(outcome, Err(Error::Reply(text)) if text == BAD_DATA), refuses_what_is_over);
        assert_eq!(space.get(b"k").unwrap().is_some(), refuses_what_is_over);
    }
}
