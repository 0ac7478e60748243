//! WAIT and WAITAOF: clients that wait until followers hold what they have written.

use super::registry::{ClientId, Clients};
use super::replica_count::{is_applied, look_up, narrow, replicas_that_hold};
use super::reply_queue::{ALL_KEYS, Effect};
use super::request::Request;
use super::turn::{Step, Turn};
use crate::api::ShardWriter;
use crate::mailbox::{WaitingClient, WorkerMessage};
use crate::shared::NodeShared;
use node::EntryId;
use node::read::Refusal;
use node::session::{Keyspace, WaitFor};
use resp::Reply;
use std::time::{Duration, Instant};
use vocab::ShardId;

/// So many clients are looked at in every turn of the event loop.
const FEW: usize = 64;
/// More than these are looked at so that it takes one part of so many of the loop's time.
const SHARE: u32 = 16;

/// The clients of a worker that wait for followers.
#[derive(Default)]
pub(crate) struct Waits {
    waiting: Vec<WaitingClient>,
    /// When very many wait: they are not looked at before.
    not_before: Option<Instant>,
}

/// Answers WAIT or WAITAOF where it is not known whether what was written is lost.
pub(super) fn answer_none(turn: &mut Turn<'_>, id: usize, wait: &WaitFor) -> Step {
    let request = Request { id, spec: wait.spec, args: &[] };
    let Some(ticket) = turn.clients.begin(request, ALL_KEYS, Effect::Unsettled, turn.requests.clock) else {
        return Step::Stall;
    };
    let mut reply = Reply::new(ticket.proto);
    wait.answer(false, 0, &mut reply);
    turn.clients.deliver(&ticket, &reply.buf);
    Step::Next
}

/// Answers WAIT or WAITAOF once enough replicas hold what the connection has written, or its time is over.
pub(super) fn wait_for(turn: &mut Turn<'_>, id: usize, mut wait: WaitFor) -> Step {
    if let Some(connection) = turn.clients.get_mut(id) {
        // By a later WAIT it may be known no more.
        connection.session.settle_early(|entry| is_applied(&turn.requests.store, entry));
    }
    let is_for_other_node = turn.clients.get(id).is_some_and(|client| client.session.keyspace() == Keyspace::Stored);
    if is_for_other_node && wait.written.shards().is_empty() {
        // Its client may have written by way of the leader before: what this one had applied, or told of, when it asked counts.
        let known = turn.requests.store.known();
        for handle in known.data_handles().filter(|handle| handle.leading()) {
            wait.written.wait_while_led(handle.id());
            handle.followers().early().into_iter().for_each(|entry| wait.written.raise_early(entry));
        }
    }
    let request = Request { id, spec: wait.spec, args: &[] };
    let Some(ticket) = turn.clients.begin(request, ALL_KEYS, Effect::Unsettled, turn.requests.clock) else {
        return Step::Stall;
    };
    let until = wait.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
    let store = &turn.requests.store;
    wait.written.settle(|entry| is_applied(store, entry));
    if let Some(connection) = turn.clients.get(id) {
        narrow(store, &connection.session, &mut wait.written);
    }
    look_up(store, &mut wait.written);
    watch_followers(store, &wait);
    turn.requests.wanted.leases.extend(wait.written.counted_shards());
    if wait.fsynced.is_none() {
        turn.requests.wanted.waits.push(WaitingClient { ticket, wait, until, synced: false });
        return Step::Next;
    }
    // An entry that must be on disk brings all those before it there, wherever it is held.
    let (of_job, mailbox) = (store.clone(), turn.requests.mailbox.clone());
    store.pool.run_patient(Box::new(move || {
        let mut wait = wait;
        let shards: Vec<ShardId> = wait.written.counted_shards().collect();
        let mut synced = true;
        for shard in shards {
            match ShardWriter::new(of_job.clone()).sync_shard(shard) {
                Some(index) => wait.written.raise(shard, index),
                None => synced = false,
            }
        }
        // One that was answered early may have been lost with a leader before.
        let known = of_job.known();
        let keeps = |entry: &EntryId| known.handle(entry.shard).is_some_and(|handle| handle.followers().keeps(*entry));
        synced &= wait.written.early().iter().all(keeps);
        drop(known);
        mailbox.send(WorkerMessage::Wait(Box::new(WaitingClient { ticket, wait, until, synced })));
    }));
    Step::Next
}

/// Has leaders tell at once what their followers hold.
fn watch_followers(store: &NodeShared, wait: &WaitFor) {
    let known = store.known();
    let handles = wait.written.counted_shards().filter_map(|shard| known.handle(shard));
    handles.for_each(|handle| handle.watch_followers(true));
}

/// Whether this node leads all shards that count.
fn leads_all(store: &NodeShared, wait: &WaitFor) -> bool {
    let known = store.known();
    let leads = |shard: ShardId| known.handle(shard).is_some_and(|handle| handle.leading());
    wait.written.counted_shards().all(leads)
}

impl Waits {
    /// A client waits from now on.
    pub(crate) fn begin(&mut self, waiting: WaitingClient) {
        self.waiting.push(waiting);
    }

    /// Answers the clients whose wait is over.
    pub(crate) fn check(&mut self, store: &NodeShared, clients: &mut Clients) {
        if self.waiting.is_empty() {
            return;
        }
        let now = Instant::now();
        if self.not_before.is_some_and(|at| now < at) {
            return;
        }
        let are_many = self.waiting.len() > FEW;
        self.waiting.retain_mut(|waiting| {
            look_up(store, &mut waiting.wait.written);
            let replicas = replicas_that_hold(store, &waiting.wait);
            let synced = waiting.synced || waiting.wait.fsynced.is_none();
            let replicas = if synced { replicas } else { 0 };
            let ticket = &waiting.ticket;
            let client = ClientId::from(ticket);
            let gone = match clients.find(client) {
                Some(connection) => connection.is_deaf(),
                None => !clients.is_there(client),
            };
            let over = waiting.until.is_some_and(|until| now >= until);
            let mut reply = Reply::new(ticket.proto);
            if waiting.wait.written.is_of_led() && !leads_all(store, &waiting.wait) {
                // The node that asks for its client asks the next leader.
                reply.error(&Refusal::NoLeader.to_string());
                clients.deliver(ticket, &reply.buf);
                return false;
            }
            if !gone && !over && !waiting.wait.is_met(synced, replicas) {
                // Another worker, of which no client waits any more, may have said that it is not wanted.
                watch_followers(store, &waiting.wait);
                return true;
            }
            waiting.wait.answer(synced, replicas, &mut reply);
            clients.deliver(ticket, &reply.buf);
            false
        });
        self.not_before = are_many.then(|| {
            let over = Instant::now();
            over + (over - now) * SHARE
        });
        if self.waiting.is_empty() {
            store.known().data_handles().for_each(|handle| handle.watch_followers(false));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::os::SteadyTime;
    use crate::testing::IdleNode;
    use node::Ticket;
    use node::session::{Keyspace, Written};
    use std::net::TcpStream;

    /// A worker's only client.
    struct Client {
        clients: Clients,
        _socket: TcpStream,
    }

    impl Client {
        fn connect(node: &IdleNode) -> Self {
            let (stream, socket) = IdleNode::accept();
            let mut clients = Clients::new(0, node.store.clone());
            clients.connect(stream, Keyspace::Cluster, node.poll.registry(), 0);
            Self { clients, _socket: socket }
        }

        /// It sends WAIT: so many followers are to hold what it has written, which is nothing, until then.
        fn waits(&mut self, replicas: u64, until: Option<Instant>) -> WaitingClient {
            let (id, spec) = (self.clients.ids()[0], resp::table::lookup(b"WAIT").unwrap());
            let request = Request { id, spec, args: &[] };
            let ticket = self.clients.begin(request, ALL_KEYS, Effect::Unsettled, SteadyTime::now()).unwrap();
            let wait = WaitFor { spec, written: Written::default(), replicas, fsynced: None, timeout_ms: None };
            WaitingClient { ticket, wait, until, synced: false }
        }

        /// What it is told.
        fn take_output(&mut self) -> String {
            let id = self.clients.ids()[0];
            String::from_utf8(self.clients.get_mut(id).unwrap().output.take_all()).unwrap()
        }
    }

    #[test]
    fn a_client_waits_until_enough_is_held_or_its_time_is_over() {
        let node = IdleNode::open();
        let mut client = Client::connect(&node);
        // How many followers are to hold it, when the client's time is over, and what it is told; "": it waits.
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(3600));
        let cases = [(0, None, ":0\r\n"), (1, Some(now), ":0\r\n"), (1, Some(later), ""), (1, None, "")];
        for (i, (replicas, until, told)) in cases.into_iter().enumerate() {
            let mut waits = Waits::default();
            let waiting = client.waits(replicas, until);
            let ticket = waiting.ticket;
            waits.begin(waiting);
            waits.check(&node.store, &mut client.clients);
            assert_eq!((&*client.take_output(), waits.waiting.is_empty()), (told, !told.is_empty()), "case {i}");
            if told.is_empty() {
                client.clients.deliver(&ticket, b":1\r\n");
                assert_eq!(client.take_output(), ":1\r\n", "case {i}");
            }
        }
    }

    #[test]
    fn a_client_that_is_gone_is_waited_for_no_more() {
        let node = IdleNode::open();
        let mut client = Client::connect(&node);
        let waiting = client.waits(1, None);
        let before = Ticket { generation: waiting.ticket.generation.wrapping_sub(1), ..waiting.ticket };
        let mut waits = Waits::default();
        waits.begin(WaitingClient { ticket: before, wait: waiting.wait.clone(), until: None, synced: false });
        waits.check(&node.store, &mut client.clients);
        assert!(waits.waiting.is_empty() && client.take_output().is_empty(), "another connection has its place");
        waits.begin(waiting);
        waits.check(&node.store, &mut client.clients);
        assert_eq!(waits.waiting.len(), 1);
        let id = client.clients.ids()[0];
        client.clients.get_mut(id).unwrap().hear_no_more();
        waits.check(&node.store, &mut client.clients);
        assert!(waits.waiting.is_empty(), "it hears nothing any more");
    }
}
