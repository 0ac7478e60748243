//! How a worker's writes become durable: all of a turn are one entry a shard and one log write for all shards.

use crate::background::is_short_of_room;
use crate::outbox::Outbox;
use crate::worker::{TICK, Worker};
use node::{Shard, Ticket};
use replica::LogWrite;
use std::time::{Duration, Instant};

/// How long writers wait in each turn for background work that is just behind.
const DEBT_PAUSE: Duration = Duration::from_millis(2);
/// The debt at which they wait longest.
const DEBT_MAX: f64 = 25.0;

/// How long clients wait for a log write that has no room before they are told.
const ROOM_PATIENCE: Duration = Duration::from_secs(1);

impl Worker {
    /// Proposes what was submitted and applies what is committed.
    pub(crate) fn pump(&mut self) {
        if self.logging.is_some() || self.busy.is_empty() || self.paused_until > Instant::now() {
            return;
        }
        let mut write = LogWrite::default();
        let mut numbers = Vec::with_capacity(self.busy.len());
        let mut busy = std::mem::take(&mut self.busy);
        busy.sort_unstable();
        busy.dedup();
        for &i in &busy {
            let Some(shard) = &mut self.shards[i] else { continue };
            shard.propose(self.now_ms, &mut self.outbox);
            let number = turn(shard, &mut write, &mut self.outbox);
            if number > 0 {
                numbers.push((i, number));
            }
        }
        self.store.write_left(std::mem::take(&mut self.queued_bytes));
        self.hold_back(&busy);
        busy.clear();
        self.busy = busy;
        if write.is_empty() {
            return;
        }
        self.logging_since = Instant::now();
        if self.store.sync || is_short_of_room(&self.store) {
            self.logging = Some(numbers);
            self.store.log_thread.write(write, self.inbox.clone());
        } else {
            let outcome = self.store.log.write(&mut write, false);
            self.store.log_thread.unsynced();
            self.logging = Some(numbers);
            self.logged(outcome);
        }
    }

    /// The log write under way waits for room: nobody waits with it for ever. It goes on by itself when there is some.
    pub(crate) fn answer_for_want_of_room(&mut self) {
        let health = self.store.health.clone();
        if self.logging.is_some() && health.log_waits() && self.logging_since.elapsed() > ROOM_PATIENCE {
            let reason = format!("disk full ({})", health.reason());
            for shard in self.shards.iter_mut().flatten() {
                shard.fail_pending(&reason, &mut self.outbox);
            }
        }
    }

    /// Background work that is behind slows writers down, a little for every turn, rather than stop them later.
    fn hold_back(&mut self, busy: &[usize]) {
        let debts = busy.iter().filter_map(|&i| Some(self.shards[i].as_ref()?.view().engine().debt()));
        let debt = debts.fold(0.0, f64::max);
        if debt >= 1.0 {
            self.paused_until = Instant::now() + DEBT_PAUSE.mul_f64(debt.min(DEBT_MAX)).min(TICK);
        }
    }

    /// The log write under way is done: its entries are committed and applied.
    pub(crate) fn logged(&mut self, outcome: replica::Result<()>) {
        let Some(numbers) = self.logging.take() else { return };
        if let Err(e) = outcome {
            for shard in self.shards.iter_mut().flatten() {
                shard.fail_pending(&e.to_string(), &mut self.outbox);
            }
            return;
        }
        if self.store.sync {
            // The next write goes to the disk while this one is applied.
            self.pump();
        }
        let mut write = LogWrite::default();
        for &(i, number) in &numbers {
            let Some(shard) = &mut self.shards[i] else { continue };
            shard.persisted(number);
            let more = turn(shard, &mut write, &mut self.outbox);
            debug_assert_eq!(more, 0, "a group of one has nothing to write after a commit");
            if shard.view().engine().wants_flush() {
                shard.seal();
                self.store.background.wake();
            }
        }
    }

    /// Hands a write to its shard, which this worker owns.
    pub(crate) fn submit(&mut self, shard: usize, write: &node::Write, keys: &[u64], ticket: Ticket) {
        let Some(Some(owned)) = self.shards.get_mut(shard) else {
            log::error!("a write for shard {shard} came to worker {}, which does not own it", self.index);
            return;
        };
        if owned.submit(write, keys, ticket, &mut self.outbox) {
            self.queued_bytes += write.bytes();
            self.busy.push(shard);
        } else {
            self.store.write_left(write.bytes());
        }
    }
}

/// Turns a shard until there is nothing left; the number of the last turn that has something to persist.
fn turn(shard: &mut Shard, write: &mut LogWrite, outbox: &mut Outbox) -> u64 {
    let mut number = 0;
    loop {
        match shard.turn(write, outbox) {
            Ok(Some(turned)) => number = number.max(turned),
            Ok(None) => return number,
            Err(e) => {
                log::error!("{e}");
                return number;
            }
        }
    }
}
