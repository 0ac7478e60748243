//! One tree in one folder. The pointer file says which generation is the shard's; FLUSHALL and an ingestion make others.
//!
//! ```text
//! <shard>/generation        "basalt lsm 1\n<number>\n<crc32 of what precedes, hex>\n"
//! <shard>/tree-<number>/    what lsm-tree writes
//! ```
//!
//! Invariant: the pointer is switched only after the tree that it names is complete and durable; trees that it does
//! not name, and that this process does not hold, are rubbish and are removed.

use super::blob_dir_sync::BlobDirSync;
use super::collector::Collector;
use super::damage::KnownDamage;
use super::fault::translate;
use super::filter::{Brake, Pace, Parts};
use super::garbage::{FILE_STALE, GARBAGE_PART, Garbage};
use super::manifest::Manifest;
use super::table::{Blocks, Known};
use super::unwanted;
use super::wear::Wear;
use crate::direct::{Closing, DirectFiles, FileKey};
use crate::dropped::DroppedPrefixes;
use crate::files::{create_folder, make_file, put_in_place, replace_file, system_error};
use crate::open_files::{OpenPath, remove_or_condemn};
use crate::resources::Usage;
use crate::value_record::HEAD_BYTES;
use crate::{Compression, Error, Keep, Result, SharedResources, Slice};
use arc_swap::{ArcSwap, ArcSwapOption};
use lsm_tree::compaction::Leveled;
use lsm_tree::config::{CompressionPolicy, PinningPolicy};
use lsm_tree::{
    AbstractTree, AnyIngestion, AnyTree, CompressionType, Config, DescriptorTable, KvSeparationOptions,
    SequenceNumberCounter, Table, Tree,
};
use std::collections::HashMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

const POINTER: &str = "generation";
const POINTER_HEAD: &str = "basalt lsm 1";
const TREE_PREFIX: &str = "tree-";
/// Tables in the first level that start a compaction.
pub(super) const L0_TABLES: u8 = 4;
/// The same for a tree that is to be purged: a purge rewrites the first levels as well, and in no hurry.
pub(super) const L0_TABLES_UNPURGED: usize = 10;
/// Runs in the first level from which on a flush compacts it first, and no rate limit slows that down.
pub(super) const L0_RUNS_CROWDED: usize = 200;
/// The same, but for the flush, while all of a tree is rewritten because its room was asked for: from a half of those on at which
/// writers are held up.
pub(super) const L0_RUNS_ASKED: usize = 12;
/// Runs in the first level at which no flush adds another one. lsm-tree's manifest counts the runs of a level in one
/// byte; the last number is left to what a fork writes into the tree that it makes.
pub(super) const L0_RUNS_FULL: usize = 254;
const _: () = assert!(L0_RUNS_CROWDED < L0_RUNS_FULL && L0_RUNS_FULL < u8::MAX as usize);

/// A tree and what its users share.
pub(super) struct Generation {
    pub(super) number: u64,
    pub(super) folder: PathBuf,
    tree: AnyTree,
    pub(super) descriptors: Arc<DescriptorTable>,
    /// The same files, for reading past the page cache.
    pub(super) direct: Arc<DirectFiles>,
    pub(super) usage: Arc<Usage>,
    /// The index that its files hold.
    pub(super) flushed: AtomicU64,
    /// Held during a flush: there is one at a time.
    pub(super) flushing: Mutex<()>,
    /// Held during a compaction: there is one at a time.
    pub(super) compacting: Mutex<()>,
    /// The pace of that compaction.
    pub(super) pace: Arc<Pace>,
    /// What that compaction, or one before, has found damaged.
    pub(super) damage: KnownDamage,
    /// Held for reading while files are written, for writing while leftovers are removed.
    pub(super) writing: RwLock<()>,
    /// Whether a write failed and may have left files behind.
    pub(super) littered: AtomicBool,
    /// Whether the log says that leftovers are removed, since files were last written without a failure.
    pub(super) litter_told: AtomicBool,
    strategy: Arc<Leveled>,
    pub(super) blob_dir: Arc<BlobDirSync>,
    /// What is known of its tables, for scans.
    pub(super) blocks: Known<Blocks>,
    /// Its open value files.
    pub(super) values: Known<Closing>,
    /// Which rows compaction keeps; all if it does not say.
    pub(super) keep: Arc<ArcSwapOption<Keep>>,
    /// The prefixes that its files say are dropped, each with the index of the entry. Compaction drops their rows.
    pub(super) dropped: Arc<ArcSwap<DroppedPrefixes<u64>>>,
    /// Prefixes that no file has rows of any more, but records.
    forgotten: Mutex<Vec<Slice>>,
    /// Frees what they take.
    pub(super) collector: Collector,
    /// What readers pass over in it.
    pub(super) wear: Wear,
    /// Bytes of stale values that the last rewrite for their room has left, or less.
    pub(super) stale_left: AtomicU64,
    /// Fewer removals are not taken to hide such values: those that were merged last hid much less than was taken.
    pub(super) removals_min: AtomicU64,
    /// Whether the log says that rewrites lack room, since one last began.
    pub(super) lack_told: AtomicBool,
    /// Tables up to this number may hold rows that are not kept: as the file says (see `purge`).
    unwanted: Mutex<Option<u64>>,
    /// What lsm-tree counts its own changes with. Nothing else uses it, except that an ingestion's rows get its number.
    seqno: SequenceNumberCounter,
    /// Condemned, its folder is removed when the last reader lets go. The last field: the tree goes first.
    held: OpenPath,
}

impl Generation {
    /// Makes an empty tree, of a number above `after`. It is condemned until it is spared.
    pub(super) fn create(shard: &Path, after: u64, shared: &Arc<SharedResources>) -> Result<Arc<Self>> {
        Self::create_with(shard, after, shared, |_| Ok(()))
    }

    /// The same, of the files that `fill` puts into its folder.
    pub(super) fn create_with(
        shard: &Path,
        after: u64,
        shared: &Arc<SharedResources>,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Arc<Self>> {
        let (held, folder) = OpenPath::claim((after + 1..).map(|number| tree_folder(shard, number)));
        let number = number_of(&folder).expect("it was made of a number");
        remove_or_keep(&folder);
        if folder.exists() {
            let source = std::io::ErrorKind::AlreadyExists.into();
            return Err(Error::Io { path: folder, source });
        }
        create_folder(&folder)?;
        fill(&folder)?;
        Self::begin(number, &folder, held, shared).map_err(|error| translate(&folder, error))
    }

    /// Opens the tree in `<shard>/tree-<number>`.
    pub(super) fn open(shard: &Path, number: u64, shared: &Arc<SharedResources>) -> Result<Arc<Self>> {
        let folder = tree_folder(shard, number);
        let manifest = Manifest::read(&folder)?;
        manifest.check()?;
        let generation = Self::begin(number, &folder, OpenPath::hold(&folder), shared).map_err(|error| {
            let error = translate(&folder, error);
            if matches!(error, Error::Corrupt { .. }) { manifest.verify().err().unwrap_or(error) } else { error }
        })?;
        generation.check_references()?;
        *generation.unwanted.lock().expect("nothing panics while it is held") = unwanted::read_mark(&folder)?;
        Ok(generation)
    }

    /// The tables' lists of the value files that they refer to are not covered by a block's checksum.
    fn check_references(&self) -> Result<()> {
        let version = self.index().current_version();
        for table in version.iter_tables() {
            let listed = table.list_blob_file_references().map_err(|error| translate(&table.path, error))?;
            if !listed.unwrap_or_default().iter().all(|file| version.blob_files.contains_key(file.blob_file_id)) {
                let detail = "refers to a value file that the tree does not have".into();
                return Err(Error::Corrupt { path: table.path.to_path_buf(), detail });
            }
        }
        Ok(())
    }

    /// Whatever lsm-tree finds in `folder`, or an empty tree.
    fn begin(number: u64, folder: &Path, held: OpenPath, shared: &Arc<SharedResources>) -> lsm_tree::Result<Arc<Self>> {
        let (seqno, blob_dir) = (SequenceNumberCounter::default(), Arc::new(BlobDirSync::new(folder)));
        let keep: Arc<ArcSwapOption<Keep>> = Arc::default();
        let dropped: Arc<ArcSwap<DroppedPrefixes<u64>>> = Arc::default();
        let pace = Arc::new(Pace::default());
        let brake = Brake::new(Parts {
            throttle: shared.throttle.clone(),
            purge_throttle: shared.purge_throttle.clone(),
            room: shared.room.clone(),
            pace: pace.clone(),
            blob_dir: blob_dir.clone(),
            keep: keep.clone(),
            dropped: dropped.clone(),
        });
        let tree = config(folder, shared, &seqno, brake).open()?;
        Ok(Arc::new(Self {
            number,
            folder: folder.to_path_buf(),
            tree,
            descriptors: shared.descriptors.clone(),
            direct: shared.direct.clone(),
            usage: shared.usage(),
            flushed: AtomicU64::new(0),
            flushing: Mutex::new(()),
            compacting: Mutex::new(()),
            pace,
            damage: KnownDamage::default(),
            writing: RwLock::new(()),
            littered: AtomicBool::new(false),
            litter_told: AtomicBool::new(false),
            strategy: Arc::new(
                Leveled::default().with_l0_threshold(L0_TABLES).with_table_target_size(shared.options.table_bytes),
            ),
            blob_dir,
            blocks: Known::default(),
            values: Known::default(),
            keep,
            dropped,
            forgotten: Mutex::default(),
            collector: Collector::default(),
            wear: Wear::default(),
            stale_left: AtomicU64::new(0),
            removals_min: AtomicU64::new(0),
            lack_told: AtomicBool::new(false),
            unwanted: Mutex::new(None),
            seqno,
            held,
        }))
    }

    /// The tree with values kept apart resolved: what writes.
    pub(super) fn tree(&self) -> &AnyTree {
        &self.tree
    }

    /// The tree of keys and handles: what views read.
    pub(super) fn index(&self) -> &Tree {
        match &self.tree {
            AnyTree::Standard(tree) => tree,
            AnyTree::Blob(tree) => &tree.index,
        }
    }

    /// The numbers of its tables.
    pub(super) fn table_ids(&self) -> Vec<u64> {
        self.index().current_version().iter_tables().map(Table::id).collect()
    }

    pub(super) fn strategy(&self) -> Arc<Leveled> {
        self.strategy.clone()
    }

    /// Lets rewriting go on without a rate limit as long as the first level is crowded; whether it is. A rewrite that was asked for
    /// has none earlier.
    pub(super) fn hurry_if_crowded(&self) -> bool {
        let runs = self.index().l0_run_count();
        let urgent = if self.pace.asked.load(Ordering::Relaxed) { L0_RUNS_ASKED } else { L0_RUNS_CROWDED };
        self.pace.urgent.store(runs >= urgent, Ordering::Relaxed);
        runs >= L0_RUNS_CROWDED
    }

    /// Whether the room of removed rows comes back by compaction now: not where a purge keeps removals and goes first, nor where
    /// damage keeps compaction from its files.
    pub(super) fn gives_back(&self) -> bool {
        self.unwanted().is_none() && self.damage.check().is_ok()
    }

    /// Up to which table there may be rows that are to be purged.
    pub(super) fn unwanted(&self) -> Option<u64> {
        *self.unwanted.lock().expect("nothing panics while it is held")
    }

    /// Tables up to number `last` may hold rows that are to be purged; `None`: none does any more.
    pub(super) fn mark_unwanted(&self, last: Option<u64>) -> Result<()> {
        match last {
            Some(last) => unwanted::write_mark(&self.folder, last)?,
            None => unwanted::remove_mark(&self.folder)?,
        }
        *self.unwanted.lock().expect("nothing panics while it is held") = last;
        Ok(())
    }

    /// Of the bytes on disk, about how many are of rows that are to go: half of what the tables that are marked hold, since a
    /// fork is made to halve.
    pub(super) fn unwanted_bytes(&self) -> u64 {
        let Some(last) = self.unwanted() else { return 0 };
        let bytes = |last: u64| -> u64 {
            let version = self.index().current_version();
            version.iter_tables().filter(|table| table.id() <= last).map(|table| table.metadata.file_size).sum()
        };
        let (marked, all) = (bytes(last), bytes(unwanted::EVERYTHING).max(1));
        // What is kept out of the levels is shared out as they are.
        (self.tree().disk_space() as f64 * marked as f64 / all as f64 / 2.0) as u64
    }

    /// The first level that has a table which is to be rewritten, and the level that it is rewritten into: itself, or for
    /// level 0 the next that is not empty.
    pub(super) fn level_to_rewrite(&self, is_to_go: impl Fn(u64) -> bool) -> Option<(u8, u8)> {
        let version = self.index().current_version();
        let mut levels = version.iter_levels();
        let at = levels.position(|level| level.iter().any(|run| run.iter().any(|table| is_to_go(table.id()))))?;
        let filled: Vec<bool> = version.iter_levels().map(|level| !level.is_empty()).collect();
        Some((at as u8, if at > 0 { at } else { next_level(&filled, 1) } as u8))
    }

    /// The first level from `from` on that has a table, but for the last level, and the level that it is merged into: the next
    /// that is not empty, or the last.
    pub(super) fn levels_to_merge(&self, from: u8) -> Option<(u8, u8)> {
        let filled: Vec<bool> = self.index().current_version().iter_levels().map(|level| !level.is_empty()).collect();
        let above = next_level(&filled, usize::from(from));
        (above + 1 < filled.len()).then(|| (above as u8, next_level(&filled, above + 1) as u8))
    }

    /// What values that are kept out of the levels take.
    pub(super) fn value_bytes(&self) -> u64 {
        self.tree.disk_space().saturating_sub(self.index().disk_space())
    }

    /// The most that a merge of level `from` into `to`, or into itself, writes before it frees anything: tables, and values that
    /// it moves.
    pub(super) fn merge_bytes(&self, from: u8, to: u8) -> u64 {
        let (mut merged, mut others) = (Vec::new(), Vec::new());
        let version = self.index().current_version();
        for (at, level) in version.iter_levels().enumerate() {
            let is_merged = at == usize::from(from) || at == usize::from(to);
            let tables = if is_merged { &mut merged } else { &mut others };
            tables.extend(level.iter().flat_map(|run| run.iter()));
        }
        let (value_bytes, stale_bytes) = (self.value_bytes(), self.tree.stale_blob_bytes());
        let moved = Garbage { value_bytes, stale_bytes, removed_bytes: 0, removals: 0 }.moved_bytes();
        // What cannot be read may be all.
        let movable = if moved == 0 { 0 } else { movable_bytes(&merged, &others).unwrap_or(u64::MAX) };
        merged.iter().map(|table| table.metadata.file_size).sum::<u64>() + moved.min(movable)
    }

    /// All removals are merged into the last level. `before` tells what was taken of the values then.
    pub(super) fn note_found(&self, before: &Garbage) {
        let (values, stale) = (self.value_bytes(), self.tree.stale_blob_bytes());
        let removals_min = self.removals_min.load(Ordering::Relaxed);
        self.removals_min.store(before.removals_min_after(removals_min, values, stale), Ordering::Relaxed);
        self.stale_left.store(stale, Ordering::Relaxed);
    }

    /// The last level, if so many of the values that are kept out of the levels are stale that rewriting it frees room, once there
    /// is no level above it.
    pub(super) fn stale_level(&self) -> Option<u8> {
        let is_stale = self.tree.stale_blob_bytes() as f64 > self.value_bytes() as f64 * GARBAGE_PART;
        is_stale.then(|| (self.index().current_version().level_count() - 1) as u8)
    }

    /// The files hold these drops now.
    pub(super) fn note_dropped(&self, new: DroppedPrefixes<u64>) {
        if !new.is_empty() {
            let mut all = DroppedPrefixes::clone(&self.dropped.load());
            new.iter().for_each(|(prefix, index)| all.insert(prefix.clone(), *index));
            self.dropped.store(Arc::new(all));
        }
    }

    /// No file has rows of these prefixes any more: their records are to go with the next seal.
    pub(super) fn forget(&self, prefixes: Vec<Slice>) {
        let mut all = DroppedPrefixes::clone(&self.dropped.load());
        prefixes.iter().for_each(|prefix| all.remove(prefix));
        self.dropped.store(Arc::new(all));
        self.forgotten.lock().expect("nothing panics while it is held").extend(prefixes);
    }

    /// The prefixes that were forgotten since the last seal.
    pub(super) fn take_forgotten(&self) -> Vec<Slice> {
        std::mem::take(&mut *self.forgotten.lock().expect("nothing panics while it is held"))
    }

    /// Begins an ingestion whose rows get the sequence number 0, whenever it ends: unless another one, a flush or a
    /// compaction of this tree comes between.
    pub(super) fn ingestion(&self) -> lsm_tree::Result<AnyIngestion<'_>> {
        self.seqno.set(0);
        self.tree.ingestion()
    }

    /// The folder goes when the last reader of this generation does.
    pub(super) fn condemn(&self) {
        self.held.condemn();
    }

    /// The folder stays.
    pub(super) fn spare(&self) {
        self.held.spare();
    }
}

/// Bytes of the records of values to which tables `merged` refer, and none of `others`: a merge moves no value of another file. Keys of
/// records are left out.
fn movable_bytes(merged: &[&Table], others: &[&Table]) -> lsm_tree::Result<u64> {
    let mut files: HashMap<u64, u64> = HashMap::new();
    for table in merged {
        for file in table.list_blob_file_references()?.unwrap_or_default() {
            *files.entry(file.blob_file_id).or_default() += file.on_disk_bytes + (file.len * HEAD_BYTES) as u64;
        }
    }
    for table in others {
        for file in table.list_blob_file_references()?.unwrap_or_default() {
            files.remove(&file.blob_file_id);
        }
    }
    Ok(files.into_values().sum())
}

/// The first level from `from` on that has a table, of levels of which it is told whether they have one; the last if none has.
fn next_level(filled: &[bool], from: usize) -> usize {
    let lowest = filled.len() - 1;
    (from..lowest).find(|at| filled[*at]).unwrap_or(lowest)
}

impl Drop for Generation {
    /// Closes its files, which the table of open files would keep: and with them, once they are removed, their room.
    fn drop(&mut self) {
        // After a panic in there its locks may be poisoned: then they stay open until others push them out.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let (tree, version) = (self.index().id(), self.index().current_version());
            let tables = version.iter_tables().map(|table| FileKey::Table((tree, table.id())));
            let values = version.blob_files.iter().map(|file| FileKey::Values((tree, file.id())));
            tables.chain(values).for_each(|file| file.close(&self.descriptors));
        }));
    }
}

fn config(folder: &Path, shared: &SharedResources, seqno: &SequenceNumberCounter, brake: Brake) -> Config {
    let options = &shared.options;
    let blocks = match options.compression {
        Compression::None => CompressionPolicy::all(CompressionType::None),
        // What is flushed is soon rewritten.
        Compression::Lz4 | Compression::Zstd => CompressionPolicy::new([CompressionType::None, CompressionType::Lz4]),
    };
    let separation = KvSeparationOptions::default()
        // Large values are packed one by one, so that a value file needs no setting to be read.
        .compression(CompressionType::None)
        .file_target_size(options.table_bytes.max(1))
        .separation_threshold(if options.separation_bytes == 0 { u32::MAX } else { options.separation_bytes })
        .staleness_threshold(FILE_STALE)
        // All stale files of a compaction: the default takes none of fewer than four.
        .age_cutoff(1.0);
    Config::new(folder, seqno.clone(), SequenceNumberCounter::default())
        .use_cache(shared.cache.clone())
        .use_descriptor_table(Some(shared.descriptors.clone()))
        .data_block_compression_policy(blocks)
        .index_block_pinning_policy(PinningPolicy::all(true))
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .index_block_partitioning_policy(PinningPolicy::new([false, false, true]))
        .filter_block_partitioning_policy(PinningPolicy::new([false, false, true]))
        .with_compaction_filter_factory(Some(Arc::new(brake)))
        .with_kv_separation(Some(separation))
}

/// Where the tree of a generation is.
pub(super) fn tree_folder(shard: &Path, number: u64) -> PathBuf {
    shard.join(format!("{TREE_PREFIX}{number}"))
}

/// Whether a shard's folder has a tree.
pub(crate) fn is_in(shard: &Path) -> Result<bool> {
    let path = shard.join(POINTER);
    path.try_exists().map_err(|error| system_error(&path, error))
}

/// The generation that the pointer file names; `None` if there is none yet.
pub(super) fn read_pointer(shard: &Path) -> Result<Option<u64>> {
    let path = shard.join(POINTER);
    let text = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(system_error(&path, error)),
    };
    let parsed = std::str::from_utf8(&text).ok().and_then(parse_pointer);
    match parsed {
        Some(number) => Ok(Some(number)),
        None => Err(Error::Corrupt { path, detail: "not a generation file of version 1, or a wrong checksum".into() }),
    }
}

fn parse_pointer(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let (head, number, sum) = (lines.next()?, lines.next()?, lines.next()?);
    let number: u64 = number.parse().ok()?;
    (head == POINTER_HEAD && lines.next().is_none() && pointer_text(number) == text && !sum.is_empty())
        .then_some(number)
}

fn pointer_text(number: u64) -> String {
    let text = format!("{POINTER_HEAD}\n{number}\n");
    let sum = crc32fast::hash(text.as_bytes());
    format!("{text}{sum:08x}\n")
}

/// Makes `generation` the shard's, durably.
pub(super) fn write_pointer(shard: &Path, generation: &Generation) -> Result<()> {
    let prepared = generation.folder.join(POINTER);
    if prepared.exists() {
        return put_in_place(&prepared, shard, POINTER);
    }
    replace_file(shard, POINTER, pointer_text(generation.number).as_bytes())
}

/// Writes the pointer to `generation` ahead, into its own folder: then a full disk cannot keep it from becoming the shard's.
pub(super) fn prepare_pointer(generation: &Generation) -> Result<()> {
    make_file(&generation.folder.join(POINTER), pointer_text(generation.number).as_bytes())
}

/// Says that what is in the folder is a fork that is not complete, until there is a pointer.
pub(super) const FORKING: &str = "forking";

/// Without a pointer file, only what a crash in the first start or in a fork left may be there: a tree that was never
/// written to, or one that the fork will make again.
pub(super) fn check_unused(shard: &Path) -> Result<()> {
    if shard.join(FORKING).exists() {
        return Ok(());
    }
    for folder in trees(shard)? {
        let tables = folder.join("tables");
        let has_tables = match fs::read_dir(&tables) {
            Ok(mut tables) => tables.next().is_some(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            // What cannot be told now is not taken for none: the folder would be removed.
            Err(error) => return Err(system_error(&tables, error)),
        };
        if has_tables {
            let detail = format!("missing, but there is data in {}", folder.display());
            return Err(Error::Corrupt { path: shard.join(POINTER), detail });
        }
    }
    Ok(())
}

/// The folder of a shard has a pointer: whatever was begun there is complete.
pub(super) fn end_fork(shard: &Path) {
    let path = shard.join(FORKING);
    if path.exists()
        && let Err(error) = fs::remove_file(&path)
    {
        log::warn!("{}: cannot be removed: {error}", path.display());
    }
}

fn number_of(folder: &Path) -> Option<u64> {
    folder.file_name()?.to_str()?.strip_prefix(TREE_PREFIX)?.parse().ok()
}

/// Removes a tree that the pointer does not name, if it can; the next start will.
fn remove_or_keep(folder: &Path) {
    if folder.exists()
        && let Err(error) = fs::remove_dir_all(folder)
    {
        log::warn!("{}: cannot be removed: {error}", folder.display());
    }
}

/// Removes the trees that the pointer does not name: left by a crash, or by a reader that outlived the last stop. One
/// that this process holds goes when its last holder lets go.
pub(super) fn remove_others(shard: &Path, keep: u64) -> Result<()> {
    let keep = tree_folder(shard, keep);
    for folder in trees(shard)?.iter().filter(|folder| **folder != keep) {
        remove_or_condemn(folder).map_err(|error| system_error(folder, error))?;
    }
    Ok(())
}

fn trees(shard: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| system_error(shard, error);
    let mut trees = Vec::new();
    for entry in fs::read_dir(shard).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with(TREE_PREFIX) {
            trees.push(entry.path());
        }
    }
    Ok(trees)
}

/// The version number that the tree's `current` file names on disk.
pub(super) fn version_on_disk(folder: &Path) -> std::io::Result<Option<u64>> {
    let bytes = fs::read(folder.join("current"))?;
    Ok(bytes.first_chunk().map(|version| u64::from_le_bytes(*version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_level_has_tables_or_is_the_last() {
        let cases: [(&str, usize, usize); 7] = [
            ("-------", 0, 6),
            ("x--x--x", 0, 0),
            ("x--x--x", 1, 3),
            ("x--x---", 4, 6),
            ("x-----x", 6, 6),
            ("x------", 7, 6),
            ("x", 1, 0),
        ];
        for (levels, from, expected) in cases {
            let filled: Vec<bool> = levels.bytes().map(|level| level == b'x').collect();
            assert_eq!(next_level(&filled, from), expected, "{levels} from {from}");
        }
    }

    #[test]
    fn a_pointer_is_read_as_written_and_any_flip_is_seen() {
        let text = pointer_text(7);
        assert_eq!(text, "basalt lsm 1\n7\na55015a3\n");
        assert_eq!(parse_pointer(&text), Some(7));
        for i in 0..text.len() {
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[i] ^= 1 << bit;
                assert_eq!(parse_pointer(std::str::from_utf8(&bytes).expect("ASCII")), None, "byte {i} bit {bit}");
            }
        }
    }
}
