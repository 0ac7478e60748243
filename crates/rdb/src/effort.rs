//! How much work it is to read a dump, from its lengths alone: nothing is decompressed, and no memory set aside.
//!
//! The unit is an element that stands by itself. The walk follows `read_value`, so where it fails, reading fails, too.

use crate::Error;
use crate::format::value as ty;
use crate::reader::Reader;

/// So many bytes are decompressed in the time of an element.
const UNPACKED_BYTES: u64 = 256;
/// So many bytes of a packed collection are read in the time of an element. Two of them may be one of its own.
const PACKED_BYTES: u64 = 16;
/// Bytes that are not looked into may be compressed strings: so many of them take the time of an element.
const UNSEEN_BYTES: u64 = 3;
/// In a stream's packed list each entry may repeat names that stand there once. The square of its length in bytes, divided by this, is
/// how many elements take as long.
const REPEATED_NAMES: u64 = 1 << 17;

/// About how many elements take as long to read as the body of a dump of that version. Beyond `most` it is not looked at further.
#[must_use]
pub fn reading_effort(version: u16, body: &[u8], most: u64) -> u64 {
    let Some((&of, rest)) = body.split_first() else { return 0 };
    let mut walk = Walk { reader: Reader::new(rest, version, usize::MAX), effort: 0, most };
    // Where the walk fails, reading will have done so much.
    _ = walk.value(of);
    walk.effort
}

/// A walk over a value's lengths.
struct Walk<'a> {
    reader: Reader<&'a [u8]>,
    /// So far, in elements.
    effort: u64,
    most: u64,
}

impl Walk<'_> {
    fn value(&mut self, of: u8) -> Result<(), Error> {
        match of {
            ty::STRING => self.string().map(drop),
            ty::LIST | ty::SET | ty::HASH | ty::SORTED_SET | ty::LIST_OF_ZIPLISTS | ty::LIST_OF_LISTPACKS => {
                self.elements(of)
            }
            ty::HASH_TTLS => {
                self.pass(size_of::<u64>() as u64)?;
                self.elements(of)
            }
            ty::HASH_ZIPMAP..=ty::HASH_ZIPLIST
            | ty::HASH_LISTPACK
            | ty::SORTED_SET_LISTPACK
            | ty::SET_LISTPACK
            | ty::HASH_LISTPACK_TTLS_EARLY => self.packed().map(drop),
            ty::HASH_LISTPACK_TTLS => {
                self.pass(size_of::<u64>() as u64)?;
                self.packed().map(drop)
            }
            ty::STREAM_1 | ty::STREAM_2 | ty::STREAM_3 | ty::STREAM_4 | ty::STREAM_5 => {
                self.elements(of)?;
                self.unseen();
                Ok(())
            }
            _ => {
                self.unseen();
                Ok(())
            }
        }
    }

    /// Elements, or packed lists of them, behind their number.
    fn elements(&mut self, of: u8) -> Result<(), Error> {
        let count = self.reader.length()?;
        self.add(count);
        for _ in 0..count {
            if self.effort > self.most {
                break;
            }
            self.element(of)?;
        }
        Ok(())
    }

    fn element(&mut self, of: u8) -> Result<(), Error> {
        match of {
            ty::HASH => {
                self.string()?;
                self.string()?;
            }
            ty::HASH_TTLS => {
                self.reader.length()?;
                self.string()?;
                self.string()?;
            }
            ty::SORTED_SET => {
                self.string()?;
                self.pass(size_of::<f64>() as u64)?;
            }
            ty::LIST_OF_ZIPLISTS => _ = self.packed()?,
            ty::LIST_OF_LISTPACKS => {
                let is_packed = self.reader.length()? != 1;
                _ = if is_packed { self.packed()? } else { self.string()? };
            }
            ty::STREAM_1 | ty::STREAM_2 | ty::STREAM_3 | ty::STREAM_4 | ty::STREAM_5 => {
                self.string()?;
                let bytes = self.packed()?;
                self.add(bytes.saturating_mul(bytes) / REPEATED_NAMES);
            }
            _ => _ = self.string()?,
        }
        Ok(())
    }

    /// Passes over a packed collection. Answers its length in bytes.
    fn packed(&mut self) -> Result<u64, Error> {
        let bytes = self.string()?;
        self.add(bytes / PACKED_BYTES);
        Ok(bytes)
    }

    /// Passes over a string. Answers its length in bytes.
    fn string(&mut self) -> Result<u64, Error> {
        let head = self.reader.string_head()?;
        if let Some(unpacked) = head.unpacked_bytes {
            self.add(unpacked / UNPACKED_BYTES);
        }
        self.pass(head.stored_bytes)?;
        Ok(head.unpacked_bytes.unwrap_or(head.stored_bytes))
    }

    /// All bytes that are left are counted without a look at them.
    fn unseen(&mut self) {
        let bytes = self.reader.input().len() as u64;
        self.add(bytes / UNSEEN_BYTES);
    }

    fn pass(&mut self, bytes: u64) -> Result<(), Error> {
        let bytes = usize::try_from(bytes).map_err(|_| Error::Truncated)?;
        let input = self.reader.input();
        *input = input.get(bytes..).ok_or(Error::Truncated)?;
        Ok(())
    }

    fn add(&mut self, effort: u64) {
        self.effort = self.effort.saturating_add(effort);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{HashField, StreamBuilder, Value, checked_body, put_length, write_dump};

    const MOST: u64 = 1000;

    fn effort(value: &Value) -> u64 {
        let dump = write_dump(value).unwrap();
        let (version, body) = checked_body(&dump).unwrap();
        reading_effort(version, body, MOST)
    }

    /// A compressed string of `packed` bytes that is said to have `unpacked`.
    fn compressed(out: &mut Vec<u8>, packed: u64, unpacked: u64) {
        out.push(0xc3);
        put_length(out, packed);
        put_length(out, unpacked);
        out.extend(std::iter::repeat_n(0, packed as usize));
    }

    #[test]
    fn elements_count_and_plain_strings_do_not() {
        let strings = |count: usize| vec![b"text".to_vec(); count];
        let field = |n: u64, expire_at_ms| HashField { name: n.to_string().into(), value: b"v".to_vec(), expire_at_ms };
        for (value, expected) in [
            (Value::String(vec![b'x'; 1 << 20]), 0),
            (Value::List(strings(7)), 7),
            (Value::List(vec![vec![b'x'; 1 << 16]; 7]), 7),
            (Value::Set(strings(2000)), 2000),
            (Value::SortedSet((0..5).map(|n| (vec![n], f64::from(n))).collect()), 5),
            (Value::Hash((0..9).map(|n| field(n, None)).collect()), 9),
            (Value::Hash((0..9).map(|n| field(n, Some(n + 1000))).collect()), 9),
        ] {
            assert_eq!(effort(&value), expected);
        }
    }

    #[test]
    fn what_compressed_strings_claim_counts() {
        let claimed = |of: u8, head: &[u8], packed: u64, unpacked: u64| {
            let mut body = [&[of][..], head].concat();
            compressed(&mut body, packed, unpacked);
            reading_effort(10, &body, MOST)
        };
        assert_eq!(claimed(ty::STRING, &[], 100, 8800), 8800 / UNPACKED_BYTES);
        // 120 KB that become a packed list of ten million bytes.
        let much: u64 = 10 << 20;
        let expected = much / UNPACKED_BYTES + much / PACKED_BYTES;
        assert_eq!(claimed(ty::SET_LISTPACK, &[], 120 << 10, much), expected);
        assert_eq!(claimed(ty::HASH_ZIPLIST, &[], 120 << 10, much), expected);
        assert_eq!(claimed(ty::LIST_OF_LISTPACKS, &[1, 2], 120 << 10, much), expected + 1);
        assert_eq!(claimed(ty::LIST_OF_LISTPACKS, &[1, 1], 120 << 10, much), much / UNPACKED_BYTES + 1);
        assert_eq!(claimed(ty::LIST, &[1], 120 << 10, much), much / UNPACKED_BYTES + 1);
        assert!(claimed(ty::HASH_LISTPACK_TTLS, &[0; 8], 120 << 10, u64::MAX) > MOST);
        assert!(claimed(ty::SORTED_SET_TEXTS, &[1], 120 << 10, much) > MOST, "it is not looked into");
        assert!(claimed(ty::STREAM_2, &[1, 1, 0], 120 << 10, much) > MOST);
    }

    #[test]
    fn a_count_that_is_only_claimed_ends_the_walk() {
        let mut body = vec![ty::SET];
        put_length(&mut body, u64::MAX);
        assert_eq!(reading_effort(10, &body, MOST), u64::MAX);
        assert_eq!(reading_effort(10, &[], MOST), 0);
        assert_eq!(reading_effort(10, &[ty::SET], MOST), 0);
        assert_eq!(reading_effort(10, &[ty::SET, 3, 1, b'a', 9], MOST), 3, "it is torn");
    }

    #[test]
    fn a_small_stream_is_little() {
        let stream = StreamBuilder::default().into_stream();
        assert!(effort(&Value::Stream(Box::new(stream))) < 10);
    }
}
