//! Frames between the laboratory and an adapter. All numbers are big-endian.
//!
//! | frame | after its length (4 bytes) |
//! |-|-|
//! | greeting and its answer | lines of `name=value` |
//! | request | token (4), what it does (1), number of arguments (4), each with its length (4) |
//! | answer | token (4), outcome (1), and a RESP2 reply, or the word for what was in the way |

use std::io;

use client::{Access, Answer, Failure, Frame};
use resp::FrameState;
use vocab::limits::ADAPTER_FRAME_BYTES_MAX;

use super::super::transport::ArgumentSink;

/// A frame's length.
pub(super) const HEAD_BYTES: usize = 4;
/// Token and outcome of an answer.
const ANSWER_HEAD_BYTES: usize = 5;

/// The answer is a reply.
const REPLY: u8 = 0;
/// The store refused it: nothing was done.
const REFUSED: u8 = 1;
/// It may have been done.
const UNKNOWN: u8 = 2;

/// What came is no frame of this protocol.
pub(super) fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the adapter sent {what}"))
}

/// A request being written at the end of a buffer.
pub(super) struct RequestWriter<'a>(pub(super) &'a mut Vec<u8>);

impl ArgumentSink for RequestWriter<'_> {
    fn arg(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn number(&mut self, number: u64) {
        let mut digits = [0_u8; 20];
        let mut at = digits.len();
        let mut rest = number;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.arg(&digits[at..]);
    }
}

/// Begins a request; answers where it begins, for [`end_frame`].
pub(super) fn begin_request(out: &mut Vec<u8>, token: u32, access: Access, arguments: usize) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    out.extend_from_slice(&token.to_be_bytes());
    out.push(match access {
        Access::Read => 0,
        Access::LeaderRead => 1,
        Access::Write => 2,
        Access::Repeatable => 3,
    });
    out.extend_from_slice(&(arguments as u32).to_be_bytes());
    start
}

/// Completes the frame that begins at `start`.
pub(super) fn end_frame(out: &mut [u8], start: usize) {
    let length = out.len() - start - HEAD_BYTES;
    assert!(length <= ADAPTER_FRAME_BYTES_MAX, "a request of {length} bytes");
    out[start..start + HEAD_BYTES].copy_from_slice(&(length as u32).to_be_bytes());
}

/// The body of the frame at the beginning of `bytes`; none while it is incomplete.
pub(super) fn take_frame(bytes: &[u8]) -> io::Result<Option<&[u8]>> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    let length = u32::from_be_bytes(*head) as usize;
    if length > ADAPTER_FRAME_BYTES_MAX {
        return Err(damaged(&format!("a frame of {length} bytes")));
    }
    Ok(rest.get(..length))
}

/// An answer's token, and how to read the rest once its request is known.
pub(super) fn read_token(body: &[u8]) -> io::Result<(u32, RawAnswer<'_>)> {
    let Some((head, rest)) = body.split_first_chunk::<ANSWER_HEAD_BYTES>() else {
        return Err(damaged("an answer without a head"));
    };
    let token = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    Ok((token, RawAnswer { kind: head[4], rest }))
}

/// The rest of an answer.
pub(super) struct RawAnswer<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl<'a> RawAnswer<'a> {
    /// What became of a request that does `access`.
    pub(super) fn read(self, access: Access) -> io::Result<Answer<'a>> {
        match self.kind {
            REPLY => match Frame::read(self.rest, &mut FrameState::default()) {
                Ok(Some((frame, length))) if length == self.rest.len() => Ok(Answer::Reply(frame)),
                _ => Err(damaged("what is no reply")),
            },
            REFUSED => self.failure().map(Answer::Again),
            // A write that may have been done is not made twice.
            UNKNOWN if access == Access::Write => self.failure().map(Answer::Failed),
            UNKNOWN => self.failure().map(Answer::Again),
            other => Err(damaged(&format!("an outcome {other}"))),
        }
    }

    fn failure(&self) -> io::Result<Failure> {
        let known = Failure::ALL.into_iter().find(|failure| failure.name().as_bytes() == self.rest);
        known.ok_or_else(|| damaged("a word that means nothing here"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_request_lies_as_documented() {
        let mut out = Vec::new();
        let start = begin_request(&mut out, 7, Access::Write, 2);
        let mut request = RequestWriter(&mut out);
        request.arg(b"GET");
        request.number(1203);
        end_frame(&mut out, start);
        let expected = b"\0\0\0\x18\0\0\0\x07\x02\0\0\0\x02\0\0\0\x03GET\0\0\0\x041203";
        assert_eq!(out, expected);
        assert_eq!(take_frame(&out).unwrap(), Some(&expected[4..]));
        (0..out.len()).for_each(|cut| assert_eq!(take_frame(&out[..cut]).unwrap(), None));
    }

    #[test]
    fn answers_are_read_by_what_was_asked() {
        let read = |body: &'static [u8], access| read_token(body).and_then(|(_, outcome)| outcome.read(access));
        let timeout = b"\0\0\0\x09\x02timeout";
        assert_eq!(read_token(timeout).unwrap().0, 9);
        assert_eq!(read(timeout, Access::Write).unwrap(), Answer::Failed(Failure::TimedOut));
        assert_eq!(read(timeout, Access::Repeatable).unwrap(), Answer::Again(Failure::TimedOut));
        assert_eq!(read(b"\0\0\0\0\x01CLUSTERDOWN", Access::Write).unwrap(), Answer::Again(Failure::Down));
        assert_eq!(read(b"\0\0\0\0\0:1\r\n", Access::Write).unwrap(), Answer::Reply(Frame::Int(1)));
        let bad: [&[u8]; 6] =
            [b"", b"\0\0\0\0", b"\0\0\0\0\x04", b"\0\0\0\0\0:1", b"\0\0\0\0\0:1\r\n:2\r\n", b"\0\0\0\0\x01what"];
        for body in bad {
            assert!(read(body, Access::Read).is_err(), "{body:?}");
        }
        assert!(take_frame(&u32::MAX.to_be_bytes()).is_err());
    }
}
