//! A node's disk: the log and the trees' files. It survives the node, and has accidents.

use crate::bug::Bug;
use crate::kept_map::KeptMap;
use crate::tree::{Flaw, Folders, Medium, Tree};
use replica::{Entry, GroupState, LogStore, LogWrite, MemoryLog, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::Engine;
use vocab::ShardId;

/// The call was interrupted: errno(3).
const EINTR: i32 = 4;

/// The log on a simulated disk: `MemoryLog`, and bugs that were put in on purpose.
#[derive(Debug, Default)]
pub struct DiskLog {
    inner: MemoryLog,
    skips_fsync: AtomicBool,
    forgets_votes: AtomicBool,
}

impl DiskLog {
    /// For accidents.
    #[must_use]
    pub fn inner(&self) -> &MemoryLog {
        &self.inner
    }
}

impl LogStore for DiskLog {
    fn state(&self, shard: ShardId) -> Result<Option<GroupState>> {
        let mut state = self.inner.state(shard)?;
        if let Some(state) = &mut state
            && self.forgets_votes.load(Ordering::Relaxed)
        {
            state.hard_state.vote = 0;
        }
        Ok(state)
    }

    fn fetch(&self, shard: ShardId, low: u64, high: u64, bytes_max: u64) -> Result<Vec<Entry>> {
        self.inner.fetch(shard, low, high, bytes_max)
    }

    fn write(&self, write: LogWrite, sync: bool) -> Result<()> {
        self.inner.write(write, sync && !self.skips_fsync.load(Ordering::Relaxed))
    }

    fn sync(&self) -> Result<()> {
        if self.skips_fsync.load(Ordering::Relaxed) { Ok(()) } else { self.inner.sync() }
    }

    fn groups(&self) -> Vec<ShardId> {
        self.inner.groups()
    }
}

/// A node's disk: the log and the trees' files.
#[derive(Default)]
pub struct Disk {
    /// The log.
    pub log: Arc<DiskLog>,
    /// How much slower than usual it is, in tenths.
    pub slowness: u64,
    /// The map that the node has kept.
    pub map: KeptMap,
    trees: Folders,
    flaw: Flaw,
    /// What is here of replicas that are gone is left: a bug put in on purpose.
    pub keeps: bool,
    /// What the process lacks: the system's number for that.
    shortage: Option<i32>,
    /// An fsync has failed, or will.
    has_failed: bool,
}

impl Disk {
    /// Puts a bug in.
    pub fn put_in(&mut self, bug: Bug) {
        match bug {
            Bug::SkipFsync => self.log.skips_fsync.store(true, Ordering::Relaxed),
            Bug::ForgetVote => self.log.forgets_votes.store(true, Ordering::Relaxed),
            Bug::LoseWrite => self.flaw = Flaw::LosesWrites,
            Bug::ForgetLast => self.flaw = Flaw::ForgetsLast,
            Bug::KeepGivenUp => self.flaw = Flaw::AppliesAgain,
            Bug::KeepFiles => self.keeps = true,
            _ => {}
        }
    }

    /// The tree of a shard.
    pub fn open_tree(&mut self, shard: ShardId) -> storage::Result<Arc<dyn Engine>> {
        Ok(Arc::new(Tree::open(&self.trees, shard, self.flaw)?))
    }

    /// Removes the files of a shard's tree.
    pub fn forget_tree(&mut self, shard: ShardId) {
        self.trees.remove(shard);
    }

    /// The shards whose trees have files here.
    #[must_use]
    pub fn trees(&self) -> Vec<ShardId> {
        self.trees.shards()
    }

    /// Damages the files of a shard's tree; false if there is nothing in them.
    pub fn damage(&mut self, shard: ShardId) -> bool {
        self.trees.shards().contains(&shard) && self.trees.of(shard).lock().damage()
    }

    /// There is no room, or there is again.
    pub fn set_full(&mut self, full: bool) {
        self.log.inner.set_full(full);
        self.set_medium();
    }

    /// The process lacks descriptors or memory, or is interrupted; or it is not any more. The system's number for that.
    pub fn set_shortage(&mut self, number: Option<i32>) {
        self.shortage = number;
        self.set_medium();
    }

    /// Why nothing can be written now, if it passes by itself and is not over with the next attempt.
    #[must_use]
    pub fn lack(&self) -> Option<storage::Error> {
        let path = || std::path::PathBuf::from("a simulated disk");
        match self.shortage {
            _ if self.is_full() => Some(storage::Error::Full { path: path() }),
            None | Some(EINTR) => None,
            Some(number) => {
                let source = std::io::Error::from_raw_os_error(number);
                Some(storage::Error::Io { path: path(), source })
            }
        }
    }

    /// Whether an fsync has failed since the node was started, or the next will.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether there is no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.log.inner.is_full()
    }

    /// The next fsyncs fail.
    pub fn fail(&mut self) {
        self.has_failed = true;
        self.trees.each(|files| files.set_medium(Medium::Failing));
        self.log.inner.fail_next_sync();
    }

    /// The node has crashed: of what was not fsynced, only the first `kept` log writes are there.
    pub fn crash_keeping(&mut self, kept: usize) {
        self.log.inner.crash_keeping(kept);
        // What a process lacks, another one does not.
        (self.shortage, self.has_failed) = (None, false);
        self.set_medium();
    }

    fn set_medium(&self) {
        let medium = match self.shortage {
            _ if self.is_full() => Medium::Full,
            Some(number) => Medium::Short(number),
            None => Medium::Sound,
        };
        self.trees.each(|files| files.set_medium(medium));
    }
}
