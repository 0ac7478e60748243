//! A shard's tree in the simulator: a sorted map whose files are an image in memory that outlives the node's crash.
//!
//! Maps are shared and copied when they are written to, so that snapshots, seals, images and forks cost nothing to take.
//! Invariant: the image is of one index, whole; a crash leaves it, and nothing else.

use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::{
    Cursor, Engine, EngineStats, Error, Ingest, Ingested, Keep, NotInstalled, Result, Slice, Snapshot, Span, WriteBatch,
};
use vocab::ShardId;

type Rows = Arc<BTreeMap<Slice, Slice>>;

/// What rows count for, in bytes: enough that shards differ.
const ROW_BYTES: u64 = 1 << 20;

/// What a crash leaves of a tree: its files.
#[derive(Clone, Default)]
pub struct Image {
    rows: Rows,
    meta: Rows,
    /// As of this entry.
    index: u64,
    /// There are rows of a shard that was split off, or of the one that this was split off.
    is_halved: bool,
}

/// Whether a tree's files can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// They can.
    #[default]
    Sound,
    /// There is no room.
    Full,
    /// The process lacks descriptors or memory, or is interrupted: the system's number for that. Nothing is written.
    Short(i32),
    /// They cannot: who tries learns nothing about what is in them.
    Failing,
}

/// The files of one tree, on a node's disk.
#[derive(Default)]
pub struct TreeFiles {
    image: Image,
    medium: Medium,
    /// A bit of the image is wrong: reading it is an error.
    damaged: bool,
}

/// A disk's part for one tree: survives crashes.
pub type SharedFiles = Arc<Mutex<TreeFiles>>;

/// A disk's part for all trees.
#[derive(Clone, Default)]
pub struct Folders(Arc<Mutex<BTreeMap<ShardId, SharedFiles>>>);

impl Folders {
    /// The files of a shard's tree, of which there may be none yet.
    #[must_use]
    pub fn of(&self, shard: ShardId) -> SharedFiles {
        self.0.lock().entry(shard).or_default().clone()
    }

    /// The shards that have a tree.
    #[must_use]
    pub fn shards(&self) -> Vec<ShardId> {
        self.0.lock().keys().copied().collect()
    }

    /// Removes a shard's tree.
    pub fn remove(&self, shard: ShardId) {
        self.0.lock().remove(&shard);
    }

    /// Does something to each that is there.
    pub fn each(&self, mut what: impl FnMut(&mut TreeFiles)) {
        self.0.lock().values().for_each(|files| what(&mut files.lock()));
    }

    /// The name of a shard's folder.
    #[must_use]
    pub fn path(shard: ShardId) -> PathBuf {
        PathBuf::from(shard.0.to_string())
    }

    fn at(&self, path: &Path) -> SharedFiles {
        let number = path.to_str().and_then(|name| name.parse().ok()).expect("it is the name of a shard's folder");
        self.of(ShardId(number))
    }
}

impl TreeFiles {
    /// Changes whether they can be written.
    pub fn set_medium(&mut self, medium: Medium) {
        self.medium = medium;
    }

    /// Whether they hold a tree.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.image.index == 0
    }

    /// Damages them; true if there is anything to damage.
    pub fn damage(&mut self) -> bool {
        self.damaged = self.image.index > 0;
        self.damaged
    }
}

fn place() -> PathBuf {
    PathBuf::from("simulated tree")
}

/// The process lacks something.
fn short(number: i32) -> Error {
    Error::Io { path: place(), source: std::io::Error::from_raw_os_error(number) }
}

#[derive(Default)]
struct TreeState {
    rows: Rows,
    meta: Rows,
    applied: u64,
    /// Applied index of the last seal.
    sealed: u64,
    pending: Option<Image>,
    poisoned: bool,
    /// Which rows are wanted, if not all of them.
    keep: Option<Keep>,
    /// There are others.
    is_halved: bool,
    /// A bug that was put in on purpose.
    flaw: Flaw,
    /// With a tree that forgets: the rows before the last entry.
    before: Rows,
}

/// A bug of a tree, put in on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    /// None.
    #[default]
    None,
    /// One write in a hundred is lost.
    LosesWrites,
    /// What is forked of it lacks the last entry.
    ForgetsLast,
    /// It takes an entry a second time.
    AppliesAgain,
}

/// A shard's tree in memory, with the image that survives a crash.
pub struct Tree {
    folders: Folders,
    files: SharedFiles,
    state: Mutex<TreeState>,
}

impl Tree {
    /// Opens what a disk has of a shard.
    pub fn open(folders: &Folders, shard: ShardId, flaw: Flaw) -> Result<Self> {
        Self::read(folders, folders.of(shard), flaw)
    }

    fn read(folders: &Folders, files: SharedFiles, flaw: Flaw) -> Result<Self> {
        let held = files.lock();
        if let Medium::Short(number) = held.medium {
            return Err(short(number));
        }
        if held.damaged {
            return Err(Error::Corrupt { path: place(), detail: "a checksum does not match".to_owned() });
        }
        let Image { rows, meta, index, is_halved } = held.image.clone();
        let before = rows.clone();
        let state =
            TreeState { rows, meta, applied: index, sealed: index, is_halved, flaw, before, ..TreeState::default() };
        drop(held);
        Ok(Self { folders: folders.clone(), files, state: Mutex::new(state) })
    }

    /// Puts `image` in the place of the files.
    fn publish(&self, state: &mut TreeState, image: Image) -> Result<()> {
        if state.poisoned {
            return Err(Error::Poisoned { detail: "a simulated fsync failed".to_owned() });
        }
        let mut files = self.files.lock();
        match files.medium {
            Medium::Sound => files.image = image,
            Medium::Full => return Err(Error::Full { path: place() }),
            Medium::Short(number) => return Err(short(number)),
            Medium::Failing => {
                state.poisoned = true;
                return Err(Error::Io { path: place(), source: std::io::Error::other("a simulated fsync failed") });
            }
        }
        files.damaged = false;
        Ok(())
    }
}

impl Engine for Tree {
    fn apply(&self, index: u64, batch: WriteBatch) {
        let mut state = self.state.lock();
        let is_next = index > state.applied || state.flaw == Flaw::AppliesAgain && index == state.applied;
        assert!(is_next, "entry {index} applied after {}", state.applied);
        state.applied = index;
        if state.flaw == Flaw::LosesWrites && index.is_multiple_of(100) {
            return;
        }
        if batch.writes.is_empty() && batch.drops.is_empty() {
            return;
        }
        if state.flaw == Flaw::ForgetsLast {
            state.before = state.rows.clone();
        }
        let rows = Arc::make_mut(&mut state.rows);
        for (key, value) in batch.writes {
            assert!(key.first().is_some_and(|&byte| byte != 0), "an empty or a reserved tree key");
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        }
        for prefix in batch.drops {
            let below = rows.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
            let below: Vec<Slice> = below.map(|(key, _)| key.clone()).collect();
            below.iter().for_each(|key| drop(rows.remove(key)));
        }
    }

    fn applied_index(&self) -> u64 {
        self.state.lock().applied
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        Ok(self.state.lock().rows.get(key).cloned())
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        let state = self.state.lock();
        Box::new(Picture { rows: state.rows.clone(), index: state.applied })
    }

    fn flushed_index(&self) -> u64 {
        self.files.lock().image.index
    }

    fn wants_flush(&self) -> bool {
        // The world decides when.
        false
    }

    fn seal(&self, meta: Vec<(Slice, Slice)>) {
        let mut state = self.state.lock();
        if state.sealed == state.applied {
            return;
        }
        Arc::make_mut(&mut state.meta).extend(meta);
        state.sealed = state.applied;
        let (rows, meta) = (state.rows.clone(), state.meta.clone());
        state.pending = Some(Image { rows, meta, index: state.applied, is_halved: state.is_halved });
    }

    fn needs_flush(&self) -> bool {
        self.state.lock().pending.is_some()
    }

    fn flush(&self) -> Result<()> {
        let mut state = self.state.lock();
        let Some(image) = state.pending.clone() else { return Ok(()) };
        self.publish(&mut state, image)?;
        state.pending = None;
        Ok(())
    }

    fn meta(&self, key: &[u8]) -> Result<Option<Slice>> {
        Ok(self.state.lock().meta.get(key).cloned())
    }

    fn compact(&self) -> Result<bool> {
        Ok(false)
    }

    fn debt(&self) -> f64 {
        0.0
    }

    fn clear(&self, index: u64, meta: Vec<(Slice, Slice)>, rows: Vec<(Slice, Slice)>) -> Result<()> {
        let mut state = self.state.lock();
        assert!(index >= state.applied, "cleared as of {index} after {}", state.applied);
        let (rows, meta) = (Arc::new(rows.into_iter().collect()), Arc::new(meta.into_iter().collect()));
        let image = Image { index, meta, rows, is_halved: false };
        self.publish(&mut state, image.clone())?;
        state.install(image);
        Ok(())
    }

    fn ingest(&self) -> Result<Box<dyn Ingest>> {
        if let Medium::Short(number) = self.files.lock().medium {
            return Err(short(number));
        }
        Ok(Box::new(Building(BTreeMap::new())))
    }

    fn install(&self, ingested: Box<dyn Ingested>) -> std::result::Result<(), NotInstalled> {
        let any: &dyn Any = &*ingested;
        let built = any.downcast_ref::<Built>().expect("built with a simulated tree").0.clone();
        let mut state = self.state.lock();
        assert!(built.index >= state.applied, "the map of {} installed after {}", built.index, state.applied);
        if let Err(error) = self.publish(&mut state, built.clone()) {
            let rows = error.is_lack().then_some(ingested);
            return Err(NotInstalled { error, rows });
        }
        state.install(built);
        Ok(())
    }

    fn fork(&self, folder: &Path, index: u64, meta: Vec<(Slice, Slice)>, _keep: &Keep) -> Result<Arc<dyn Engine>> {
        self.flush()?;
        let mut state = self.state.lock();
        assert_eq!((state.sealed, index), (state.applied, state.applied + 1), "forked where it is not to be");
        let mut all = BTreeMap::clone(&state.meta);
        all.extend(meta);
        let rows = if state.flaw == Flaw::ForgetsLast { state.before.clone() } else { state.rows.clone() };
        let files = self.folders.at(folder);
        let mut held = files.lock();
        if !held.is_empty() {
            return Err(Error::Mismatch { path: folder.to_path_buf(), detail: "holds a tree".to_owned() });
        }
        held.medium = self.files.lock().medium;
        match held.medium {
            // As with links: unwanted rows are among them.
            Medium::Sound => held.image = Image { rows, meta: Arc::new(all), index, is_halved: true },
            Medium::Full => return Err(Error::Full { path: place() }),
            Medium::Short(number) => return Err(short(number)),
            Medium::Failing => {
                return Err(Error::Io { path: place(), source: std::io::Error::other("a simulated fsync failed") });
            }
        }
        drop(held);
        self.files.lock().image.is_halved = true;
        state.is_halved = true;
        Ok(Arc::new(Self::read(&self.folders, files, state.flaw)?))
    }

    fn keep_only(&self, keep: Keep) {
        self.state.lock().keep = Some(keep);
    }

    fn purge(&self) -> Result<bool> {
        let mut state = self.state.lock();
        if let Some(keep) = state.keep.clone() {
            Arc::make_mut(&mut state.rows).retain(|key, _| keep(key));
            state.is_halved = false;
        }
        Ok(false)
    }

    fn stats(&self) -> EngineStats {
        let state = self.state.lock();
        let disk_bytes = state.rows.len() as u64 * ROW_BYTES;
        // Without looking at them, as in a server.
        let unwanted_bytes = if state.is_halved { disk_bytes / 2 } else { 0 };
        EngineStats { disk_bytes, unwanted_bytes, is_halved: state.is_halved, ..EngineStats::default() }
    }

    fn verify(&self) -> Result<()> {
        match self.files.lock().damaged {
            true => Err(Error::Corrupt { path: place(), detail: "a checksum does not match".to_owned() }),
            false => Ok(()),
        }
    }
}

impl TreeState {
    /// The whole map and its meta records are those of `image`, which is in the files.
    fn install(&mut self, image: Image) {
        (self.applied, self.sealed) = (image.index, image.index);
        (self.rows, self.meta, self.is_halved) = (image.rows, image.meta, image.is_halved);
        self.pending = None;
    }
}

/// Rows from elsewhere, aside.
struct Building(BTreeMap<Slice, Slice>);

impl Ingest for Building {
    fn put(&mut self, key: Slice, value: Slice) -> Result<()> {
        if self.0.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return Err(Error::Corrupt { path: place(), detail: "rows were sent out of order".to_owned() });
        }
        self.0.insert(key, value);
        Ok(())
    }

    fn finish(self: Box<Self>, index: u64, meta: Vec<(Slice, Slice)>) -> Result<Box<dyn Ingested>> {
        let meta = Arc::new(meta.into_iter().collect());
        Ok(Box::new(Built(Image { rows: Arc::new(self.0), meta, index, is_halved: false })))
    }
}

/// A map that waits to be installed.
struct Built(Image);

impl Ingested for Built {
    fn index(&self) -> u64 {
        self.0.index
    }

    fn disk_bytes(&self) -> u64 {
        self.0.rows.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
    }
}

/// A snapshot.
struct Picture {
    rows: Rows,
    index: u64,
}

impl Snapshot for Picture {
    fn index(&self) -> u64 {
        self.index
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        Ok(self.rows.get(key).cloned())
    }

    fn cursor(&self, span: Span, reverse: bool) -> Box<dyn Cursor + '_> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        if !span.end.is_empty() && span.end <= span.start {
            return Box::new(Range { rows: Box::new(std::iter::empty()), at: None });
        }
        let high = if span.end.is_empty() { Unbounded } else { Excluded(&span.end[..]) };
        let rows = self.rows.range::<[u8], _>((Included(&span.start[..]), high));
        Box::new(Range { rows: if reverse { Box::new(rows.rev()) } else { Box::new(rows) }, at: None })
    }
}

struct Range<'a> {
    rows: Box<dyn Iterator<Item = (&'a Slice, &'a Slice)> + 'a>,
    at: Option<&'a Slice>,
}

impl Cursor for Range<'_> {
    fn advance(&mut self) -> Result<Option<Slice>> {
        let row = self.rows.next();
        self.at = row.map(|(_, value)| value);
        Ok(row.map(|(key, _)| key.clone()))
    }

    fn value(&mut self) -> Result<Slice> {
        Ok(self.at.expect("a value is asked of a row that the cursor is at").clone())
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
