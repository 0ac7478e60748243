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
