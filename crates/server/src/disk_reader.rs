//! Reads blocks for reads that wait for the disk, many side by side, beside the sockets of an event loop: a wait costs
//! no thread, and one call of the system hands over what many reads want.
//!
//! A read is tried with what is in memory (`PooledRead::make_now`); it says which block it lacks, and with that held is
//! tried again. One that cannot say (it wants rows of which the keys are not known, or values that are kept out of the
//! tree's levels) goes to the pool, as all do where the kernel has no rings.
//!
//! **Past the page cache.** What reads want beyond the memory that the store was given is hardly ever in the page cache,
//! and to read through it takes three times the processor time. But where a machine has memory to spare, the page
//! cache is where data end up that nobody planned for. So one block in sixteen is read through it, which fills it
//! in time with what is asked for most; and as long as half of those are found there, all are read so.

use crate::pooled::{Answer, Outcome, PooledRead};
use crate::store::{SLOW_READ, Store, now_ms};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::io::{ReadWriteFlags, preadv2};
use slab::Slab;
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSliceMut};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Instant;
use std::vec::Drain;
use storage::{BlockRead, Buffer, Extent, HeldBlock, Ring};

/// Blocks that are read side by side.
const BLOCKS_MAX: u32 = 256;
/// Of these, the ones that a read may want at once are kept free before another read begins.
const BLOCKS_SPARE: usize = 64;
/// Blocks that are taken in one turn of the loop: some clients ask for the next while others are answered, and the disk has
/// something to do meanwhile. A virtual disk may tell of all that it was asked for at once.
const TURN_MAX: usize = 16;
/// Times that a read may lack a block: parts of filters and indexes of several tables, and rows.
const ROUNDS_MAX: u32 = 32;
/// One block of so many is read through the page cache even if that does not seem to help.
const SAMPLE: u32 = 16;
/// How slowly what is known of the page cache follows what is found: a share of so many blocks.
const MEMORY: f32 = 64.0;

/// What the kernel was asked for: a block for a read.
struct Asked {
    read: usize,
    block: BlockRead,
    extent: Extent,
    since: Instant,
}

/// A read that waits for blocks.
struct Waiting {
    read: PooledRead,
    /// How many.
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

/// See the module's words. Of one worker, and used by its thread alone.
pub(crate) struct DiskReader {
    store: Arc<Store>,
    ring: Ring<Asked>,
    /// Not begun yet: there was no room. Bounded by the requests that connections may have under way.
    fresh: VecDeque<PooledRead>,
    waiting: Slab<Waiting>,
    /// Of reads that are made.
    answers: Vec<Answer>,
    /// For the pool.
    left_over: Vec<PooledRead>,
    page_cache: PageCache,
    /// For what is in the page cache.
    buffer: Vec<u8>,
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
        self.found >= 0.5 || self.passed >= SAMPLE
    }

    fn note(&mut self, found: bool) {
        self.passed = 0;
        self.found += (f32::from(u8::from(found)) - self.found) / MEMORY;
    }
}

impl DiskReader {
    /// To be made by the worker's thread. `token`: an event of this kind comes when `go` has something to do.
    pub(crate) fn new(store: &Arc<Store>, registry: &Registry, token: Token) -> std::io::Result<Self> {
        let ring = Ring::new(BLOCKS_MAX)?;
        registry.register(&mut SourceFd(&ring.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self {
            store: store.clone(),
            ring,
            fresh: VecDeque::new(),
            waiting: Slab::new(),
            answers: Vec::new(),
            left_over: Vec::new(),
            page_cache: PageCache { found: 0.0, passed: 0 },
            buffer: Vec::new(),
        })
    }

    /// Whether there is more to do at once.
    pub(crate) fn is_behind(&mut self) -> bool {
        self.ring.has_done()
    }

    /// Begins reads, makes those that have what they lacked, and tells the disk what others lack; `reads` is empty
    /// afterwards. What comes back is the answers of those that are made.
    pub(crate) fn go(&mut self, reads: &mut Vec<PooledRead>) -> Drain<'_, Answer> {
        self.fresh.extend(reads.drain(..));
        for _ in 0..TURN_MAX {
            let Some((asked, outcome)) = self.ring.take() else { break };
            self.arrived(asked, outcome);
        }
        while self.ring.room() > BLOCKS_SPARE
            && let Some(read) = self.fresh.pop_front()
        {
            self.go_on(read, 0);
        }
        self.store.pool.read(&mut self.left_over);
        if let Err(e) = self.ring.submit() {
            // Nothing of it is lost: it is handed over with the next call.
            log::error!("the kernel takes no reads: {e}");
        }
        self.answers.drain(..)
    }

    /// Makes a read, or has read what it lacks.
    fn go_on(&mut self, mut read: PooledRead, mut rounds: u32) {
        while rounds < ROUNDS_MAX {
            let mut blocks = if rounds == 0 { read.ahead() } else { Vec::new() };
            rounds += 1;
            if blocks.is_empty() {
                match read.make_now() {
                    Outcome::Answered(answer) => return self.answers.push(answer),
                    Outcome::Patient(job) => return self.store.pool.run(job),
                    Outcome::WouldWait(back) => return self.left_over.push(back),
                    Outcome::Lacks(back, block) => {
                        read = back;
                        blocks.push(block);
                    }
                }
            }
            if blocks.len() > self.ring.room() {
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

    /// Has a block read for a waiting read; it may be there at once.
    fn fetch(&mut self, read: usize, block: BlockRead) {
        let waiting = &mut self.waiting[read];
        let direct = if self.page_cache.is_asked() { None } else { block.direct() };
        let extent = match direct.map_or_else(|| block.cached(), Ok) {
            Ok(extent) => extent,
            Err(_) => return waiting.failed = true,
        };
        if extent.grain == 1 {
            self.buffer.resize(extent.bytes, 0);
            let mut bytes = [IoSliceMut::new(&mut self.buffer)];
            let found = preadv2(&*extent.file, &mut bytes, extent.offset, ReadWriteFlags::NOWAIT);
            self.page_cache.note(found == Ok(extent.bytes));
            if found == Ok(extent.bytes) {
                return waiting.take(block.accept(extent.offset, &self.buffer));
            }
        }
        waiting.blocks += 1;
        let (file, offset, bytes) = (extent.file.clone(), extent.offset, extent.bytes);
        self.ring.read(&file, offset, bytes, Asked { read, block, extent, since: Instant::now() });
    }

    /// A block is there, or could not be read.
    fn arrived(&mut self, asked: Asked, outcome: std::io::Result<Buffer>) {
        let Asked { read, block, extent, since } = asked;
        if since.elapsed() > SLOW_READ {
            self.store.note_slow_read(now_ms());
        }
        let waiting = &mut self.waiting[read];
        waiting.blocks -= 1;
        match outcome {
            Ok(bytes) => {
                waiting.take(block.accept(extent.offset, &bytes));
                self.ring.give_back(bytes);
            }
            // It is asked for again: in larger units, or through the page cache.
            Err(e) if e.kind() == ErrorKind::InvalidInput && extent.grain > 1 => block.refused(&extent),
            // Who waits for the disk by himself hears why.
            Err(_) => waiting.failed = true,
        }
        if waiting.blocks == 0 {
            let Waiting { read, rounds, failed, .. } = self.waiting.remove(read);
            if failed { self.left_over.push(read) } else { self.go_on(read, rounds) }
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
        assert_eq!(asked(&mut cache, 160, false), 10);
        // Found each time: soon it is asked for all.
        assert_eq!(asked(&mut cache, 16 * 45, true), 45);
        assert_eq!(asked(&mut cache, 100, true), 100);
        let wasted = asked(&mut cache, 10_000, false);
        assert!((600..1_000).contains(&wasted), "{wasted}");
    }
}
