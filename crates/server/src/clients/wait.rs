//! WAIT and WAITAOF: clients that wait until followers hold what they have written.

use super::connection::{ALL_KEYS, Effect};
use super::dispatch::Step;
use crate::embedded::Caller;
use crate::mailbox::{WaitingClient, WorkerMessage};
use crate::shared::NodeShared;
use crate::worker::Worker;
use node::session::WaitFor;
use resp::Reply;
use std::time::{Duration, Instant};
use vocab::ShardId;

impl Worker {
    /// Answers WAIT or WAITAOF once enough replicas hold what the connection has written, or its time is over.
    pub(crate) fn wait_for(&mut self, id: usize, wait: WaitFor) -> Step {
        let spec = wait.spec;
        let Some(ticket) = self.begin(id, spec, &[], ALL_KEYS, Effect::Unsettled) else { return Step::Stall };
        let until = wait.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
        for (shard, _) in wait.written.shards() {
            if let Some(view) = self.store.known().view(shard.0 as usize) {
                view.watch_followers(true);
            }
            self.store.ask_lease(shard.0 as usize);
        }
        if wait.fsynced.is_none() {
            self.waits.push(WaitingClient { ticket, wait, until, synced: false });
            self.check_waits();
            return Step::Next;
        }
        // An entry that must be on disk brings all those before it there, wherever it is held.
        let (store, mailbox) = (self.store.clone(), self.mailbox.clone());
        self.store.pool.run(Box::new(move || {
            let mut wait = wait;
            let shards: Vec<ShardId> = wait.written.shards().iter().map(|(shard, _)| *shard).collect();
            let mut synced = true;
            for shard in shards {
                match Caller::new(store.clone()).sync_shard(shard) {
                    Some(index) => wait.written.raise(shard, index),
                    None => synced = false,
                }
            }
            mailbox.send(WorkerMessage::Wait(Box::new(WaitingClient { ticket, wait, until, synced })));
        }));
        Step::Next
    }

    /// A client waits from now on.
    pub(crate) fn begin_to_wait(&mut self, waiting: WaitingClient) {
        self.waits.push(waiting);
        self.check_waits();
    }

    /// Answers those whose wait is over.
    pub(crate) fn check_waits(&mut self) {
        if self.waits.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut waits = std::mem::take(&mut self.waits);
        waits.retain(|waiting| {
            let (local, replicas) = held(&self.store, waiting);
            let gone = self
                .outbox
                .connections
                .get(waiting.ticket.connection as usize)
                .is_none_or(|connection| connection.generation != waiting.ticket.generation || connection.deaf);
            let over = waiting.until.is_some_and(|until| now >= until);
            if !gone && !over && !waiting.wait.is_met(local, replicas) {
                return true;
            }
            let mut reply = Reply::new(waiting.ticket.proto);
            waiting.wait.answer(local, replicas, &mut reply);
            self.outbox.deliver(&waiting.ticket, &reply.buf);
            false
        });
        waits.append(&mut self.waits);
        self.waits = waits;
        if self.waits.is_empty() {
            self.store.known().views().for_each(|view| view.watch_followers(false));
        }
    }
}

/// Whether this node has all that on its disk, and how many followers hold it: the fewest over all shards.
fn held(store: &NodeShared, waiting: &WaitingClient) -> (bool, u64) {
    let known = store.known();
    let of_shard = |shard: usize, index: u64| {
        let view = known.view(shard).filter(|view| view.leading());
        view.map_or(0, |view| view.followers_with(index))
    };
    let written = &waiting.wait.written;
    let counted = written.shards().iter().map(|(shard, index)| of_shard(shard.0 as usize, *index));
    let led = || known.views().filter(|view| view.leading());
    let fewest = if written.shards().is_empty() {
        led().map(|view| view.followers_with(0)).min()
    } else if written.beyond() {
        let all = led().map(|view| view.followers_with(view.engine().applied_index()));
        counted.chain(all).min()
    } else {
        counted.min()
    };
    let synced = waiting.synced || waiting.wait.fsynced.is_none();
    (synced, if synced { fewest.unwrap_or(0) } else { 0 })
}
