//! Argon2id over a password's digest: an attacker who reads it must compute the hash for each guess.
//!
//! It is over the digest, not the password: `!hash` finds it, and a node that asks another to keep a password sends no password.

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use vocab::limits::{SLOW_HASH_KIB, SLOW_HASH_KIB_MAX, SLOW_HASH_PASSES, SLOW_HASH_PASSES_MAX};

const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
/// Longest text.
const TEXT_BYTES_MAX: usize = 200;

/// `$argon2id$v=19$m=…,t=…,p=1$salt$hash`, the two last in base64 without padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowHash {
    text: String,
    kib: u32,
    passes: u32,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl SlowHash {
    /// The hash of a digest with that salt.
    pub(super) fn new(digest: &[u8; 32], salt: [u8; SALT_BYTES]) -> Option<Self> {
        let (kib, passes) = (SLOW_HASH_KIB, SLOW_HASH_PASSES);
        let hash = computed(digest, &salt, kib, passes)?.to_vec();
        let encode = |bytes: &[u8]| STANDARD_NO_PAD.encode(bytes);
        let text = format!("$argon2id$v=19$m={kib},t={passes},p=1${}${}", encode(&salt), encode(&hash));
        Some(Self { text, kib, passes, salt: salt.to_vec(), hash })
    }

    /// That of no digest. To compare with it takes as long as with another.
    pub(super) fn of_nothing() -> Self {
        let (kib, passes) = (SLOW_HASH_KIB, SLOW_HASH_PASSES);
        Self { text: String::new(), kib, passes, salt: vec![0; SALT_BYTES], hash: vec![0; HASH_BYTES] }
    }

    /// Reads a text; none if it is no such hash, or one that takes too much work.
    pub(super) fn of_text(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= TEXT_BYTES_MAX)?;
        let mut parts = text.strip_prefix("$argon2id$v=19$m=")?.split('$');
        let (costs, salt, hash) = (parts.next()?, parts.next()?, parts.next()?);
        let (kib, rest) = costs.split_once(",t=")?;
        let passes = rest.strip_suffix(",p=1")?;
        let (kib, passes) = (kib.parse().ok()?, passes.parse().ok()?);
        let decode = |text: &str| STANDARD_NO_PAD.decode(text).ok();
        let (salt, hash) = (decode(salt)?, decode(hash)?);
        let fits = (8..=SLOW_HASH_KIB_MAX).contains(&kib)
            && (1..=SLOW_HASH_PASSES_MAX).contains(&passes)
            && (8..=64).contains(&salt.len())
            && hash.len() == HASH_BYTES
            && parts.next().is_none();
        fits.then(|| Self { text: text.to_owned(), kib, passes, salt, hash })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is that of a digest. Takes tens of milliseconds.
    pub(super) fn is_of(&self, digest: &[u8; 32]) -> bool {
        let computed = computed(digest, &self.salt, self.kib, self.passes);
        computed.is_some_and(|computed| vocab::same_secret(&computed, &self.hash))
    }
}

fn computed(digest: &[u8; 32], salt: &[u8], kib: u32, passes: u32) -> Option<[u8; HASH_BYTES]> {
    let params = Params::new(kib, passes, 1, Some(HASH_BYTES)).ok()?;
    let mut hash = [0; HASH_BYTES];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params).hash_password_into(digest, salt, &mut hash).ok()?;
    Some(hash)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn that_of_nothing_costs_what_others_do() {
        let (nothing, other) = (SlowHash::of_nothing(), SlowHash::new(&[7; 32], [1; 16]).unwrap());
        assert!(!nothing.is_of(&[7; 32]) && !nothing.is_of(&[0; 32]));
        assert_eq!((nothing.kib, nothing.passes, nothing.salt.len()), (other.kib, other.passes, other.salt.len()));
    }

    #[test]
    fn a_hash_is_read_as_it_was_written_and_knows_its_digest() {
        let hash = SlowHash::new(&[7; 32], [1; 16]).unwrap();
        let read = SlowHash::of_text(hash.text().as_bytes()).unwrap();
        assert_eq!(read, hash);
        assert!(read.is_of(&[7; 32]) && !read.is_of(&[8; 32]));
        for wrong in [
            hash.text().replace("m=", "m=9"),
            hash.text().replace("t=", "t=99"),
            hash.text().replace("p=1", "p=2"),
            hash.text().replace("argon2id", "argon2i"),
            hash.text()[..hash.text().len() - 2].to_owned(),
            format!("{}$", hash.text()),
            "$argon2id$v=19$".to_owned(),
        ] {
            assert_eq!(SlowHash::of_text(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
