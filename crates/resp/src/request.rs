//! Finds the arguments of the next request in a connection's buffer: no copies, no allocations in the common case.
//!
//! Invariants: the same bytes give the same requests however they are split on arrival, and every byte of a request
//! is looked at a bounded number of times however small the pieces are.

use crate::ProtocolError;
use crate::inline;
use crate::number::{parse_integer, short_number};
use std::ops::Range;
use vocab::limits;

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest argument, in bytes (`proto-max-bulk-len`).
    pub bulk_bytes_max: usize,
    /// Most arguments of one request.
    pub arguments_max: usize,
    /// Longest inline request and longest `*` or `$` line, in bytes.
    pub inline_bytes_max: usize,
    /// Longest request as a whole, in bytes (`client-query-buffer-limit`).
    pub request_bytes_max: usize,
    /// False until AUTH has succeeded where a password is asked for: much tighter limits.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bulk_bytes_max: limits::BULK_BYTES_MAX,
            arguments_max: limits::ARGUMENTS_MAX,
            inline_bytes_max: limits::INLINE_BYTES_MAX,
            request_bytes_max: limits::QUERY_BUFFER_BYTES_MAX,
            authenticated: true,
        }
    }
}

/// What the buffer begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The beginning of a request, or nothing. Call again with the same bytes and more behind them.
    Incomplete,
    /// A request: the ranges of its arguments (at least one) are relative to the buffer.
    Request {
        /// Its bytes; the next request begins behind them.
        consumed: usize,
    },
    /// An inline request with quotes: the ranges of its arguments are relative to `ParseState::quoted`.
    Quoted {
        /// As in `Request`.
        consumed: usize,
    },
    /// A request of no arguments (an empty line, `*0`), to be skipped without an answer.
    Empty {
        /// As in `Request`.
        consumed: usize,
    },
}

/// How far the request at the beginning of a connection's buffer has been read. One for each connection.
#[derive(Debug, Default)]
pub struct ParseState {
    /// Where reading goes on.
    at: usize,
    /// Arguments still to come; 0 while the request's first line is incomplete.
    arguments_left: usize,
    /// The length of the argument whose bytes begin at `at`, if its line has been read.
    bulk: Option<usize>,
    /// Bytes of the current line that are known to hold no line end.
    searched: usize,
    /// The buffer length below which nothing can have changed.
    wanted: usize,
    /// The arguments found so far, while the request is incomplete.
    arguments: Vec<Range<usize>>,
    quoted: Vec<u8>,
}

impl ParseState {
    /// The bytes that the ranges of a `Parsed::Quoted` request are relative to.
    #[must_use]
    pub fn quoted(&self) -> &[u8] {
        &self.quoted
    }

    /// The least length of the buffer at which the next call can find more; a hint for reserving room.
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// Forgets an incomplete request, as when its bytes are thrown away.
    pub fn reset(&mut self) {
        self.at = 0;
        self.arguments_left = 0;
        self.bulk = None;
        self.searched = 0;
        self.wanted = 0;
        self.arguments.clear();
    }

    /// The request of `args` that was read last, one that begins with `*`, is not run yet, and its bytes stay at the beginning of the
    /// buffer: the next call finds it again, and looks at none of its arguments but the last.
    pub fn put_back(&mut self, mut args: Vec<Range<usize>>) {
        self.reset();
        if let Some(last) = args.pop() {
            (self.at, self.arguments_left, self.bulk) = (last.start, 1, Some(last.len()));
            self.wanted = last.end + 2;
            self.arguments = args;
        }
    }

    fn wait(&mut self, wanted: usize) -> Parsed {
        self.wanted = wanted;
        Parsed::Incomplete
    }
}

/// Reads the request at the beginning of `buf` and leaves the ranges of its arguments in `args`.
///
/// After `Incomplete`, call again when `buf` is longer; it must begin with the same bytes, wherever they lie. `args`
/// may be shared between connections: what is known of an incomplete request is kept in `state`.
pub fn parse_request(
    buf: &[u8],
    limits: &Limits,
    args: &mut Vec<Range<usize>>,
    state: &mut ParseState,
) -> Result<Parsed, ProtocolError> {
    args.clear();
    if buf.len() < state.wanted {
        return Ok(Parsed::Incomplete);
    }
    let parsed = match buf.first() {
        None => return Ok(Parsed::Incomplete),
        Some(b'*') => read_array(buf, limits, args, state),
        // A record of TLS, which would be taken for an inline request that does not end.
        Some(0x16) if buf.get(1) == Some(&3) => Err(ProtocolError::Tls),
        Some(_) => read_inline(buf, limits, args, state),
    };
    if parsed.is_err() {
        state.reset();
    }
    parsed
}

fn read_array(
    buf: &[u8],
    limits: &Limits,
    args: &mut Vec<Range<usize>>,
    state: &mut ParseState,
) -> Result<Parsed, ProtocolError> {
    let mut at = state.at;
    let mut left = state.arguments_left;
    if left == 0 {
        match read_count(buf, limits, state)? {
            None => return Ok(Parsed::Incomplete),
            Some((0, consumed)) => {
                state.reset();
                return Ok(Parsed::Empty { consumed });
            }
            Some((count, next)) => (left, at) = (count, next),
        }
    } else {
        std::mem::swap(args, &mut state.arguments);
    }
    while left > 0 {
        let length = match state.bulk.take() {
            Some(length) => length,
            None => match read_bulk_length(buf, at, limits, state)? {
                Some((length, next)) => {
                    at = next;
                    length
                }
                None => return Ok(suspend(state, args, at, left, None)),
            },
        };
        let end = at + length;
        if end + 2 > limits.request_bytes_max {
            return Err(ProtocolError::RequestTooLong);
        }
        match buf.get(end..end + 2) {
            Some(b"\r\n") => {}
            Some(_) => return Err(ProtocolError::ExpectedLineEnd),
            None => {
                state.wanted = end + 2;
                return Ok(suspend(state, args, at, left, Some(length)));
            }
        }
        args.push(at..end);
        at = end + 2;
        left -= 1;
    }
    if state.wanted != 0 {
        state.reset();
    }
    Ok(Parsed::Request { consumed: at })
}

#[cold]
fn suspend(
    state: &mut ParseState,
    args: &mut Vec<Range<usize>>,
    at: usize,
    left: usize,
    bulk: Option<usize>,
) -> Parsed {
    state.at = at;
    state.arguments_left = left;
    state.bulk = bulk;
    std::mem::swap(args, &mut state.arguments);
    args.clear();
    Parsed::Incomplete
}

/// The count of the `*` line and where the next line begins.
#[inline]
fn read_count(buf: &[u8], limits: &Limits, state: &mut ParseState) -> Result<Option<(usize, usize)>, ProtocolError> {
    let (count, next) = match short_number(buf, 1) {
        Some(found) => {
            state.searched = 0;
            found
        }
        None => match find_line(buf, 0, limits, state) {
            Line::Incomplete => return Ok(None),
            Line::TooLong => return Err(ProtocolError::MultibulkLineTooLong),
            Line::Malformed => return Err(ProtocolError::InvalidMultibulkLength),
            Line::Ends(end) => match parse_integer(&buf[1..end]) {
                Some(n) => (usize::try_from(n).unwrap_or(0), end + 2),
                None => return Err(ProtocolError::InvalidMultibulkLength),
            },
        },
    };
    if count > limits.arguments_max {
        return Err(ProtocolError::InvalidMultibulkLength);
    }
    if count > limits::UNAUTHENTICATED_ARGUMENTS_MAX && !limits.authenticated {
        return Err(ProtocolError::UnauthenticatedMultibulkLength);
    }
    Ok(Some((count, next)))
}

/// The length of the `$` line at `at` and where its bytes begin.
#[inline]
fn read_bulk_length(
    buf: &[u8],
    at: usize,
    limits: &Limits,
    state: &mut ParseState,
) -> Result<Option<(usize, usize)>, ProtocolError> {
    let short = if buf.get(at) == Some(&b'$') { short_number(buf, at + 1) } else { None };
    let (length, next) = match short {
        Some(found) => {
            state.searched = 0;
            found
        }
        None => match find_line(buf, at, limits, state) {
            Line::Incomplete => return Ok(None),
            Line::TooLong => return Err(ProtocolError::BulkLineTooLong),
            Line::Ends(_) | Line::Malformed if buf[at] != b'$' => {
                return Err(ProtocolError::ExpectedBulk(buf[at]));
            }
            Line::Malformed => return Err(ProtocolError::InvalidBulkLength),
            Line::Ends(end) => match parse_integer(&buf[at + 1..end]).map(usize::try_from) {
                Some(Ok(n)) => (n, end + 2),
                _ => return Err(ProtocolError::InvalidBulkLength),
            },
        },
    };
    if length > limits.bulk_bytes_max {
        return Err(ProtocolError::InvalidBulkLength);
    }
    if length > limits::UNAUTHENTICATED_BULK_BYTES_MAX && !limits.authenticated {
        return Err(ProtocolError::UnauthenticatedBulkLength);
    }
    Ok(Some((length, next)))
}

enum Line {
    Incomplete,
    TooLong,
    /// CR without LF.
    Malformed,
    /// Where its CR is.
    Ends(usize),
}

/// The end of the line that begins at `at`, each byte being searched once over all calls.
#[cold]
fn find_line(buf: &[u8], at: usize, limits: &Limits, state: &mut ParseState) -> Line {
    let line = &buf[at..];
    let window = &line[..line.len().min(limits.inline_bytes_max + 1)];
    match window[state.searched..].iter().position(|&b| b == b'\r') {
        Some(i) => {
            let end = state.searched + i;
            match line.get(end + 1) {
                None => {
                    state.searched = end;
                    state.wait(at + end + 2);
                    Line::Incomplete
                }
                Some(b'\n') => {
                    state.searched = 0;
                    Line::Ends(at + end)
                }
                Some(_) => Line::Malformed,
            }
        }
        None if line.len() > limits.inline_bytes_max => Line::TooLong,
        None => {
            state.searched = line.len();
            state.wait(buf.len() + 1);
            Line::Incomplete
        }
    }
}

#[cold]
fn read_inline(
    buf: &[u8],
    limits: &Limits,
    args: &mut Vec<Range<usize>>,
    state: &mut ParseState,
) -> Result<Parsed, ProtocolError> {
    let window = &buf[..buf.len().min(limits.inline_bytes_max + 1)];
    let Some(i) = window[state.searched..].iter().position(|&b| b == b'\n') else {
        if buf.len() > limits.inline_bytes_max {
            return Err(ProtocolError::InlineTooLong);
        }
        state.searched = buf.len();
        return Ok(state.wait(buf.len() + 1));
    };
    let end = state.searched + i;
    let consumed = end + 1;
    state.reset();
    let line = buf[..end].strip_suffix(b"\r").unwrap_or(&buf[..end]);
    let quoted = line.iter().any(|&b| b == b'"' || b == b'\'');
    if quoted {
        inline::split_quoted(line, &mut state.quoted, args)?;
    } else {
        inline::split_plain(line, args);
    }
    Ok(match (args.is_empty(), quoted) {
        (true, _) => Parsed::Empty { consumed },
        (false, true) => Parsed::Quoted { consumed },
        (false, false) => Parsed::Request { consumed },
    })
}
