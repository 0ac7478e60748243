//! A reply as a value of its own, for those who need not hurry.

use std::fmt;

use crate::frame::{Item, Items};

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A status such as `OK`.
    Simple(String),
    /// An error, its code first.
    Error(String),
    /// An integer.
    Int(i64),
    /// A string of bytes.
    Bulk(Vec<u8>),
    /// Nothing.
    Null,
    /// A boolean.
    Boolean(bool),
    /// A double or a big number, as text.
    Number(String),
    /// An array or a set.
    Array(Vec<Value>),
    /// Keys and values.
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// Reads one whole frame, whose nesting has been checked.
    pub(crate) fn read(items: &mut Items<'_>) -> Result<Self, resp::ProtocolError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let item = items.take()?.ok_or(resp::ProtocolError::InvalidReply)?;
        Ok(match item {
            Item::Simple(line) => Self::Simple(text(line)),
            Item::Error(line) => Self::Error(text(line)),
            Item::Int(n) => Self::Int(n),
            Item::Bulk(bytes) => Self::Bulk(bytes.to_vec()),
            Item::Null => Self::Null,
            Item::Boolean(truth) => Self::Boolean(truth),
            Item::Number(line) => Self::Number(text(line)),
            Item::Array(count) => Self::Array((0..count).map(|_| Self::read(items)).collect::<Result<_, _>>()?),
            Item::Map(count) => {
                let pair = |_| Ok((Self::read(items)?, Self::read(items)?));
                Self::Map((0..count).map(pair).collect::<Result<_, _>>()?)
            }
        })
    }

    /// The elements of an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(values) = self { Some(values) } else { None }
    }

    /// An integer, also one that is written as text.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            Self::Bulk(bytes) => resp::parse_integer(bytes),
            _ => None,
        }
    }

    /// A string.
    #[must_use]
    pub fn as_text(&self) -> Option<String> {
        match self {
            Self::Simple(text) | Self::Number(text) => Some(text.clone()),
            Self::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    /// As redis-cli shows it on one line.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(text) | Self::Number(text) => out.write_str(text),
            Self::Error(text) => write!(out, "(error) {text}"),
            Self::Int(n) => write!(out, "(integer) {n}"),
            Self::Bulk(bytes) => write!(out, "\"{}\"", bytes.escape_ascii()),
            Self::Null => out.write_str("(nil)"),
            Self::Boolean(truth) => write!(out, "({truth})"),
            Self::Array(values) => {
                let shown: Vec<String> = values.iter().map(Self::to_string).collect();
                write!(out, "[{}]", shown.join(", "))
            }
            Self::Map(pairs) => {
                let shown: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                write!(out, "{{{}}}", shown.join(", "))
            }
        }
    }
}
