//! Writes of one shard, and of all: from the request to the shard's next entry.

use super::connection::{ALL_KEYS, ColdWrite, Effect};
use super::dispatch::{Step, Target};
use crate::access::Access;
use crate::disk_reads::{Cold, ColdRows};
use crate::mailbox::{KeyHashes, Submission, WorkerMessage};
use crate::peers::call_leader;
use crate::whole_store::{SLOTS, ranges_text};
use crate::worker::Worker;
use node::session::{Consistency, Transaction};
use node::{EncodedCommand, ShardView, Ticket, Write, key_hash};
use resp::Reply;
use resp::table::{self, CommandSpec};
use std::sync::Arc;
use vocab::Slot;

impl Worker {
    /// Whether this node leads the shard of a write: if not, the client has been answered, or waits.
    pub(crate) fn leads(&mut self, id: usize, shard: usize, slot: Slot) -> Result<Arc<ShardView>, Step> {
        let known = self.store.known();
        let mut reply = Reply::default();
        if let Some(connection) = self.outbox.connections.get(id) {
            reply.proto = connection.session.proto();
        }
        match self.store.access(&known, shard, slot, Consistency::Absolute) {
            Access::Leader(view) | Access::Follower(view) => Ok(view.clone()),
            Access::Refused(text) => Err(self.refuse(id, &text, &mut reply)),
            Access::Wait => Err(self.wait_for_leader(id, Consistency::Absolute, &mut reply)),
        }
    }

    pub(crate) fn write(
        &mut self,
        id: usize,
        spec: &'static CommandSpec,
        target: Target,
        keys: &KeyHashes,
        args: &[&[u8]],
    ) -> Step {
        if self.store.is_full() {
            self.stall(id);
            return Step::Stall;
        }
        let Target { shard, slot, mask } = target;
        let view = match self.leads(id, shard, slot) {
            Ok(view) => view,
            Err(step) => return step,
        };
        let ready = self.store.reads_are_fast(self.now.wall_ms)
            || spec.keys(args).is_ok_and(|mut positions| positions.all(|at| view.is_cached(args[at])));
        let command = EncodedCommand::new(args);
        let Some(ticket) = self.begin(id, spec, args, mask, Effect::Write) else { return Step::Stall };
        let ticket = Ticket { slot, ..ticket };
        self.store.write_queued(command.bytes());
        let Some(connection) = self.outbox.connections.get_mut(id) else { return Step::Next };
        if ready && connection.cold.is_empty() {
            self.hand_over(shard, Write::Command(command), keys.clone(), ticket);
            return Step::Next;
        }
        // What the command will find is brought into the cache first, so that applying it need not wait for the disk;
        // the connection's later writes queue up behind it.
        if !ready {
            let rows = ColdRows::of_write(&self.store, view, command.clone(), self.now.wall_ms, ticket);
            self.outbox.cold.push(Cold::Rows(rows));
        }
        connection.cold.push_back(ColdWrite {
            ready,
            shard,
            write: Write::Command(command),
            keys: keys.clone(),
            ticket,
        });
        Step::Next
    }

    /// FLUSHALL: every shard removes its keys, wherever it is led.
    pub(crate) fn clear(&mut self, id: usize, spec: &'static CommandSpec, args: &[&[u8]]) -> Step {
        let Some(ticket) = self.begin(id, spec, args, ALL_KEYS, Effect::Unsettled) else { return Step::Stall };
        self.clear_shards(ticket);
        Step::Next
    }

    /// Begins those again that were divided while they were cleared: a part of theirs may not have been.
    pub(crate) fn clear_again(&mut self) {
        for ticket in std::mem::take(&mut self.outbox.divided) {
            self.clear_shards(ticket);
        }
    }

    fn clear_shards(&mut self, ticket: Ticket) {
        let known = self.store.known();
        let shards = known.shards();
        let part = self.outbox.gather(ticket, &shards);
        for (shard, (first, _)) in shards {
            let at = shard.0 as usize;
            if known.view(at).is_some_and(|view| view.leading()) {
                self.store.write_queued(Write::Clear.bytes());
                self.hand_over(at, Write::Clear, KeyHashes::new(), Ticket { slot: Slot(first), ..part });
                continue;
            }
            let (store, slots) = (self.store.clone(), ranges_text(known.ranges(shard)));
            self.store.pool.run(Box::new(move || {
                let command: [&[u8]; 3] = [b"FLUSHALL", SLOTS, slots.as_bytes()];
                let reply = call_leader(&store, shard, &command).unwrap_or_else(|text| {
                    let mut reply = Reply::new(part.proto);
                    reply.error(&text);
                    reply.buf
                });
                store.answer(part, reply);
            }));
        }
    }

    /// What a cold write needs is in memory: it goes on, with the writes behind it that waited for it alone.
    pub(crate) fn warmed(&mut self, ticket: &Ticket) {
        let id = ticket.connection as usize;
        loop {
            let Some(connection) = self.outbox.connections.get_mut(id) else { return };
            if connection.generation != ticket.generation {
                return;
            }
            if let Some(cold) = connection.cold.iter_mut().find(|cold| cold.ticket.sequence == ticket.sequence) {
                cold.ready = true;
            }
            let Some(cold) = connection.cold.pop_front_if(|cold| cold.ready) else { return };
            self.hand_over(cold.shard, cold.write, cold.keys, cold.ticket);
        }
    }

    pub(crate) fn hand_over(&mut self, shard: usize, write: Write, keys: KeyHashes, ticket: Ticket) {
        let owner = self.store.owner_of(shard);
        if owner == self.index {
            self.submit(shard, write, keys, ticket);
        } else if let Some(mailbox) = self.store.mailbox(owner) {
            mailbox.send(WorkerMessage::Write(Submission { shard, write, keys, ticket }));
        }
    }

    pub(crate) fn transaction(&mut self, id: usize, transaction: Transaction) -> Step {
        let slot = transaction.slot().unwrap_or(Slot(0));
        let shard = self.store.known().shard_of(slot).unwrap_or_default();
        let commands: Vec<EncodedCommand> = transaction.data().cloned().collect();
        let hashes = |command: &EncodedCommand| {
            let args = command.args();
            let spec = table::resolve(&args).ok();
            let positions = spec.and_then(|spec| spec.keys(&args).ok()).into_iter().flatten();
            positions.map(|at| key_hash(args[at])).collect::<Vec<_>>()
        };
        let keys: KeyHashes = commands.iter().flat_map(hashes).collect();
        let write = Write::Transaction { watches: transaction.watches().to_vec(), commands };
        let Some(spec) = table::lookup(b"exec") else { return Step::Next };
        let Some(ticket) = self.begin(id, spec, &[b"exec"], ALL_KEYS, Effect::Unsettled) else { return Step::Stall };
        let ticket = Ticket { slot, ..ticket };
        if let Some(connection) = self.outbox.connections.get_mut(id) {
            connection.transaction = Some((ticket.sequence, transaction));
        }
        self.store.write_queued(write.bytes());
        self.hand_over(shard, write, keys, ticket);
        Step::Next
    }
}
