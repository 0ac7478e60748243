//! Memory that begins where a device wants it to: of a huge page, or of the heap.

use crate::huge_page::Piece;
use std::ops::{Deref, DerefMut};

/// A device transfers to and from memory that begins at a multiple of this.
pub(crate) const ALIGN: usize = 4096;

/// So many bytes of it, zeros at first or what was there before.
pub(crate) enum Memory {
    /// Its pages lie side by side: one piece to the device.
    Piece(Piece),
    /// They begin at `start`, and are all but `ALIGN` of `bytes`.
    Own { bytes: Vec<u8>, start: usize },
}

impl Memory {
    /// Of the heap.
    pub(crate) fn of(bytes: usize) -> Self {
        let bytes = vec![0; bytes + ALIGN];
        let start = bytes.as_ptr().align_offset(ALIGN);
        Self::Own { bytes, start }
    }

    /// Where the kernel is to write, while no reference to the bytes exists.
    pub(crate) fn target(&mut self) -> *mut u8 {
        match self {
            Self::Piece(piece) => piece.target(),
            Self::Own { bytes, start } => bytes[*start..].as_mut_ptr(),
        }
    }
}

/// None.
impl Default for Memory {
    fn default() -> Self {
        Self::Own { bytes: Vec::new(), start: 0 }
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Piece(piece) => piece,
            Self::Own { bytes, start } => &bytes[*start..][..bytes.len().saturating_sub(ALIGN)],
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Piece(piece) => piece,
            Self::Own { bytes, start } => {
                let length = bytes.len().saturating_sub(ALIGN);
                &mut bytes[*start..][..length]
            }
        }
    }
}
