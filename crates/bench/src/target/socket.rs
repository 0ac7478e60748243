//! Requests over a pool of connections.

use std::io;
use std::time::{Duration, Instant};

use client::{Address, Answer, Pool, PoolOptions, Request};

use super::Lanes;
use super::transport::{ArgumentSink, Transport};

/// A lane is one of the requests that a client keeps in flight.
pub(super) struct SocketTransport {
    pool: Pool,
    depth: usize,
}

impl SocketTransport {
    pub(super) fn open(seed: &Address, lanes: Lanes, timeout: Duration) -> io::Result<Self> {
        let pool = Pool::open(seed, PoolOptions { clients: lanes.clients, timeout })?;
        Ok(Self { pool, depth: lanes.depth })
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

    fn request(&mut self, lane: u32, key: &[u8], arguments: usize) -> Request<'_> {
        self.pool.request(lane as usize / self.depth, key, lane, arguments)
    }

    fn finish(&mut self) {}

    fn wait(&mut self, until: Option<Instant>, each: &mut dyn FnMut(u32, Answer<'_>, Instant)) -> io::Result<()> {
        self.pool.wait(until, each)
    }
}
