//! Dumps of Redis 7.0.15, and of older formats made by hand, against the values that they hold.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Consumer, Group, HashField, Pending, Stream, StreamEntry, StreamId};
use vocab::fuzz;

const BYTES_MAX: usize = 1 << 20;

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap()).collect()
}

fn string(text: &str) -> Value {
    Value::String(text.into())
}

fn strings(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn scored(members: &[(&str, f64)]) -> Value {
    Value::SortedSet(members.iter().map(|(member, score)| (member.as_bytes().to_vec(), *score)).collect())
}

fn field(name: &str, value: &str, expire_at_ms: Option<u64>) -> HashField {
    HashField { name: name.into(), value: value.into(), expire_at_ms }
}

fn hash(fields: &[(&str, &str)]) -> Value {
    Value::Hash(fields.iter().map(|(name, value)| field(name, value, None)).collect())
}

/// What `DUMP` of Redis 7.0.15 answered, in hexadecimal.
fn of_redis() -> Vec<(&'static str, Value)> {
    vec![
        ("000576616c75650a0081f6c138c1aa9b6e", string("value")),
        ("00c0f40a004474ced75aa7ef82", string("-12")),
        ("00c1d2040a00008708a144825ced", string("1234")),
        ("00c215cd5b070a00a4b7c909e0e9379e", string("123456789")),
        (
            "00c30e40c8016161e059000062e058000162620a00c8ce2c8d5ab27cb4",
            Value::String([[b'a'; 100], [b'b'; 100]].concat()),
        ),
        (
            "120102c322414516450100000500816102dfff02c0c802f270110104e12c78e0ff00e01a000202aeff0a007132b7a222b63d98",
            Value::List(strings(&["a", "-1", "200", "70000", &"x".repeat(300)])),
        ),
        ("0b0e0200000003000000feff01002c010a005b0aa862f794600a", Value::Set(strings(&["-2", "1", "300"]))),
        (
            "0b180800000002000000010000000000000000f2052a010000000a0054f5a26ae707b5fc",
            Value::Set(strings(&["1", "5000000000"])),
        ),
        (
            "111d1d0000000600816202842d302e3505816102010181630283696e6604ff0a00d7eefe4c1100690b",
            scored(&[("b", -0.5), ("a", 1.0), ("c", f64::INFINITY)]),
        ),
        (
            "0502c3094046016d6de03900016d6d000000000000f83f0162000000000000f0ff0a005e56f4aaed14f136",
            scored(&[(&"m".repeat(70), 1.5), ("b", f64::NEG_INFINITY)]),
        ),
        ("10121200000004008166028176028167020c01ff0a00de133993f783817e", hash(&[("f", "v"), ("g", "12")])),
        ("04010166c3094046017676e039000176760a00f21bfa0a02f2749c", hash(&[("f", &"v".repeat(70))])),
        (
            "02040161146c6f6e676572207468616e2061206e756d6265720162c0070a00da6cd1543ccb78f9",
            Value::Set(strings(&["a", "longer than a number", "b", "7"])),
        ),
        (STREAM, stream()),
    ]
}

const STREAM: &str = concat!(
    "130110000000000000000100000000000000014052520000001f000301010102018166028167020001020100010001817602",
    "020105010301000101018177020301050100010401dfff020101856f74686572060101060102010501dfff02817a02817a02",
    "0501ff0306000101010204020567726f7570050081ffffffffffffffff020000000000000001000000000000000115206c18",
    "a2010000010000000000000005000000000000000016206c18a20100000102036f6e6515206c18a201000001000000000000",
    "000100000000000000010374776f16206c18a201000001000000000000000500000000000000000469646c65060081ffffff",
    "ffffffffff00000a0082a3381c59de4a93",
);

fn stream() -> Value {
    let id = |ms, seq| StreamId { ms, seq };
    let entry = |id, fields: &[(&str, &str)]| StreamEntry {
        id,
        fields: fields.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect(),
    };
    let consumer = |name: &str, of, ms| Consumer {
        name: name.into(),
        seen_ms: ms,
        active_ms: Some(ms),
        pending: vec![Pending { id: of, delivered_ms: ms, deliveries: 1 }],
    };
    Value::Stream(Box::new(Stream {
        entries: vec![
            entry(id(1, 1), &[("f", "v"), ("g", "2")]),
            entry(id(5, 0), &[("other", "1")]),
            entry(id(6, 0), &[("f", "z"), ("g", "z")]),
        ],
        last_id: id(6, 0),
        max_deleted_id: id(1, 2),
        added: 4,
        groups: vec![
            Group {
                name: b"group".to_vec(),
                last_id: id(5, 0),
                read: None,
                consumers: vec![consumer("one", id(1, 1), 0x1a2_186c_2015), consumer("two", id(5, 0), 0x1a2_186c_2016)],
                released: vec![],
            },
            Group { name: b"idle".to_vec(), last_id: id(6, 0), read: None, consumers: vec![], released: vec![] },
        ],
    }))
}

/// What Redis 8.8 dumps of a group of which one entry is pending for a consumer and one was given back, before the ids of a producer.
fn stream_of_redis_8_8(of: &str, released: &str, pending: &str) -> String {
    [of, "00 00 0500 0000 0000 02 01 0167 0500 02", pending, "01 0163 e803000000000000 e903000000000000 01"]
        .into_iter()
        .chain(["0000000000000002 0000000000000000", released, "4064 4064 01 0170 01 0169 05 00 01 00"])
        .collect()
}

fn group_of_redis_8_8(released: Vec<Pending>) -> Value {
    let id = |ms| StreamId { ms, seq: 0 };
    let pending = vec![Pending { id: id(2), delivered_ms: 1000, deliveries: 2 }];
    let consumers = vec![Consumer { name: b"c".to_vec(), seen_ms: 1000, active_ms: Some(1001), pending }];
    let group = Group { name: b"g".to_vec(), last_id: id(5), read: Some(2), consumers, released };
    Value::Stream(Box::new(Stream { last_id: id(5), added: 2, groups: vec![group], ..Stream::default() }))
}

/// Streams of Redis 8.6 and 8.8, without a version and a checksum.
fn of_redis_8() -> Vec<(u16, String, Value)> {
    let owned = "0000000000000002 0000000000000000 e803000000000000 02";
    let both = ["02 0000000000000001 0000000000000000 0000000000000000 03", owned].concat();
    let released = vec![Pending { id: StreamId { ms: 1, seq: 0 }, delivered_ms: 0, deliveries: 3 }];
    vec![
        (13, stream_of_redis_8_8("1a", "", &["01", owned].concat()), group_of_redis_8_8(vec![])),
        (14, stream_of_redis_8_8("1b", "01 0000000000000001 0000000000000000", &both), group_of_redis_8_8(released)),
    ]
}

/// A value as Redis 7.0 is told it: it knows neither when a consumer got something last nor what is pending for none.
fn as_told(mut value: Value) -> Value {
    if let Value::Stream(stream) = &mut value {
        for group in &mut stream.groups {
            group.name_released();
            group.consumers.iter_mut().for_each(|consumer| consumer.active_ms = Some(consumer.seen_ms));
        }
    }
    value
}

/// Formats that Redis 7.0 only reads, or that newer servers write; without a version and a checksum.
fn of_others() -> Vec<(u16, &'static str, Value)> {
    let plain = || hash(&[("f", "v"), ("g", "12")]);
    vec![
        (1, "01020161c005", Value::List(strings(&["a", "5"]))),
        (1, "03020161033131350162ff", scored(&[("a", 115.0), ("b", f64::NEG_INFINITY)])),
        (1, "09 10 02 0166 010076 0167 0203 3132 787878 ff", plain()),
        (5, "0d 17 17000000 13000000 0400 00 0166 03 0176 03 0167 03 fe0c ff", plain()),
        (
            5,
            "0a 19 19000000 00000000 0400 00 c02c01 04 fe9c 03 fd 02 f0000001 ff",
            Value::List(strings(&["300", "-100", "12", "65536"])),
        ),
        (9, "0e 01 10 10000000 00000000 0200 00 0161 03 f2 ff", Value::List(strings(&["a", "1"]))),
        (11, "14 0c 0c000000 0200 816102 0501 ff", Value::Set(strings(&["a", "5"]))),
        (
            12,
            "18 e803000000000000 02 00 0166 0176 01 0167 0177",
            Value::Hash(vec![field("f", "v", None), field("g", "w", Some(1000))]),
        ),
        (
            12,
            "19 d007000000000000 18 18000000 0600 816602 817602 0001 816702 817702 c7d002 ff",
            Value::Hash(vec![field("f", "v", None), field("g", "w", Some(2000))]),
        ),
        (
            81,
            "16 02 0166 0176 ffffffffffffffff 0167 0177 e803000000000000",
            Value::Hash(vec![field("f", "v", None), field("g", "w", Some(1000))]),
        ),
        // What a module has written of the key, which may be left out.
        (14, "f3 01 01040000 02 07 05 0161 00 00 0176", string("v")),
    ]
}

#[test]
fn dumps_of_redis_are_read() {
    for (hex, expected) in of_redis() {
        let bytes = bytes_of(hex);
        let (version, body) = checked_body(&bytes).unwrap();
        assert_eq!((version, read_dump(version, body, BYTES_MAX).unwrap()), (10, expected), "{hex}");
    }
}

#[test]
fn older_and_newer_formats_are_read() {
    for (version, hex, expected) in of_others() {
        let body = bytes_of(&hex.replace(' ', ""));
        assert_eq!(read_dump(version, &body, BYTES_MAX).unwrap(), expected, "{hex}");
    }
    for (version, hex, expected) in of_redis_8() {
        let body = bytes_of(&hex.replace(' ', ""));
        assert_eq!(read_dump(version, &body, BYTES_MAX).unwrap(), expected, "{hex}");
        for at in 0..body.len() {
            assert!(read_dump(version, &body[..at], BYTES_MAX).is_err(), "{hex} up to {at}");
        }
    }
}

/// A number that has a meaning in one version only is refused in all others.
#[test]
fn what_another_version_means_is_not_taken_for_it() {
    let stream = &of_redis_8()[1].1;
    let early = "17 18 18000000 0600 816602 817602 0001 816702 817702 c7d002 ff";
    let of_modules = "f3 01 01040000 02 07 00 00 0176";
    for (hex, known, others) in [
        (&stream[..], &[13, 14][..], &[12, 80, 81][..]),
        (early, &[12, 14, 80], &[81]),
        (of_modules, &[13, 14], &[12, 80, 81]),
        // Without what this module has written the key is not whole.
        ("f3 01 00040000 02 07 00 00 0176", &[], &[12, 13, 14, 80, 81]),
        ("f3 08", &[], &[14]),
        // An array.
        ("1c 00", &[], &[12, 13, 14, 80, 81]),
    ] {
        let body = bytes_of(&hex.replace(' ', ""));
        for version in known {
            assert!(read_dump(*version, &body, BYTES_MAX).is_ok(), "{hex} of {version}");
        }
        for version in others {
            assert!(read_dump(*version, &body, BYTES_MAX).is_err(), "{hex} of {version}");
        }
    }
}

#[test]
fn versions_and_sums_that_were_not_taken_before_are_taken() {
    for (version, now, before) in [(12, true, true), (13, true, false), (14, true, false), (15, false, false)]
        .into_iter()
        .chain([(79, false, false), (80, true, true), (81, true, false), (82, false, false)])
    {
        let dump = seal(b"\0\x01v".to_vec(), version);
        let taken = (checked_body(&dump).is_some(), checked_body_before(&dump).is_some());
        assert_eq!(taken, (now, before), "{version}");
        let mut unchecked = dump;
        unchecked.truncate(unchecked.len() - CHECKSUM_BYTES);
        unchecked.extend([0; CHECKSUM_BYTES]);
        let taken = (checked_body(&unchecked).is_some(), checked_body_before(&unchecked).is_some());
        assert_eq!(taken, (now, false), "{version} without a checksum");
    }
}

fn dumped(value: &Value) -> Vec<u8> {
    write_dump(value).unwrap()
}

#[test]
fn what_is_written_is_read() {
    let known = of_redis().into_iter().map(|(_, value)| value).chain(of_others().into_iter().map(|(.., value)| value));
    let long = Value::List(vec![vec![b'x'; 70_000], vec![b'y'; 20_000]]);
    let many = Value::Set((0..20_000).map(|n: u32| n.to_string().into_bytes()).collect());
    let newer = of_redis_8().into_iter().map(|(.., value)| value);
    for value in known.chain([long, many, many_entries()]).chain(newer) {
        let bytes = dumped(&value);
        let (version, body) = checked_body(&bytes).unwrap();
        assert!(read_dump(version, body, BYTES_MAX).unwrap() == as_told(value.clone()), "{value:?}");
    }
}

/// A stream of several packed lists, whose entries have fields of their own now and then.
fn many_entries() -> Value {
    let entry = |n: u64| StreamEntry {
        id: StreamId { ms: n / 7, seq: n % 7 + 1 },
        fields: vec![(
            if n.is_multiple_of(10) { b"rare".to_vec() } else { b"often".to_vec() },
            vec![b'v'; (n * 37 % 300) as usize],
        )],
    };
    let entries: Vec<_> = (0..1000).map(entry).collect();
    let last_id = entries[999].id;
    Value::Stream(Box::new(Stream { entries, last_id, added: 1000, ..Stream::default() }))
}

/// What FUNCTION DUMP of Redis 7.0.15 answered.
#[test]
fn libraries_are_written_and_read_as_redis_does() {
    let source = b"#!lua name=l\nredis.register_function(\"f\", function() return 1 end)".to_vec();
    let of_redis = bytes_of(concat!(
        "f5404223216c7561206e616d653d6c0a72656469732e72656769737465725f66756e6374696f6e282266222c2066756e6374",
        "696f6e28292072657475726e203120656e64290a00f47b83de70dd05b6"
    ));
    assert_eq!(write_libraries([&source[..]].into_iter()), of_redis);
    let read = |dump: &[u8]| checked_body(dump).map(|(version, body)| read_libraries(version, body, BYTES_MAX));
    assert_eq!(read(&of_redis).unwrap().unwrap(), [source]);
    assert_eq!(read(&write_libraries(std::iter::empty())).unwrap().unwrap(), Vec::<Vec<u8>>::new());
    assert!(read(&write_dump(&string("value")).unwrap()).unwrap().is_err(), "a value");
}

#[test]
fn every_damage_changes_the_checksum() {
    let bytes = dumped(&stream());
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(checked_body(&changed).is_none() && checked_body(&bytes[..at]).is_none(), "byte {at}");
    }
}

#[test]
fn a_value_that_only_claims_to_be_large_costs_nothing() {
    for hex in
        ["0081ffffffffffffffff", "0280ffffffff", "1281ffffffffffffffff", "0d80ffffffff00", "1381ffffffffffffffff"]
    {
        assert!(read_dump(10, &bytes_of(hex), BYTES_MAX).is_err(), "{hex}");
    }
    // 3 bytes that say that they are 4 GiB.
    assert!(matches!(read_dump(10, &bytes_of("00c30380ffffffff000000"), BYTES_MAX), Err(Error::TooLarge(_))));
}

#[test]
fn fuzz_dumps() {
    let mut seeds: Vec<(u16, Vec<u8>)> = of_redis().into_iter().map(|(hex, _)| (10, bytes_of(hex))).collect();
    seeds.iter_mut().for_each(|(_, bytes)| bytes.truncate(bytes.len() - FOOTER_BYTES));
    let others = of_others().into_iter().map(|(version, hex, _)| (version, hex.to_owned()));
    let newer = of_redis_8().into_iter().map(|(version, hex, _)| (version, hex));
    seeds.extend(others.chain(newer).map(|(version, hex)| (version, bytes_of(&hex.replace(' ', "")))));
    fuzz::rounds(31, |prng| {
        let (version, mut bytes) = seeds[prng.below(seeds.len() as u64) as usize].clone();
        fuzz::mutate(&mut bytes, 4, prng);
        let Ok(value) = read_dump(version, &bytes, BYTES_MAX) else { return };
        if value_type(&value).is_some() {
            let again = dumped(&value);
            let (version, body) = checked_body(&again).unwrap();
            assert_eq!(read_dump(version, body, 16 * BYTES_MAX).unwrap(), as_told(value));
        }
    });
}

#[test]
fn a_dump_says_how_long_its_string_is() {
    for (body, bytes) in [
        (&b"\0\x05value"[..], Some(5)),
        (b"\0\xc3\x0e\x40\xc8", Some(200)),
        (b"\0\xc1\xd2\x04", Some(2)),
        (b"\0\x81\xff\xff\xff\xff\xff\xff\xff\xff", Some(u64::MAX)),
        (b"\0\xc4", None),
        (b"\0", None),
        (b"\x02\x01\x01a", None),
        (b"", None),
    ] {
        assert_eq!(claimed_string_bytes(VERSION, body), bytes, "{}", body.escape_ascii());
    }
}
