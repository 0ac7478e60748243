//! Elements that a command holds in memory before it writes the first of them: bounded in number and in bytes.

use super::call::{Error, Outcome};
use vocab::limits::GATHERED_BYTES_MAX;

/// About how many bytes an element takes beside its own.
pub(super) const GATHERED_OVERHEAD_BYTES: usize = 32;

/// Elements, each of a name and a value, in the order in which they came.
///
/// Invariant: there are at most `count_max`, and their bytes are at most `GATHERED_BYTES_MAX`.
pub(super) struct Gathered {
    elements: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    count_max: usize,
    refusal: &'static str,
}

impl Gathered {
    /// Holds nothing yet. With more than `count_max` elements, or too many bytes, `push` answers the error `refusal`.
    pub(super) fn new(count_max: u64, refusal: &'static str) -> Self {
        Self { elements: Vec::new(), bytes: 0, count_max: usize::try_from(count_max).unwrap_or(usize::MAX), refusal }
    }

    /// Adds an element.
    pub(super) fn push(&mut self, name: &[u8], value: &[u8]) -> Outcome {
        self.bytes += name.len() + value.len();
        if self.elements.len() >= self.count_max || self.bytes > GATHERED_BYTES_MAX {
            return Err(Error::from(self.refusal));
        }
        self.elements.push((name.to_vec(), value.to_vec()));
        Ok(())
    }

    /// The number of elements.
    pub(super) fn len(&self) -> usize {
        self.elements.len()
    }

    /// The elements' names and values, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.elements.iter().map(|(name, value)| (&name[..], &value[..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_gathered_up_to_a_number_and_up_to_some_bytes() {
        let mut few = Gathered::new(2, "ERR too many");
        assert!(few.push(b"a", b"1").is_ok() && few.push(b"b", b"").is_ok() && few.push(b"c", b"").is_err());
        assert_eq!((few.len(), few.iter().last()), (2, Some((&b"b"[..], &b""[..]))));
        let half = vec![0; GATHERED_BYTES_MAX / 2];
        let mut long = Gathered::new(u64::MAX, "ERR too long");
        assert!(long.push(&half, b"").is_ok() && long.push(b"", &half).is_ok());
        assert!(matches!(long.push(b"a", b""), Err(Error::Reply(text)) if text == "ERR too long"));
    }
}
