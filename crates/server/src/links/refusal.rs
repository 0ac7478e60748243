//! Why a node refuses the link to another, in words for operators.

use std::fmt;

/// What to do about two stores that meet.
pub(crate) const ONE_STORE: &str = "two stores were made where one was meant (only one node is told `--init`, or `ctl \
    init` once): stop the nodes of the one that is to go, and start them again with --join and an empty data directory";

/// Longest text of a refusal, in bytes.
const TEXT_BYTES_MAX: usize = 512;

/// What kind of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// No version of the protocol that both speak.
    Version,
    /// The two belong to different stores.
    Store,
    /// The two do not know the same secret.
    Secret,
    /// A node has called itself.
    Myself,
    /// Two processes say that they are the same node.
    Duplicate,
    /// The two are connected already; nothing is wrong.
    Linked,
    /// Another node answers at that address.
    Stranger,
    /// More connections than may be.
    Full,
    /// A kind that this node does not know.
    Unknown,
    /// The certificate is not the node's, or there is none.
    Certificate,
    /// The connection has no TLS, and must have.
    Plain,
    /// The node is not in the map, and wants more than to join.
    NotInMap,
}

const KINDS: [(u8, RefusalKind); 12] = [
    (1, RefusalKind::Version),
    (2, RefusalKind::Store),
    (3, RefusalKind::Secret),
    (4, RefusalKind::Myself),
    (5, RefusalKind::Duplicate),
    (6, RefusalKind::Linked),
    (7, RefusalKind::Stranger),
    (8, RefusalKind::Full),
    (9, RefusalKind::Unknown),
    (10, RefusalKind::Certificate),
    (11, RefusalKind::Plain),
    (12, RefusalKind::NotInMap),
];

/// Why, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of thing is wrong.
    pub kind: RefusalKind,
    /// The words.
    pub text: String,
}

impl Refusal {
    pub(crate) fn new(kind: RefusalKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let code = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or(0, |(code, _)| *code);
        let mut bytes = vec![code];
        bytes.extend_from_slice(&self.text.as_bytes()[..self.text.len().min(TEXT_BYTES_MAX)]);
        bytes
    }

    /// Decodes any bytes: an unknown kind is one of a later version.
    pub(super) fn decode(bytes: &[u8]) -> Self {
        let (code, text) = bytes.split_first().map_or((0, &[][..]), |(code, text)| (*code, text));
        let kind = KINDS.iter().find(|(known, _)| *known == code).map_or(RefusalKind::Unknown, |(_, kind)| *kind);
        let text = String::from_utf8_lossy(&text[..text.len().min(TEXT_BYTES_MAX)]);
        // It ends up in a log, so it has one line.
        Self { kind, text: text.chars().filter(|c| !c.is_control()).collect() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_arrives_as_it_left() {
        for (_, kind) in KINDS {
            let refusal = Refusal::new(kind, "why");
            assert_eq!(Refusal::decode(&refusal.encode()), refusal);
        }
        assert_eq!(Refusal::decode(&[]), Refusal::new(RefusalKind::Unknown, ""));
        assert_eq!(Refusal::decode(b"\x02a\nb\xFF"), Refusal::new(RefusalKind::Store, "ab\u{FFFD}"));
    }
}
