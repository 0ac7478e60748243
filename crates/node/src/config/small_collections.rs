//! The settings that decide what OBJECT ENCODING calls a collection.

use super::Config;

/// How large collections may be that Redis would keep in a compact form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallCollections {
    /// Most fields of a hash that is a list.
    pub fields: u64,
    /// Longest field or value of it, in bytes.
    pub bytes: u64,
    /// Most members of a set of integers.
    pub integers: u64,
    /// Most members of a sorted set that is a list.
    pub sorted_members: u64,
    /// Longest member of it, in bytes.
    pub sorted_bytes: u64,
}

impl Default for SmallCollections {
    /// As Redis 7.0 has it.
    fn default() -> Self {
        Self { fields: 512, bytes: 64, integers: 512, sorted_members: 128, sorted_bytes: 64 }
    }
}

impl SmallCollections {
    /// As the settings have it.
    #[must_use]
    pub fn of_settings(config: &Config) -> Self {
        let number = |name: &str| config.number(name).and_then(|n| u64::try_from(n).ok());
        let default = Self::default();
        Self {
            fields: number("hash-max-listpack-entries").unwrap_or(default.fields),
            bytes: number("hash-max-listpack-value").unwrap_or(default.bytes),
            integers: number("set-max-intset-entries").unwrap_or(default.integers),
            sorted_members: number("zset-max-listpack-entries").unwrap_or(default.sorted_members),
            sorted_bytes: number("zset-max-listpack-value").unwrap_or(default.sorted_bytes),
        }
    }
}
