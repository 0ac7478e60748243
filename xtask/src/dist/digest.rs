//! Sums of what is packed.

use std::fmt::Write as _;

/// The SHA-256, as digits.
pub fn sha256(bytes: &[u8]) -> String {
    hmac_sha256::Hash::hash(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
