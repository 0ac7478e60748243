//! Many connections driven by one thread: what a load generator's thread is made of.
//!
//! Requests gather in their connections' buffers until [`Pool::wait`]: one write and one read a connection and turn,
//! however many requests those hold. Nothing is allocated for a request in the steady state. A pool belongs to one
//! thread; threads share nothing.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use resp::Frame;

use crate::connection::{Answer, Connection, Failure, Reading};
use crate::timer::Timer;
use crate::{Address, Request, SlotMap};

/// What all connections of a pool read into: large enough for a turn's replies, small enough for the cache.
const SCRATCH_BYTES: usize = 256 * 1024;
const EVENTS_MAX: usize = 1024;
const TIMER: Token = Token(usize::MAX);
/// How often waiting requests are looked at, and connections that are down are tried.
const HOUSEKEEPING: Duration = Duration::from_millis(50);
/// Between two readings of the slot map.
const REFRESH_AFTER: Duration = Duration::from_millis(100);

/// How a pool is made.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Clients: each has a connection of its own to every node that it needs.
    pub clients: usize,
    /// A request without a reply for this long fails, and its connection with it.
    pub timeout: Duration,
}

/// Clients of one store.
#[derive(Debug)]
pub struct Pool {
    poll: Poll,
    events: Events,
    timer: Timer,
    options: PoolOptions,
    seed: Address,
    map: SlotMap,
    /// The socket addresses of the map's nodes.
    addresses: Vec<SocketAddr>,
    /// The map may be wrong: a node has said so, or is gone.
    stale: bool,
    refreshed_at: Instant,
    connections: Vec<Connection>,
    /// Client × node → connection.
    places: Vec<Vec<Option<usize>>>,
    dirty: Vec<usize>,
    failed: Vec<(u32, Failure)>,
    scratch: Box<[u8]>,
    now: Instant,
    housekeeping_at: Instant,
}

impl Pool {
    /// Asks the server at `seed` for the slot map. Connections are made when they are needed.
    ///
    /// # Errors
    /// The server cannot be reached, or the system gives no poll.
    pub fn open(seed: &Address, options: PoolOptions) -> io::Result<Self> {
        let map = SlotMap::fetch(seed)?;
        let poll = Poll::new()?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        let now = Instant::now();
        let addresses = map.nodes().iter().map(Address::resolve).collect::<io::Result<_>>()?;
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            timer,
            options,
            seed: seed.clone(),
            map,
            addresses,
            stale: false,
            refreshed_at: now,
            connections: Vec::new(),
            places: vec![Vec::new(); options.clients],
            dirty: Vec::new(),
            failed: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
            now,
            housekeeping_at: now,
        })
    }

    /// Begins a request of `client` about `key`. Its answer bears `token`. It leaves with the next [`Pool::wait`].
    pub fn request(&mut self, client: usize, key: &[u8], token: u32, arguments: usize) -> Request<'_> {
        let node = if self.addresses.len() == 1 { 0 } else { self.map.leader(vocab::slot_of(key)) };
        let place = match self.places[client].get(node) {
            Some(&Some(place)) => place,
            _ => self.connect(client, node),
        };
        let connection = &mut self.connections[place];
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(place);
        }
        connection.request(token, arguments, self.now)
    }

    #[cold]
    fn connect(&mut self, client: usize, node: usize) -> usize {
        let place = self.connections.len();
        self.connections.push(Connection::new(self.addresses[node], Token(place)));
        let places = &mut self.places[client];
        if places.len() <= node {
            places.resize(node + 1, None);
        }
        places[node] = Some(place);
        place
    }

    /// Sends what was asked, then waits until answers come or `until` is reached, and hands over the answers.
    /// It may return early with none.
    ///
    /// # Errors
    /// The system's poll fails. A connection's failure is an answer.
    pub fn wait(&mut self, until: Option<Instant>, each: &mut dyn FnMut(u32, Answer<'_>, Instant)) -> io::Result<()> {
        self.flush();
        if self.failed.is_empty() {
            self.poll(until)?;
        }
        self.now = Instant::now();
        let mut moved = false;
        let mut reply = |token: u32, frame: Frame<'_>, at: Instant| match frame {
            Frame::Error(line) if line.starts_with(b"MOVED ") => {
                moved = true;
                each(token, Answer::Moved, at);
            }
            frame => each(token, Answer::Reply(frame), at),
        };
        for event in &self.events {
            if event.token() == TIMER {
                self.timer.went_off();
                continue;
            }
            let connection = &mut self.connections[event.token().0];
            if event.is_writable() || event.is_error() {
                connection.on_writable(self.now, &mut self.failed);
            }
            if event.is_readable() || event.is_read_closed() {
                let reading = Reading { scratch: &mut self.scratch, failed: &mut self.failed };
                connection.on_readable(event.is_read_closed(), reading, &mut reply);
            }
        }
        self.events.clear();
        self.stale |= moved;
        if self.now >= self.housekeeping_at || !self.failed.is_empty() {
            self.keep_house();
        }
        let now = self.now;
        for (token, failure) in self.failed.drain(..) {
            each(token, Answer::Failed(failure), now);
        }
        Ok(())
    }

    fn flush(&mut self) {
        let registry = self.poll.registry();
        let (connections, failed, now) = (&mut self.connections, &mut self.failed, self.now);
        self.dirty.retain(|&place| {
            let connection = &mut connections[place];
            connection.dirty = !connection.flush(registry, now, failed);
            connection.dirty
        });
    }

    fn poll(&mut self, until: Option<Instant>) -> io::Result<()> {
        // The map or a redial must not wait for an answer that may never come.
        let mut timeout = HOUSEKEEPING;
        if let Some(until) = until {
            let now = Instant::now();
            if until <= now {
                timeout = Duration::ZERO;
            } else if until < now + HOUSEKEEPING {
                self.timer.set(until, now)?;
            }
        }
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    fn keep_house(&mut self) {
        self.housekeeping_at = self.now + HOUSEKEEPING;
        for connection in &mut self.connections {
            if connection.oldest().is_some_and(|since| self.now.duration_since(since) > self.options.timeout) {
                connection.fail(Failure::TimedOut, self.now, &mut self.failed);
            }
        }
        // Without its leader a slot has another soon; the only node of a store has no heir.
        if !self.failed.is_empty() && self.addresses.len() > 1 {
            self.stale = true;
        }
        if self.stale && self.now > self.refreshed_at + REFRESH_AFTER {
            self.refresh();
        }
    }

    /// Reads the slot map again, from whichever node answers.
    fn refresh(&mut self) {
        self.refreshed_at = self.now;
        let seeds: Vec<Address> = self.map.nodes().iter().chain([&self.seed]).cloned().collect();
        for seed in seeds {
            let Ok(map) = SlotMap::fetch(&seed) else { continue };
            let Ok(addresses) = map.nodes().iter().map(Address::resolve).collect::<io::Result<Vec<_>>>() else {
                continue;
            };
            self.stale = false;
            self.adopt(map, addresses);
            return;
        }
    }

    /// Takes over a new map. Connections stay with their addresses.
    fn adopt(&mut self, map: SlotMap, addresses: Vec<SocketAddr>) {
        for places in &mut self.places {
            let old = std::mem::replace(places, vec![None; addresses.len()]);
            for (node, place) in old.into_iter().enumerate() {
                if let Some(now_at) = addresses.iter().position(|address| *address == self.addresses[node]) {
                    places[now_at] = place;
                }
            }
        }
        self.map = map;
        self.addresses = addresses;
    }

    /// The map in use.
    #[must_use]
    pub fn map(&self) -> &SlotMap {
        &self.map
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
