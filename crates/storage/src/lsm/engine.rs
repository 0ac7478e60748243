//! A shard's map on disk.
//!
//! Threads: one applies (and seals and clears); any read; one flushes and one compacts at a time. Readers take no
//! lock: they load the published view, then the applied index (see `view`). Publishing is serialised by `publishing`.
//! A flush may compact as well, so `flushing` is taken before `compacting`, and a flush never waits for the latter.

use super::collector::{self, Dropping, Plan};
use super::fault::translate;
use super::fork::fork;
use super::garbage::Garbage;
use super::generation::{self, Generation, L0_RUNS_ASKED, L0_RUNS_FULL, L0_TABLES, L0_TABLES_UNPURGED};
use super::ingest::{LsmIngest, LsmIngested, stamp};
use super::manifest::{self, Manifest};
use super::memtable::{self, Memtable, NEWEST, scan};
use super::removed::Removed;
use super::snapshot::LsmSnapshot;
use super::sweep::{Views, sweep};
use super::tree_files::TreeFiles;
use super::try_get::TryGet;
use super::unwanted;
use super::view::{
    APPLIED_KEY, Sealed, View, applied_record, drop_key, drop_record, dropped_in, meta_key, newest_of, read_applied,
    read_dropped,
};
use crate::batch::{TREE_KEY_BYTES_MAX, accepted};
use crate::dropped::prefix_end;
use crate::envelope::Packing;
use crate::files::create_folder;
use crate::health::Health;
use crate::{
    Engine, EngineStats, Error, HeldBlock, Ingest, Ingested, Keep, Lines, Look, NotInstalled, Result, SharedResources,
    Short, Slice, Snapshot, Step, WriteBatch,
};
use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use lsm_tree::compaction::PullDown;
use lsm_tree::{AbstractTree, InternalValue, ValueType};
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Runs in the first level at which writers are held up.
const L0_RUNS_MAX: f64 = 24.0;
const _: () = assert!(L0_RUNS_ASKED as f64 * 2.0 <= L0_RUNS_MAX);
/// How long a background thread waits for what the process lacks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How often it is tried to put a manifest back for which there are no descriptors.
const RESTORE_TRIES_MAX: usize = 500;
/// For how long compaction makes way for a fork that is expected.
const FORK_PATIENCE: Duration = Duration::from_secs(10);

/// See `Engine`.
pub struct LsmEngine {
    pub(super) folder: PathBuf,
    pub(super) shared: Arc<SharedResources>,
    pub(super) packing: Packing,
    pub(super) view: ArcSwap<View>,
    views: Views,
    /// Which rows are wanted; all if it does not say.
    pub(super) keep: ArcSwapOption<Keep>,
    pub(super) applied: AtomicU64,
    /// The applied index of the last seal; only the applying thread changes it.
    pub(super) sealed: AtomicU64,
    pub(super) publishing: Mutex<()>,
    /// Held, before `publishing`, by who publishes files that it has looked up: that may take as long as an fsync.
    looking: Mutex<()>,
    /// What a clear or an install replaced: dropped, with its files, where that may take its time.
    pub(super) cleared: Mutex<Vec<Arc<View>>>,
    pub(super) health: Arc<Health>,
    /// When a fork was last said to be near.
    fork_expected: Mutex<Option<Instant>>,
}

impl LsmEngine {
    /// Opens the map in `folder`, or makes an empty one there.
    pub fn open(folder: &Path, shared: &Arc<SharedResources>) -> Result<Self> {
        create_folder(folder)?;
        let number = match generation::read_pointer(folder)? {
            Some(number) => number,
            None => {
                generation::check_unused(folder)?;
                generation::remove_others(folder, 0)?;
                let first = Generation::create(folder, 0, shared)?;
                first.spare();
                generation::write_pointer(folder, &first)?;
                first.number
            }
        };
        generation::remove_others(folder, number)?;
        generation::end_fork(folder);
        let generation = Generation::open(folder, number, shared)?;
        let flushed = read_applied(&View::of_files(generation.clone(), 0))?;
        Self::of(folder, generation, flushed, shared)
    }

    /// The map of a tree whose files hold everything up to entry `flushed`.
    pub(super) fn of(
        folder: &Path,
        generation: Arc<Generation>,
        flushed: u64,
        shared: &Arc<SharedResources>,
    ) -> Result<Self> {
        let dropped = read_dropped(&View::of_files(generation.clone(), flushed))?;
        generation.dropped.store(Arc::new(dropped));
        let view = Arc::new(View::of_files(generation.clone(), flushed));
        generation.flushed.store(flushed, Ordering::Release);
        let views = Views::default();
        views.add(&view);
        Ok(Self {
            folder: folder.to_path_buf(),
            shared: shared.clone(),
            packing: Packing::new(shared.options.compression, shared.options.separation_bytes),
            view: ArcSwap::new(view),
            views,
            keep: ArcSwapOption::empty(),
            applied: AtomicU64::new(flushed),
            sealed: AtomicU64::new(flushed),
            publishing: Mutex::new(()),
            looking: Mutex::new(()),
            cleared: Mutex::new(Vec::new()),
            health: Arc::default(),
            fork_expected: Mutex::new(None),
        })
    }

    /// Publishes `view`, and hands back the one that it replaces; `publishing` is held.
    pub(super) fn publish(&self, view: View) -> Arc<View> {
        let view = Arc::new(view);
        self.views.add(&view);
        self.view.swap(view)
    }

    /// After files of `generation` changed: publishes it again, without the `done` oldest sealed memtables, which the
    /// files hold now, and moves its flushed index. A generation that was replaced meanwhile is left alone.
    pub(super) fn refresh(&self, generation: &Arc<Generation>, done: usize) {
        // What is published later is no older.
        let _looking = self.looking.lock().expect("a panic while publishing is not survived");
        let files = Arc::new(TreeFiles::of(generation));
        let _publishing = self.publishing.lock().expect("a panic while publishing is not survived");
        let current = self.view.load();
        if !Arc::ptr_eq(&current.generation, generation) {
            return;
        }
        let (flushed, sealed) = current.sealed.split_at(done);
        generation.note_dropped(dropped_in(flushed));
        let floor = self.applied.load(Ordering::SeqCst);
        let (active, sealed) = (current.active.clone(), sealed.to_vec());
        retire(self.publish(View::new(generation.clone(), files, active, sealed, floor)));
        for one in flushed {
            generation.usage.flushed(one.bytes);
            self.shared.throttle.charge(one.bytes);
            generation.flushed.fetch_max(one.index, Ordering::AcqRel);
        }
    }

    /// Runs something that writes files of `generation`, and deals with its failure.
    pub(super) fn write_files(
        &self,
        generation: &Arc<Generation>,
        write: impl FnOnce() -> lsm_tree::Result<()>,
    ) -> Result<()> {
        sweep(generation, &self.views);
        let result = {
            let _writing = generation.writing.read().expect("a panic while writing is not survived");
            // A panic in there is what damage looks like that no checksum covers; readers need none of its locks.
            catch_unwind(AssertUnwindSafe(write))
        };
        let Ok(result) = result else {
            self.health.poison(format!("{}: lsm-tree panicked", generation.folder.display()));
            return self.health.check();
        };
        let Err(error) = result else {
            generation.litter_told.store(false, Ordering::Relaxed);
            return Ok(());
        };
        let error = translate(&generation.folder, error);
        // What the manifest on disk names is no rubbish, whatever this process knows of it: the next start needs it.
        if manifest_is_ours(generation) || error.is_passing() && restores_manifest(generation) {
            generation.littered.store(true, Ordering::Release);
            sweep(generation, &self.views);
        } else {
            generation.littered.store(false, Ordering::Release);
            let detail = format!("{}: the manifest on disk is not the one in use", generation.folder.display());
            self.health.poison(detail);
        }
        let error = match error {
            Error::Corrupt { path, detail } => match self.verify() {
                Err(found) => generation.damage.note(found),
                // It has passed, or was of files that are no more: the next rewrite may succeed.
                Ok(()) => Error::Corrupt { path, detail },
            },
            other => other,
        };
        Err(self.health.judge(error))
    }

    /// The same for what also reads files of `generation`, whose compaction is held. It does not begin if one of them is
    /// known to be damaged.
    fn rewrite_files(&self, generation: &Arc<Generation>, write: impl FnOnce() -> lsm_tree::Result<()>) -> Result<()> {
        generation.damage.check()?;
        self.write_files(generation, write)
    }

    /// A new tree, empty as of `index` but for `meta` and `rows`, complete and durable.
    fn begun_with(&self, index: u64, meta: Vec<(Slice, Slice)>, rows: Vec<(Slice, Slice)>) -> Result<Arc<Generation>> {
        let current = self.view.load().generation.number;
        let generation = Generation::create(&self.folder, current, &self.shared)?;
        for (key, value) in rows {
            generation.tree().insert(key, self.packing.pack(value), index);
        }
        stamp(&generation, self.packing, index, meta).map_err(|error| translate(&generation.folder, error))?;
        Ok(generation)
    }

    /// Makes `generation`, which is complete and durable as of `index`, the shard's: on disk, then for readers.
    fn replace(&self, generation: Arc<Generation>, index: u64) -> Result<()> {
        self.health.check()?;
        let applied = self.applied.load(Ordering::Relaxed);
        assert!(index >= applied, "a map of {index} installed, or cleared to, after {applied}");
        generation.keep.store(self.keep.load_full());
        self.switch(&generation)?;
        generation.flushed.store(index, Ordering::Release);
        let _publishing = self.publishing.lock().expect("a panic while publishing is not survived");
        // The view first: who pairs it with the index before waits for the next one.
        let old = self.publish(View::of_files(generation, index));
        self.applied.store(index, Ordering::SeqCst);
        self.sealed.store(index, Ordering::Relaxed);
        old.generation.condemn();
        // What is being rewritten of it would be thrown away.
        old.generation.pace.abandoned.store(true, Ordering::Relaxed);
        self.cleared.lock().expect("nothing panics while it is held").push(old);
        Ok(())
    }

    /// Lets the pointer name `generation`. If that fails, the old one stays and the new one goes; if it cannot be told
    /// which one a start would find, both stay and the engine is poisoned.
    fn switch(&self, generation: &Generation) -> Result<()> {
        generation.spare();
        generation::write_pointer(&self.folder, generation).map_err(|error| {
            if error.is_passing() {
                generation.condemn();
                return error;
            }
            match generation::read_pointer(&self.folder) {
                Ok(Some(number)) if number != generation.number => generation.condemn(),
                _ => self.health.poison(format!("{}: the pointer may name another tree", self.folder.display())),
            }
            self.health.judge_write(error)
        })
    }

    /// Rewrites a level of `generation` that holds rows that are to go, slowly; its compaction is held. False if it is to
    /// end, or the device has no room for it.
    fn rewrite(&self, generation: &Arc<Generation>, from: u8, to: u8) -> Result<bool> {
        generation.pace.hurried.store(false, Ordering::Relaxed);
        // What made an earlier one urgent may have passed.
        generation.hurry_if_crowded();
        generation.pace.purging.store(true, Ordering::Relaxed);
        let merged = self.merge(generation, from, to);
        generation.pace.purging.store(false, Ordering::Relaxed);
        merged
    }

    /// Merges a level of `generation` into another one, or into itself; its compaction is held. False if it is to end, or
    /// the device has no room for it.
    fn merge(&self, generation: &Arc<Generation>, from: u8, to: u8) -> Result<bool> {
        let bytes = generation.merge_bytes(from, to);
        let Some(_claim) = self.shared.room.claim(bytes) else {
            if !generation.lack_told.swap(true, Ordering::Relaxed) {
                let folder = generation.folder.display();
                log::warn!("{folder}: {bytes} bytes of room are needed to free more, and are waited for");
            }
            return Ok(false);
        };
        generation.lack_told.store(false, Ordering::Relaxed);
        let result = self.rewrite_files(generation, || {
            generation.tree().compact(Arc::new(PullDown(from, to)), u64::MAX)?;
            Ok(generation.blob_dir.check()?)
        });
        if self.is_ending(generation) {
            return Ok(false);
        }
        result?;
        self.refresh(generation, 0);
        Ok(true)
    }

    /// One step of ordinary compaction of `generation`; its compaction is held. False if there was nothing to do, or it is
    /// to end.
    fn compact_step(&self, generation: &Arc<Generation>) -> Result<bool> {
        let (before, depth) = (generation.table_ids(), levels(generation));
        let result = self.rewrite_files(generation, || {
            generation.tree().compact(generation.strategy(), u64::MAX)?;
            Ok(generation.blob_dir.check()?)
        });
        if self.is_ending(generation) {
            return Ok(false);
        }
        result?;
        if before == generation.table_ids() && depth == levels(generation) {
            return Ok(false);
        }
        self.refresh(generation, 0);
        Ok(true)
    }

    /// Sees to it that the first level of `generation` can take another run; no other flush is under way. Fails with what
    /// passes if the level is full and another thread compacts it.
    fn make_room(&self, generation: &Arc<Generation>) -> Result<()> {
        if !generation.hurry_if_crowded() {
            return Ok(());
        }
        // A compaction that is under way hurries from now on; it is not waited for, since it may still take long.
        let compacted =
            if let Ok(_one) = generation.compacting.try_lock() { self.thin_out(generation) } else { Ok(()) };
        self.health.check()?;
        if generation.index().l0_run_count() < L0_RUNS_FULL {
            // There is room: what compaction fails with, its own thread tells.
            return Ok(());
        }
        compacted?;
        let source = io::Error::new(ErrorKind::WouldBlock, "the first level is full until it is compacted");
        Err(Error::Io { path: generation.folder.clone(), source })
    }

    /// Compacts `generation` until its first level is no longer crowded; its compaction is held.
    fn thin_out(&self, generation: &Arc<Generation>) -> Result<()> {
        while generation.hurry_if_crowded() && !self.is_ending(generation) {
            if !self.compact_step(generation)? {
                break;
            }
        }
        Ok(())
    }

    /// Whether the files of `generation` are to be rewritten because readers pass over too many removals in them. What is in
    /// memory is flushed by then, or too little.
    fn is_worn(&self, generation: &Generation) -> bool {
        generation.wear.wants_rewrite(|| bytes_of(generation)) && !self.needs_flush()
    }

    /// Merges each level of `generation` into the next one, down to the last, where no removal is left; its compaction is
    /// held. False if there was nothing to merge, it is to end, or the device has no room for it.
    fn rewrite_worn(&self, generation: &Arc<Generation>) -> Result<bool> {
        let is_asked = generation.wear.take_asked();
        // However large it is: flushes see to it that writers do not wait for the rate limit.
        generation.pace.asked.store(is_asked, Ordering::Relaxed);
        generation.hurry_if_crowded();
        let merged = self.merge_all(generation, is_asked);
        generation.pace.asked.store(false, Ordering::Relaxed);
        generation.hurry_if_crowded();
        merged
    }

    /// Does so. One that was asked for ends early where ordinary compaction is behind.
    fn merge_all(&self, generation: &Arc<Generation>, is_asked: bool) -> Result<bool> {
        let before = self.flushed_garbage();
        let (mut merged, mut from) = (false, 0);
        while let Some((above, below)) = generation.levels_to_merge(from) {
            if is_asked && merged && generation.index().l0_run_count() >= L0_RUNS_ASKED {
                // Ordinary compaction goes first; for what is left it is asked again.
                return Ok(true);
            }
            if !self.merge(generation, above, below)? {
                return Ok(false);
            }
            (merged, from) = (true, below);
        }
        if is_asked {
            // Only a merge that finds values stale when it begins removes them.
            if let Some(last) = generation.stale_level() {
                if !self.merge(generation, last, last)? {
                    return Ok(merged);
                }
                merged = true;
            }
            generation.note_found(&before);
        }
        generation.wear.rewritten();
        Ok(merged)
    }

    /// Asks for the room of values that are kept out of the levels of `generation`, once much of it is of no use and the
    /// device has room for what is to be moved.
    fn ask_for_values(&self, generation: &Generation) {
        let garbage = self.flushed_garbage().unless_few(generation.removals_min.load(Ordering::Relaxed));
        let left = generation.stale_left.fetch_min(garbage.stale_bytes, Ordering::Relaxed).min(garbage.stale_bytes);
        let moves = || garbage.claimed_bytes().saturating_add(generation.index().disk_space());
        // Ordinary compaction goes first where it is behind.
        let is_ahead = || generation.index().l0_run_count() < L0_RUNS_ASKED;
        if garbage.is_much(left) && is_ahead() && generation.gives_back() && self.shared.room.fits(moves()) {
            generation.wear.ask();
        }
    }

    /// The garbage among values that are kept out of the levels, of which files tell.
    fn flushed_garbage(&self) -> Garbage {
        let view = self.view.load();
        view.garbage(Removed { unflushed: 0, ..view.removed() })
    }

    /// One step that removes rows which a fork has taken over.
    fn purge_unwanted(&self) -> Result<bool> {
        let generation = self.view.load().generation.clone();
        if generation.keep.load().is_none() || self.is_ending(&generation) {
            return Ok(false);
        }
        let Some(last) = generation.unwanted() else { return Ok(false) };
        let _one = generation.compacting.lock().expect("a panic while compacting is not survived");
        let last = if last == unwanted::EVERYTHING {
            // No compaction is under way that does not know what is wanted.
            let last = generation.table_ids().into_iter().max().unwrap_or(0);
            generation.mark_unwanted(Some(last))?;
            last
        } else {
            last
        };
        let Some((from, to)) = generation.level_to_rewrite(|table| table <= last) else {
            generation.mark_unwanted(None)?;
            log::info!("{}: rows that another shard has now are gone", self.folder.display());
            return Ok(false);
        };
        self.rewrite(&generation, from, to)
    }

    /// One step that frees the room of dropped prefixes.
    fn purge_dropped(&self) -> Result<bool> {
        let generation = self.view.load().generation.clone();
        if generation.dropped.load().is_empty() || self.is_ending(&generation) {
            return Ok(false);
        }
        let _one = generation.compacting.lock().expect("a panic while compacting is not survived");
        let view = self.view.load_full();
        if !Arc::ptr_eq(&view.generation, &generation) {
            return Ok(false);
        }
        let (tables, disk_bytes) = (view.tables_with_blocks().collect(), generation.tree().disk_space());
        match generation.collector.plan(&Dropping { dropped: &view.dropped, tables, disk_bytes }) {
            Plan::Nothing => Ok(false),
            Plan::GoOn => Ok(true),
            Plan::Cut(prefix) => {
                let (before, end) = (generation.table_ids(), prefix_end(&prefix));
                let high = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(end) };
                let cut = || {
                    let tree = generation.tree();
                    tree.drop_range::<Slice, _>((Bound::Included(prefix), high))?;
                    // Else the version before keeps the files until the next flush. Views hold what they read.
                    tree.get_version_history_lock().maintenance(&generation.folder, u64::MAX)
                };
                self.rewrite_files(&generation, cut)?;
                self.refresh(&generation, 0);
                Ok(before != generation.table_ids())
            }
            Plan::Rewrite { tables } => match generation.level_to_rewrite(|table| tables.contains(&table)) {
                Some((from, to)) => self.rewrite(&generation, from, to),
                None => Ok(false),
            },
            Plan::Forget(prefixes) => {
                let _publishing = self.publishing.lock().expect("a panic while publishing is not survived");
                let current = self.view.load();
                if Arc::ptr_eq(&current.generation, &generation) {
                    generation.forget(prefixes);
                    let (active, sealed) = (current.active.clone(), current.sealed.clone());
                    drop(self.publish(View::new(
                        generation.clone(),
                        current.files.clone(),
                        active,
                        sealed,
                        self.applied.load(Ordering::SeqCst),
                    )));
                }
                Ok(true)
            }
        }
    }

    /// Whether nothing is to be rewritten any more: then what ended early has not failed.
    pub(super) fn is_ending(&self, generation: &Generation) -> bool {
        self.shared.throttle.is_stopped() || generation.pace.abandoned.load(Ordering::Relaxed)
    }

    /// Whether a purge is to come by that rewrites what compaction would, and readers can wait for it.
    fn is_left_to_purge(&self, generation: &Generation) -> bool {
        let expected = *self.fork_expected.lock().expect("nothing panics while it is held");
        let is_to_come = || expected.is_some_and(|since| since.elapsed() < FORK_PATIENCE);
        (generation.unwanted().is_some() || is_to_come()) && self.view.load().files.l0_runs < L0_TABLES_UNPURGED
    }

    /// The view, whose index is published: just after a clear or an install it is not yet.
    fn current(&self) -> Guard<Arc<View>> {
        loop {
            let view = self.view.load();
            if self.applied.load(Ordering::SeqCst) >= view.floor {
                return view;
            }
            std::hint::spin_loop();
        }
    }
}

/// Whether the manifest on disk is the one in memory: not so if a commit failed after its last step took effect.
fn manifest_is_ours(generation: &Generation) -> bool {
    loop {
        let before = generation.index().current_version().id();
        let on_disk = match generation::version_on_disk(&generation.folder) {
            // It cannot be told now: once the process has descriptors again, it can.
            Err(error) if vocab::is_shortage(&error) => {
                std::thread::sleep(LOOK_AGAIN);
                continue;
            }
            read => read.ok().flatten(),
        };
        // Waits for a commit that is under way, and shows whether there was one.
        if generation.index().current_version().id() == before {
            return on_disk == Some(before);
        }
    }
}

/// After a commit that failed for want of descriptors or memory when its manifest was in place: puts the one in use back. False if
/// that cannot be.
fn restores_manifest(generation: &Generation) -> bool {
    // Nothing else commits meanwhile.
    let _exclusive = generation.writing.write().expect("a panic while writing is not survived");
    for _ in 0..RESTORE_TRIES_MAX {
        if manifest_is_ours(generation) {
            return true;
        }
        match manifest::restore(&generation.folder, generation.index().current_version().id()) {
            Ok(()) => log::info!("{}: the manifest in use is put back", generation.folder.display()),
            Err(error) if error.is_passing() => std::thread::sleep(LOOK_AGAIN),
            Err(error) => {
                log::error!("{}: the manifest in use cannot be put back: {error}", generation.folder.display());
                return false;
            }
        }
    }
    false
}

/// Drops a replaced view here, in the background, rather than in the last reader that holds it: freeing a memtable
/// takes milliseconds. Readers hold a view for one read; who holds it for longer frees it.
fn retire(view: Arc<View>) {
    for _ in 0..100 {
        if Arc::strong_count(&view) == 1 {
            break;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// How a write is stored.
fn stored(packing: Packing, (key, value): (Slice, Option<Slice>)) -> (Slice, Slice, ValueType) {
    match value {
        Some(value) => (key, packing.pack(value), ValueType::Value),
        None => (key, Slice::empty(), ValueType::Tombstone),
    }
}

impl Engine for LsmEngine {
    fn apply(&self, index: u64, batch: WriteBatch) {
        let before = self.applied.load(Ordering::Relaxed);
        assert!(index > before, "entry {index} applied after {before}");
        let view = self.view.load();
        let batch = accepted(index, batch);
        // Compressed before readers are kept out.
        let mut writes: Vec<_> = batch.writes.into_iter().map(|write| stored(self.packing, write)).collect();
        for prefix in &batch.drops {
            let (key, record) = drop_record(prefix, index);
            writes.push((key, record, ValueType::Value));
        }
        let publish = || self.applied.store(index, Ordering::SeqCst);
        let lies_below = |key: &[u8]| TryGet(&view).may_lie_below(key);
        view.generation.usage.add(view.active.apply((before, index), writes, batch.drops, lies_below, publish));
    }

    fn applied_index(&self) -> u64 {
        self.applied.load(Ordering::SeqCst)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        if key.len() > TREE_KEY_BYTES_MAX {
            return Ok(None);
        }
        // What the memtable has is published, and nothing else in a view is newer.
        self.current().get(key, NEWEST)
    }

    fn get_short(&self, key: &[u8], bytes_max: usize) -> Result<Short> {
        if key.len() > TREE_KEY_BYTES_MAX {
            return Ok(Short::Found(None));
        }
        self.current().get_short(key, NEWEST, bytes_max)
    }

    fn look(&self, key: &[u8], held: &[HeldBlock]) -> Look {
        TryGet(&self.current()).look(key, NEWEST, held)
    }

    fn hash(&self, key: &[u8]) -> u64 {
        memtable::hash(key)
    }

    fn note(&self, hashes: &[u64], step: Step, lines: &mut Lines) {
        self.view.load().active.note(hashes, step, lines);
    }

    fn scans_at_once(&self) -> bool {
        // All are asked: each that is behind is put in order.
        self.view.load().memtables().filter(|memtable| !memtable.scans_at_once()).count() == 0
    }

    fn prepare_scans(&self) {
        let view = self.view.load_full();
        view.memtables().for_each(|memtable| scan::prepare(memtable));
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        loop {
            let view = self.view.load_full();
            let hold = view.active.hold(|| self.applied.load(Ordering::SeqCst));
            // Else a seal or a clear came between, and the index may be of another view.
            if hold.index() >= view.floor && Arc::ptr_eq(&view, &self.view.load()) {
                return Box::new(LsmSnapshot::new(view, hold));
            }
        }
    }

    fn flushed_index(&self) -> u64 {
        self.view.load().generation.flushed.load(Ordering::Acquire)
    }

    fn wants_flush(&self) -> bool {
        let view = self.view.load();
        let Generation { usage, wear, .. } = &*view.generation;
        let is_worn = || wear.wants_seal(|| view.files.disk_bytes + usage.bytes());
        usage.is_due() || usage.is_worth_a_flush() && is_worn() || view.hides_values()
    }

    fn seal(&self, meta: Vec<(Slice, Slice)>) {
        let index = self.applied.load(Ordering::Relaxed);
        if self.sealed.load(Ordering::Relaxed) == index {
            return;
        }
        let _publishing = self.publishing.lock().expect("a panic while publishing is not survived");
        let view = self.view.load();
        let generation = &view.generation;
        let meta = meta.into_iter().map(|(key, value)| (meta_key(&key), self.packing.pack(value)));
        let own = meta.chain([(Slice::from(APPLIED_KEY), applied_record(index))]);
        let own = own.map(|(key, value)| (key, value, ValueType::Value));
        let forgotten = generation.take_forgotten().into_iter();
        let forgotten = forgotten.map(|prefix| (drop_key(&prefix), Slice::empty(), ValueType::Tombstone));
        let own: Vec<_> = own.chain(forgotten).collect();
        generation.usage.add(view.active.apply((index, index), own, Vec::new(), |_| true, || ()));
        let mut sealed = view.sealed.clone();
        sealed.push(Sealed { memtable: view.active.clone(), index, bytes: generation.usage.seal() });
        generation.wear.seal();
        // The old view dies cheaply: the new one has all that it holds.
        drop(self.publish(View::new(generation.clone(), view.files.clone(), Memtable::new(), sealed, index)));
        self.sealed.store(index, Ordering::Relaxed);
    }

    fn needs_flush(&self) -> bool {
        !self.view.load().sealed.is_empty()
    }

    fn flush(&self) -> Result<()> {
        self.flush_to(u64::MAX)
    }

    fn sealed_index(&self) -> u64 {
        self.view.load().sealed.last().map_or(0, |sealed| sealed.index)
    }

    fn flush_to(&self, index: u64) -> Result<()> {
        self.health.check()?;
        let generation = self.view.load().generation.clone();
        let _one = generation.flushing.lock().expect("a panic while flushing is not survived");
        let view = self.view.load_full();
        if !Arc::ptr_eq(&view.generation, &generation) {
            // Replaced meanwhile, and with it what was sealed.
            return Ok(());
        }
        // They stay the oldest: only this flush takes them away.
        let sealed: Vec<Sealed> = view.sealed.iter().take_while(|sealed| sealed.index <= index).cloned().collect();
        drop(view);
        // Also if there is nothing to write: a fork, which flushes first, adds a run to the tree that it makes.
        self.make_room(&generation)?;
        if sealed.is_empty() {
            return Ok(());
        }
        let (tree, dropped) = (generation.tree(), dropped_in(&sealed));
        let is_kept = |row: &lsm_tree::Result<InternalValue>| {
            dropped.is_empty() || row.as_ref().is_ok_and(|row| !dropped.covers(&row.key.user_key))
        };
        self.write_files(&generation, || {
            if let Some((tables, blob_files)) = tree.flush_to_tables(newest_of(&sealed).filter(is_kept))? {
                if blob_files.as_ref().is_some_and(|files| !files.is_empty()) {
                    generation.blob_dir.sync()?;
                }
                tree.register_tables(&tables, blob_files.as_deref(), None, &[], u64::MAX)?;
            }
            Ok(())
        })
        .map_err(|error| self.health.judge_write(error))?;
        self.refresh(&generation, sealed.len());
        Ok(())
    }

    fn meta(&self, key: &[u8]) -> Result<Option<Slice>> {
        // Meta records are written when no entry is under way, at the applied index.
        self.current().meta(key, NEWEST)
    }

    fn compact(&self) -> Result<bool> {
        let cleared = std::mem::take(&mut *self.cleared.lock().expect("nothing panics while it is held"));
        drop(cleared);
        self.health.check()?;
        let generation = self.view.load().generation.clone();
        // A purge of it may take long; the other trees do not wait for it.
        let Ok(_one) = generation.compacting.try_lock() else {
            generation.pace.hurried.store(!self.is_left_to_purge(&generation), Ordering::Relaxed);
            return Ok(false);
        };
        if self.is_ending(&generation) || self.is_left_to_purge(&generation) {
            return Ok(false);
        }
        generation.hurry_if_crowded();
        if !generation.usage.is_worth_a_flush() {
            // So little is in memory that no flush is waited for.
            generation.wear.seal();
        }
        self.ask_for_values(&generation);
        if self.is_worn(&generation) && self.rewrite_worn(&generation)? {
            return Ok(true);
        }
        // An ordinary step does not know beforehand what it needs.
        if self.is_ending(&generation) || self.shared.room.is_short() {
            return Ok(false);
        }
        self.compact_step(&generation)
    }

    fn debt(&self) -> f64 {
        let view = self.view.load();
        let l0 = (view.files.l0_runs as f64 - f64::from(L0_TABLES)).max(0.0) / (L0_RUNS_MAX - f64::from(L0_TABLES));
        l0.max(self.shared.memtable_debt()).max(collector::debt(&view.dropped))
    }

    fn clear(&self, index: u64, meta: Vec<(Slice, Slice)>, rows: Vec<(Slice, Slice)>) -> Result<()> {
        self.health.check()?;
        let generation = self.begun_with(index, meta, rows).map_err(|error| self.health.judge_write(error))?;
        self.replace(generation, index)
    }

    fn ingest(&self) -> Result<Box<dyn Ingest>> {
        self.health.check()?;
        let current = self.view.load().generation.number;
        let generation = Generation::create(&self.folder, current, &self.shared);
        let generation = generation.map_err(|error| self.health.judge(error))?;
        Ok(Box::new(LsmIngest::new(&self.folder, generation, self.packing, &self.shared, &self.health)))
    }

    fn install(&self, ingested: Box<dyn Ingested>) -> std::result::Result<(), NotInstalled> {
        let (generation, index) = LsmIngested::parts(&*ingested, &self.folder);
        self.replace(generation, index).map_err(|error| NotInstalled::of(error, ingested))
    }

    fn expect_fork(&self) {
        *self.fork_expected.lock().expect("nothing panics while it is held") = Some(Instant::now());
    }

    fn fork(&self, folder: &Path, index: u64, meta: Vec<(Slice, Slice)>, _keep: &Keep) -> Result<Arc<dyn Engine>> {
        let applied = self.applied.load(Ordering::SeqCst);
        assert_eq!(self.sealed.load(Ordering::SeqCst), applied, "a map is forked that is not sealed");
        assert_eq!(index, applied + 1, "a map is forked as of another entry than the next");
        self.flush()?;
        let parent = self.view.load().generation.clone();
        let stamped = |child: &Generation| stamp(child, self.packing, index, meta);
        let child = fork(&parent, folder, &self.shared, &self.health, stamped)?;
        child.flushed.store(index, Ordering::Release);
        Ok(Arc::new(Self::of(folder, child, index, &self.shared)?))
    }

    fn keep_only(&self, keep: Keep) {
        let keep = Some(Arc::new(keep));
        self.keep.store(keep.clone());
        self.view.load().generation.keep.store(keep);
    }

    fn purge(&self) -> Result<bool> {
        self.health.check()?;
        // Each is tried, whatever comes of the other: one of them may free room at once.
        let (dropped, unwanted) = (self.purge_dropped(), self.purge_unwanted());
        Ok(dropped? | unwanted?)
    }

    fn reclaim(&self) -> bool {
        let view = self.view.load();
        let removed = view.removed();
        if removed.wants_rewrite() || view.generation.stale_level().is_some() {
            view.generation.wear.ask();
        }
        removed.wants_seal()
    }

    fn abandon(&self) {
        self.view.load().generation.pace.abandoned.store(true, Ordering::Relaxed);
    }

    fn stats(&self) -> EngineStats {
        self.view.load().stats()
    }

    fn verify(&self) -> Result<()> {
        let view = self.view.load_full();
        view.verify()?;
        loop {
            let version = || view.generation.index().current_version().id();
            let before = version();
            let manifest = Manifest::read(&view.generation.folder);
            if before == version() {
                return manifest.map(drop);
            }
        }
    }
}

/// What a tree takes, in files and in memory.
fn bytes_of(generation: &Generation) -> u64 {
    generation.tree().disk_space() + generation.usage.bytes()
}

/// How many tables each level has: a move changes only this.
fn levels(generation: &Generation) -> Vec<usize> {
    generation.index().current_version().iter_levels().map(|level| level.table_count()).collect()
}

#[cfg(test)]
mod tests;
