//! The settings that decide what OBJECT ENCODING calls a hash.

use super::Config;

/// How large a hash may be that Redis would keep as a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallHash {
    /// Most fields.
    pub fields: u64,
    /// Longest field or value, in bytes.
    pub bytes: u64,
}

impl Default for SmallHash {
    /// As Redis 7.0 has it.
    fn default() -> Self {
        Self { fields: 512, bytes: 64 }
    }
}

impl SmallHash {
    /// As the settings have it.
    #[must_use]
    pub fn of_settings(config: &Config) -> Self {
        let number = |name: &str| config.number(name).and_then(|n| u64::try_from(n).ok());
        let default = Self::default();
        Self {
            fields: number("hash-max-listpack-entries").unwrap_or(default.fields),
            bytes: number("hash-max-listpack-value").unwrap_or(default.bytes),
        }
    }
}
