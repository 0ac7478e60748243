//! A shard's map in memory. The log is on disk; a snapshot file now and then lets it be cut.
//!
//! Threads: as in the engine on disk. One lock guards the map: an entry is applied under it as a whole, so that a
//! reader sees whole entries only; readers share it.

use super::file::{self, Writer};
use super::fork::write_fork;
use super::ingest::{self, MemoryIngest, MemoryIngested};
use super::snapshot::MemorySnapshot;
use super::state::{Generation, MemoryState};
use crate::batch::accepted;
use crate::files::create_folder;
use crate::health::Health;
use crate::throttle::Throttle;
use crate::{
    Engine, EngineStats, Error, Ingest, Ingested, Keep, NotInstalled, Result, SharedResources, Slice, Snapshot,
    WriteBatch,
};
use arc_swap::ArcSwapOption;
use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// Rows that a purge looks at while it holds the lock.
const TURN_ROWS: usize = 512;
/// Bytes of a snapshot file between two looks at the rate limit.
const STEP_BYTES: u64 = 1024 * 1024;

/// See `Engine`.
pub struct MemoryEngine {
    folder: PathBuf,
    shared: Arc<SharedResources>,
    throttle: Arc<Throttle>,
    snapshot_bytes_min: u64,
    /// Which rows are wanted; all if it does not say.
    keep: ArcSwapOption<Keep>,
    /// Up to where the rows have been looked at for those that are not wanted; `None`: all have.
    purged: Mutex<Option<Slice>>,
    current: RwLock<Arc<Generation>>,
    applied: AtomicU64,
    sealed: AtomicU64,
    flushed: AtomicU64,
    /// The bytes of its files: kept, because they are asked for much more often than they change.
    disk_bytes: AtomicU64,
    /// Bytes applied since the last seal.
    bytes_since: AtomicU64,
    /// What the next flush writes.
    pending: Mutex<Option<Seal>>,
    has_pending: AtomicBool,
    /// One flush at a time.
    flushing: Mutex<()>,
    /// Held while a file becomes the shard's.
    publishing: Mutex<()>,
    /// What a clear or an install replaced: dropped where that may take its time.
    cleared: Mutex<Vec<Arc<Generation>>>,
    health: Arc<Health>,
}

struct Seal {
    snapshot: MemorySnapshot,
    meta: BTreeMap<Slice, Slice>,
}

impl MemoryEngine {
    /// Opens the map of `folder` from its newest snapshot file that is whole, or makes an empty one.
    pub fn open(folder: &Path, shared: &Arc<SharedResources>) -> Result<Self> {
        create_folder(folder)?;
        ingest::sweep(folder)?;
        let (index, state) = load(folder)?.map_or_else(Default::default, |loaded| (loaded.index, loaded.state));
        Ok(Self {
            folder: folder.to_path_buf(),
            shared: shared.clone(),
            throttle: shared.throttle.clone(),
            snapshot_bytes_min: shared.options.snapshot_bytes_min,
            keep: ArcSwapOption::empty(),
            purged: Mutex::new(None),
            current: RwLock::new(Generation::new(state)),
            applied: AtomicU64::new(index),
            sealed: AtomicU64::new(index),
            flushed: AtomicU64::new(index),
            disk_bytes: AtomicU64::new(file::bytes_in(folder)),
            bytes_since: AtomicU64::new(0),
            pending: Mutex::new(None),
            has_pending: AtomicBool::new(false),
            flushing: Mutex::new(()),
            publishing: Mutex::new(()),
            cleared: Mutex::new(Vec::new()),
            health: Arc::default(),
        })
    }

    fn generation(&self) -> Arc<Generation> {
        self.current.read().expect("nothing panics while it is held").clone()
    }

    /// Replaces what the next flush writes. Dropping the old seal takes the map's lock: not under ours.
    fn set_pending(&self, seal: Option<Seal>) {
        let mut pending = self.pending.lock().expect("nothing panics while it is held");
        self.has_pending.store(seal.is_some(), Ordering::Release);
        let old = std::mem::replace(&mut *pending, seal);
        drop(pending);
        drop(old);
    }

    /// Puts the map of `index` in the place of the one in use: `publish` makes its file the shard's, and answers it.
    fn replace(&self, index: u64, publish: impl FnOnce() -> Result<MemoryState>) -> Result<()> {
        self.health.check()?;
        let applied = self.applied.load(Ordering::Relaxed);
        assert!(index >= applied, "a map of {index} installed, or cleared to, after {applied}");
        let _publishing = self.publishing.lock().expect("a panic while publishing is not survived");
        let published = publish();
        self.disk_bytes.store(file::bytes_in(&self.folder), Ordering::Relaxed);
        let state = published.map_err(|error| self.health.judge(error))?;
        let mut current = self.current.write().expect("nothing panics while it is held");
        let old = std::mem::replace(&mut *current, Generation::new(state));
        self.applied.store(index, Ordering::SeqCst);
        drop(current);
        self.cleared.lock().expect("nothing panics while it is held").push(old);
        self.sealed.store(index, Ordering::Relaxed);
        self.flushed.store(index, Ordering::Release);
        self.bytes_since.store(0, Ordering::Relaxed);
        self.set_pending(None);
        Ok(())
    }

    /// Removes some rows that a fork has taken over; true if there may be more.
    fn purge_step(&self) -> bool {
        let mut purged = self.purged.lock().expect("nothing panics while it is held");
        let (Some(from), Some(keep)) = (purged.take(), self.keep.load_full()) else { return false };
        let generation = self.generation();
        *purged = generation.write().purge(Bound::Excluded(from), TURN_ROWS, &keep);
        purged.is_some()
    }

    /// Writes a snapshot file, and makes it the shard's unless the map was replaced meanwhile.
    fn write_file(&self, seal: &Seal) -> Result<()> {
        let index = seal.snapshot.index();
        let mut writer = Writer::create(&self.folder, index)?;
        for (key, value) in &seal.meta {
            writer.meta(key, value)?;
        }
        let mut bytes = 0;
        for (key, value) in seal.snapshot.rows() {
            writer.row(&key, &value)?;
            bytes += (key.len() + value.len()) as u64;
            if bytes >= STEP_BYTES {
                if !self.throttle.take(bytes) {
                    let source = std::io::ErrorKind::Interrupted.into();
                    return Err(Error::Io { path: self.folder.clone(), source });
                }
                bytes = 0;
            }
        }
        let finished = writer.finish()?;
        let _publishing = self.publishing.lock().expect("a panic while publishing is not survived");
        if seal.snapshot.is_of(&self.generation()) {
            let published = finished.publish();
            self.disk_bytes.store(file::bytes_in(&self.folder), Ordering::Relaxed);
            published?;
            self.flushed.store(index, Ordering::Release);
        }
        Ok(())
    }
}

/// What a snapshot file held.
pub(super) struct Loaded {
    pub(super) path: PathBuf,
    pub(super) index: u64,
    pub(super) state: MemoryState,
}

/// The newest state that is whole; `None` if there is no file at all. An older one will do: the caller checks that the log begins no later than
/// after its index.
pub(super) fn load(folder: &Path) -> Result<Option<Loaded>> {
    let mut first_error = None;
    for (_, path) in file::list(folder)? {
        match file::read(&path) {
            Ok(content) => {
                let state = MemoryState::new(content.rows, content.meta);
                return Ok(Some(Loaded { path, index: content.index, state }));
            }
            Err(error) => {
                log::error!("{error}");
                first_error.get_or_insert(error);
            }
        }
    }
    first_error.map_or(Ok(None), Err)
}

impl Engine for MemoryEngine {
    fn apply(&self, index: u64, batch: WriteBatch) {
        let before = self.applied.load(Ordering::Relaxed);
        assert!(index > before, "entry {index} applied after {before}");
        let generation = self.generation();
        let mut state = generation.write();
        let bytes = state.apply(accepted(index, batch));
        // Before the lock is released: a snapshot that is opened next is of this index.
        self.applied.store(index, Ordering::SeqCst);
        drop(state);
        self.bytes_since.fetch_add(bytes, Ordering::Relaxed);
    }

    fn applied_index(&self) -> u64 {
        self.applied.load(Ordering::SeqCst)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        Ok(self.current.read().expect("nothing panics while it is held").read().get(key))
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        // The guard keeps a replacement out, so that map and index belong together.
        let current = self.current.read().expect("nothing panics while it is held");
        let mut state = current.write();
        let index = self.applied.load(Ordering::SeqCst);
        let id = state.open_snapshot();
        drop(state);
        Box::new(MemorySnapshot::open(current.clone(), id, index))
    }

    fn flushed_index(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    fn flush_is_partial(&self) -> bool {
        false
    }

    fn wants_flush(&self) -> bool {
        let bytes = self.bytes_since.load(Ordering::Relaxed);
        bytes >= self.snapshot_bytes_min && bytes >= self.generation().read().bytes()
    }

    fn seal(&self, meta: Vec<(Slice, Slice)>) {
        let index = self.applied.load(Ordering::Relaxed);
        if self.sealed.load(Ordering::Relaxed) == index {
            return;
        }
        let generation = self.generation();
        let mut state = generation.write();
        state.meta.extend(meta);
        let meta = state.meta.clone();
        let id = state.open_snapshot();
        drop(state);
        self.set_pending(Some(Seal { snapshot: MemorySnapshot::open(generation, id, index), meta }));
        self.sealed.store(index, Ordering::Relaxed);
        self.bytes_since.store(0, Ordering::Relaxed);
    }

    fn needs_flush(&self) -> bool {
        self.has_pending.load(Ordering::Acquire)
    }

    fn flush(&self) -> Result<()> {
        self.flush_to(u64::MAX)
    }

    fn sealed_index(&self) -> u64 {
        let pending = self.pending.lock().expect("nothing panics while it is held");
        pending.as_ref().map_or(0, |seal| seal.snapshot.index())
    }

    fn flush_to(&self, index: u64) -> Result<()> {
        self.health.check()?;
        let _one = self.flushing.lock().expect("a panic while flushing is not survived");
        let mut pending = self.pending.lock().expect("nothing panics while it is held");
        // A later seal has taken the place of the one that was asked for: it waits for the next call.
        let Some(seal) = pending.take_if(|seal| seal.snapshot.index() <= index) else { return Ok(()) };
        drop(pending);
        let result = self.write_file(&seal);
        if result.is_err() {
            let _ = fs::remove_file(self.folder.join(file::TEMPORARY));
        }
        let mut pending = self.pending.lock().expect("nothing panics while it is held");
        match (&result, &*pending) {
            // To be tried again, unless there is a newer one.
            (Err(_), None) if seal.snapshot.is_of(&self.generation()) => *pending = Some(seal),
            (Ok(()), None) => self.has_pending.store(false, Ordering::Release),
            _ => {}
        }
        drop(pending);
        result.map_err(|error| self.health.judge(error))
    }

    fn meta(&self, key: &[u8]) -> Result<Option<Slice>> {
        Ok(self.generation().read().meta.get(key).cloned())
    }

    fn compact(&self) -> Result<bool> {
        let cleared = std::mem::take(&mut *self.cleared.lock().expect("nothing panics while it is held"));
        drop(cleared);
        Ok(false)
    }

    fn debt(&self) -> f64 {
        0.0
    }

    fn clear(&self, index: u64, meta: Vec<(Slice, Slice)>, rows: Vec<(Slice, Slice)>) -> Result<()> {
        let meta: BTreeMap<Slice, Slice> = meta.into_iter().collect();
        let rows: BTreeMap<Slice, Slice> = rows.into_iter().collect();
        let state = MemoryState::new(rows.clone().into_iter().collect(), meta.clone());
        self.replace(index, || file::write_beginning(&self.folder, index, &meta, &rows).map(|()| state))
    }

    fn ingest(&self) -> Result<Box<dyn Ingest>> {
        Ok(Box::new(MemoryIngest::begin(&self.folder, &self.throttle, &self.health)?))
    }

    fn install(&self, ingested: Box<dyn Ingested>) -> std::result::Result<(), NotInstalled> {
        let (index, mut rest) = (ingested.index(), None::<Box<dyn Ingested>>);
        let publish = || {
            MemoryIngested::of(ingested, &self.folder).publish().map_err(|(error, ingested)| {
                rest = Some(ingested);
                error
            })
        };
        self.replace(index, publish).map_err(|error| match rest {
            Some(rows) => NotInstalled::of(error, rows),
            None => NotInstalled { error, rows: None },
        })
    }

    fn fork(&self, folder: &Path, index: u64, meta: Vec<(Slice, Slice)>, keep: &Keep) -> Result<Arc<dyn Engine>> {
        self.health.check()?;
        let applied = self.applied.load(Ordering::SeqCst);
        assert_eq!(self.sealed.load(Ordering::SeqCst), applied, "a map is forked that is not sealed");
        assert_eq!(index, applied + 1, "a map is forked as of another entry than the next");
        self.flush()?;
        let mut all = self.generation().read().meta.clone();
        all.extend(meta);
        write_fork(folder, index, &all, &*self.snapshot(), keep)?;
        Ok(Arc::new(Self::open(folder, &self.shared)?))
    }

    fn keep_only(&self, keep: Keep) {
        self.keep.store(Some(Arc::new(keep)));
        *self.purged.lock().expect("nothing panics while it is held") = Some(Slice::empty());
    }

    fn purge(&self) -> Result<bool> {
        let is_unwanted = self.purge_step();
        Ok(self.generation().write().collect(TURN_ROWS) | is_unwanted)
    }

    fn stats(&self) -> EngineStats {
        let generation = self.generation();
        let state = generation.read();
        EngineStats {
            disk_bytes: self.disk_bytes.load(Ordering::Relaxed),
            memtable_bytes: state.bytes(),
            entries_approx: state.len() as u64,
            is_halved: self.purged.lock().expect("nothing panics while it is held").is_some(),
            ..EngineStats::default()
        }
    }

    fn verify(&self) -> Result<()> {
        let _publishing = self.publishing.lock().expect("a panic while publishing is not survived");
        file::list(&self.folder)?.iter().try_for_each(|(_, path)| file::read(path).map(drop))
    }
}
