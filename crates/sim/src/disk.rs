//! A node's disk: the log and the trees' files. It survives the node, and has accidents.

use crate::bug::Bug;
use crate::kept_map::KeptMap;
use crate::tree::{Flaw, Folders, Medium, Tree};
use replica::{Entry, GroupState, LogStore, LogWrite, MemoryLog, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::Engine;
use vocab::ShardId;

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
}

impl Disk {
    /// Puts a bug in.
    pub fn put_in(&mut self, bug: Bug) {
        match bug {
            Bug::SkipFsync => self.log.skips_fsync.store(true, Ordering::Relaxed),
            Bug::ForgetVote => self.log.forgets_votes.store(true, Ordering::Relaxed),
            Bug::LoseWrite => self.flaw = Flaw::LosesWrites,
            Bug::ForgetLast => self.flaw = Flaw::ForgetsLast,
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
        self.trees.shards().contains(&shard) && self.trees.of(shard).lock().is_ok_and(|mut files| files.damage())
    }

    /// There is no room, or there is again.
    pub fn set_full(&self, full: bool) {
        self.set_medium(if full { Medium::Full } else { Medium::Sound });
        self.log.inner.set_full(full);
    }

    /// Whether there is no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.log.inner.is_full()
    }

    /// The next fsyncs fail.
    pub fn fail(&self) {
        self.set_medium(Medium::Failing);
        self.log.inner.fail_next_sync();
    }

    /// The node has crashed: of what was not fsynced, only the first `kept` log writes are there.
    pub fn crash_keeping(&self, kept: usize) {
        self.log.inner.crash_keeping(kept);
        if !self.log.inner.is_full() {
            self.set_medium(Medium::Sound);
        }
    }

    fn set_medium(&self, medium: Medium) {
        self.trees.each(|files| files.set_medium(medium));
    }
}
