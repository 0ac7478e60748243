//! How much memory reading a value may take, whatever its bytes claim.

use crate::Error;

/// What an element costs besides its bytes.
const ELEMENT_BYTES: usize = 32;

/// Bytes that a value may still take.
pub(crate) struct Budget {
    max: usize,
    left: usize,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, left: max }
    }

    /// The next value may take as much as the first.
    pub(crate) fn renew(&mut self) {
        self.left = self.max;
    }

    /// Bytes that may still be taken away.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Bytes that were taken away.
    pub(crate) fn spent(&self) -> usize {
        self.max - self.left
    }

    /// Takes `bytes` away.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<(), Error> {
        self.left = self.left.checked_sub(bytes).ok_or(Error::TooLarge(self.max))?;
        Ok(())
    }

    /// Whether an element of so many bytes can be taken away.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        bytes.saturating_add(ELEMENT_BYTES as u64) <= self.left as u64
    }

    /// Takes away what an element of so many bytes costs.
    pub(crate) fn count_element(&mut self, bytes: usize) -> Result<(), Error> {
        self.count(bytes.saturating_add(ELEMENT_BYTES))
    }
}
