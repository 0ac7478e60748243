//! The receiving side of one transfer: a thread that takes rows in, over as many connections as it takes.

use super::outbound::Received;
use super::parts::{Begin, DONE, END, GO_ON, Progress, RECEIVED, REFUSED, ROWS, as_words, rows};
use super::sender::{NAP, QUIET_MAX};
use super::shared::Shared;
use super::stream::{Broken, Parts};
use super::transfer::Transfer;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use storage::{Ingest, Slice};
use vocab::NodeId;

/// The receiving side of one transfer, on a thread of its own.
pub(super) struct Intake<'a> {
    pub(super) shared: &'a Shared,
    pub(super) from: NodeId,
    pub(super) begin: Begin,
    pub(super) transfer: &'a Transfer,
    /// Where the sender's later connections come in.
    pub(super) calls: Receiver<Parts>,
}

impl Intake<'_> {
    pub(super) fn run(self, mut parts: Parts) {
        let shard = self.begin.shard;
        let mut ingest = match self.shared.host.ingest(self.from, shard, &self.begin.message) {
            Ok(ingest) => ingest,
            Err(why) => return self.refuse(parts, &why),
        };
        let mut received = Progress::default();
        loop {
            let taken = if self.transfer.uses(parts.stream()) {
                self.take(&mut parts, &mut *ingest, &mut received)
            } else {
                Err(Broken::Over("cancelled".to_owned()))
            };
            match taken {
                Ok(()) => break,
                Err(_) if self.transfer.is_cancelled() => return self.refuse(parts, "cancelled"),
                Err(Broken::Over(why)) => return self.refuse(parts, &why),
                Err(Broken::Cut(why) | Broken::Busy(why)) => {
                    self.transfer.broke();
                    log::debug!("the snapshot of shard {shard} from node {}: {why}", self.from);
                    let Some(next) = self.next_call() else {
                        log::warn!("the snapshot of shard {shard} from node {} is given up: {why}", self.from);
                        return;
                    };
                    parts = next;
                }
            }
        }
        let ingested = match ingest.finish(self.begin.index, self.begin.meta.clone()) {
            Ok(ingested) => ingested,
            Err(e) => return self.refuse(parts, &e.to_string()),
        };
        if self.transfer.is_cancelled() {
            return self.refuse(parts, "cancelled");
        }
        log::info!(
            "took in the snapshot of shard {shard} from node {}: {} rows, {} bytes, {:.1} s",
            self.from,
            received.rows,
            received.bytes,
            self.transfer.status().age.as_secs_f64()
        );
        let Begin { index, meta, message, transfer, .. } = self.begin;
        self.shared.host.received(Received { from: self.from, shard, index, ingested, meta, message });
        self.shared.ended(shard, transfer, true);
        // The sender may have lost patience and called again; if this does not reach it, it asks again and is told.
        let mut parts = self.calls.try_recv().unwrap_or(parts);
        let _ = parts.say(DONE, &[]);
    }

    fn refuse(&self, mut parts: Parts, why: &str) {
        log::warn!("the snapshot of shard {} from node {} is refused: {why}", self.begin.shard, self.from);
        // It may have gone.
        let _ = parts.say(REFUSED, as_words(why));
    }

    /// Waits for the sender to call again.
    fn next_call(&self) -> Option<Parts> {
        let since = Instant::now();
        while since.elapsed() < self.shared.options.resume_within && !self.transfer.is_cancelled() {
            match self.calls.recv_timeout(NAP) {
                Ok(parts) => return Some(parts),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }

    /// Takes in what comes over one connection, to the end of the snapshot.
    fn take(&self, parts: &mut Parts, ingest: &mut dyn Ingest, received: &mut Progress) -> Result<(), Broken> {
        let over = |why: &str| Broken::Over(why.to_owned());
        received.chunks = 0;
        parts.say(GO_ON, &received.encode(true))?;
        loop {
            match parts.hear()? {
                (ROWS, chunk) => {
                    let length = chunk.len() as u64;
                    for row in rows(chunk) {
                        let (key, value) = row.map_err(over)?;
                        // A copy: a part of the chunk would keep all of it.
                        let (key, value) = (Slice::from(key), Slice::from(value));
                        received.rows += 1;
                        received.bytes += (key.len() + value.len()) as u64;
                        received.last = Some(key.clone());
                        ingest.put(key, value).map_err(|e| Broken::Over(e.to_string()))?;
                    }
                    self.pay(length, parts, received)?;
                    received.chunks += 1;
                    parts.say(RECEIVED, &received.encode(false))?;
                    self.transfer.has_received(received.rows, received.bytes);
                }
                (END, end) => {
                    let there = [received.rows.to_le_bytes(), received.bytes.to_le_bytes()].concat();
                    return if end == there { Ok(()) } else { Err(over("rows are missing at the end")) };
                }
                (kind, _) => return Err(Broken::Cut(format!("a part of kind {kind} came"))),
            }
        }
    }

    /// Waits for the rate limit.
    fn pay(&self, bytes: u64, parts: &mut Parts, received: &Progress) -> Result<(), Broken> {
        let mut wait = self.shared.receiving.take(bytes, Instant::now());
        let mut quiet = Duration::ZERO;
        while !wait.is_zero() {
            if self.transfer.is_cancelled() {
                return Err(Broken::Over("cancelled".to_owned()));
            }
            let nap = wait.min(NAP);
            std::thread::sleep(nap);
            wait -= nap;
            quiet += nap;
            if quiet >= QUIET_MAX {
                parts.say(RECEIVED, &received.encode(false))?;
                quiet = Duration::ZERO;
            }
        }
        Ok(())
    }
}
