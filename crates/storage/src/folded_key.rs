//! Keys as rows in memory have them: of what all keys of a database begin with, only the tag of its slot. So a key of usual length
//! needs no allocation of its own, and a look at a row is one look at memory.
//!
//! Invariant: two folded keys are equal, or one is less than the other, as the whole keys are.

use crate::Slice;
use std::cmp::Ordering;
use vocab::{DATABASE_PREFIX_BYTES, DATABASE_TAG_BYTES, prefix_of_tag, split_tag};

/// The tag of a database's slot, as its stored keys have it.
pub(crate) type Tag = [u8; DATABASE_TAG_BYTES];

/// A key that is not longer is put together without an allocation beside its own, in bytes.
const SHORT_BYTES: usize = 64;

/// The tag of a key that is kept whole.
pub(crate) const NO_TAG: Tag = [0; DATABASE_TAG_BYTES];

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoldedKey<'a> {
    /// What a tree key begins with, before the prefix of a database; 0 of a key that is kept whole.
    pub(crate) first: u8,
    /// `NO_TAG`: the key is kept whole.
    pub(crate) tag: Tag,
    /// What follows.
    pub(crate) rest: &'a [u8],
}

impl<'a> FoldedKey<'a> {
    /// A tree key: one byte says what it is for, before the name.
    #[inline]
    pub(crate) fn of_tree_key(key: &'a [u8]) -> Self {
        let split = key.split_first().and_then(|(first, name)| Some((*first, split_tag(name)?)));
        let whole = Self { first: 0, tag: NO_TAG, rest: key };
        split.map_or(whole, |(first, (tag, rest))| Self { first, tag, rest })
    }

    /// A name, with nothing before it.
    #[inline]
    pub(crate) fn of_name(name: &'a [u8]) -> Self {
        let (tag, rest) = split_tag(name).unwrap_or((NO_TAG, name));
        Self { first: 0, tag, rest }
    }

    /// What comes before the rest of a tree key.
    fn head(&self) -> ([u8; 1 + DATABASE_PREFIX_BYTES], usize) {
        let mut head = [0; 1 + DATABASE_PREFIX_BYTES];
        if self.tag == NO_TAG {
            return (head, 0);
        }
        head[0] = self.first;
        head[1..].copy_from_slice(&prefix_of_tag(self.tag));
        (head, head.len())
    }

    /// The whole tree key.
    pub(crate) fn to_tree_key(self) -> Slice {
        match self.head() {
            (_, 0) => Slice::from(self.rest),
            (head, length) if length + self.rest.len() <= SHORT_BYTES => {
                let mut whole = [0; SHORT_BYTES];
                whole[..length].copy_from_slice(&head);
                whole[length..length + self.rest.len()].copy_from_slice(self.rest);
                Slice::from(&whole[..length + self.rest.len()])
            }
            (head, _) => Slice::from([&head, self.rest].concat()),
        }
    }

    /// Bytes of the whole tree key, from `from` on; zeros behind its end.
    pub(crate) fn window<const N: usize>(self, from: usize) -> [u8; N] {
        let mut window = [0; N];
        let (head, length) = self.head();
        let of_head = head[..length].get(from..).unwrap_or_default();
        let of_head = &of_head[..of_head.len().min(N)];
        window[..of_head.len()].copy_from_slice(of_head);
        let of_rest = self.rest.get(from.saturating_sub(length)..).unwrap_or_default();
        let space = &mut window[of_head.len()..];
        let taken = of_rest.len().min(space.len());
        space[..taken].copy_from_slice(&of_rest[..taken]);
        window
    }

    /// Where the whole tree key lies from another one.
    pub(crate) fn cmp_tree_key(&self, other: &Self) -> Ordering {
        if (self.first, self.tag) == (other.first, other.tag) {
            return self.rest.cmp(other.rest);
        }
        let ((head, length), (other_head, other_length)) = (self.head(), other.head());
        head[..length].iter().chain(self.rest).cmp(other_head[..other_length].iter().chain(other.rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Database;

    /// Tree keys that are alike: of two databases, of none, and such as only begin so.
    fn keys() -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> =
            [&b""[..], b"r", b"x", b"rkey", b"r\xff", b"r\xff\0\xfed\xfe{", b"r\xff\xff"].map(Vec::from).into();
        for number in [0, 1, 9] {
            let prefix = Database::of_number(number).map(Database::prefix).unwrap_or_default();
            for name in [&b""[..], b"a", b"a\0", b"key:000000012345", b"key:000000012346", &[b'k'; 70]] {
                keys.push([b"r", &prefix[..], name].concat());
                keys.push([b"x", &prefix[..9], name].concat());
                keys.push([b"x", &prefix[..], name].concat());
            }
        }
        keys
    }

    #[test]
    fn folded_keys_are_as_the_whole_ones() {
        for a in keys() {
            let folded = FoldedKey::of_tree_key(&a);
            assert_eq!(folded.to_tree_key()[..], a[..]);
            for from in [0, 3, 11, 12, 16, 32, 100] {
                let mut expected = [0; 16];
                let rest = a.get(from..).unwrap_or_default();
                let length = rest.len().min(16);
                expected[..length].copy_from_slice(&rest[..length]);
                assert_eq!(folded.window(from), expected, "{a:?} from {from}");
            }
            for b in keys() {
                let other = FoldedKey::of_tree_key(&b);
                assert_eq!((folded.cmp_tree_key(&other), folded == other), (a.cmp(&b), a == b), "{a:?} {b:?}");
                assert_eq!(FoldedKey::of_name(&a) == FoldedKey::of_name(&b), a == b, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn what_databases_have_in_common_is_not_kept() {
        let stored = [&Database::default().prefix()[..], b"key:000000012345"].concat();
        assert_eq!(FoldedKey::of_name(&stored).rest, b"key:000000012345");
        assert_eq!(FoldedKey::of_tree_key(&[b"r", &stored[..]].concat()).rest, b"key:000000012345");
    }
}
