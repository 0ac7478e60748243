//! Reads blocks for what waits for the disk, many side by side, beside the sockets of an event loop: a wait costs no
//! thread.
//!
//! Each is tried with what is in memory (`Cold::go_on`); it says which block it lacks, and with that held is tried
//! again. One that cannot say (it wants rows of which the keys are not known, or a very large value) goes to the pool, as
//! all do where the kernel has no rings.
//!
//! **Past the page cache.** The rows that are wanted beyond the memory that the store was given are hardly ever in the page
//! cache, and to read through it takes three times the processor time. But where a machine has memory to spare, the
//! page cache is where data end up that nobody planned for. So one block of rows in sixteen is read through it (in 64,
//! while hardly any is found), which fills it in time with what is asked for most; and as long as half of those are found
//! there, all are read so. Parts of indexes and filters, which a hundred blocks share, are always read through it: what the
//! block cache has no room for is there, and costs no read of the disk.

use super::deferred::{Cold, Outcome, read_in_pool};
use crate::mailbox::WorkerMessage;
use crate::shared::{NodeShared, SLOW_READ};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::io::{ReadWriteFlags, preadv2};
use slab::Slab;
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSliceMut};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Instant;
use storage::{BlockRead, Buffer, Extent, HeldBlock, Ring};

/// Blocks that are read side by side.
const BLOCKS_MAX: u32 = 256;
/// Of these, the ones that a read may want at once are kept free before another read begins.
const BLOCKS_SPARE: usize = 64;
/// Bytes that are read side by side, but for what one read may want at once: values may be larger than blocks.
const BYTES_MAX: usize = 8 << 20;
/// Blocks that the disk has at a time of all disk readers together: a share of each, or half of what it wants if that is
/// more. The rest is held back: a virtual disk may tell of all that it has at once, and what is given to it then keeps it
/// busy while answers are made and clients think.
/// With all of it there, clients, store and disk wait for each other in turns. Few devices serve more side by side than
/// one thread asks for in the time of a read.
const DISK_AT_ONCE: usize = 32;
/// The least share, where they are many.
const DISK_AT_ONCE_MIN: usize = 8;
/// Blocks that are taken in one turn of the loop: some clients ask for the next while others are answered, and the disk has
/// something to do meanwhile. A virtual disk may tell of all that it was asked for at once.
const TURN_MAX: usize = 16;
/// Times that a read may lack a block: parts of filters and indexes of several tables, and rows.
const ROUNDS_MAX: u32 = 32;
/// One block of so many is read through the page cache even if that does not seem to help.
const SAMPLE: u32 = 16;
/// And one of so many while hardly any is found there: it costs as much as three others.
const RARE_SAMPLE: u32 = 64;
/// Fewer than this are hardly any.
const HARDLY_ANY: f32 = 0.01;
/// How slowly what is known of the page cache follows what is found: a share of so many blocks.
const MEMORY: f32 = 64.0;

/// What the kernel was asked for: a block, and for which of the waiting.
struct Asked {
    key: usize,
    block: BlockRead,
    extent: Extent,
    since: Instant,
}

/// Waits for blocks.
struct Waiting {
    cold: Cold,
    /// How many.
    blocks: usize,
    rounds: u32,
    /// One of them could not be read.
    failed: bool,
}

impl Waiting {
    fn take(&mut self, block: Option<HeldBlock>) {
        match block {
            Some(block) => self.cold.hold(block),
            None => self.failed = true,
        }
    }
}

/// See the module's words. Of one event loop, and used by its thread alone.
pub(crate) struct DiskReader {
    store: Arc<NodeShared>,
    /// How much the disk has of this one at a time.
    share: usize,
    ring: Ring<Asked>,
    /// Not begun yet: there was no room. Bounded by the requests that connections may have under way, and by the entries
    /// that shards may leave unapplied.
    fresh: VecDeque<Cold>,
    /// Reads that the disk is to have later. They count as under way.
    held_back: VecDeque<Asked>,
    waiting: Slab<Waiting>,
    /// For the pool.
    left_over: Vec<Cold>,
    page_cache: PageCache,
    /// For what is in the page cache.
    buffer: Vec<u8>,
    /// When this turn began.
    now: Instant,
}

/// What reading through the page cache brings.
struct PageCache {
    /// Blocks that were looked for in it, and found: a share.
    found: f32,
    /// Blocks since one was looked for.
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

/// What the disk has at a time of each of so many.
fn share_of(readers: usize) -> usize {
    (DISK_AT_ONCE / readers).max(DISK_AT_ONCE_MIN)
}

impl DiskReader {
    /// One of `readers`. To be made by the thread that uses it. `token`: an event of this kind comes when `go` has
    /// something to do.
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
            page_cache: PageCache { found: 0.0, passed: 0 },
            buffer: Vec::new(),
            now: Instant::now(),
        })
    }

    /// From now on one of so many `readers`.
    pub(crate) fn share_with(&mut self, readers: usize) {
        self.share = share_of(readers);
    }

    /// How many requests and entries wait here.
    pub(crate) fn underway(&self) -> usize {
        self.fresh.len() + self.waiting.len()
    }

    /// How many reads the disk has.
    pub(crate) fn with_disk(&mut self) -> usize {
        self.ring.with_disk()
    }

    /// Whether there is more to do at once.
    pub(crate) fn is_behind(&mut self) -> bool {
        self.ring.has_done()
    }

    /// Begins what is in `cold`, goes on with those that have what they lacked, and tells the disk what others lack;
    /// `cold` is empty afterwards. What their worker is to be told of those that are over is added to `messages`.
    pub(crate) fn go(&mut self, cold: &mut Vec<Cold>, messages: &mut Vec<WorkerMessage>) {
        self.fresh.extend(cold.drain(..));
        self.now = Instant::now();
        self.feed();
        for _ in 0..TURN_MAX {
            let Some((asked, outcome)) = self.ring.take() else { break };
            self.feed();
            self.arrived(asked, outcome, messages);
        }
        while self.room() > BLOCKS_SPARE
            && self.ring.bytes() < BYTES_MAX
            && let Some(cold) = self.fresh.pop_front()
        {
            self.go_on(cold, 0, messages);
        }
        read_in_pool(&self.store.pool, &mut self.left_over);
        self.submit();
    }

    /// How many more blocks may be asked for.
    fn room(&self) -> usize {
        self.ring.room().saturating_sub(self.held_back.len())
    }

    fn submit(&mut self) {
        if let Err(e) = self.ring.submit() {
            // Nothing of it is lost: it is handed over with the next call.
            log::error!("the kernel takes no reads: {e}");
        }
    }

    /// Has one go on, or has read what it lacks.
    fn go_on(&mut self, mut cold: Cold, mut rounds: u32, messages: &mut Vec<WorkerMessage>) {
        while rounds < ROUNDS_MAX {
            let mut blocks = if rounds == 0 { cold.ahead() } else { Vec::new() };
            rounds += 1;
            if blocks.is_empty() {
                match cold.go_on() {
                    Outcome::Over(message) => return messages.extend(message),
                    Outcome::Patient(job) => return self.store.pool.run(job),
                    Outcome::WouldWait(back) => return self.left_over.push(back),
                    Outcome::Lacks(back, block) => {
                        cold = back;
                        blocks.push(block);
                    }
                }
            }
            if blocks.len() > self.room() {
                break;
            }
            let key = self.waiting.insert(Waiting { cold, blocks: 0, rounds, failed: false });
            blocks.into_iter().for_each(|block| self.fetch(key, block));
            if self.waiting[key].blocks > 0 {
                return;
            }
            let waiting = self.waiting.remove(key);
            cold = waiting.cold;
            if waiting.failed {
                break;
            }
        }
        self.left_over.push(cold);
    }

    /// Has a block read for one that waits; it may be there at once.
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
        self.held_back.push_back(Asked { key, block, extent, since: self.now });
        self.feed();
    }

    /// Gives the disk what was held back, as far as it is to have more.
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
            // Each with a call of its own: the disk begins with it while the next one is thought of.
            self.submit();
        }
    }

    /// A block is there, or could not be read.
    fn arrived(&mut self, asked: Asked, outcome: std::io::Result<Buffer>, messages: &mut Vec<WorkerMessage>) {
        let Asked { key, block, extent, since } = asked;
        if self.now - since > SLOW_READ {
            self.store.note_slow_read(self.store.now_ms());
        }
        let waiting = &mut self.waiting[key];
        waiting.blocks -= 1;
        match outcome {
            Ok(bytes) => waiting.take(block.accept(extent.offset, &bytes)),
            // It is asked for again: in larger units, or through the page cache.
            Err(e) if e.kind() == ErrorKind::InvalidInput && extent.grain > 1 => block.refused(&extent),
            // Who waits for the disk by himself hears why.
            Err(_) => waiting.failed = true,
        }
        if waiting.blocks == 0 {
            let Waiting { cold, rounds, failed, .. } = self.waiting.remove(key);
            if failed { self.left_over.push(cold) } else { self.go_on(cold, rounds, messages) }
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
