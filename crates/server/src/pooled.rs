//! Reads that wait for the disk: made by an event loop with what it has read for them (`disk_reader`), or by a thread of
//! the pool, which takes several at a time.
//!
//! Waiting costs a read more than anything else: a thread is put to sleep and woken again, and the next thread's turn
//! comes. So the disk is asked for what all reads of a batch need before the first one is made, and their answers go
//! back to their workers together. A batch waits for nothing but the disk: a read that must wait for anything else
//! becomes a job by itself.

use crate::inbox::Message;
use crate::pool::{Job, Pool};
use crate::requests::conclude;
use crate::store::{Store, now_ms, steady_us};
use node::exec::{Call, Error, Handler};
use node::session::Consistency;
use node::{EncodedCommand, Fault, Held, ShardView, SnapshotSpace, Ticket};
use resp::Reply;
use resp::table::CommandSpec;
use std::sync::Arc;
use std::time::Instant;
use storage::{BlockRead, HeldBlock};
use vocab::Slot;

/// Of one read, the keys that the disk is asked for ahead.
const KEYS_AHEAD_MAX: usize = 64;

/// An answer and whose it is.
pub(crate) type Answer = (Ticket, Vec<u8>);

/// How a read that was not to wait came out.
pub(crate) enum Outcome {
    /// It is made.
    Answered(Answer),
    /// It needs this block first.
    Lacks(PooledRead, BlockRead),
    /// It has to be made by a thread that may wait for the disk.
    WouldWait(PooledRead),
    /// It waits for something else than the disk.
    Patient(Job),
}

/// A read of one shard that may wait for the disk.
pub(crate) struct PooledRead {
    pub(crate) store: Arc<Store>,
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

impl PooledRead {
    /// Has the disk begin to read what this read needs.
    fn prefetch(&self) {
        let args = self.command.args();
        for at in self.spec.keys(&args).into_iter().flatten().take(KEYS_AHEAD_MAX) {
            self.place.0.prefetch(args[at]);
        }
    }

    /// Of a read of several keys, the blocks that it will lack first: they are read side by side.
    pub(crate) fn ahead(&self) -> Vec<BlockRead> {
        let args = self.command.args();
        let mut keys = self.spec.keys(&args).into_iter().flatten().take(KEYS_AHEAD_MAX);
        let (Some(first), Some(second)) = (keys.next(), keys.next()) else { return Vec::new() };
        [first, second].into_iter().chain(keys).filter_map(|at| self.place.0.missing(args[at])).collect()
    }

    /// For the next time that it is made.
    pub(crate) fn hold(&mut self, block: HeldBlock) {
        self.held.push(block);
    }

    /// Makes the read, if what it needs is in memory or held.
    pub(crate) fn make_now(mut self) -> Outcome {
        let mut reply = Reply::new(self.ticket.proto);
        let mut held = Held { blocks: std::mem::take(&mut self.held), lacking: None };
        let made = self.make(&self.place.0, self.place.1, Some(&mut held), &mut reply);
        match (made, held.lacking) {
            (Made::Counts, _) => Outcome::Answered((self.ticket, reply.buf)),
            (Made::WouldWait, Some(block)) => {
                self.held = held.blocks;
                Outcome::Lacks(self, block)
            }
            (Made::WouldWait, None) => Outcome::WouldWait(self),
            (Made::Elsewhere | Made::Unconfirmed, _) => Outcome::Patient(Box::new(move || self.make_patiently())),
        }
    }

    fn make(&self, view: &Arc<ShardView>, leads: bool, held: Option<&mut Held>, reply: &mut Reply) -> Made {
        let (begun, now_ms) = (Instant::now(), now_ms());
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
        conclude(done, reply, 0);
        self.store.note_read(begun.elapsed(), now_ms);
        if !leads {
            return if view.has_slot(self.slot) { Made::Counts } else { Made::Elsewhere };
        }
        if view.leading() && !view.owns(self.slot) {
            return Made::Elsewhere;
        }
        if view.readable(self.arrived_us, steady_us()) { Made::Counts } else { Made::Unconfirmed }
    }

    /// Makes the read; the job is what is left if it must wait for anything but the disk.
    fn try_make(self) -> Result<Answer, Job> {
        let mut reply = Reply::new(self.ticket.proto);
        match self.make(&self.place.0, self.place.1, None, &mut reply) {
            Made::Counts => Ok((self.ticket, reply.buf)),
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
            match self.make(&view, leads, None, &mut reply) {
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
        crate::dispatch::answer(&self.store, self.ticket, reply.buf);
    }
}

/// Makes a batch of reads and sends their answers. `reads` is empty afterwards.
pub(crate) fn make_all(pool: &Pool, reads: &mut Vec<PooledRead>) {
    let Some(store) = reads.first().map(|read| read.store.clone()) else { return };
    reads.iter().for_each(PooledRead::prefetch);
    let mut answers = Vec::with_capacity(reads.len());
    for read in reads.drain(..) {
        match read.try_make() {
            Ok(answer) => answers.push(answer),
            Err(job) => pool.run(job),
        }
    }
    for worker in 0..store.workers() {
        let mine = answers.extract_if(.., |(ticket, _)| ticket.worker as usize == worker);
        if let Some(inbox) = store.inbox(worker) {
            inbox.send_all(mine.map(|(ticket, reply)| Message::Answer { ticket, reply }));
        }
    }
}
