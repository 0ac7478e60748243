//! The handshake of two nodes: pure, bytes in and bytes out.
//!
//! ```text
//! dialer    greeting →                            who I am, what for, a nonce
//! acceptor            ← greeting, proof           the same; it knows the secret
//! dialer    proof →                               so do I
//! acceptor            ← welcome                   from here on: messages
//! ```
//! In place of any part either side may refuse, in words, and closes. A proof is HMAC-SHA256, keyed with the secret,
//! over both greetings and the prover's side: it holds for this connection only, and for what both said in it. What
//! follows is neither signed nor encrypted by it: TLS beneath may do that.

use super::greeting::{Greeting, Part, Purpose, VERSIONS, first_part};
use super::identity::Identity;
use super::refusal::{ONE_STORE, Refusal, RefusalKind};
use hmac_sha256::HMAC;
use vocab::{NodeId, StoreId};

/// The node at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The node.
    pub node: NodeId,
    /// The store that it belongs to, if it does.
    pub store: Option<StoreId>,
    /// What it tells everybody of itself.
    pub hello: Vec<u8>,
    /// The version of the protocol that both speak.
    pub version: u16,
    /// What the connection is for.
    pub purpose: Purpose,
    /// Its port for clients with TLS; 0: none.
    pub tls_port: u16,
    pub(super) instance: u64,
}

#[cfg(test)]
impl Peer {
    /// A node that has proven who it is.
    pub(crate) fn of(node: NodeId, hello: Vec<u8>, purpose: Purpose) -> Self {
        Self { node, store: None, hello, version: VERSIONS.1, purpose, tls_port: 0, instance: 0 }
    }
}

/// What came of the bytes so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// More have to come.
    Wait,
    /// Acceptor: it is who it says. Now it is to be welcomed or refused.
    Proven(Peer),
    /// Dialer: welcome.
    Welcome(Peer),
    /// This side refuses; the words are in the output.
    Refuse(Refusal),
    /// The other side does.
    Refused(Refusal),
    /// No node talks so.
    Garbage,
}

/// One side of a handshake.
pub(super) struct Handshake {
    identity: Identity,
    dialer: bool,
    /// What the dialer wants.
    purpose: Option<Purpose>,
    /// The node that is expected to answer.
    expected: Option<NodeId>,
    mine: Vec<u8>,
    theirs: Option<(Vec<u8>, Peer)>,
    /// The other side has proven what it says.
    proven: bool,
}

impl Handshake {
    /// The dialer's side; its greeting goes to `output`.
    pub(super) fn dial(
        identity: Identity,
        purpose: Purpose,
        expected: Option<NodeId>,
        nonce: [u8; 32],
        output: &mut Vec<u8>,
    ) -> Self {
        let mine = Greeting::new(&identity, purpose, nonce).encode();
        Part::Greeting(&mine).encode(output);
        Self { identity, dialer: true, purpose: Some(purpose), expected, mine, theirs: None, proven: false }
    }

    /// The acceptor's side.
    pub(super) fn accept(identity: Identity, nonce: [u8; 32]) -> Self {
        let mine = Greeting::new(&identity, Purpose::Link, nonce).encode();
        Self { identity, dialer: false, purpose: None, expected: None, mine, theirs: None, proven: false }
    }

    /// Who the other side says that it is; it need not have proven it yet.
    pub(super) fn peer(&self) -> Option<&Peer> {
        self.theirs.as_ref().map(|(_, peer)| peer)
    }

    /// Takes what it can from the beginning of `input`; answers how many bytes that was.
    pub(super) fn advance(&mut self, input: &[u8], output: &mut Vec<u8>) -> (usize, Step) {
        let mut used = 0;
        loop {
            match first_part(&input[used..]) {
                Err(()) => return (used, Step::Garbage),
                Ok(None) => return (used, Step::Wait),
                Ok(Some((part, length))) => {
                    used += length;
                    match self.take(&part, output) {
                        Ok(None) => {}
                        Ok(Some(step)) => return (used, step),
                        Err(refusal) => {
                            refuse(&refusal, output);
                            return (used, Step::Refuse(refusal));
                        }
                    }
                }
            }
        }
    }

    fn take(&mut self, part: &Part, output: &mut Vec<u8>) -> Result<Option<Step>, Refusal> {
        match (part, &self.theirs) {
            (Part::Refused(why), _) => Ok(Some(Step::Refused(Refusal::decode(why)))),
            (Part::Greeting(bytes), None) => {
                let Some(greeting) = Greeting::decode(bytes) else { return Ok(Some(Step::Garbage)) };
                let peer = self.check(greeting)?;
                self.theirs = Some((bytes.to_vec(), peer));
                if !self.dialer {
                    Part::Greeting(&self.mine).encode(output);
                    Part::Proof(self.proof(false)).encode(output);
                }
                Ok(None)
            }
            (Part::Proof(proof), Some((_, peer))) if !self.proven => {
                let peer = peer.clone();
                if !HMAC::verify(self.transcript(!self.dialer), &self.identity.secret, proof) {
                    let text = format!("node {} does not know the secret of node {}", peer.node, self.identity.node);
                    return Err(Refusal::new(RefusalKind::Secret, text + " (setting peer-secret)"));
                }
                self.proven = true;
                if self.dialer {
                    Part::Proof(self.proof(true)).encode(output);
                    return Ok(None);
                }
                Ok(Some(Step::Proven(peer)))
            }
            (Part::Welcome, Some((_, peer))) if self.proven && self.dialer => Ok(Some(Step::Welcome(peer.clone()))),
            _ => Ok(Some(Step::Garbage)),
        }
    }

    fn check(&self, theirs: Greeting) -> Result<Peer, Refusal> {
        let me = &self.identity;
        let refuse = |kind, text| Err(Refusal::new(kind, text));
        let version = theirs.versions.1.min(VERSIONS.1);
        if version < theirs.versions.0.max(me.least_version) {
            let text = format!(
                "node {} speaks versions {} to {} of the protocol between nodes, node {} speaks {} to {}",
                theirs.node, theirs.versions.0, theirs.versions.1, me.node, me.least_version, VERSIONS.1
            );
            return refuse(RefusalKind::Version, text);
        }
        if theirs.node == me.node {
            if theirs.instance == me.instance {
                return refuse(RefusalKind::Myself, format!("node {} has called itself", me.node));
            }
            let text = format!("two processes say that they are node {}", me.node);
            return refuse(RefusalKind::Duplicate, text);
        }
        if let (Some(mine), Some(their)) = (me.store, theirs.store)
            && mine != their
        {
            let text = format!(
                "node {} belongs to store {their}, node {} to store {mine}; {}",
                theirs.node, me.node, ONE_STORE
            );
            return refuse(RefusalKind::Store, text);
        }
        if let Some(expected) = self.expected
            && expected != theirs.node
        {
            let text = format!("node {} answers where node {expected} is expected", theirs.node);
            return refuse(RefusalKind::Stranger, text);
        }
        let Some(purpose) = self.purpose.or(theirs.purpose) else {
            let text = format!("node {} wants a connection of a kind that node {} does not know", theirs.node, me.node);
            return refuse(RefusalKind::Unknown, text);
        };
        let Greeting { node, store, hello, tls_port, instance, .. } = theirs;
        Ok(Peer { node, store, hello, version, purpose, tls_port, instance })
    }

    fn proof(&self, by_dialer: bool) -> [u8; 32] {
        HMAC::mac(self.transcript(by_dialer), &self.identity.secret)
    }

    fn transcript(&self, by_dialer: bool) -> Vec<u8> {
        let theirs = self.theirs.as_ref().map_or(&[][..], |(bytes, _)| bytes);
        let (dialer, acceptor) = if self.dialer { (&self.mine[..], theirs) } else { (theirs, &self.mine[..]) };
        let mut bytes = if by_dialer { b"dialer".to_vec() } else { b"acceptor".to_vec() };
        for greeting in [dialer, acceptor] {
            bytes.extend_from_slice(&(greeting.len() as u32).to_le_bytes());
            bytes.extend_from_slice(greeting);
        }
        bytes
    }
}

/// The acceptor's last word, if it agrees.
pub(super) fn welcome(output: &mut Vec<u8>) {
    Part::Welcome.encode(output);
}

/// Either side's last word, if it does not.
pub(super) fn refuse(refusal: &Refusal, output: &mut Vec<u8>) {
    Part::Refused(&refusal.encode()).encode(output);
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
