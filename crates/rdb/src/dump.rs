//! What DUMP answers and RESTORE takes: the type, the value, the version in two bytes, and a checksum in eight. FUNCTION DUMP answers the
//! like: libraries as a file has them, the version and the checksum.

use crate::format::{VERSION, VERSION_FIELD_TTLS, VERSION_VALKEY, has_key_meta, is_known, operation as op, value};
use crate::read_value::{read_value, skip_key_meta};
use crate::reader::Reader;
use crate::writer::put_string;
use crate::{Error, Value, put_value, value_type};
use crc::{CRC_64_REDIS, Crc, Digest, Table};

static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

const VERSION_BYTES: usize = 2;
const CHECKSUM_BYTES: usize = 8;
/// Bytes behind a value.
pub const FOOTER_BYTES: usize = VERSION_BYTES + CHECKSUM_BYTES;

/// The checksum of Redis, CRC-64 by Jones, of bytes that come in pieces.
#[derive(Clone)]
pub struct Checksum(Digest<'static, u64, Table<16>>);

impl Default for Checksum {
    fn default() -> Self {
        Self(CRC.digest())
    }
}

impl Checksum {
    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Of all bytes so far.
    pub fn value(&self) -> u64 {
        self.0.clone().finalize()
    }

    /// What stands behind the value whose bytes were taken in.
    pub fn footer(&mut self, version: u16) -> [u8; FOOTER_BYTES] {
        let mut footer = [0; FOOTER_BYTES];
        let version = version.to_le_bytes();
        self.update(&version);
        footer[..VERSION_BYTES].copy_from_slice(&version);
        footer[VERSION_BYTES..].copy_from_slice(&self.value().to_le_bytes());
        footer
    }
}

/// Appends to a type and its value what stands behind them.
pub fn seal(mut body: Vec<u8>, version: u16) -> Vec<u8> {
    let mut checksum = Checksum::default();
    checksum.update(&body);
    body.extend_from_slice(&checksum.footer(version));
    body
}

/// A value as RESTORE takes it; `None` for a module's, which is not written.
pub fn write_dump(of: &Value) -> Option<Vec<u8>> {
    let ty = value_type(of)?;
    let mut body = vec![ty];
    put_value(&mut body, of);
    Some(seal(body, if ty == value::HASH_TTLS { VERSION_FIELD_TTLS } else { VERSION }))
}

/// A dump in its parts.
struct Dumped<'a> {
    /// The type and the value.
    body: &'a [u8],
    version: u16,
    /// What the checksum is of.
    checked: &'a [u8],
    checksum: u64,
}

impl<'a> Dumped<'a> {
    fn of(dump: &'a [u8]) -> Option<Self> {
        let (checked, checksum) = dump.split_last_chunk::<CHECKSUM_BYTES>()?;
        let (body, version) = checked.split_last_chunk::<VERSION_BYTES>()?;
        let (version, checksum) = (u16::from_le_bytes(*version), u64::from_le_bytes(*checksum));
        Some(Self { body, version, checked, checksum })
    }

    fn fits(&self) -> bool {
        CRC.checksum(self.checked) == self.checksum
    }
}

/// The version, and the type and value, of what was dumped; `None` if the checksum is another or the version not known. A checksum
/// of 0 is written by a server that makes none.
pub fn checked_body(dump: &[u8]) -> Option<(u16, &[u8])> {
    let dumped = Dumped::of(dump)?;
    (is_known(dumped.version) && (dumped.checksum == 0 || dumped.fits())).then_some((dumped.version, dumped.body))
}

/// The same of versions up to those of Redis 8.4 and Valkey 9.1, each with its checksum: no other dump was taken before.
pub fn checked_body_before(dump: &[u8]) -> Option<(u16, &[u8])> {
    let dumped = Dumped::of(dump)?;
    let was_known = dumped.version <= VERSION_FIELD_TTLS || dumped.version == VERSION_VALKEY;
    (was_known && dumped.fits()).then_some((dumped.version, dumped.body))
}

/// How long the string says that it is in the body of a dump of that version; `None` where the body holds something else. Nothing of the
/// string is read.
#[must_use]
pub fn claimed_string_bytes(version: u16, body: &[u8]) -> Option<u64> {
    let (_, rest) = body.split_first().filter(|(of, _)| **of == value::STRING)?;
    let head = Reader::new(rest, version, 0).string_head().ok()?;
    Some(head.unpacked_bytes.unwrap_or(head.stored_bytes))
}

/// The value in the body of a dump of that version. It takes up to `bytes_max` bytes.
pub fn read_dump(version: u16, body: &[u8], bytes_max: usize) -> Result<Value, Error> {
    let (&first, rest) = body.split_first().ok_or(Error::Truncated)?;
    let mut reader = Reader::new(rest, version, bytes_max);
    let mut of = first;
    if of == op::SLOT_IMPORT_OR_KEY_META && has_key_meta(version) {
        // As in a Redis without those modules.
        if !skip_key_meta(&mut reader)?.is_optional {
            return Err(Error::Corrupt("a module's data, without which the key is not whole"));
        }
        of = reader.byte()?;
    }
    let value = read_value(&mut reader, of)?;
    if reader.input().is_empty() { Ok(value) } else { Err(Error::Corrupt("bytes behind the value")) }
}

/// Libraries of functions, by their sources, as FUNCTION RESTORE takes them.
pub fn write_libraries<'a>(sources: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut body = Vec::new();
    sources.for_each(|source| put_library(&mut body, source));
    seal(body, VERSION)
}

/// Appends a library of functions, by its source, as a file and FUNCTION DUMP have it.
pub fn put_library(out: &mut Vec<u8>, source: &[u8]) {
    out.push(op::FUNCTION);
    put_string(out, source);
}

/// The sources of the libraries in the body of a dump of that version. They take up to `bytes_max` bytes.
pub fn read_libraries(version: u16, body: &[u8], bytes_max: usize) -> Result<Vec<Vec<u8>>, Error> {
    let mut reader = Reader::new(body, version, bytes_max);
    let mut sources = Vec::new();
    while !reader.input().is_empty() {
        if reader.byte()? != op::FUNCTION {
            return Err(Error::Corrupt("no library of functions"));
        }
        sources.push(reader.string()?);
    }
    Ok(sources)
}

#[cfg(test)]
mod tests;
