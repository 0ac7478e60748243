//! How a worker's writes become durable: all of a turn are one entry a shard and one log write for all shards.

use super::event_loop::Worker;
use crate::mailbox::KeyHashes;
use crate::os::TICK;
use crate::os::forget_waits;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use node::core::Logging;
use node::{ShardView, Ticket};
use replica::{LogStore, LogWrite};
use std::time::{Duration, Instant};
use vocab::ShardId;

/// How long writers wait in each turn for background work that is just behind.
const DEBT_PAUSE: Duration = Duration::from_millis(2);
/// The debt at which they wait longest.
const DEBT_MAX: f64 = 25.0;

/// How long clients wait for a log write that has no room before they are told.
const ROOM_PATIENCE: Duration = Duration::from_secs(1);

/// Log writes that a worker may have under way: while one is being fsynced, the next is written.
const LOG_WRITES_MAX: usize = 2;

/// Rounds of one call: what is left has its turn after the sockets.
const ROUNDS_MAX: usize = 16;

/// For how long it is taken as known whether there is room for a log write, in µs. In that time the log takes at most
/// what writes may be queued, which is less than the reserve.
const ROOM_KNOWN_US: u64 = 5_000;

/// An fsync that takes less is not handed to another thread.
const FSYNC_SHORT: Duration = Duration::from_micros(500);

/// Log writes whose fsync is under way.
pub(crate) struct UnderWay {
    what: Vec<Logging>,
    by: SyncedBy,
}

/// Who makes an fsync.
#[derive(PartialEq, Eq)]
enum SyncedBy {
    /// The kernel, which tells when it is made.
    Ring,
    LogThread,
    /// A log thread, which makes the write too.
    LogThreadThatWrites,
}

impl Worker {
    /// Proposes what was submitted, sends what there is to send, and applies what is committed, until nothing is left
    /// or the log has to be waited for.
    pub(crate) fn pump(&mut self) {
        for _ in 0..ROUNDS_MAX {
            if !self.may_log() || !self.core.is_busy() || self.paused_until > Instant::now() {
                return;
            }
            self.hold_back();
            let mut write = LogWrite::default();
            let logging = self.core.pump(self.now, &mut write, &mut self.outbox);
            self.store.write_left(std::mem::take(&mut self.queued_bytes));
            if !write.is_empty() {
                self.write_log(write, logging);
            }
            self.outbox.applying.begin();
            self.core.apply(self.now, &mut self.outbox);
            self.outbox.applying.look(&self.store);
            self.after_apply();
        }
    }

    /// Whether a log write may begin. Not if another is to end first: a replica is closed only where none is under way.
    /// While the ring makes an fsync, what comes becomes one log write.
    pub(crate) fn may_log(&self) -> bool {
        let may_follow = || self.logging.len() < LOG_WRITES_MAX && !self.ring_is_at_work() && self.releases.is_empty();
        !self.is_logging() || may_follow()
    }

    fn ring_is_at_work(&self) -> bool {
        self.logging.front().is_some_and(|oldest| oldest.by == SyncedBy::Ring)
    }

    /// Whether a log write is under way.
    pub(crate) fn is_logging(&self) -> bool {
        !self.logging.is_empty() || !self.staged.is_empty()
    }

    pub(crate) fn write_log(&mut self, write: LogWrite, logging: Logging) {
        // A write that has to wait for room must not do so here, nor must one that follows it get there before it.
        let last_by = self.logging.back().map(|last| &last.by);
        if last_by == Some(&SyncedBy::LogThreadThatWrites) || self.is_short_of_room() {
            self.hand_over_sync();
            self.post();
            self.store.log_threads.write(write, self.mailbox.clone());
            return self.wait_for_log(vec![logging], SyncedBy::LogThreadThatWrites);
        }
        if write.wants_sync() || self.is_logging() {
            // The others write while this node waits for its disk.
            self.post();
            let staged = self.store.log.stage(write);
            forget_waits();
            match staged {
                Ok(()) => self.staged.push(logging),
                failed => self.note_logged(&logging, failed),
            }
            return;
        }
        let outcome = self.store.log.write(write, false);
        forget_waits();
        self.store.log_threads.unsynced();
        self.note_logged(&logging, outcome);
    }

    fn wait_for_log(&mut self, what: Vec<Logging>, by: SyncedBy) {
        if self.logging.is_empty() {
            self.logging_since = Instant::now();
        }
        self.logging.push_back(UnderWay { what, by });
    }

    /// At the end of a turn: has what it wrote fsynced.
    ///
    /// By log threads, if other workers' writes can share that, or if it takes long: a device serves several at a time.
    /// Otherwise by the ring, and this thread goes on; or here, if no client wanted anything but writes in this turn: then
    /// who waits for this thread waits for the log anyway, and more writes share the next fsync.
    pub(crate) fn sync_staged(&mut self) {
        if self.note_ring() {
            self.pump();
        }
        if self.staged.is_empty() || self.ring_is_at_work() {
            return;
        }
        let is_short = self.store.log_threads.fsync_time() < FSYNC_SHORT;
        if self.store.workers() > 1 || !self.logging.is_empty() || !is_short {
            return self.hand_over_sync();
        }
        if self.served_others {
            return self.begin_sync();
        }
        let staged = std::mem::take(&mut self.staged);
        self.synced_here = true;
        let outcome = self.store.log_threads.sync_here();
        self.note_all_logged(&staged, &outcome);
        // What followed from that does not wait for the next turn.
        self.pump();
        self.post();
        self.hand_over_sync();
    }

    fn begin_sync(&mut self) {
        if self.has_ring && self.store.log.begin_sync() {
            let staged = std::mem::take(&mut self.staged);
            self.wait_for_log(staged, SyncedBy::Ring);
        } else {
            self.hand_over_sync();
        }
    }

    /// Lets the log have a ring, whose events come as mail does.
    pub(crate) fn open_ring(&mut self, registry: &Registry, token: Token) {
        if self.store.workers() > 1 {
            return;
        }
        let opened = self.store.log.open_ring();
        let registered = opened.and_then(|fd| registry.register(&mut SourceFd(&fd), token, Interest::READABLE));
        match registered {
            Ok(()) => self.has_ring = true,
            Err(e) => log::info!("no io_uring here ({e}): threads make all fsyncs of the log"),
        }
    }

    /// If the ring's fsync is over, what waited for it may go on. Answers whether it is.
    pub(crate) fn note_ring(&mut self) -> bool {
        if !self.has_ring {
            return false;
        }
        let Some((outcome, took)) = self.store.log.ended_sync() else { return false };
        self.store.log_threads.note_fsync(took);
        match (outcome, self.logging.front_mut()) {
            (Ok(false), Some(oldest)) => {
                oldest.by = SyncedBy::LogThread;
                self.store.log_threads.sync(self.mailbox.clone());
            }
            (outcome, _) => self.logged(outcome.map(|_| ())),
        }
        true
    }

    fn hand_over_sync(&mut self) {
        if !self.staged.is_empty() {
            let staged = std::mem::take(&mut self.staged);
            self.store.log_threads.sync(self.mailbox.clone());
            self.wait_for_log(staged, SyncedBy::LogThread);
        }
    }

    /// Asked now and then: a device does not fill up within the reserve faster than that.
    fn is_short_of_room(&mut self) -> bool {
        if self.now.mono_us >= self.room_known_until_us {
            self.short_of_room = self.store.is_short_of_room();
            self.room_known_until_us = self.now.mono_us + ROOM_KNOWN_US;
        }
        self.short_of_room
    }

    fn note_logged(&mut self, logging: &Logging, outcome: replica::Result<()>) {
        match outcome {
            Ok(()) => self.core.logged(logging, &mut self.outbox),
            Err(e) => self.core.fail_pending(&e.to_string(), &mut self.outbox),
        }
    }

    /// The log write under way waits for room: nobody waits with it for ever. It goes on by itself when there is some.
    pub(crate) fn answer_for_want_of_room(&mut self) {
        let health = self.store.health.clone();
        if !self.logging.is_empty() && health.log_waits() && self.logging_since.elapsed() > ROOM_PATIENCE {
            let reason = format!("disk full ({})", health.reason());
            self.core.fail_pending(&reason, &mut self.outbox);
        }
    }

    /// Background work that is behind slows writers down, a little for every turn, rather than stop them later.
    fn hold_back(&mut self) {
        let debts =
            self.core.busy_shards().filter(|shard| shard.has_queued()).map(|shard| shard.view().engine().debt());
        let debt = debts.fold(0.0, f64::max);
        if debt >= 1.0 {
            self.paused_until = Instant::now() + DEBT_PAUSE.mul_f64(debt.min(DEBT_MAX)).min(TICK);
        }
    }

    /// The oldest log write under way is done: what waited for it goes on.
    pub(crate) fn logged(&mut self, outcome: replica::Result<()>) {
        if let Some(under_way) = self.logging.pop_front() {
            self.logging_since = Instant::now();
            self.note_all_logged(&under_way.what, &outcome);
        }
    }

    fn note_all_logged(&mut self, all: &[Logging], outcome: &replica::Result<()>) {
        for logging in all {
            self.note_logged(logging, outcome.clone());
        }
        self.release();
    }

    /// Hands a write to its shard, which this worker owns.
    pub(crate) fn submit(&mut self, shard: usize, write: node::Write, keys: KeyHashes, ticket: Ticket) {
        let id = ShardId(shard as u32);
        let given_away = |view: &ShardView| view.leading() && !view.owns(ticket.slot);
        if write.is_of_slot() && self.core.shard(id).is_some_and(|shard| given_away(shard.view())) {
            self.hold_write(write, keys, ticket);
        } else if self.core.submit(id, &write, &keys, ticket, &mut self.outbox) {
            self.queued_bytes += write.bytes();
        } else {
            self.store.write_left(write.bytes());
        }
    }
}
