//! The mailboxes of a node's workers, and which worker owns which shard.

use crate::mailbox::{Mailbox, SubscriberNews, WorkerMessage};
use node::Ticket;
use node::pubsub::{Broker, Delivery};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use vocab::ShardId;

/// The worker that has the links to other nodes and this node's part in the control of the store.
pub(crate) const LINKS_WORKER: usize = 0;

/// The mailboxes of a node's workers; none before the workers are set up.
#[derive(Default)]
pub(crate) struct WorkerMailboxes(OnceLock<Vec<Arc<Mailbox>>>);

impl WorkerMailboxes {
    /// The workers are there. False if they were before.
    pub(crate) fn set(&self, mailboxes: Vec<Arc<Mailbox>>) -> bool {
        self.0.set(mailboxes).is_ok()
    }

    /// How many workers there are; at least one.
    pub(crate) fn workers(&self) -> usize {
        self.0.get().map_or(1, Vec::len)
    }

    /// The worker that owns a shard.
    pub(crate) fn owner_of(&self, shard: ShardId) -> usize {
        shard.0 as usize % self.workers()
    }

    /// The mailbox of a worker.
    pub(crate) fn of_worker(&self, worker: usize) -> Option<&Arc<Mailbox>> {
        self.0.get()?.get(worker)
    }

    /// Sends a message to the worker that owns a shard.
    pub(crate) fn tell_owner(&self, shard: ShardId, message: WorkerMessage) {
        self.tell(self.owner_of(shard), message);
    }

    /// Sends a message to the worker that has the links.
    pub(crate) fn tell_links_worker(&self, message: WorkerMessage) {
        self.tell(LINKS_WORKER, message);
    }

    /// Sends a message to every worker.
    pub(crate) fn tell_all(&self, message: impl Fn() -> WorkerMessage) {
        (0..self.workers()).for_each(|worker| self.tell(worker, message()));
    }

    /// Sends a message to every worker, and waits until each has told that it is done, or it is `until`. A worker that takes longer
    /// does it all the same. For threads that may wait.
    pub(crate) fn await_all(&self, until: Instant, message: impl Fn(SyncSender<()>) -> WorkerMessage) {
        let workers = self.workers();
        let (done, is_done) = sync_channel(workers);
        self.tell_all(|| message(done.clone()));
        for _ in 0..workers {
            let _ = is_done.recv_timeout(until.saturating_duration_since(Instant::now()));
        }
    }

    /// Sends an answer to the worker whose connection waits for it.
    pub(crate) fn answer(&self, ticket: Ticket, reply: Vec<u8>) {
        self.tell(ticket.worker as usize, WorkerMessage::Answer { ticket, reply });
    }

    /// Brings a message to the workers whose clients get it, but for the one that has brought it to its own.
    pub(crate) fn deliver(&self, broker: &Broker, delivery: &Delivery, but: Option<u32>) {
        for worker in delivery.audience.workers().filter(|worker| Some(*worker) != but) {
            broker.sets_out(weight(delivery, worker));
            self.tell(worker as usize, WorkerMessage::Subscribers(SubscriberNews::Push(Box::new(delivery.clone()))));
        }
    }

    /// A worker has brought it to its clients. True if publishers may go on that could not before.
    pub(crate) fn delivered(&self, broker: &Broker, delivery: &Delivery, worker: u32) -> bool {
        broker.arrived(weight(delivery, worker))
    }

    /// Sends a message to a worker, if there is such a worker.
    pub(crate) fn tell(&self, worker: usize, message: WorkerMessage) {
        if let Some(mailbox) = self.of_worker(worker) {
            mailbox.send(message);
        }
    }
}

/// What a message costs a worker, in bytes.
fn weight(delivery: &Delivery, worker: u32) -> u64 {
    (delivery.push.bytes() * delivery.audience.of_worker(worker).len()) as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use mio::{Poll, Token, Waker};

    #[test]
    fn a_shards_messages_reach_the_worker_that_owns_it() {
        let polls = [0; 3].map(|_| Poll::new().unwrap());
        let mailbox = |poll: &Poll| Mailbox::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let workers = WorkerMailboxes::default();
        assert_eq!((workers.workers(), workers.owner_of(ShardId(5))), (1, 0), "before there are any");
        workers.tell_owner(ShardId(5), WorkerMessage::Look);
        assert!(workers.set(polls.iter().map(mailbox).collect()));
        assert!(!workers.set(Vec::new()), "they are set once");
        for shard in 0..6 {
            workers.tell_owner(ShardId(shard), WorkerMessage::AskLease(ShardId(shard)));
        }
        workers.tell_links_worker(WorkerMessage::Led);
        workers.tell_all(|| WorkerMessage::Look);
        workers.answer(Ticket { worker: u32::MAX, ..Ticket::NONE }, Vec::new());
        workers.answer(Ticket { worker: 2, ..Ticket::NONE }, Vec::new());
        let name = |message: &WorkerMessage| match message {
            WorkerMessage::AskLease(shard) => format!("shard {shard}"),
            WorkerMessage::Led => "led".to_owned(),
            WorkerMessage::Look => "look".to_owned(),
            WorkerMessage::Answer { .. } => "answer".to_owned(),
            _ => "?".to_owned(),
        };
        let taken = |worker: usize| {
            let mut mail = Vec::new();
            workers.of_worker(worker).unwrap().take(&mut mail);
            mail.iter().map(name).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(
            [0, 1, 2].map(taken),
            ["shard 0, shard 3, led, look", "shard 1, shard 4, look", "shard 2, shard 5, look, answer"]
        );
    }
}
