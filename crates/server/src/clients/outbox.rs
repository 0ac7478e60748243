//! Where answers go: to this worker's connections, to another worker, or to a caller in this process.

use super::connection::Connection;
use crate::api::digest_marked;
use crate::disk_reads::{Applying, Cold, warm_entries};
use crate::mailbox::{EMBEDDED, WorkerMessage};
use crate::replicas::fork_behind;
use crate::shared::NodeShared;
use crate::whole_store::DIVIDED;
use crate::worker::Connections;
use cluster::{Change, Map};
use node::control::report_members;
use node::peer::PeerMessage;
use node::session::Effect;
use node::stats::Lookups;
use node::{Answers, Effects, ShardView, SnapshotTask, SplitTask, Ticket, Warmth};
use replica::{Entry, Members};
use resp::Reply;
use slab::Slab;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vocab::{NodeId, ShardId};

/// The place of a ticket whose answer is one of several that make one reply.
pub(crate) const GATHERED: u32 = u32::MAX;

/// One reply made of one answer from each shard.
struct Gather {
    ticket: Ticket,
    left: usize,
    /// The shards, as they were when it began.
    shards: Vec<(ShardId, (u16, u16))>,
    error: Option<Vec<u8>>,
}

/// Answers on their way to clients.
pub(crate) struct Outbox {
    worker: usize,
    store: Arc<NodeShared>,
    pub(crate) connections: Connections,
    /// Connections with something to send.
    pub(crate) dirty: Vec<usize>,
    /// Connections whose next request waits, with their generation.
    pub(crate) stalled: Vec<(usize, u32)>,
    /// Connections whose next request may go on.
    pub(crate) unstalled: Vec<usize>,
    gathers: Slab<Gather>,
    /// Requests to all shards that are to be made again, for shards were split meanwhile.
    pub(crate) divided: Vec<Ticket>,
    /// What waits for the disk: it begins together.
    pub(crate) cold: Vec<Cold>,
    /// How applying goes.
    pub(crate) applying: Applying,
    /// Messages for other nodes.
    pub(crate) posts: Vec<(NodeId, PeerMessage)>,
    /// Shards that have another leader since this was looked at.
    pub(crate) news: Vec<ShardId>,
    /// Snapshots that are to be sent.
    pub(crate) snapshots: Vec<SnapshotTask>,
    /// Members that have changed, for the map.
    pub(crate) changes: Vec<Change>,
    /// The newest map that the metadata group has applied.
    pub(crate) applied_map: Option<Arc<Map>>,
}

impl Outbox {
    pub(crate) fn new(worker: usize, store: Arc<NodeShared>) -> Self {
        Self {
            worker,
            store,
            connections: Slab::new(),
            dirty: Vec::new(),
            stalled: Vec::new(),
            unstalled: Vec::new(),
            gathers: Slab::new(),
            divided: Vec::new(),
            cold: Vec::new(),
            applying: Applying::default(),
            posts: Vec::new(),
            news: Vec::new(),
            snapshots: Vec::new(),
            changes: Vec::new(),
            applied_map: None,
        }
    }

    /// Puts a message for another node with those that go out next.
    pub(crate) fn post(&mut self, to: NodeId, message: PeerMessage) {
        self.posts.push((to, message));
    }

    /// Notes that a connection has something to send.
    pub(crate) fn touch(&mut self, id: usize) {
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.dirty
        {
            connection.dirty = true;
            self.dirty.push(id);
        }
    }

    /// A ticket for one of `parts` answers to the request of `ticket`: OK when all are in, or the first error.
    pub(crate) fn gather(&mut self, ticket: Ticket, shards: &[(ShardId, (u16, u16))]) -> Ticket {
        let gather = Gather { ticket, left: shards.len(), shards: shards.to_vec(), error: None };
        let id = self.gathers.insert(gather);
        Ticket { connection: GATHERED, sequence: id as u64, ..ticket }
    }

    /// Lets every stalled connection look at its next request again.
    pub(crate) fn unstall_all(&mut self) {
        for (id, generation) in self.stalled.drain(..) {
            // One that was let go on since, or that is in the list twice, is left alone.
            if let Some(connection) = self.connections.get_mut(id)
                && connection.generation == generation
                && std::mem::take(&mut connection.stalled)
            {
                self.unstalled.push(id);
            }
        }
    }

    /// Gives an answer to one of this worker's connections.
    pub(crate) fn deliver(&mut self, ticket: &Ticket, reply: &[u8]) {
        if ticket.connection == GATHERED {
            return self.collect(ticket, reply);
        }
        let id = ticket.connection as usize;
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.generation != ticket.generation {
            return;
        }
        let begun = match connection.transaction.take() {
            Some((sequence, transaction)) if sequence == ticket.sequence => {
                let mut whole = Reply::new(ticket.proto);
                let ns = connection.age(ticket.sequence).map_or(0, |age| age.as_nanos() as u64);
                let effect = transaction.answer(&mut connection.session, &*self.store, reply, ns, &mut whole);
                // A sleep asked for inside a transaction is not slept: its replies are one.
                if matches!(effect, Effect::Shutdown { .. }) {
                    self.store.stop_asked.store(true, Ordering::Release);
                    connection.session.close();
                }
                connection.answer(ticket.sequence, &whole.buf);
                note_written(&self.store, connection, ticket);
                None
            }
            other => {
                connection.transaction = other;
                connection.answer(ticket.sequence, reply)
            }
        };
        if let Some(begun) = begun {
            if begun.spec.is_write() {
                if reads_too(begun.spec.name) {
                    let mut lookups = Lookups::default();
                    lookups.note(!matches!(reply, b"$-1\r\n" | b"_\r\n"));
                    self.store.stats.worker(self.worker).looked_up(lookups);
                }
                note_written(&self.store, connection, ticket);
            }
            let ns = begun.at.elapsed().as_nanos() as u64;
            self.store.stats.worker(self.worker).finished(begun.spec.id, ns, reply);
            let args = [begun.spec.name.as_bytes(), begun.brief()];
            connection.session.slow(begun.spec, &args, ns, &*self.store);
        }
        if connection.stalled {
            connection.stalled = false;
            self.unstalled.push(id);
        }
        self.touch(id);
    }

    fn collect(&mut self, ticket: &Ticket, reply: &[u8]) {
        let id = ticket.sequence as usize;
        let Some(gather) = self.gathers.get_mut(id) else { return };
        if reply.first() == Some(&b'-') && gather.error.is_none() {
            gather.error = Some(reply.to_vec());
        }
        gather.left -= 1;
        if gather.left == 0 {
            let Gather { ticket, error, shards, .. } = self.gathers.remove(id);
            let divided = |error: &Vec<u8>| error[1..].starts_with(DIVIDED.as_bytes());
            if error.as_ref().map_or_else(|| self.store.known().shards() != shards, divided) {
                return self.divided.push(ticket);
            }
            self.answer(&ticket, &error.unwrap_or_else(|| b"+OK\r\n".to_vec()));
        }
    }
}

/// Writes that Redis counts as a read of their key, too.
fn reads_too(name: &str) -> bool {
    matches!(name, "GETDEL" | "GETEX" | "GETSET")
}

/// What the connection has written is in the shard's last entry, or before it: for WAIT.
fn note_written(store: &NodeShared, connection: &mut Connection, ticket: &Ticket) {
    let known = store.known();
    if let Some(view) = known.shard_of(ticket.slot).and_then(|shard| known.view(shard)) {
        connection.session.wrote(view.id(), view.engine().applied_index());
    }
}

impl Answers for Outbox {
    fn answer(&mut self, ticket: &Ticket, reply: &[u8]) {
        if *ticket == Ticket::NOBODY {
        } else if ticket.worker == EMBEDDED {
            self.store.embedded.deliver(ticket, reply);
        } else if ticket.worker as usize == self.worker {
            self.deliver(ticket, reply);
        } else if let Some(mailbox) = self.store.mailbox(ticket.worker as usize) {
            mailbox.send(WorkerMessage::Answer { ticket: *ticket, reply: reply.to_vec() });
        }
    }
}

impl Effects for Outbox {
    fn send(&mut self, to: NodeId, message: PeerMessage) {
        self.post(to, message);
    }

    fn not_leader(&mut self, shard: ShardId, ticket: &Ticket) {
        let mut reply = Reply::new(ticket.proto);
        match self.store.redirection(shard.0 as usize, ticket.slot) {
            Some(text) => reply.error(&text),
            None => reply.error("CLUSTERDOWN The cluster is down: the shard has no leader now; nothing was written"),
        }
        self.answer(ticket, &reply.buf);
    }

    fn led(&mut self, shard: ShardId, leader: Option<NodeId>, term: u64) {
        let known = self.store.known();
        if known.place(shard.0 as usize).is_some_and(|place| place.leader.learn(leader, term)) {
            self.news.push(shard);
        }
    }

    fn readable(&mut self, _shard: ShardId) {
        self.unstall_all();
    }

    fn warm(&mut self, view: &Arc<ShardView>, entries: &[Entry]) -> Warmth {
        self.applying.look(&self.store);
        warm_entries(&self.store, self.worker, view, entries, &mut self.cold)
    }

    fn sealed(&mut self, _shard: ShardId) {
        self.store.background.wake();
    }

    fn may_send(&mut self, shard: ShardId, node: NodeId) -> bool {
        let waiting = self.snapshots.iter().filter(|task| task.shard != shard || task.node != node).count();
        self.store.snapshots.get().is_some_and(|snapshots| snapshots.may_send(shard, node, waiting))
    }

    fn snapshot_wanted(&mut self, task: SnapshotTask) {
        self.snapshots.push(task);
    }

    fn split(&mut self, task: SplitTask) {
        fork_behind(&self.store, task);
    }

    fn split_ended(&mut self, child: ShardId) {
        self.changes.push(Change::EndSplit { child });
    }

    fn members(&mut self, shard: ShardId, index: u64, members: Members) {
        self.changes.push(report_members(shard, index, &members));
    }

    fn marked(&mut self, _shard: ShardId, comparison: u64, at_ms: u64, rows: Box<dyn storage::Snapshot>) {
        digest_marked(&self.store, comparison, at_ms, rows);
    }

    fn map(&mut self, map: Arc<Map>) {
        self.applied_map = Some(map);
    }
}
