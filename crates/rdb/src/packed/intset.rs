//! A set of numbers (`intset.c`): how wide each is and how many there are, 4 bytes each, then the numbers, little-endian.

use super::array;
use crate::Error;
use crate::budget::Budget;

/// The members as texts.
pub(crate) fn strings(packed: &[u8], budget: &mut Budget) -> Result<Vec<Vec<u8>>, Error> {
    let mut rest = packed;
    let (width, count) = (u32::from_le_bytes(array(&mut rest)?), u32::from_le_bytes(array(&mut rest)?));
    if !matches!(width, 2 | 4 | 8) || rest.len() as u64 != u64::from(width) * u64::from(count) {
        return Err(Error::Corrupt("set of numbers"));
    }
    let mut strings = Vec::new();
    while !rest.is_empty() {
        budget.count_element(width as usize)?;
        let number: i64 = match width {
            2 => i16::from_le_bytes(array(&mut rest)?).into(),
            4 => i32::from_le_bytes(array(&mut rest)?).into(),
            _ => i64::from_le_bytes(array(&mut rest)?),
        };
        strings.push(number.to_string().into_bytes());
    }
    Ok(strings)
}
