//! Bytes for a device: in memory where it wants them to begin, in units of which it takes whole ones.

use crate::huge_page::Piece;
use std::ops::{Deref, DerefMut};

/// Files are written past the page cache in units of this many bytes: of as many as any device asks for.
pub const UNIT: usize = 4096;

/// Bytes that begin in memory where a device wants them to, and have zeros after them up to the end of a unit.
#[derive(Default)]
pub struct UnitBuffer {
    memory: Memory,
    /// Where in it they begin.
    start: usize,
    length: usize,
}

enum Memory {
    Heap(Vec<u8>),
    /// Whose pages lie side by side: the device is told of one piece.
    Huge(Piece),
}

impl UnitBuffer {
    /// An empty one that lies in `piece`, until it has more bytes than that.
    #[must_use]
    pub fn within(piece: Piece) -> Self {
        Self { memory: Memory::Huge(piece), start: 0, length: 0 }
    }

    /// Adds bytes at the end.
    pub fn extend(&mut self, bytes: &[u8]) {
        let length = self.length + bytes.len();
        if self.memory.len() < self.start + length.next_multiple_of(UNIT) {
            self.grow(length.next_multiple_of(UNIT).max(2 * self.memory.len()));
        }
        self.memory[self.start + self.length..self.start + length].copy_from_slice(bytes);
        self.length = length;
        let end = self.start + length.next_multiple_of(UNIT);
        self.memory[self.start + length..end].fill(0);
    }

    fn grow(&mut self, room: usize) {
        let mut memory = vec![0; room + UNIT];
        let start = memory.as_ptr().align_offset(UNIT);
        memory[start..start + self.length].copy_from_slice(self.all());
        (self.memory, self.start) = (Memory::Heap(memory), start);
    }

    /// The bytes.
    #[must_use]
    pub fn all(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    /// The same, to be changed.
    pub fn all_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }

    /// With the zeros after them.
    #[must_use]
    pub fn units(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length.next_multiple_of(UNIT)]
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn room(&self) -> usize {
        self.memory.len()
    }

    /// Keeps no more than the first `length` bytes, and the memory.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::Heap(Vec::new())
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Huge(piece) => piece,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Huge(piece) => piece,
        }
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
