//! Requests of clients of databases whose shard another node leads: sent there, and answered when the answer comes.
//!
//! Each client has a connection of its own to the node, made when it is needed, over which its requests go in their order. So
//! blocking commands, transactions and watched keys are that node's to look after, as if the client had come to it.
//! Without a leader that is known, and where a node turns out not to lead, requests wait and are sent when one is known. Of what
//! was under way when a connection breaks, requests that only read are made again; the client is told that the outcome of
//! the others is unknown. A request that was refused is not made behind a later one of its slot that is made, or may be.

use super::connection::RunningTransaction;
use super::forwarded::{Deed, Forwarded};
use super::forwarding::{Forwarding, Watches, watch_words};
use super::invalidations::tell_here;
use super::is_large::is_large;
use super::large_request::BackAgain;
use super::letters::Letter;
use super::monitor::show_line;
use super::registry::{ClientId, Clients};
use super::replica_count::leader_knows_written;
use super::reply_queue::{ALL_KEYS, Effect};
use super::request::Request;
use super::turn::{Step, Turn};
use super::upstream::{Answer, Unanswered};
use crate::mailbox::{Called, WorkerMessage};
use crate::os::{SteadyTime, steady_us};
use crate::peers::call_for_client;
use crate::shared::NodeShared;
use mio::event::Event;
use mio::{Interest, Registry, Token};
use node::blocking::BlockingCommand;
use node::read::Refusal;
use node::session::{Acks, Durability, Keyspace, Transaction, WaitFor};
use node::tracking::{Invalidation, TrackingElsewhere};
use node::{EncodedCommand, Outcome, Ticket};
use resp::Reply;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use vocab::limits::{FORWARD_SPAN_US, FORWARDED_BYTES_SOFT, READ_BUFFER_BYTES};
use vocab::{Database, NodeId, Slot};

/// For how long answers of other nodes are taken in a turn; also for how long requests are sent to them.
const FORWARD_SPAN: Duration = Duration::from_micros(FORWARD_SPAN_US);

/// The token of the first connection to another node for a client; those of clients are below, those of links far above.
pub(crate) const FIRST_UPSTREAM: usize = 1 << 40;

/// Whether a request for keys of that slot goes to another node.
pub(super) fn is_for_other_node(turn: &Turn<'_>, id: usize, slot: Slot) -> bool {
    let is_database = |keyspace: Keyspace| keyspace.database().is_some();
    let store = &turn.requests.store;
    if store.is_alone() || !turn.clients.get(id).is_some_and(|client| is_database(client.session.keyspace())) {
        return false;
    }
    let known = store.known();
    let handle = known.shard_of(slot).map(|shard| known.handle(shard));
    handle.is_some_and(|handle| handle.is_none_or(|handle| !handle.leading()))
}

/// Sends a command to the node that leads the shard of its keys.
pub(super) fn command(turn: &mut Turn<'_>, request: Request<'_>, slot: Slot) -> Step {
    let Request { id, spec, args } = request;
    let may_wait = BlockingCommand::is_one(spec, args);
    let Some(ticket) = begin(turn, request, slot) else { return turn.stall(id) };
    let ticket = Ticket { may_wait, ..ticket };
    let Some(connection) = turn.clients.get_mut(id) else { return Step::Next };
    if may_wait {
        connection.begin_blocking(ticket, EncodedCommand::of(spec, args));
        turn.requests.store.clients.block(connection.session.entry(), id);
    }
    let forwarded = Forwarded::command(ticket, spec, args, steady_us());
    let (script_user, tracking) = (connection.script_user_of(spec), connection.session.tracking_elsewhere());
    Forwarder::of_turn(turn.clients).forward(id, Forwarded { script_user, tracking, ..forwarded });
    Step::Next
}

/// Sends WATCH to the node that leads the shard of its keys.
pub(super) fn watch(turn: &mut Turn<'_>, request: Request<'_>, keys: &[Vec<u8>], slot: Slot) -> Step {
    of_deed(turn, request, &watch_words(keys), (slot, Deed::Watch))
}

/// Sends WAIT or WAITAOF to the node that leads the shard of its client's database.
pub(super) fn wait(turn: &mut Turn<'_>, request: Request<'_>, slot: Slot, wait: &WaitFor) -> Step {
    let deed = Deed::Wait { is_of_disk: wait.fsynced.is_some() };
    of_deed(turn, request, request.args, (slot, deed))
}

/// Sends a command, in these words, that neither reads nor writes.
fn of_deed(turn: &mut Turn<'_>, request: Request<'_>, words: &[&[u8]], (slot, deed): (Slot, Deed)) -> Step {
    let Some(ticket) = begin(turn, request, slot) else { return turn.stall(request.id) };
    let forwarded = Forwarded::command(ticket, request.spec, words, steady_us());
    let tracking = turn.clients.get(request.id).and_then(|connection| connection.session.tracking_elsewhere());
    Forwarder::of_turn(turn.clients).forward(request.id, Forwarded { deed, tracking, ..forwarded });
    Step::Next
}

/// Sends a transaction to the node that leads the shard of its keys.
pub(super) fn transaction(turn: &mut Turn<'_>, id: usize, transaction: Transaction, slot: Slot) -> Step {
    let spec = transaction.spec();
    if turn.clients.get_mut(id).is_some_and(|connection| connection.forwarding().begins_to_watch()) {
        // Which node knows the keys, it tells by its answer.
        return turn.stall(id);
    }
    let Some(ticket) = begin(turn, Request { id, spec, args: &[b"exec"] }, slot) else { return turn.stall(id) };
    let Some(connection) = turn.clients.get_mut(id) else { return Step::Next };
    let knows_written = leader_knows_written(&turn.requests.store, connection, &transaction);
    let transaction = transaction.for_other_node(knows_written);
    let mut forwarded = Forwarded::transaction(ticket, &transaction, steady_us());
    if let Watches::At(node) = std::mem::take(&mut connection.forwarding().watches) {
        forwarded.deed = Deed::WatchedExec(node);
    }
    connection.session.watch_elsewhere(false);
    forwarded.is_passed_on = transaction.is_of_shard();
    if forwarded.is_passed_on {
        transaction.count(&connection.session, &*turn.requests.store);
    } else {
        // What is about the connection is carried out here, in its place, once the others are answered.
        connection.transaction = Some(RunningTransaction { sequence: ticket.sequence, transaction });
    }
    let script_user = connection.session.script_user().map(|user| user.name().clone());
    let tracking = connection.session.tracking_elsewhere();
    Forwarder::of_turn(turn.clients).forward(id, Forwarded { script_user, tracking, ..forwarded });
    Step::Next
}

/// The ticket of a request that is sent to another node. None: it waits for requests under way here, or for room.
fn begin(turn: &mut Turn<'_>, request: Request<'_>, slot: Slot) -> Option<Ticket> {
    let connection = turn.clients.get_mut(request.id)?;
    if !(connection.is_quiet() || connection.is_forwarding()) || !connection.may_owe_more() {
        return None;
    }
    // One of any size is sent when nothing else is under way.
    if connection.forwarding().request_bytes() > FORWARDED_BYTES_SOFT {
        return None;
    }
    // Among themselves they keep their order; what is for this node waits for them.
    let ticket = turn.clients.register(request, ALL_KEYS, Effect::Unsettled, turn.requests.clock)?;
    Some(Ticket { slot, ..ticket })
}

/// Sends the requests of a worker's clients to other nodes, and takes the answers.
pub(crate) struct Forwarder<'a> {
    store: Arc<NodeShared>,
    clients: &'a mut Clients,
    /// Where sockets are registered; none while a request runs, which only hands over what is to be sent.
    registry: Option<&'a Registry>,
}

impl<'a> Forwarder<'a> {
    /// Of a worker.
    pub(crate) fn new(clients: &'a mut Clients, registry: &'a Registry) -> Self {
        Self { store: clients.store().clone(), clients, registry: Some(registry) }
    }

    /// For a request that runs.
    fn of_turn(clients: &'a mut Clients) -> Self {
        Self { store: clients.store().clone(), clients, registry: None }
    }

    fn forwarding(&mut self, client: ClientId) -> Option<&mut Forwarding> {
        self.clients.find(client).map(|connection| connection.forwarding())
    }

    fn forward(&mut self, id: usize, request: Forwarded) {
        let Some(connection) = self.clients.get_mut(id) else { return };
        let client = ClientId { id, generation: connection.generation };
        connection.forwarding().wait(request);
        if self.clients.are_of_thread() {
            // The worker has the connections to other nodes.
            return self.clients.upstreams.wait(client);
        }
        self.send(client);
    }

    /// Sends what waits, as far as the leaders are known, and gives up what has waited for too long.
    fn send(&mut self, client: ClientId) {
        if self.clients.away(client).is_some() {
            // Another thread has the connection for a while.
            return self.clients.upstreams.wait(client);
        }
        while let Some(late) = self.forwarding(client).and_then(|forwarding| forwarding.take_late(steady_us())) {
            self.not_made(&late.ticket);
        }
        while let Some(slot) = self.forwarding(client).and_then(|forwarding| forwarding.next_slot()) {
            let leader = self.store.known().shard_of(slot).and_then(|shard| self.store.leader_of(shard));
            let Some(node) = leader else { break };
            if self.forwarding(client).is_none_or(|forwarding| forwarding.is_busy_elsewhere(node)) {
                break;
            }
            self.send_next(client, node);
        }
        if self.forwarding(client).is_some_and(|forwarding| forwarding.has_waiting()) {
            self.clients.upstreams.wait(client);
        }
    }

    fn send_next(&mut self, client: ClientId, node: NodeId) {
        let shows_calls = self.store.monitors.any();
        let Some(forwarding) = self.forwarding(client) else { return };
        let Some(mut request) = forwarding.take_next() else { return };
        (request.sent_us, request.shows_calls) = (steady_us(), shows_calls);
        let is_new = forwarding.to(node).is_none();
        if let Deed::WatchedExec(knows) = request.deed
            && (is_new || knows != node)
        {
            return self.not_executed(&request.ticket);
        }
        if let Deed::Wait { is_of_disk } = request.deed {
            let slot = request.ticket.slot;
            let knows = forwarding.knows_early(slot, node)
                && (forwarding.knows_written(slot, node) || !self.may_have_written(client, slot));
            if !knows {
                return self.not_known_to_be_held(&request.ticket, is_of_disk);
            }
        }
        if is_new {
            self.call(client, node);
        }
        if let Some(upstream) = self.forwarding(client).and_then(|forwarding| forwarding.to(node)) {
            if request.ticket.may_wait {
                // A client that waits may be told to wait no longer: CLIENT UNBLOCK names it.
                upstream.ask_id();
            }
            upstream.send(request);
            let place = upstream.place;
            self.clients.upstreams.touch(place);
        }
    }

    /// Whether a client may have written to the shard of a slot.
    fn may_have_written(&mut self, client: ClientId, slot: Slot) -> bool {
        let shard = self.store.known().shard_of(slot);
        let session = self.clients.find(client).map(|connection| &connection.session);
        shard.zip(session).is_none_or(|(shard, session)| session.may_have_written(shard))
    }

    /// A request that no leader has made, and none is to make.
    fn not_made(&mut self, ticket: &Ticket) {
        let mut reply = Reply::new(ticket.proto);
        reply.error(&Refusal::NoLeader.to_string());
        self.clients.deliver_owned(ticket, reply.buf);
    }

    /// WAIT or WAITAOF behind a write that may have been lost with another leader, or of which the one that is asked does not know.
    fn not_known_to_be_held(&mut self, ticket: &Ticket, is_of_disk: bool) {
        let mut reply = Reply::new(ticket.proto);
        if is_of_disk {
            reply.array(2);
            reply.int(0);
        }
        reply.int(0);
        self.clients.deliver_owned(ticket, reply.buf);
    }

    /// EXEC whose watched keys may have changed.
    fn not_executed(&mut self, ticket: &Ticket) {
        let mut reply = Reply::new(ticket.proto);
        reply.null_array();
        self.clients.deliver_owned(ticket, reply.buf);
    }

    /// Calls a node for a client.
    fn call(&mut self, client: ClientId, node: NodeId) {
        let place = self.clients.upstreams.begin(client);
        let durability = Durability::of_settings(&self.store.config);
        if let Some(forwarding) = self.forwarding(client) {
            forwarding.begin(node, place, durability);
        }
        let (store, worker) = (self.store.clone(), self.clients.worker());
        self.store.pool.run_patient(Box::new(move || {
            let stream = call_for_client(&store, worker, node);
            let called = Called { node, place, generation: client.generation, stream };
            store.mailboxes.tell(worker, WorkerMessage::Called(Box::new(called)));
        }));
    }

    /// A node that was called for a client has answered, or not.
    pub(crate) fn called(&mut self, called: Called) {
        let Some(registry) = self.registry else { return };
        let Called { node, place, generation, stream } = called;
        let client = self.clients.upstreams.client_at(place);
        let Some(client) = client.filter(|client| client.generation == generation) else { return };
        let Some(upstream) = self.forwarding(client).and_then(|forwarding| forwarding.at(place)) else { return };
        if upstream.node != node || upstream.stream().is_some() {
            return;
        }
        let registered = stream.and_then(|stream| {
            let token = Token(FIRST_UPSTREAM + place);
            let registered = stream.register(registry, token, Interest::READABLE | Interest::WRITABLE);
            registered.map(|()| stream).map_err(|e| e.to_string())
        });
        match registered {
            Ok(stream) => {
                upstream.connected(stream);
                self.clients.upstreams.touch(place);
            }
            Err(why) => {
                log::info!("a client's requests wait: {why}");
                self.over(client, place);
            }
        }
    }

    /// The event loop has noticed something of a connection to another node.
    pub(crate) fn notice(&mut self, event: &Event) {
        let place = event.token().0 - FIRST_UPSTREAM;
        let Some(client) = self.clients.upstreams.client_at(place) else { return };
        if let Some(upstream) = self.forwarding(client).and_then(|forwarding| forwarding.at(place)) {
            upstream.notice(event.is_readable() || event.is_read_closed(), event.is_writable());
            self.clients.upstreams.touch(place);
            self.clients.upstreams.leave_unread(place);
        }
    }

    /// Takes the answers that are there, until a moment: what is left comes once others have had their turn.
    fn take_answers(&mut self, client: ClientId, place: usize, until: SteadyTime) {
        let mut buffer = self.clients.upstreams.take_buffer();
        buffer.resize(READ_BUFFER_BYTES, 0);
        let mut is_refused = false;
        while let Some(connection) = self.clients.find(client) {
            if connection.has_much_unsent() {
                self.clients.upstreams.hold(place);
                break;
            }
            let Some(upstream) = connection.forwarding().at(place) else { break };
            let (node, is_rest) = (upstream.node, upstream.is_within_answer());
            let answer = upstream.next(&mut buffer);
            let is_untold = upstream.is_untold();
            match answer {
                // What is left of an answer is no answer by itself.
                Some(Answer::Reply(request, reply)) if is_rest => {
                    self.end_overtaken(client, &request.ticket);
                    self.deliver((client, node), request, reply, is_untold);
                }
                None => break,
                Some(Answer::Reply(request, reply)) => {
                    is_refused |= !self.answered(client, node, request, reply, is_untold)
                }
                Some(Answer::Told(keys)) => self.forget(client, keys),
                Some(Answer::Shown(line)) => show_line(&self.store, self.clients, line),
                Some(Answer::Listens) => self.forget(client, None),
                Some(Answer::CannotListen) => {
                    log::warn!("node {node} cannot tell a client of changes, which is closed: it asks for prefixes");
                    self.clients.break_off(client);
                }
                Some(Answer::Part(ticket, part)) => self.clients.pass_on(&ticket, part),
                Some(Answer::Later) => {
                    self.clients.upstreams.leave_unread(place);
                    break;
                }
                Some(Answer::Broken) => {
                    self.over(client, place);
                    break;
                }
            }
            if SteadyTime::now() > until {
                self.clients.upstreams.leave_unread(place);
                break;
            }
        }
        self.clients.upstreams.put_buffer(buffer);
        // This node does not know the leader: it has heard more of it by the next tick.
        if !is_refused {
            self.send(client);
        }
    }

    /// Has a client forget keys that it may have cached; none: all.
    fn forget(&mut self, client: ClientId, keys: Option<Vec<Vec<u8>>>) {
        let Some(connection) = self.clients.find(client) else { return };
        let is_broadcast =
            connection.session.tracking_elsewhere().is_some_and(|tracking| tracking.options.is_broadcast);
        let told = Invalidation { keys, is_broadcast, clients: vec![connection.session.subscriber()] };
        tell_here(&self.store, self.clients, &told);
    }

    /// Delivers the answer of a node, or the rest of it. What a node that does not tell of changes has answered is not to be cached.
    fn deliver(&mut self, (client, node): (ClientId, NodeId), request: Forwarded, reply: Vec<u8>, is_untold: bool) {
        let (slot, is_noted) = (request.ticket.slot, request.is_noted_by(&reply));
        if request.is_write()
            && let Some(shard) = self.store.known().shard_of(slot)
            && let Some(connection) = self.clients.find(client)
        {
            connection.session.wrote_elsewhere(shard);
        }
        self.clients.deliver_owned(&request.ticket, reply);
        if is_noted && let Some(forwarding) = self.forwarding(client) {
            forwarding.note_written(slot, node);
        }
        if is_untold && request.tracking.is_some() {
            self.forget(client, None);
        }
        if is_large(0, request.bytes.len()) {
            // To free it would keep the event loop.
            self.store.pool.run(Box::new(move || drop(request)));
        }
    }

    /// An answer has come. False: it says that the node has not made the request, which waits.
    fn answered(
        &mut self,
        client: ClientId,
        node: NodeId,
        request: Forwarded,
        reply: Vec<u8>,
        is_untold: bool,
    ) -> bool {
        if Outcome::of_answer(&reply) == Some(Outcome::NotMade) {
            self.again(client, request);
            return false;
        }
        self.end_overtaken(client, &request.ticket);
        if request.deed == Deed::Watch
            && reply.starts_with(b"+")
            && let Some(forwarding) = self.forwarding(client)
            && forwarding.watches == Watches::None
        {
            forwarding.watches = Watches::At(node);
            if let Some(connection) = self.clients.find(client) {
                connection.session.watch_elsewhere(true);
            }
        }
        // An answer that may be given before the commit is no other one.
        let is_early = request.deed == Deed::Write && request.ticket.acks == Acks::None && reply == b"+OK\r\n";
        if is_early && let Some(forwarding) = self.forwarding(client) {
            forwarding.note_early(request.ticket.slot, node);
        }
        self.deliver((client, node), request, reply, is_untold);
        true
    }

    /// A request is made, or may be. A node without a leader refuses one after the other: it may have refused those before, and come to
    /// lead since. They are not to be made behind it.
    fn end_overtaken(&mut self, client: ClientId, made: &Ticket) {
        while let Some(overtaken) = self.forwarding(client).and_then(|forwarding| forwarding.take_overtaken(made)) {
            self.not_made(&overtaken.ticket);
        }
    }

    /// A request that was not made, or that may be made twice, is to be sent when a leader is known, if its client still waits for it.
    fn again(&mut self, client: ClientId, request: Forwarded) {
        if !self.clients.find(client).is_some_and(|connection| connection.awaits(request.ticket.sequence)) {
            return;
        }
        if matches!(request.deed, Deed::WatchedExec(_)) {
            return self.not_executed(&request.ticket);
        }
        if let Some(forwarding) = self.forwarding(client) {
            forwarding.wait(request.back(steady_us()));
            self.clients.upstreams.wait(client);
        }
    }

    /// A connection is over.
    fn over(&mut self, client: ClientId, place: usize) {
        let Some(upstream) = self.forwarding(client).and_then(|forwarding| forwarding.remove(place)) else { return };
        self.clients.upstreams.remove(&upstream, self.registry);
        if upstream.has_tracked() {
            self.forget(client, None);
        }
        for Unanswered { request, is_unsent, is_partly } in upstream.into_unanswered() {
            if is_partly {
                // The client cannot be told otherwise that the rest of its answer will not come.
                self.clients.break_off(client);
                continue;
            }
            if is_unsent || request.is_repeatable() {
                self.again(client, request);
                continue;
            }
            self.end_overtaken(client, &request.ticket);
            let mut reply = Reply::new(request.ticket.proto);
            reply.error(if request.ticket.may_wait { Outcome::BROKEN_WAIT } else { Outcome::BROKEN_WRITE });
            self.clients.deliver_owned(&request.ticket, reply.buf);
        }
    }

    /// Sends what sockets take, for a while.
    pub(crate) fn flush(&mut self) {
        let until = SteadyTime::now() + FORWARD_SPAN;
        for _ in 0..self.clients.upstreams.dirty_count() {
            let Some(place) = self.clients.upstreams.next_dirty() else { break };
            let Some(client) = self.clients.upstreams.client_at(place) else { continue };
            if let Some(upstream) = self.forwarding(client).and_then(|forwarding| forwarding.at(place)) {
                let (takes_more, is_broken) = (upstream.flush(), upstream.is_broken());
                if takes_more {
                    self.clients.upstreams.touch(place);
                }
                if is_broken {
                    self.clients.upstreams.leave_unread(place);
                }
            }
            if SteadyTime::now() > until {
                break;
            }
        }
    }

    /// Time has passed, or there is news of leaders: sends what waits.
    pub(crate) fn tick(&mut self) {
        for client in self.clients.upstreams.take_waiting() {
            self.send(client);
        }
        self.listen();
    }

    /// Has the nodes that lead databases tell the clients of this one that ask for prefixes.
    fn listen(&mut self) {
        let passed_on = self.store.tracking.passed_on(self.clients.worker() as u32);
        if passed_on.is_empty() && !self.clients.upstreams.any_listens() {
            return;
        }
        let listening: BTreeSet<ClientId> = passed_on.iter().map(ClientId::from).collect();
        for client in self.clients.upstreams.listen(&listening) {
            let nodes = self.forwarding(client).map_or_else(Vec::new, |forwarding| forwarding.nodes());
            nodes.into_iter().for_each(|node| self.track_at(client, node, None));
        }
        let leaders = self.leaders_of_databases();
        for client in listening {
            let Some(connection) = self.clients.find(client) else { continue };
            let Some(tracking) = connection.session.tracking_elsewhere() else { continue };
            for node in &leaders {
                if self.forwarding(client).is_some_and(|forwarding| forwarding.to(*node).is_none()) {
                    self.call(client, *node);
                }
                self.track_at(client, *node, Some(&tracking));
            }
        }
    }

    /// Has a node that a client has a connection to tell it of changes, or no longer.
    fn track_at(&mut self, client: ClientId, node: NodeId, tracking: Option<&TrackingElsewhere>) {
        if let Some(upstream) = self.forwarding(client).and_then(|forwarding| forwarding.to(node))
            && upstream.track(tracking)
        {
            let place = upstream.place;
            self.clients.upstreams.touch(place);
        }
    }

    /// The other nodes that lead databases.
    fn leaders_of_databases(&self) -> BTreeSet<NodeId> {
        let known = self.store.known();
        let all = (0..self.store.config.databases()).filter_map(Database::of_number);
        let leader = |database: Database| {
            let shard = known.shard_of(known.databases.place_of(database).slot())?;
            known.place(shard).and_then(|place| self.store.leader_at(place))
        };
        all.filter_map(leader).filter(|node| *node != self.store.node()).collect()
    }

    /// Takes for a while what other nodes have answered.
    pub(crate) fn resume(&mut self) {
        let until = SteadyTime::now() + FORWARD_SPAN;
        for _ in 0..self.clients.upstreams.unread_count() {
            let Some(place) = self.clients.upstreams.next_unread() else { break };
            if let Some(client) = self.clients.upstreams.client_at(place) {
                self.take_answers(client, place, until);
            }
            if SteadyTime::now() > until {
                break;
            }
        }
    }

    /// Whether there is something to read.
    pub(crate) fn can_resume(clients: &Clients) -> bool {
        clients.upstreams.unread_count() > 0
    }

    /// A node cannot be talked to any more.
    pub(crate) fn node_lost(&mut self, node: NodeId) {
        self.lost(&self.clients.upstreams.all(), node);
    }

    /// The same, of one client, which was away.
    pub(crate) fn node_lost_of(&mut self, BackAgain(client): BackAgain, node: NodeId) {
        let mut own = self.clients.upstreams.all();
        own.retain(|(_, of)| *of == client);
        self.lost(&own, node);
    }

    fn lost(&mut self, places: &[(usize, ClientId)], node: NodeId) {
        for &(place, client) in places {
            if let Some(away) = self.clients.away(client) {
                away.letters.keep(Letter::NodeLost(node));
                continue;
            }
            let upstream = self.forwarding(client).and_then(|forwarding| forwarding.at(place));
            if upstream.is_some_and(|upstream| upstream.node == node) {
                self.over(client, place);
            }
        }
    }

    /// Whether there is something to send.
    pub(crate) fn is_dirty(clients: &Clients) -> bool {
        clients.upstreams.is_dirty()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::forwarding::Kept;
    use super::*;
    use crate::os::SteadyTime;
    use crate::testing::IdleNode;
    use std::net::TcpStream;

    const THERE: NodeId = NodeId(99);
    const ELSEWHERE: NodeId = NodeId(98);

    /// A worker's only client, on a node that knows of no leader.
    struct Fixture {
        clients: Clients,
        _socket: TcpStream,
        /// The last that goes, with its folder.
        node: IdleNode,
    }

    impl Fixture {
        fn new() -> Self {
            let node = IdleNode::open();
            let (stream, socket) = IdleNode::accept();
            let mut clients = Clients::new(0, node.store.clone());
            clients.connect(stream, Keyspace::Cluster, node.poll.registry(), 0);
            Self { clients, _socket: socket, node }
        }

        fn forwarder(&mut self) -> Forwarder<'_> {
            Forwarder::new(&mut self.clients, self.node.poll.registry())
        }

        fn client(&self) -> ClientId {
            let id = self.clients.ids()[0];
            ClientId { id, generation: self.clients.get(id).unwrap().generation }
        }

        /// A request that the client has sent.
        fn request(&mut self, deed: Deed) -> Forwarded {
            let (id, spec) = (self.client().id, resp::table::lookup(b"SET").unwrap());
            let args: &[&[u8]] = &[b"SET", b"k", b"v"];
            let request = Request { id, spec, args };
            let ticket = self.clients.register(request, ALL_KEYS, Effect::Unsettled, SteadyTime::now()).unwrap();
            Forwarded { deed, ..Forwarded::command(ticket, spec, args, steady_us()) }
        }

        /// A connection to a node; its place.
        fn begin(&mut self, node: NodeId) -> usize {
            let (client, durability) = (self.client(), Durability::of_settings(&self.node.store.config));
            let place = self.clients.upstreams.begin(client);
            self.forwarding().begin(node, place, durability);
            place
        }

        /// The same, over which a request is to go.
        fn to(&mut self, node: NodeId, request: Forwarded) -> usize {
            let place = self.begin(node);
            self.forwarding().at(place).unwrap().send(request);
            place
        }

        fn forwarding(&mut self) -> &mut Forwarding {
            let id = self.client().id;
            self.clients.get_mut(id).unwrap().forwarding()
        }

        /// What the client is told.
        fn told(&mut self) -> String {
            let id = self.client().id;
            String::from_utf8(std::mem::take(&mut self.clients.get_mut(id).unwrap().output.tail.buf)).unwrap()
        }
    }

    #[test]
    fn a_request_waits_for_a_leader_until_its_time_is_over() {
        for (is_late, told) in
            [(false, ""), (true, "-CLUSTERDOWN The cluster is down: no leader of the shard is known\r\n")]
        {
            let mut fixture = Fixture::new();
            let request = fixture.request(Deed::Write);
            let request = if is_late { Forwarded { until_us: 0, ..request } } else { request };
            let id = fixture.client().id;
            fixture.forwarder().forward(id, request);
            for _ in 0..2 {
                assert_eq!(fixture.forwarding().has_waiting(), !is_late);
                fixture.forwarder().tick();
            }
            assert_eq!(fixture.told(), told);
        }
    }

    #[test]
    fn a_request_that_was_refused_is_not_made_behind_a_later_one() {
        let mut fixture = Fixture::new();
        let (client, first, second) = (fixture.client(), fixture.request(Deed::Write), fixture.request(Deed::Write));
        let place = fixture.to(THERE, second);
        let moved = b"-MOVED 7 127.0.0.1:7000\r\n".to_vec();
        assert!(!fixture.forwarder().answered(client, THERE, first, moved, false));
        assert_eq!(fixture.forwarding().next_slot(), None, "it is not sent behind the later one");
        let there = fixture.forwarding().remove(place).unwrap();
        let second = there.into_unanswered().pop().unwrap().request;
        assert!(fixture.forwarder().answered(client, THERE, second, b"+OK\r\n".to_vec(), false));
        assert!(!fixture.forwarding().has_waiting());
        assert_eq!(fixture.told(), "-CLUSTERDOWN The cluster is down: no leader of the shard is known\r\n+OK\r\n");
    }

    #[test]
    fn an_answer_goes_to_the_client_unless_the_request_was_not_made() {
        const NULL: &str = "*-1\r\n";
        let moved = "-MOVED 7 127.0.0.1:7000\r\n";
        // What the request does, what is answered, what the client is told, whether the request waits, and where keys are watched.
        let cases = [
            (Deed::Write, "+OK\r\n", "+OK\r\n", false, Watches::None),
            (Deed::Write, "-ERR no\r\n", "-ERR no\r\n", false, Watches::None),
            (Deed::Write, moved, "", true, Watches::None),
            (Deed::Read, moved, "", true, Watches::None),
            (Deed::Watch, "+OK\r\n", "+OK\r\n", false, Watches::At(THERE)),
            (Deed::Watch, "-ERR no\r\n", "-ERR no\r\n", false, Watches::None),
            (Deed::WatchedExec(THERE), moved, NULL, false, Watches::None),
        ];
        for (i, (deed, answer, told, waits, watches)) in cases.into_iter().enumerate() {
            let mut fixture = Fixture::new();
            let (request, client) = (fixture.request(deed), fixture.client());
            let is_made = fixture.forwarder().answered(client, THERE, request, answer.as_bytes().to_vec(), false);
            assert_eq!((is_made, &*fixture.told()), (answer != moved, told), "case {i}");
            assert_eq!(
                (fixture.forwarding().has_waiting(), fixture.forwarding().watches),
                (waits, watches),
                "case {i}"
            );
        }
    }

    #[test]
    fn a_request_waits_for_earlier_ones_that_are_under_way_here() {
        let mut fixture = Fixture::new();
        let (first, second) = (fixture.request(Deed::Write), fixture.request(Deed::Write));
        let kept = EncodedCommand::of(resp::table::lookup(b"SET").unwrap(), &[b"SET", b"k", b"v"]);
        let (slot, sequence) = (second.ticket.slot, first.ticket.sequence);
        fixture.forwarding().keep(sequence, Kept::Command(kept));
        fixture.forwarding().wait(second);
        assert_eq!(fixture.forwarding().next_slot(), None, "the first one may turn out not to be made here");
        fixture.forwarding().take_kept(sequence).unwrap();
        assert_eq!(fixture.forwarding().next_slot(), Some(slot));
        fixture.forwarding().wait(first);
        assert_eq!(fixture.forwarding().take_next().unwrap().ticket.sequence, sequence);
    }

    #[test]
    fn what_was_not_sent_when_a_node_is_lost_waits_for_the_next_leader() {
        for (lost, is_lost) in [(ELSEWHERE, false), (THERE, true)] {
            let mut fixture = Fixture::new();
            let request = fixture.request(Deed::Write);
            let place = fixture.to(THERE, request);
            fixture.forwarder().node_lost(lost);
            assert_eq!((fixture.forwarding().has_waiting(), &*fixture.told()), (is_lost, ""));
            assert_eq!(fixture.forwarding().at(place).is_none(), is_lost);
            assert_eq!(fixture.clients.upstreams.client_at(place).is_none(), is_lost);
        }
    }

    /// A write with acks `none` was answered by the node `THERE`.
    #[test]
    fn only_the_node_that_has_answered_a_write_early_says_who_holds_it() {
        // What the write asks for, its answer, whether the connection is lost since, where WAIT goes, and what its client is told.
        let cases = [
            (Acks::None, "+OK\r\n", false, THERE, ""),
            (Acks::None, "+OK\r\n", false, ELSEWHERE, ":0\r\n"),
            (Acks::None, "+OK\r\n", true, THERE, ":0\r\n"),
            (Acks::None, "$-1\r\n", false, ELSEWHERE, ""),
            (Acks::Majority, "+OK\r\n", false, ELSEWHERE, ""),
        ];
        for (i, (acks, answer, is_lost, sent_to, told)) in cases.into_iter().enumerate() {
            let mut fixture = Fixture::new();
            let (write, client) = (fixture.request(Deed::Write), fixture.client());
            for node in [THERE, ELSEWHERE] {
                fixture.begin(node);
            }
            let write = Forwarded { ticket: Ticket { acks, ..write.ticket }, ..write };
            assert!(fixture.forwarder().answered(client, THERE, write, answer.as_bytes().to_vec(), false));
            assert_eq!(fixture.told(), answer, "case {i}");
            if is_lost {
                fixture.forwarder().node_lost(THERE);
            }
            let wait = fixture.request(Deed::Wait { is_of_disk: false });
            fixture.forwarding().wait(wait);
            fixture.forwarder().send_next(client, sent_to);
            assert_eq!(fixture.told(), told, "case {i}");
        }
    }

    /// A node counts who holds what it has answered itself; if that is nothing, all that it leads.
    #[test]
    fn a_node_that_missed_the_last_write_does_not_say_who_holds_it() {
        // Which node was sent a write before, what `THERE` answers to the last one, where WAIT goes, and what its client is told.
        let cases = [
            (THERE, "+OK\r\n", THERE, ""),
            (THERE, "+OK\r\n", ELSEWHERE, ""),
            (ELSEWHERE, "+OK\r\n", ELSEWHERE, ":0\r\n"),
            (ELSEWHERE, "+OK\r\n", THERE, ""),
            (THERE, "-ERR no\r\n", THERE, ":0\r\n"),
        ];
        for (i, (before, answer, sent_to, told)) in cases.into_iter().enumerate() {
            let mut fixture = Fixture::new();
            let (first, client) = (fixture.request(Deed::Write), fixture.client());
            for node in [THERE, ELSEWHERE] {
                fixture.begin(node);
            }
            let answered = first.ticket;
            fixture.forwarding().to(before).unwrap().send(first);
            fixture.clients.deliver(&answered, b"+OK\r\n");
            let last = fixture.request(Deed::Write);
            assert!(fixture.forwarder().answered(client, THERE, last, answer.as_bytes().to_vec(), false));
            assert_eq!(fixture.told(), format!("+OK\r\n{answer}"), "case {i}");
            let wait = fixture.request(Deed::Wait { is_of_disk: false });
            fixture.forwarding().wait(wait);
            fixture.forwarder().send_next(client, sent_to);
            assert_eq!(fixture.told(), told, "case {i}");
        }
    }

    #[test]
    fn keys_that_a_lost_node_watches_count_as_changed() {
        for (knows, sent_to, told) in [(THERE, THERE, ""), (ELSEWHERE, THERE, "*-1\r\n")] {
            let mut fixture = Fixture::new();
            let first = fixture.request(Deed::Read);
            fixture.to(sent_to, first);
            let (request, client) = (fixture.request(Deed::WatchedExec(knows)), fixture.client());
            fixture.forwarding().wait(request);
            fixture.forwarder().send_next(client, sent_to);
            // Answers leave in their order: the first one is due.
            let first = fixture.forwarding().remove(0).unwrap().into_unanswered().into_iter().next().unwrap().request;
            fixture.clients.deliver(&first.ticket, b"$-1\r\n");
            assert_eq!(fixture.told(), format!("$-1\r\n{told}"));
        }
    }
}
