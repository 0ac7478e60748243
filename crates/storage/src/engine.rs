//! The door to a tree: what the rest of Basalt asks of storage, whatever keeps it.

use crate::{
    EngineStats, Error, HeldBlock, Ingest, Ingested, Keep, Lines, Look, NotInstalled, Result, Slice, Span, Step,
    WriteBatch,
};
use byteview::ByteView;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3Default;

/// Blocks that are read for one key before the last of them is known: parts of filters and indexes.
const BLOCKS_AHEAD_MAX: usize = 16;

/// One shard's ordered map of tree keys to values, each write stamped with its Raft index.
///
/// Invariants: `apply`, `seal`, `clear` and `install` are called by one thread, `apply` with rising indexes; any thread may read
/// at any time. A read sees whole entries only. A snapshot taken when s was the applied index sees exactly the
/// entries with index ≤ s, for as long as it lives, whatever is applied, flushed, compacted, cleared or installed
/// meanwhile.
/// After a crash the map is that of `flushed_index()`, and the log is applied from there.
///
/// Tree keys are not empty, and those that begin with byte 0 are reserved to storage: they are never written by the
/// caller and never seen by scans. A value must own its bytes: one that is a part of a larger buffer keeps the whole
/// buffer in memory.
pub trait Engine: Send + Sync {
    /// Applies one entry. Never waits for the disk. A batch that no engine can hold (`WriteBatch::refusal`) is logged, and
    /// its entry is applied as one that writes nothing: on all replicas alike.
    fn apply(&self, index: u64, batch: WriteBatch);

    /// The index up to which entries are applied and visible (published after the whole entry is in).
    fn applied_index(&self) -> u64;

    /// The value of `key` as of the applied index. May wait for the disk.
    fn get(&self, key: &[u8]) -> Result<Option<Slice>>;

    /// As `get`, but it tells a long value, and does not read it: see `Snapshot::get_short`.
    fn get_short(&self, key: &[u8], bytes_max: usize) -> Result<Short> {
        Ok(Short::of(self.get(key)?, bytes_max))
    }

    /// As `get`, but it does not wait: what is neither in memory nor in `held` it tells.
    fn look(&self, key: &[u8], held: &[HeldBlock]) -> Look {
        let _ = (key, held);
        Look::Unknown
    }

    /// Has the disk begin to read what `get` of `key` will need, where that can be told. A hint: it answers nothing, and
    /// may do nothing.
    fn prefetch(&self, key: &[u8]) {
        for _ in 0..BLOCKS_AHEAD_MAX {
            match self.look(key, &[]) {
                Look::Missing(block) if !block.ask_for() => {}
                _ => return,
            }
        }
    }

    /// By what `note` finds a key's row, until the next `seal`.
    fn hash(&self, key: &[u8]) -> u64 {
        let _ = key;
        0
    }

    /// Notes what `apply` of writes of keys of those hashes will look at in memory, for one step. A hint.
    fn note(&self, hashes: &[u64], step: Step, lines: &mut Lines) {
        let _ = (hashes, step, lines);
    }

    /// Whether a scan begins at once. If not, rows in memory are to be put in order first, which takes milliseconds and more:
    /// an event loop leaves that to `prepare_scans`, and scans later. Cheap.
    fn scans_at_once(&self) -> bool {
        true
    }

    /// Puts rows in memory in order, if `scans_at_once` has said no since the last call. For background threads.
    fn prepare_scans(&self) {}

    /// A snapshot as of the applied index. Holding it keeps old versions alive: keep it short, unless it is for a
    /// transfer. It may outlive the engine.
    fn snapshot(&self) -> Box<dyn Snapshot>;

    /// The index that survives a crash: everything up to it is in files.
    fn flushed_index(&self) -> u64;

    /// Whether a flush costs what was written since the one before, and not what there is: then it may be made for the
    /// log's sake.
    fn flush_is_partial(&self) -> bool {
        true
    }

    /// Whether the memory that unsealed writes take makes a `seal` worthwhile. Cheap: asked after every entry.
    fn wants_flush(&self) -> bool;

    /// Sets everything applied so far apart, for the next `flush`, together with `meta`: records of the layers above
    /// that must be exactly as of the applied index (counters, say). Called by the applying thread between two
    /// entries; does nothing if nothing was applied since the last one. Meta keys are a space of their own; those
    /// not given keep their last value.
    fn seal(&self, meta: Vec<(Slice, Slice)>);

    /// Whether something was sealed that is not yet in files: then `flush` has work (again, if it failed before).
    fn needs_flush(&self) -> bool;

    /// Writes what was sealed to files and fsyncs them; afterwards `flushed_index()` is at least the applied index of
    /// the last `seal` before the call. Blocks; for background threads. After `Error::Full`, and after what passes
    /// (`Error::is_passing`), nothing is lost and it may be called again; after any other failure to write, the engine is
    /// poisoned.
    fn flush(&self) -> Result<()>;

    /// The applied index of the last `seal` of which `flush` has something to write, 0 if there is none; what is sealed
    /// later has a greater one. `u64::MAX` if the engine cannot tell them apart. Cheap.
    fn sealed_index(&self) -> u64 {
        u64::MAX
    }

    /// As `flush`, but what was sealed as of a later entry than `index` is not written. For a caller that has to fsync the
    /// log first: it asks for the `sealed_index`, fsyncs, and flushes up to there. So no file holds an entry that the log
    /// could still lose.
    fn flush_to(&self, index: u64) -> Result<()> {
        let _ = index;
        self.flush()
    }

    /// The value of a meta record as of the last `seal` (after a restart: as of `flushed_index()`).
    fn meta(&self, key: &[u8]) -> Result<Option<Slice>>;

    /// One step of compaction, if any is due, and the removal of what a clear left; true if there may be more to do. Blocks; for background threads.
    fn compact(&self) -> Result<bool>;

    /// How far background work is behind: 0 is not at all; at 1 and above, writers should be held up as long as the
    /// node is willing to. Cheap.
    fn debt(&self) -> f64;

    /// Removes every key but those of `rows`, whose values are given anew, and every meta record but those of `meta`, as
    /// of entry `index`, durably: afterwards `applied_index()` and `flushed_index()` are `index`, and a crash at any
    /// moment leaves either the old map or the new one with `flushed_index() == index`. An entry that clears and then
    /// writes clears as of the index before its own, and applies its writes: so a replay repeats both. On failure
    /// nothing has changed.
    fn clear(&self, index: u64, meta: Vec<(Slice, Slice)>, rows: Vec<(Slice, Slice)>) -> Result<()>;

    /// Begins to build another map aside, from rows of another replica. Any thread may; the map that is in use
    /// neither knows nor waits.
    fn ingest(&self) -> Result<Box<dyn Ingest>>;

    /// Replaces the whole map and all meta records by what was built with this engine, durably: afterwards
    /// `applied_index()` and `flushed_index()` are the index that it was finished with, which is at least the applied
    /// index before. A crash at any moment leaves the old map or the new one. Snapshots of the old one stay readable.
    /// Called by the applying thread, like `clear`; it does not copy anything. On failure nothing has changed, unless
    /// the engine is poisoned; for want of room, descriptors or memory the map is handed back.
    fn install(&self, ingested: Box<dyn Ingested>) -> std::result::Result<(), NotInstalled>;

    /// A fork is about to be asked for: compaction that it would undo may wait, for a while. Cheap.
    fn expect_fork(&self) {}

    /// Makes another map in `folder`, which holds none: this one's rows, as of entry `index`, which is the one after
    /// the applied index, with `meta` above its meta records. Rows that `keep` does not want may be among them. Durably:
    /// a crash before the end leaves a folder that holds none. Files are shared, not copied, where they never change.
    ///
    /// Everything applied is sealed, and nothing is applied, sealed, cleared or installed meanwhile. Blocks; for
    /// background threads; it flushes first. After `Error::Full` it may be called again.
    fn fork(&self, folder: &Path, index: u64, meta: Vec<(Slice, Slice)>, keep: &Keep) -> Result<Arc<dyn Engine>> {
        let _ = (index, meta, keep);
        let detail = "cannot be forked by this engine".to_owned();
        Err(Error::Mismatch { path: folder.to_path_buf(), detail })
    }

    /// Rows that `keep` does not want may go from now on, at any time and without a trace: no caller asks for them. It
    /// is to be said again after each start.
    fn keep_only(&self, keep: Keep) {
        let _ = keep;
    }

    /// One step that frees the room of rows below dropped prefixes, and of rows of a forked map that are not wanted; true
    /// if there may be more to do. Blocks, for long; for a background thread of its own.
    fn purge(&self) -> Result<bool> {
        Ok(false)
    }

    /// Room is wanted: a later `compact` gives back what removed rows take, whatever that costs; to be asked where it is much. True
    /// if most of it comes back only after a `seal` and a `flush`: then it is to be asked again. Cheap.
    fn reclaim(&self) -> bool {
        false
    }

    /// The map is to be removed: compactions and purges of it end early, and no other begins. There is no way back.
    fn abandon(&self) {}

    /// Figures of the tree.
    fn stats(&self) -> EngineStats;

    /// Reads every block and checks every checksum; the error names the file. Blocks.
    fn verify(&self) -> Result<()>;
}

/// A consistent view of one tree.
pub trait Snapshot: Send {
    /// The index that this is a view of.
    fn index(&self) -> u64;

    /// The value of `key` then.
    fn get(&self, key: &[u8]) -> Result<Option<Slice>>;

    /// As `get`, but a value of more than `bytes_max` bytes, as it is stored, is told to be long; where that can be told before
    /// it is read, it is not read.
    fn get_short(&self, key: &[u8], bytes_max: usize) -> Result<Short> {
        Ok(Short::of(self.get(key)?, bytes_max))
    }

    /// As `get`, but it does not wait: see `Engine::look`.
    fn look(&self, key: &[u8], held: &[HeldBlock]) -> Look {
        let _ = (key, held);
        Look::Unknown
    }

    /// A key of `span`, each with the same probability, in a time that does not grow with their number; `None` if there is
    /// none, if few of the tree's rows are in the span, or if this engine cannot. `below` draws a number below its argument.
    fn sample(&self, span: &Span, below: &mut dyn FnMut(u64) -> u64) -> Result<Option<Slice>> {
        let _ = (span, below);
        Ok(None)
    }

    /// The rows of `span` in order, or in reverse order.
    fn cursor(&self, span: Span, reverse: bool) -> Box<dyn Cursor + '_>;

    /// The keys and values of `span` in order, or in reverse order; after an error there is nothing more.
    fn iter(&self, span: Span, reverse: bool) -> Box<dyn Iterator<Item = Result<(Slice, Slice)>> + '_> {
        self.iter_passing(u64::MAX, span, reverse)
    }

    /// The same, of a cursor that passes over so many removals at the most: see `Cursor::pass_at_most`.
    fn iter_passing(
        &self,
        removals_max: u64,
        span: Span,
        reverse: bool,
    ) -> Box<dyn Iterator<Item = Result<(Slice, Slice)>> + '_> {
        let mut cursor = self.cursor(span, reverse);
        cursor.pass_at_most(removals_max);
        let mut failed = false;
        Box::new(std::iter::from_fn(move || {
            if failed {
                return None;
            }
            let row = cursor.advance().and_then(|key| key.map(|key| Ok((key, cursor.value()?))).transpose());
            failed = row.is_err();
            row.transpose()
        }))
    }

    /// A hash of the keys and values of `span` in order: equal for replicas that hold the same rows, whatever their
    /// engines and settings. Reads them all.
    fn digest(&self, span: Span) -> Result<u64> {
        let mut hasher = Xxh3Default::new();
        let mut cursor = self.cursor(span, false);
        while let Some(key) = cursor.advance()? {
            let value = cursor.value()?;
            // The lengths keep rows apart that only together are the same bytes.
            hasher.update(&(key.len() as u64).to_le_bytes());
            hasher.update(&(value.len() as u64).to_le_bytes());
            hasher.update(&key);
            hasher.update(&value);
        }
        Ok(hasher.digest())
    }
}

/// A value, unless it is long.
pub enum Short {
    /// The value, if there is one.
    Found(Option<Slice>),
    /// It is longer than wanted.
    Long,
}

impl Short {
    /// What was found, if it has at most `bytes_max` bytes.
    #[must_use]
    pub fn of(found: Option<Slice>, bytes_max: usize) -> Self {
        if found.as_ref().is_some_and(|value| value.len() > bytes_max) { Self::Long } else { Self::Found(found) }
    }
}

/// The bytes from `at` on: a part of what `whole` refers to, not a copy, unless they are few.
#[must_use]
pub fn tail_of(whole: Slice, at: usize) -> Slice {
    Slice::from(ByteView::from(whole).slice(at..))
}

/// Rows of a snapshot, one after the other. Nothing is read of a row before it is moved to, and its value only if it
/// is asked for.
pub trait Cursor {
    /// Moves to the next row (at first: to the first one) and tells its key; `None` after the last. After an error the
    /// cursor is of no more use.
    fn advance(&mut self) -> Result<Option<Slice>>;

    /// From here on it passes over so many removals, and with the next one `advance` is `Error::ManyRemovals`: what was removed and is not
    /// compacted yet costs a scan as much as rows do. An engine that keeps none has nothing to pass.
    fn pass_at_most(&mut self, removals: u64) {
        let _ = removals;
    }

    /// The value of the row that it is at.
    fn value(&mut self) -> Result<Slice>;

    /// The first `VALUE_HEAD_BYTES` of that value, or more of it, or all of a shorter one. Of a value that is kept in a
    /// file of its own, only these are read, and its checksum, which is of the whole, is not compared.
    fn value_head(&mut self) -> Result<Slice> {
        self.value()
    }
}
