//! How a value is written into a tree: as it is, or compressed.
//!
//! A value is stored as it is unless it begins with `MARK`; so most values cost neither a copy nor a byte, and every
//! stored value says by itself how to read it, whatever the settings were when it was written.
//!
//! ```text
//! first byte ≠ 0xF5   the value
//! 0xF5 0x00 …         the value follows
//! 0xF5 0x01 len …     zstd of a value of `len` bytes (u32, little-endian)
//! 0xF5 0x02 len …     LZ4 block of a value of `len` bytes (u32, little-endian)
//! 0xF5 0x03 len …     the first `VALUE_HEAD_BYTES` of a value of `len` bytes (u32, little-endian), then zstd of the rest
//! ```
//!
//! The last form is that of values that are kept out of the levels: a scan of heads reads only their beginnings, and a
//! block of zstd has to be read whole.

use crate::{Compression, Slice, VALUE_HEAD_BYTES};
use byteview::ByteView;
use std::cell::RefCell;

const MARK: u8 = 0xF5;
const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
const LZ4: u8 = 2;
const HEAD_AND_ZSTD: u8 = 3;
const HEAD_BYTES: usize = 6;
/// Shorter values are not worth compressing one by one.
const ZSTD_BYTES_MIN: usize = 128;
const _: () = assert!(VALUE_HEAD_BYTES <= ZSTD_BYTES_MIN);
const ZSTD_LEVEL: i32 = 3;

thread_local! {
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

/// How values are packed, from the settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    compression: Compression,
    /// Values of this length and more are kept out of the levels, and so out of the blocks that would compress them with
    /// LZ4: they are compressed one by one.
    apart_bytes_min: usize,
}

impl Packing {
    pub(crate) fn new(compression: Compression, separation_bytes: u32) -> Self {
        let apart_bytes_min = if separation_bytes == 0 { usize::MAX } else { separation_bytes as usize };
        Self { compression, apart_bytes_min }
    }

    /// The stored form of `value`.
    pub(crate) fn pack(self, value: Slice) -> Slice {
        let packed = match self.compression {
            Compression::Zstd if value.len() >= self.apart_bytes_min.max(ZSTD_BYTES_MIN) => {
                let (head, rest) = value.split_at(VALUE_HEAD_BYTES);
                zstd_of(HEAD_AND_ZSTD, value.len(), head, rest)
            }
            Compression::Zstd if value.len() >= ZSTD_BYTES_MIN => zstd_of(ZSTD, value.len(), &[], &value),
            Compression::Lz4 if value.len() >= self.apart_bytes_min => Some(lz4_of(&value)),
            _ => None,
        };
        match packed {
            Some(packed) if packed.len() < value.len() => Slice::from(packed),
            _ if value.first() == Some(&MARK) => Slice::from(ByteView::fused(&[MARK, PLAIN], &value)),
            _ => value,
        }
    }
}

/// How long the value of a stored form is, as its beginning says.
pub(crate) fn unpacked_bytes(stored: &[u8]) -> usize {
    match stored {
        [MARK, PLAIN, value @ ..] => value.len(),
        [MARK, _, a, b, c, d, ..] => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
        plain => plain.len(),
    }
}

/// The value of a stored form; the error says what is wrong with it.
pub(crate) fn unpack(stored: Slice) -> Result<Slice, &'static str> {
    if stored.first() != Some(&MARK) {
        return Ok(stored);
    }
    let kind = *stored.get(1).ok_or("value envelope cut short")?;
    if kind == PLAIN {
        return Ok(Slice::from(ByteView::from(stored).slice(2..)));
    }
    let length = stored.get(2..HEAD_BYTES).ok_or("value envelope cut short")?;
    let length = u32::from_le_bytes(length.try_into().expect("4 bytes")) as usize;
    if length > vocab::limits::STORED_BYTES_MAX {
        return Err("value envelope with an impossible length");
    }
    let packed = &stored[HEAD_BYTES..];
    let mut value = vec![0; length];
    let written = match kind {
        HEAD_AND_ZSTD => {
            let (head, packed) = packed.split_at_checked(VALUE_HEAD_BYTES).ok_or("value envelope cut short")?;
            let (first, rest) = value.split_at_mut_checked(VALUE_HEAD_BYTES).ok_or("value envelope cut short")?;
            first.copy_from_slice(head);
            let written = zstd::bulk::decompress_to_buffer(packed, rest).map_err(|_| "zstd cannot read a value")?;
            VALUE_HEAD_BYTES + written
        }
        ZSTD => zstd::bulk::decompress_to_buffer(packed, &mut value).map_err(|_| "zstd cannot read a value")?,
        LZ4 => lz4_flex::block::decompress_into(packed, &mut value).map_err(|_| "LZ4 cannot read a value")?,
        _ => return Err("unknown value envelope"),
    };
    if written != length {
        return Err("a value of another length than its envelope says");
    }
    Ok(Slice::from(value))
}

/// The first `wanted` bytes of a value, or all of a shorter one, by the beginning of its stored form; `None` if that does not
/// tell them.
pub(crate) fn unpack_head(stored: &[u8], wanted: usize) -> Option<Slice> {
    if stored.first() != Some(&MARK) {
        return Some(Slice::from(&stored[..stored.len().min(wanted)]));
    }
    match *stored.get(1)? {
        PLAIN => Some(Slice::from(&stored[2..stored.len().min(2 + wanted)])),
        LZ4 => {
            let length = u32::from_le_bytes(stored.get(2..HEAD_BYTES)?.try_into().ok()?) as usize;
            let head = lz4_head(&stored[HEAD_BYTES..], wanted)?;
            (head.len() >= wanted.min(length)).then(|| Slice::from(head))
        }
        HEAD_AND_ZSTD if wanted <= VALUE_HEAD_BYTES => Some(Slice::from(stored.get(HEAD_BYTES..HEAD_BYTES + wanted)?)),
        // Its first bytes are in the first block, which has to be read whole.
        _ => None,
    }
}

/// The first `wanted` bytes, or all there are, of what an LZ4 block was made of: of its sequences of literals and copies of
/// what precedes.
fn lz4_head(mut block: &[u8], wanted: usize) -> Option<Vec<u8>> {
    let mut head = Vec::with_capacity(wanted);
    while head.len() < wanted
        && let Some((&token, rest)) = block.split_first()
    {
        block = rest;
        let literals = lz4_length(&mut block, token >> 4)?;
        let taken = literals.min(wanted - head.len());
        head.extend_from_slice(block.get(..taken)?);
        if head.len() == wanted || block.len() == literals {
            break;
        }
        block = block.get(literals..)?;
        let (offset, rest) = block.split_first_chunk()?;
        block = rest;
        let copied = lz4_length(&mut block, token & 15)? + 4;
        let from = head.len().checked_sub(usize::from(u16::from_le_bytes(*offset)))?;
        for at in from..from + copied.min(wanted - head.len()) {
            head.push(*head.get(at)?);
        }
    }
    Some(head)
}

/// A length of which a token has the first four bits.
fn lz4_length(block: &mut &[u8], first: u8) -> Option<usize> {
    let mut length = usize::from(first);
    if first == 15 {
        loop {
            let (&byte, rest) = block.split_first()?;
            *block = rest;
            length = length.checked_add(usize::from(byte))?;
            if byte < u8::MAX {
                break;
            }
        }
    }
    Some(length)
}

fn head(kind: u8, length: usize) -> Vec<u8> {
    let length = u32::try_from(length).expect("values are bounded by vocab::limits");
    let mut bytes = vec![MARK, kind];
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes
}

/// An envelope of a value of that length: what is `plain`, then zstd of `rest`.
fn zstd_of(kind: u8, length: usize, plain: &[u8], rest: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
        }
        let packed = slot.as_mut()?.compress(rest).ok()?;
        let mut bytes = head(kind, length);
        bytes.extend_from_slice(plain);
        bytes.extend_from_slice(&packed);
        Some(bytes)
    })
}

fn lz4_of(value: &[u8]) -> Vec<u8> {
    let mut bytes = head(LZ4, value.len());
    bytes.extend_from_slice(&lz4_flex::block::compress(value));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(packing: Packing, value: &[u8]) -> usize {
        let stored = packing.pack(Slice::from(value));
        assert_eq!(unpack(stored.clone()).expect("what was packed"), value);
        stored.len()
    }

    #[test]
    fn every_value_comes_back_and_shrinks_where_it_can() {
        let repeated = vec![b'a'; 1000];
        let mut marked = vec![MARK];
        marked.extend_from_slice(b"beginning like an envelope");
        let mut noise = vec![0u8; 1000];
        vocab::Prng::new(7).fill(&mut noise);
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let packing = Packing::new(compression, 500);
            assert_eq!(round_trip(packing, b""), 0);
            assert_eq!(round_trip(packing, b"short"), 5);
            assert_eq!(round_trip(packing, &marked), marked.len() + 2);
            assert_eq!(round_trip(packing, &[MARK]), 3);
            assert_eq!(round_trip(packing, &noise), 1000);
            let stored = round_trip(packing, &repeated);
            assert_eq!(stored < 100, compression != Compression::None, "{compression:?}: {stored}");
        }
    }

    #[test]
    fn the_formats_are_as_they_were() {
        let zstd = [&[0xF5, 1, 3, 0, 0, 0][..], &zstd::bulk::compress(b"abc", 3).expect("to memory")].concat();
        let long = format!("{:064}abc", 7);
        let apart = [&[0xF5, 3, 67, 0, 0, 0][..], &long.as_bytes()[..64], &zstd[6..]].concat();
        let stored: [(&[u8], &str); 5] = [
            (b"abc", "abc"),
            (b"\xF5\0abc", "abc"),
            (&zstd, "abc"),
            (b"\xF5\x02\x03\0\0\0\x30abc", "abc"),
            (&apart, &long),
        ];
        for (stored, value) in stored {
            assert_eq!(unpack(Slice::from(stored)).expect("valid"), value.as_bytes());
        }
    }

    #[test]
    fn the_head_of_a_value_is_told_by_the_beginning_of_its_stored_form() {
        let mut prng = vocab::Prng::new(3);
        for round in 0..2000 {
            let length = prng.below(600) as usize;
            let mut value = vec![0u8; length];
            match round % 3 {
                0 => prng.fill(&mut value),
                1 => value.iter_mut().for_each(|byte| *byte = prng.below(3) as u8),
                _ => value.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i % (1 + round % 20)) as u8),
            }
            if round % 7 == 0 {
                value.insert(0, MARK);
            }
            for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
                let apart = if round % 5 == 0 { 0 } else { 1 };
                let stored = Packing::new(compression, apart).pack(Slice::from(&value[..]));
                let beginning = &stored[..stored.len().min(256)];
                let is_zstd = stored.starts_with(&[MARK, ZSTD]);
                let wanted = &value[..value.len().min(64)];
                match unpack_head(beginning, 64) {
                    Some(head) => assert!(head == wanted && !is_zstd, "{compression:?}"),
                    None => assert!(is_zstd, "{compression:?}: {stored:?}"),
                }
                // Cut anywhere, it tells nothing that is wrong.
                let cut = &stored[..prng.below(stored.len() as u64 + 1) as usize];
                let head = unpack_head(cut, 64);
                assert!(head.is_none_or(|head| value.starts_with(&head)), "{compression:?}: {cut:?}");
            }
        }
    }

    #[test]
    fn garbage_is_refused() {
        let cases: [&[u8]; 8] = [
            b"\xF5\x03\x44\0\0\0short",
            b"\xF5\x04\0\0\0\0",
            b"\xF5",
            b"\xF5\x01\x03",
            b"\xF5\x03\0\0\0\0",
            b"\xF5\x01\x03\0\0\0garbage",
            b"\xF5\x02\x04\0\0\0\x30abc",
            b"\xF5\x02\xFF\xFF\xFF\xFF\x30abc",
        ];
        for case in cases {
            assert!(unpack(Slice::from(case)).is_err(), "{case:?}");
            let _ = unpack_head(case, 32);
        }
    }
}
