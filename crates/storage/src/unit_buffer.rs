//! Bytes for a device: in memory where it wants them to begin, in units of which it takes whole ones.

use crate::aligned::{ALIGN, Memory};
use crate::huge_page::Piece;

/// Files are written past the page cache in units of this many bytes: of as many as any device asks for.
pub const UNIT: usize = 4096;

/// Bytes that begin in memory where a device wants them to, and have zeros after them up to the end of a unit.
#[derive(Default)]
pub struct UnitBuffer {
    memory: Memory,
    length: usize,
}

impl UnitBuffer {
    /// An empty one that lies in `piece`, until it has more bytes than that.
    #[must_use]
    pub fn within(piece: Piece) -> Self {
        Self { memory: Memory::Piece(piece), length: 0 }
    }

    /// Adds bytes at the end.
    pub fn extend(&mut self, bytes: &[u8]) {
        let length = self.length + bytes.len();
        if self.memory.len() < length.next_multiple_of(UNIT) {
            self.grow(length.next_multiple_of(UNIT).max(2 * self.memory.len()));
        }
        self.memory[self.length..length].copy_from_slice(bytes);
        self.length = length;
        let end = length.next_multiple_of(UNIT);
        self.memory[length..end].fill(0);
    }

    fn grow(&mut self, room: usize) {
        let mut memory = Memory::of(room);
        memory[..self.length].copy_from_slice(self.all());
        self.memory = memory;
    }

    /// The bytes.
    #[must_use]
    pub fn all(&self) -> &[u8] {
        &self.memory[..self.length]
    }

    /// The same, to be changed.
    pub fn all_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.length]
    }

    /// With the zeros after them.
    #[must_use]
    pub fn units(&self) -> &[u8] {
        &self.memory[..self.length.next_multiple_of(UNIT)]
    }

    /// Bytes of memory that it takes at the most.
    #[must_use]
    pub fn room(&self) -> usize {
        self.memory.len() + ALIGN
    }

    /// Keeps no more than the first `length` bytes, and the memory.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::huge_page::HugePage;

    /// On the heap, and in a piece until it is outgrown, against a plain copy.
    #[test]
    fn bytes_begin_with_a_unit_and_have_zeros_after_them_wherever_they_are() {
        let page = HugePage::new(4 * UNIT).unwrap();
        for mut buffer in [UnitBuffer::default(), UnitBuffer::within(page.take().unwrap())] {
            let mut expected = Vec::new();
            for (n, length) in (1..).zip([1, UNIT - 1, 5000, 0, 7000, 3 * UNIT, 100_000]) {
                buffer.extend(&vec![n; length]);
                expected.resize(expected.len() + length, n);
                assert!(buffer.all() == expected);
                let (bytes, zeros) = buffer.units().split_at(expected.len());
                assert!(bytes == expected && zeros.len() < UNIT && zeros.iter().all(|byte| *byte == 0));
                assert!(buffer.units().as_ptr().addr().is_multiple_of(UNIT) && buffer.room() >= expected.len());
            }
            buffer.truncate(10);
            buffer.extend(b"end");
            assert_eq!(buffer.units()[..14], *b"\x01\x02\x02\x02\x02\x02\x02\x02\x02\x02end\0");
        }
    }
}
