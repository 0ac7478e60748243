//! LZF, in which Redis compresses strings (`lzf_d.c` of liblzf).

use crate::Error;

/// What is repeated is at least this long.
const MATCH_BYTES_MIN: usize = 2;

/// Bytes that one byte becomes at most: three bytes stand for up to 264.
const EXPANSION_MAX: usize = 88;

/// The `bytes` bytes that were compressed to `packed`.
pub(crate) fn decompress(packed: &[u8], bytes: usize) -> Result<Vec<u8>, Error> {
    const WRONG: Error = Error::Corrupt("compressed string");
    // So a claim alone sets no memory aside.
    if bytes > packed.len().saturating_mul(EXPANSION_MAX) {
        return Err(WRONG);
    }
    let mut out = Vec::with_capacity(bytes);
    let mut rest = packed.iter().copied();
    let mut next = || rest.next().ok_or(WRONG);
    let mut at = 0;
    while at < packed.len() {
        let control = usize::from(next()?);
        at += 1;
        if control < 32 {
            // So many and one more bytes as they are.
            for _ in 0..=control {
                out.push(next()?);
            }
            at += control + 1;
        } else {
            let mut length = control >> 5;
            if length == 7 {
                length += usize::from(next()?);
                at += 1;
            }
            let back = ((control & 31) << 8 | usize::from(next()?)) + 1;
            at += 1;
            let from = out.len().checked_sub(back).ok_or(WRONG)?;
            // What is repeated may overlap what it makes.
            for i in 0..length + MATCH_BYTES_MIN {
                out.push(out[from + i]);
            }
        }
        if out.len() > bytes {
            return Err(WRONG);
        }
    }
    if out.len() == bytes { Ok(out) } else { Err(WRONG) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_repeated_and_what_is_not() {
        // One byte as it is, then 2 + 7 + 20 bytes from one byte back.
        assert_eq!(decompress(&[0, b'a', 0xe0, 20, 0], 30).unwrap(), vec![b'a'; 30]);
        assert_eq!(decompress(&[2, b'a', b'b', b'c', 0x20, 2], 6).unwrap(), b"abcabc");
    }

    #[test]
    fn damage_is_an_error() {
        for (packed, bytes) in [
            (&[0, b'a', 0x20, 1][..], 4),
            (&[5, b'a'], 6),
            (&[0, b'a', 0xe0], 9),
            (&[0, b'a'], 2),
            (&[1, b'a', b'b'], 1),
            (&[0, b'a'], usize::MAX),
        ] {
            assert!(decompress(packed, bytes).is_err(), "{packed:?}");
        }
    }
}
