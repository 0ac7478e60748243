#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Consumer, Group, HashField, Pending, Stream, StreamEntry, StreamId};
use vocab::fuzz;

fn written() -> (Vec<u8>, Vec<Item>) {
    let mut writer = FileWriter::new(Vec::new(), true).unwrap();
    let field = HashField { name: b"f".to_vec(), value: b"v".to_vec(), expire_at_ms: Some(77) };
    let keys = [
        (&b"string"[..], Value::String(b"text".to_vec()), None),
        (b"hash", Value::Hash(vec![field]), Some(1_700_000_000_000)),
        (b"list", Value::List(vec![b"a".to_vec(), b"a".to_vec()]), None),
    ];
    writer.note("redis-ver", "7.0.15").unwrap();
    writer.library(b"#!lua name=l").unwrap();
    writer.database(3).unwrap();
    let mut items = vec![
        Item::Note { name: b"redis-ver".to_vec(), text: b"7.0.15".to_vec() },
        Item::Library(b"#!lua name=l".to_vec()),
        Item::Database(3),
    ];
    for (key, value, expire_at_ms) in keys {
        writer.key(key, &value, expire_at_ms).unwrap();
        let lifetime = Lifetime { expire_at_ms, ..Lifetime::default() };
        items.push(Item::Key { key: key.to_vec(), value, lifetime, more: false });
    }
    (writer.finish().unwrap(), items)
}

fn read(file: &[u8]) -> Result<Vec<Item>, Error> {
    let mut reader = FileReader::new(file, 1 << 20)?;
    let mut items = Vec::new();
    while let Some(item) = reader.next_item()? {
        items.push(item);
    }
    assert!(reader.position() <= file.len() as u64);
    Ok(items)
}

#[test]
fn what_is_written_is_read() {
    let (file, items) = written();
    assert_eq!(read(&file).unwrap(), items);
}

#[test]
fn what_stands_before_keys_is_understood() {
    let mut file = b"REDIS0003".to_vec();
    file.extend_from_slice(&[op::SIZES, 1, 0, op::DATABASE, 0, op::IDLE, 9, op::FREQUENCY, 5]);
    file.extend_from_slice(&[op::EXPIRE_SECONDS, 1, 0, 0, 0, 0, 1, b'k', 1, b'v', op::END]);
    let lifetime = Lifetime { expire_at_ms: Some(1000), idle_seconds: Some(9), frequency: Some(5) };
    let key = Item::Key { key: b"k".to_vec(), value: Value::String(b"v".to_vec()), lifetime, more: false };
    assert_eq!(read(&file).unwrap(), [Item::Database(0), key]);
}

#[test]
fn values_of_modules_are_skipped() {
    let mut file = b"REDIS0004".to_vec();
    // The module's number is all zeros, which is nine times the first letter.
    file.extend_from_slice(&[7, 1, b'm', 0, 1, 5, 2, 6, 5, 1, b'x', 4, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0]);
    file.extend_from_slice(&[op::MODULE_AUX, 0, 2, 1, 0, 0, 1, b'k', 1, b'v', op::END]);
    let items = read(&file).unwrap();
    let name = "A".repeat(9);
    assert!(matches!(&items[0], Item::Key { value: Value::Module(module), .. } if *module == name), "{items:?}");
    assert_eq!(items[1], Item::ModuleNotes(name));
    assert!(matches!(&items[2], Item::Key { key, .. } if key == b"k"));
}

/// Redis and Valkey mean another thing by the same number.
#[test]
fn what_redis_8_6_and_valkey_9_put_before_keys_is_skipped() {
    let key = |expire_at_ms| {
        let lifetime = Lifetime { expire_at_ms, ..Lifetime::default() };
        Item::Key { key: b"k".to_vec(), value: Value::String(b"v".to_vec()), lifetime, more: false }
    };
    // Two modules have written of a key that expires, one of which a server may do without.
    let of_modules = [
        &[op::SLOT_IMPORT_OR_KEY_META, 2, 1, 4, 0, 0, 2, 7, 0, 0, 0x44, 0x10, 0, 5, 1, b'x', 0][..],
        &[0, 1, b'k', 1, b'v'],
    ];
    let expiry = [&[op::EXPIRE_MS][..], &1000u64.to_le_bytes()].concat();
    let none = [0; CHECKSUM_BYTES];
    let end = [&[op::END][..], &none].concat();
    let redis = [&b"REDIS0013"[..], &expiry, &of_modules.concat(), &end].concat();
    let notes = Item::ModuleNotes("META-AAAE, META-ABBE".to_owned());
    assert_eq!(read(&redis).unwrap(), [notes, key(Some(1000))]);
    let ranges = [op::SLOT_IMPORT_OR_KEY_META, 1, b'j', 2, 0, 5, 7, 9, 0, 1, b'k', 1, b'v'];
    assert_eq!(read(&[&b"VALKEY081"[..], &ranges, &end].concat()).unwrap(), [key(None)]);
    assert!(read(&[&b"REDIS0012"[..], &ranges, &end].concat()).is_err());
}

#[test]
fn damage_is_told() {
    let (file, _) = written();
    // The digits of the version come first: files of old ones have no checksum.
    for at in (0..5).chain(9..file.len()) {
        let mut changed = file.clone();
        changed[at] ^= 1;
        assert!(read(&changed).is_err() && read(&file[..at]).is_err(), "byte {at}");
    }
    for head in ["REDIS0015", "REDIS0000", "VALKEY079", "VALKEY082", "RESID0010"] {
        assert!(read(&[head.as_bytes(), &file[9..]].concat()).is_err(), "{head}");
    }
}

#[test]
fn fuzz_files() {
    let (file, _) = written();
    fuzz::rounds(32, |prng| {
        let mut changed = file.clone();
        fuzz::mutate(&mut changed, 4, prng);
        _ = read(&changed);
    });
}

/// What claims to be large costs no memory, and is told where it stands.
#[test]
fn hostile_files_end_with_an_error_where_it_is() {
    let head = b"REDIS0010";
    let length_64 = |n: u64| [&[0x81][..], &n.to_be_bytes()].concat();
    let string = |bytes: &[u8]| [&[bytes.len() as u8][..], bytes].concat();
    let huge = length_64(1 << 63);
    let listpack = |claimed: u8, elements: &[u8]| {
        let bytes = [&[0, 0, 0, 0, claimed, 0][..], elements, &[0xff]].concat();
        [&(bytes.len() as u32).to_le_bytes()[..], &bytes[4..]].concat()
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("a key of 2^63 bytes", [&[0][..], &huge].concat()),
        ("a string of 2^63 bytes", [&[0, 1, b'k'][..], &huge].concat()),
        ("a list of 2^63 elements", [&[1, 1, b'k'][..], &huge, &string(b"a")].concat()),
        ("a hash of 2^63 fields", [&[4, 1, b'k'][..], &huge].concat()),
        ("a stream of 2^63 nodes", [&[19, 1, b'k'][..], &huge].concat()),
        ("a compressed string of 2^63 bytes", [&[0, 1, b'k', 0xc3][..], &huge, &huge].concat()),
        ("a packed list that claims more", [&[16, 1, b'k'][..], &string(&listpack(9, &[1, 1, 2, 1]))].concat()),
        ("a packed list without an end", [&[16, 1, b'k'][..], &string(&[7, 0, 0, 0, 1, 0, 1])].concat()),
        ("a ziplist that is its own next", [&[10, 1, b'k'][..], &string(&[0; 10])].concat()),
        (
            "a ziplist with an element beyond its end",
            [&[10, 1, b'k'][..], &string(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xbf])].concat(),
        ),
        (
            "numbers that are more than there are",
            [&[11, 1, b'k'][..], &string(&[2, 0, 0, 0, 255, 255, 255, 255])].concat(),
        ),
        ("a module's value without an end", [&[7, 1, b'k', 0, 5][..], &huge].concat()),
        ("an unknown type", vec![99, 1, b'k']),
    ];
    for (what, bytes) in cases {
        let file = [&head[..], &bytes].concat();
        let mut reader = FileReader::new(&file[..], 1 << 20).unwrap();
        assert!(reader.next_item().is_err(), "{what}");
        assert!(reader.position() > head.len() as u64 && reader.position() <= file.len() as u64, "{what}");
    }
}

/// Of a collection that is larger than a part, no more is in memory, whatever its size.
#[test]
fn a_large_collection_comes_in_parts() {
    let members: Vec<Vec<u8>> = (0..200_000).map(|n: u32| format!("{n:0100}").into_bytes()).collect();
    let mut writer = FileWriter::new(Vec::new(), false).unwrap();
    writer.key(b"set", &Value::Set(members.clone()), Some(5)).unwrap();
    writer.key(b"last", &Value::String(b"v".to_vec()), None).unwrap();
    let file = writer.finish().unwrap();
    let mut reader = FileReader::new(&file[..], 10 << 20).unwrap();
    let (mut found, mut parts) = (Vec::new(), 0);
    while let Some(Item::Key { key, value: Value::Set(part), lifetime, more }) = reader.next_item().unwrap() {
        assert_eq!((&key[..], lifetime.expire_at_ms), (&b"set"[..], Some(5)));
        found.extend(part);
        parts += 1;
        if !more {
            break;
        }
    }
    assert!(found == members && parts > 2, "{parts} parts");
    assert!(matches!(reader.next_item().unwrap(), Some(Item::Key { key, more: false, .. }) if key == b"last"));
    assert_eq!(reader.next_item().unwrap(), None);
}

/// A string or a stream that is larger than the reader takes is left out, and what stands behind it is read.
#[test]
fn what_is_too_large_is_passed_over() {
    const BYTES_MAX: usize = 1 << 20;
    let length_64 = |n: usize| [&[0x81][..], &(n as u64).to_be_bytes()].concat();
    let string = |bytes: &[u8]| [&length_64(bytes.len())[..], bytes].concat();
    // A string of 40 MiB in 0.5 MiB: each three bytes repeat 264.
    let bomb = [&[0, b'a'][..], &[0xe0, 255, 0].repeat(160_000)].concat();
    let bomb = [&[0xc3][..], &length_64(bomb.len()), &length_64(1 + 160_000 * 264), &bomb].concat();
    let entry =
        |ms| StreamEntry { id: StreamId { ms, seq: 1 }, fields: vec![(b"f".to_vec(), vec![b'v'; BYTES_MAX / 4])] };
    // More than the reader takes are its entries, or what is pending in its first group.
    let stream = |entries, pending| {
        let id = |ms| StreamId { ms, seq: 1 };
        let group = |name: &[u8], count| {
            let pending = (1..=count).map(|ms| Pending { id: id(ms), delivered_ms: 5, deliveries: 2 }).collect();
            let consumers = vec![Consumer { name: b"c".to_vec(), seen_ms: 7, active_ms: Some(7), pending }];
            Group { name: name.to_vec(), last_id: id(9), read: Some(4), consumers, released: Vec::new() }
        };
        let groups = vec![group(b"g", pending), group(b"h", 1)];
        let entries: Vec<StreamEntry> = (0..entries).map(entry).collect();
        let mut written = Vec::new();
        let stream = Stream { added: 8, last_id: id(9), entries, groups, ..Stream::default() };
        put_value(&mut written, &Value::Stream(Box::new(stream)));
        written
    };
    let last = [0, 1, b'l', 1, b'v', op::END];
    for (of, value) in [
        (0, string(&vec![b'x'; BYTES_MAX + 1])),
        (0, bomb),
        (19, stream(8, 1)),
        (19, stream(1, 15_000)),
        (19, stream(1, 40_000)),
    ] {
        let expiry = [&[op::EXPIRE_MS][..], &1000u64.to_le_bytes(), &[of, 1, b'k']].concat();
        let file = [&b"REDIS0010"[..], &expiry, &value, &last, &[0; CHECKSUM_BYTES]].concat();
        let lifetime = Lifetime { expire_at_ms: Some(1000), ..Lifetime::default() };
        let next = Item::Key {
            key: b"l".to_vec(),
            value: Value::String(b"v".to_vec()),
            lifetime: Lifetime::default(),
            more: false,
        };
        assert_eq!(read(&file).unwrap(), [Item::TooLarge { key: b"k".to_vec(), lifetime }, next]);
        let cut = file.len() - last.len() - CHECKSUM_BYTES - 1;
        assert!(read(&file[..cut]).is_err());
    }
}
