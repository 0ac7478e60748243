//! A string, on the plain model.

use std::collections::BTreeMap;

/// What a string is to the model: most of its bytes are zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text {
    length: usize,
    /// Those that are not zeros, by their places.
    bytes: BTreeMap<usize, u8>,
}

impl Text {
    /// How many bytes it has.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// The byte at a place.
    #[must_use]
    pub fn byte(&self, at: usize) -> u8 {
        self.bytes.get(&at).copied().unwrap_or(0)
    }

    /// Writes bytes from a place on.
    pub fn write(&mut self, from: usize, bytes: &[u8]) {
        for (at, byte) in (from..).zip(bytes) {
            match byte {
                0 => _ = self.bytes.remove(&at),
                byte => _ = self.bytes.insert(at, *byte),
            }
        }
        self.length = self.length.max(from + bytes.len());
    }

    /// The bytes between two places.
    #[must_use]
    pub fn part(&self, from: usize, until: usize) -> Vec<u8> {
        let mut part = vec![0; until - from];
        self.bytes.range(from..until).for_each(|(at, byte)| part[at - from] = *byte);
        part
    }

    /// How many of its bits are set.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.bytes.values().map(|byte| byte.count_ones() as usize).sum()
    }
}
