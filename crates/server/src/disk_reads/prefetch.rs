//! Prefetches: rows that writes will find are read before the writes are applied, and the event loop serves other shards
//! meanwhile.
//!
//! Prefetching pays only while the disk is slow. The leader prefetches the keys of a write before it submits it. Every
//! replica prefetches what committed entries will find: followers have not seen the write before, and some rows are not
//! known from the keys alone.

use super::outcome::Outcome;
use crate::mailbox::WorkerMessage;
use crate::shared::{Job, NodeShared};
use node::{EncodedCommand, Held, PrefetchItem, Prefetched, ShardHandle, Ticket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use storage::HeldBlock;

/// Measures whether applying entries waits for the disk.
pub(crate) struct Applying {
    /// When it began.
    begun: Instant,
    /// When the last look was.
    since: Instant,
}

/// After this time an event loop does something else before it applies the next entry.
const APPLY_SPAN: Duration = Duration::from_micros(500);

impl Default for Applying {
    fn default() -> Self {
        let now = Instant::now();
        Self { begun: now, since: now }
    }
}

impl Applying {
    /// Applying begins.
    pub(crate) fn begin(&mut self) {
        *self = Self::default();
    }

    /// Applying ends, or goes on with the next entry. If it had to wait for the disk, later entries prefetch. Answers whether
    /// the event loop has applied entries for so long that its sockets come first.
    pub(crate) fn look(&mut self, store: &NodeShared) -> bool {
        let now = Instant::now();
        store.note_read(now - self.since, || store.now_ms());
        self.since = now;
        now - self.begun > APPLY_SPAN
    }
}

/// Who waits for the rows.
enum Awaiting {
    /// A write of one of the worker's connections.
    Write(Ticket),
    /// The entries of a shard, which wait for this number of other prefetches too.
    Entries(Arc<AtomicUsize>),
}

/// A prefetch.
pub(crate) struct Prefetch {
    pub(crate) store: Arc<NodeShared>,
    pub(crate) handle: Arc<ShardHandle>,
    pub(crate) item: PrefetchItem,
    /// The worker that waits for them.
    pub(crate) worker: usize,
    awaiting: Awaiting,
    /// Blocks that were read for them.
    pub(crate) held: Vec<HeldBlock>,
}

impl Prefetch {
    /// The rows of a write that `ticket`'s connection waits for.
    pub(crate) fn of_write(
        store: &Arc<NodeShared>,
        handle: Arc<ShardHandle>,
        command: EncodedCommand,
        now_ms: u64,
        ticket: Ticket,
    ) -> Self {
        let item = PrefetchItem::of(command, now_ms);
        let (worker, awaiting) = (ticket.worker as usize, Awaiting::Write(ticket));
        Self { store: store.clone(), handle, item, worker, awaiting, held: Vec::new() }
    }

    /// Reads the rows from memory and held blocks.
    pub(crate) fn read_now(mut self) -> Outcome<Self> {
        let mut held = Held { blocks: std::mem::take(&mut self.held), lacking: None };
        match (self.item.read(&self.handle, Some(&mut held)), held.lacking) {
            (Prefetched::Done, _) => Outcome::Over(self.end()),
            (Prefetched::Lacking, Some(block)) => {
                self.held = held.blocks;
                Outcome::Lacks(self, block)
            }
            (Prefetched::Lacking, None) => Outcome::WouldWait(self),
            (Prefetched::More, _) => Outcome::Rest(self.rest()),
        }
    }

    /// Reads the rows and waits for the disk. If they are more than the records of some keys, the rest becomes a job.
    pub(crate) fn read(self) -> Result<Option<WorkerMessage>, Job> {
        let begun = Instant::now();
        let prefetched = self.item.read(&self.handle, None);
        self.store.note_read(begun.elapsed(), || self.store.now_ms());
        if prefetched == Prefetched::More { Err(self.rest()) } else { Ok(self.end()) }
    }

    fn rest(self) -> Job {
        Box::new(move || {
            let begun = Instant::now();
            self.item.read_rest(&self.handle);
            self.store.note_read(begun.elapsed(), || self.store.now_ms());
            if let (Some(message), Some(mailbox)) = (self.end(), self.store.mailboxes.of_worker(self.worker)) {
                mailbox.send(message);
            }
        })
    }

    /// The message to the worker that the rows are in memory.
    fn end(&self) -> Option<WorkerMessage> {
        match &self.awaiting {
            Awaiting::Write(ticket) => Some(WorkerMessage::WritePrefetched(*ticket)),
            Awaiting::Entries(left) if left.fetch_sub(1, Ordering::AcqRel) == 1 => {
                Some(WorkerMessage::EntriesPrefetched(self.handle.id()))
            }
            Awaiting::Entries(_) => None,
        }
    }
}

/// The prefetches of `items`, which are the rows that entries of a shard will find. Its worker is told when all of them are
/// in memory.
pub(crate) fn rows_of_entries(
    store: &Arc<NodeShared>,
    worker: usize,
    handle: &Arc<ShardHandle>,
    items: Vec<PrefetchItem>,
) -> impl Iterator<Item = Prefetch> {
    let (store, handle, left) = (store.clone(), handle.clone(), Arc::new(AtomicUsize::new(items.len())));
    items.into_iter().map(move |item| Prefetch {
        store: store.clone(),
        handle: handle.clone(),
        item,
        worker,
        awaiting: Awaiting::Entries(left.clone()),
        held: Vec::new(),
    })
}
