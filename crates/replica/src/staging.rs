//! What was appended to a log file and waits to be written past the page cache (open(2), `O_DIRECT`).
//!
//! An append copies bytes into a buffer here and returns; an fsync writes the buffer first. So the thread that
//! waits for the disk does not touch what another processor has in its caches, an fsync has only the device's own cache
//! to wait for, and a write costs a third of the processor time that it takes through pages. Only over what the
//! file has already: such a write changes neither its length nor where it lies.

use crate::disk_health::DiskHealth;
use crate::sync_ring::{StagedWrite, SyncRing};
use parking_lot::{Mutex, MutexGuard};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use storage::{HugePage, UNIT, UnitBuffer, open_direct_to_write};
use vocab::is_shortage;

/// A buffer that has become larger than this is not kept for what comes next.
const KEPT_BYTES: usize = 4 << 20;
/// Of each buffer in a huge page: there are two, for what is being written and for what comes meanwhile.
const BUFFER_BYTES: usize = 1 << 20;

/// Memory for what is staged, of whichever file is appended to: in one huge page, so that a device takes a write as one piece.
#[derive(Default)]
pub(crate) struct StagingMemory(OnceLock<Option<HugePage>>);

impl StagingMemory {
    fn take(&self) -> UnitBuffer {
        let page = self.0.get_or_init(|| HugePage::new(BUFFER_BYTES).ok());
        page.as_ref().and_then(HugePage::take).map(UnitBuffer::within).unwrap_or_default()
    }
}

/// The end of one file, as far as it is not written.
pub(crate) struct Staging {
    path: PathBuf,
    health: Arc<DiskHealth>,
    state: Mutex<StagingState>,
    /// Held while the file is written: the unit that one write ends in is the one that the next begins with.
    writing: Mutex<()>,
    /// Who else may write it; its writes are over before another begins.
    ring: Arc<SyncRing>,
    memory: Arc<StagingMemory>,
    /// Writes of the file that are durable with the next fsync only; and how many of them were there at the last one.
    unsynced: AtomicU64,
    synced: AtomicU64,
}

#[derive(Default)]
struct StagingState {
    open: Option<Open>,
    /// What is being written, and where; or was to be, if no write is under way: that comes before all else.
    under_way: Option<(u64, Arc<UnitBuffer>)>,
    /// To be used again, if there is one.
    spare: Option<UnitBuffer>,
    /// Such writes are known not to work here.
    refused: bool,
}

/// The file is open for such writes.
struct Open {
    file: Arc<File>,
    /// Where in the file the bytes go: to the beginning of a unit.
    start: u64,
    bytes: UnitBuffer,
    /// How many of them, less than a unit, were there before.
    known: usize,
}

impl Staging {
    pub(crate) fn new(path: &Path, health: Arc<DiskHealth>, ring: Arc<SyncRing>, memory: Arc<StagingMemory>) -> Self {
        // What an earlier process wrote may not be durable either.
        let (unsynced, synced) = (AtomicU64::new(1), AtomicU64::new(0));
        Self {
            path: path.to_owned(),
            health,
            state: Mutex::default(),
            writing: Mutex::default(),
            ring,
            memory,
            unsynced,
            synced,
        }
    }

    /// Writes the file in some way that leaves it to an fsync to make that durable: one that begins afterwards.
    pub(crate) fn unsynced<T>(&self, write: impl FnOnce() -> T) -> T {
        // Twice: neither before it is over nor by an fsync that began before is it taken for durable.
        self.unsynced.fetch_add(1, Ordering::SeqCst);
        let written = write();
        self.unsynced.fetch_add(1, Ordering::SeqCst);
        written
    }

    /// Makes an fsync of the file, by `fsync`.
    pub(crate) fn sync<T>(&self, fsync: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let covered = self.unsynced.load(Ordering::SeqCst);
        let synced = fsync()?;
        self.synced.fetch_max(covered, Ordering::SeqCst);
        Ok(synced)
    }

    /// What was taken until now, to be written by the ring; the caller calls `end_aside` when that is over. None if
    /// another thread writes, or an fsync is wanted for what is in the file already.
    pub(crate) fn begin_aside(&self) -> Option<StagedWrite> {
        let _writing = self.writing.try_lock()?;
        let mut state = self.state();
        let is_durable = self.unsynced.load(Ordering::SeqCst) == self.synced.load(Ordering::SeqCst);
        if state.under_way.is_some() || !is_durable { None } else { state.begin(&self.memory) }
    }

    /// The ring's write is over; if it was not made, the next one who writes makes it.
    pub(crate) fn end_aside(&self, bytes: Arc<UnitBuffer>, is_made: bool) {
        if is_made {
            self.state().end(bytes);
        }
    }

    /// Takes bytes that are to be at `at` in the file, which is `end` long. False if it does not: then what it took before
    /// is in the file, and these are to be written otherwise.
    pub(crate) fn take(&self, at: u64, bytes: &[u8], end: u64) -> io::Result<bool> {
        let mut state = self.state();
        let goes_on = state.open.as_ref().is_none_or(|open| open.at() == at);
        if state.refused || !goes_on || (at + bytes.len() as u64).next_multiple_of(UNIT as u64) > end {
            drop(state);
            return self.close().map(|()| false);
        }
        if state.open.is_none() {
            match Open::new(&self.path, at, &self.memory) {
                Ok(open) => state.open = Some(open),
                Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
                    state.refused = true;
                    return Ok(false);
                }
                // It is written in a way that needs no descriptor of its own.
                Err(e) if is_shortage(&e) => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        state.open.iter_mut().for_each(|open| open.bytes.extend(bytes));
        Ok(true)
    }

    /// Writes what was taken until now.
    pub(crate) fn write(&self) -> io::Result<()> {
        let _writing = self.writing.lock();
        self.ring.finish();
        let left = self.state().under_way.clone();
        if let Some((start, bytes)) = left {
            self.write_otherwise(start, bytes.all())?;
            self.state().end(bytes);
        }
        let Some(StagedWrite { file, start, bytes }) = self.state().begin(&self.memory) else { return Ok(()) };
        let written = match self.unsynced(|| file.write_all_at(bytes.units(), start)) {
            Err(e) => {
                self.refuse_if_invalid(&e);
                self.write_otherwise(start, bytes.all())
            }
            written => written,
        };
        // What could not be written now stays, and is written before all else.
        if written.is_ok() {
            self.state().end(bytes);
        }
        written
    }

    /// Writes past the page cache are not known here, if that is what the error says.
    pub(crate) fn refuse_if_invalid(&self, error: &io::Error) {
        if error.kind() == io::ErrorKind::InvalidInput {
            self.state().refused = true;
        }
    }

    /// Writes through the page cache. What failed past it need not be the device's fault: if it is, this fails too.
    fn write_otherwise(&self, start: u64, bytes: &[u8]) -> io::Result<()> {
        let write = || File::options().write(true).open(&self.path)?.write_all_at(bytes, start);
        self.unsynced(|| self.health.wait_out(&self.path, write))
    }

    /// Writes what was taken, and goes on as if nothing had ever been.
    pub(crate) fn close(&self) -> io::Result<()> {
        self.write()?;
        let mut state = self.state();
        (state.open, state.spare) = (None, None);
        Ok(())
    }

    /// Reads `bytes` at `at` by `read`, and puts what is not in the file yet in its place.
    pub(crate) fn read(
        &self,
        at: u64,
        bytes: &mut [u8],
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let state = self.state();
        let under_way = state.under_way.as_ref().map(|(start, bytes)| (*start, bytes.all()));
        let open = state.open.as_ref().map(|open| (open.start, open.bytes.all()));
        if [under_way, open].iter().flatten().all(|(start, _)| at + bytes.len() as u64 <= *start) {
            // It may take its time.
            drop(state);
            return read(bytes);
        }
        // What is being written stays known until this is over.
        let count = read(bytes)?;
        for (start, staged) in [under_way, open].into_iter().flatten() {
            overlay(&mut bytes[..count], at, staged, start);
        }
        Ok(count)
    }

    /// Whether there is something that the file has not.
    #[cfg(test)]
    pub(crate) fn holds(&self) -> bool {
        self.state().open.as_ref().is_some_and(|open| open.bytes.all().len() > open.known)
    }

    fn state(&self) -> MutexGuard<'_, StagingState> {
        self.state.lock()
    }
}

/// Copies what of `staged`, which begins at `start`, is within `bytes`, which begin at `at`.
fn overlay(bytes: &mut [u8], at: u64, staged: &[u8], start: u64) {
    let (from, to) = (at.max(start), (at + bytes.len() as u64).min(start + staged.len() as u64));
    if from < to {
        let (into, of) = ((from - at) as usize, (from - start) as usize);
        let length = (to - from) as usize;
        bytes[into..into + length].copy_from_slice(&staged[of..of + length]);
    }
}

impl StagingState {
    /// What is to be written, and where. The unit that it ends in stays, for what follows.
    fn begin(&mut self, memory: &StagingMemory) -> Option<StagedWrite> {
        let open = self.open.as_mut().filter(|open| open.bytes.all().len() > open.known)?;
        let mut next = self.spare.take().unwrap_or_else(|| memory.take());
        next.truncate(0);
        open.known = open.bytes.all().len() % UNIT;
        let whole = open.bytes.all().len() - open.known;
        next.extend(&open.bytes.all()[whole..]);
        let start = open.start;
        open.start += whole as u64;
        let bytes = Arc::new(std::mem::replace(&mut open.bytes, next));
        self.under_way = Some((start, bytes.clone()));
        Some(StagedWrite { file: open.file.clone(), start, bytes })
    }

    fn end(&mut self, bytes: Arc<UnitBuffer>) {
        self.under_way = None;
        if let Ok(bytes) = Arc::try_unwrap(bytes)
            && bytes.room() <= KEPT_BYTES
        {
            self.spare = Some(bytes);
        }
    }
}

impl Open {
    /// Fails with `InvalidInput` where the file system knows no such way.
    fn new(path: &Path, at: u64, memory: &StagingMemory) -> io::Result<Self> {
        let file = open_direct_to_write(path)?;
        let known = at as usize % UNIT;
        let start = at - known as u64;
        let mut bytes = memory.take();
        if known > 0 {
            bytes.extend(&[0; UNIT]);
            file.read_exact_at(bytes.all_mut(), start)?;
            bytes.truncate(known);
        }
        Ok(Self { file: Arc::new(file), start, bytes, known })
    }

    /// Where the next bytes go.
    fn at(&self) -> u64 {
        self.start + self.bytes.all().len() as u64
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const END: usize = 8 << 20;

    fn file_of(expected: &[u8]) -> (tempfile::TempDir, Staging) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut bytes = expected.to_vec();
        bytes.resize(END, 0);
        std::fs::write(&path, &bytes).unwrap();
        let staging = Staging::new(&path, Arc::default(), Arc::default(), Arc::default());
        (dir, staging)
    }

    fn read(staging: &Staging, at: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let file = File::open(&staging.path).unwrap();
        let count = staging.read(at as u64, &mut bytes, |bytes| file.read_at(bytes, at as u64)).unwrap();
        assert_eq!(count, length);
        bytes
    }

    /// Bytes of many lengths, after something that was written otherwise, against a plain copy: what is read at any time,
    /// and what the file has after a write.
    #[test]
    fn what_was_taken_is_read_at_once_and_is_in_the_file_after_a_write() {
        let mut expected = vec![7_u8; 5000];
        let (_dir, staging) = file_of(&expected);
        for (n, length) in [1, 100, 3186, 5, 4096, 4095, 70_000, 2_500_000, 1, 8192].into_iter().enumerate() {
            let bytes = vec![n as u8 + 10; length];
            if !staging.take(expected.len() as u64, &bytes, END as u64).unwrap() {
                assert_eq!(n, 0, "it is known from the first");
                return;
            }
            expected.extend_from_slice(&bytes);
            assert!(read(&staging, 0, expected.len()) == expected, "taken {n}");
            let from = expected.len().saturating_sub(length + 3000);
            assert!(read(&staging, from, expected.len() - from) == expected[from..], "the end, {n}");
            if n % 3 != 1 {
                staging.write().unwrap();
                let found = std::fs::read(&staging.path).unwrap();
                assert!(found[..expected.len()] == expected, "after {n}");
                assert!(found.len() == END && found[expected.len()..].iter().all(|&byte| byte == 0), "after {n}");
            }
        }
        let late = staging.take(END as u64 - 10, &[1; 10], END as u64);
        assert!(!late.unwrap(), "that is not where it goes on");
        assert!(std::fs::read(&staging.path).unwrap()[..expected.len()] == expected, "it was closed, not forgotten");
        assert!(!staging.take(END as u64 - 10, &[1; 11], END as u64).unwrap(), "the file would be longer");
    }

    /// Readers while one thread takes and another writes: none sees bytes that are not, or not yet, the file's.
    #[test]
    fn readers_see_all_that_was_taken_while_it_is_written() {
        let (_dir, staging) = file_of(&[]);
        let taken = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..2000_usize {
                    let at = n * 1000;
                    if !staging.take(at as u64, &[n as u8; 1000], END as u64).unwrap() {
                        break;
                    }
                    taken.store(n + 1, std::sync::atomic::Ordering::Release);
                }
            });
            for _ in 0..2 {
                scope.spawn(|| (0..100).for_each(|_| staging.write().unwrap()));
                scope.spawn(|| {
                    for _ in 0..500 {
                        let last = taken.load(std::sync::atomic::Ordering::Acquire).saturating_sub(1);
                        for n in last.saturating_sub(20)..last {
                            assert_eq!(read(&staging, n * 1000, 1000), vec![n as u8; 1000]);
                        }
                    }
                });
            }
        });
    }
}
