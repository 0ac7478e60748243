//! Why a map, or a part of one, is not believed.

use std::fmt;

/// Why a map cannot be made or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The bytes are no map, or damaged.
    Bytes(&'static str),
    /// The map breaks a rule; the text says which, and where.
    Invalid(String),
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(what) => write!(f, "the map cannot be read: {what}"),
            Self::Invalid(what) => write!(f, "the map breaks a rule: {what}"),
        }
    }
}

impl std::error::Error for MapError {}
