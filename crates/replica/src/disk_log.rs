//! The log that all groups of a node share: one write and one fsync for all of them.

use crate::disk::GuardedFs;
use crate::disk_health::{DiskHealth, Impatient, no_room};
use crate::error::{Error, Result};
use crate::log_store::{GroupState, LogStore};
use crate::log_write::{LogWrite, Op};
use crate::records::{KEY_SYNCED, damaged_record};
use crate::spare_file::SpareFile;
use parking_lot::{Mutex, MutexGuard};
use protobuf::Message;
use raft::eraftpb::{ConfState, Entry, HardState};
use raft_engine::internals::FilePipeLog;
use raft_engine::{Command, Config, Engine, LogBatch, MessageExt, ReadableSize, RecoveryMode};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vocab::{ReplicaId, ShardId, is_shortage};

const KEY_HARD_STATE: &[u8] = b"hard";
const KEY_CONF_STATE: &[u8] = b"conf";
const KEY_CONF_INDEX: &[u8] = b"confat";
const KEY_TRUNCATED: &[u8] = b"trunc";
const KEY_REPLICA: &[u8] = b"replica";

struct Groups;

impl MessageExt for Groups {
    type Entry = Entry;

    fn index(e: &Entry) -> u64 {
        e.index
    }
}

/// How the log is kept.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Bytes of log beyond which shards are flushed so that old files can go.
    pub bytes_max: u64,
    /// Bytes of one log file.
    pub file_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { bytes_max: 1 << 30, file_bytes: 64 << 20 }
    }
}

/// The log of a node.
pub struct Log {
    engine: Engine<GuardedFs, FilePipeLog<GuardedFs>>,
    fs: Arc<GuardedFs>,
    dir: PathBuf,
    file_bytes: u64,
    health: Arc<DiskHealth>,
    /// To be used again: what a batch is encoded into grows to what a turn takes.
    spare_batch: Mutex<Option<LogBatch>>,
}

impl Log {
    /// Opens the log in `dir`, recovering what is there.
    pub fn open(dir: &Path, options: &LogOptions, health: Arc<DiskHealth>) -> Result<Self> {
        let config = Config {
            dir: dir.display().to_string(),
            recovery_mode: RecoveryMode::TolerateTailCorruption,
            recovery_threads: 2,
            recovery_read_block_size: ReadableSize::kb(256),
            batch_compression_threshold: ReadableSize(0),
            target_file_size: ReadableSize(options.file_bytes),
            purge_threshold: ReadableSize(options.bytes_max.max(options.file_bytes)),
            ..Config::default()
        };
        let fs = Arc::new(GuardedFs::new(health.clone()));
        let mended = fs.write_missing_heads(dir).and_then(|()| fs.cut_torn_entries(dir));
        mended.map_err(|e| Error::Io(format!("{}: {e}", dir.display())))?;
        let engine = Engine::open_with_file_system(config, fs.clone()).map_err(|e| match Error::from(e) {
            Error::Corrupt(detail) => Error::Corrupt(format!("{}: {detail}", dir.display())),
            Error::Io(detail) => Error::Io(format!("{}: {detail}", dir.display())),
            other => other,
        })?;
        SpareFile::clear(dir)
            .and_then(|()| sync_names(dir))
            .map_err(|e| Error::Io(format!("{}: {e}", dir.display())))?;
        Ok(Self {
            engine,
            fs,
            dir: dir.to_owned(),
            file_bytes: options.file_bytes,
            health,
            spare_batch: Mutex::default(),
        })
    }

    /// False if there was no room, descriptor or memory, and this thread must not wait for any: nothing was written then.
    fn write_batch(&self, batch: &mut LogBatch, sync: bool) -> Result<bool> {
        self.check()?;
        let call = || self.engine.write(batch, sync);
        // raft-engine panics where an fsync fails; there is no going on from that, but reads still work.
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)) {
            // raft-engine joins the writes of several threads. If the fsync fails, only the one that made it panics;
            // to the others it reports success.
            Ok(Ok(_)) => self.check().map(|()| true),
            Ok(Err(e)) if is_not_written(&e) => Ok(false),
            Ok(Err(e)) => {
                self.health.poison(&format!("writing the log in {}: {e}", self.dir.display()));
                Err(e.into())
            }
            Err(_) => {
                self.health.poison(&format!("writing the log in {} failed", self.dir.display()));
                Err(Error::Poisoned(self.health.reason()))
            }
        }
    }

    /// Whether nothing has failed so far. An fsync that succeeds after one that failed proves nothing: what the
    /// kernel could not write then is gone.
    fn check(&self) -> Result<()> {
        match self.health.state() {
            crate::DiskState::Poisoned => Err(Error::Poisoned(self.health.reason())),
            _ => Ok(()),
        }
    }

    /// Deletes files that no group needs; answers the groups that hold old files and should flush.
    pub fn purge(&self) -> Result<Vec<ShardId>> {
        self.check()?;
        let call = || self.engine.purge_expired_files();
        // It rewrites old entries, and panics where that fails.
        let Ok(groups) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)) else {
            self.health.poison(&format!("rewriting the log in {} failed", self.dir.display()));
            return Err(Error::Poisoned(self.health.reason()));
        };
        let groups = groups?;
        Ok(groups.into_iter().map(|group| ShardId((group - 1) as u32)).collect())
    }

    /// Writes as `write` does, for a caller that acknowledges nothing before the next `sync`: until then it may be in
    /// the memory of this process only. Waits for room, descriptors and memory.
    pub fn stage(&self, write: &LogWrite) -> Result<()> {
        self.append(write, false)
    }

    /// The same for an event loop, which must not wait. False if it would have to: then nothing was written, and a thread
    /// that may wait is to `stage` it.
    pub fn try_stage(&self, write: &LogWrite) -> Result<bool> {
        let _impatient = Impatient::begin();
        self.try_append(write, false)
    }

    /// Whether the next write begins a log file: the full one is fsynced within it, which may take long.
    pub fn begins_file(&self) -> bool {
        self.fs.active_has(self.file_bytes)
    }

    /// Fsyncs as `sync` does, for an event loop, which must not wait for room, descriptors or memory. False if it would have
    /// to: then nothing is lost, and a thread that may wait is to `sync`.
    pub fn try_sync(&self) -> Result<bool> {
        self.check()?;
        let _impatient = Impatient::begin();
        match self.fs.sync_active() {
            Ok(()) => self.check().map(|()| true),
            Err(e) if no_room(&e) || is_shortage(&e) => self.check().map(|()| false),
            Err(e) => Err(self.failed(&e)),
        }
    }

    /// What a write or fsync of a file that failed means for the caller.
    fn failed(&self, error: &std::io::Error) -> Error {
        match self.check() {
            Err(poisoned) => poisoned,
            Ok(()) => Error::Io(format!("{}: {error}", self.dir.display())),
        }
    }

    /// Brings what was staged into the file, as an event loop: it outlives the process then. False if that would have to
    /// wait: then the next fsync makes it.
    pub fn try_write_staged(&self) -> Result<bool> {
        let _impatient = Impatient::begin();
        let written = self.fs.write_staged().is_ok();
        self.check().map(|()| written)
    }

    fn append(&self, write: &LogWrite, sync: bool) -> Result<()> {
        // A write that was joined to one of an event loop may come back; this thread waits within the next.
        while !self.try_append(write, sync)? {
            if self.health.gives_up() {
                return Err(Error::Io(self.health.reason()));
            }
            std::thread::sleep(REPEAT_PAUSE);
        }
        Ok(())
    }

    fn try_append(&self, write: &LogWrite, sync: bool) -> Result<bool> {
        let mut batch = self.spare_batch().take().unwrap_or_default();
        if let Some((shard, _)) = write.ops().first() {
            // Before what may end the group, so that it ends with it.
            self.add_mark(&mut batch, region(*shard))?;
        }
        for (shard, op) in write.ops() {
            add(&mut batch, *shard, op)?;
        }
        let written = self.write_batch(&mut batch, sync)?;
        if written {
            // Only one that was written: raft-engine has emptied it.
            *self.spare_batch() = Some(batch);
        }
        Ok(written)
    }

    /// Adds up to where the log is fsynced: what a later start finds damaged before that is not taken for a torn write.
    fn add_mark(&self, batch: &mut LogBatch, group: u64) -> Result<()> {
        if let Some(mark) = self.fs.synced() {
            batch.put(group, KEY_SYNCED.to_vec(), mark.encode())?;
        }
        Ok(())
    }

    fn spare_batch(&self) -> MutexGuard<'_, Option<LogBatch>> {
        self.spare_batch.lock()
    }

    /// From now on `begin_sync` may begin fsyncs; an event of this descriptor says that one is over. It is open as long as
    /// the log is.
    ///
    /// # Errors
    /// The kernel has no io_uring, or does not let this process have one.
    pub fn open_ring(&self) -> std::io::Result<RawFd> {
        self.fs.open_ring()
    }

    /// Begins an fsync of all that was staged, which no thread waits for; one at a time. False if there can be none now:
    /// then `sync` makes one.
    pub fn begin_sync(&self) -> bool {
        self.health.state() == crate::DiskState::Healthy && self.fs.begin_sync()
    }

    /// What came of the fsync that was begun, if it is over, and what it took; told once. `Ok(false)`: all is as if it had
    /// not been begun. `waits`: where another thread waits for it, this one waits too; else it is told later.
    pub fn ended_sync(&self, waits: bool) -> Option<(Result<bool>, Duration)> {
        let ended = self.fs.ended_sync(waits)?;
        Some((self.check().map(|()| ended.is_made), ended.took))
    }

    /// Makes the next log file ahead, if that is worth it; takes as long as it takes to write one, unless `go_on` says no.
    /// Without it writers wait for a piece of the file now and then. And frees the page cache of what writes past it will go over.
    pub fn prepare(&self, go_on: impl FnMut() -> bool) -> Result<()> {
        self.check()?;
        self.fs
            .prepare(&self.dir, self.file_bytes, go_on)
            .map_err(|e| Error::Io(format!("{}: {e}", self.dir.display())))
    }

    /// Bytes of log files.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.engine.get_used_size() as u64
    }

    /// What is known of the device.
    #[must_use]
    pub fn health(&self) -> &Arc<DiskHealth> {
        &self.health
    }
}

impl Drop for Log {
    /// Ends with a record whose mark covers all before it: no write comes that would tell them from torn ones.
    fn drop(&mut self) {
        let group = self.engine.raft_groups().into_iter().next();
        let (Some(group), crate::DiskState::Healthy) = (group, self.health.state()) else { return };
        let _impatient = Impatient::begin();
        let mut batch = LogBatch::default();
        let synced = self.fs.sync_active().map_err(|e| self.failed(&e));
        let written = synced.and_then(|()| self.add_mark(&mut batch, group));
        if let Err(e) = written.and_then(|()| self.write_batch(&mut batch, false)) {
            log::warn!("the log ends without a last mark: {e}");
        }
    }
}

impl LogStore for Log {
    fn write(&self, write: LogWrite, sync: bool) -> Result<()> {
        self.append(&write, sync)?;
        // Also without fsync it has to outlive this process.
        self.fs.write_staged().map_err(|e| self.failed(&e))
    }

    fn sync(&self) -> Result<()> {
        self.check()?;
        self.fs.sync_active().map_err(|e| self.failed(&e))?;
        self.check()
    }

    fn state(&self, shard: ShardId) -> Result<Option<GroupState>> {
        let group = region(shard);
        let (first, last) = (self.engine.first_index(group), self.engine.last_index(group));
        decode_state(shard, |key| self.engine.get(group, key), first, last).map_err(|e| match e {
            Error::Corrupt(detail) => Error::Corrupt(format!("{}: {detail}", self.dir.display())),
            other => other,
        })
    }

    fn fetch(&self, shard: ShardId, low: u64, high: u64, bytes_max: u64) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let bytes_max = usize::try_from(bytes_max).ok();
        self.engine.fetch_entries_to::<Groups>(region(shard), low, high, bytes_max, &mut entries).map_err(|e| {
            if let raft_engine::Error::Io(e) = &e {
                return Error::Io(format!("{}: entries {low}..{high} of shard {shard}: {e}", self.dir.display()));
            }
            let place = match damaged_record(&self.dir) {
                Some((file, at)) => format!("{}, the record at byte {at}", file.display()),
                None => self.dir.display().to_string(),
            };
            Error::Corrupt(format!("{place}: entries {low}..{high} of shard {shard}: {e}"))
        })?;
        Ok(entries)
    }

    fn groups(&self) -> Vec<ShardId> {
        let mut groups: Vec<_> = self.engine.raft_groups().into_iter().map(|g| ShardId((g - 1) as u32)).collect();
        groups.sort_unstable();
        groups
    }
}

/// Whether nothing was written for want of room, descriptors or memory: raft-engine has taken back what it began.
fn is_not_written(error: &raft_engine::Error) -> bool {
    match error {
        raft_engine::Error::Io(e) => no_room(e) || is_shortage(e),
        // It found no room, began another file, and found none there.
        raft_engine::Error::TryAgain(_) => true,
        _ => false,
    }
}

/// Between two tries of a write that was not made.
const REPEAT_PAUSE: Duration = Duration::from_millis(50);

/// Adds an operation to raft-engine's own batch: here it is encoded.
fn add(batch: &mut LogBatch, shard: ShardId, op: &Op) -> Result<()> {
    let group = region(shard);
    match op {
        Op::Entries(entries) => batch.add_entries::<Groups>(group, entries)?,
        Op::HardState(state) => batch.put_message(group, KEY_HARD_STATE.to_vec(), state)?,
        Op::Members { conf_state, index } => {
            batch.put_message(group, KEY_CONF_STATE.to_vec(), &**conf_state)?;
            batch.put(group, KEY_CONF_INDEX.to_vec(), index.to_le_bytes().to_vec())?;
        }
        Op::Truncate { index, term } => {
            batch.put(group, KEY_TRUNCATED.to_vec(), pair(*index, *term))?;
            batch.add_command(group, Command::Compact { index: index + 1 });
        }
        Op::Install(install) => {
            batch.add_command(group, Command::Clean);
            let (index, term) = (install.index, install.term);
            batch.put(group, KEY_REPLICA.to_vec(), install.replica.0.to_le_bytes().to_vec())?;
            batch.put_message(group, KEY_CONF_STATE.to_vec(), &install.conf_state)?;
            batch.put(group, KEY_CONF_INDEX.to_vec(), index.to_le_bytes().to_vec())?;
            batch.put_message(group, KEY_HARD_STATE.to_vec(), &install.hard_state)?;
            batch.put(group, KEY_TRUNCATED.to_vec(), pair(index, term))?;
        }
        Op::Remove => batch.add_command(group, Command::Clean),
    }
    Ok(())
}

fn pair(a: u64, b: u64) -> Vec<u8> {
    let mut bytes = a.to_le_bytes().to_vec();
    bytes.extend_from_slice(&b.to_le_bytes());
    bytes
}

/// What a group's values and bounds say; `None` for a group that has no members.
pub(crate) fn decode_state(
    shard: ShardId,
    get: impl Fn(&[u8]) -> Option<Vec<u8>>,
    first: Option<u64>,
    last: Option<u64>,
) -> Result<Option<GroupState>> {
    let Some(conf_state) = get(KEY_CONF_STATE) else { return Ok(None) };
    let conf_state = message::<ConfState>(shard, "members", &conf_state)?;
    let hard_state = get(KEY_HARD_STATE).map(|bytes| message::<HardState>(shard, "hard state", &bytes)).transpose()?;
    let truncated = match get(KEY_TRUNCATED) {
        Some(bytes) if bytes.len() == 16 => (number(&bytes[..8]), number(&bytes[8..])),
        Some(_) => return Err(Error::Corrupt(format!("the truncation mark of shard {shard}"))),
        None => (0, 0),
    };
    let bounds = (first.unwrap_or(truncated.0 + 1), last.unwrap_or(truncated.0));
    let conf_index = get(KEY_CONF_INDEX).map_or(0, |bytes| number(&bytes));
    let replica = match (get(KEY_REPLICA), &conf_state.voters[..]) {
        (Some(bytes), _) => number(&bytes),
        // Logs of groups of one that were made before replicas had ids of their own.
        (None, [only]) => *only,
        (None, _) => return Err(Error::Corrupt(format!("the log does not say which replica of shard {shard} it is"))),
    };
    let hard_state = hard_state.unwrap_or_default();
    let replica = ReplicaId(replica);
    Ok(Some(GroupState { replica, hard_state, conf_state, conf_index, truncated, bounds }))
}

fn message<M: Message + Default>(shard: ShardId, what: &str, bytes: &[u8]) -> Result<M> {
    let mut message = M::default();
    let merged = message.merge_from_bytes(bytes);
    merged.map_err(|e| Error::Corrupt(format!("the {what} of shard {shard}: {e}")))?;
    Ok(message)
}

/// raft-engine keeps group 0 for itself.
pub(crate) fn region(shard: ShardId) -> u64 {
    u64::from(shard.0) + 1
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// The folder and its first files may be new: without their names an fsync of what is in them is worth nothing after a loss of power.
/// raft-engine does so for the files that it begins later.
fn sync_names(dir: &Path) -> std::io::Result<()> {
    let above = dir.parent().filter(|above| !above.as_os_str().is_empty());
    [Some(dir), above].into_iter().flatten().try_for_each(|folder| std::fs::File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn entries(from: u64, count: u64) -> LogWrite {
        let entry = |index| Entry { index, term: 1, data: vec![7; 1000].into(), ..Entry::default() };
        let mut write = LogWrite::default();
        write.entries(ShardId(0), (from..from + count).map(entry).collect());
        write
    }

    #[test]
    fn a_sync_reaches_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let health = Arc::new(DiskHealth::default());
        let options = LogOptions { file_bytes: 16 << 10, ..LogOptions::default() };
        let mut next = 1;
        for _ in 0..2 {
            let log = Log::open(dir.path(), &options, health.clone()).unwrap();
            let fsyncs = |call: &dyn Fn()| {
                let before = health.log_fsyncs();
                call();
                health.log_fsyncs() - before
            };
            log.write(entries(next, 1), false).unwrap();
            assert_eq!(fsyncs(&|| log.write(entries(next + 1, 1), false).unwrap()), 0);
            assert_eq!(fsyncs(&|| log.sync().unwrap()), 1, "what was written without");
            assert_eq!(fsyncs(&|| log.write(entries(next + 2, 1), true).unwrap()), 1);
            assert!(fsyncs(&|| log.write(entries(next + 3, 40), false).unwrap()) <= 1);
            assert_eq!(fsyncs(&|| log.sync().unwrap()), 1, "after other files were begun");
            next += 43;
        }
    }

    #[test]
    fn it_is_known_which_write_begins_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let options = LogOptions { file_bytes: 16 << 10, ..LogOptions::default() };
        let files = || {
            let names = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path());
            names.filter(|name| name.extension().is_some_and(|kind| kind == "raftlog")).count()
        };
        let mut next = 1;
        for _ in 0..3 {
            let log = Log::open(dir.path(), &options, Arc::default()).unwrap();
            let mut begun = 0;
            for index in next..next + 50 {
                let (before, begins) = (files(), log.begins_file());
                log.write(entries(index, 1), false).unwrap();
                assert_eq!(files() > before, begins, "at {index}");
                begun += usize::from(begins);
            }
            assert!(begun >= 2, "{begun}");
            next += 50;
        }
    }

    /// As many a kill of the process finds it: unacknowledged writes may be missing, all else is in the file.
    #[test]
    fn what_is_staged_is_read_at_once_and_is_in_the_file_after_a_write_or_a_sync() {
        const BYTES: usize = 1000;
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), &LogOptions::default(), Arc::default()).unwrap();
        let entry = |index: u64| {
            let data = vec![index as u8; BYTES].into();
            let mut write = LogWrite::default();
            write.entries(ShardId(0), vec![Entry { index, term: 1, data, ..Entry::default() }]);
            write
        };
        let in_file = |index: u64| {
            let bytes = std::fs::read(dir.path().join("0000000000000001.raftlog")).unwrap();
            bytes.windows(BYTES).any(|window| window == vec![index as u8; BYTES])
        };
        for index in 1..60 {
            log.stage(&entry(index)).unwrap();
            assert_eq!(log.fetch(ShardId(0), index, index + 1, 1).unwrap()[0].data[..], [index as u8; BYTES]);
            log.sync().unwrap();
        }
        assert!(in_file(59));
        log.stage(&entry(60)).unwrap();
        // Where the file system knows O_DIRECT.
        assert!(!log.fs.stages() || !in_file(60), "it is not used");
        log.write(entry(61), false).unwrap();
        assert!(in_file(60) && in_file(61));
    }

    #[test]
    fn nothing_is_written_once_an_fsync_has_failed() {
        let dir = tempfile::tempdir().unwrap();
        let health = Arc::new(DiskHealth::default());
        let log = Log::open(dir.path(), &LogOptions::default(), health.clone()).unwrap();
        log.write(entries(1, 1), true).unwrap();
        health.poison("an fsync of another thread");
        assert!(matches!(log.write(entries(2, 1), true), Err(Error::Poisoned(_))));
        assert!(matches!(log.sync(), Err(Error::Poisoned(_))));
        assert_eq!(log.fetch(ShardId(0), 1, 2, 1).unwrap().len(), 1, "reads go on");
    }

    #[test]
    fn groups_of_one_that_were_made_before_replicas_had_ids() {
        let members = |voters: &[u64]| {
            let state = ConfState { voters: voters.to_vec(), ..ConfState::default() };
            let bytes = state.write_to_bytes().unwrap();
            decode_state(ShardId(1), |key| (key == KEY_CONF_STATE).then(|| bytes.clone()), None, None)
        };
        assert_eq!(members(&[0xABCD]).unwrap().unwrap().replica, ReplicaId(0xABCD));
        assert!(matches!(members(&[1, 2, 3]), Err(Error::Corrupt(_))));
    }
}
