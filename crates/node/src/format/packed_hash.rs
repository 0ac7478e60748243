//! The payload of a small hash: all fields and values in one run of bytes, in the order in which they were first set.
//!
//! ```text
//! varint           count
//! count times:
//!   varint, bytes  length of the field, field
//!   varint, bytes  length of the value, value
//! ```
//! Varints are LEB128 in their shortest form, so that one content has one encoding. No field stands twice.

use std::fmt;
use vocab::Reader;

/// Why bytes are not a packed hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A length in its encoded form.
#[derive(Clone, Copy)]
pub(crate) struct Varint {
    bytes: [u8; Self::BYTES_MAX],
    length: u8,
}

impl Varint {
    const BYTES_MAX: usize = 10;

    pub(crate) fn new(n: usize) -> Self {
        let mut bytes = [0; Self::BYTES_MAX];
        let mut rest = n as u64;
        let mut length = 0;
        while rest >= 0x80 {
            bytes[length] = rest as u8 | 0x80;
            rest >>= 7;
            length += 1;
        }
        bytes[length] = rest as u8;
        Self { bytes, length: length as u8 + 1 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A packed hash as it lies in its payload.
#[derive(Clone, Copy)]
pub(crate) struct Packed<'a> {
    payload: &'a [u8],
    count: usize,
    /// Where the first field begins.
    body: usize,
}

/// A field and its value.
pub(crate) type Entry<'a> = (&'a [u8], &'a [u8]);

/// Where in a payload a field's value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldPlace {
    /// First byte of the field's length.
    pub(crate) start: usize,
    /// First byte of the value's length.
    pub(crate) value_length: usize,
    /// First byte of the value.
    pub(crate) value: usize,
    /// First byte after the value.
    pub(crate) end: usize,
}

impl<'a> Packed<'a> {
    /// Reads the count. What follows is checked as it is walked.
    pub(crate) fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut at = 0;
        let count = varint(payload, &mut at)?;
        if count > (payload.len() - at) / 2 {
            return Err(Malformed("hash with more fields than bytes"));
        }
        Ok(Self { payload, count, body: at })
    }

    /// How many fields there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The encoded fields and values, without the count before them.
    pub(crate) fn body(&self) -> &'a [u8] {
        &self.payload[self.body..]
    }

    /// The fields and values in order; an error is the last item.
    pub(crate) fn entries(&self) -> Entries<'a> {
        Entries { payload: self.payload, at: self.body, left: self.count }
    }

    /// The value of `field`.
    pub(crate) fn get(&self, field: &[u8]) -> Result<Option<&'a [u8]>, Malformed> {
        Ok(self.find(field)?.map(|place| &self.payload[place.value..place.end]))
    }

    /// Where `field` lies.
    pub(crate) fn find(&self, field: &[u8]) -> Result<Option<FieldPlace>, Malformed> {
        let mut at = self.body;
        for _ in 0..self.count {
            let start = at;
            let name = blob(self.payload, &mut at)?;
            let value_length = at;
            let value = blob(self.payload, &mut at)?;
            if name == field {
                return Ok(Some(FieldPlace { start, value_length, value: at - value.len(), end: at }));
            }
        }
        Ok(None)
    }
}

/// The fields and values of a packed hash.
pub(crate) struct Entries<'a> {
    payload: &'a [u8],
    at: usize,
    left: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let rest = self.payload.len() - self.at;
            self.at = self.payload.len();
            return (rest > 0).then_some(Err(Malformed("bytes after the last field of a hash")));
        }
        self.left -= 1;
        let pair = blob(self.payload, &mut self.at)
            .and_then(|field| blob(self.payload, &mut self.at).map(|value| (field, value)));
        if pair.is_err() {
            (self.at, self.left) = (self.payload.len(), 0);
        }
        Some(pair)
    }
}

/// All fields and values of a payload; the error says what is malformed.
pub(crate) fn fields_of(payload: &[u8]) -> Result<Vec<Entry<'_>>, String> {
    Packed::parse(payload).and_then(|packed| packed.entries().collect()).map_err(|why| why.to_string())
}

/// How many bytes one field and its value take.
pub(crate) fn entry_bytes(field: &[u8], value: &[u8]) -> usize {
    Varint::new(field.len()).bytes().len() + field.len() + Varint::new(value.len()).bytes().len() + value.len()
}

/// Appends one field and its value.
pub(crate) fn push_entry(out: &mut Vec<u8>, field: &[u8], value: &[u8]) {
    for part in [field, value] {
        out.extend_from_slice(Varint::new(part.len()).bytes());
        out.extend_from_slice(part);
    }
}

fn blob<'a>(bytes: &'a [u8], at: &mut usize) -> Result<&'a [u8], Malformed> {
    let length = varint(bytes, at)?;
    let found = bytes[*at..].get(..length).ok_or(Malformed("field or value of a hash cut short"))?;
    *at += length;
    Ok(found)
}

fn varint(bytes: &[u8], at: &mut usize) -> Result<usize, Malformed> {
    let mut reader = Reader::new(&bytes[*at..]);
    let number = reader.number().map_err(|why| {
        Malformed(match why {
            vocab::Malformed::NotShortest => "length in a hash not in its shortest form",
            vocab::Malformed::TooLarge => "length in a hash too large",
            _ => "length in a hash cut short",
        })
    })?;
    *at = bytes.len() - reader.left();
    Ok(number)
}

/// For fuzzing: any bytes are refused or survive decoding and encoding unchanged. Panics where they do not.
pub fn fuzz_packed(data: &[u8]) {
    let Ok(packed) = Packed::parse(data) else { return };
    let Ok(entries) = packed.entries().collect::<Result<Vec<_>, _>>() else { return };
    assert_eq!(entries.len(), packed.count());
    let mut again = Varint::new(entries.len()).bytes().to_vec();
    for (field, value) in &entries {
        let place = packed.find(field).expect("the walk found no fault").expect("the walk found it");
        let first = entries.iter().find(|(name, _)| name == field).expect("it is one of them");
        assert_eq!(&data[place.value..place.end], first.1);
        push_entry(&mut again, field, value);
    }
    assert_eq!(again, data);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::fuzz;

    fn pack(entries: &[Entry<'_>]) -> Vec<u8> {
        let mut out = Varint::new(entries.len()).bytes().to_vec();
        entries.iter().for_each(|(field, value)| push_entry(&mut out, field, value));
        out
    }

    #[test]
    fn what_is_packed_is_found() {
        let long = vec![7; 300];
        let entries: [Entry<'_>; 4] = [(b"b", b"1"), (b"", b"empty"), (b"a", b""), (&long, &long)];
        let payload = pack(&entries);
        let packed = Packed::parse(&payload).unwrap();
        assert_eq!(packed.count(), 4);
        assert_eq!(packed.entries().collect::<Result<Vec<_>, _>>().unwrap(), entries);
        for (field, value) in entries {
            assert_eq!(packed.get(field).unwrap(), Some(value));
            let place = packed.find(field).unwrap().unwrap();
            assert_eq!(place.end - place.start, entry_bytes(field, value));
            assert_eq!(Varint::new(value.len()).bytes(), &payload[place.value_length..place.value]);
        }
        assert_eq!(packed.get(b"c").unwrap(), None);
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let table: [(&[u8], &str); 8] = [
            (b"", "length in a hash cut short"),
            (b"\x80", "length in a hash cut short"),
            (b"\x02\x00\x00", "hash with more fields than bytes"),
            (b"\x01\x01a", "length in a hash cut short"),
            (b"\x01\x01a\x02b", "field or value of a hash cut short"),
            (b"\x00x", "bytes after the last field of a hash"),
            (b"\x80\x00", "length in a hash not in its shortest form"),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "length in a hash too large"),
        ];
        for (payload, expected) in table {
            let found = Packed::parse(payload).and_then(|p| p.entries().collect::<Result<Vec<_>, _>>());
            assert_eq!(found, Err(Malformed(expected)), "{}", payload.escape_ascii());
        }
    }

    #[test]
    fn fuzz_mutated_hashes() {
        fuzz::rounds(1, |prng| {
            let fields: Vec<Vec<u8>> = (0..prng.below(6)).map(|i| vec![i as u8; prng.below(200) as usize]).collect();
            let mut data = pack(&fields.iter().map(|f| (&f[..], &f[..])).collect::<Vec<_>>());
            fuzz_packed(&data);
            fuzz::mutate(&mut data, 4, prng);
            fuzz_packed(&data);
        });
    }
}
