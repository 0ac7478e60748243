//! The connections of a worker: which of them have something to read, to send, or wait.

use super::after_exec;
use super::answers::{answer_command, answer_transaction, hand_on, note_transaction, outcome_for};
use super::blocking_request::BlockingRequest;
pub(super) use super::client_id::ClientId;
use super::complaints::Complaints;
use super::connection::Connection;
use super::connections::{Away, Connections};
use super::crowds::Crowds;
use super::gathers::{GATHERED, Gathered, Gathers, ShardSlots};
use super::large_request::{Job, Lender, Loan};
use super::letters::{Letter, OwedMax};
use super::moved_waits::{WaitsOn, waits_on};
use super::output_watch::Slow;
use super::ready::{Next, Ready};
use super::reply_queue::{Begun, Effect, Mask};
use super::request::Request;
use super::rounds::Rounds;
use super::send_queue::Unsent;
use super::slow::note_slow;
use super::upstreams::Upstreams;
use crate::api::{DIVIDED, close_session, open_session};
use crate::disk_reads::make_next_part;
use crate::mailbox::{BlockingMessage, ReplyPart, StoreAnswers, WorkerMessage};
use crate::net::Stream;
use crate::os::SteadyTime;
use crate::peers::ask;
use crate::security::shown_certificate;
use crate::shared::NodeShared;
use cluster::Databases;
use mio::event::Event;
use mio::{Interest, Registry, Token};
use node::blocking::End;
use node::config::{ClientClass, OutputLimit};
use node::session::{Durability, Keyspace, note_denied_in_script};
use node::tracking::Registers;
use node::{DeniedCall, Outcome, Ticket, Write};
use resp::table::Group;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::Slot;

/// The token of the first connection's events; the others follow.
pub(crate) const FIRST_CONNECTION: usize = 8;

/// After which time a node that has not begun a wait is told again that it is to end.
const UNBLOCK_PAUSE: Duration = Duration::from_millis(5);
/// The same of one that was told already.
const UNBLOCK_PAUSE_AGAIN: Duration = Duration::from_millis(10);

/// The connections of a worker.
pub(crate) struct Clients {
    worker: usize,
    store: Arc<NodeShared>,
    pub(super) connections: Connections,
    /// The generation of the connection that was accepted last.
    generation: u32,
    /// Connections to be read, or whose input is to be looked at.
    ready: Vec<usize>,
    /// Connections that have had their turn, and have more to be looked at: they come behind those.
    going_on: Vec<usize>,
    /// Connections with something to send, or that are to be closed.
    dirty: VecDeque<usize>,
    /// Connections whose next request waits.
    stalled: Vec<ClientId>,
    gathers: Gathers,
    /// What subscribers may leave unread, as of the last tick.
    pub(super) subscribers_limit: OutputLimit,
    /// Requests to all shards that are to be made again, because shards were split meanwhile.
    divided: Vec<Ticket>,
    /// Waits at other nodes that are to end, and whose clients do not take what they are sent: the place, the client, how, and which wait.
    unblocked_later: Vec<(usize, u64, End, Ticket)>,
    /// Connections to other nodes.
    pub(super) upstreams: Upstreams,
    /// What was set for single databases at the last call of `databases_are_exchanged`.
    databases: Arc<Databases>,
    /// The way to what runs large requests.
    lender: Lender,
    /// What goes to very many of them.
    pub(super) crowds: Crowds,
    /// Of those that were closed because it is unknown what has become of a request.
    complaints: Complaints,
    /// What they take of memory, as far as it was noted.
    pub(super) taken_bytes: u64,
    /// Looks at all of them, which go some at a time.
    pub(super) rounds: Rounds,
}

impl Clients {
    pub(crate) fn new(worker: usize, store: Arc<NodeShared>) -> Self {
        Self {
            worker,
            subscribers_limit: store.config.output_limit(ClientClass::Pubsub),
            databases: store.known().databases.clone(),
            store,
            connections: Connections::default(),
            generation: 0,
            ready: Vec::new(),
            going_on: Vec::new(),
            dirty: VecDeque::new(),
            stalled: Vec::new(),
            gathers: Gathers::default(),
            divided: Vec::new(),
            unblocked_later: Vec::new(),
            upstreams: Upstreams::default(),
            lender: Lender::default(),
            crowds: Crowds::default(),
            complaints: Complaints::default(),
            taken_bytes: 0,
            rounds: Rounds::default(),
        }
    }

    /// Those of the thread for large requests of a worker: one connection alone, which has that place at the worker.
    pub(super) fn of_thread(worker: usize, store: Arc<NodeShared>, id: usize, connection: Connection) -> Self {
        Self { connections: Connections::of_thread(id, connection), ..Self::new(worker, store) }
    }

    /// Whether they are the thread's: other connections are reached by way of mailboxes alone.
    pub(super) fn are_of_thread(&self) -> bool {
        self.connections.are_of_thread()
    }

    /// From now on a thread runs large requests.
    pub(super) fn lend_by(&mut self, lender: Lender) {
        self.lender = lender;
    }

    /// Whether there is a thread for large requests, which is another one.
    pub(super) fn may_lend(&self) -> bool {
        !self.are_of_thread() && self.lender.has_thread()
    }

    /// The connection that the thread has.
    pub(super) fn into_lent(self) -> Option<(usize, Connection)> {
        self.connections.into_lent()
    }

    /// The connection of the thread's clients is back, with what of it is to be done; what has come of it meanwhile.
    pub(super) fn take_back(&mut self, of_thread: Self) -> Option<(ClientId, Away)> {
        self.ready.extend(&of_thread.ready);
        self.divided.extend(of_thread.divided);
        self.upstreams.take_over(of_thread.upstreams);
        let (id, mut connection) = of_thread.connections.into_lent()?;
        let client = ClientId { id, generation: connection.generation };
        if connection.is_stalled() {
            self.stalled.push(client);
        }
        connection.mark_clean();
        let away = self.connections.give_back(id, connection)?;
        Some((client, away))
    }

    /// A write of a connection that is not submitted yet.
    pub(super) fn pending_write(&mut self, ticket: &Ticket) -> Option<&Write> {
        let client = ClientId::from(ticket);
        self.find(client)?.pending_write(ticket.sequence)
    }

    /// Whether some connection is away.
    pub(super) fn any_away(&self) -> bool {
        self.connections.any_away()
    }

    /// What comes of the connection with that place, if it is away.
    pub(super) fn away_at(&mut self, place: usize) -> Option<&mut Away> {
        self.connections.away_at(place)
    }

    /// What comes of a connection, if it is away.
    pub(super) fn away(&mut self, client: ClientId) -> Option<&mut Away> {
        self.connections.away(client)
    }

    /// Whether there is such a connection, here or away.
    pub(super) fn is_there(&mut self, client: ClientId) -> bool {
        self.find(client).is_some() || self.away(client).is_some()
    }

    /// The node.
    pub(super) fn store(&self) -> &Arc<NodeShared> {
        &self.store
    }

    /// The worker's number.
    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    pub(super) fn get(&self, id: usize) -> Option<&Connection> {
        self.connections.get(id)
    }

    pub(super) fn get_mut(&mut self, id: usize) -> Option<&mut Connection> {
        self.connections.get_mut(id)
    }

    /// The connection of that id, unless another has its place now.
    pub(super) fn find(&mut self, client: ClientId) -> Option<&mut Connection> {
        self.connections.get_mut(client.id).filter(|connection| connection.generation == client.generation)
    }

    /// Serves a new connection, whose requests name keys of that keyspace.
    pub(crate) fn connect(&mut self, stream: Stream, keyspace: Keyspace, registry: &Registry, now_ms: u64) {
        let _ = stream.set_nodelay();
        let seconds = self.store.config.number("tcp-keepalive").unwrap_or_default().unsigned_abs();
        if seconds > 0 {
            let _ = stream.set_keepalive(Duration::from_secs(seconds));
        }
        let (peer, local) = (stream.peer_addr().ok(), stream.local_addr().ok());
        let kind = (keyspace, stream.is_encrypted());
        let mut session = match open_session(&self.store, peer, local, self.worker, now_ms, kind) {
            Ok(session) => session,
            Err(text) => {
                // The client is told why, and may not hear it before the close.
                stream.send(format!("-{text}\r\n").as_bytes());
                return;
            }
        };
        let is_encrypted = stream.is_encrypted();
        if is_encrypted && keyspace != Keyspace::Stored {
            session.secured(shown_certificate(&stream).as_ref(), &*self.store);
        }
        self.generation = self.generation.wrapping_add(1);
        let id = self.connections.next_place();
        session.placed(id as u32, self.generation);
        let token = Token(id + FIRST_CONNECTION);
        match stream.register(registry, token, Interest::READABLE | Interest::WRITABLE) {
            Ok(()) => {
                let mut connection = Connection::new(stream, self.generation, session);
                // The first requests may have come with the end of the handshake.
                connection.notice(is_encrypted, false);
                if is_encrypted && keyspace == Keyspace::Cluster {
                    connection.set_tls_ports(self.store.tls.ports.clone());
                }
                self.connections.add(connection);
                self.ready.extend(is_encrypted.then_some(id));
            }
            Err(e) => {
                log::warn!("cannot serve a connection: {e}");
                close_session(&self.store, &session);
            }
        }
    }

    /// Closes a connection that is here. Answers whether the send thread may have a handle of its stream.
    pub(super) fn close(&mut self, id: usize, registry: &Registry) -> bool {
        let Some(mut connection) = self.connections.remove(id) else { return false };
        self.taken_bytes = self.taken_bytes.saturating_sub(connection.session.entry().total_bytes());
        // Writes that were not submitted: their bytes are not on their way any more.
        for write in connection.take_pending_writes() {
            self.store.write_left(write.bytes());
        }
        if let Some(ticket) = connection.blocking().map(BlockingRequest::ticket) {
            connection.end_blocking(ticket.sequence);
            end_wait(&self.store, ticket, End::Gone);
        }
        for upstream in connection.take_forwarding().into_iter().flat_map(|forwarding| forwarding.upstreams) {
            self.upstreams.remove(&upstream, Some(registry));
        }
        let _ = connection.stream().deregister(registry);
        let is_lent = connection.is_lent();
        if connection.session.has_much() && self.lender.has_thread() {
            // To forget what it has subscribed to, or queued, takes as long as that was.
            self.lender.lend(Loan { id, connection, job: Job::Close });
            return is_lent;
        }
        connection.session.leave(&*self.store);
        close_session(&self.store, &connection.session);
        if connection.holds_much() {
            self.store.pool.run(Box::new(move || drop(connection)));
        }
        is_lent
    }

    /// Lends a connection to the thread for large requests; gives the job back if there is no thread, or no such connection here.
    pub(super) fn lend(&mut self, id: usize, job: Job) -> Result<(), Job> {
        if !self.may_lend() {
            return Err(job);
        }
        let store = &self.store;
        let max = |is_subscriber| OwedMax::of(store, is_subscriber);
        let Some(mut connection) = self.connections.lend(id, max, job.answer_bytes()) else { return Err(job) };
        connection.mark_clean();
        connection.unstall();
        self.lender.lend(Loan { id, connection, job });
        Ok(())
    }

    /// A connection is back that more has come for than its client may be owed: it is closed.
    pub(super) fn close_slow(&mut self, client: ClientId) {
        let store = self.store.clone();
        let worker = self.worker;
        if let Some(connection) = self.find(client) {
            note_slow(&store, worker, connection, Slow::Hard);
            self.touch(client.id);
        }
    }

    /// Whether databases have other slots than at the last call: SWAPDB.
    pub(super) fn databases_are_exchanged(&mut self) -> bool {
        let databases = {
            let known = self.store.known();
            if Arc::ptr_eq(&self.databases, &known.databases) {
                return false;
            }
            known.databases.clone()
        };
        let before = std::mem::replace(&mut self.databases, databases);
        // Other changes of the map bring the same anew: that of a setting, of a node, or a new script.
        !before.are_ordered_as(&self.databases)
    }

    /// What is set for single databases, as of the last call of `databases_are_exchanged`.
    pub(super) fn databases(&self) -> &Arc<Databases> {
        &self.databases
    }

    pub(super) fn ids(&self) -> Vec<usize> {
        self.connections.ids()
    }

    /// The event loop has noticed something of a connection.
    pub(crate) fn notice(&mut self, event: &Event) {
        let id = event.token().0 - FIRST_CONNECTION;
        let readable = event.is_readable() || event.is_read_closed();
        let Some(connection) = self.connections.get_mut(id) else {
            if let Some(away) = self.connections.away_at(id) {
                away.noticed.readable |= readable;
                away.noticed.hung_up |= event.is_read_closed();
                away.noticed.writable |= event.is_writable();
            }
            return;
        };
        if readable {
            connection.notice(true, event.is_read_closed());
        }
        if event.is_writable() {
            connection.set_writable();
            self.touch(id);
        }
        if readable {
            self.ready.push(id);
        }
    }

    /// Whether some connection can be read or looked at.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.going_on.is_empty()
    }

    /// Whether some connection has something to send.
    pub(crate) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The connections with something to send, or that are to be closed.
    pub(super) fn dirty(&self) -> &VecDeque<usize> {
        &self.dirty
    }

    /// The next of them: that one has waited for the longest.
    pub(super) fn next_dirty(&mut self) -> Option<usize> {
        self.dirty.pop_front()
    }

    /// Takes all of them.
    pub(super) fn take_dirty(&mut self) -> VecDeque<usize> {
        std::mem::take(&mut self.dirty)
    }

    /// They are looked at again the next time.
    pub(super) fn put_dirty(&mut self, ids: impl IntoIterator<Item = usize>) {
        self.dirty.extend(ids);
    }

    /// It is looked at first the next time.
    pub(super) fn put_dirty_first(&mut self, id: usize) {
        self.dirty.push_front(id);
    }

    /// The connections that can be read or looked at now.
    pub(crate) fn take_ready(&mut self) -> Ready {
        Ready::take(&mut self.ready, &mut self.going_on)
    }

    /// The next of them.
    pub(crate) fn next_ready(&mut self, ready: &mut Ready) -> Option<usize> {
        let Next { id, goes_on } = ready.next()?;
        if goes_on && let Some(connection) = self.connections.get_mut(id) {
            connection.has_turn();
        }
        Some(id)
    }

    /// What is left of them is looked at in the next turn.
    pub(crate) fn put_off(&mut self, ready: Ready) {
        ready.put_off(&mut self.ready, &mut self.going_on);
    }

    /// A connection has had its turn, and goes on when others have had theirs.
    pub(super) fn go_on_later(&mut self, id: usize) {
        if let Some(connection) = self.connections.get_mut(id)
            && connection.put_off()
        {
            self.going_on.push(id);
        }
    }

    /// Has a connection looked at in this turn.
    pub(super) fn set_ready(&mut self, id: usize) {
        self.ready.push(id);
    }

    /// Notes that a connection has something to send.
    pub(super) fn touch(&mut self, id: usize) {
        if let Some(connection) = self.connections.get_mut(id)
            && connection.mark_dirty()
        {
            self.dirty.push_back(id);
        }
    }

    /// Leaves a connection's next request where it is until something changes.
    pub(super) fn stall(&mut self, id: usize) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.stall();
            self.stalled.push(ClientId { id, generation: connection.generation });
        }
    }

    /// Registers a request as under way, if nothing under way forbids it: the ticket for its answer. Otherwise the connection
    /// stalls. `at`: when the request began.
    pub(super) fn begin(&mut self, request: Request<'_>, mask: Mask, effect: Effect, at: SteadyTime) -> Option<Ticket> {
        if self.get(request.id)?.must_wait(mask, effect) {
            self.stall(request.id);
            return None;
        }
        self.register(request, mask, effect, at)
    }

    /// Registers a request as under way, whatever else is: the ticket for its answer.
    pub(super) fn register(
        &mut self,
        request: Request<'_>,
        mask: Mask,
        effect: Effect,
        at: SteadyTime,
    ) -> Option<Ticket> {
        let Request { id, spec, args } = request;
        let connection = self.connections.get_mut(id)?;
        let traced = self.store.config.traces_commands();
        let sequence = connection.begin(mask, effect, Begun::new(spec, at, args, traced));
        let Durability { sync, acks } = connection.session.durability_for(spec, args);
        Some(Ticket {
            worker: self.worker as u32,
            connection: id as u32,
            generation: connection.generation,
            sequence,
            proto: connection.session.proto(),
            slot: Slot(0),
            wider: None,
            sync,
            acks,
            reply_bytes: 0,
            may_wait: false,
            registers: Registers::Nothing,
            early: None,
        })
    }

    /// Has the next request of every stalled connection looked at again.
    pub(crate) fn unstall_all(&mut self) {
        for client in self.stalled.drain(..) {
            // A connection that goes on already, or that is in the list twice, is left alone.
            if let Some(connection) = self.connections.get_mut(client.id)
                && connection.generation == client.generation
                && connection.unstall()
            {
                self.ready.push(client.id);
            }
        }
    }

    /// A pause of a connection is over.
    pub(super) fn end_pause(&mut self, id: usize) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.pause_until(0);
        }
    }

    /// A connection is looked at, and what it owes is sent.
    pub(super) fn look_again(&mut self, id: usize) {
        if self.connections.get(id).is_some_and(|connection| !connection.is_stalled()) {
            self.ready.push(id);
        }
        self.touch(id);
        self.go_on(id);
    }

    /// A script of a connection was refused commands, which is told in the logs of refusals.
    pub(crate) fn denied_in_script(&mut self, ticket: &Ticket, denied: Vec<DeniedCall>) {
        let client = ClientId::from(ticket);
        let store = self.store.clone();
        let Some(connection) = self.find(client) else { return };
        denied.into_iter().for_each(|denied| note_denied_in_script(&connection.session, denied, &*store));
    }

    /// A connection waits in its blocking command.
    pub(crate) fn waits(&mut self, ticket: &Ticket) {
        let client = ClientId::from(ticket);
        let store = self.store.clone();
        let Some(connection) = self.find(client) else { return };
        let Some(is_refused) = connection.begin_wait(ticket.sequence) else { return };
        let entry = connection.session.entry();
        store.clients.block(entry, client.id);
        if is_refused {
            let entry = entry.id;
            self.unblock(client.id, entry, End::Error, None);
        }
    }

    /// CLIENT UNBLOCK: the wait of a connection is to end; this one, if it was tried before.
    pub(crate) fn unblock(&mut self, place: usize, client: u64, end: End, tried: Option<Ticket>) {
        let Some(connection) =
            self.connections.get_mut(place).filter(|connection| connection.session.entry().id == client)
        else {
            return;
        };
        let Some(blocking) = connection.blocking_mut() else { return };
        let ticket = blocking.ticket();
        if !blocking.ends(tried.is_none()) || tried.is_some_and(|tried| tried.sequence != ticket.sequence) {
            return;
        }
        if !connection.is_forwarding() {
            return end_wait(&self.store, ticket, end);
        }
        // It waits at another node, which alone knows whether it is being served at this moment. Where that node has not
        // begun the wait yet, it is told again: the client that asked was answered that the wait ends.
        let word = end.word().unwrap_or_default();
        let waits_at = connection.forwarding().waits_at();
        if tried.is_some() && connection.has_much_unsent() {
            // How the wait has ended is not read before the client takes what it is sent: it need not be told so often.
            self.unblocked_later.retain(|(other, ..)| *other != place);
            return self.unblocked_later.push((place, client, end, ticket));
        }
        let pause = if tried.is_some() { UNBLOCK_PAUSE_AGAIN } else { UNBLOCK_PAUSE };
        let (store, worker) = (self.store.clone(), self.worker);
        self.store.pool.run_patient(Box::new(move || {
            let told = waits_at.map(|(node, id)| {
                let id = id.to_string();
                ask(&store, node, &[b"CLIENT", b"UNBLOCK", id.as_bytes(), word.as_bytes()])
            });
            let mut end = end;
            match told {
                Some(Ok(answer)) if answer.starts_with(b":1") => return,
                // A release before this one does not know how a wait moves.
                Some(Ok(answer)) if answer.starts_with(b"-") && end == End::Moved => end = End::Error,
                Some(Err(why)) if tried.is_none() => log::info!("a client is not told to wait no longer: {why}"),
                _ => {}
            }
            std::thread::sleep(pause);
            let again = BlockingMessage::Unblock { place, client, end, tried: Some(ticket) };
            store.mailboxes.tell(worker, WorkerMessage::Blocking(again));
        }));
    }

    /// Tells nodes again that waits are to end, of clients that were behind.
    pub(super) fn unblock_again(&mut self) {
        for waiting in std::mem::take(&mut self.unblocked_later) {
            let (place, client, end, ticket) = waiting;
            match self.away_at(place) {
                // Another thread has the connection for a while.
                Some(_) => self.unblocked_later.push(waiting),
                None => self.unblock(place, client, end, Some(ticket)),
            }
        }
    }

    /// Ends the wait of a connection whose client is gone.
    pub(super) fn end_abandoned(&mut self, id: usize) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if let Some(ticket) = connection.take_abandoned() {
            self.store.clients.unblock(connection.session.entry());
            end_wait(&self.store, ticket, End::Gone);
        }
    }

    /// A ticket for the answers of several shards to one request.
    pub(super) fn gather(&mut self, ticket: Ticket, shards: &[ShardSlots]) -> Ticket {
        self.gathers.begin(ticket, shards)
    }

    /// Requests to all shards that are to be made again.
    pub(super) fn take_divided(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.divided)
    }

    /// Puts a reply behind those of the requests under way.
    pub(super) fn put(&mut self, id: usize, reply: &[u8]) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.put(reply);
        }
    }

    /// Puts an answer, unless CLIENT REPLY has switched it off.
    pub(super) fn put_unless_silent(&mut self, id: usize, reply: &[u8]) {
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.session.silent()
        {
            connection.put(reply);
        }
    }

    /// Whether what goes to very many of them is not with all of them, or not all are looked at.
    pub(crate) fn is_behind(&self) -> bool {
        !self.crowds.is_empty() || self.rounds.are_under_way()
    }

    /// Whether so much of that waits that entries should tell nothing more.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowds.is_crowded()
    }

    /// A connection with one of the messages that go to it unasked: closed, if it takes them too slowly.
    pub(super) fn pushed(&mut self, id: usize) {
        if let Some(connection) = self.connections.get_mut(id)
            && connection.owes_more(self.subscribers_limit.hard_bytes)
        {
            note_slow(&self.store, self.worker, connection, Slow::Hard);
        }
        self.touch(id);
    }

    /// The send thread gives back what it could not send.
    pub(super) fn take_back_unsent(&mut self, unsent: &Unsent) {
        if let Some(away) = self.away(unsent.to) {
            let Unsent { to, bytes, broken } = unsent;
            return away.letters.keep(Letter::Unsent(Unsent { to: *to, bytes: bytes.clone(), broken: *broken }));
        }
        if let Some(connection) = self.find(unsent.to) {
            connection.take_back(&unsent.bytes, unsent.broken);
            // What is sent at once leaves nothing by which the next flush would notice that the client takes more.
            if connection.goes_on() {
                self.ready.push(unsent.to.id);
            }
            self.touch(unsent.to.id);
            self.go_on(unsent.to.id);
        }
    }

    /// Gives a part of a long reply to one of this worker's connections.
    pub(crate) fn deliver_part(&mut self, part: ReplyPart) {
        let ReplyPart { ticket, bytes, rest } = part;
        let client = ClientId::from(&ticket);
        let Some(connection) = self.find(client) else { return };
        // It is answered from here: nothing waits for what another node would answer.
        connection.take_kept(ticket.sequence);
        match rest {
            Some(stream) => connection.part(ticket, bytes, stream),
            None => connection.break_off(),
        }
        self.touch(client.id);
        self.go_on(client.id);
    }

    /// Gives a part of the answer of a request to its connection; the next one comes from elsewhere.
    pub(super) fn pass_on(&mut self, ticket: &Ticket, bytes: Vec<u8>) {
        let client = ClientId::from(ticket);
        if let Some(connection) = self.find(client) {
            connection.pass_on(ticket, bytes);
            self.touch(client.id);
        }
    }

    /// Closes a connection without a further byte.
    pub(super) fn break_off(&mut self, client: ClientId) {
        if let Some(connection) = self.find(client) {
            connection.break_off();
            self.touch(client.id);
        }
    }

    /// Has the next part of a connection's long reply made or read, if its client has taken enough.
    pub(super) fn go_on(&mut self, id: usize) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if !connection.has_much_unsent() {
            connection.places_of_upstreams().for_each(|place| self.upstreams.let_go(place));
        }
        if !connection.has_long_reply() {
            return;
        }
        if let Some((ticket, stream)) = connection.next_long_reply() {
            let store = self.store.clone();
            self.store.pool.run(Box::new(move || make_next_part(&store, ticket, stream)));
        }
    }

    /// Gives an answer to one of this worker's connections.
    pub(crate) fn deliver(&mut self, ticket: &Ticket, reply: &[u8]) {
        self.deliver_either(ticket, Cow::Borrowed(reply));
    }

    /// The same for an answer that this worker owns: a long one is not copied.
    pub(crate) fn deliver_owned(&mut self, ticket: &Ticket, reply: Vec<u8>) {
        self.deliver_either(ticket, Cow::Owned(reply));
    }

    fn deliver_either(&mut self, ticket: &Ticket, reply: Cow<'_, [u8]>) {
        if ticket.connection == GATHERED {
            if let Some(gathered) = self.gathers.collect(ticket, &reply) {
                self.deliver_gathered(gathered);
            }
            return;
        }
        let id = ticket.connection as usize;
        let Some(connection) = self.connections.get(id) else {
            if let Some(away) = self.away(ticket.into()) {
                away.letters.keep(Letter::Answer(*ticket, reply.into_owned()));
            }
            return;
        };
        let mut reply = reply;
        if connection.answers_much(ticket, reply.len()) {
            match self.lend(id, Job::Answer(*ticket, reply.into_owned())) {
                Err(Job::Answer(_, back)) => reply = Cow::Owned(back),
                _ => return,
            }
        }
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.generation != ticket.generation {
            return;
        }
        let kept = connection.take_kept(ticket.sequence);
        if reply.first() == Some(&b'-') && connection.is_of_database() {
            match outcome_for(connection, ticket, &reply) {
                Some((Outcome::NotMade, spec)) => {
                    if let Some(kept) = kept {
                        let Some(answer) = hand_on(&self.store, connection, ticket, (spec, kept)) else {
                            return self.upstreams.wait(ticket.into());
                        };
                        reply = Cow::Owned(answer);
                    }
                }
                Some((Outcome::Unknown, spec)) if spec.group != Group::Basalt => {
                    return self.end_unknown(id, ticket, &reply);
                }
                _ => {}
            }
        }
        match waits_on(&self.store, connection, ticket, &reply) {
            WaitsOn::No => {}
            WaitsOn::Here => return,
            WaitsOn::AtAnother => return self.upstreams.wait(ticket.into()),
        }
        if let Some(blocking) = connection.blocking().filter(|blocking| blocking.ticket().sequence == ticket.sequence)
            && let Some(ended) = blocking.in_place_of(&reply, connection.is_of_node())
        {
            reply = Cow::Owned(ended);
        }
        if connection.end_blocking(ticket.sequence) {
            self.store.clients.unblock(connection.session.entry());
        }
        match connection.transaction.take_if(|running| running.sequence == ticket.sequence) {
            Some(running) => {
                note_transaction(&self.store, connection, &running, ticket);
                if after_exec::begin(&self.store, &connection.session, &running, *ticket, &reply) {
                    connection.transaction = Some(running);
                    return;
                }
                answer_transaction(&self.store, connection, running, ticket, (&reply, &[]));
            }
            None => answer_command(&self.store, self.worker, connection, ticket, reply),
        }
        self.unstall(id);
    }

    /// Closes a connection whose client does not know clusters, because it is unknown what has become of a request: a Redis that
    /// does not know that is one that has died, and clients know what to do then.
    fn end_unknown(&mut self, id: usize, ticket: &Ticket, reply: &[u8]) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let from = &connection.session.entry().addr;
        let why = String::from_utf8_lossy(reply.get(1..).unwrap_or_default());
        let line = format!("the client of a database at {from} is closed, as by a Redis that dies: {}", why.trim_end());
        if let Some(line) = self.complaints.note(why.trim_end(), line, Instant::now()) {
            log::warn!("{line}");
        }
        if connection.end_blocking(ticket.sequence) {
            self.store.clients.unblock(connection.session.entry());
        }
        connection.transaction.take_if(|running| running.sequence == ticket.sequence);
        connection.end_before(ticket.sequence);
        self.unstall(id);
    }

    /// A transaction has all that it has asked of the whole store.
    pub(crate) fn deliver_store_answers(&mut self, answers: &StoreAnswers) {
        let StoreAnswers { ticket, outcome, answers } = answers;
        let client = ClientId::from(ticket);
        let store = self.store.clone();
        let Some(connection) = self.find(client) else { return };
        if let Some(running) = connection.transaction.take_if(|running| running.sequence == ticket.sequence) {
            answer_transaction(&store, connection, running, ticket, (outcome, answers));
        }
        self.unstall(client.id);
    }

    /// A connection has an answer to be sent, and its next request is looked at again.
    pub(super) fn unstall(&mut self, id: usize) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.unstall() {
            self.ready.push(id);
        }
        self.touch(id);
        self.go_on(id);
    }

    fn deliver_gathered(&mut self, gathered: Gathered) {
        let Gathered { ticket, shards, error } = gathered;
        let divided = |error: &Vec<u8>| error[1..].starts_with(DIVIDED.as_bytes());
        if error.as_ref().map_or_else(|| self.store.known().shards() != shards, divided) {
            return self.divided.push(ticket);
        }
        self.deliver(&ticket, error.as_deref().unwrap_or(b"+OK\r\n"));
    }
}

/// Has the wait of a blocking command ended, whichever worker owns its shard by now.
fn end_wait(store: &NodeShared, ticket: Ticket, end: End) {
    store.mailboxes.tell_all(|| WorkerMessage::Blocking(BlockingMessage::EndWait(ticket, end)));
}
