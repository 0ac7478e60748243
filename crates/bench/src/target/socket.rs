//! Requests over a pool of connections.

use std::io;
use std::time::Instant;

use client::{Answer, Ask, Pool, PoolOptions, Request, StoreUrl};

use super::Lanes;
use super::transport::{About, ArgumentSink, Transport};

/// A lane is one of the requests that a client keeps in flight.
pub(super) struct SocketTransport {
    pool: Pool,
    depth: usize,
}

impl SocketTransport {
    pub(super) fn open(store: &StoreUrl, lanes: Lanes, options: PoolOptions) -> io::Result<Self> {
        let connections = if options.connections == 0 { lanes.clients } else { options.connections.min(lanes.clients) };
        Ok(Self { pool: Pool::open(store, PoolOptions { connections, ..options })?, depth: lanes.depth })
    }
}

impl ArgumentSink for Request<'_> {
    fn arg(&mut self, bytes: &[u8]) {
        Request::arg(self, bytes);
    }

    fn number(&mut self, number: u64) {
        Request::number(self, number);
    }
}

impl Transport for SocketTransport {
    type Request<'a> = Request<'a>;

    fn request(&mut self, about: About<'_>) -> Request<'_> {
        let About { lane, key, access, arguments } = about;
        let client = if self.depth == 1 { lane as usize } else { lane as usize / self.depth };
        self.pool.request(Ask { client, token: lane, key, access, arguments })
    }

    fn finish(&mut self) {}

    fn wait(&mut self, until: Option<Instant>, each: &mut dyn FnMut(u32, Answer<'_>, Instant)) -> io::Result<()> {
        self.pool.wait(until, each)
    }
}
