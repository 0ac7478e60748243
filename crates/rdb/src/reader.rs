//! Lengths and strings, read from any source of bytes.

use crate::budget::Budget;
use crate::{Error, lzf};
use std::io::Read;

/// Bytes that are set aside at once for a string whose length is only claimed.
const TRUSTED_BYTES: usize = 64 * 1024;
/// The two bits of a length that say that a number or a compressed string follows.
const ENCODED: u8 = 3;
/// The kind of a compressed string.
const COMPRESSED: u8 = 3;

/// What stands before a string.
pub(crate) struct StringHead {
    /// Bytes that stand behind it.
    pub(crate) stored_bytes: u64,
    /// How many it says that they become, if they are compressed.
    pub(crate) unpacked_bytes: Option<u64>,
}

/// Reads values, each of a bounded size.
pub(crate) struct Reader<R> {
    input: R,
    /// The version of the format, which some types depend on.
    version: u16,
    budget: Budget,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(input: R, version: u16, value_bytes_max: usize) -> Self {
        Self { input, version, budget: Budget::new(value_bytes_max) }
    }

    /// The version of the format.
    pub(crate) fn version(&self) -> u16 {
        self.version
    }

    pub(crate) fn input(&mut self) -> &mut R {
        &mut self.input
    }

    /// What the present value may still take.
    pub(crate) fn budget(&mut self) -> &mut Budget {
        &mut self.budget
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Error> {
        Ok(self.array::<1>()?[0])
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: usize) -> Result<Vec<u8>, Error> {
        self.budget.count_element(bytes)?;
        let mut read = Vec::with_capacity(bytes.min(TRUSTED_BYTES));
        self.input.by_ref().take(bytes as u64).read_to_end(&mut read)?;
        if read.len() == bytes { Ok(read) } else { Err(Error::Truncated) }
    }

    /// A length, or the kind of an encoded string.
    fn length_or_encoding(&mut self) -> Result<Result<u64, u8>, Error> {
        let first = self.byte()?;
        let low = first & 0x3f;
        Ok(match first >> 6 {
            0 => Ok(low.into()),
            1 => Ok(u64::from(low) << 8 | u64::from(self.byte()?)),
            ENCODED => Err(low),
            _ if low == 0 => Ok(u32::from_be_bytes(self.array()?).into()),
            _ if low == 1 => Ok(u64::from_be_bytes(self.array()?)),
            _ => return Err(Error::Corrupt("length")),
        })
    }

    /// A length, or a number.
    pub(crate) fn length(&mut self) -> Result<u64, Error> {
        self.length_or_encoding()?.map_err(|_| Error::Corrupt("string where a length should be"))
    }

    /// A string; numbers come as their texts.
    pub(crate) fn string(&mut self) -> Result<Vec<u8>, Error> {
        let encoding = self.length_or_encoding()?;
        self.string_of(encoding)
    }

    /// A string; none for one that the budget has no room for, which is passed over.
    pub(crate) fn string_that_fits(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match self.length_or_encoding()? {
            Ok(bytes) if !self.budget.has_room(bytes) => self.skip(bytes).map(|()| None),
            Err(COMPRESSED) => {
                let (packed, bytes) = (self.length()?, self.length()?);
                if self.budget.has_room(packed.saturating_add(bytes)) {
                    return self.unpacked(packed, bytes).map(Some);
                }
                self.skip(packed).map(|()| None)
            }
            encoding => self.string_of(encoding).map(Some),
        }
    }

    /// The string whose length or encoding was read.
    fn string_of(&mut self, encoding: Result<u64, u8>) -> Result<Vec<u8>, Error> {
        if !matches!(encoding, Ok(_) | Err(COMPRESSED)) {
            self.budget.count_element(0)?;
        }
        let integer = |number: i64| Ok(number.to_string().into_bytes());
        match encoding {
            Ok(bytes) => self.bytes(usize::try_from(bytes).map_err(|_| Error::Corrupt("length"))?),
            Err(0) => integer(i8::from_le_bytes(self.array()?).into()),
            Err(1) => integer(i16::from_le_bytes(self.array()?).into()),
            Err(2) => integer(i32::from_le_bytes(self.array()?).into()),
            Err(COMPRESSED) => {
                let (packed, bytes) = (self.length()?, self.length()?);
                self.unpacked(packed, bytes)
            }
            Err(kind) => Err(Error::Unknown("encoding of a string", kind.into())),
        }
    }

    /// The string of `bytes` bytes that the next `packed` bytes are.
    fn unpacked(&mut self, packed: u64, bytes: u64) -> Result<Vec<u8>, Error> {
        let wrong = |_| Error::Corrupt("length");
        let packed = self.bytes(usize::try_from(packed).map_err(wrong)?)?;
        let bytes = usize::try_from(bytes).map_err(wrong)?;
        self.budget.count(bytes)?;
        lzf::decompress(&packed, bytes)
    }

    /// What stands before a string, which is left to be read.
    pub(crate) fn string_head(&mut self) -> Result<StringHead, Error> {
        let plain = |stored_bytes| StringHead { stored_bytes, unpacked_bytes: None };
        Ok(match self.length_or_encoding()? {
            Ok(bytes) => plain(bytes),
            Err(kind @ 0..=2) => plain(1 << kind),
            Err(COMPRESSED) => StringHead { stored_bytes: self.length()?, unpacked_bytes: Some(self.length()?) },
            Err(kind) => return Err(Error::Unknown("encoding of a string", kind.into())),
        })
    }

    /// Passes over a string, however long.
    pub(crate) fn skip_string(&mut self) -> Result<(), Error> {
        let bytes = self.string_head()?.stored_bytes;
        self.skip(bytes)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Error> {
        let passed = std::io::copy(&mut self.input.by_ref().take(bytes), &mut std::io::sink())?;
        if passed == bytes { Ok(()) } else { Err(Error::Truncated) }
    }

    /// A time in milliseconds, which is never before 1970.
    pub(crate) fn time_ms(&mut self) -> Result<u64, Error> {
        Ok(u64::try_from(i64::from_le_bytes(self.array()?)).unwrap_or(0))
    }

    /// Everything of a module up to the mark of its end.
    pub(crate) fn skip_module_parts(&mut self) -> Result<(), Error> {
        loop {
            match self.length()? {
                0 => return Ok(()),
                1 | 2 => _ = self.length()?,
                3 => _ = self.array::<4>()?,
                4 => _ = self.array::<8>()?,
                5 => self.skip_string()?,
                part => return Err(Error::Unknown("part of a module's value", part)),
            }
        }
    }
}
