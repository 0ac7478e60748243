//! Encoded bytes: numbers are written in as few bytes as they need, seven bits a byte, the lowest first (LEB128), and read by
//! [`Reader`].

use std::fmt;

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes end too early.
    CutShort,
    /// A number is larger than it may be.
    TooLarge,
    /// A number takes more bytes than it needs.
    NotShortest,
    /// A count is larger than what follows it can hold.
    CountTooLarge,
    /// A text is not UTF-8.
    NotUtf8,
    /// Bytes follow where none may.
    TooLong,
}

impl Malformed {
    /// The error as a text.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::CutShort => "cut short",
            Self::TooLarge => "a number is too large",
            Self::NotShortest => "a number is not in its shortest form",
            Self::CountTooLarge => "a count is larger than what follows",
            Self::NotUtf8 => "a text is not UTF-8",
            Self::TooLong => "more bytes than there may be",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Malformed {}

impl From<Malformed> for &'static str {
    fn from(malformed: Malformed) -> Self {
        malformed.text()
    }
}

/// Takes encoded bytes apart, from their beginning, and believes none of them: every length is checked against what is there,
/// and every number has one encoding. This is what is left of them. A read that fails leaves it where it was, or within what it failed to read.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Begins with all of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.rest.len()
    }

    /// Whether no byte is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes all that is left.
    pub const fn rest(&mut self) -> &'a [u8] {
        let rest = self.rest;
        self.rest = &[];
        rest
    }

    /// An error if a byte is left.
    ///
    /// # Errors
    /// [`Malformed::TooLong`].
    pub const fn end(&self) -> Result<(), Malformed> {
        if self.is_empty() { Ok(()) } else { Err(Malformed::TooLong) }
    }

    /// The next byte.
    ///
    /// # Errors
    /// [`Malformed::CutShort`].
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        let (&byte, rest) = self.rest.split_first().ok_or(Malformed::CutShort)?;
        self.rest = rest;
        Ok(byte)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// [`Malformed::CutShort`].
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed::CutShort)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// The next eight bytes as a number, little-endian.
    ///
    /// # Errors
    /// [`Malformed::CutShort`].
    pub fn u64_le(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// [`Malformed::CutShort`].
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (part, rest) = self.rest.split_at_checked(count).ok_or(Malformed::CutShort)?;
        self.rest = rest;
        Ok(part)
    }

    /// A number that [`put_varint`](crate::put_varint) wrote.
    ///
    /// # Errors
    /// It is cut short, larger than 64 bits, or not in its shortest form.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        // Most numbers are lengths below 128.
        if let Some((&byte, rest)) = self.rest.split_first()
            && byte < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        const BYTES_MAX: usize = 10;
        let mut value = 0u64;
        for (i, &byte) in self.rest.iter().take(BYTES_MAX).enumerate() {
            if i == BYTES_MAX - 1 && byte > 1 {
                return Err(Malformed::TooLarge);
            }
            value |= u64::from(byte & 0x7F) << (7 * i);
            if byte < 0x80 {
                if byte == 0 && i > 0 {
                    return Err(Malformed::NotShortest);
                }
                self.rest = &self.rest[i + 1..];
                return Ok(value);
            }
        }
        Err(Malformed::CutShort)
    }

    /// A varint that fits `T`.
    ///
    /// # Errors
    /// As [`Self::varint`], or it does not fit.
    pub fn number<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.varint()?).map_err(|_| Malformed::TooLarge)
    }

    /// A varint of at most `max`.
    ///
    /// # Errors
    /// As [`Self::varint`], or it is larger.
    pub fn at_most(&mut self, max: u64) -> Result<u64, Malformed> {
        let value = self.varint()?;
        if value > max { Err(Malformed::TooLarge) } else { Ok(value) }
    }

    /// How many things follow, of which each takes at least `bytes_each` bytes: a reader that makes room for that many
    /// takes no more memory than the bytes justify.
    ///
    /// # Errors
    /// As [`Self::varint`], or so many cannot follow.
    #[inline]
    pub fn count(&mut self, bytes_each: usize) -> Result<usize, Malformed> {
        let count = self.varint()?;
        if count > (self.rest.len() / bytes_each) as u64 { Err(Malformed::CountTooLarge) } else { Ok(count as usize) }
    }

    /// As [`Self::count`], and at most `max` things.
    ///
    /// # Errors
    /// As [`Self::count`], or there are more.
    pub fn count_at_most(&mut self, max: usize, bytes_each: usize) -> Result<usize, Malformed> {
        let count = self.count(bytes_each)?;
        if count > max { Err(Malformed::TooLarge) } else { Ok(count) }
    }

    /// A varint length and so many bytes, as [`put_bytes`](crate::put_bytes) wrote them.
    ///
    /// # Errors
    /// As [`Self::varint`], or the bytes end before.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.varint()?).map_err(|_| Malformed::CutShort)?;
        self.take(length)
    }

    /// Bytes as by [`Self::bytes`], at most `bytes_max`, that are a text.
    ///
    /// # Errors
    /// As [`Self::bytes`], or there are too many, or they are not UTF-8.
    pub fn text(&mut self, bytes_max: usize) -> Result<&'a str, Malformed> {
        let length = self.at_most(bytes_max as u64)? as usize;
        std::str::from_utf8(self.take(length)?).map_err(|_| Malformed::NotUtf8)
    }
}

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
    use crate::Prng;

    #[test]
    fn numbers_have_one_encoding() {
        let cases: [(&[u8], Result<u64, Malformed>); 9] = [
            (&[0], Ok(0)),
            (&[0x7F, 9], Ok(0x7F)),
            (&[0x80, 1], Ok(0x80)),
            (&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1], Ok(u64::MAX)),
            (&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2], Err(Malformed::TooLarge)),
            (&[0x80; 11], Err(Malformed::TooLarge)),
            (&[0x81, 0], Err(Malformed::NotShortest)),
            (&[0x80], Err(Malformed::CutShort)),
            (&[], Err(Malformed::CutShort)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(Reader::new(bytes).varint(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn lengths_are_checked_before_anything_is_taken() {
        let mut bytes = Vec::new();
        put_bytes(&mut bytes, b"abc");
        put_varint(&mut bytes, 300);
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.text(3), Ok("abc"));
        assert_eq!(reader.clone().number::<u8>(), Err(Malformed::TooLarge));
        assert_eq!(reader.clone().at_most(299), Err(Malformed::TooLarge));
        assert_eq!(reader.clone().count(1), Err(Malformed::CountTooLarge));
        assert_eq!(reader.end(), Err(Malformed::TooLong));
        assert_eq!(reader.number::<u16>(), Ok(300));
        assert_eq!((reader.end(), reader.left()), (Ok(()), 0));
        assert_eq!(Reader::new(&bytes).text(2), Err(Malformed::TooLarge));
        assert_eq!(Reader::new(&bytes[..3]).bytes(), Err(Malformed::CutShort));
        assert_eq!(Reader::new(&[1, 0xFF]).text(9), Err(Malformed::NotUtf8));
        // A length that is no length on a small machine either.
        assert!(Reader::new(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]).bytes().is_err());
    }

    #[test]
    fn fuzz_varints_read_are_varints_written() {
        let mut random = Prng::new(1);
        for _ in 0..10_000 {
            let mut bytes = vec![0; random.below(12) as usize];
            random.fill(&mut bytes);
            let mut reader = Reader::new(&bytes);
            if let Ok(value) = reader.varint() {
                let mut again = Vec::new();
                put_varint(&mut again, value);
                assert_eq!(again, bytes[..bytes.len() - reader.left()]);
            }
        }
    }

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
