//! The record of a value that is kept out of the levels, as lsm-tree writes it.
//!
//! ```text
//! record   "BLOB", xxh3-128 of key and value (u128), index (u64), key length (u16), length (u32),
//!          stored length (u32), key, value; little-endian
//! ```

use xxhash_rust::xxh3::Xxh3Default;

pub(crate) const MAGIC: &[u8; 4] = b"BLOB";
/// Bytes before the key.
pub(crate) const HEAD_BYTES: usize = 4 + 16 + 8 + 2 + 4 + 4;

/// The stored form of the value of `key`, of its record.
pub(crate) fn value_in<'a>(record: &'a [u8], key: &[u8]) -> Result<&'a [u8], &'static str> {
    check(record, key)?;
    Ok(&record[HEAD_BYTES + key.len()..])
}

/// Checks that a record is whole, and that of `key`.
pub(crate) fn check(record: &[u8], key: &[u8]) -> Result<(), &'static str> {
    if record.len() < HEAD_BYTES + key.len() || &record[..4] != MAGIC {
        return Err("no value where a handle points");
    }
    let sum = u128::from_le_bytes(record[4..20].try_into().expect("16 bytes"));
    let mut hasher = Xxh3Default::new();
    hasher.update(&record[HEAD_BYTES..]);
    if hasher.digest128() != sum {
        return Err("checksum mismatch");
    }
    if &record[HEAD_BYTES..HEAD_BYTES + key.len()] != key {
        return Err("the value of another key where a handle points");
    }
    Ok(())
}
