//! A hash of Redis before 2.6 (`zipmap.c`): a byte for how many fields, then names and values with their lengths, then 255.

use super::{array, bytes};
use crate::Error;
use crate::budget::Budget;

const LONG: u8 = 254;
const END: u8 = 255;

/// Names and values in turn.
pub(crate) fn strings(packed: &[u8], budget: &mut Budget) -> Result<Vec<Vec<u8>>, Error> {
    let mut rest = packed;
    let mut strings = Vec::new();
    array::<1>(&mut rest)?;
    while let Some(name) = string(&mut rest, 0)? {
        let value = string(&mut rest, 1)?.ok_or(Error::Corrupt("field without a value"))?;
        budget.count_element(name.len())?;
        budget.count_element(value.len())?;
        strings.extend([name, value]);
    }
    if rest.is_empty() { Ok(strings) } else { Err(Error::Corrupt("bytes behind a hash")) }
}

/// A string; `None` at the end. Behind a value's length stands how many bytes behind it are unused.
fn string(rest: &mut &[u8], unused_field_bytes: usize) -> Result<Option<Vec<u8>>, Error> {
    let length = match array::<1>(rest)? {
        [END] => return Ok(None),
        [LONG] => u32::from_le_bytes(array(rest)?) as usize,
        [length] => length.into(),
    };
    let unused = bytes(rest, unused_field_bytes)?.first().copied().unwrap_or(0);
    let string = bytes(rest, length)?.to_vec();
    bytes(rest, unused.into())?;
    Ok(Some(string))
}
