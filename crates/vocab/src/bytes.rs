//! Numbers of bytes as people write them.

/// A number of bytes as Redis writes them: `512`, `1k` (1,000), `1kb` (1,024), `100mb`, `4G`, in any case.
#[must_use]
pub fn memory_bytes(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let factor: u64 = match text[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    std::str::from_utf8(&text[..digits]).ok()?.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::memory_bytes;

    #[test]
    fn memory_sizes() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("100", Some(100)),
            ("7b", Some(7)),
            ("1k", Some(1000)),
            ("1KB", Some(1024)),
            ("2m", Some(2_000_000)),
            ("2Mb", Some(2 << 20)),
            ("4G", Some(4_000_000_000)),
            ("4gb", Some(4 << 30)),
            ("", None),
            ("k", None),
            ("-1", None),
            ("1.5g", None),
            ("1tb", None),
            ("99999999999gb", None),
        ] {
            assert_eq!(memory_bytes(text.as_bytes()), bytes, "{text}");
        }
    }
}
