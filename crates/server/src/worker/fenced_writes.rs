//! Writes of slots that are between two shards.

use super::event_loop::Worker;
use crate::access::Access;
use crate::mailbox::{Forked, KeyHashes, WorkerMessage};
use node::session::Consistency;
use node::{Answers, Ticket, Write};
use resp::Reply;

/// How long a write waits for the shard that has its slot now to be led, in µs.
const HELD_WITHIN_US: u64 = 5_000_000;

/// A write of a slot that was given away, until it is known who leads the shard that has it now.
pub(crate) struct HeldWrite {
    write: Write,
    keys: KeyHashes,
    ticket: Ticket,
    since_us: u64,
}

impl Worker {
    /// A write has come to a shard that is giving its slot away, or has.
    pub(crate) fn hold_write(&mut self, write: Write, keys: KeyHashes, ticket: Ticket) {
        self.held_writes.push(HeldWrite { write, keys, ticket, since_us: self.now.mono_us });
    }

    /// Brings writes that were held where they can be made now.
    pub(crate) fn send_held_writes(&mut self) {
        for held in std::mem::take(&mut self.held_writes) {
            let HeldWrite { write, keys, ticket, since_us } = held;
            let known = self.store.known();
            let shard = known.shard_of(ticket.slot).unwrap_or_default();
            let refusal = match self.store.access(&known, shard, ticket.slot, Consistency::Absolute) {
                Access::Leader(_) | Access::Follower(_) => {
                    drop(known);
                    self.hand_over(shard, write, keys, ticket);
                    continue;
                }
                Access::Wait if self.now.mono_us < since_us + HELD_WITHIN_US => {
                    self.held_writes.push(HeldWrite { write, keys, ticket, since_us });
                    continue;
                }
                Access::Wait => self.store.no_leader(Consistency::Absolute),
                Access::Refused(text) => text,
            };
            self.store.write_left(write.bytes());
            let mut reply = Reply::new(ticket.proto);
            reply.error(&refusal);
            self.outbox.answer(&ticket, &reply.buf);
        }
    }

    /// The fork that one of its shards waits for is made, or cannot be.
    pub(crate) fn forked(&mut self, forked: Forked) {
        let Forked { parent, child: id, outcome, leads } = forked;
        let (child, outcome) = match outcome {
            Ok(child) => (child, Ok(())),
            Err(detail) => (None, Err(detail)),
        };
        // Requests look for the child from now on; it answers when it has been adopted and elected.
        let at = self.core.shard(parent).map(|shard| shard.view().clone());
        let child = child.filter(|_| at.is_some());
        if let (Some(parent), Some(child)) = (at, &child) {
            let view = child.shard.view().clone();
            view.begin_after(&parent);
            self.store.directory.set_view(view.id(), Some((child.shard.replica().me(), view)));
        }
        self.core.forked(parent, outcome);
        // The parent gives the slots away before the child answers for them.
        self.core.apply(self.now, &mut self.outbox);
        self.after_apply();
        if let Some(child) = child {
            self.store.tell_owner(id, WorkerMessage::AdoptChild { opened: Box::new(child), leads });
        }
        self.store.forks.end(id);
        // If the map gives it to this node and it was not made here, it is begun with nothing now.
        self.store.holdings.wake();
        self.store.wake_all_with(|| WorkerMessage::Led);
    }
}
