//! YCSB's `dataintegrity` values: a field's text follows from its key and name, so that any reader can check it.

/// What a check found, in YCSB's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// `OK`
    Right,
    /// `UNEXPECTED_STATE`: a value that was never written there.
    Wrong,
    /// `ERROR`: nothing was read.
    Empty,
}

/// Java's `String.hashCode`, continued.
fn java_hash(hash: i32, bytes: &[u8]) -> i32 {
    bytes.iter().fold(hash, |hash, &byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte)))
}

/// Appends the text of `size` bytes that `field` of `key` holds.
pub fn write(key: &[u8], field: &[u8], size: usize, out: &mut Vec<u8>) {
    use std::io::Write as _;
    let start = out.len();
    out.extend_from_slice(key);
    out.push(b':');
    out.extend_from_slice(field);
    let mut hash = java_hash(0, &out[start..]);
    while out.len() - start < size {
        out.push(b':');
        hash = java_hash(hash, b":");
        let mark = out.len();
        write!(out, "{hash}").expect("a Vec takes all that is written");
        hash = java_hash(hash, &out[mark..]);
    }
    out.truncate(start + size);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn golden_texts() {
        for (key, field, text) in [
            (
                "user6284781860667377211",
                "field0",
                "user6284781860667377211:field0:-56807877:2032869390:-165488160:1762371712:-169193395:-1039977118:-10",
            ),
            ("user00000000", "field1", "user00000000:field1:1020365044:-1579052021:-1992063376:-2126"),
        ] {
            let mut out = b"before".to_vec();
            write(key.as_bytes(), field.as_bytes(), text.len(), &mut out);
            assert_eq!(std::str::from_utf8(&out).unwrap(), format!("before{text}"));
        }
    }
}
