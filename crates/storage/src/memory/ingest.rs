//! A map in memory that is built aside.

use super::file::{self, Finished, Writer};
use super::state::MemoryState;
use crate::files::system_error;
use crate::health::Health;
use crate::ingest::refusal;
use crate::open_files::{OpenPath, remove_or_condemn};
use crate::throttle::Throttle;
use crate::{Error, Ingest, Ingested, Result, Slice};
use std::any::Any;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where an ingestion writes: this and a number.
const TEMPORARY: &str = "snapshot.ingest-";
/// Bytes of a file between two looks at the rate limit.
const STEP_BYTES: u64 = 1024 * 1024;

/// See `Ingest`.
pub(super) struct MemoryIngest {
    folder: PathBuf,
    throttle: Arc<Throttle>,
    health: Arc<Health>,
    rows: Vec<(Slice, Slice)>,
}

/// See `Ingested`.
pub(super) struct MemoryIngested {
    folder: PathBuf,
    index: u64,
    bytes: u64,
    state: MemoryState,
    file: Finished,
    /// Of the file until it is published; after that there is nothing under its name.
    _held: OpenPath,
}

impl MemoryIngest {
    pub(super) fn begin(folder: &Path, throttle: &Arc<Throttle>, health: &Arc<Health>) -> Result<Self> {
        health.check()?;
        let (throttle, health) = (throttle.clone(), health.clone());
        Ok(Self { folder: folder.to_path_buf(), throttle, health, rows: Vec::new() })
    }

    fn write(&self, name: &str, index: u64, meta: &[(Slice, Slice)]) -> Result<Finished> {
        let mut writer = Writer::create_as(&self.folder, name, index)?;
        for (key, value) in meta {
            writer.meta(key, value)?;
        }
        let mut bytes = 0;
        for (key, value) in &self.rows {
            writer.row(key, value)?;
            bytes += (key.len() + value.len()) as u64;
            if bytes >= STEP_BYTES {
                if !self.throttle.take(bytes) {
                    let source = std::io::ErrorKind::Interrupted.into();
                    return Err(Error::Io { path: self.folder.clone(), source });
                }
                bytes = 0;
            }
        }
        writer.finish()
    }
}

impl Ingest for MemoryIngest {
    fn put(&mut self, key: Slice, value: Slice) -> Result<()> {
        if let Some(detail) = refusal(self.rows.last().map(|(last, _)| last), &key, &value) {
            return Err(Error::Corrupt { path: self.folder.clone(), detail: detail.into() });
        }
        self.rows.push((key, value));
        Ok(())
    }

    fn finish(self: Box<Self>, index: u64, meta: Vec<(Slice, Slice)>) -> Result<Box<dyn Ingested>> {
        let candidates = (1u64..).map(|number| self.folder.join(format!("{TEMPORARY}{number}")));
        let (held, path) = OpenPath::claim(candidates);
        let name = path.file_name().and_then(|name| name.to_str()).expect("it was put together above");
        let file = self.write(name, index, &meta).map_err(|error| self.health.judge(error))?;
        let bytes = fs::metadata(&path).map_or(0, |file| file.len());
        let state = MemoryState::new(self.rows, meta.into_iter().collect());
        Ok(Box::new(MemoryIngested { folder: self.folder, index, bytes, state, file, _held: held }))
    }
}

impl MemoryIngested {
    /// The map, if it was built in `folder`.
    pub(super) fn of(ingested: Box<dyn Ingested>, folder: &Path) -> Box<Self> {
        let ingested: Box<dyn Any> = ingested;
        let this = ingested.downcast::<Self>().expect("what an engine installs was built with it");
        assert_eq!(this.folder, folder, "what an engine installs was built with it");
        this
    }

    /// Makes its file the shard's, and answers the map; on failure itself.
    pub(super) fn publish(self: Box<Self>) -> std::result::Result<MemoryState, (Error, Box<Self>)> {
        match self.file.publish() {
            Ok(()) => Ok(self.state),
            Err(error) => Err((error, self)),
        }
    }
}

impl Ingested for MemoryIngested {
    fn index(&self) -> u64 {
        self.index
    }

    fn disk_bytes(&self) -> u64 {
        self.bytes
    }
}

/// Removes what ingestions left that a crash ended.
pub(super) fn sweep(folder: &Path) -> Result<()> {
    for path in file::with_prefix(folder, TEMPORARY)? {
        remove_or_condemn(&path).map_err(|error| system_error(&path, error))?;
    }
    Ok(())
}
