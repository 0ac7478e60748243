//! How bytes, sizes and times are printed.

use serde::Serialize;
use std::fmt;
use std::io::{self, Write};

const BEGINNING_BYTES: usize = 64;
/// Parts of a collection that are listed where not all are asked for: fields, entries, groups, pending entries.
const PARTS_SHOWN: usize = 20;

/// How much of a value is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Beginning,
    Whole,
}

impl Shown {
    /// How many parts of a collection are listed.
    pub fn most(self) -> usize {
        if self == Self::Whole { usize::MAX } else { PARTS_SHOWN }
    }
}

/// Bytes that a client wrote, escaped, and cut where they are long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// Escaped; only the beginning if `bytes` are more.
    pub text: String,
    /// How many there are.
    pub bytes: usize,
    /// Whether `text` is only the beginning.
    pub cut: bool,
}

impl Bytes {
    /// As much of a value as was asked for.
    pub fn of(bytes: &[u8], shown: Shown) -> Self {
        let length = if shown == Shown::Whole { bytes.len() } else { bytes.len().min(BEGINNING_BYTES) };
        Self { text: escape(&bytes[..length]), bytes: bytes.len(), cut: length < bytes.len() }
    }
}

/// In quotes where that is needed to see where they begin and end.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = !self.cut && !self.text.is_empty() && self.text.bytes().all(|byte| byte.is_ascii_graphic());
        if plain {
            f.write_str(&self.text)?
        } else {
            write!(f, "\"{}\"", self.text)?
        }
        if self.cut { write!(f, "… ({} bytes)", self.bytes) } else { Ok(()) }
    }
}

/// Printable ASCII.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\'' => text.push('\''),
            _ => text.extend(byte.escape_ascii().map(char::from)),
        }
    }
    text
}

/// What `escape` was given. Characters that it would have escaped stand for themselves.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let wrong = || format!("'{text}': after a backslash comes n, r, t, \\, \" or xNN");
        let (&kind, after) = rest.split_first().ok_or_else(wrong)?;
        rest = after;
        bytes.push(match kind {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'\\' | b'"' => kind,
            b'x' => {
                let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
                rest = after;
                let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
                u8::from_str_radix(digits, 16).map_err(|_| wrong())?
            }
            _ => return Err(wrong()),
        });
    }
    Ok(bytes)
}

/// `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1023.95 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

/// `2026-11-21T19:03:20.496Z`.
pub fn time(unix_ms: u64) -> String {
    let text = bench::report::rfc3339(unix_ms);
    format!("{}.{:03}Z", text.trim_end_matches('Z'), unix_ms % 1000)
}

/// `1 file`, `2 files`.
pub fn count(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

/// A line about those of `all` that are not among the `shown` ones, if there are some.
pub fn left_out(out: &mut dyn Write, indent: &str, shown: usize, all: u64) -> io::Result<()> {
    match all.saturating_sub(shown as u64) {
        0 => Ok(()),
        left => writeln!(out, "{indent}… {left} more: --full lists all"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_escaped_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unescape(&escape(&all)), Ok(all));
        assert_eq!(unescape("user:'7'"), Ok(b"user:'7'".to_vec()));
        for wrong in ["\\", "\\q", "\\x", "\\x1", "\\xzz"] {
            assert!(unescape(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn printed_forms() {
        let value = [b'a'; 100];
        assert_eq!(Bytes::of(b"a b", Shown::Beginning).to_string(), "\"a b\"");
        assert_eq!(Bytes::of(b"ab", Shown::Beginning).to_string(), "ab");
        assert_eq!(Bytes::of(b"", Shown::Beginning).to_string(), "\"\"");
        assert_eq!(Bytes::of(&value, Shown::Beginning).to_string(), format!("\"{}\"… (100 bytes)", "a".repeat(64)));
        assert_eq!(Bytes::of(&value, Shown::Whole).to_string(), "a".repeat(100));
        for (bytes, expected) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), ((1 << 20) - 1, "1.0 MiB"), (5 << 40, "5.0 TiB")]
        {
            assert_eq!(size(bytes), expected);
        }
        assert_eq!(time(1_735_689_599_007), "2024-12-31T23:59:59.007Z");
        assert_eq!(
            (count(1, "entry", "entries"), count(0, "entry", "entries")),
            ("1 entry".into(), "0 entries".into())
        );
    }
}
