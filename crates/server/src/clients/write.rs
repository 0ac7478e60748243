//! Writes of one shard, and of all: from the request to the shard's next entry.

use crate::access::Access;
use crate::cold::Cold;
use crate::cold_reads::ColdRead;
use crate::cold_rows::ColdRows;
use crate::connection::{ALL_KEYS, ColdWrite, Effect, LIKELY_REPLY_BYTES};
use crate::dispatch::{Step, Target, answer};
use crate::inbox::Message;
use crate::requests::KeyHashes;
use crate::whole_store::{SLOTS, ranges_text};
use crate::worker::Worker;
use node::session::{Consistency, Transaction};
use node::{EncodedCommand, EntryBuilder, ExpectedReply, ShardView, Ticket, Write, admission, key_hash};
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
        let answers_values = spec.answers_values(args);
        // How long the answer will be is only known of what is in memory.
        let ready = (!answers_values && self.store.reads_are_fast(self.now.wall_ms))
            || spec.keys(args).is_ok_and(|mut positions| positions.all(|at| view.is_cached(args[at])));
        let command = EncodedCommand::new(args);
        let Some(ticket) = self.begin(id, spec, args, mask, Effect::Write) else { return Step::Stall };
        let reply_bytes = if answers_values { ExpectedReply::of(&view, spec, args).bytes() } else { 0 };
        let ticket = Ticket { slot, reply_bytes, ..ticket };
        self.store.write_queued(command.bytes());
        let Some(connection) = self.outbox.connections.get_mut(id) else { return Step::Next };
        if answers_values {
            connection.promise(ticket.sequence, if ready { reply_bytes } else { LIKELY_REPLY_BYTES });
        }
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
                let reply = store.call_leader(shard, &command).unwrap_or_else(|text| {
                    let mut reply = Reply::new(part.proto);
                    reply.error(&text);
                    reply.buf
                });
                answer(&store, part, reply);
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
            let Some(mut cold) = connection.cold.pop_front_if(|cold| cold.ready) else { return };
            if let Write::Command(command) = &cold.write
                && cold.ticket.reply_bytes > 0
                && let Some(view) = self.store.known().view(cold.shard)
                && let Ok(spec) = table::resolve(&command.args())
            {
                // By now it is known how long the answer will be.
                cold.ticket.reply_bytes = ExpectedReply::of(view, spec, &command.args()).bytes();
                connection.promise(cold.ticket.sequence, cold.ticket.reply_bytes);
            }
            self.hand_over(cold.shard, cold.write, cold.keys, cold.ticket);
        }
    }

    pub(crate) fn hand_over(&mut self, shard: usize, write: Write, keys: KeyHashes, ticket: Ticket) {
        let owner = self.store.owner_of(shard);
        if owner == self.index {
            self.submit(shard, write, keys, ticket);
        } else if let Some(inbox) = self.store.inbox(owner) {
            inbox.send(Message::Write { shard: shard as u32, write, keys: keys.to_vec(), ticket });
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
        let Some(spec) = table::lookup(b"exec") else { return Step::Next };
        let Some(ticket) = self.begin(id, spec, &[b"exec"], ALL_KEYS, Effect::Unsettled) else { return Step::Stall };
        let (known, writes) = (self.store.known(), transaction.has_writes());
        let view = known.view(shard).filter(|view| view.leading());
        let expected = |command: &EncodedCommand| {
            let args = command.args();
            let spec = table::resolve(&args).ok();
            view.zip(spec).map(|(view, spec)| ExpectedReply::of(view, spec, &args)).unwrap_or_default()
        };
        let expected = commands.iter().map(expected).fold(ExpectedReply::default(), ExpectedReply::and);
        let reply_bytes = expected.bytes();
        let ticket = Ticket { slot, reply_bytes, ..ticket };
        let watches = transaction.watches().to_vec();
        if let Some(connection) = self.outbox.connections.get_mut(id) {
            connection.transaction = Some((ticket.sequence, transaction));
            connection.promise(ticket.sequence, expected.known_bytes);
        }
        if let Some(view) = view
            && !writes
        {
            // What only reads is no matter for the log: it is read from one snapshot.
            let mut item = EntryBuilder::new();
            item.transaction(&watches, &commands);
            let read = ColdRead {
                store: self.store.clone(),
                ticket,
                spec,
                command: EncodedCommand::new(&[spec.name.as_bytes(), &item.seal(0)]),
                handler: node::read_transaction,
                slot,
                place: (view.clone(), true),
                arrived_us: self.arrived_us,
                consistency: Consistency::Absolute,
                seed: self.next_seed(),
                held: Vec::new(),
            };
            self.outbox.cold.push(Cold::Read(read));
            return Step::Next;
        }
        if let Err(text) = admission::check_reply(expected.known_bytes) {
            let mut reply = Reply::new(ticket.proto);
            reply.error(&text);
            self.outbox.deliver(&ticket, &reply.buf);
            return Step::Next;
        }
        let write = Write::Transaction { watches, commands };
        self.store.write_queued(write.bytes());
        self.hand_over(shard, write, keys, ticket);
        Step::Next
    }
}
