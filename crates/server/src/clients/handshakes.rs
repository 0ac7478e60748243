//! Clients whose TLS handshakes are under way: they are no clients yet.
//!
//! Invariant: at most `TLS_HANDSHAKES_MAX` of them, each for at most `HANDSHAKE_WITHIN`. When there are as many, the oldest
//! makes room: a client that never ends its handshake keeps no other client out.

use super::forward::FIRST_UPSTREAM;
use crate::net::Stream;
use crate::security::NodeTls;
use crate::shared::NodeShared;
use mio::event::Event;
use mio::{Interest, Registry, Token};
use node::session::Keyspace;
use slab::Slab;
use std::io;
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
/// Between two log lines about handshakes that fail.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);
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
    began: Instant,
}

/// The handshakes of a worker's event loop.
pub(crate) struct Handshakes {
    store: Arc<NodeShared>,
    all: Slab<Handshake>,
    complained: Option<Instant>,
    /// Failures that were not logged.
    unlogged: u64,
}

impl Handshakes {
    pub(crate) fn new(store: Arc<NodeShared>) -> Self {
        Self { store, all: Slab::new(), complained: None, unlogged: 0 }
    }

    /// A client has connected that is to begin with TLS.
    pub(crate) fn begin(&mut self, stream: Stream, keyspace: Keyspace, registry: &Registry) {
        if self.all.len() >= TLS_HANDSHAKES_MAX
            && let Some(oldest) = self.all.iter().min_by_key(|(_, handshake)| handshake.began).map(|(key, _)| key)
        {
            self.end(oldest, registry, "too many handshakes are under way");
        }
        let entry = self.all.vacant_entry();
        match stream.register(registry, Token(FIRST_HANDSHAKE + entry.key()), Interest::READABLE | Interest::WRITABLE) {
            Ok(()) => _ = entry.insert(Handshake { stream, keyspace, began: Instant::now() }),
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
        let Handshake { stream, keyspace, .. } = self.all.remove(key);
        if let Err(why) = outcome {
            self.complain(&why);
            return None;
        }
        // Its token is another one from here on.
        let _ = stream.deregister(registry);
        Some(Secured { stream, keyspace })
    }

    /// Ends handshakes that take too long.
    pub(crate) fn tick(&mut self, registry: &Registry) {
        let late =
            |(key, handshake): (usize, &Handshake)| (handshake.began.elapsed() > HANDSHAKE_WITHIN).then_some(key);
        let late: Vec<usize> = self.all.iter().filter_map(late).collect();
        for key in late {
            self.end(key, registry, "it takes too long");
        }
    }

    fn end(&mut self, key: usize, registry: &Registry, why: &str) {
        let Some(Handshake { stream, .. }) = self.all.try_remove(key) else { return };
        let _ = stream.deregister(registry);
        self.complain(&format!("the TLS handshake of the client at {} is broken off: {why}", from(&stream)));
    }

    /// Logs a failure, unless one was logged just now.
    fn complain(&mut self, text: &str) {
        if self.complained.is_some_and(|at| at.elapsed() < COMPLAIN_EVERY) {
            self.unlogged += 1;
            return;
        }
        self.complained = Some(Instant::now());
        match std::mem::take(&mut self.unlogged) {
            0 => log::warn!("{text}"),
            more => log::warn!("{text} ({more} more such failures were not logged)"),
        }
    }
}

/// Goes on with a handshake. Answers whether it is over; the error names the client.
fn advance(stream: &mut Stream, tls: &NodeTls) -> Result<bool, String> {
    let from = from(stream);
    let fail = |e: io::Error| format!("the TLS handshake of the client at {from} fails: {e}");
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
                return Err(format!("the client at {from} does not speak TLS, and has connected to a port for TLS"));
            }
        }
    }
    stream.handshake().map_err(fail)
}

/// Where a client is, for the log.
fn from(stream: &Stream) -> String {
    stream.peer_addr().map_or_else(|_| "unknown".to_owned(), |address| address.to_string())
}
