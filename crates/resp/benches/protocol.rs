//! What a request and a reply cost on one core: `cargo bench -p basalt-resp`. Prints ns each, the median of five
//! runs, and a hash of what was found, so that nothing is optimised away. Runs small in the tests.

use resp::{Frame, FrameState, Limits, ParseState, Parsed, Proto, Reply, encode_request, parse_request, table};
use std::hint::black_box;
use std::time::Instant;

const PIPELINE: usize = 16;

/// Runs `once`, which handles `each` things and answers a hash of them, and prints a line.
fn measure(name: &str, rounds: u32, each: usize, mut once: impl FnMut() -> u64) {
    let mut hash = 0u64;
    let mut figures: Vec<f64> = (0..5)
        .map(|_| {
            let begin = Instant::now();
            for _ in 0..rounds {
                hash = hash.wrapping_mul(0x100_0000_01B3).wrapping_add(once());
            }
            begin.elapsed().as_nanos() as f64 / f64::from(rounds) / each as f64
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    println!("{name:<44} {:>8.1} ns  {hash:016x}", figures[2]);
}

fn parse_all(mut buf: &[u8], args: &mut Vec<std::ops::Range<usize>>, state: &mut ParseState) -> u64 {
    let limits = Limits::default();
    let mut hash = 0u64;
    while !buf.is_empty() {
        match parse_request(buf, &limits, args, state) {
            Ok(Parsed::Request { consumed }) => {
                hash = args
                    .iter()
                    .fold(hash, |hash, arg| hash.wrapping_mul(31).wrapping_add((arg.start ^ arg.end) as u64));
                buf = &buf[consumed..];
            }
            other => panic!("{other:?}"),
        }
    }
    hash
}

fn requests(rounds: u32) {
    let value = [b'x'; 1000];
    let fields: Vec<String> = (0..10).map(|i| format!("field{i}")).collect();
    let mut hmset: Vec<&[u8]> = vec![b"HMSET", b"user1234567890"];
    for field in &fields {
        hmset.extend([field.as_bytes(), &value[..100]]);
    }
    let cases: [(&str, &[&[u8]]); 3] = [
        ("GET key", &[b"GET", b"key:000000000001"]),
        ("SET key 1000 bytes", &[b"SET", b"key:000000000001", &value]),
        ("HMSET key 10 fields of 100 bytes", &hmset),
    ];
    let (mut args, mut state) = (Vec::new(), ParseState::default());
    for (name, request) in cases {
        let mut buf = Vec::new();
        for _ in 0..PIPELINE {
            encode_request(&mut buf, request);
        }
        let name = format!("parse {name}");
        measure(&name, rounds, PIPELINE, || parse_all(black_box(&buf), &mut args, &mut state));
    }
}

fn lookups(rounds: u32) {
    let names: Vec<String> = table::top_level().map(|spec| spec.shown_name()).collect();
    measure("look a command up", rounds, names.len(), || {
        names.iter().fold(0u64, |hash, name| {
            let spec = table::lookup(black_box(name.as_bytes())).expect("a name from the table");
            hash.wrapping_mul(31).wrapping_add(spec.id.index() as u64)
        })
    });
    let set: &[&[u8]] = &[b"set", b"key:000000000001", b"value"];
    measure("resolve SET, check it, find its keys", rounds, PIPELINE, || {
        (0..PIPELINE as u64).fold(0u64, |hash, i| {
            let spec = table::resolve(black_box(set)).expect("a well-formed request");
            hash.wrapping_mul(31)
                + i
                + spec.id.index() as u64
                + spec.keys(set).expect("keys").fold(0, |sum, at| sum + at as u64)
        })
    });
}

fn replies(rounds: u32) {
    let value = [b'x'; 1000];
    let mut reply = Reply::new(Proto::Resp2);
    measure("write a bulk of 1000 bytes", rounds, PIPELINE, || {
        reply.buf.clear();
        for _ in 0..PIPELINE {
            reply.bulk(black_box(&value));
        }
        reply.buf.len() as u64
    });
    let mut state = FrameState::default();
    measure("read a bulk of 1000 bytes", rounds, PIPELINE, || {
        let mut rest = black_box(&reply.buf[..]);
        let mut hash = 0;
        while let Ok(Some((Frame::Bulk(bytes), length))) = Frame::read(rest, &mut state) {
            hash += bytes.len() as u64;
            rest = &rest[length..];
        }
        hash
    });
    let mut map = Reply::new(Proto::Resp2);
    map.map(10);
    for i in 0..10 {
        map.bulk(format!("field{i}").as_bytes());
        map.bulk(&value[..100]);
    }
    measure("read HGETALL, 10 fields of 100 bytes", rounds, 1, || match Frame::read(black_box(&map.buf), &mut state) {
        Ok(Some((Frame::Nested(_, elements), length))) => elements.fold(length as u64, |hash, element| match element {
            Frame::Bulk(bytes) => hash.wrapping_mul(31) + bytes.len() as u64,
            _ => 0,
        }),
        other => panic!("{other:?}"),
    });
}

fn main() {
    let full = std::env::args().any(|arg| arg == "--bench");
    let rounds = if full { 100_000 } else { 10 };
    if full && cfg!(debug_assertions) {
        println!("a debug build: these figures mean nothing");
    }
    requests(rounds);
    lookups(rounds / 10 + 1);
    replies(rounds);
}
