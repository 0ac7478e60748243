//! Numbers and lists out of a peer message's bytes, whatever these are.

/// What is left to read.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, &'static str> {
        let (&byte, rest) = self.bytes.split_first().ok_or("a peer message cut short")?;
        self.bytes = rest;
        Ok(byte)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0u64;
        for (i, &byte) in self.bytes.iter().take(10).enumerate() {
            if i == 9 && byte > 1 {
                return Err("a number too large in a peer message");
            }
            value |= u64::from(byte & 0x7F) << (7 * i);
            if byte & 0x80 == 0 {
                self.bytes = &self.bytes[i + 1..];
                return Ok(value);
            }
        }
        Err("a number cut short in a peer message")
    }

    pub(crate) fn narrow(&mut self) -> Result<u32, &'static str> {
        u32::try_from(self.varint()?).map_err(|_| "a number too large in a peer message")
    }

    /// The number of things that follow, each of which takes at least `bytes_min` bytes.
    pub(crate) fn count(&mut self, bytes_min: usize) -> Result<usize, &'static str> {
        let count = self.varint()?;
        if count > (self.bytes.len() / bytes_min) as u64 {
            return Err("a count too large in a peer message");
        }
        Ok(count as usize)
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    pub(crate) fn end(&self) -> Result<(), &'static str> {
        if self.bytes.is_empty() { Ok(()) } else { Err("more bytes in a peer message than it has room for") }
    }
}
