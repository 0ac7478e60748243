//! The pieces that replies are made of. All checks of a reply's bytes are here, so that all readers agree.

use crate::ProtocolError;
use crate::number::{parse_integer, short_number};
use std::ops::Range;
use vocab::limits::{REPLY_BULK_BYTES_MAX, REPLY_ELEMENTS_MAX, REPLY_LINE_BYTES_MAX};

/// One piece: a whole value, or the head of a collection.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Simple(Range<usize>),
    Error(Range<usize>),
    Int(i64),
    Bulk(Range<usize>),
    Null,
    Double(f64),
    Boolean(bool),
    Big(Range<usize>),
    /// The range begins with the format and a colon.
    Verbatim(Range<usize>),
    /// A collection and how many values follow; the pairs of maps count twice.
    Nested(Nesting, usize),
}

/// Kinds of collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    /// In order.
    Array,
    /// Keys and values by turns.
    Map,
    /// In no order.
    Set,
    /// A message out of turn.
    Push,
    /// Keys and values by turns, then the reply that they describe.
    Attribute,
}

/// What is known of an incomplete item.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scan {
    /// Bytes of its line that hold no line break.
    searched: usize,
    /// The buffer length below which nothing can have changed.
    pub(crate) wanted: usize,
}

/// The item at `at` and what follows it; `None` if it is incomplete. `scan` is that of the same item before.
#[inline]
pub(crate) fn next_item(buf: &[u8], at: usize, scan: &mut Scan) -> Result<Option<(Item, usize)>, ProtocolError> {
    let Some(&kind) = buf.get(at) else {
        scan.wanted = at + 1;
        return Ok(None);
    };
    if matches!(kind, b'$' | b'*' | b':')
        && let Some((number, next)) = short_number(buf, at + 1)
    {
        return match kind {
            b'$' => bytes_item(buf, kind, number, next, scan),
            b'*' => nested_item(kind, number, next, scan),
            _ => whole(Item::Int(number as i64), next, scan),
        };
    }
    any_item(buf, kind, at, scan)
}

fn any_item(buf: &[u8], kind: u8, at: usize, scan: &mut Scan) -> Result<Option<(Item, usize)>, ProtocolError> {
    if !b"+-:$*_,#(!=%~>|".contains(&kind) {
        return Err(ProtocolError::UnknownType(kind));
    }
    let Some(end) = find_line_end(buf, at, scan)? else {
        return Ok(None);
    };
    let (body, next) = (at + 1..end, end + 2);
    let text = &buf[body.clone()];
    let item = match kind {
        b'+' => Item::Simple(body),
        b'-' => Item::Error(body),
        b':' => Item::Int(integer(text)?),
        b'_' if text.is_empty() => Item::Null,
        b'$' | b'*' if text == b"-1" => Item::Null,
        b'#' if text == b"t" => Item::Boolean(true),
        b'#' if text == b"f" => Item::Boolean(false),
        b',' => Item::Double(double(text)?),
        b'(' if is_big(text) => Item::Big(body),
        b'$' | b'!' | b'=' => return bytes_item(buf, kind, length(text)?, next, scan),
        b'*' | b'%' | b'~' | b'>' | b'|' => return nested_item(kind, length(text)?, next, scan),
        _ => return Err(ProtocolError::InvalidReply),
    };
    whole(item, next, scan)
}

fn whole(item: Item, next: usize, scan: &mut Scan) -> Result<Option<(Item, usize)>, ProtocolError> {
    *scan = Scan::default();
    Ok(Some((item, next)))
}

#[inline]
fn bytes_item(
    buf: &[u8],
    kind: u8,
    length: usize,
    start: usize,
    scan: &mut Scan,
) -> Result<Option<(Item, usize)>, ProtocolError> {
    if length > REPLY_BULK_BYTES_MAX {
        return Err(ProtocolError::ReplyTooLong);
    }
    let end = start + length;
    match buf.get(end..end + 2) {
        Some(b"\r\n") => {}
        Some(_) => return Err(ProtocolError::InvalidReply),
        None => {
            // The line will be read again, from its beginning.
            *scan = Scan { searched: 0, wanted: end + 2 };
            return Ok(None);
        }
    }
    let range = start..end;
    let item = match kind {
        b'$' => Item::Bulk(range),
        b'!' => Item::Error(range),
        _ if length >= 4 && buf[start + 3] == b':' => Item::Verbatim(range),
        _ => return Err(ProtocolError::InvalidReply),
    };
    whole(item, end + 2, scan)
}

fn nested_item(kind: u8, length: usize, next: usize, scan: &mut Scan) -> Result<Option<(Item, usize)>, ProtocolError> {
    if length > REPLY_ELEMENTS_MAX {
        return Err(ProtocolError::ReplyTooLong);
    }
    let item = match kind {
        b'*' => Item::Nested(Nesting::Array, length),
        b'%' => Item::Nested(Nesting::Map, 2 * length),
        b'~' => Item::Nested(Nesting::Set, length),
        b'>' => Item::Nested(Nesting::Push, length),
        _ => Item::Nested(Nesting::Attribute, 2 * length + 1),
    };
    whole(item, next, scan)
}

/// Where the CR of the line at `at` is, each byte being searched once over all calls.
fn find_line_end(buf: &[u8], at: usize, scan: &mut Scan) -> Result<Option<usize>, ProtocolError> {
    let line = &buf[at..];
    let window = &line[..line.len().min(REPLY_LINE_BYTES_MAX)];
    match window[scan.searched.min(window.len())..].iter().position(|&b| b == b'\r' || b == b'\n') {
        Some(i) => {
            let end = scan.searched + i;
            if line[end] == b'\n' {
                return Err(ProtocolError::InvalidReply);
            }
            match line.get(end + 1) {
                Some(b'\n') => Ok(Some(at + end)),
                Some(_) => Err(ProtocolError::InvalidReply),
                None => {
                    *scan = Scan { searched: end, wanted: at + end + 2 };
                    Ok(None)
                }
            }
        }
        None if line.len() >= REPLY_LINE_BYTES_MAX => Err(ProtocolError::ReplyTooLong),
        None => {
            *scan = Scan { searched: line.len(), wanted: buf.len() + 1 };
            Ok(None)
        }
    }
}

/// An integer; unlike arguments of commands, replies may say `+1`.
fn integer(text: &[u8]) -> Result<i64, ProtocolError> {
    parse_integer(text.strip_prefix(b"+").unwrap_or(text)).ok_or(ProtocolError::InvalidReply)
}

fn length(text: &[u8]) -> Result<usize, ProtocolError> {
    parse_integer(text).and_then(|n| usize::try_from(n).ok()).ok_or(ProtocolError::InvalidReply)
}

fn double(text: &[u8]) -> Result<f64, ProtocolError> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or(ProtocolError::InvalidReply)
}

fn is_big(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}
