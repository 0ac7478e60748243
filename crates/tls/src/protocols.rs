//! The versions of TLS that one side speaks.

use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

/// A set of versions; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocols {
    tls12: bool,
    tls13: bool,
}

impl Default for Protocols {
    fn default() -> Self {
        Self { tls12: true, tls13: true }
    }
}

impl Protocols {
    /// Reads `tls-protocols` of Redis: names separated by spaces, in any case; empty: all that are spoken. TLS 1.0 and 1.1 are
    /// broken, so their names are refused.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut found = Self { tls12: false, tls13: false };
        for word in text.split_ascii_whitespace() {
            match word.to_ascii_lowercase().as_str() {
                "tlsv1.2" => found.tls12 = true,
                "tlsv1.3" => found.tls13 = true,
                "tlsv1" | "tlsv1.1" => return Err(format!("{word} is broken and not spoken: TLSv1.2 and TLSv1.3 are")),
                _ => return Err(format!("`{word}` is no version of TLS: TLSv1.2 and TLSv1.3 are")),
            }
        }
        Ok(if found.tls12 || found.tls13 { found } else { Self::default() })
    }

    pub(crate) fn versions(self) -> Vec<&'static SupportedProtocolVersion> {
        [(self.tls13, &TLS13), (self.tls12, &TLS12)].iter().filter(|(on, _)| *on).map(|(_, version)| *version).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_versions() {
        let all = Protocols::default();
        for (text, expected) in [
            ("", Ok(all)),
            ("TLSv1.2 tlsv1.3", Ok(all)),
            ("TLSv1.3", Ok(Protocols { tls12: false, tls13: true })),
            ("TLSv1.2", Ok(Protocols { tls12: true, tls13: false })),
        ] {
            assert_eq!(Protocols::parse(text), expected, "{text}");
        }
        assert!(Protocols::parse("TLSv1.1").is_err_and(|why| why.contains("broken")));
        assert!(Protocols::parse("SSLv3").is_err());
        assert_eq!(all.versions().len(), 2);
    }
}
