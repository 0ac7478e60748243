//! Reads that the pool makes for an event loop: several by one thread, which waits for the disk once for all of them.
//!
//! Waiting costs a read more than anything else: a thread is put to sleep and woken again, and the next thread's turn
//! comes. So the disk is asked for what all reads of a batch need before the first one is made, and their answers go
//! back to their workers together. A batch waits for nothing but the disk: a read that must wait for anything else
//! becomes a job by itself.

use crate::inbox::Message;
use crate::pool::{Job, Pool};
use crate::requests::conclude;
use crate::store::{Store, now_ms, steady_us};
use node::exec::{Call, Handler};
use node::session::Consistency;
use node::{EncodedCommand, ShardView, SnapshotSpace, Ticket};
use resp::Reply;
use resp::table::CommandSpec;
use std::sync::Arc;
use std::time::Instant;
use vocab::Slot;

/// Of one read, the keys that the disk is asked for ahead.
const KEYS_AHEAD_MAX: usize = 64;

/// An answer and whose it is.
type Answer = (Ticket, Vec<u8>);

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
}

/// Whether an answer may be given.
enum Made {
    Counts,
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

    fn make(&self, view: &Arc<ShardView>, leads: bool, reply: &mut Reply) -> Made {
        let (begun, now_ms) = (Instant::now(), now_ms());
        reply.buf.clear();
        let mut space = SnapshotSpace::new(view, now_ms, self.seed);
        let done = (self.handler)(&mut Call { args: &self.command.args(), space: &mut space, reply });
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
        match self.make(&self.place.0, self.place.1, &mut reply) {
            Made::Counts => Ok((self.ticket, reply.buf)),
            Made::Elsewhere | Made::Unconfirmed => Err(Box::new(move || self.make_patiently())),
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
            match self.make(&view, leads, &mut reply) {
                Made::Counts => break String::new(),
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
