//! Reads values that are kept out of the levels, from the files that lsm-tree writes them to.
//!
//! ```text
//! handle   offset, file, stored length, length: varints
//! ```
//!
//! It points at a record (`value_record`).

use super::fault::translate;
use crate::direct::FileKey;
use crate::files::system_error;
use crate::value_record::{HEAD_BYTES, MAGIC, check};
use crate::{Error, Result, Slice, VALUE_HEAD_BYTES};
use byteview::ByteView;
use lsm_tree::{BlobFile, DescriptorTable};
use std::os::unix::fs::FileExt;
use vocab::{Malformed, Reader};

/// Bytes of a stored value from which its first `VALUE_HEAD_BYTES` can be told, in each form: also of an LZ4 block that begins
/// with 14,000 bytes as they are, whose length takes a byte for each 255. A read that crosses into another page costs that
/// page too.
const STORED_HEAD_BYTES: usize = 2 * VALUE_HEAD_BYTES;

/// Where a value is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Handle {
    pub(super) offset: u64,
    pub(super) file: u64,
    stored_bytes: u32,
}

impl Handle {
    pub(super) fn decode(bytes: &[u8]) -> std::result::Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let (offset, file, stored_bytes) = (reader.varint()?, reader.varint()?, reader.number()?);
        reader.number::<u32>()?;
        reader.end()?;
        Ok(Self { offset, file, stored_bytes })
    }

    /// How many bytes the stored form of the value takes.
    pub(super) fn stored_bytes(&self) -> usize {
        self.stored_bytes as usize
    }

    /// How many bytes the record of the value of `key` takes.
    pub(super) fn record_bytes(&self, key: &[u8]) -> usize {
        HEAD_BYTES + key.len() + self.stored_bytes as usize
    }

    /// The stored form of the value of `key`.
    pub(super) fn read(&self, key: &[u8], blob: &BlobFile, tree: u64, descriptors: &DescriptorTable) -> Result<Slice> {
        let record = self.read_record(self.record_bytes(key), blob, tree, descriptors)?;
        check(&record, key).map_err(|detail| corrupt(blob, detail))?;
        Ok(Slice::from(ByteView::from(record).slice(HEAD_BYTES + key.len()..)))
    }

    /// The beginning of the stored form of the value of `key`.
    pub(super) fn read_head(
        &self,
        key: &[u8],
        blob: &BlobFile,
        tree: u64,
        descriptors: &DescriptorTable,
    ) -> Result<Vec<u8>> {
        let bytes = self.record_bytes(key).min(HEAD_BYTES + key.len() + STORED_HEAD_BYTES);
        let mut record = self.read_record(bytes, blob, tree, descriptors)?;
        check_beginning(&record, key, self.stored_bytes).map_err(|detail| corrupt(blob, detail))?;
        Ok(record.split_off(HEAD_BYTES + key.len()))
    }

    fn read_record(&self, bytes: usize, blob: &BlobFile, tree: u64, descriptors: &DescriptorTable) -> Result<Vec<u8>> {
        let file = FileKey::Values((tree, blob.id())).open(blob.path(), descriptors);
        let file = file.map_err(|error| system_error(blob.path(), error))?;
        let mut record = vec![0; bytes];
        file.read_exact_at(&mut record, self.offset).map_err(|error| translate(blob.path(), error.into()))?;
        Ok(record)
    }
}

fn corrupt(blob: &BlobFile, detail: &str) -> Error {
    Error::Corrupt { path: blob.path().to_path_buf(), detail: detail.into() }
}

/// Checks what a checksum of the whole record would cover, as far as the record's beginning tells.
fn check_beginning(record: &[u8], key: &[u8], stored_bytes: u32) -> std::result::Result<(), &'static str> {
    let is_it = record.len() >= HEAD_BYTES + key.len()
        && &record[..4] == MAGIC
        && record[28..30] == (key.len() as u16).to_le_bytes()
        && record[34..38] == stored_bytes.to_le_bytes();
    if !is_it {
        return Err("no value where a handle points");
    }
    if &record[HEAD_BYTES..HEAD_BYTES + key.len()] != key {
        return Err("the value of another key where a handle points");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_four_varints_and_nothing_else() {
        let bytes = [0x80, 0x01, 0x05, 0xAC, 0x02, 0x03];
        assert_eq!(Handle::decode(&bytes), Ok(Handle { offset: 128, file: 5, stored_bytes: 300 }));
        assert_eq!(Handle::decode(&bytes[..5]), Err(Malformed::CutShort));
        assert_eq!(Handle::decode(&[&bytes[..], &[0]].concat()), Err(Malformed::TooLong));
        assert_eq!(Handle::decode(&[0xFF; 40]), Err(Malformed::TooLarge));
    }
}
