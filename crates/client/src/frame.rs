//! Reads replies without copying them.

use resp::ProtocolError;
use vocab::limits::{BULK_BYTES_MAX, NESTING_MAX};

/// The next thing in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A status.
    Simple(&'a [u8]),
    /// An error.
    Error(&'a [u8]),
    /// An integer.
    Int(i64),
    /// A string.
    Bulk(&'a [u8]),
    /// Nothing.
    Null,
    /// A boolean.
    Boolean(bool),
    /// A double or a big number, as text.
    Number(&'a [u8]),
    /// An array, a set or a push of so many items, which follow.
    Array(usize),
    /// A map of so many pairs, which follow.
    Map(usize),
}

/// Longest line of a reply, in bytes.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// A place in a buffer of replies.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Items<'a> {
    /// From the beginning of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next item; none when its end is not there.
    ///
    /// # Errors
    /// The bytes are no reply.
    pub fn take(&mut self) -> Result<Option<Item<'a>>, ProtocolError> {
        let Some(&kind) = self.bytes.get(self.at) else { return Ok(None) };
        let rest = &self.bytes[self.at + 1..];
        let Some(length) = line_length(rest)? else { return Ok(None) };
        let line = &rest[..length];
        let mut next = self.at + 1 + length + 2;
        let item = match kind {
            b'+' => Item::Simple(line),
            b'-' => Item::Error(line),
            b':' => Item::Int(resp::parse_integer(line).ok_or(ProtocolError::InvalidReply)?),
            b'$' | b'!' | b'=' => {
                let Some(length) = count(line)? else {
                    self.at = next;
                    return Ok(Some(Item::Null));
                };
                let Some(bytes) = self.bytes.get(next..next + length) else { return Ok(None) };
                match self.bytes.get(next + length..next + length + 2) {
                    Some(b"\r\n") => next += length + 2,
                    Some(_) => return Err(ProtocolError::InvalidReply),
                    None => return Ok(None),
                }
                if kind == b'!' { Item::Error(bytes) } else { Item::Bulk(bytes) }
            }
            b'*' | b'~' | b'>' => count(line)?.map_or(Item::Null, Item::Array),
            b'%' => count(line)?.map_or(Item::Null, Item::Map),
            b'_' => Item::Null,
            b'#' => Item::Boolean(line == b"t"),
            b',' | b'(' => Item::Number(line),
            other => return Err(ProtocolError::UnknownType(other)),
        };
        self.at = next;
        Ok(Some(item))
    }

    /// How many bytes have been read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }
}

fn line_length(rest: &[u8]) -> Result<Option<usize>, ProtocolError> {
    let searched = &rest[..rest.len().min(LINE_BYTES_MAX)];
    match searched.iter().position(|&byte| byte == b'\r') {
        Some(end) if rest.len() <= end + 1 => Ok(None),
        Some(end) if rest[end + 1] == b'\n' => Ok(Some(end)),
        Some(_) => Err(ProtocolError::InvalidReply),
        None if rest.len() >= LINE_BYTES_MAX => Err(ProtocolError::ReplyTooLong),
        None => Ok(None),
    }
}

fn count(line: &[u8]) -> Result<Option<usize>, ProtocolError> {
    match resp::parse_integer(line) {
        Some(-1) => Ok(None),
        Some(n @ 0..) if n as u64 <= BULK_BYTES_MAX as u64 => Ok(Some(n as usize)),
        Some(0..) => Err(ProtocolError::ReplyTooLong),
        _ => Err(ProtocolError::InvalidReply),
    }
}

/// The length of the reply that `bytes` begins with; none when its end is not there.
///
/// # Errors
/// The bytes are no reply.
pub fn frame_len(bytes: &[u8]) -> Result<Option<usize>, ProtocolError> {
    let mut items = Items::new(bytes);
    // What is still to come on each level of nesting.
    let mut open = [0usize; NESTING_MAX];
    let mut depth = 0;
    loop {
        let inside = match items.take()? {
            None => return Ok(None),
            Some(Item::Array(count)) => count,
            Some(Item::Map(count)) => count * 2,
            Some(_) => 0,
        };
        if inside > 0 {
            if depth == NESTING_MAX {
                return Err(ProtocolError::NestingTooDeep);
            }
            open[depth] = inside;
            depth += 1;
            continue;
        }
        loop {
            if depth == 0 {
                return Ok(Some(items.position()));
            }
            open[depth - 1] -= 1;
            if open[depth - 1] > 0 {
                break;
            }
            depth -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_reply_is_known_when_its_end_is_there() {
        for reply in [
            "+OK\r\n",
            "-ERR no\r\n",
            ":-12\r\n",
            "$3\r\na\r\n\r\n",
            "$0\r\n\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*2\r\n$1\r\na\r\n*2\r\n:1\r\n+x\r\n",
            "%1\r\n+a\r\n*1\r\n_\r\n",
            "~1\r\n#t\r\n",
            "=5\r\ntxt:a\r\n",
            ",1.5\r\n",
        ] {
            let bytes = format!("{reply}+next\r\n").into_bytes();
            assert_eq!(frame_len(&bytes), Ok(Some(reply.len())), "{reply:?}");
            for cut in 0..reply.len() {
                assert_eq!(frame_len(&bytes[..cut]), Ok(None), "{reply:?} cut at {cut}");
            }
        }
        for bad in ["?1\r\n", "$x\r\n", "$-2\r\n", "+a\rb", "$1\r\nabc", ":1x\r\n", "$99999999999\r\n"] {
            assert!(frame_len(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert_eq!(frame_len("*1\r\n".repeat(NESTING_MAX + 1).as_bytes()), Err(ProtocolError::NestingTooDeep));
    }
}
