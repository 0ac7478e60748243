//! Lengths, strings and scores. Nothing is compressed.

const BITS_14: u64 = 1 << 14;
const LENGTH_32: u8 = 0x80;
const LENGTH_64: u8 = 0x81;

/// How many bytes a length takes.
pub fn length_bytes(length: u64) -> usize {
    match length {
        0..64 => 1,
        64..BITS_14 => 2,
        _ if u32::try_from(length).is_ok() => 5,
        _ => 9,
    }
}

/// Appends a length.
pub fn put_length(out: &mut Vec<u8>, length: u64) {
    match length {
        0..64 => out.push(length as u8),
        64..BITS_14 => out.extend_from_slice(&[0x40 | (length >> 8) as u8, length as u8]),
        _ => match u32::try_from(length) {
            Ok(length) => {
                out.push(LENGTH_32);
                out.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                out.push(LENGTH_64);
                out.extend_from_slice(&length.to_be_bytes());
            }
        },
    }
}

/// How many bytes a string of `bytes` bytes takes.
pub fn string_bytes(bytes: usize) -> usize {
    length_bytes(bytes as u64) + bytes
}

/// Appends a string.
pub fn put_string(out: &mut Vec<u8>, string: &[u8]) {
    put_length(out, string.len() as u64);
    out.extend_from_slice(string);
}

/// Appends a score as sorted sets have it.
pub fn put_score(out: &mut Vec<u8>, score: f64) {
    out.extend_from_slice(&score.to_le_bytes());
}
