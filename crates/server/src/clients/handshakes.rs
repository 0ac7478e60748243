//! Connections whose TLS handshake is under way: they do not count as clients yet.
//!
//! Invariant: at most `TLS_HANDSHAKES_MAX` of them, each for at most `HANDSHAKE_WITHIN`. When there are as many, the oldest
//! makes room: a client that never ends its handshake keeps no other client out.

use super::complaints::Complaints;
use super::forward::FIRST_UPSTREAM;
use crate::net::Stream;
use crate::security::NodeTls;
use crate::shared::NodeShared;
use mio::event::Event;
use mio::{Interest, Registry, Token};
use node::acl::AuditEvent;
use node::session::{Host as _, Keyspace};
use slab::Slab;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::limits::TLS_HANDSHAKES_MAX;

/// The token of the first handshake's events; the others follow.
pub(crate) const FIRST_HANDSHAKE: usize = 1 << 39;
const _: () = assert!(FIRST_HANDSHAKE + TLS_HANDSHAKES_MAX < FIRST_UPSTREAM);

/// As much of what a client sends without TLS is read before it is answered.
const READ_BYTES: usize = 16 * 1024;
/// How long a handshake may take.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
const PLAIN: &[u8] =
    b"-ERR this port speaks TLS, and this connection does not: use rediss:// or --tls, or the port for \
    clients without TLS\r\n";

/// A client whose handshake is over.
pub(crate) struct Secured {
    pub(crate) stream: Stream,
    pub(crate) keyspace: Keyspace,
}

struct Handshake {
    stream: Stream,
    keyspace: Keyspace,
    /// Where the client is: a connection that was reset does not tell.
    from: Option<SocketAddr>,
    began: Instant,
}

/// The handshakes of a worker's event loop.
pub(crate) struct Handshakes {
    store: Arc<NodeShared>,
    all: Slab<Handshake>,
    complaints: Complaints,
}

/// Why a client was not taken.
struct Failure {
    /// What the log says of, before the client's address.
    about: &'static str,
    /// And behind it.
    why: String,
    /// Why the client's certificate was refused, if that is it.
    refused: Option<String>,
}

impl Failure {
    fn of_handshake(e: &io::Error) -> Self {
        let refused = tls::refused_certificate(e);
        let why = format!("fails: {}", refused.clone().unwrap_or_else(|| e.to_string()));
        Self { about: "the TLS handshake of the client at", why, refused }
    }
}

impl Handshakes {
    pub(crate) fn new(store: Arc<NodeShared>) -> Self {
        Self { store, all: Slab::new(), complaints: Complaints::default() }
    }

    /// A client has connected that is to begin with TLS.
    pub(crate) fn begin(&mut self, stream: Stream, keyspace: Keyspace, registry: &Registry) {
        if self.all.len() >= TLS_HANDSHAKES_MAX
            && let Some(oldest) = self.all.iter().min_by_key(|(_, handshake)| handshake.began).map(|(key, _)| key)
        {
            self.end(oldest, registry, "too many handshakes are under way");
        }
        let (entry, from) = (self.all.vacant_entry(), stream.peer_addr().ok());
        match stream.register(registry, Token(FIRST_HANDSHAKE + entry.key()), Interest::READABLE | Interest::WRITABLE) {
            Ok(()) => _ = entry.insert(Handshake { stream, keyspace, from, began: Instant::now() }),
            Err(e) => log::warn!("cannot serve a connection with TLS: {e}"),
        }
    }

    /// The event loop has noticed something of a handshake. Answers the client if its handshake is over.
    pub(crate) fn notice(&mut self, event: &Event, registry: &Registry) -> Option<Secured> {
        let key = event.token().0 - FIRST_HANDSHAKE;
        let outcome = advance(&mut self.all.get_mut(key)?.stream, &self.store.tls);
        if let Ok(false) = outcome {
            return None;
        }
        let Handshake { stream, keyspace, from, .. } = self.all.remove(key);
        if let Err(failure) = outcome {
            self.complain(&failure, from);
            return None;
        }
        // Its token is another one from here on.
        let _ = stream.deregister(registry);
        Some(Secured { stream, keyspace })
    }

    /// Ends handshakes that take too long, and logs what was held back of failures.
    pub(crate) fn tick(&mut self, registry: &Registry) {
        let late =
            |(key, handshake): (usize, &Handshake)| (handshake.began.elapsed() > HANDSHAKE_WITHIN).then_some(key);
        let late: Vec<usize> = self.all.iter().filter_map(late).collect();
        for key in late {
            self.end(key, registry, "it takes too long");
        }
        self.complaints.overdue(Instant::now()).iter().for_each(|line| log::warn!("{line}"));
    }

    fn end(&mut self, key: usize, registry: &Registry, why: &str) {
        let Some(Handshake { stream, from, .. }) = self.all.try_remove(key) else { return };
        let _ = stream.deregister(registry);
        let why = format!("is broken off: {why}");
        let failure = Failure { about: "the TLS handshake of the client at", why, refused: None };
        self.complain(&failure, from);
    }

    /// Logs a failure, unless one with the same reason was logged just now. The audit log has each certificate that was refused.
    fn complain(&mut self, failure: &Failure, from: Option<SocketAddr>) {
        let Failure { about, why, refused } = failure;
        let from = from.map_or_else(|| "an unknown address".to_owned(), |address| address.to_string());
        if let Some(refused) = refused {
            self.store.audit(&AuditEvent::of_certificate("", &from, Some(refused)));
        }
        if let Some(line) = self.complaints.note(why, format!("{about} {from} {why}"), Instant::now()) {
            log::warn!("{line}");
        }
    }
}

/// Goes on with a handshake. Answers whether it is over.
fn advance(stream: &mut Stream, tls: &NodeTls) -> Result<bool, Failure> {
    let fail = |e: io::Error| Failure::of_handshake(&e);
    if !stream.is_encrypted() {
        match stream.begins_with_tls().map_err(fail)? {
            None => return Ok(false),
            Some(true) => {
                let connection = tls.accept_client().map_err(|why| fail(io::Error::other(why)))?;
                stream.encrypt(connection).map_err(fail)?;
            }
            Some(false) => {
                // What is unread when a connection is closed would take the answer with it.
                stream.receive(&mut [0; READ_BYTES]);
                stream.send(PLAIN);
                let why = "does not speak TLS, and has connected to a port for TLS".to_owned();
                return Err(Failure { about: "the client at", why, refused: None });
            }
        }
    }
    stream.handshake().map_err(fail)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::IdleNode;
    use mio::Events;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn connect(node: &IdleNode, handshakes: &mut Handshakes) -> TcpStream {
        let (stream, socket) = IdleNode::accept();
        handshakes.begin(stream, Keyspace::Cluster, node.poll.registry());
        socket
    }

    #[test]
    fn a_client_without_tls_is_told_so_and_one_whose_handshake_fails_is_closed() {
        // This node has no certificate: it can begin no handshake.
        let cases: [(&[u8], &[u8]); 2] = [(b"PING\r\n", PLAIN), (b"\x16\x03\x01\x00\x05hello", b"")];
        for (sent, expected) in cases {
            let mut node = IdleNode::open();
            let mut handshakes = Handshakes::new(node.store.clone());
            let mut socket = connect(&node, &mut handshakes);
            assert_eq!(handshakes.all.len(), 1);
            socket.write_all(sent).unwrap();
            let mut events = Events::with_capacity(8);
            while !handshakes.all.is_empty() {
                node.poll.poll(&mut events, None).unwrap();
                for event in events.iter().filter(|event| event.token().0 >= FIRST_HANDSHAKE) {
                    assert!(handshakes.notice(event, node.poll.registry()).is_none());
                }
            }
            let mut told = Vec::new();
            // A connection that is closed before all was read is reset.
            let _ = socket.read_to_end(&mut told);
            assert_eq!(told, expected, "{}", sent.escape_ascii());
        }
    }

    #[test]
    fn handshakes_that_take_too_long_are_ended() {
        let node = IdleNode::open();
        let mut handshakes = Handshakes::new(node.store.clone());
        let (mut late, _in_time) = (connect(&node, &mut handshakes), connect(&node, &mut handshakes));
        handshakes.tick(node.poll.registry());
        assert_eq!(handshakes.all.len(), 2);
        let (key, from) = (0, late.local_addr().unwrap());
        assert_eq!(handshakes.all[key].from, Some(from));
        handshakes.all[key].began -= HANDSHAKE_WITHIN + Duration::from_secs(1);
        handshakes.tick(node.poll.registry());
        assert_eq!(handshakes.all.iter().map(|(key, _)| key).collect::<Vec<_>>(), [1]);
        assert_eq!(late.read(&mut [0; 16]).unwrap(), 0, "it is closed");
    }
}
