//! Many clients driven by one thread: what a load generator's thread is made of.
//!
//! Requests gather in their connections' buffers until [`Pool::wait`]: one write and one read a connection and turn,
//! however many requests and clients those stand for. Nothing is allocated for a request in the steady state. A pool
//! belongs to one thread; threads share nothing.
//!
//! The pool follows the map without waiting for it: a MOVED changes one slot at once, and the whole map is asked for
//! beside the other requests whenever something hints that it has changed.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use resp::{Frame, Value};
use tls::ClientSide;
use vocab::{Slot, slot_of};

use crate::connection::{Connection, Greeting, Loss, Reading};
use crate::nodes::{Node, Nodes};
use crate::survey::Survey;
use crate::timer::Timer;
use crate::{Access, Address, Answer, Failure, ReadFrom, Request, Secure, SlotMap, StoreUrl};

/// What all connections of a pool read into: large enough for a turn's replies, small enough for the cache.
const SCRATCH_BYTES: usize = 256 * 1024;
const EVENTS_MAX: usize = 1024;
const TIMER: Token = Token(usize::MAX);
/// How often waiting requests are looked at, and connections that are down are tried.
const HOUSEKEEPING: Duration = Duration::from_millis(50);
/// A node that is silent for so long while requests wait is not asked for what another can answer.
const STALLED_AFTER: Duration = Duration::from_millis(150);

/// How a pool is made.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Connections to each node; clients share them in turn.
    pub connections: usize,
    /// A request without a reply for this long fails, and its connection with it.
    pub timeout: Duration,
    /// Where reads go.
    pub read_from: ReadFrom,
    /// What every connection begins with, after AUTH and READONLY.
    pub greetings: Vec<Greeting>,
}

/// A request about to be made.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Who asks: requests of one client keep their order as long as they go to one node.
    pub client: usize,
    /// What its answer bears.
    pub token: u32,
    /// What it is about; none = any node can do it.
    pub key: Option<&'a [u8]>,
    /// What it does.
    pub access: Access,
    /// How many arguments it has, the command's name included.
    pub arguments: usize,
}

/// Clients of one store.
#[derive(Debug)]
pub struct Pool {
    poll: Poll,
    events: Events,
    timer: Timer,
    connections_each: usize,
    timeout: Duration,
    read_from: ReadFrom,
    greetings: Arc<[Greeting]>,
    /// None without TLS.
    side: Option<ClientSide>,
    map: SlotMap,
    /// The nodes that lead something.
    leaders: Vec<u16>,
    nodes: Nodes,
    survey: Survey,
    connections: Vec<Connection>,
    dirty: Vec<usize>,
    losses: Vec<Loss>,
    moves: Vec<(Slot, Address)>,
    scratch: Box<[u8]>,
    now: Instant,
    housekeeping_at: Instant,
}

impl Pool {
    /// Asks one of the store's nodes for the map. Connections are made when they are needed.
    ///
    /// # Errors
    /// No node can be reached, or the system gives no poll.
    pub fn open(store: &StoreUrl, options: PoolOptions) -> io::Result<Self> {
        let follows = options.read_from == ReadFrom::Any;
        let side = store.secure.as_ref().map(Secure::load).transpose()?;
        let map = SlotMap::fetch(store, follows)?;
        let poll = Poll::new()?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        let now = Instant::now();
        let mut greetings = Vec::new();
        if let Some(login) = &store.login {
            greetings.push(Greeting { args: login.request(), must: true });
        }
        if follows {
            // A server that is no cluster refuses it, and has no other replica to read from.
            greetings.push(Greeting { args: vec![b"READONLY".to_vec()], must: false });
        }
        greetings.extend(options.greetings);
        let mut pool = Self {
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            timer,
            connections_each: options.connections.max(1),
            timeout: options.timeout,
            read_from: options.read_from,
            greetings: greetings.into(),
            side,
            map: map.clone(),
            leaders: Vec::new(),
            nodes: Nodes::default(),
            survey: Survey::new(follows, store.secure.is_some(), now),
            connections: Vec::new(),
            dirty: Vec::new(),
            losses: Vec::new(),
            moves: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
            now,
            housekeeping_at: now,
        };
        pool.adopt(map)?;
        for seed in &store.seeds {
            // The others may do without one that has no address.
            let _ = pool.nodes.place(seed);
        }
        Ok(pool)
    }

    /// Begins a request. It leaves with the next [`Pool::wait`].
    #[inline]
    pub fn request(&mut self, ask: Ask<'_>) -> Request<'_> {
        let node = self.route(&ask);
        let number = if self.connections_each == 1 { 0 } else { ask.client % self.connections_each };
        let place = self.place(node, number);
        self.connections[place].request(ask.token, ask.access, ask.arguments, self.now)
    }

    fn route(&mut self, ask: &Ask<'_>) -> usize {
        let Some(key) = ask.key else { return self.nodes.nearest(&self.leaders) };
        let slot = if self.map.nodes().len() == 1 { Slot(0) } else { slot_of(key) };
        match (ask.access, self.read_from) {
            (Access::Read, ReadFrom::Any) => self.nodes.nearest(self.map.holders(slot)),
            _ => self.map.leader(slot),
        }
    }

    /// The connection of this number to `node`, about to be written to.
    fn place(&mut self, node: usize, number: usize) -> usize {
        let place = self.nodes.connection(node, number).unwrap_or_else(|| self.connect(node, number));
        let connection = &mut self.connections[place];
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(place);
        }
        place
    }

    #[cold]
    fn connect(&mut self, node: usize, number: usize) -> usize {
        let place = self.connections.len();
        let Node { address, socket, .. } = self.nodes.get(node);
        let mut connection = Connection::new(node, *socket, Token(place), Arc::clone(&self.greetings));
        if let Some(side) = &self.side {
            connection = connection.with_tls(side.clone(), &address.host);
        }
        self.connections.push(connection);
        self.nodes.connected(node, number, place);
        place
    }

    /// Sends what was asked, then waits until answers come or `until` is reached, and hands over the answers.
    /// It may return early with none.
    ///
    /// # Errors
    /// The system's poll fails, or the store refuses a greeting: who asks may not, for one. A connection's failure is
    /// an answer.
    pub fn wait(&mut self, until: Option<Instant>, each: &mut dyn FnMut(u32, Answer<'_>, Instant)) -> io::Result<()> {
        self.flush();
        if self.losses.is_empty() {
            self.poll(until)?;
        }
        self.now = Instant::now();
        let (mut survey, mut refused) = (None, None);
        let Self { connections, moves, survey: surveyed, .. } = self;
        let mut reply = |(token, access): (u32, Access), frame: Frame<'_>, at: Instant| match frame {
            Frame::Error(line) => {
                let answer = of_error(line, access);
                if matches!(answer, Answer::Again(_)) {
                    surveyed.doubt();
                    moves.extend(moved(line));
                }
                each(token, answer, at);
            }
            frame => each(token, Answer::Reply(frame), at),
        };
        for event in &self.events {
            if event.token() == TIMER {
                self.timer.went_off();
                continue;
            }
            let connection = &mut connections[event.token().0];
            if event.is_writable() || event.is_error() {
                connection.on_writable(self.now, &mut self.losses);
            }
            if event.is_readable() || event.is_read_closed() {
                let (scratch, losses) = (&mut self.scratch, &mut self.losses);
                let mut reading = Reading { scratch, losses, survey: &mut survey, refused: &mut refused };
                if let Some((since, at)) = connection.on_readable(event.is_read_closed(), &mut reading, &mut reply) {
                    self.nodes.answered(connection.node, at.saturating_duration_since(since));
                }
            }
        }
        self.events.clear();
        if let Some(text) = refused {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        self.learn(survey);
        if self.now >= self.housekeeping_at || !self.losses.is_empty() {
            self.keep_house();
        }
        let now = self.now;
        for Loss { token, failure, again } in self.losses.drain(..) {
            if token == crate::connection::SURVEY {
                self.survey.lost();
            } else {
                each(token, if again { Answer::Again(failure) } else { Answer::Failed(failure) }, now);
            }
        }
        Ok(())
    }

    fn flush(&mut self) {
        let registry = self.poll.registry();
        let (connections, losses, now) = (&mut self.connections, &mut self.losses, self.now);
        for place in self.dirty.drain(..) {
            let connection = &mut connections[place];
            connection.dirty = false;
            connection.flush(registry, now, losses);
        }
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

    /// Takes in what this turn's answers say of the map.
    fn learn(&mut self, survey: Option<Value>) {
        for (slot, mut leader) in std::mem::take(&mut self.moves) {
            if leader.host.is_empty() {
                leader.host.clone_from(&self.nodes.get(self.map.leader(slot)).address.host);
            }
            // An unknown name leads nowhere: the whole map is on its way.
            let Ok(node) = self.nodes.place(&leader) else { continue };
            let address = self.nodes.get(usize::from(node)).address.clone();
            if usize::from(node) >= self.map.nodes().len() {
                let places: Vec<u16> = (0..self.map.nodes().len() as u16).collect();
                self.map.renumber(self.nodes.addresses(), &places);
            }
            self.map.moved(slot, &address);
        }
        let Some(answer) = survey else { return };
        let asked = self.survey.node().map(|node| self.nodes.get(node).address.clone());
        if let Some(map) = asked.and_then(|asked| self.survey.answered(&answer, &asked)) {
            // A map that names an unknown place is as good as none.
            if self.adopt(map).is_err() {
                self.survey.doubt();
            }
        }
    }

    fn keep_house(&mut self) {
        let now = self.now;
        self.housekeeping_at = now + HOUSEKEEPING;
        self.nodes.look();
        for connection in &mut self.connections {
            let waited = connection.oldest().map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
            if waited > self.timeout {
                connection.fail(Failure::TimedOut, now, &mut self.losses);
            }
            connection.stalled = waited > STALLED_AFTER;
            if connection.stalled || connection.is_waiting(now) {
                self.nodes.suspect(connection.node);
                self.survey.doubt();
            }
        }
        if self.read_from == ReadFrom::Any {
            for connection in self.connections.iter_mut().filter(|connection| connection.stalled) {
                // One that the leader alone may do comes back to it, and is left alone when the leader is another.
                if self.nodes.has_other(connection.node) {
                    connection.abandon_reads(Failure::Stalled, &mut self.losses);
                }
            }
        }
        if let Some(node) = self.survey.overdue(now) {
            if let Some(place) = self.nodes.connection(node, 0) {
                self.connections[place].forget_survey();
            }
            self.survey.lost();
        }
        if let Some(node) = self.survey.due(now, &self.nodes) {
            let place = self.place(node, 0);
            self.survey.ask(node, now, &mut self.connections[place]);
        }
    }

    /// Takes over a new map. Nodes keep their numbers, and connections their nodes.
    fn adopt(&mut self, mut map: SlotMap) -> io::Result<()> {
        let places = map.nodes().iter().map(|node| self.nodes.place(node)).collect::<io::Result<Vec<_>>>()?;
        map.renumber(self.nodes.addresses(), &places);
        let slots = || (0..vocab::SLOT_COUNT).map(Slot);
        let moved = slots().any(|slot| map.leader(slot) != self.map.leader(slot));
        self.leaders = slots().map(|slot| map.leader(slot) as u16).collect();
        self.leaders.sort_unstable();
        self.leaders.dedup();
        self.map = map;
        if moved {
            // What waits for a node that no longer leads may as well ask the one that does.
            for connection in &mut self.connections {
                if connection.stalled && connection.is_connecting() {
                    connection.fail(Failure::Moved, self.now, &mut self.losses);
                } else if connection.stalled {
                    connection.abandon_reads(Failure::Moved, &mut self.losses);
                }
            }
        }
        Ok(())
    }

    /// The map in use. Nodes that have left it keep their place among its nodes.
    #[must_use]
    pub fn map(&self) -> &SlotMap {
        &self.map
    }
}

/// What an error in reply to a request means.
#[cold]
fn of_error(line: &[u8], access: Access) -> Answer<'_> {
    match Failure::of_refusal(line) {
        Some(failure) => Answer::Again(failure),
        // The node does not know whether it was done either.
        None if line.starts_with(b"TIMEOUT ") && access == Access::Write => Answer::Failed(Failure::TimedOut),
        None if line.starts_with(b"TIMEOUT ") => Answer::Again(Failure::TimedOut),
        None => Answer::Reply(Frame::Error(line)),
    }
}

/// What `MOVED slot host:port` says.
#[cold]
fn moved(line: &[u8]) -> Option<(Slot, Address)> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    if words.next() != Some("MOVED") {
        return None;
    }
    let slot = words.next()?.parse().ok().filter(|&slot| slot < vocab::SLOT_COUNT)?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    Some((Slot(slot), Address { host: host.to_owned(), port: port.parse().ok()? }))
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
