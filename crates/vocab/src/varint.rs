//! Writes numbers in as few bytes as they need: seven bits a byte, the lowest first (LEB128). [`Reader`](crate::Reader)
//! reads them.

/// Appends `value`.
pub fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends the length of `part`, and `part`.
pub fn put_bytes(bytes: &mut Vec<u8>, part: &[u8]) {
    put_varint(bytes, part.len() as u64);
    bytes.extend_from_slice(part);
}

/// How many bytes `put_varint` appends for `value`.
#[must_use]
pub const fn varint_bytes(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_bits_a_byte() {
        for (value, expected) in [
            (0, &[0][..]),
            (0x7F, &[0x7F]),
            (0x80, &[0x80, 1]),
            (300, &[0xAC, 2]),
            (u64::MAX, &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]),
        ] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(bytes, expected, "{value}");
            assert_eq!(varint_bytes(value), expected.len(), "{value}");
        }
    }
}
