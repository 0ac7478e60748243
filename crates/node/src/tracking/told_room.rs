//! How much a step may still tell clients of what entries have changed.

/// What is left of a step: what it tells is counted, and its bytes once for each client that is told. The step ends when one of both is used
/// up: it is too long by what it told last, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldRoom {
    count: usize,
    bytes: usize,
}

impl ToldRoom {
    /// That of a step that has told nothing.
    #[must_use]
    pub fn new(count: usize, bytes: usize) -> Self {
        Self { count, bytes }
    }

    /// How much more it may tell.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes that it has left.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the step tells no more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.count == 0 || self.bytes == 0
    }

    /// One more is told, of so many bytes for all clients together.
    pub fn take(&mut self, bytes: usize) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_ends_by_its_count_and_by_its_bytes() {
        for (count, bytes, each, expected) in [(3, 100, 0, 3), (3, 100, 10, 3), (9, 100, 40, 3), (9, 100, 1000, 1)] {
            let mut room = ToldRoom::new(count, bytes);
            let mut told = 0;
            while !room.is_over() {
                room.take(each);
                told += 1;
            }
            assert_eq!(told, expected, "{count} of {bytes} bytes, {each} each");
        }
    }
}
