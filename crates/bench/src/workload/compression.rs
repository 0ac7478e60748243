//! Compression by the client: every value before it is written and after it was read, as users of stores do who want to
//! spare the network and the servers.

use std::cell::RefCell;
use std::io::{Read as _, Write as _};

/// A value that would become larger than this is damaged.
const VALUE_BYTES_MAX: usize = vocab::limits::VALUE_BYTES_MAX;
/// Zstandard's own default.
const ZSTD_LEVEL: i32 = 3;
/// gzip's own default.
const GZIP_LEVEL: u32 = 6;

/// By which method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// LZ4, one block a value, its length before it.
    Lz4,
    /// Zstandard, one frame a value, its length before it.
    Zstd,
    /// gzip.
    Gzip,
}

/// What one thread needs again and again.
struct Tools {
    plain: Vec<u8>,
    zstd: Option<(zstd::bulk::Compressor<'static>, zstd::bulk::Decompressor<'static>)>,
}

thread_local! {
    static TOOLS: RefCell<Tools> = const { RefCell::new(Tools { plain: Vec::new(), zstd: None }) };
}

impl Tools {
    fn zstd(&mut self) -> &mut (zstd::bulk::Compressor<'static>, zstd::bulk::Decompressor<'static>) {
        self.zstd.get_or_insert_with(|| {
            let pair = zstd::bulk::Compressor::new(ZSTD_LEVEL).and_then(|c| Ok((c, zstd::bulk::Decompressor::new()?)));
            pair.expect("memory for zstd's tables")
        })
    }
}

impl Compression {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::None, Self::Lz4, Self::Zstd, Self::Gzip];

    /// The property's word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// Appends to `out` what `write` makes, compressed.
    pub(super) fn write(self, write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        if self == Self::None {
            return write(out);
        }
        TOOLS.with_borrow_mut(|tools| {
            let mut plain = std::mem::take(&mut tools.plain);
            plain.clear();
            write(&mut plain);
            match self {
                Self::None => {}
                Self::Lz4 => out.extend_from_slice(&lz4_flex::block::compress_prepend_size(&plain)),
                Self::Zstd => {
                    out.extend_from_slice(&(plain.len() as u32).to_le_bytes());
                    let packed = tools.zstd().0.compress(&plain);
                    out.extend_from_slice(&packed.expect("a buffer in memory takes all"));
                }
                Self::Gzip => {
                    let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::new(GZIP_LEVEL));
                    encoder.write_all(&plain).expect("a Vec takes all that is written");
                    encoder.finish().expect("a Vec takes all that is written");
                }
            }
            tools.plain = plain;
        });
    }

    /// Puts what `packed` holds into `out`. False when it is damaged.
    #[must_use]
    pub fn read(self, packed: &[u8], out: &mut Vec<u8>) -> bool {
        out.clear();
        match self {
            Self::None => {
                out.extend_from_slice(packed);
                true
            }
            Self::Lz4 => {
                let Some(length) = length_before(packed) else { return false };
                out.resize(length, 0);
                lz4_flex::block::decompress_into(&packed[4..], out).is_ok_and(|written| written == length)
            }
            Self::Zstd => {
                let Some(length) = length_before(packed) else { return false };
                out.reserve(length);
                let written = TOOLS.with_borrow_mut(|tools| tools.zstd().1.decompress_to_buffer(&packed[4..], out));
                written.is_ok_and(|written| written == length)
            }
            Self::Gzip => {
                let bound = VALUE_BYTES_MAX as u64 + 1;
                let read = flate2::read::GzDecoder::new(packed).take(bound).read_to_end(out);
                read.is_ok() && out.len() <= VALUE_BYTES_MAX
            }
        }
    }
}

/// The length that stands before a value that is packed by LZ4 or Zstandard: what it will be when it is read.
fn length_before(packed: &[u8]) -> Option<usize> {
    let length = packed.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) as usize);
    length.filter(|length| *length <= VALUE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_read_and_damage_is_seen() {
        let text = b"<td>some text that repeats</td>".repeat(20);
        for method in Compression::ALL {
            let mut packed = b"before".to_vec();
            method.write(|out| out.extend_from_slice(&text), &mut packed);
            let packed = &packed[6..];
            let mut back = Vec::new();
            assert!(method.read(packed, &mut back) && back == text, "{method:?}");
            if method != Compression::None {
                assert!(packed.len() < text.len() / 4, "{method:?}: {} bytes", packed.len());
                assert!(!method.read(&packed[..packed.len() - 3], &mut back) || back != text, "{method:?} cut short");
                assert!(!method.read(&[0xff; 12], &mut back), "{method:?} of nonsense");
                assert!(!method.read(&[], &mut back), "{method:?} of nothing");
            }
        }
    }
}
