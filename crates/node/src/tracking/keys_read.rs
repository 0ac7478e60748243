//! The keys that a script has read.

use std::collections::BTreeSet;
use vocab::limits::ENTRY_TOLD_BYTES_MAX;

/// The keys that a script has read which writes nothing, each once.
#[derive(Debug, Default)]
pub struct KeysRead {
    keys: BTreeSet<Vec<u8>>,
    bytes: usize,
}

impl KeysRead {
    /// A key is read.
    pub(crate) fn note(&mut self, key: &[u8]) {
        if !self.are_too_many() && !self.keys.contains(key) {
            self.bytes += 64 + key.len();
            self.keys.insert(key.to_vec());
        }
    }

    /// Whether they are not all known: they take too much memory.
    #[must_use]
    pub fn are_too_many(&self) -> bool {
        self.bytes > ENTRY_TOLD_BYTES_MAX
    }

    /// The keys that are known.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(Vec::as_slice)
    }

    /// Whether all of them, and all that there are, are among `others`.
    #[must_use]
    pub fn are_among(&self, others: &Self) -> bool {
        !self.are_too_many() && self.keys.is_subset(&others.keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_once_each_as_long_as_they_are_few() {
        let of = |keys: &[&[u8]]| {
            let mut reads = KeysRead::default();
            keys.iter().for_each(|key| reads.note(key));
            reads
        };
        let long = vec![b'k'; ENTRY_TOLD_BYTES_MAX];
        let two = of(&[b"b", b"a", b"b"]);
        assert!(two.iter().eq([b"a", b"b"]) && !two.are_too_many());
        for (keys, expected) in [(&[][..], true), (&[&b"a"[..]], true), (&[b"a", b"c"], false), (&[b"a", &long], false)]
        {
            assert_eq!(of(keys).are_among(&two), expected, "{}", keys.len());
        }
        let too_many = of(&[&long, b"a"]);
        assert!(too_many.are_too_many() && !too_many.are_among(&too_many));
    }
}
