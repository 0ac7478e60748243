//! Reads values that are kept out of the levels, from the files that lsm-tree writes them to.
//!
//! ```text
//! handle   offset, file, stored length, length: varints
//! record   "BLOB", xxh3-128 of key and value (u128), index (u64), key length (u16), length (u32),
//!          stored length (u32), key, value; little-endian
//! ```

use super::fault::translate;
use crate::files::system_error;
use crate::{Error, Result, Slice};
use byteview::ByteView;
use lsm_tree::{BlobFile, DescriptorTable};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3Default;

const MAGIC: &[u8; 4] = b"BLOB";
const HEAD_BYTES: usize = 4 + 16 + 8 + 2 + 4 + 4;

/// Where a value is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Handle {
    offset: u64,
    pub(super) file: u64,
    stored_bytes: u32,
}

impl Handle {
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let (offset, file) = (varint(&mut rest)?, varint(&mut rest)?);
        let stored_bytes = u32::try_from(varint(&mut rest)?).ok()?;
        u32::try_from(varint(&mut rest)?).ok()?;
        rest.is_empty().then_some(Self { offset, file, stored_bytes })
    }

    /// The stored form of the value of `key`.
    pub(super) fn read(&self, key: &[u8], blob: &BlobFile, tree: u64, descriptors: &DescriptorTable) -> Result<Slice> {
        let id = (tree, blob.id()).into();
        let file = match descriptors.access_for_blob_file(&id) {
            Some(file) => file,
            None => {
                let file = Arc::new(File::open(blob.path()).map_err(|error| system_error(blob.path(), error))?);
                descriptors.insert_for_blob_file(id, file.clone());
                file
            }
        };
        let mut record = vec![0; HEAD_BYTES + key.len() + self.stored_bytes as usize];
        file.read_exact_at(&mut record, self.offset).map_err(|error| translate(blob.path(), error.into()))?;
        let corrupt = |detail: &str| Error::Corrupt { path: blob.path().to_path_buf(), detail: detail.into() };
        let body = HEAD_BYTES + key.len();
        if &record[..4] != MAGIC {
            return Err(corrupt("no value where a handle points"));
        }
        let sum = u128::from_le_bytes(record[4..20].try_into().expect("16 bytes"));
        let mut hasher = Xxh3Default::new();
        hasher.update(&record[HEAD_BYTES..]);
        if hasher.digest128() != sum {
            return Err(corrupt("checksum mismatch"));
        }
        if &record[HEAD_BYTES..body] != key {
            return Err(corrupt("the value of another key where a handle points"));
        }
        Ok(Slice::from(ByteView::from(record).slice(body..)))
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_four_varints_and_nothing_else() {
        let bytes = [0x80, 0x01, 0x05, 0xAC, 0x02, 0x03];
        assert_eq!(Handle::decode(&bytes), Some(Handle { offset: 128, file: 5, stored_bytes: 300 }));
        assert_eq!(Handle::decode(&bytes[..5]), None);
        assert_eq!(Handle::decode(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(Handle::decode(&[0xFF; 40]), None);
    }
}
