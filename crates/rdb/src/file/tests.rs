#![allow(clippy::unwrap_used)]

use super::*;
use crate::HashField;
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
        items.push(Item::Key { key: key.to_vec(), value, lifetime });
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
    let key = Item::Key { key: b"k".to_vec(), value: Value::String(b"v".to_vec()), lifetime };
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

#[test]
fn damage_is_told() {
    let (file, _) = written();
    // The digits of the version come first: files of old ones have no checksum.
    for at in (0..5).chain(9..file.len()) {
        let mut changed = file.clone();
        changed[at] ^= 1;
        assert!(read(&changed).is_err() && read(&file[..at]).is_err(), "byte {at}");
    }
    for head in ["REDIS0013", "REDIS0000", "VALKEY081", "RESID0010"] {
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
