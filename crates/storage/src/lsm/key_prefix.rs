//! The beginnings of keys, by which most keys can be told apart without a look at the rest.

/// How many bytes are looked at.
pub(super) const KEY_PREFIX_BYTES: usize = 16;

/// The first bytes of a key, zeros after a shorter one: where two differ, they are as their keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyPrefix([u64; 2]);

impl KeyPrefix {
    pub(super) fn of(key: &[u8]) -> Self {
        let mut bytes = [0; KEY_PREFIX_BYTES];
        let length = key.len().min(bytes.len());
        bytes[..length].copy_from_slice(&key[..length]);
        Self::of_bytes(bytes)
    }

    /// The prefix that consists of these bytes.
    pub(super) fn of_bytes(bytes: [u8; KEY_PREFIX_BYTES]) -> Self {
        let whole = u128::from_be_bytes(bytes);
        Self([(whole >> 64) as u64, whole as u64])
    }
}

#[cfg(test)]
mod tests {
    use super::KeyPrefix;

    #[test]
    fn heads_that_differ_are_as_their_keys() {
        let long = [7; 40];
        let keys: [&[u8]; 9] = [b"", b"\0", b"\0\0b", b"a", b"a\0", b"ab", &long[..16], &long[..17], b"\xFF"];
        for a in keys {
            for b in keys {
                let (heads, order) = (KeyPrefix::of(a).cmp(&KeyPrefix::of(b)), a.cmp(b));
                assert!(heads == order || heads.is_eq(), "{a:?} {b:?}");
            }
        }
        assert!(KeyPrefix::of(b"a") < KeyPrefix::of(b"ab"));
    }
}
