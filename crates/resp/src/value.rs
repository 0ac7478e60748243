//! Replies as owned values, and requests as bytes: a client's side.

use crate::frame::{FrameState, frame_len};
use crate::item::{Item, Nesting, Scan, next_item};
use crate::number::{Digits, decimal};
use crate::{ProtocolError, Reply};

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A short text without line breaks.
    Simple(String),
    /// An error, its code first: `ERR no such key`.
    Error(String),
    /// An integer.
    Int(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Nothing, in any of its three forms.
    Null,
    /// Values in order.
    Array(Vec<Value>),
    /// Keys and values, in the order in which they came.
    Map(Vec<(Value, Value)>),
    /// Values in no order.
    Set(Vec<Value>),
    /// A floating-point number.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// An integer of any size, in decimal.
    Big(String),
    /// A text with its format.
    Verbatim {
        /// Such as `txt` or `mkd`.
        format: [u8; 3],
        /// The text.
        text: Vec<u8>,
    },
    /// A message out of turn.
    Push(Vec<Value>),
    /// A reply with remarks about it.
    Attributed {
        /// The remarks.
        attributes: Vec<(Value, Value)>,
        /// The reply.
        value: Box<Value>,
    },
}

/// The reply at the beginning of `buf` and its length; `None` if it is incomplete. To read a long reply that arrives in
/// pieces, use `decode_with`, which does not begin anew each time.
pub fn decode(buf: &[u8]) -> Result<Option<(Value, usize)>, ProtocolError> {
    decode_with(buf, &mut FrameState::default())
}

/// Likewise, with what the calls before have found out about the same incomplete reply.
pub fn decode_with(buf: &[u8], state: &mut FrameState) -> Result<Option<(Value, usize)>, ProtocolError> {
    let Some(length) = frame_len(buf, state)? else {
        return Ok(None);
    };
    let mut reader = Reader { buf: &buf[..length], at: 0 };
    Ok(Some((reader.value()?, length)))
}

/// Reads a reply that is known to be complete, and not too deep.
struct Reader<'a> {
    buf: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self) -> Result<Value, ProtocolError> {
        let item = next_item(self.buf, self.at, &mut Scan::default())?;
        let (item, next) = item.ok_or(ProtocolError::InvalidReply)?;
        self.at = next;
        let bytes = |range: std::ops::Range<usize>| self.buf[range].to_vec();
        let text = |range: std::ops::Range<usize>| String::from_utf8_lossy(&self.buf[range]).into_owned();
        Ok(match item {
            Item::Simple(range) => Value::Simple(text(range)),
            Item::Error(range) => Value::Error(text(range)),
            Item::Int(n) => Value::Int(n),
            Item::Bulk(range) => Value::Bulk(bytes(range)),
            Item::Null => Value::Null,
            Item::Double(d) => Value::Double(d),
            Item::Boolean(b) => Value::Boolean(b),
            Item::Big(range) => Value::Big(text(range)),
            Item::Verbatim(range) => {
                let format = [self.buf[range.start], self.buf[range.start + 1], self.buf[range.start + 2]];
                Value::Verbatim { format, text: bytes(range.start + 4..range.end) }
            }
            Item::Nested(Nesting::Array, count) => Value::Array(self.values(count)?),
            Item::Nested(Nesting::Set, count) => Value::Set(self.values(count)?),
            Item::Nested(Nesting::Push, count) => Value::Push(self.values(count)?),
            Item::Nested(Nesting::Map, count) => Value::Map(self.pairs(count / 2)?),
            Item::Nested(Nesting::Attribute, count) => {
                Value::Attributed { attributes: self.pairs(count / 2)?, value: Box::new(self.value()?) }
            }
        })
    }

    fn values(&mut self, count: usize) -> Result<Vec<Value>, ProtocolError> {
        (0..count).map(|_| self.value()).collect()
    }

    fn pairs(&mut self, count: usize) -> Result<Vec<(Value, Value)>, ProtocolError> {
        (0..count).map(|_| Ok((self.value()?, self.value()?))).collect()
    }
}

impl Value {
    /// Writes it into a reply. What the reply's version has no type for is written as in `Reply`.
    pub fn write(&self, reply: &mut Reply) {
        match self {
            Self::Simple(text) => reply.simple(text),
            Self::Error(text) => reply.error(text),
            Self::Int(n) => reply.int(*n),
            Self::Bulk(bytes) => reply.bulk(bytes),
            Self::Null => reply.null(),
            Self::Array(values) => write_values(values, reply, Reply::array),
            Self::Set(values) => write_values(values, reply, Reply::set),
            Self::Push(values) => write_values(values, reply, Reply::push),
            Self::Map(pairs) => write_pairs(pairs, reply, Reply::map),
            Self::Double(d) => reply.double(*d),
            Self::Boolean(b) => reply.boolean(*b),
            Self::Big(digits) => reply.big_number(digits),
            Self::Verbatim { format, text } => reply.verbatim_as(*format, text),
            Self::Attributed { attributes, value } => {
                if reply.proto == crate::Proto::Resp3 {
                    write_pairs(attributes, reply, Reply::attribute);
                }
                value.write(reply);
            }
        }
    }

    /// The text of an error.
    #[must_use]
    pub fn as_error(&self) -> Option<&str> {
        if let Self::Error(text) = self { Some(text) } else { None }
    }

    /// The bytes of a string of any kind.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bulk(bytes) | Self::Verbatim { text: bytes, .. } => Some(bytes),
            Self::Simple(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// An integer, or a string that holds one.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        if let Self::Int(n) = self { Some(*n) } else { crate::parse_integer(self.as_bytes()?) }
    }
}

fn write_values(values: &[Value], reply: &mut Reply, head: fn(&mut Reply, usize)) {
    head(reply, values.len());
    for value in values {
        value.write(reply);
    }
}

fn write_pairs(pairs: &[(Value, Value)], reply: &mut Reply, head: fn(&mut Reply, usize)) {
    head(reply, pairs.len());
    for (key, value) in pairs {
        key.write(reply);
        value.write(reply);
    }
}

/// Appends a request to `out`, as an array of bulk strings.
pub fn encode_request(out: &mut Vec<u8>, args: &[&[u8]]) {
    let mut digits = Digits::default();
    out.reserve(16 + args.iter().map(|arg| arg.len() + 16).sum::<usize>());
    out.push(b'*');
    out.extend_from_slice(decimal(args.len() as i64, &mut digits));
    out.extend_from_slice(b"\r\n");
    for arg in args {
        out.push(b'$');
        out.extend_from_slice(decimal(arg.len() as i64, &mut digits));
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}
