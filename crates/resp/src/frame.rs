//! Replies as they lie in the buffer: where one ends, and what it is, without a copy.

use crate::ProtocolError;
use crate::item::{Item, Nesting, Scan, next_item};
use crate::number::short_number;
use std::ops::Range;
use vocab::limits::{NESTING_MAX, REPLY_BULK_BYTES_MAX};

/// How far the reply at the beginning of a connection's buffer has been read. One for each connection.
#[derive(Clone, Debug, Default)]
pub struct FrameState {
    at: usize,
    scan: Scan,
    /// How many values each of the open collections still lacks.
    lacking: Vec<usize>,
    /// Bytes of a bulk string, its line end among them, that come behind what was passed over.
    passing: usize,
}

impl FrameState {
    /// The least length of the buffer at which the next call can find more; a hint for reserving room.
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.scan.wanted
    }

    /// Of an incomplete reply, how many bytes at the beginning of the buffer need not be seen again: they are to be taken off it
    /// before the next call. Nothing of a value that is incomplete is among them.
    pub fn pass_over(&mut self) -> usize {
        self.scan = Scan::default();
        std::mem::take(&mut self.at)
    }

    /// The same, and what there is of a bulk string that is incomplete in `buf`, the buffer. What comes of that is not looked at.
    pub fn pass_over_bulk(&mut self, buf: &[u8]) -> usize {
        if self.passing == 0
            && buf.get(self.at) == Some(&b'$')
            && let Some((length, start)) = short_number(buf, self.at + 1)
            && length <= REPLY_BULK_BYTES_MAX
            && start + length + 2 > buf.len()
        {
            self.passing = start + length + 2 - buf.len();
            self.at = buf.len();
        }
        self.pass_over()
    }

    /// Forgets an incomplete reply, as when its bytes are thrown away.
    pub fn reset(&mut self) {
        self.at = 0;
        self.scan = Scan::default();
        self.lacking.clear();
        self.passing = 0;
    }
}

/// How many bytes the reply at the beginning of `buf` has; `None` if it is incomplete: call again when `buf` is longer,
/// with the same bytes in front. Each byte is looked at a bounded number of times over all calls.
pub fn frame_len(buf: &[u8], state: &mut FrameState) -> Result<Option<usize>, ProtocolError> {
    if buf.len() < state.scan.wanted {
        return Ok(None);
    }
    let found = find_end(buf, state);
    if !matches!(found, Ok(None)) {
        state.reset();
    }
    found
}

/// The bulk string that stands whole at `at`, and what follows it: what nearly every value of a collection is.
#[inline(always)]
fn whole_bulk(buf: &[u8], at: usize) -> Option<(Range<usize>, usize)> {
    if buf.get(at) != Some(&b'$') {
        return None;
    }
    let (length, start) = short_number(buf, at + 1)?;
    let end = start + length;
    let is_whole = length <= REPLY_BULK_BYTES_MAX && buf.get(end..end + 2) == Some(b"\r\n");
    is_whole.then_some((start..end, end + 2))
}

fn find_end(buf: &[u8], state: &mut FrameState) -> Result<Option<usize>, ProtocolError> {
    loop {
        if state.passing > 0 {
            let passed = state.passing.min(buf.len() - state.at);
            state.at += passed;
            state.passing -= passed;
            if state.passing > 0 {
                return Ok(None);
            }
        } else if let Some((_, next)) = whole_bulk(buf, state.at) {
            state.at = next;
            state.scan = Scan::default();
        } else {
            let Some((item, next)) = next_item(buf, state.at, &mut state.scan)? else {
                return Ok(None);
            };
            state.at = next;
            if let Item::Nested(_, count) = item
                && count > 0
            {
                if state.lacking.len() == NESTING_MAX {
                    return Err(ProtocolError::NestingTooDeep);
                }
                state.lacking.push(count);
                continue;
            }
        }
        // A value is complete; with the last one of a collection, so is the collection.
        while let Some(left) = state.lacking.last_mut() {
            *left -= 1;
            if *left > 0 {
                break;
            }
            state.lacking.pop();
        }
        if state.lacking.is_empty() {
            return Ok(Some(state.at));
        }
    }
}

/// A reply where it lies.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<'a> {
    /// `+…`
    Simple(&'a [u8]),
    /// `-…`, its code first.
    Error(&'a [u8]),
    /// `:…`
    Int(i64),
    /// `$…`, or a verbatim text without its format.
    Bulk(&'a [u8]),
    /// Any null.
    Null,
    /// `,…`
    Double(f64),
    /// `#…`
    Boolean(bool),
    /// `(…`, as text.
    Big(&'a [u8]),
    /// A collection.
    Nested(Nesting, Elements<'a>),
}

impl<'a> Frame<'a> {
    /// The reply at the beginning of `buf` and its length; otherwise like `frame_len`.
    #[inline]
    pub fn read(buf: &'a [u8], state: &mut FrameState) -> Result<Option<(Self, usize)>, ProtocolError> {
        if state.at == 0
            && buf.len() >= state.scan.wanted
            && let Some((item, next)) = next_item(buf, 0, &mut state.scan)?
            && let Some(frame) = Self::from_value(&item, buf)
        {
            return Ok(Some((frame, next)));
        }
        let Some(length) = frame_len(buf, state)? else {
            return Ok(None);
        };
        Ok(Self::read_complete(&buf[..length]).map(|frame| (frame, length)))
    }

    /// A frame that is known to be complete, with nothing behind it.
    fn read_complete(buf: &'a [u8]) -> Option<Self> {
        let (item, next) = next_item(buf, 0, &mut Scan::default()).ok()??;
        match item {
            Item::Nested(kind, left) => Some(Self::Nested(kind, Elements { rest: &buf[next..], left })),
            value => Self::from_value(&value, buf),
        }
    }

    fn from_value(item: &Item, buf: &'a [u8]) -> Option<Self> {
        Some(match item {
            Item::Simple(range) => Self::Simple(&buf[range.clone()]),
            Item::Error(range) => Self::Error(&buf[range.clone()]),
            Item::Int(n) => Self::Int(*n),
            Item::Bulk(range) => Self::Bulk(&buf[range.clone()]),
            Item::Null => Self::Null,
            Item::Double(d) => Self::Double(*d),
            Item::Boolean(b) => Self::Boolean(*b),
            Item::Big(range) => Self::Big(&buf[range.clone()]),
            Item::Verbatim(range) => Self::Bulk(&buf[range.start + 4..range.end]),
            Item::Nested(..) => return None,
        })
    }
}

/// The values of a collection, in order; those of maps are keys and values by turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Elements<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Frame<'a>;

    #[inline]
    fn next(&mut self) -> Option<Frame<'a>> {
        self.left = self.left.checked_sub(1)?;
        if let Some((text, next)) = whole_bulk(self.rest, 0) {
            let frame = Frame::Bulk(&self.rest[text]);
            self.rest = &self.rest[next..];
            return Some(frame);
        }
        // The whole collection has been read before, so each of its values is complete.
        let (item, next) = next_item(self.rest, 0, &mut Scan::default()).ok()??;
        let (frame, length) = match Frame::from_value(&item, self.rest) {
            Some(frame) => (frame, next),
            None => Frame::read(self.rest, &mut FrameState::default()).ok()??,
        };
        self.rest = &self.rest[length..];
        Some(frame)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Elements<'_> {}
