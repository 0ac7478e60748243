//! The checksum of a manifest: its last field, over all bytes before it. A release that does not know it reads over it.

use xxhash_rust::xxh3::xxh3_64;

/// What stands before its digits, and behind them.
const BEFORE: &[u8] = b",\n  \"checksum\": \"";
const AFTER: &[u8] = b"\"\n}";
/// How an object ends that is printed with indentation.
const END: &[u8] = b"\n}";
const DIGITS: usize = 16;

/// What the checksum of a document says of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seal {
    /// It is as it was written: the document without the field.
    Whole(Vec<u8>),
    /// It does not end as one with a checksum does.
    Missing,
    /// It was changed since.
    Broken,
}

impl Seal {
    /// Looks at a document.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let parts = bytes.strip_suffix(AFTER).and_then(|rest| rest.split_last_chunk::<DIGITS>());
        let parts = parts.and_then(|(rest, found)| Some((rest.strip_suffix(BEFORE)?, found)));
        match parts {
            None => Self::Missing,
            Some((body, found)) if digits(body).as_bytes() == found => Self::Whole([body, END].concat()),
            Some(_) => Self::Broken,
        }
    }
}

/// The document with its checksum; none if it is no object that is printed with indentation.
pub(super) fn sealed(document: &[u8]) -> Option<Vec<u8>> {
    let body = document.strip_suffix(END)?;
    Some([body, BEFORE, digits(body).as_bytes(), AFTER].concat())
}

/// XXH3-64.
fn digits(body: &[u8]) -> String {
    format!("{:016x}", xxh3_64(body))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_change_of_any_bit_is_seen() {
        let document = serde_json::to_vec_pretty(&serde_json::json!({ "format": 1, "id": "x" })).unwrap();
        let sealed = sealed(&document).unwrap();
        serde_json::from_slice::<serde_json::Value>(&sealed).unwrap();
        assert_eq!(Seal::of(&sealed), Seal::Whole(document.clone()));
        assert_eq!(Seal::of(&document), Seal::Missing);
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(Seal::of(&changed), Seal::Whole(_)), "bit {bit}");
        }
        assert_eq!(super::sealed(b"{}"), None);
    }
}
