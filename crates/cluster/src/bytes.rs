//! Numbers and bytes of the map's layouts. One value has one encoding, so that equal maps are equal bytes.

use vocab::{SLOT_COUNT, put_varint};

pub(crate) type Result<T> = std::result::Result<T, &'static str>;

pub(crate) fn put_bytes(bytes: &mut Vec<u8>, part: &[u8]) {
    put_varint(bytes, part.len() as u64);
    bytes.extend_from_slice(part);
}

/// Ranges of slots, first and last, that rise with gaps between them.
pub(crate) fn put_slots(bytes: &mut Vec<u8>, slots: &[(u16, u16)]) {
    put_varint(bytes, slots.len() as u64);
    let mut next = 0;
    for &(first, last) in slots {
        put_varint(bytes, u64::from(first - next));
        put_varint(bytes, u64::from(last - first));
        next = last + 1;
    }
}

/// Takes a layout apart, from its beginning.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (part, rest) = self.bytes.split_at_checked(count).ok_or("cut short")?;
        self.bytes = rest;
        Ok(part)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("8 bytes")))
    }

    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for (i, &byte) in self.bytes.iter().take(10).enumerate() {
            if i == 9 && byte > 1 {
                return Err("a number is too large");
            }
            value |= u64::from(byte & 0x7F) << (7 * i);
            if byte & 0x80 == 0 {
                if byte == 0 && i > 0 {
                    return Err("a number is not in its shortest form");
                }
                self.bytes = &self.bytes[i + 1..];
                return Ok(value);
            }
        }
        Err("a number is cut short")
    }

    /// A number of at most `max`.
    pub(crate) fn bounded(&mut self, max: u64) -> Result<u64> {
        let value = self.varint()?;
        if value > max { Err("a number is out of its range") } else { Ok(value) }
    }

    /// How many things of at least `bytes_each` follow, at most `max`: no more memory is taken than there are bytes.
    pub(crate) fn count(&mut self, max: usize, bytes_each: usize) -> Result<usize> {
        let count = self.bounded(max as u64)? as usize;
        if count > self.bytes.len() / bytes_each { Err("a count is larger than what follows") } else { Ok(count) }
    }

    pub(crate) fn text(&mut self, bytes_max: usize) -> Result<String> {
        let length = self.count(bytes_max, 1)?;
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| "a text is not UTF-8")?;
        Ok(text.to_owned())
    }

    /// What [`put_slots`] wrote.
    pub(crate) fn slots(&mut self) -> Result<Vec<(u16, u16)>> {
        let count = self.count(usize::from(SLOT_COUNT), 2)?;
        let mut slots = Vec::with_capacity(count);
        let mut next = 0;
        for _ in 0..count {
            let first = next + self.bounded(u64::from(SLOT_COUNT))?;
            let last = first + self.bounded(u64::from(SLOT_COUNT))?;
            if last >= u64::from(SLOT_COUNT) {
                return Err("a range of slots is too large");
            }
            slots.push((first as u16, last as u16));
            next = last + 1;
        }
        Ok(slots)
    }

    pub(crate) fn end(&self) -> Result<()> {
        if self.bytes.is_empty() { Ok(()) } else { Err("something follows its end") }
    }
}
