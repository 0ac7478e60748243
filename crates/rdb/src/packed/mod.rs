//! Collections that Redis keeps, and writes, as one string.

pub(crate) mod intset;
pub(crate) mod listpack;
pub(crate) mod ziplist;
pub(crate) mod zipmap;

use crate::Error;

/// Takes `N` bytes from the front.
fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Error> {
    let (array, after) = rest.split_first_chunk::<N>().ok_or(Error::Truncated)?;
    *rest = after;
    Ok(*array)
}

/// Takes so many bytes from the front.
fn bytes<'a>(rest: &mut &'a [u8], bytes: usize) -> Result<&'a [u8], Error> {
    let (taken, after) = rest.split_at_checked(bytes).ok_or(Error::Truncated)?;
    *rest = after;
    Ok(taken)
}

/// The number that three bytes are, little-endian.
fn int24(bytes: [u8; 3]) -> i64 {
    let [a, b, c] = bytes;
    (i32::from_le_bytes([0, a, b, c]) >> 8).into()
}
