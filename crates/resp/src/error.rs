//! What bytes can be wrong with. After any of these the stream has no meaning: answer and close.

use std::fmt;

/// A violation of the protocol. `Display` words it as Redis 7.0 does, after its `ERR ` code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The count after `*` is no number or beyond the limit.
    InvalidMultibulkLength,
    /// The length after `$` is no number, negative or beyond the limit.
    InvalidBulkLength,
    /// An argument does not begin with `$`.
    ExpectedBulk(u8),
    /// An argument is not followed by CR LF: its length was wrong.
    ExpectedLineEnd,
    /// A `*` line without end.
    MultibulkLineTooLong,
    /// A `$` line without end.
    BulkLineTooLong,
    /// An inline request without end.
    InlineTooLong,
    /// An inline request whose quotes are not closed, or closed within a word.
    UnbalancedQuotes,
    /// More arguments than a client may send before AUTH.
    UnauthenticatedMultibulkLength,
    /// A longer argument than a client may send before AUTH.
    UnauthenticatedBulkLength,
    /// A request beyond `client-query-buffer-limit`.
    RequestTooLong,
    /// A client begins with TLS, and this connection has none.
    Tls,
    /// A reply begins with a byte that no type has.
    UnknownType(u8),
    /// A reply holds a malformed number, length or line.
    InvalidReply,
    /// A reply is nested too deeply.
    NestingTooDeep,
    /// A reply announces more bytes or elements than its reader allows.
    ReplyTooLong,
}

impl ProtocolError {
    /// The text for `Reply::error`.
    #[must_use]
    pub fn reply_text(self) -> String {
        format!("ERR {self}")
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::InvalidMultibulkLength => "invalid multibulk length",
            Self::InvalidBulkLength => "invalid bulk length",
            Self::ExpectedBulk(got) => {
                return write!(f, "Protocol error: expected '$', got '{}'", char::from(*got));
            }
            Self::ExpectedLineEnd => "expected CRLF after a bulk string",
            Self::MultibulkLineTooLong => "too big mbulk count string",
            Self::BulkLineTooLong => "too big bulk count string",
            Self::InlineTooLong => "too big inline request",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            Self::UnauthenticatedBulkLength => "unauthenticated bulk length",
            Self::RequestTooLong => "request exceeds client-query-buffer-limit",
            Self::UnknownType(got) => {
                return write!(f, "Protocol error: unknown reply type '{}'", got.escape_ascii());
            }
            Self::Tls => "this port has no TLS: use the port for it (tls-port), or connect without TLS",
            Self::InvalidReply => "invalid reply",
            Self::NestingTooDeep => "reply nested too deeply",
            Self::ReplyTooLong => "reply exceeds the limit",
        };
        write!(f, "Protocol error: {text}")
    }
}

impl std::error::Error for ProtocolError {}
