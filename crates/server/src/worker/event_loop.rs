//! A worker: one thread, one event loop, some connections, some shards.
//!
//! One turn of the loop: sockets and mail are read and requests run; all writes of the turn become one entry a shard
//! and one log write for all shards; what is committed is applied; answers are sent. With `sync` the
//! kernel or a log thread makes the fsync while the loop goes on, and what arrives meanwhile is the next entry; or the loop
//! makes it, if nobody wants anything else (`commit.rs`).

use super::fenced_writes::HeldWrite;
use super::log_pipeline::UnderWay;
use crate::api::{close_session, open_session};
use crate::clients::{Connection, Outbox, Received, SendThread};
use crate::disk_reads::{DiskReader, DiskThread};
use crate::links::Links;
use crate::mailbox::{Mailbox, WaitingClient, WorkerMessage, WriteBarrier};
use crate::os::{BusyPoll, TICK, moment};
use crate::shared::NodeShared;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use node::control::Control;
use node::core::{Core, Logging};
use node::session::Session;
use node::{LoadSampler, Ticket};
use resp::Reply;
use slab::Slab;
use socket2::{SockRef, TcpKeepalive};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use vocab::{Moment, ShardId, limits};

const LISTENER: Token = Token(0);
const MAIL: Token = Token(1);
const FIRST_CONNECTION: usize = 2;
/// Times that requests which waited for writes of the same turn are looked at again within it.
const ROUNDS_MAX: usize = 4;

pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) store: Arc<NodeShared>,
    pub(crate) poll: Poll,
    listener: Option<TcpListener>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) outbox: Outbox,
    /// The replicas that this worker owns.
    pub(crate) core: Core,
    /// The links to other nodes: the first worker's, unless the node is a store by itself.
    pub(crate) links: Option<Links>,
    /// This node's part in the control of the store: the first worker's.
    pub(crate) control: Option<Control>,
    /// Log writes of this turn whose fsync has not begun.
    pub(crate) staged: Vec<Logging>,
    /// Clients wanted other things than writes in this turn.
    pub(crate) served_others: bool,
    /// This thread made an fsync in the last turn: the more writes are there for the next one, the better.
    pub(crate) synced_here: bool,
    /// Sends answers while this thread goes on, and the last round of them. None until that is of use.
    pub(crate) send_thread: Option<SendThread>,
    pub(crate) last_round: u64,
    pub(crate) may_have_send_thread: bool,
    /// How many clients an fsync's turn answers of late, times `TURNS_NOTED`.
    pub(crate) clients_of_late: usize,
    /// The log has a ring, of which this worker hears.
    pub(crate) has_ring: bool,
    /// Those that log threads have, oldest first.
    pub(crate) logging: VecDeque<UnderWay>,
    /// When the oldest of them began, or the one before it ended.
    pub(crate) logging_since: Instant,
    /// Until when it is known whether there is room for a log write, and whether there is none.
    pub(crate) room_known_until_us: u64,
    pub(crate) short_of_room: bool,
    /// Of writes that its shards have taken and not yet proposed.
    pub(crate) queued_bytes: usize,
    /// None where the kernel has no rings.
    pub(crate) disk: Option<DiskReader>,
    /// Takes most of many reads. None until that is of use.
    pub(crate) disk_thread: Option<DiskThread>,
    pub(crate) may_have_disk_thread: bool,
    /// What is told of those that waited for the disk and need not any longer.
    pub(crate) thawed: Vec<WorkerMessage>,
    /// Connections to be looked at in this turn.
    pub(crate) ready: Vec<usize>,
    buffer: Vec<u8>,
    pub(crate) scratch: Reply,
    /// When the last command was done.
    pub(crate) clock: Instant,
    pub(crate) seed: u64,
    /// Which slots it reads of.
    pub(crate) sampler: LoadSampler,
    /// Replies that are held back: until when, for whom.
    pub(crate) delayed: Vec<(Instant, Ticket, Vec<u8>)>,
    /// Clients that wait for followers.
    pub(crate) waits: Vec<WaitingClient>,
    next_tick: Instant,
    /// Replicas that are to be closed, and who waits for that.
    pub(crate) releases: Vec<(ShardId, SyncSender<()>)>,
    /// Writes of slots that are between two shards.
    pub(crate) held_writes: Vec<HeldWrite>,
    /// No writes are proposed before this.
    pub(crate) paused_until: Instant,
    /// Shards whose writes are held back for a backup that has no snapshot of them yet.
    pub(crate) barriers: Vec<WriteBarrier>,
    next_accept: usize,
    generation: u32,
    pub(crate) now: Moment,
    /// When the requests that are being run were there, in µs of the steady clock.
    pub(crate) arrived_us: u64,
    pub(crate) stopping: bool,
}

/// What a worker begins with.
pub(crate) struct WorkerSetup {
    pub(crate) index: usize,
    pub(crate) store: Arc<NodeShared>,
    pub(crate) poll: Poll,
    pub(crate) mailbox: Arc<Mailbox>,
    /// Where clients connect: the first worker's.
    pub(crate) listener: Option<TcpListener>,
    pub(crate) core: Core,
    /// The links to other nodes: the first worker's, unless the node is a store by itself.
    pub(crate) links: Option<Links>,
    /// This node's part in the control of the store: the first worker's.
    pub(crate) control: Option<Control>,
}

impl Worker {
    pub(crate) fn new(setup: WorkerSetup) -> io::Result<Self> {
        let WorkerSetup { index, store, poll, mailbox, mut listener, core, links, control } = setup;
        if let Some(listener) = &mut listener {
            poll.registry().register(listener, LISTENER, Interest::READABLE)?;
        }
        Ok(Self {
            index,
            outbox: Outbox::new(index, store.clone()),
            store,
            poll,
            listener,
            mailbox,
            core,
            links,
            control,
            staged: Vec::new(),
            served_others: false,
            synced_here: false,
            send_thread: None,
            last_round: 0,
            may_have_send_thread: false,
            clients_of_late: 0,
            has_ring: false,
            logging: VecDeque::new(),
            logging_since: Instant::now(),
            room_known_until_us: 0,
            short_of_room: false,
            queued_bytes: 0,
            disk: None,
            disk_thread: None,
            may_have_disk_thread: false,
            thawed: Vec::new(),
            ready: Vec::new(),
            buffer: vec![0; limits::READ_BUFFER_BYTES],
            scratch: Reply::default(),
            clock: Instant::now(),
            seed: index as u64,
            sampler: LoadSampler::new(index as u64),
            delayed: Vec::new(),
            waits: Vec::new(),
            next_tick: Instant::now() + TICK,
            releases: Vec::new(),
            held_writes: Vec::new(),
            paused_until: Instant::now(),
            barriers: Vec::new(),
            next_accept: index,
            generation: 0,
            now: moment(),
            arrived_us: 0,
            stopping: false,
        })
    }

    pub(crate) fn mail_token() -> Token {
        MAIL
    }

    /// Runs until told to stop.
    pub(crate) fn run(mut self) {
        // Every worker has processors enough to itself, and no other node is to be thought of.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.may_have_disk_thread = self.store.is_alone() && 2 * self.store.workers() <= processors;
        let readers = self.store.workers() * if self.may_have_disk_thread { 2 } else { 1 };
        match DiskReader::new(&self.store, readers, self.poll.registry(), MAIL) {
            Ok(disk) => self.disk = Some(disk),
            Err(e) => log::info!("no io_uring here ({e}): threads read from disk instead"),
        }
        if let Ok(registry) = self.poll.registry().try_clone() {
            self.open_ring(&registry, MAIL);
        }
        let mut events = Events::with_capacity(1024);
        // No other worker needs the processors, and no link to another node.
        let is_alone = self.store.workers() == 1 && self.links.is_none() && processors > 1;
        let mut busy_poll = BusyPoll::new(is_alone);
        self.may_have_send_thread = is_alone;
        let mut mail = Vec::new();
        while !self.stopping {
            let mut next = self.send_delayed().map_or(self.next_tick, |at| at.min(self.next_tick));
            if self.core.is_busy() && self.may_log() {
                next = next.min(self.paused_until);
            }
            let deadline = self.links.as_ref().and_then(Links::deadline);
            next = deadline.map_or(next, |deadline| next.min(deadline));
            self.ready.append(&mut self.outbox.unstalled);
            let unfinished = self.links.as_ref().is_some_and(Links::is_unfinished);
            let behind =
                unfinished || !self.outbox.cold.is_empty() || self.disk.as_mut().is_some_and(DiskReader::is_behind);
            let wait = if self.ready.is_empty() && self.outbox.dirty.is_empty() && !behind {
                next.saturating_duration_since(Instant::now())
            } else {
                Duration::ZERO
            };
            let reads = self.disk.as_mut().filter(|_| processors > 1).map_or(0, DiskReader::with_disk);
            let span = busy_poll.span(self.synced_here, reads);
            if let Err(e) = busy_poll.poll(&mut self.poll, &mut events, wait, span)
                && e.kind() != io::ErrorKind::Interrupted
            {
                log::error!("the event loop fails: {e}");
                return;
            }
            self.now = moment();
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(true),
                    MAIL => {}
                    token if self.links.as_ref().is_some_and(|links| links.owns(token)) => {
                        self.notice_link(token, event);
                    }
                    token => self.notice(token.0 - FIRST_CONNECTION, event),
                }
            }
            self.note_ring();
            self.mailbox.take(&mut mail);
            for message in mail.drain(..) {
                self.read_mail(message);
            }
            if unfinished || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.resume_links();
            }
            if Instant::now() >= self.next_tick {
                self.next_tick = Instant::now() + TICK;
                self.tick();
            }
            self.serve();
        }
        self.finish();
    }

    /// Runs requests, commits writes, sends answers.
    fn serve(&mut self) {
        (self.served_others, self.synced_here) = (false, false);
        self.clear_again();
        self.send_held_writes();
        for _ in 0..ROUNDS_MAX {
            for id in std::mem::take(&mut self.ready) {
                self.receive(id);
            }
            self.read_from_disk();
            self.pump();
            self.post();
            self.ready.append(&mut self.outbox.unstalled);
            if self.ready.is_empty() {
                break;
            }
        }
        self.check_waits();
        if !self.barriers.is_empty() {
            self.check_holds();
        }
        self.sync_staged();
        self.flush_all();
    }

    fn accept(&mut self, announced: bool) {
        loop {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((stream, _)) => {
                    self.next_accept = (self.next_accept + 1) % self.store.workers();
                    if self.next_accept == self.index {
                        self.connect(stream);
                    } else if let Some(mailbox) = self.store.mailbox(self.next_accept) {
                        mailbox.send(WorkerMessage::Connection(stream.into()));
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    if announced {
                        log::warn!("cannot accept a connection: {e}");
                    }
                    return;
                }
            }
        }
    }

    pub(crate) fn connect(&mut self, mut stream: mio::net::TcpStream) {
        let _ = stream.set_nodelay(true);
        let seconds = self.store.config.number("tcp-keepalive").unwrap_or_default().unsigned_abs();
        if seconds > 0 {
            let probes = TcpKeepalive::new().with_time(Duration::from_secs(seconds));
            let _ = SockRef::from(&stream).set_tcp_keepalive(&probes);
        }
        let Some(session) = self.open_session(&stream) else {
            // Told why, then closed; whether it hears it is up to the client.
            let _ = io::Write::write(&mut stream, b"-ERR max number of clients reached\r\n");
            return;
        };
        self.generation = self.generation.wrapping_add(1);
        let entry = self.outbox.connections.vacant_entry();
        let token = Token(entry.key() + FIRST_CONNECTION);
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self.poll.registry().register(&mut stream, token, interest) {
            Ok(()) => {
                entry.insert(Connection::new(stream, self.generation, session));
            }
            Err(e) => {
                log::warn!("cannot serve a connection: {e}");
                self.close_session(&session);
            }
        }
    }

    fn open_session(&self, stream: &mio::net::TcpStream) -> Option<Session> {
        let address = |address: io::Result<std::net::SocketAddr>| address.map(|a| a.to_string()).unwrap_or_default();
        open_session(
            &self.store,
            address(stream.peer_addr()),
            address(stream.local_addr()),
            self.index,
            self.now.wall_ms,
        )
    }

    pub(crate) fn close_session(&self, session: &Session) {
        close_session(&self.store, session);
    }

    fn notice(&mut self, id: usize, event: &mio::event::Event) {
        let Some(connection) = self.outbox.connections.get_mut(id) else { return };
        if event.is_writable() {
            connection.set_writable();
            self.outbox.touch(id);
        }
        if event.is_readable() || event.is_read_closed() {
            let Some(connection) = self.outbox.connections.get_mut(id) else { return };
            connection.readable = true;
            connection.hung_up |= event.is_read_closed();
            self.ready.push(id);
        }
    }

    /// Reads what a client has sent and runs the requests in it.
    fn receive(&mut self, id: usize) {
        let Some(connection) = self.outbox.connections.get_mut(id) else { return };
        connection.stalled = false;
        if connection.held_until_ms > self.now.wall_ms || connection.is_full() {
            self.stall(id);
            return;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        if !connection.input.is_empty() {
            // What stalled before goes first.
            let input = std::mem::take(&mut connection.input);
            let used = self.run_requests(id, &input);
            self.keep(id, input, used);
        }
        if let Some(connection) = self.outbox.connections.get_mut(id)
            && connection.readable
            && !connection.stalled
            && !connection.deaf
        {
            match connection.receive(&mut buffer) {
                Received::Closed => {
                    connection.readable = false;
                    connection.deaf = true;
                    self.outbox.touch(id);
                }
                Received::Drained(n) => {
                    // A short read means that there is no more, unless the end itself is still to be read.
                    connection.readable = connection.hung_up;
                    if connection.readable {
                        self.ready.push(id);
                    }
                    self.take_in(id, &buffer[..n]);
                }
                Received::More(n) => {
                    self.ready.push(id);
                    self.take_in(id, &buffer[..n]);
                }
            }
        }
        self.buffer = buffer;
    }

    fn take_in(&mut self, id: usize, bytes: &[u8]) {
        let Some(connection) = self.outbox.connections.get_mut(id) else { return };
        if bytes.is_empty() {
            return;
        }
        self.store.stats.worker(self.index).received(bytes.len());
        if connection.input.is_empty() {
            let used = self.run_requests(id, bytes);
            if let Some(connection) = self.outbox.connections.get_mut(id)
                && used < bytes.len()
                && !connection.deaf
            {
                connection.input.extend_from_slice(&bytes[used..]);
            }
        } else {
            connection.input.extend_from_slice(bytes);
            if connection.input.len() < connection.parse.wanted() {
                return;
            }
            let input = std::mem::take(&mut connection.input);
            let used = self.run_requests(id, &input);
            self.keep(id, input, used);
        }
    }

    /// Gives a connection back the bytes that were not used.
    fn keep(&mut self, id: usize, mut input: Vec<u8>, used: usize) {
        let Some(connection) = self.outbox.connections.get_mut(id) else { return };
        if connection.deaf || used == input.len() {
            return;
        }
        input.drain(..used);
        connection.input = input;
    }

    /// Leaves a connection's next request where it is until something changes.
    pub(crate) fn stall(&mut self, id: usize) {
        if let Some(connection) = self.outbox.connections.get_mut(id) {
            connection.stalled = true;
            self.outbox.stalled.push((id, connection.generation));
        }
    }

    fn tick(&mut self) {
        // Those that could not be accepted for want of descriptors are not announced again.
        self.accept(false);
        self.answer_for_want_of_room();
        self.core.tick(self.now, &mut self.outbox);
        self.tick_links();
        self.store.stats.tick(self.now.wall_ms);
        if self.index == 0 {
            self.store.log_threads.tick();
            self.store.backups.sweep();
        }
        // Whoever waits for a time, for room, or was told to end.
        self.outbox.unstall_all();
        self.ready.append(&mut self.outbox.unstalled);
        self.look_at_clients();
    }

    fn look_at_clients(&mut self) {
        let (store, now_ms) = (self.store.clone(), self.now.wall_ms);
        for (id, connection) in &mut self.outbox.connections {
            connection.note_buffers();
            let idle = connection.is_quiet() && connection.session.timed_out(&*store, now_ms);
            let ends = connection.session.closing() || connection.deaf;
            if idle || (ends && !connection.dirty) {
                connection.deaf = true;
                connection.dirty = true;
                self.outbox.dirty.push(id);
            }
        }
    }

    fn finish(&mut self) {
        // What is under way is finished: the log threads outlive the workers.
        self.end_send_thread();
        self.flush_all();
        for id in self.outbox.connections.iter().map(|(id, _)| id).collect::<Vec<_>>() {
            self.close(id);
        }
        // Set apart for the last flush, so that the next start has nothing to replay.
        for shard in self.core.shards() {
            shard.seal();
        }
        self.store.stopping.store(true, Ordering::Release);
    }
}

/// All connections of a worker.
pub(crate) type Connections = Slab<Connection>;
