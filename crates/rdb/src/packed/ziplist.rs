//! A list of Redis before 7 (`ziplist.c`): 10 bytes of head, elements, then 255. Each element begins with the length of the one
//! before.

use super::{array, bytes, int24};
use crate::Error;
use crate::budget::Budget;

const HEAD_BYTES: usize = 10;
const LONG_BEFORE: u8 = 254;
const END: u8 = 255;

/// The elements; numbers as texts.
pub(crate) fn strings(packed: &[u8], budget: &mut Budget) -> Result<Vec<Vec<u8>>, Error> {
    let mut rest = packed;
    bytes(&mut rest, HEAD_BYTES)?;
    let mut strings = Vec::new();
    loop {
        match array::<1>(&mut rest)? {
            [END] if rest.is_empty() => return Ok(strings),
            [END] => return Err(Error::Corrupt("bytes behind a list")),
            [LONG_BEFORE] => _ = array::<4>(&mut rest)?,
            _ => {}
        }
        let string = element(&mut rest)?;
        budget.count_element(string.len())?;
        strings.push(string);
    }
}

fn element(rest: &mut &[u8]) -> Result<Vec<u8>, Error> {
    let [encoding] = array(rest)?;
    let length = match encoding {
        0x00..=0x3f => Some(usize::from(encoding)),
        0x40..=0x7f => Some(usize::from(encoding & 0x3f) << 8 | usize::from(array::<1>(rest)?[0])),
        0x80..=0xbf => Some(u32::from_be_bytes(array(rest)?) as usize),
        _ => None,
    };
    if let Some(length) = length {
        return Ok(bytes(rest, length)?.to_vec());
    }
    let number: i64 = match encoding {
        0xc0 => i16::from_le_bytes(array(rest)?).into(),
        0xd0 => i32::from_le_bytes(array(rest)?).into(),
        0xe0 => i64::from_le_bytes(array(rest)?),
        0xf0 => int24(array(rest)?),
        0xfe => i8::from_le_bytes(array(rest)?).into(),
        0xf1..=0xfd => i64::from(encoding & 0x0f) - 1,
        _ => return Err(Error::Unknown("encoding of an element", encoding.into())),
    };
    Ok(number.to_string().into_bytes())
}
