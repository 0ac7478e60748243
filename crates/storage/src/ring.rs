//! Reads of files that one thread has under way side by side, by io_uring(7). The store uses nothing else of it for reads.
//!
//! Unsafe code is needed for it: the kernel writes into a buffer that no thread reads meanwhile. So a ring owns the
//! buffer and the file of each read until the kernel says that it is done, and waits for that before it goes.

use crate::aligned::Memory;
use crate::huge_page::HugePage;
use io_uring::{IoUring, opcode, types};
use slab::Slab;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// The size of each buffer in the huge page, in bytes: most reads fit.
const PIECE_BYTES: usize = 16 << 10;

/// Reads under way, each with its purpose. Only the thread that made the ring uses it.
pub struct Ring<T> {
    ring: IoUring,
    reads_max: usize,
    underway: Slab<Underway<T>>,
    /// The bytes of their buffers.
    bytes: usize,
    /// Set from the first read on.
    buffers: Option<Buffers>,
}

/// The buffers of reads of a usual size.
struct Buffers {
    page: Option<HugePage>,
    /// The kernel keeps them ready, as buffer 0.
    registered: bool,
}

struct Underway<T> {
    buffer: Buffer,
    /// Open until the kernel is done with it.
    _file: Arc<File>,
    tag: T,
}

/// What was read.
pub struct Buffer {
    memory: Memory,
    length: usize,
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.length]
    }
}

impl<T> Ring<T> {
    /// A ring for this number of reads at a time.
    ///
    /// # Errors
    /// The kernel has none, or does not let this process have one: then files are to be read in another way.
    pub fn new(reads_max: u32) -> io::Result<Self> {
        // Completions do not interrupt this thread: it learns of them at its next system call, and is woken if it waits. Kernels before
        // 6.0 do not know all of these flags.
        let patient = IoUring::builder().setup_single_issuer().setup_coop_taskrun().build(reads_max);
        let ring = patient.or_else(|_| IoUring::new(reads_max))?;
        Ok(Self { ring, reads_max: reads_max as usize, underway: Slab::new(), bytes: 0, buffers: None })
    }

    /// How many more reads may be begun.
    #[must_use]
    pub fn room(&self) -> usize {
        self.reads_max - self.underway.len()
    }

    /// How many reads have begun and are not done.
    #[must_use]
    pub fn with_disk(&mut self) -> usize {
        self.underway.len() - self.ring.completion().len()
    }

    /// Bytes of memory that the reads under way take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Begins a read of `bytes` bytes of `file` from `offset` on; fewer if the file ends before. The kernel gets it with the next
    /// `submit` or `wait`.
    ///
    /// # Panics
    /// When there is no room for it.
    #[expect(unsafe_code, reason = "the kernel writes into the buffer")]
    pub fn read(&mut self, file: &Arc<File>, offset: u64, bytes: usize, tag: T) {
        assert!(self.room() > 0, "more reads than the ring has room for");
        let (mut memory, is_registered) = self.memory_for(bytes);
        self.bytes += memory.len();
        let (fd, target) = (types::Fd(file.as_raw_fd()), memory.target());
        let length = u32::try_from(bytes).expect("a read of less than 4 GiB");
        let entry = match is_registered {
            true => opcode::ReadFixed::new(fd, target, length, 0).offset(offset).build(),
            false => opcode::Read::new(fd, target, length).offset(offset).build(),
        };
        let buffer = Buffer { memory, length: 0 };
        let key = self.underway.insert(Underway { buffer, _file: file.clone(), tag });
        // SAFETY: the kernel writes `length` bytes at `target` and reads `fd` until the completion with this key. Until then
        // `underway` owns the buffer and the open file, and no code reads or moves the buffer's bytes. `drop` waits for the
        // completion, or leaks both.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(key as u64)) };
        assert!(pushed.is_ok(), "a ring has room for as many reads as it was made for");
    }

    /// Memory for a read of this many bytes, and whether it is registered with the kernel.
    fn memory_for(&mut self, bytes: usize) -> (Memory, bool) {
        let ring = &self.ring;
        let buffers = self.buffers.get_or_insert_with(|| Buffers::of(ring));
        let piece = if bytes <= PIECE_BYTES { buffers.page.as_ref().and_then(HugePage::take) } else { None };
        piece.map_or_else(|| (Memory::of(bytes), false), |piece| (Memory::Piece(piece), buffers.registered))
    }

    /// Hands over what was begun, if anything.
    ///
    /// # Errors
    /// The kernel's.
    pub fn submit(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() { Ok(()) } else { self.enter(0) }
    }

    /// The same, and waits until some read is done.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&mut self) -> io::Result<()> {
        self.enter(1)
    }

    fn enter(&mut self, done_min: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(done_min) {
            Ok(_) => Ok(()),
            // What was not handed over goes with the next call.
            Err(e) => match e.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock => Ok(()),
                _ => Err(e),
            },
        }
    }

    /// A read that is done, if there is one; not in the order in which they were begun.
    pub fn take(&mut self) -> Option<(T, io::Result<Buffer>)> {
        let done = self.ring.completion().next()?;
        let Underway { mut buffer, tag, .. } = self.underway.remove(done.user_data() as usize);
        self.bytes -= buffer.memory.len();
        let Ok(length) = usize::try_from(done.result()) else {
            return Some((tag, Err(io::Error::from_raw_os_error(-done.result()))));
        };
        buffer.length = length;
        Some((tag, Ok(buffer)))
    }

    /// Whether there is something to take.
    pub fn has_done(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }
}

impl Buffers {
    #[expect(unsafe_code, reason = "the kernel writes into the buffers")]
    fn of(ring: &IoUring) -> Self {
        let page = HugePage::new(PIECE_BYTES).ok();
        // The kernel may refuse to register memory for this process: there is a limit (RLIMIT_MEMLOCK).
        let registered = page.as_ref().is_some_and(|page| {
            let (start, length) = page.memory();
            let all = libc::iovec { iov_base: start.cast(), iov_len: length };
            // SAFETY: mapped as long as the ring has the page, which is as long as it lives.
            unsafe { ring.submitter().register_buffers(&[all]) }.is_ok()
        });
        Self { page, registered }
    }
}

/// Readable, as epoll(7) says it, when a read is done.
impl<T> AsRawFd for Ring<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while !self.underway.is_empty() {
            if self.wait().is_err() {
                // The kernel may still write there.
                std::mem::take(&mut self.underway).into_iter().for_each(std::mem::forget);
                return;
            }
            while self.take().is_some() {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::required::{URING, required};
    use std::io::Write;
    use vocab::Prng;

    /// A file of numbers, each of 8 bytes and that of its place.
    fn numbers(count: u64) -> Arc<File> {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..count).flat_map(u64::to_le_bytes).collect();
        file.write_all(&bytes).unwrap();
        Arc::new(file)
    }

    #[test]
    fn reads_side_by_side_each_have_their_bytes() {
        // Where the kernel has no such rings, the store does without, too.
        let Some(mut ring) = required(URING, Ring::new(8)) else { return };
        let (file, mut prng) = (numbers(100_000), Prng::new(1));
        let (mut begun, mut done) = (0, 0);
        while done < 2_000 {
            while ring.room() > 0 && begun < 2_000 {
                let (first, count) = (prng.below(100_000), 1 + prng.below(5_000) as usize);
                ring.read(&file, first * 8, count * 8, (first, count));
                begun += 1;
                assert!(ring.bytes() >= count * 8);
            }
            ring.wait().unwrap();
            assert!(ring.with_disk() < 8 - ring.room(), "one of them is done");
            while let Some(((first, count), outcome)) = ring.take() {
                let read = outcome.unwrap();
                let expected: Vec<u8> =
                    (first..(first + count as u64).min(100_000)).flat_map(u64::to_le_bytes).collect();
                assert_eq!(read[..], expected);
                done += 1;
            }
        }
        assert_eq!((ring.room(), ring.bytes(), ring.take().is_none()), (8, 0, true));
        assert!(matches!(ring.memory_for(8).0, Memory::Piece(_)), "buffers are used again: there are fewer than reads");
    }

    #[test]
    fn a_failed_read_is_told_and_a_ring_that_goes_waits_for_the_others() {
        let Some(mut ring) = required(URING, Ring::new(4)) else { return };
        let folder = tempfile::tempdir().unwrap();
        let folder = Arc::new(File::open(folder.path()).unwrap());
        ring.read(&folder, 0, 100, "a folder");
        ring.wait().unwrap();
        let (tag, outcome) = ring.take().unwrap();
        assert_eq!((tag, outcome.err().map(|e| e.kind())), ("a folder", Some(io::ErrorKind::IsADirectory)));
        ring.read(&numbers(10), 0, 80, "never taken");
        drop(ring);
        assert_eq!(Arc::strong_count(&folder), 1);
    }
}
