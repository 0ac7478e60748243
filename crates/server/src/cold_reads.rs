//! Reads of one shard that may wait for the disk.

use crate::api::conclude_on;
use crate::disk_reads::{Cold, Outcome};
use crate::mailbox::WorkerMessage;
use crate::os::steady_us;
use crate::shared::{Job, NodeShared};
use node::command::{Call, Error, Handler};
use node::session::Consistency;
use node::{EncodedCommand, Fault, Held, ShardView, SnapshotSpace, Ticket};
use resp::Reply;
use resp::table::CommandSpec;
use std::sync::Arc;
use std::time::Instant;
use storage::HeldBlock;
use vocab::Slot;

/// A read of one shard that may wait for the disk.
pub(crate) struct ColdRead {
    pub(crate) store: Arc<NodeShared>,
    pub(crate) ticket: Ticket,
    pub(crate) spec: &'static CommandSpec,
    pub(crate) command: EncodedCommand,
    pub(crate) handler: Handler,
    pub(crate) slot: Slot,
    /// The replica, and whether it leads.
    pub(crate) place: (Arc<ShardView>, bool),
    /// When the request came.
    pub(crate) arrived_us: u64,
    /// What its client was promised.
    pub(crate) consistency: Consistency,
    pub(crate) seed: u64,
    /// What was read from disk for it.
    pub(crate) held: Vec<HeldBlock>,
}

/// Whether an answer may be given.
enum Made {
    Counts,
    /// It needs more than is in memory.
    WouldWait,
    /// The slot is another shard's now.
    Elsewhere,
    /// It counts once its leader is confirmed.
    Unconfirmed,
}

impl ColdRead {
    /// Makes the read, if what it needs is in memory or held.
    pub(crate) fn make_now(mut self) -> Outcome {
        let mut reply = Reply::new(self.ticket.proto);
        let mut held = Held { blocks: std::mem::take(&mut self.held), lacking: None };
        let made = self.attempt(&self.place.0, self.place.1, Some(&mut held), &mut reply);
        match (made, held.lacking) {
            (Made::Counts, _) => Outcome::Over(Some(WorkerMessage::Answer { ticket: self.ticket, reply: reply.buf })),
            (Made::WouldWait, Some(block)) => {
                self.held = held.blocks;
                Outcome::Lacks(Cold::Read(self), block)
            }
            (Made::WouldWait, None) => Outcome::WouldWait(Cold::Read(self)),
            (Made::Elsewhere | Made::Unconfirmed, _) => Outcome::Patient(Box::new(move || self.make_patiently())),
        }
    }

    fn attempt(&self, view: &Arc<ShardView>, leads: bool, held: Option<&mut Held>, reply: &mut Reply) -> Made {
        let (begun, now_ms) = (held.is_none().then(Instant::now), self.store.now_ms());
        reply.buf.clear();
        let mut space = match held {
            Some(held) => SnapshotSpace::without_waiting(view, now_ms, self.seed, held),
            None => SnapshotSpace::new(view, now_ms, self.seed),
        };
        let done = (self.handler)(&mut Call { args: &self.command.args(), space: &mut space, reply });
        if matches!(done, Err(Error::Fault(Fault::WouldBlock))) {
            return Made::WouldWait;
        }
        self.store.stats.looked_up(space.lookups());
        drop(space);
        conclude_on(view, done, reply, 0);
        // What does not wait tells nothing of the disk.
        if let Some(begun) = begun {
            self.store.note_read(begun.elapsed(), now_ms);
        }
        if !leads {
            return if view.has_slot(self.slot) { Made::Counts } else { Made::Elsewhere };
        }
        if view.leading() && !view.owns(self.slot) {
            return Made::Elsewhere;
        }
        if view.readable(self.arrived_us, steady_us()) { Made::Counts } else { Made::Unconfirmed }
    }

    /// Makes the read; the job is what is left if it must wait for anything but the disk.
    pub(crate) fn make(self) -> Result<Option<WorkerMessage>, Job> {
        let mut reply = Reply::new(self.ticket.proto);
        match self.attempt(&self.place.0, self.place.1, None, &mut reply) {
            Made::Counts => Ok(Some(WorkerMessage::Answer { ticket: self.ticket, reply: reply.buf })),
            Made::WouldWait | Made::Elsewhere | Made::Unconfirmed => Err(Box::new(move || self.make_patiently())),
        }
    }

    /// Makes the read again, wherever its slot is by now, and waits until its answer counts.
    fn make_patiently(self) {
        let mut reply = Reply::new(self.ticket.proto);
        let mut place = Ok(self.place.clone());
        let refused = loop {
            let (view, leads) = match place {
                Ok(place) => place,
                Err(refused) => break refused,
            };
            match self.attempt(&view, leads, None, &mut reply) {
                Made::Counts => break String::new(),
                Made::WouldWait => unreachable!("it was not asked to be made at once"),
                Made::Unconfirmed if self.store.confirm_read(&view, self.arrived_us) => break String::new(),
                Made::Unconfirmed => {
                    let moved = self.store.redirection(view.id().0 as usize, self.slot);
                    break moved.unwrap_or_else(|| self.store.no_leader(Consistency::Absolute));
                }
                Made::Elsewhere => place = self.store.await_access(self.slot, self.consistency),
            }
        };
        if !refused.is_empty() {
            reply.buf.clear();
            reply.error(&refused);
        }
        self.store.answer(self.ticket, reply.buf);
    }
}
