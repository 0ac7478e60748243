//! A user's passwords.

use super::rule_error::RuleError;
use super::slow_hash::SlowHash;
use std::fmt;

/// The SHA-256 of a password: what Redis shows and takes instead of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// That of a password.
    #[must_use]
    pub fn of(password: &[u8]) -> Self {
        Self(hmac_sha256::Hash::hash(password))
    }

    /// Reads what `hex` wrote.
    pub fn of_hex(text: &[u8]) -> Result<Self, RuleError> {
        let mut bytes = [0; 32];
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        if text.len() != 64 {
            return Err(RuleError::BadHash);
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(text.as_chunks::<2>().0) {
            let (high, low) = digit(*high).zip(digit(*low)).ok_or(RuleError::BadHash)?;
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }

    /// 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        hex(&self.0)
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn is(&self, given: &Self) -> bool {
        vocab::same_secret(&given.0, &self.0)
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Shows nothing of it.
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// What is kept of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Password {
    /// Its digest: it was given so.
    Digest(Digest),
    /// A slow hash of its digest: it was given in clear.
    Slow(SlowHash),
}

impl Password {
    /// Reads what stands behind the `#` or `!` of a rule.
    pub(super) fn of_text(text: &[u8]) -> Result<Self, RuleError> {
        match text.starts_with(b"$") {
            true => SlowHash::of_text(text).map(Self::Slow).ok_or(RuleError::BadHash),
            false => Digest::of_hex(text).map(Self::Digest),
        }
    }

    /// As rules and ACL GETUSER have it, without `#`.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Digest(digest) => digest.hex(),
            Self::Slow(hash) => hash.text().to_owned(),
        }
    }

    /// Whether it takes a while to compare with it.
    pub(super) fn is_slow(&self) -> bool {
        matches!(self, Self::Slow(_))
    }

    /// Whether it is the password of that digest.
    #[must_use]
    pub fn is(&self, given: &Digest) -> bool {
        match self {
            Self::Digest(digest) => digest.is(given),
            Self::Slow(hash) => hash.is_of(given.bytes()),
        }
    }
}
