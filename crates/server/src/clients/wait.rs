//! WAIT and WAITAOF: clients that wait until followers hold what they have written.

use super::registry::{ClientId, Clients};
use super::replica_count::replicas_that_hold;
use super::reply_queue::{ALL_KEYS, Effect};
use super::request::Request;
use super::turn::{Step, Turn};
use crate::api::ShardWriter;
use crate::mailbox::{WaitingClient, WorkerMessage};
use crate::shared::NodeShared;
use node::session::WaitFor;
use resp::Reply;
use std::time::{Duration, Instant};
use vocab::ShardId;

/// The clients of a worker that wait for followers.
#[derive(Default)]
pub(crate) struct Waits(Vec<WaitingClient>);

/// Answers WAIT or WAITAOF once enough replicas hold what the connection has written, or its time is over.
pub(super) fn wait_for(turn: &mut Turn<'_>, id: usize, wait: WaitFor) -> Step {
    let request = Request { id, spec: wait.spec, args: &[] };
    let Some(ticket) = turn.clients.begin(request, ALL_KEYS, Effect::Unsettled, turn.requests.clock) else {
        return Step::Stall;
    };
    let until = wait.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
    let store = &turn.requests.store;
    for (shard, _) in wait.written.shards() {
        if let Some(handle) = store.known().handle(shard.0 as usize) {
            handle.watch_followers(true);
        }
        turn.requests.wanted.leases.push(*shard);
    }
    if wait.fsynced.is_none() {
        turn.requests.wanted.waits.push(WaitingClient { ticket, wait, until, synced: false });
        return Step::Next;
    }
    // An entry that must be on disk brings all those before it there, wherever it is held.
    let (of_job, mailbox) = (store.clone(), turn.requests.mailbox.clone());
    store.pool.run_patient(Box::new(move || {
        let mut wait = wait;
        let shards: Vec<ShardId> = wait.written.shards().iter().map(|(shard, _)| *shard).collect();
        let mut synced = true;
        for shard in shards {
            match ShardWriter::new(of_job.clone()).sync_shard(shard) {
                Some(index) => wait.written.raise(shard, index),
                None => synced = false,
            }
        }
        mailbox.send(WorkerMessage::Wait(Box::new(WaitingClient { ticket, wait, until, synced })));
    }));
    Step::Next
}

impl Waits {
    /// A client waits from now on.
    pub(crate) fn begin(&mut self, waiting: WaitingClient) {
        self.0.push(waiting);
    }

    /// Answers the clients whose wait is over.
    pub(crate) fn check(&mut self, store: &NodeShared, clients: &mut Clients) {
        if self.0.is_empty() {
            return;
        }
        let now = Instant::now();
        self.0.retain(|waiting| {
            let replicas = replicas_that_hold(store, &waiting.wait);
            let synced = waiting.synced || waiting.wait.fsynced.is_none();
            let replicas = if synced { replicas } else { 0 };
            let ticket = &waiting.ticket;
            let client = ClientId { id: ticket.connection as usize, generation: ticket.generation };
            let gone = match clients.find(client) {
                Some(connection) => connection.deaf,
                None => !clients.is_there(client),
            };
            let over = waiting.until.is_some_and(|until| now >= until);
            if !gone && !over && !waiting.wait.is_met(synced, replicas) {
                return true;
            }
            let mut reply = Reply::new(ticket.proto);
            waiting.wait.answer(synced, replicas, &mut reply);
            clients.deliver(ticket, &reply.buf);
            false
        });
        if self.0.is_empty() {
            store.known().data_handles().for_each(|handle| handle.watch_followers(false));
        }
    }
}
