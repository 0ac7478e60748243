//! What DUMP answered before it spoke Redis's format.
//!
//! ```text
//! byte 0   kind: 1 string, 2 hash, 4 set, 5 list, 6 sorted set, 7 stream
//! then     string: the bytes; hash: for every field and value, u32 little-endian length and bytes of either; set, list:
//!          the same for every member or element; sorted set: as a hash, members and scores, each a double, little-endian;
//!          stream: for every item (`command::stream`), u32 number of words and the same for each
//! 2 bytes  version of this format, little-endian, always 1
//! 8 bytes  XXH3-64 of all before, little-endian
//! ```

use super::error::BAD_DATA;
use crate::command::call::Error;
use crate::format::score;
use rdb::{HashField, Value};
use vocab::limits::ITEM_ROWS_MAX;
use xxhash_rust::xxh3::xxh3_64;

const STRING: u8 = 1;
const HASH: u8 = 2;
const SET: u8 = 4;
const LIST: u8 = 5;
const SORTED_SET: u8 = 6;
const STREAM: u8 = 7;
const VERSION: u16 = 1;
const CHECKSUM_BYTES: usize = 8;
/// An element is taken to have so many bytes when it is estimated how long reading takes; none is compressed.
pub(super) const BYTES_PER_ELEMENT: u64 = 16;
/// Of a string's length.
const LENGTH_BYTES: usize = size_of::<u32>();

/// A dumped value, read.
pub(super) enum Payload<'a> {
    Value(Value),
    /// Items of a stream.
    Items(Vec<Vec<&'a [u8]>>),
}

/// The value; `None` if the bytes are not of this format.
pub(super) fn decode(bytes: &[u8]) -> Result<Option<Payload<'_>>, Error> {
    let Some((checked, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else { return Ok(None) };
    let Some((body, version)) = checked.split_last_chunk::<2>() else { return Ok(None) };
    if u16::from_le_bytes(*version) != VERSION || u64::from_le_bytes(*checksum) != xxh3_64(checked) {
        return Ok(None);
    }
    let (&kind, mut rest) = body.split_first().ok_or(BAD_DATA)?;
    let rest = &mut rest;
    let value = match kind {
        STRING => Value::String(rest.to_vec()),
        HASH => Value::Hash(all(rest, |rest| {
            Ok(HashField { name: part(rest)?.to_vec(), value: part(rest)?.to_vec(), expire_at_ms: None })
        })?),
        SET => Value::Set(all(rest, |rest| Ok(part(rest)?.to_vec()))?),
        LIST => Value::List(all(rest, |rest| Ok(part(rest)?.to_vec()))?),
        SORTED_SET => {
            Value::SortedSet(all(rest, |rest| Ok((part(rest)?.to_vec(), score::decode(part(rest)?).ok_or(BAD_DATA)?)))?)
        }
        STREAM => return Ok(Some(Payload::Items(all(rest, item)?))),
        _ => return Err(BAD_DATA.into()),
    };
    Ok(Some(Payload::Value(value)))
}

/// Everything up to the end, if an entry can write as much.
fn all<'a, T>(rest: &mut &'a [u8], next: impl Fn(&mut &'a [u8]) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        found.push(next(rest)?);
        if found.len() > ITEM_ROWS_MAX {
            return Err(BAD_DATA.into());
        }
    }
    Ok(found)
}

fn item<'a>(rest: &mut &'a [u8]) -> Result<Vec<&'a [u8]>, Error> {
    let (count, after) = rest.split_first_chunk::<LENGTH_BYTES>().ok_or(BAD_DATA)?;
    *rest = after;
    // Each word has a length: more words than that are not there.
    let count = (u32::from_le_bytes(*count) as usize).min(rest.len() / LENGTH_BYTES + 1);
    (0..count).map(|_| part(rest)).collect()
}

fn part<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Error> {
    let (length, after) = rest.split_first_chunk::<LENGTH_BYTES>().ok_or(BAD_DATA)?;
    let (part, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(BAD_DATA)?;
    *rest = after;
    Ok(part)
}
