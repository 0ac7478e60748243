//! A message as subscribers get it.

use super::kind::Name;
use replica::Bytes;
use resp::{Proto, Reply};
use std::cell::OnceCell;

/// A message to a channel: encoded when the first who gets it is found, and once for all of them.
pub(super) struct Message<'a> {
    pub(super) channel: &'a [u8],
    text: &'a [u8],
    body: OnceCell<Bytes>,
}

impl<'a> Message<'a> {
    pub(super) fn new(channel: &'a [u8], text: &'a [u8]) -> Self {
        Self { channel, text, body: OnceCell::new() }
    }

    fn body(&self) -> Bytes {
        let encode = || {
            let mut reply = Reply::new(Proto::Resp3);
            reply.bulk(self.channel);
            reply.bulk(self.text);
            reply.buf.into()
        };
        self.body.get_or_init(encode).clone()
    }
}

/// What stands before the channel and the text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Head {
    Message,
    ShardMessage,
    Pattern(Name),
}

/// An encoded message for subscribers. All of them share its body, whatever they have subscribed to: a long message that matches very many
/// patterns is in memory once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    head: Head,
    body: Bytes,
}

impl Push {
    /// For those who have subscribed to the channel.
    pub(super) fn message(message: &Message<'_>) -> Self {
        Self { head: Head::Message, body: message.body() }
    }

    /// For those who have subscribed to a pattern that the channel matches.
    pub(super) fn pattern_message(pattern: &Name, message: &Message<'_>) -> Self {
        Self { head: Head::Pattern(pattern.clone()), body: message.body() }
    }

    /// For those who have subscribed to the channel of a slot.
    pub(super) fn shard_message(message: &Message<'_>) -> Self {
        Self { head: Head::ShardMessage, body: message.body() }
    }

    /// Its length, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let head = match &self.head {
            Head::Message => b">3\r\n$7\r\nmessage\r\n".len(),
            Head::ShardMessage => b">3\r\n$8\r\nsmessage\r\n".len(),
            Head::Pattern(pattern) => {
                let digits = pattern.len().checked_ilog10().unwrap_or(0) as usize + 1;
                b">4\r\n$8\r\npmessage\r\n$\r\n\r\n".len() + digits + pattern.len()
            }
        };
        head + self.body.len()
    }

    /// What stands before the body, for a client of that protocol.
    #[must_use]
    pub fn head(&self, proto: Proto) -> Vec<u8> {
        let mut head = Vec::new();
        self.write_head(proto, &mut head);
        head
    }

    /// The body, which is shared: a long one is not copied.
    #[must_use]
    pub fn body(&self) -> Bytes {
        self.body.clone()
    }

    /// Appends it, for a client of that protocol.
    pub fn write(&self, proto: Proto, output: &mut Vec<u8>) {
        output.reserve(self.bytes());
        self.write_head(proto, output);
        output.extend_from_slice(&self.body);
    }

    fn write_head(&self, proto: Proto, output: &mut Vec<u8>) {
        let mut reply = Reply::with_buffer(std::mem::take(output), proto);
        match &self.head {
            Head::Message => {
                reply.push(3);
                reply.bulk(b"message");
            }
            Head::ShardMessage => {
                reply.push(3);
                reply.bulk(b"smessage");
            }
            Head::Pattern(pattern) => {
                reply.push(4);
                reply.bulk(b"pmessage");
                reply.bulk(pattern);
            }
        }
        *output = reply.buf;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_encoding_serves_both_protocols() {
        let shown = |push: &Push, proto| {
            let mut output = b"before ".to_vec();
            push.write(proto, &mut output);
            let output = output.split_off(b"before ".len());
            assert_eq!(output, [&push.head(proto)[..], &push.body()].concat());
            assert_eq!(output.len(), push.bytes());
            String::from_utf8_lossy(&output).replace("\r\n", " ")
        };
        let name = |bytes: &[u8]| Name::from(bytes);
        for (push, tail) in [
            (Push::message(&Message::new(b"news", b"hi")), "3 $7 message $4 news $2 hi "),
            (Push::pattern_message(&name(b"n*"), &Message::new(b"news", b"")), "4 $8 pmessage $2 n* $4 news $0  "),
            (Push::pattern_message(&name(b""), &Message::new(b"", b"x")), "4 $8 pmessage $0  $0  $1 x "),
            (
                Push::pattern_message(&name(b"**********"), &Message::new(b"c", b"x")),
                "4 $8 pmessage $10 ********** $1 c $1 x ",
            ),
            (Push::shard_message(&Message::new(b"", b"hi")), "3 $8 smessage $0  $2 hi "),
        ] {
            assert_eq!(shown(&push, Proto::Resp2), format!("*{tail}"));
            assert_eq!(shown(&push, Proto::Resp3), format!(">{tail}"));
        }
    }

    #[test]
    fn all_who_get_it_share_its_body() {
        let message = Message::new(b"news", b"hi");
        let body = Push::message(&message).body();
        for push in [Push::pattern_message(&b"n*"[..].into(), &message), Push::shard_message(&message)] {
            assert_eq!(push.body().as_ptr(), body.as_ptr());
        }
    }
}
