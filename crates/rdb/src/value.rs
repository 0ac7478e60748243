//! A value of a key, of any type.

use crate::stream::Stream;

/// A value as it is read.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A string.
    String(Vec<u8>),
    /// A list's elements in their order.
    List(Vec<Vec<u8>>),
    /// A set's members. One that comes twice is the reader's to find.
    Set(Vec<Vec<u8>>),
    /// A sorted set's members with their scores, in any order.
    SortedSet(Vec<(Vec<u8>, f64)>),
    /// A hash's fields.
    Hash(Vec<HashField>),
    /// A stream with its groups.
    Stream(Box<Stream>),
    /// A module's value, which was skipped; the module's name.
    Module(String),
}

impl Value {
    /// Takes in the next part of the same value; false if that is of another type, or cannot follow.
    pub fn append(&mut self, more: Self) -> bool {
        match (self, more) {
            (Self::List(strings), Self::List(more)) | (Self::Set(strings), Self::Set(more)) => strings.extend(more),
            (Self::SortedSet(members), Self::SortedSet(more)) => members.extend(more),
            (Self::Hash(fields), Self::Hash(more)) => fields.extend(more),
            _ => return false,
        }
        true
    }

    /// Bytes of its strings.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let all = |strings: &[Vec<u8>]| strings.iter().map(Vec::len).sum();
        match self {
            Self::String(string) => string.len(),
            Self::List(strings) | Self::Set(strings) => all(strings),
            Self::SortedSet(members) => members.iter().map(|(member, _)| member.len() + size_of::<f64>()).sum(),
            Self::Hash(fields) => fields.iter().map(|field| field.name.len() + field.value.len()).sum(),
            Self::Stream(stream) => {
                let strings = stream.entries.iter().flat_map(|entry| &entry.fields);
                strings.map(|(name, value)| name.len() + value.len()).sum()
            }
            Self::Module(_) => 0,
        }
    }
}

/// A field of a hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashField {
    /// Its name.
    pub name: Vec<u8>,
    /// What it holds.
    pub value: Vec<u8>,
    /// When it expires, in milliseconds since 1970; `None` for never.
    pub expire_at_ms: Option<u64>,
}
