//! Bytes for a device: in memory where it wants them to begin, in units of which it takes whole ones.

/// Files are written past the page cache in units of this many bytes: of as many as any device asks for.
pub const UNIT: usize = 4096;

/// Bytes that begin in memory where a device wants them to, and have zeros after them up to the end of a unit.
#[derive(Default)]
pub struct UnitBuffer {
    memory: Vec<u8>,
    /// Where in it they begin.
    start: usize,
    length: usize,
}

impl UnitBuffer {
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
        (self.memory, self.start) = (memory, start);
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
