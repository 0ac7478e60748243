//! A message as bytes, of which the large parts are the message's own.

use replica::Bytes;

/// The bytes of one message, in parts. What clients wrote is shared with the log, not copied.
#[derive(Debug, Default)]
pub struct Encoded {
    parts: Vec<Bytes>,
    bytes: usize,
}

impl Encoded {
    pub(super) fn new(parts: Vec<Bytes>) -> Self {
        let bytes = parts.iter().map(Bytes::len).sum();
        Self { parts, bytes }
    }

    /// How many bytes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Adds a piece to `out`: how long the message is and where the piece begins (u32 each), then at most so many bytes.
    /// Answers how many.
    pub fn piece(&self, at: usize, most: usize, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(&(self.bytes as u32).to_le_bytes());
        out.extend_from_slice(&(at as u32).to_le_bytes());
        let (mut skip, mut taken) = (at, 0);
        for part in &self.parts {
            let rest = &part[skip.min(part.len())..];
            skip = skip.saturating_sub(part.len());
            let count = rest.len().min(most - taken);
            out.extend_from_slice(&rest[..count]);
            taken += count;
        }
        taken
    }
}

impl From<Vec<u8>> for Encoded {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(vec![bytes.into()])
    }
}

/// A message whose pieces come in, one after the other.
#[derive(Debug, Default)]
pub struct Pieces {
    bytes: Vec<u8>,
    total: usize,
}

impl Pieces {
    /// How many bytes the message has whose piece came last.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// Takes the next piece of a message that is no longer than `most`; answers the whole message if that was the last.
    pub fn add(&mut self, piece: &[u8], most: usize) -> Result<Option<Bytes>, &'static str> {
        let (head, rest) = piece.split_first_chunk::<8>().ok_or("a piece cut short")?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
        let (total, at) = (number(0), number(4));
        if at == 0 && total <= most {
            // Reserved, not touched: it takes memory as pieces come, and none of them has to be copied again.
            (self.bytes, self.total) = (Vec::with_capacity(total), total);
        }
        if total > most || total != self.total || at != self.bytes.len() || rest.len() > total - at || rest.is_empty() {
            return Err("a piece that does not follow the one before it");
        }
        self.bytes.extend_from_slice(rest);
        let is_whole = self.bytes.len() == total;
        Ok(is_whole.then(|| Bytes::from(std::mem::take(&mut self.bytes))))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn pieces_of_any_length_make_the_message_again() {
        let parts = [&b"head"[..], b"", b"a longer part in the middle", b"end"];
        let encoded = Encoded::new(parts.iter().map(|part| Bytes::from_static(part)).collect());
        let whole = parts.concat();
        assert_eq!(encoded.len(), whole.len());
        for most in 1..=whole.len() + 1 {
            let (mut pieces, mut at) = (Pieces::default(), 0);
            loop {
                let mut piece = Vec::new();
                let taken = encoded.piece(at, most, &mut piece);
                assert_eq!((taken, piece.len()), (most.min(whole.len() - at), taken + 8));
                at += taken;
                match pieces.add(&piece, whole.len()).unwrap() {
                    Some(message) => break assert_eq!(message, whole),
                    None => assert!(at < whole.len()),
                }
            }
        }
    }

    #[test]
    fn pieces_that_do_not_fit_together_are_refused() {
        let encoded = Encoded::from(b"a message".to_vec());
        let piece = |at, most| {
            let mut bytes = Vec::new();
            encoded.piece(at, most, &mut bytes);
            bytes
        };
        let mut pieces = Pieces::default();
        assert!(pieces.add(&piece(0, 5), 8).is_err(), "longer than it may be");
        for (first, second) in [(piece(0, 3), piece(4, 2)), (piece(0, 3), piece(2, 2)), (piece(1, 3), piece(0, 2))] {
            let mut pieces = Pieces::default();
            assert!(pieces.add(&first, 9).and_then(|_| pieces.add(&second, 9)).is_err());
        }
        assert!(pieces.add(&[9, 0, 0, 0, 0, 0, 0], 9).is_err() && pieces.add(&[9, 0, 0, 0, 0, 0, 0, 0], 9).is_err());
        assert!(pieces.add(&[1, 0, 0, 0, 0, 0, 0, 0, 7, 8], 9).is_err(), "more than it says");
        // One that begins anew takes the place of one that was cut off.
        assert_eq!(pieces.add(&piece(0, 3), 9), Ok(None));
        assert_eq!(pieces.add(&piece(0, 9), 9).unwrap().unwrap(), &b"a message"[..]);
    }
}
