//! Prefetches: rows that writes will find are read before the writes are applied, and the event loop serves other shards
//! meanwhile.
//!
//! Prefetching pays only while the disk is slow. The leader prefetches the keys of a write before it submits it. Every
//! replica prefetches what committed entries will find: followers have not seen the write before, and some rows are not
//! known from the keys alone.

use super::outcome::Outcome;
use crate::mailbox::WorkerMessage;
use crate::shared::{Job, NodeShared};
use node::{ColdItem, EncodedCommand, Held, ShardHandle, Ticket, Warmed, Warmth, cold_items};
use replica::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use storage::HeldBlock;

/// Measures whether applying entries waits for the disk.
pub(crate) struct Applying {
    /// When the last look was.
    since: Instant,
}

impl Default for Applying {
    fn default() -> Self {
        Self { since: Instant::now() }
    }
}

impl Applying {
    /// Applying begins.
    pub(crate) fn begin(&mut self) {
        self.since = Instant::now();
    }

    /// Applying ends, or goes on with the next entry. If it had to wait for the disk, later entries prefetch.
    pub(crate) fn look(&mut self, store: &NodeShared) {
        let now = Instant::now();
        store.note_read(now - self.since, store.now_ms());
        self.since = now;
    }
}

/// What waits for rows.
enum Awaiting {
    /// A write of one of the worker's connections.
    Write(Ticket),
    /// The entries of a shard, together with so many other prefetches.
    Entries(Arc<AtomicUsize>),
}

/// A prefetch.
pub(crate) struct ColdRows {
    pub(crate) store: Arc<NodeShared>,
    pub(crate) view: Arc<ShardHandle>,
    pub(crate) item: ColdItem,
    /// The worker that waits for them.
    pub(crate) worker: usize,
    awaiting: Awaiting,
    /// Blocks that were read for them.
    pub(crate) held: Vec<HeldBlock>,
}

impl ColdRows {
    /// The rows of a write that `ticket`'s connection waits for.
    pub(crate) fn of_write(
        store: &Arc<NodeShared>,
        view: Arc<ShardHandle>,
        command: EncodedCommand,
        now_ms: u64,
        ticket: Ticket,
    ) -> Self {
        let item = ColdItem::of(command, now_ms);
        let (worker, awaiting) = (ticket.worker as usize, Awaiting::Write(ticket));
        Self { store: store.clone(), view, item, worker, awaiting, held: Vec::new() }
    }

    /// Reads them, with what is in memory or held.
    pub(crate) fn read_now(mut self) -> Outcome<Self> {
        let mut held = Held { blocks: std::mem::take(&mut self.held), lacking: None };
        match (self.item.read(&self.view, Some(&mut held)), held.lacking) {
            (Warmed::Done, _) => Outcome::Over(self.end()),
            (Warmed::Lacking, Some(block)) => {
                self.held = held.blocks;
                Outcome::Lacks(self, block)
            }
            (Warmed::Lacking, None) => Outcome::WouldWait(self),
            (Warmed::More, _) => Outcome::Patient(self.rest()),
        }
    }

    /// Reads them, and waits for the disk. If they are more than the records of some keys, the rest is a job.
    pub(crate) fn read(self) -> Result<Option<WorkerMessage>, Job> {
        let begun = Instant::now();
        let warmed = self.item.read(&self.view, None);
        self.store.note_read(begun.elapsed(), self.store.now_ms());
        if warmed == Warmed::More { Err(self.rest()) } else { Ok(self.end()) }
    }

    fn rest(self) -> Job {
        Box::new(move || {
            let begun = Instant::now();
            self.item.read_rest(&self.view);
            self.store.note_read(begun.elapsed(), self.store.now_ms());
            if let (Some(message), Some(mailbox)) = (self.end(), self.store.mailboxes.of_worker(self.worker)) {
                mailbox.send(message);
            }
        })
    }

    /// The message for their worker, now that they are in memory.
    fn end(&self) -> Option<WorkerMessage> {
        match &self.awaiting {
            Awaiting::Write(ticket) => Some(WorkerMessage::Warm(*ticket)),
            Awaiting::Entries(left) if left.fetch_sub(1, Ordering::AcqRel) == 1 => {
                Some(WorkerMessage::RowsWarm(self.view.id()))
            }
            Awaiting::Entries(_) => None,
        }
    }
}

/// Adds to `cold` the rows that `entries` will find and that take the disk. Their shard's worker is told when they are in
/// memory.
pub(crate) fn warm_entries(
    store: &Arc<NodeShared>,
    worker: usize,
    view: &Arc<ShardHandle>,
    entries: &[Entry],
    mut queue: impl FnMut(ColdRows),
) -> Warmth {
    if store.reads_are_fast(store.now_ms()) {
        return Warmth::Unknown;
    }
    let items = cold_items(view, entries);
    if items.is_empty() {
        return Warmth::Warm;
    }
    let left = Arc::new(AtomicUsize::new(items.len()));
    for item in items {
        let (store, view, awaiting) = (store.clone(), view.clone(), Awaiting::Entries(left.clone()));
        queue(ColdRows { store, view, item, worker, awaiting, held: Vec::new() });
    }
    Warmth::Awaited
}
