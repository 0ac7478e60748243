//! The fsync that no thread waits for: what is staged is written by the kernel and is on the disk when it says so, while
//! the one who began that goes on.

use parking_lot::{Mutex, MutexGuard};
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};
use storage::{DurableWriter, UnitBuffer};

/// A file whose staged end the ring may write.
pub(crate) trait StagedFile: Send + Sync {
    /// What is staged, to be written by the ring; `end_aside` is called when that is over. None if another thread writes, or an
    /// fsync is wanted for what is in the file already.
    fn begin_aside(&self) -> Option<StagedWrite>;

    /// The write of `bytes` is over; answers whether it is on the disk. If the kernel does not take such writes, or not all of
    /// it, or not now, another fsync makes it; any other failure may be the flush's, and is that of an fsync.
    fn end_aside(&self, bytes: Arc<UnitBuffer>, outcome: io::Result<()>) -> bool;
}

/// What is to be written, and where.
pub(crate) struct StagedWrite {
    pub(crate) file: Arc<File>,
    pub(crate) start: u64,
    pub(crate) bytes: Arc<UnitBuffer>,
}

/// What came of one.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Whether all that was staged is durable. If not, it is still to be written, or the store is poisoned.
    pub(crate) is_made: bool,
    /// From its beginning until it was seen to be over.
    pub(crate) took: Duration,
}

/// Of one log. One is under way at the most.
#[derive(Default)]
pub(crate) struct SyncRing {
    state: Mutex<RingState>,
}

/// Invariant: no outcome while one is under way.
#[derive(Default)]
struct RingState {
    /// None until one is wanted, and after it has failed.
    writer: Option<DurableWriter>,
    under_way: Option<UnderWay>,
    /// Of the last one, until it is told.
    outcome: Option<Ended>,
}

struct UnderWay {
    of: Arc<dyn StagedFile>,
    bytes: Arc<UnitBuffer>,
    since: Instant,
}

impl SyncRing {
    /// From now on there may be one under way; an event of this descriptor says that one is over. It is open as long
    /// as this.
    pub(crate) fn open(&self) -> io::Result<RawFd> {
        let writer = DurableWriter::new()?;
        let fd = writer.as_raw_fd();
        self.state().writer = Some(writer);
        Ok(fd)
    }

    /// Begins to make durable what is staged of a file. False if that is not possible now.
    pub(crate) fn begin(&self, file: Arc<dyn StagedFile>) -> bool {
        let mut state = self.state();
        let state = &mut *state;
        let Some(writer) = state.writer.as_mut().filter(|_| state.under_way.is_none() && state.outcome.is_none())
        else {
            return false;
        };
        let Some(write) = file.begin_aside() else { return false };
        if let Err(e) = writer.begin(&write.file, write.start, &write.bytes) {
            log::warn!("the log is written by threads from now on: {e}");
            file.end_aside(write.bytes, Err(io::ErrorKind::Unsupported.into()));
            // Its end waits for what it may have under way.
            state.writer = None;
            return false;
        }
        state.under_way = Some(UnderWay { of: file, bytes: write.bytes, since: Instant::now() });
        true
    }

    /// What came of the one that was begun, if it is over; told once. Waits while another thread waits for it.
    pub(crate) fn take(&self) -> Option<Ended> {
        Self::take_of(&mut self.state())
    }

    /// The same for an event loop, which does not wait: none while another thread waits for it, and it is told later.
    pub(crate) fn try_take(&self) -> Option<Ended> {
        Self::take_of(&mut *self.state.try_lock()?)
    }

    fn take_of(state: &mut RingState) -> Option<Ended> {
        if let Some(outcome) = state.writer.as_mut().and_then(DurableWriter::take) {
            state.settle(outcome);
        }
        state.outcome.take()
    }

    /// Waits for the one that is under way, if any.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        if let Some(outcome) = state.writer.as_mut().and_then(DurableWriter::wait) {
            state.settle(outcome);
        }
    }

    fn state(&self) -> MutexGuard<'_, RingState> {
        self.state.lock()
    }
}

impl RingState {
    fn settle(&mut self, outcome: io::Result<()>) {
        let Some(UnderWay { of, bytes, since }) = self.under_way.take() else { return };
        let is_made = of.end_aside(bytes, outcome);
        self.outcome = Some(Ended { is_made, took: since.elapsed() });
    }
}

impl fmt::Debug for SyncRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncRing").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::StagedFile;
    use crate::disk::GuardedFs;
    use crate::disk_health::{DiskHealth, DiskState};
    use crate::{Log, LogOptions, LogStore, LogWrite};
    use raft::eraftpb::Entry;
    use raft_engine::env::{FileSystem, WriteExt};
    use std::io::{self, Write};
    use std::path::Path;
    use std::sync::Arc;
    use vocab::ShardId;

    const FILE: usize = 4 << 20;

    /// A log file, what writes it, and the file system that it is of.
    fn open(dir: &Path) -> (GuardedFs, <GuardedFs as FileSystem>::Writer, Arc<DiskHealth>) {
        let health = Arc::new(DiskHealth::default());
        let fs = GuardedFs::new(health.clone());
        let file = Arc::new(fs.create(dir.join("1.raftlog")).unwrap());
        let mut writer = fs.new_writer(file).unwrap();
        // So many fsyncs that writes are staged.
        for n in 0..100 {
            writer.write_all(&[n; 10]).unwrap();
            fs.sync_active().unwrap();
        }
        writer.allocate(1000, FILE).unwrap();
        fs.sync_active().unwrap();
        (fs, writer, health)
    }

    /// Writes of many sizes, some made durable by the ring and some otherwise, against a plain copy.
    #[test]
    fn what_is_under_way_is_in_the_file_when_it_is_over_despite_other_writes_between() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, mut writer, _) = open(dir.path());
        if fs.open_ring().is_err() {
            return;
        }
        let path = dir.path().join("1.raftlog");
        let mut expected = std::fs::read(&path).unwrap()[..1000].to_vec();
        let mut begun = 0;
        for n in 0..300_usize {
            let bytes = vec![n as u8 | 1; n * 37 % 6000 + 1];
            writer.write_all(&bytes).unwrap();
            expected.extend_from_slice(&bytes);
            if !fs.begin_sync() {
                fs.sync_active().unwrap();
                continue;
            }
            begun += 1;
            assert!(!fs.begin_sync(), "one at a time");
            if n % 3 == 0 {
                writer.write_all(b"meanwhile").unwrap();
            }
            // Another comes between, and then this one is over too.
            match n % 5 {
                0 => fs.sync_active().unwrap(),
                1 => fs.write_staged().unwrap(),
                _ => {}
            }
            let ended = loop {
                if let Some(ended) = fs.ended_sync(true) {
                    break ended;
                }
                std::thread::yield_now();
            };
            assert!(ended.is_made && fs.ended_sync(true).is_none(), "told once");
            assert!(std::fs::read(&path).unwrap()[..expected.len()] == expected, "write {n}");
            if n % 3 == 0 {
                expected.extend_from_slice(b"meanwhile");
            }
        }
        // None where the file system knows no such writes.
        assert!(begun == 0 || begun > 250, "{begun} of 300");
        fs.sync_active().unwrap();
        assert!(std::fs::read(&path).unwrap()[..expected.len()] == expected);
    }

    /// The device's cache is not flushed for what is in it from before.
    #[test]
    fn there_is_none_while_something_else_waits_for_an_fsync() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, mut writer, _) = open(dir.path());
        if fs.open_ring().is_err() {
            return;
        }
        assert!(!fs.begin_sync(), "nothing is staged");
        writer.write_all(b"first").unwrap();
        if !fs.stages() {
            return;
        }
        fs.write_staged().unwrap();
        writer.write_all(b"second").unwrap();
        assert!(!fs.begin_sync(), "the first one is written and not fsynced");
        fs.sync_active().unwrap();
        writer.write_all(b"third").unwrap();
        assert!(fs.begin_sync());
        fs.sync_active().unwrap();
        assert!(fs.ended_sync(true).unwrap().is_made);
    }

    #[test]
    fn one_that_failed_is_made_otherwise_or_poisons_the_store() {
        for (error, is_fatal) in [
            (io::ErrorKind::InvalidInput, false),
            (io::ErrorKind::StorageFull, false),
            (io::ErrorKind::WriteZero, false),
            (io::ErrorKind::Other, true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let (fs, mut writer, health) = open(dir.path());
            writer.write_all(b"to be written").unwrap();
            let Some(write) = fs.active_file().begin_aside() else { return };
            assert!(!fs.active_file().end_aside(write.bytes, Err(error.into())));
            assert_eq!(health.state() == DiskState::Poisoned, is_fatal, "{error}");
            if !is_fatal {
                writer.write_all(b", and more").unwrap();
                fs.sync_active().unwrap();
                let found = std::fs::read(dir.path().join("1.raftlog")).unwrap();
                assert!(found[1000..].starts_with(b"to be written, and more"), "{error}");
            }
        }
    }

    /// Log files are changed while one is under way.
    #[test]
    fn a_log_has_all_that_its_ring_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let options = LogOptions { file_bytes: 64 << 10, ..LogOptions::default() };
        let log = Log::open(dir.path(), &options, Arc::default()).unwrap();
        if log.open_ring().is_err() {
            return;
        }
        let mut told = 0;
        for index in 1..=1000 {
            let mut write = LogWrite::default();
            let data = vec![index as u8; 700].into();
            write.entries(ShardId(0), vec![Entry { index, term: 1, data, ..Entry::default() }]);
            log.stage(&write).unwrap();
            told += u64::from(matches!(log.ended_sync(true), Some((Ok(true), _))));
            if !log.begin_sync() && index % 2 == 0 {
                log.sync().unwrap();
            }
        }
        drop(log);
        let log = Log::open(dir.path(), &options, Arc::default()).unwrap();
        let found = log.fetch(ShardId(0), 1, 1001, u64::MAX).unwrap();
        assert!(found.iter().enumerate().all(|(n, entry)| entry.data[..] == [(n + 1) as u8; 700]));
        assert_eq!(found.len(), 1000, "{told} were made by the ring");
    }
}
