//! Reads blocks for deferred reads, many at a time, by io_uring beside the sockets of an event loop: no thread waits.
//!
//! Each read is tried with what is in memory (`DeferredRead::go_on`). It names the block that it lacks, and is tried again with
//! that block held. A read that cannot name it goes to the pool: one of rows whose keys are not known, or of a very large
//! value.
//!
//! **Past the page cache.** Rows beyond the store's memory are rarely in the page cache, and reading through it takes
//! three times the processor time. A machine with memory to spare has them there, though. So one block of rows in 16 is
//! read through the page cache (in 64 while hardly any is found), which fills it in time with what is asked for most. As
//! long as half of those are found there, all are read so. Blocks of indexes and filters, which a hundred blocks of rows
//! share, are always read through it.

use super::deferred::{DeferredRead, read_in_pool, run_in_pool};
use super::outcome::Outcome;
use crate::mailbox::WorkerMessage;
use crate::shared::{Job, NodeShared, SLOW_READ};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::io::{ReadWriteFlags, preadv2};
use slab::Slab;
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSliceMut};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use storage::{BlockRead, Buffer, Extent, HeldBlock, Ring};

/// Blocks that are read at the same time.
const BLOCKS_MAX: u32 = 256;
/// So many of them are kept free before another read begins: one read may want several blocks at once.
const BLOCKS_SPARE: usize = 64;
/// Bytes that are read at the same time, beside what one read may want at once: values may be larger than blocks.
const BYTES_MAX: usize = 8 << 20;
/// Blocks that the disk has at a time of all readers together; each reader has a share, or half of what it wants if that
/// is more. A virtual disk completes requests in bursts: holding some back keeps it busy while a burst is processed.
const DISK_AT_ONCE: usize = 32;
/// The least share, where they are many.
const DISK_AT_ONCE_MIN: usize = 8;
/// Blocks that are processed in one turn of the loop, so that the disk gets new requests while a burst is processed.
const TURN_MAX: usize = 16;
/// After so long in one turn no further read begins.
const TURN_SPAN: Duration = Duration::from_millis(1);
/// How often a read may lack a block: of filters and indexes of several tables, and of rows.
const ROUNDS_MAX: u32 = 32;
/// One block of so many is read through the page cache even if few are found there.
const SAMPLE: u32 = 16;
/// And one of so many while hardly any is found there: such a read costs as much as three others.
const RARE_SAMPLE: u32 = 64;
/// Fewer than this are hardly any.
const HARDLY_ANY: f32 = 0.01;
/// The share of blocks that are found is a mean over about so many.
const MEMORY: f32 = 64.0;

/// A block that the kernel was asked for, and the read that waits for it.
struct BlocksAsked {
    key: usize,
    block: BlockRead,
    extent: Extent,
    since: Instant,
}

/// A read that waits for blocks.
struct Waiting {
    read: DeferredRead,
    /// How many blocks it waits for.
    blocks: usize,
    rounds: u32,
    /// One of them could not be read.
    failed: bool,
}

impl Waiting {
    fn take(&mut self, block: Option<HeldBlock>) {
        match block {
            Some(block) => self.read.hold(block),
            None => self.failed = true,
        }
    }
}

/// The io_uring reader of one event loop, used by its thread alone.
pub(crate) struct DiskReader {
    store: Arc<NodeShared>,
    /// How many blocks of this reader the disk has at a time.
    share: usize,
    ring: Ring<BlocksAsked>,
    /// Reads that have not begun, for want of room. The requests that connections may have under way bound their number,
    /// and the entries that shards may leave unapplied.
    fresh: VecDeque<DeferredRead>,
    /// Blocks that the disk is asked for later. They count as under way.
    held_back: VecDeque<BlocksAsked>,
    waiting: Slab<Waiting>,
    /// Reads for the pool.
    left_over: Vec<DeferredRead>,
    /// Rests of reads, likewise.
    rests: Vec<Job>,
    page_cache: PageCache,
    /// For bytes from the page cache.
    buffer: Vec<u8>,
    /// When this turn began.
    now: Instant,
}

/// How much reading through the page cache helps.
struct PageCache {
    /// The share of blocks that were found there.
    found: f32,
    /// Blocks since the last one that was looked for there.
    passed: u32,
}

impl PageCache {
    /// Whether to read the next block through it.
    fn is_asked(&mut self) -> bool {
        self.passed += 1;
        let sample = if self.found < HARDLY_ANY { RARE_SAMPLE } else { SAMPLE };
        self.found >= 0.5 || self.passed >= sample
    }

    fn note(&mut self, found: bool) {
        self.passed = 0;
        self.found += (f32::from(u8::from(found)) - self.found) / MEMORY;
    }
}

/// How many blocks the disk has at a time of each of so many readers.
fn share_of(readers: usize) -> usize {
    (DISK_AT_ONCE / readers).max(DISK_AT_ONCE_MIN)
}

impl DiskReader {
    /// The disk is shared by so many `readers`. The thread that uses the reader makes it. An event with `token` comes
    /// when `go` has something to do.
    pub(crate) fn new(
        store: &Arc<NodeShared>,
        readers: usize,
        registry: &Registry,
        token: Token,
    ) -> std::io::Result<Self> {
        let ring = Ring::new(BLOCKS_MAX)?;
        registry.register(&mut SourceFd(&ring.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self {
            store: store.clone(),
            share: share_of(readers),
            ring,
            fresh: VecDeque::new(),
            held_back: VecDeque::new(),
            waiting: Slab::new(),
            left_over: Vec::new(),
            rests: Vec::new(),
            page_cache: PageCache { found: 0.0, passed: 0 },
            buffer: Vec::new(),
            now: Instant::now(),
        })
    }

    /// From now on so many `readers` share the disk.
    pub(crate) fn share_with(&mut self, readers: usize) {
        self.share = share_of(readers);
    }

    /// How many reads are under way.
    pub(crate) fn underway(&self) -> usize {
        self.fresh.len() + self.waiting.len()
    }

    /// How many blocks the disk has been asked for.
    pub(crate) fn with_disk(&mut self) -> usize {
        self.ring.with_disk()
    }

    /// Whether there is more to do at once.
    pub(crate) fn is_behind(&mut self) -> bool {
        self.ring.has_done() || (!self.fresh.is_empty() && self.has_room())
    }

    /// Whether another read may begin.
    fn has_room(&self) -> bool {
        self.room() > BLOCKS_SPARE && self.ring.bytes() < BYTES_MAX
    }

    /// Begins the reads in `reads`, tries those again that have what they lacked, and asks the disk for what others lack.
    /// `reads` is empty afterwards. The messages of reads that are done are added to `messages`.
    pub(crate) fn go(&mut self, reads: &mut Vec<DeferredRead>, messages: &mut Vec<WorkerMessage>) {
        self.fresh.extend(reads.drain(..));
        self.now = Instant::now();
        self.feed();
        for _ in 0..TURN_MAX {
            let Some((asked, outcome)) = self.ring.take() else { break };
            self.feed();
            self.arrived(asked, outcome, messages);
        }
        // Where all of them are in memory, they are as many as there are requests: others have their turn.
        while self.has_room()
            && self.now.elapsed() < TURN_SPAN
            && let Some(read) = self.fresh.pop_front()
        {
            self.go_on(read, 0, messages);
        }
        read_in_pool(&self.store.pool, &mut self.left_over);
        run_in_pool(&self.store.pool, &mut self.rests);
        self.submit();
    }

    /// How many more blocks may be asked for.
    fn room(&self) -> usize {
        self.ring.room().saturating_sub(self.held_back.len())
    }

    fn submit(&mut self) {
        if let Err(e) = self.ring.submit() {
            // Nothing is lost: the next call submits it again.
            log::error!("the kernel takes no reads: {e}");
        }
    }

    /// Tries a read, and asks for the blocks that it lacks.
    fn go_on(&mut self, mut read: DeferredRead, mut rounds: u32, messages: &mut Vec<WorkerMessage>) {
        if read.is_long() {
            return self.left_over.push(read);
        }
        while rounds < ROUNDS_MAX {
            let mut blocks = if rounds == 0 { read.ahead() } else { Vec::new() };
            rounds += 1;
            if blocks.is_empty() {
                match read.go_on() {
                    Outcome::Over(message) => return messages.extend(message),
                    Outcome::Rest(job) => return self.rests.push(job),
                    Outcome::Patient(job) => return self.store.pool.run(job),
                    Outcome::WouldWait(back) => return self.left_over.push(back),
                    Outcome::Lacks(back, block) => {
                        read = back;
                        blocks.push(block);
                    }
                }
            }
            if blocks.len() > self.room() {
                break;
            }
            let key = self.waiting.insert(Waiting { read, blocks: 0, rounds, failed: false });
            blocks.into_iter().for_each(|block| self.fetch(key, block));
            if self.waiting[key].blocks > 0 {
                return;
            }
            let waiting = self.waiting.remove(key);
            read = waiting.read;
            if waiting.failed {
                break;
            }
        }
        self.left_over.push(read);
    }

    /// Asks for a block of a waiting read; the page cache may have it at once.
    fn fetch(&mut self, key: usize, block: BlockRead) {
        let waiting = &mut self.waiting[key];
        let is_shared = !block.has_rows();
        let direct = if is_shared || self.page_cache.is_asked() { None } else { block.direct() };
        let extent = match direct.map_or_else(|| block.cached(), Ok) {
            Ok(extent) => extent,
            Err(_) => return waiting.failed = true,
        };
        if extent.grain == 1 {
            self.buffer.resize(extent.bytes, 0);
            let mut bytes = [IoSliceMut::new(&mut self.buffer)];
            let found = preadv2(&*extent.file, &mut bytes, extent.offset, ReadWriteFlags::NOWAIT);
            if !is_shared {
                self.page_cache.note(found == Ok(extent.bytes));
            }
            if found == Ok(extent.bytes) {
                return waiting.take(block.accept(extent.offset, &self.buffer));
            }
        }
        waiting.blocks += 1;
        self.held_back.push_back(BlocksAsked { key, block, extent, since: self.now });
        self.feed();
    }

    /// Asks the disk for blocks that were held back, up to its share.
    fn feed(&mut self) {
        let wanted = self.ring.with_disk() + self.held_back.len();
        let at_once = self.share.max(wanted / 2);
        while self.ring.with_disk() < at_once
            && self.ring.bytes() < BYTES_MAX
            && let Some(mut asked) = self.held_back.pop_front()
        {
            asked.since = self.now;
            let (file, offset, bytes) = (asked.extent.file.clone(), asked.extent.offset, asked.extent.bytes);
            self.ring.read(&file, offset, bytes, asked);
            // Each with a call of its own: the disk begins with it while the next one is prepared.
            self.submit();
        }
    }

    /// A block is there, or could not be read.
    fn arrived(&mut self, asked: BlocksAsked, outcome: std::io::Result<Buffer>, messages: &mut Vec<WorkerMessage>) {
        let BlocksAsked { key, block, extent, since } = asked;
        if self.now - since > SLOW_READ {
            self.store.note_slow_read(self.store.now_ms());
        }
        let waiting = &mut self.waiting[key];
        waiting.blocks -= 1;
        match outcome {
            Ok(bytes) => waiting.take(block.accept(extent.offset, &bytes)),
            // It is asked for again: in larger units, or through the page cache.
            Err(e) if e.kind() == ErrorKind::InvalidInput && extent.grain > 1 => block.refused(&extent),
            // The pool reads it again, and its error says why.
            Err(_) => waiting.failed = true,
        }
        if waiting.blocks == 0 {
            let Waiting { read, rounds, failed, .. } = self.waiting.remove(key);
            if failed { self.left_over.push(read) } else { self.go_on(read, rounds, messages) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_cache_is_asked_as_long_as_it_helps_and_now_and_then() {
        let mut cache = PageCache { found: 0.0, passed: 0 };
        let asked = |cache: &mut PageCache, blocks: u32, has: bool| {
            (0..blocks)
                .filter(|_| {
                    cache.is_asked() && {
                        cache.note(has);
                        true
                    }
                })
                .count()
        };
        assert_eq!(asked(&mut cache, 640, false), 10);
        // Found each time: soon it is asked for all.
        assert_eq!(asked(&mut cache, 64 + 16 * 44, true), 45);
        assert_eq!(asked(&mut cache, 100, true), 100);
        let wasted = asked(&mut cache, 10_000, false);
        assert!((200..400).contains(&wasted), "{wasted}");
    }
}
