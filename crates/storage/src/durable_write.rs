//! A write of a file of which the kernel tells when it is on the disk, while the thread that began it goes on with other work:
//! io_uring(7), past the page cache, with `RWF_DSYNC` (see pwritev2(2)). No thread waits for it; a virtual disk's flush
//! is made by a thread of the kernel's, which costs less than to wake one's own.

use crate::unit_buffer::UnitBuffer;
use io_uring::{IoUring, opcode, types};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// `RWF_DSYNC`.
const DSYNC: i32 = rustix::io::ReadWriteFlags::DSYNC.bits().cast_signed();

/// Makes such writes, one at a time. Any thread may begin one and any may wait for it.
pub struct DurableWriter {
    ring: IoUring,
    under_way: Option<UnderWay>,
    /// A call of the kernel failed: nothing can be told of the ring any more, and no write begins.
    is_broken: bool,
}

/// What the kernel reads until the write is over.
struct UnderWay {
    /// Open until then.
    _file: Arc<File>,
    bytes: Arc<UnitBuffer>,
}

impl DurableWriter {
    /// # Errors
    /// The kernel has no rings, or does not let this process have one.
    pub fn new() -> io::Result<Self> {
        // A thread that is at work is not interrupted for what is done: its next call of the system tells it. Kernels
        // before 5.19 do not know that.
        let patient = IoUring::builder().setup_coop_taskrun().build(1);
        Ok(Self { ring: patient.or_else(|_| IoUring::new(1))?, under_way: None, is_broken: false })
    }

    /// Whether a write was begun whose outcome was not taken yet.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Begins to write all units of `bytes` at `offset`. Durable with them is what the file's length and place on the disk
    /// hang on, and nothing that was written to it before.
    ///
    /// # Errors
    /// The kernel's: then this one is good for nothing any more.
    ///
    /// # Panics
    /// If one is under way.
    #[expect(unsafe_code, reason = "the kernel reads the buffer")]
    pub fn begin(&mut self, file: &Arc<File>, offset: u64, bytes: &Arc<UnitBuffer>) -> io::Result<()> {
        assert!(self.under_way.is_none(), "one write at a time");
        let units = bytes.units();
        if self.is_broken {
            return Err(io::Error::other("the ring has failed before"));
        }
        let length = u32::try_from(units.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let entry = opcode::Write::new(types::Fd(file.as_raw_fd()), units.as_ptr(), length);
        let entry = entry.offset(offset).rw_flags(DSYNC).build();
        self.under_way = Some(UnderWay { _file: file.clone(), bytes: bytes.clone() });
        // SAFETY: the kernel reads `length` bytes at the start of `units` and uses the descriptor until the completion. Until
        // then `under_way` holds the file open and shares the buffer, whose bytes cannot change or move while it is shared.
        // `drop` waits for the completion, or leaks both.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "a ring has room for the one write that it was made for");
        self.enter(0).map_err(|error| self.give_up(error))
    }

    /// The outcome of the write that was begun, if it is over.
    pub fn take(&mut self) -> Option<io::Result<()>> {
        let expected = self.under_way.as_ref()?.bytes.units().len();
        if !self.ring.submission().is_empty()
            && let Err(error) = self.enter(0)
        {
            return Some(Err(self.give_up(error)));
        }
        let done = self.ring.completion().next()?.result();
        self.under_way = None;
        Some(match usize::try_from(done) {
            Ok(written) if written == expected => Ok(()),
            Ok(_) => Err(io::ErrorKind::WriteZero.into()),
            Err(_) => Err(io::Error::from_raw_os_error(-done)),
        })
    }

    /// The same, once it is over; None if none is under way.
    pub fn wait(&mut self) -> Option<io::Result<()>> {
        while self.is_under_way() {
            if let Some(outcome) = self.take() {
                return Some(outcome);
            }
            if let Err(error) = self.enter(1) {
                return Some(Err(self.give_up(error)));
            }
        }
        None
    }

    /// The write under way has no outcome, and no other begins. The kernel may still read its bytes: they stay for good.
    fn give_up(&mut self, error: io::Error) -> io::Error {
        self.is_broken = true;
        std::mem::forget(self.under_way.take());
        error
    }

    fn enter(&mut self, done_min: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(done_min) {
            Ok(_) => Ok(()),
            // What is not handed over yet is with the next call.
            Err(e) => match e.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock => Ok(()),
                _ => Err(e),
            },
        }
    }
}

/// Readable, as epoll(7) says it, when the write is over.
impl AsRawFd for DurableWriter {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

impl Drop for DurableWriter {
    fn drop(&mut self) {
        if self.wait().is_some_and(|outcome| outcome.is_err()) {
            // The kernel may still read it.
            std::mem::forget(self.under_way.take());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::files::open_direct_to_write;
    use crate::required::{URING, required};

    fn buffer(bytes: &[u8]) -> Arc<UnitBuffer> {
        let mut buffer = UnitBuffer::default();
        buffer.extend(bytes);
        Arc::new(buffer)
    }

    #[test]
    fn what_was_written_is_in_the_file_and_waiters_hear_of_it() {
        let Some(mut writer) = required(URING, DurableWriter::new()) else { return };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![1; 64 << 10]).unwrap();
        let Some(file) = required(URING, open_direct_to_write(&path)).map(Arc::new) else { return };
        assert!(writer.wait().is_none() && writer.take().is_none());
        for n in 0..10_u8 {
            writer.begin(&file, u64::from(n) * 4096, &buffer(&[n + 10; 5000])).unwrap();
            assert!(writer.is_under_way());
            if n % 2 == 0 {
                writer.wait().unwrap().unwrap();
            } else {
                let outcome = std::thread::scope(|scope| scope.spawn(|| writer.wait()).join().unwrap());
                outcome.unwrap().unwrap();
            }
            let found = std::fs::read(&path).unwrap();
            let at = usize::from(n) * 4096;
            assert!(found[at..at + 5000].iter().all(|&byte| byte == n + 10), "{n}");
            assert!(found[at + 5000..at + 8192].iter().all(|&byte| byte == 0), "{n}");
        }
        writer.begin(&file, 0, &buffer(b"the last")).unwrap();
        drop(writer);
        assert!(std::fs::read(&path).unwrap().starts_with(b"the last"));
    }

    #[test]
    fn a_write_that_fails_says_so_and_the_next_one_may_succeed() {
        let Some(mut writer) = required(URING, DurableWriter::new()) else { return };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![1; 8192]).unwrap();
        let read_only = Arc::new(File::open(&path).unwrap());
        writer.begin(&read_only, 0, &buffer(b"no")).unwrap();
        assert_eq!(writer.wait().unwrap().unwrap_err().raw_os_error(), Some(9), "EBADF");
        let Some(file) = required(URING, open_direct_to_write(&path)).map(Arc::new) else { return };
        writer.begin(&file, 0, &buffer(b"yes")).unwrap();
        writer.wait().unwrap().unwrap();
        assert!(std::fs::read(&path).unwrap().starts_with(b"yes\0"));
    }

    #[test]
    fn a_ring_that_has_failed_refuses_writes_and_has_none_under_way() {
        let Some(mut writer) = required(URING, DurableWriter::new()) else { return };
        let file = Arc::new(tempfile::tempfile().unwrap());
        writer.begin(&file, 0, &buffer(b"lost")).unwrap();
        let error = writer.give_up(io::ErrorKind::InvalidInput.into());
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(!writer.is_under_way() && writer.take().is_none() && writer.wait().is_none());
        assert!(writer.begin(&file, 0, &buffer(b"more")).is_err());
    }
}
