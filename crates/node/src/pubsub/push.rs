//! A message as subscribers get it.

use replica::Bytes;
use resp::{Proto, Reply};

/// An encoded message for subscribers, encoded once for all of them. RESP2 and RESP3 differ in the first byte alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push(Bytes);

impl Push {
    /// For those who have subscribed to the channel.
    pub(super) fn message(channel: &[u8], message: &[u8]) -> Self {
        Self::of(&[b"message", channel, message])
    }

    /// For those who have subscribed to a pattern that the channel matches.
    pub(super) fn pattern_message(pattern: &[u8], channel: &[u8], message: &[u8]) -> Self {
        Self::of(&[b"pmessage", pattern, channel, message])
    }

    /// For those who have subscribed to the channel of a slot.
    pub(super) fn shard_message(channel: &[u8], message: &[u8]) -> Self {
        Self::of(&[b"smessage", channel, message])
    }

    fn of(parts: &[&[u8]]) -> Self {
        let mut reply = Reply::new(Proto::Resp3);
        reply.push(parts.len());
        parts.iter().for_each(|part| reply.bulk(part));
        Self(reply.buf.into())
    }

    /// Its length, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Its first byte, for a client of that protocol, and the others, which are shared: a long one is not copied.
    #[must_use]
    pub fn parts(&self, proto: Proto) -> (u8, Bytes) {
        (first_of(proto), self.0.slice(1..))
    }

    /// Appends it, for a client of that protocol.
    pub fn write(&self, proto: Proto, output: &mut Vec<u8>) {
        output.reserve(self.0.len());
        output.push(first_of(proto));
        output.extend_from_slice(&self.0[1..]);
    }
}

fn first_of(proto: Proto) -> u8 {
    if proto == Proto::Resp2 { b'*' } else { b'>' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_encoding_serves_both_protocols() {
        let shown = |push: &Push, proto| {
            let mut output = Vec::new();
            push.write(proto, &mut output);
            let (first, rest) = push.parts(proto);
            assert_eq!(output, [&[first][..], &rest].concat());
            assert_eq!(output.len(), push.bytes());
            String::from_utf8_lossy(&output).replace("\r\n", " ")
        };
        for (push, tail) in [
            (Push::message(b"news", b"hi"), "3 $7 message $4 news $2 hi "),
            (Push::pattern_message(b"n*", b"news", b""), "4 $8 pmessage $2 n* $4 news $0  "),
            (Push::shard_message(b"", b"hi"), "3 $8 smessage $0  $2 hi "),
        ] {
            assert_eq!(shown(&push, Proto::Resp2), format!("*{tail}"));
            assert_eq!(shown(&push, Proto::Resp3), format!(">{tail}"));
        }
    }
}
