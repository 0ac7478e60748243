//! A list of strings and numbers in one string (`listpack.c`): its length in 4 bytes, the number of elements in 2, the elements,
//! then 255. Behind each element stands how long it is, so that the list can be read from either end.

use super::{array, bytes, int24};
use crate::Error;
use crate::budget::Budget;

const HEAD_BYTES: usize = 6;
const END: u8 = 255;
/// The number of elements that says that there are at least so many.
const MANY: u16 = u16::MAX;

/// An element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Element {
    String(Vec<u8>),
    Number(i64),
}

impl Element {
    pub(crate) fn into_string(self) -> Vec<u8> {
        match self {
            Self::String(string) => string,
            Self::Number(number) => number.to_string().into_bytes(),
        }
    }

    /// The number that it is, as it is or as a text.
    pub(crate) fn number(&self) -> Result<i64, Error> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::String(text) => {
                let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                number.ok_or(Error::Corrupt("string where a number should be"))
            }
        }
    }
}

/// The elements; numbers as texts.
pub(crate) fn strings(packed: &[u8], budget: &mut Budget) -> Result<Vec<Vec<u8>>, Error> {
    Ok(elements(packed, budget)?.into_iter().map(Element::into_string).collect())
}

/// The elements.
pub(crate) fn elements(packed: &[u8], budget: &mut Budget) -> Result<Vec<Element>, Error> {
    let mut rest = packed;
    let (length, count) = (u32::from_le_bytes(array(&mut rest)?), u16::from_le_bytes(array(&mut rest)?));
    if length as usize != packed.len() {
        return Err(Error::Corrupt("length of a packed list"));
    }
    let mut elements = Vec::new();
    while rest.first() != Some(&END) {
        let before = rest.len();
        elements.push(element(&mut rest)?);
        let read = before - rest.len();
        budget.count_element(read)?;
        bytes(&mut rest, back_bytes(read))?;
    }
    if rest.len() != 1 || (count != MANY && usize::from(count) != elements.len()) {
        return Err(Error::Corrupt("number of elements of a packed list"));
    }
    Ok(elements)
}

fn element(rest: &mut &[u8]) -> Result<Element, Error> {
    let [first] = array(rest)?;
    let string = |rest: &mut &[u8], length| Ok(Element::String(bytes(rest, length)?.to_vec()));
    let number: i64 = match first {
        0x00..=0x7f => first.into(),
        0x80..=0xbf => return string(rest, usize::from(first & 0x3f)),
        0xc0..=0xdf => {
            let low = array::<1>(rest)?[0];
            // 13 bits with a sign.
            i64::from((i16::from_be_bytes([first & 0x1f, low]) << 3) >> 3)
        }
        0xe0..=0xef => {
            let low = array::<1>(rest)?[0];
            return string(rest, usize::from(first & 0x0f) << 8 | usize::from(low));
        }
        0xf0 => {
            let length = u32::from_le_bytes(array(rest)?) as usize;
            return string(rest, length);
        }
        0xf1 => i16::from_le_bytes(array(rest)?).into(),
        0xf2 => int24(array(rest)?),
        0xf3 => i32::from_le_bytes(array(rest)?).into(),
        0xf4 => i64::from_le_bytes(array(rest)?),
        _ => return Err(Error::Unknown("encoding of an element", first.into())),
    };
    Ok(Element::Number(number))
}

/// How many bytes tell an element's length behind it: seven bits a byte.
fn back_bytes(element_bytes: usize) -> usize {
    match element_bytes {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}

/// Writes a packed list.
pub(crate) struct Builder {
    bytes: Vec<u8>,
    count: usize,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; HEAD_BYTES], count: 0 }
    }

    pub(crate) fn push_string(&mut self, string: &[u8]) {
        let from = self.bytes.len();
        match string.len() {
            length @ 0..=63 => self.bytes.push(0x80 | length as u8),
            length @ 64..=4095 => self.bytes.extend_from_slice(&[0xe0 | (length >> 8) as u8, length as u8]),
            length => {
                self.bytes.push(0xf0);
                self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(string);
        self.end_element(from);
    }

    pub(crate) fn push_number(&mut self, number: i64) {
        let from = self.bytes.len();
        if let 0..=127 = number {
            self.bytes.push(number as u8);
        } else if let -4096..=4095 = number {
            let bits = (number as u16) & 0x1fff;
            self.bytes.extend_from_slice(&[0xc0 | (bits >> 8) as u8, bits as u8]);
        } else if let Ok(number) = i16::try_from(number) {
            self.bytes.push(0xf1);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        } else if let -8_388_608..=8_388_607 = number {
            self.bytes.push(0xf2);
            self.bytes.extend_from_slice(&number.to_le_bytes()[..3]);
        } else if let Ok(number) = i32::try_from(number) {
            self.bytes.push(0xf3);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        } else {
            self.bytes.push(0xf4);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.end_element(from);
    }

    /// Writes behind an element how long it is.
    fn end_element(&mut self, from: usize) {
        let length = self.bytes.len() - from;
        let bytes = back_bytes(length);
        for n in (0..bytes).rev() {
            // All but the first byte, which is read last, say that there is one more before.
            let goes_on = if n + 1 < bytes { 0x80 } else { 0 };
            self.bytes.push((length >> (7 * n) & 0x7f) as u8 | goes_on);
        }
        self.count += 1;
    }

    /// The list. It is shorter than 4 GiB: a stream's node is closed long before.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let length = (self.bytes.len() as u32).to_le_bytes();
        let count = u16::try_from(self.count).unwrap_or(MANY).to_le_bytes();
        self.bytes[..4].copy_from_slice(&length);
        self.bytes[4..HEAD_BYTES].copy_from_slice(&count);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_built_is_read() {
        let numbers = [
            0,
            127,
            128,
            -1,
            4095,
            -4096,
            4096,
            32_767,
            -32_768,
            32_768,
            8_388_607,
            -8_388_608,
            8_388_608,
            1 << 31,
            i64::MIN,
            i64::MAX,
        ];
        let lengths = [0, 1, 63, 64, 120, 127, 128, 4095, 4096, 16_380, 16_390, 2_097_200];
        let mut builder = Builder::new();
        let mut expected = Vec::new();
        for number in numbers {
            builder.push_number(number);
            expected.push(Element::Number(number));
        }
        for length in lengths {
            builder.push_string(&vec![b'x'; length]);
            expected.push(Element::String(vec![b'x'; length]));
        }
        assert!(elements(&builder.finish(), &mut Budget::new(1 << 24)).unwrap() == expected);
    }
}
