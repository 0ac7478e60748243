//! A tree that is built aside, from rows in order.
//!
//! Rows go through lsm-tree's ingestion, a batch at a time: each makes a table and, of large values, a blob file, and is
//! moved down to the last level without being written again. So memory is bounded by a batch.
//!
//! Invariant: rows have sequence number 0, below every index, because the index is known only at the end. A key's version
//! is in its record.

use super::fault::contain;
use super::generation::{Generation, prepare_pointer};
use super::view::{APPLIED_KEY, View, applied_record, meta_key, read_applied};
use crate::envelope::Packing;
use crate::health::Health;
use crate::ingest::refusal;
use crate::throttle::Throttle;
use crate::{Error, Ingest, Ingested, Result, SharedResources, Slice};
use lsm_tree::AbstractTree;
use std::any::Any;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vocab::limits::INGEST_BATCH_BYTES_SOFT;

/// What a row costs in a batch beyond its key and value.
const ROW_OVERHEAD_BYTES: usize = 64;

/// See `Ingest`.
pub(super) struct LsmIngest {
    shard: PathBuf,
    generation: Arc<Generation>,
    packing: Packing,
    throttle: Arc<Throttle>,
    health: Arc<Health>,
    batch: Vec<(Slice, Slice)>,
    batch_bytes: usize,
    batch_bytes_max: usize,
    last: Option<Slice>,
}

/// See `Ingested`. The generation is condemned until it is installed.
pub(super) struct LsmIngested {
    shard: PathBuf,
    generation: Arc<Generation>,
    index: u64,
}

impl LsmIngest {
    /// Fills `generation`, which is new, for the shard in a folder.
    pub(super) fn new(
        shard: &Path,
        generation: Arc<Generation>,
        packing: Packing,
        shared: &SharedResources,
        health: &Arc<Health>,
    ) -> Self {
        let table_bytes = usize::try_from(shared.options.table_bytes).unwrap_or(usize::MAX);
        Self {
            shard: shard.to_path_buf(),
            generation,
            packing,
            throttle: shared.throttle.clone(),
            health: health.clone(),
            batch: Vec::new(),
            batch_bytes: 0,
            batch_bytes_max: table_bytes.min(INGEST_BATCH_BYTES_SOFT),
            last: None,
        }
    }

    /// Writes the batch to files and fsyncs them.
    fn write_batch(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        if !self.throttle.take(self.batch_bytes as u64) {
            return Err(Error::Io { path: self.generation.folder.clone(), source: ErrorKind::Interrupted.into() });
        }
        self.batch_bytes = 0;
        let (generation, batch) = (&self.generation, self.batch.drain(..));
        contain(&generation.folder, || {
            let mut ingestion = generation.ingestion()?;
            for (key, value) in batch {
                ingestion.write(key, value)?;
            }
            ingestion.finish()?;
            // Nothing overlaps: this moves the table and lets go of the manifest before.
            generation.tree().compact(generation.strategy(), u64::MAX)
        })
        .map_err(|error| self.health.judge(error))
    }
}

/// Writes what is storage's own into a tree without readers, as of `index`, and makes sure that all is on disk.
pub(super) fn stamp(
    generation: &Generation,
    packing: Packing,
    index: u64,
    meta: Vec<(Slice, Slice)>,
) -> lsm_tree::Result<()> {
    let tree = generation.tree();
    for (key, value) in meta {
        tree.insert(meta_key(&key), packing.pack(value), index);
    }
    tree.insert(APPLIED_KEY, applied_record(index), index);
    tree.rotate_memtable();
    tree.flush(&tree.get_flush_lock(), u64::MAX)?;
    // Not before the manifest names them, but before the pointer names the tree.
    Ok(generation.blob_dir.sync()?)
}

impl Ingest for LsmIngest {
    fn put(&mut self, key: Slice, value: Slice) -> Result<()> {
        if let Some(detail) = refusal(self.last.as_ref(), &key, &value) {
            return Err(Error::Corrupt { path: self.generation.folder.clone(), detail: detail.into() });
        }
        let value = self.packing.pack(value);
        self.batch_bytes += key.len() + value.len() + ROW_OVERHEAD_BYTES;
        self.last = Some(key.clone());
        self.batch.push((key, value));
        if self.batch_bytes < self.batch_bytes_max { Ok(()) } else { self.write_batch() }
    }

    fn finish(mut self: Box<Self>, index: u64, meta: Vec<(Slice, Slice)>) -> Result<Box<dyn Ingested>> {
        self.write_batch()?;
        let stamped = contain(&self.generation.folder, || stamp(&self.generation, self.packing, index, meta));
        stamped.map_err(|error| self.health.judge(error))?;
        prepare_pointer(&self.generation).map_err(|error| self.health.judge(error))?;
        let found = read_applied(&View::of_files(self.generation.clone(), index))?;
        assert_eq!(found, index, "an ingestion does not hold what was written last");
        Ok(Box::new(LsmIngested { shard: self.shard, generation: self.generation, index }))
    }
}

impl LsmIngested {
    /// Its tree and index, if it was built for `shard`.
    pub(super) fn parts(ingested: &dyn Ingested, shard: &Path) -> (Arc<Generation>, u64) {
        let ingested: &dyn Any = ingested;
        let this = ingested.downcast_ref::<Self>().expect("what an engine installs was built with it");
        assert_eq!(this.shard, shard, "what an engine installs was built with it");
        (this.generation.clone(), this.index)
    }
}

impl Ingested for LsmIngested {
    fn index(&self) -> u64 {
        self.index
    }

    fn disk_bytes(&self) -> u64 {
        self.generation.tree().disk_space()
    }
}
