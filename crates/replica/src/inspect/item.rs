//! The items of a log record's footer.
//!
//! ```text
//! footer  varint count, each: varint group, u8 kind
//!   kind 1  entries: varint count, [varint index of the first], count × varint end of its bytes in the record's block
//!   kind 2  command: u8 1 = clean, or u8 2 = compact and varint index: entries below it are gone
//!   kind 3  value: u8 1 = put, key, value, or u8 2 = delete, key; each varint length and bytes
//! ```

use vocab::{Malformed, Reader};

/// One item, and the group that it is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) group: u64,
    pub(super) what: What,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Entries from index `first` on: first byte and length of each in the block.
    Entries {
        first: u64,
        spans: Vec<(u32, u32)>,
    },
    /// The group is gone.
    Clean,
    /// Entries below the index are gone.
    Compact(u64),
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
}

/// The items of a footer, without its checksum; `None` if it is malformed.
pub(super) fn parse(footer: &[u8]) -> Option<Vec<Item>> {
    try_parse(&mut Reader::new(footer)).ok().flatten()
}

fn try_parse(reader: &mut Reader<'_>) -> Result<Option<Vec<Item>>, Malformed> {
    let mut items = Vec::new();
    let mut block_end = 0;
    for _ in 0..reader.varint()? {
        let group = reader.varint()?;
        let what = match reader.u8()? {
            1 => entries(reader, &mut block_end)?,
            2 => match reader.u8()? {
                1 => What::Clean,
                2 => What::Compact(reader.varint()?),
                _ => return Ok(None),
            },
            3 => match reader.u8()? {
                1 => What::Put(reader.bytes()?.to_vec(), reader.bytes()?.to_vec()),
                2 => What::Delete(reader.bytes()?.to_vec()),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        items.push(Item { group, what });
    }
    reader.end()?;
    Ok(Some(items))
}

/// The ends go on from one item to the next: all entries of a record lie in one block.
fn entries(reader: &mut Reader<'_>, block_end: &mut u32) -> Result<What, Malformed> {
    let count = reader.varint()?;
    let first = if count > 0 { reader.varint()? } else { 0 };
    let mut spans = Vec::new();
    for _ in 0..count {
        let end: u32 = reader.number()?;
        spans.push((*block_end, end.checked_sub(*block_end).ok_or(Malformed::TooLarge)?));
        *block_end = end;
    }
    Ok(What::Entries { first, spans })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_and_no_cut_is_believed() {
        let footer = b"\x06\x01\x01\x02\xAC\x02\x03\x08\x02\x01\x01\x05\x09\x01\x02\x01\x01\x02\x02\x07\x01\x03\x01\x01k\x02vv\x01\x03\x02\x01k";
        let item = |group, what| Item { group, what };
        let expected = [
            item(1, What::Entries { first: 300, spans: vec![(0, 3), (3, 5)] }),
            item(2, What::Entries { first: 5, spans: vec![(8, 1)] }),
            item(1, What::Clean),
            item(1, What::Compact(7)),
            item(1, What::Put(b"k".to_vec(), b"vv".to_vec())),
            item(1, What::Delete(b"k".to_vec())),
        ];
        assert_eq!(parse(footer).as_deref(), Some(&expected[..]));
        for length in 0..footer.len() {
            assert_eq!(parse(&footer[..length]), None, "{length}");
        }
        assert_eq!(parse(&[footer, &b"\0"[..]].concat()), None);
    }
}
