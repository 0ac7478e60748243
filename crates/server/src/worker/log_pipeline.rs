//! How a worker's writes become durable: all of a turn are one entry a shard and one log write for all shards.
//!
//! A log write is staged (the log has it, without an fsync) and then fsynced: by this thread, by the kernel's ring, or by
//! a log thread. What follows from a log write may go on once its fsync is over; log writes end in the order in which
//! they began.

use crate::mailbox::Mailbox;
use crate::os::forget_waits;
use crate::shared::NodeShared;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use node::multi_raft::Logging;
use replica::{DiskState, LogWrite};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::limits::DISK_BYTES_PER_US_MIN;

/// How long clients wait for a log write that has no room before they are told.
const ROOM_PATIENCE: Duration = Duration::from_secs(1);

/// After so long a log write that is still under way counts as stuck, whatever the reason. A large one has the time besides
/// that the slowest disk takes for it.
const STUCK_AFTER: Duration = Duration::from_secs(3);

/// A log thread makes a write of more bytes: encoding and writing it would keep the event loop.
const LOG_WRITE_BYTES_SOFT: usize = 1 << 20;

/// Log writes of a worker that may be under way: while one is being fsynced, the next is written.
const LOG_WRITES_MAX: usize = 2;

/// For how long it is taken as known whether there is room for a log write, in µs. Within it the log grows at most by
/// the writes that may be queued, which are less than the reserve.
const ROOM_KNOWN_US: u64 = 5_000;

/// A shorter fsync is not handed to another thread.
const FSYNC_SHORT: Duration = Duration::from_micros(500);

/// What makes an fsync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncBy {
    /// This thread, which waits for it.
    Worker,
    /// The kernel, while this thread goes on.
    Ring,
    /// A log thread, while this thread goes on.
    LogThread,
}

/// What decides by whom the fsync of a turn is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SyncFacts {
    /// Other workers' writes may share the fsync.
    has_other_workers: bool,
    /// An earlier fsync is under way.
    is_logging: bool,
    /// Fsyncs are so short that waiting is cheaper than a hand-over.
    is_short: bool,
    /// Clients wanted other things than writes in this turn: they do not wait for the log.
    served_others: bool,
    has_ring: bool,
    /// Large requests are under way: an fsync may take seconds.
    is_bulk: bool,
}

impl SyncFacts {
    /// A device serves several fsyncs at a time, so log threads make those that others share or that take long. Where
    /// every client waits for the log anyway, the worker makes the fsync itself: more writes share the next one.
    fn choose(self) -> SyncBy {
        if self.has_other_workers || self.is_logging || !self.is_short || self.is_bulk {
            SyncBy::LogThread
        } else if !self.served_others {
            SyncBy::Worker
        } else if self.has_ring {
            SyncBy::Ring
        } else {
            SyncBy::LogThread
        }
    }
}

/// Log writes whose fsync is under way.
struct UnderWay {
    what: Vec<Logging>,
    /// What the log thread is to write.
    bytes: usize,
    by: SyncBy,
    /// The log thread makes the write itself, too.
    is_unwritten: bool,
}

/// Log writes that are over.
#[must_use]
pub(super) struct Logged {
    pub(super) what: Vec<Logging>,
    pub(super) outcome: replica::Result<()>,
}

/// Whether there is room for a log write, as of the last look.
#[derive(Default)]
struct RoomCheck {
    is_short: bool,
    /// Until when that counts, in µs of the steady clock.
    until_us: u64,
}

/// The log writes of a worker.
///
/// Invariant: `under_way` is in the order in which its log writes end, and `staged` come after them.
pub(super) struct LogPipeline {
    store: Arc<NodeShared>,
    /// The worker's mailbox: log threads send it what they have done.
    mailbox: Arc<Mailbox>,
    /// Log writes of this turn whose fsync has not begun.
    staged: Vec<Logging>,
    under_way: VecDeque<UnderWay>,
    /// When the oldest of them began, or the one before it ended.
    since: Instant,
    has_ring: bool,
    room: RoomCheck,
    /// This thread made an fsync in this turn.
    synced_here: bool,
}

impl LogPipeline {
    pub(super) fn new(store: Arc<NodeShared>, mailbox: Arc<Mailbox>) -> Self {
        Self {
            store,
            mailbox,
            staged: Vec::new(),
            under_way: VecDeque::new(),
            since: Instant::now(),
            has_ring: false,
            room: RoomCheck::default(),
            synced_here: false,
        }
    }

    /// Lets the log have a ring, whose events come with `token`.
    pub(super) fn open_ring(&mut self, registry: &Registry, token: Token) {
        if self.store.mailboxes.workers() > 1 {
            return;
        }
        let opened = self.store.log.open_ring();
        let registered = opened.and_then(|fd| registry.register(&mut SourceFd(&fd), token, Interest::READABLE));
        match registered {
            Ok(()) => self.has_ring = true,
            Err(e) => log::info!("no io_uring here ({e}): threads make all fsyncs of the log"),
        }
    }

    /// Begins a turn.
    pub(super) fn begin_turn(&mut self) {
        self.synced_here = false;
    }

    /// Whether this thread made an fsync in this turn.
    pub(super) fn synced_here(&self) -> bool {
        self.synced_here
    }

    /// Whether a log write is under way.
    pub(super) fn is_logging(&self) -> bool {
        !self.under_way.is_empty() || !self.staged.is_empty()
    }

    /// Whether a log write may begin. While the ring makes an fsync, or a log thread makes a short one, what comes becomes
    /// one log write.
    pub(super) fn may_begin(&self, is_bulk: bool) -> bool {
        !self.is_logging()
            || (self.under_way.len() < LOG_WRITES_MAX && !self.ring_is_at_work() && !self.gathers(is_bulk))
    }

    /// Whether what comes while an fsync is under way had better share the next one than have one of its own at once.
    fn gathers(&self, is_bulk: bool) -> bool {
        !self.under_way.is_empty() && self.is_short() && !is_bulk && self.store.mailboxes.workers() == 1
    }

    /// Whether fsyncs are so short that waiting is cheaper than a hand-over.
    fn is_short(&self) -> bool {
        self.store.log_threads.fsync_time() < FSYNC_SHORT
    }

    fn ring_is_at_work(&self) -> bool {
        self.under_way.front().is_some_and(|oldest| oldest.by == SyncBy::Ring)
    }

    /// Whether `write` will be followed by an fsync: then messages to other nodes go out first, and those write while
    /// this node waits for its disk.
    pub(super) fn will_sync(&self, write: &LogWrite) -> bool {
        write.wants_sync() || self.is_logging()
    }

    /// Begins a log write. What is over at once is told. `is_bulk`: large requests are under way.
    pub(super) fn write(&mut self, write: LogWrite, logging: Logging, now_us: u64, is_bulk: bool) -> Option<Logged> {
        // No event loop waits for room on the device, makes a long write, or fsyncs a file that is full, and later writes keep their
        // place behind one that a log thread makes. Behind large ones any write may take long.
        let is_long =
            write.bytes() > LOG_WRITE_BYTES_SOFT || self.store.log.begins_file() || (is_bulk && self.will_sync(&write));
        if is_long || self.under_way.back().is_some_and(|last| last.is_unwritten) || self.is_short_of_room(now_us) {
            self.hand_over_write(write, logging);
            return None;
        }
        let is_synced = self.will_sync(&write);
        let staged = self.store.log.try_stage(&write);
        forget_waits();
        match staged {
            Ok(true) if is_synced => self.staged.push(logging),
            Ok(true) => return self.write_through(logging),
            Ok(false) => self.hand_over_write(write, logging),
            Err(failed) => return Some(Logged { what: vec![logging], outcome: Err(failed) }),
        }
        None
    }

    /// Has what was staged outlive the process, without an fsync.
    fn write_through(&mut self, logging: Logging) -> Option<Logged> {
        let written = self.store.log.try_write_staged();
        forget_waits();
        self.store.log_threads.unsynced();
        if let Ok(false) = written {
            self.staged.push(logging);
            self.hand_over();
            return None;
        }
        Some(Logged { what: vec![logging], outcome: written.map(|_| ()) })
    }

    /// Has a log thread make a write, which may wait for room.
    fn hand_over_write(&mut self, write: LogWrite, logging: Logging) {
        self.hand_over();
        let bytes = write.bytes();
        self.store.log_threads.write(write, self.mailbox.clone());
        self.add(UnderWay { what: vec![logging], bytes, by: SyncBy::LogThread, is_unwritten: true });
    }

    fn add(&mut self, under_way: UnderWay) {
        if self.under_way.is_empty() {
            self.since = Instant::now();
        }
        self.under_way.push_back(under_way);
    }

    /// At the end of a turn: has what it staged fsynced. What this thread has fsynced itself is told.
    /// `is_bulk`: large requests are under way.
    pub(super) fn sync_staged(&mut self, served_others: bool, is_bulk: bool) -> Option<Logged> {
        if self.staged.is_empty() || self.ring_is_at_work() {
            return None;
        }
        let facts = SyncFacts {
            has_other_workers: self.store.mailboxes.workers() > 1,
            is_logging: !self.under_way.is_empty(),
            is_short: self.is_short(),
            served_others,
            has_ring: self.has_ring,
            is_bulk,
        };
        match facts.choose() {
            SyncBy::Worker => {
                self.synced_here = true;
                match self.store.log_threads.sync_here() {
                    Ok(false) => self.hand_over(),
                    synced => {
                        let what = std::mem::take(&mut self.staged);
                        return Some(Logged { what, outcome: synced.map(|_| ()) });
                    }
                }
            }
            SyncBy::Ring if self.store.log.begin_sync() => {
                let what = std::mem::take(&mut self.staged);
                self.add(UnderWay { what, bytes: 0, by: SyncBy::Ring, is_unwritten: false });
            }
            SyncBy::Ring | SyncBy::LogThread => self.hand_over(),
        }
        None
    }

    /// Has log threads fsync what is staged.
    pub(super) fn hand_over(&mut self) {
        if !self.staged.is_empty() {
            let what = std::mem::take(&mut self.staged);
            self.store.log_threads.sync(self.mailbox.clone());
            self.add(UnderWay { what, bytes: 0, by: SyncBy::LogThread, is_unwritten: false });
        }
    }

    /// If the ring's fsync is over, what waited for it is told. `waits`: a log thread may be about to tell what it has written
    /// behind it.
    pub(super) fn ring_done(&mut self, waits: bool) -> Option<Logged> {
        if !self.has_ring {
            return None;
        }
        let (outcome, took) = self.store.log.ended_sync(waits)?;
        self.store.log_threads.note_fsync(took);
        match (outcome, self.under_way.front_mut()) {
            // The ring could not make it: a log thread does.
            (Ok(false), Some(oldest)) => {
                oldest.by = SyncBy::LogThread;
                self.store.log_threads.sync(self.mailbox.clone());
                None
            }
            (outcome, _) => self.logged(outcome.map(|_| ())),
        }
    }

    /// The oldest log write under way is over.
    pub(super) fn logged(&mut self, outcome: replica::Result<()>) -> Option<Logged> {
        let oldest = self.under_way.pop_front()?;
        self.since = Instant::now();
        Some(Logged { what: oldest.what, outcome })
    }

    /// Asked now and then: a device does not fill up within the reserve faster than that.
    fn is_short_of_room(&mut self, now_us: u64) -> bool {
        if now_us >= self.room.until_us {
            self.room = RoomCheck { is_short: self.store.is_short_of_room(), until_us: now_us + ROOM_KNOWN_US };
        }
        // Another thread may have found that there is none a moment ago, and wait for it within the log.
        self.room.is_short || self.store.health.state() != DiskState::Healthy
    }

    /// Whether a log write is under way for so long that this node had better not lead. It has `more` time than on an idle
    /// machine.
    pub(super) fn is_stuck(&self, more: Duration) -> bool {
        let bytes = self.under_way.iter().map(|under_way| under_way.bytes as u64).sum::<u64>();
        let patience = STUCK_AFTER + Duration::from_micros(bytes / DISK_BYTES_PER_US_MIN) + more;
        !self.under_way.is_empty() && self.since.elapsed() > patience
    }

    /// Why clients are told that their writes fail: the log write under way has waited for room for too long. It goes on
    /// by itself when there is some.
    pub(super) fn starved_of_room(&self) -> Option<String> {
        let health = &self.store.health;
        let is_starved = !self.under_way.is_empty() && health.log_waits() && self.since.elapsed() > ROOM_PATIENCE;
        is_starved.then(|| format!("disk full ({})", health.reason()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::WorkerMessage;
    use crate::testing::IdleNode;
    use replica::LogStore;
    use vocab::{Prng, ReplicaId, ShardId};

    /// By whom an fsync is made, for all of the facts that decide it.
    #[test]
    fn who_makes_an_fsync() {
        use SyncBy::{LogThread, Ring, Worker};
        let quiet = SyncFacts {
            has_other_workers: false,
            is_logging: false,
            is_short: true,
            served_others: false,
            has_ring: true,
            is_bulk: false,
        };
        for (facts, expected) in [
            (quiet, Worker),
            (SyncFacts { has_ring: false, ..quiet }, Worker),
            (SyncFacts { served_others: true, ..quiet }, Ring),
            (SyncFacts { served_others: true, has_ring: false, ..quiet }, LogThread),
            (SyncFacts { is_short: false, ..quiet }, LogThread),
            (SyncFacts { is_short: false, served_others: true, ..quiet }, LogThread),
            (SyncFacts { is_logging: true, ..quiet }, LogThread),
            (SyncFacts { is_logging: true, served_others: true, ..quiet }, LogThread),
            (SyncFacts { has_other_workers: true, ..quiet }, LogThread),
            (SyncFacts { has_other_workers: true, served_others: true, ..quiet }, LogThread),
            (SyncFacts { is_bulk: true, ..quiet }, LogThread),
            (SyncFacts { is_bulk: true, served_others: true, ..quiet }, LogThread),
        ] {
            assert_eq!(facts.choose(), expected, "{facts:?}");
        }
    }

    /// A pipeline over a log of its own, and what it has told so far, by the number of the write.
    struct Harness {
        pipeline: LogPipeline,
        node: IdleNode,
        begun: u64,
        /// The last write that says something.
        last: Option<ReplicaId>,
        ended: Vec<u64>,
    }

    impl Harness {
        fn new(with_ring: bool) -> Self {
            let node = IdleNode::open();
            let mut pipeline = LogPipeline::new(node.store.clone(), node.mailbox.clone());
            if with_ring {
                pipeline.open_ring(node.poll.registry(), Token(1));
                assert!(pipeline.has_ring, "this test needs io_uring");
            }
            Self { pipeline, node, begun: 0, last: None, ended: Vec::new() }
        }

        fn note(&mut self, logged: Option<Logged>) {
            let Some(Logged { what, outcome }) = logged else { return };
            outcome.expect("the log takes it");
            self.ended.extend(what.into_iter().flatten().map(|(_, number)| number));
        }

        /// Begins a write; `vital` says whether it is to be fsynced.
        fn write(&mut self, vital: bool, is_short_of_room: bool) {
            self.begun += 1;
            let mut write = LogWrite::default();
            if vital {
                write.begin(ShardId(99), ReplicaId(self.begun), &[], &[]);
                self.last = Some(ReplicaId(self.begun));
            }
            self.pipeline.room = RoomCheck { is_short: is_short_of_room, until_us: u64::MAX };
            let logged = self.pipeline.write(write, vec![(ShardId(99), self.begun)], 0, false);
            self.note(logged);
        }

        /// What the log holds, once nothing is under way, is what was written last.
        fn check(&self) {
            if !self.pipeline.is_logging() {
                let state = self.node.store.log.state(ShardId(99)).expect("the log can be read");
                assert_eq!(state.map(|state| state.replica), self.last, "after {} writes", self.begun);
            }
        }

        fn end_turn(&mut self, served_others: bool) {
            let logged = self.pipeline.sync_staged(served_others, false);
            self.note(logged);
        }

        /// Takes what the ring and the log threads have told.
        fn look(&mut self) {
            let logged = self.pipeline.ring_done(true);
            self.note(logged);
            for message in self.node.mail() {
                let WorkerMessage::Logged(outcome) = message else { panic!("log threads tell nothing else") };
                let logged = self.pipeline.ring_done(true);
                self.note(logged);
                let logged = self.pipeline.logged(outcome);
                self.note(logged);
            }
        }
    }

    /// Writes of all kinds in random order, ended by worker, ring and log threads: each is told once, in the order in which
    /// they began, none is left, and the log has them in that order.
    #[test]
    fn log_writes_end_in_the_order_in_which_they_began() {
        for with_ring in [false, true] {
            let mut harness = Harness::new(with_ring);
            let mut prng = Prng::new(u64::from(with_ring));
            while harness.begun < 300 {
                match prng.below(8) {
                    0..4 if harness.pipeline.may_begin(false) => harness.write(prng.below(4) > 0, prng.below(6) == 0),
                    4..7 => harness.end_turn(prng.below(2) == 0),
                    _ => harness.look(),
                }
                harness.check();
                let under_way = harness.pipeline.under_way.len();
                assert!(under_way <= LOG_WRITES_MAX + 1, "{under_way} are under way");
            }
            while harness.pipeline.is_logging() {
                harness.end_turn(true);
                harness.look();
                std::thread::yield_now();
            }
            harness.check();
            assert_eq!(harness.ended, (1..=harness.begun).collect::<Vec<_>>(), "with a ring: {with_ring}");
            assert!(!harness.pipeline.is_stuck(Duration::ZERO));
        }
    }
}
