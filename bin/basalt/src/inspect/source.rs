//! A data directory, open for reading only.

use cluster::Map;
use replica::{Entry, GroupState, LogInspection};
use server::Identity;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use storage::Inspection;
use vocab::{ShardId, Slot};

/// A data directory that is read here. While it is open, no store starts on the directory.
pub struct Source {
    root: PathBuf,
    /// The same, from the root of the file system on and without links.
    whole: Option<PathBuf>,
    identity: Identity,
    map: Option<Map>,
    log: LogInspection,
    running: bool,
    _lock: Option<File>,
}

impl Source {
    /// Opens `root`; one that a process uses only if it may be `live`.
    pub fn open(root: &Path, live: bool) -> Result<Self, String> {
        let shown = root.display();
        std::fs::read_dir(root).map_err(|error| format!("{shown}: {error}"))?;
        let (lock, running) = share_lock(root)?;
        if running && !live {
            return Err(format!("{shown} is in use: stop that process, look at a copy, or look at it --live"));
        }
        let identity =
            Identity::read(root)?.ok_or_else(|| format!("{shown} is not a data directory: no basalt.node"))?;
        let log = LogInspection::open(&root.join("log")).map_err(|error| error.to_string())?;
        let map = server::read_map(root)?;
        let whole = root.canonicalize().ok();
        Ok(Self { root: root.to_owned(), whole, identity, map, log, running, _lock: lock })
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// How a file below the directory is named in reports.
    pub fn relative(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.root).ok();
        let below = below.or_else(|| path.strip_prefix(self.whole.as_ref()?).ok());
        below.unwrap_or(path).display().to_string()
    }

    /// What it was made with.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The log.
    pub fn log(&self) -> &LogInspection {
        &self.log
    }

    /// Whether a process uses it.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// The shards that this node has a replica of, by id; 0 is the metadata group.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        let mine = self.map.iter().flat_map(|map| map.replicas_on(self.identity.node)).map(|(shard, _)| shard);
        mine.collect::<Vec<_>>().into_iter()
    }

    /// How many trees there are where no map tells which of them are this node's: nothing reads them.
    pub fn unmapped_trees(&self) -> u64 {
        let trees = || std::fs::read_dir(self.root.join("shards")).into_iter().flatten().filter(Result::is_ok).count();
        if self.map.is_some() { 0 } else { trees() as u64 }
    }

    /// The shard of that number, if there is one.
    pub fn shard(&self, number: u32) -> Result<ShardId, String> {
        if self.shards().any(|shard| shard.0 == number) {
            return Ok(ShardId(number));
        }
        let shards: Vec<_> = self.shards().map(|shard| shard.to_string()).collect();
        Err(format!("there is no shard {number} here: there are {}", shards.join(", ")))
    }

    /// First and last slot of a shard; of the metadata group, which owns none, 0 twice.
    pub fn slots(&self, shard: ShardId) -> (u16, u16) {
        let info = self.map.as_ref().and_then(|map| map.shards.get(&shard));
        let slots = info.and_then(|info| Some((info.slots.first()?.0, info.slots.last()?.1)));
        slots.unwrap_or_default()
    }

    /// The shard that owns a slot, if this node has a replica of it.
    pub fn owner(&self, slot: Slot) -> Result<ShardId, String> {
        let map = self.map.as_ref().ok_or("this node belongs to no store yet")?;
        let owner = map.data_shards().find(|(_, info)| info.owns(slot)).map(|(id, _)| id);
        let owner = owner.ok_or("no shard owns the slot")?;
        self.shard(owner.0)
    }

    /// The tree of a shard as its files have it.
    pub fn tree(&self, shard: ShardId) -> Result<Inspection, String> {
        let folder = self.root.join("shards").join(shard.to_string());
        storage::inspect_engine(self.identity.engine, &folder).map_err(tell)
    }

    /// What the log holds about a shard.
    pub fn group(&self, shard: ShardId) -> Result<GroupState, String> {
        let state = self.log.state(shard).map_err(|error| error.to_string())?;
        state.ok_or_else(|| format!("the log knows nothing of shard {shard}"))
    }

    /// The entries `from..=to` of a shard's log that are there.
    pub fn entries(&self, shard: ShardId, from: u64, to: u64) -> impl Iterator<Item = Result<Entry, String>> + '_ {
        self.log.entries(shard, from, to).map(|entry| entry.map_err(|error| error.to_string()))
    }
}

/// An error in words; a file that was reached through a link is named by its own path.
pub fn tell(error: storage::Error) -> String {
    let home = |path: PathBuf| std::fs::read_link(&path).unwrap_or(path);
    match error {
        storage::Error::Corrupt { path, detail } => storage::Error::Corrupt { path: home(path), detail },
        storage::Error::Io { path, source } => storage::Error::Io { path: home(path), source },
        other => other,
    }
    .to_string()
}

/// Keeps a store from starting meanwhile; tells whether one runs already. Makes no lock file.
fn share_lock(root: &Path) -> Result<(Option<File>, bool), String> {
    let path = root.join("LOCK");
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((None, false)),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok((Some(file), false)),
        Err(TryLockError::WouldBlock) => Ok((None, true)),
        Err(TryLockError::Error(error)) => Err(format!("{}: {error}", path.display())),
    }
}
