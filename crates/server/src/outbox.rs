//! Where answers go: to this worker's connections, to another worker, or to a caller in this process.

use crate::inbox::Message;
use crate::store::Store;
use crate::worker::Connections;
use node::session::Effect;
use node::{Answers, Ticket};
use resp::Reply;
use slab::Slab;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The place of a ticket whose answer is one of several that make one reply.
pub(crate) const GATHERED: u32 = u32::MAX;
/// The worker of a ticket whose answer is for a caller in this process.
pub(crate) const EMBEDDED: u32 = u32::MAX;

/// One reply made of one answer from each shard.
struct Gather {
    ticket: Ticket,
    left: usize,
    error: Option<Vec<u8>>,
}

/// Answers on their way to clients.
pub(crate) struct Outbox {
    worker: usize,
    store: Arc<Store>,
    pub(crate) connections: Connections,
    /// Connections with something to send.
    pub(crate) dirty: Vec<usize>,
    /// Connections whose next request waits, with their generation.
    pub(crate) stalled: Vec<(usize, u32)>,
    /// Connections whose next request may go on.
    pub(crate) unstalled: Vec<usize>,
    gathers: Slab<Gather>,
}

impl Outbox {
    pub(crate) fn new(worker: usize, store: Arc<Store>) -> Self {
        Self {
            worker,
            store,
            connections: Slab::new(),
            dirty: Vec::new(),
            stalled: Vec::new(),
            unstalled: Vec::new(),
            gathers: Slab::new(),
        }
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
    pub(crate) fn gather(&mut self, ticket: Ticket, parts: usize) -> Ticket {
        let id = self.gathers.insert(Gather { ticket, left: parts, error: None });
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
                None
            }
            other => {
                connection.transaction = other;
                connection.answer(ticket.sequence, reply)
            }
        };
        if let Some(begun) = begun {
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
            let Gather { ticket, error, .. } = self.gathers.remove(id);
            self.answer(&ticket, &error.unwrap_or_else(|| b"+OK\r\n".to_vec()));
        }
    }
}

impl Answers for Outbox {
    fn answer(&mut self, ticket: &Ticket, reply: &[u8]) {
        if ticket.worker == EMBEDDED {
            self.store.embedded.deliver(ticket, reply);
        } else if ticket.worker as usize == self.worker {
            self.deliver(ticket, reply);
        } else if let Some(inbox) = self.store.inbox(ticket.worker as usize) {
            inbox.send(Message::Answer { ticket: *ticket, reply: reply.to_vec() });
        }
    }
}
