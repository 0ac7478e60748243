//! The data directory: who owns it, and what it was made with. docs/FORMATS.md has the layout.
//!
//! ```text
//! LOCK        held while a process uses the directory
//! basalt.node format version, node id, shards and engine, one `name value` a line, with a checksum
//! basalt.map  a map that this node has heard of; absent before it belongs to a store
//! basalt.map.changes  the changes since, of which the newest map comes
//! basalt.rebuild  replicas whose log and tree were set aside (`start --rebuild`): shard and replica, one pair a line
//! basalt.groups  there while the log has groups: without any, it has been lost
//! basalt.skipped  entries that replicas go on without (`start --skip-entry`): shard and entry, one pair a line
//! log/        the Raft log of all shards
//! shards/N/   the tree of shard N; 0 is the metadata group's
//! ```

use cluster::{MadeChange, Map, MapFiles, MapUpdate, MapWrite};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use storage::EngineKind;
use vocab::{NodeId, Prng, ReplicaId, ShardId};

const IDENTITY_FILE: &str = "basalt.node";
const MAP_FILE: &str = "basalt.map";
const MAP_CHANGES_FILE: &str = "basalt.map.changes";
/// Ends the name of a tree's folder that is being removed.
const GONE: &str = "gone";
const REBUILD_FILE: &str = "basalt.rebuild";
const GROUPS_FILE: &str = "basalt.groups";
const GROUPS_TEXT: &str = "the log has groups: without any, it has been lost\n";
const SKIPPED_FILE: &str = "basalt.skipped";
/// How the names of the log's files end.
const LOG_FILES: [&str; 2] = ["raftlog", "rewrite"];

/// What a data directory was made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The node that owns it.
    pub node: NodeId,
    /// The node's id as clients of Redis Cluster want it: 40 hexadecimal digits.
    pub name: String,
    /// How many shards.
    pub shards: u32,
    /// What keeps the trees.
    pub engine: EngineKind,
}

/// An open data directory. Dropping it releases the lock.
#[derive(Debug)]
pub struct DataDir {
    root: PathBuf,
    identity: Identity,
    /// Replicas that have lost everything: they may have made promises that no node knows any more, so they never take part
    /// again.
    set_aside: BTreeSet<(ShardId, ReplicaId)>,
    /// What the files with the map hold.
    map_files: Mutex<MapFiles>,
    /// Whether it is noted that the log has groups.
    has_groups: Mutex<bool>,
    _lock: File,
}

impl DataDir {
    /// Opens `root`, or makes it with the given shape. A directory that exists keeps its own shape.
    pub fn open(root: &Path, shards: u32, engine: EngineKind, seed: u64) -> Result<Self, String> {
        let fail = |what: &str, e: &io::Error| format!("{what} {}: {e}", root.display());
        make_durably(root).map_err(|e| match std::fs::read_link(root) {
            Ok(target) if !root.exists() => {
                format!("{} is a symbolic link to {}, which does not exist", root.display(), target.display())
            }
            _ => fail("cannot make", &e),
        })?;
        let path = root.join("LOCK");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(path);
        let lock = lock.map_err(|e| fail("cannot write in", &e))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| format!("{} is locked by another process", root.display()))?;
        let identity = match Identity::read(root)? {
            Some(identity) => identity,
            None => {
                let mut prng = Prng::new(seed);
                let node = NodeId(prng.next_u64() >> 1 | 1);
                let name = format!("{:016x}{:016x}{:08x}", node.0, prng.next_u64(), prng.next_u64() as u32);
                let identity = Identity { node, name, shards, engine };
                identity.write(root).map_err(|e| fail("cannot write in", &e))?;
                identity
            }
        };
        if identity.engine != engine {
            let made_with = identity.engine.name();
            let root = root.display();
            return Err(format!("{root} was made with the {made_with} engine: start it with --engine {made_with}"));
        }
        let set_aside = read_pairs(root, REBUILD_FILE)?.into_iter();
        Ok(Self {
            root: root.to_owned(),
            identity,
            set_aside: set_aside.map(|(shard, replica)| (shard, ReplicaId(replica))).collect(),
            map_files: Mutex::default(),
            has_groups: Mutex::new(root.join(GROUPS_FILE).exists()),
            _lock: lock,
        })
    }

    /// Sets log and trees aside, for replicas that are to be made anew from their peers; answers where they are then. The
    /// node keeps its identity and its map. None: that was done before, and they are not all made anew yet; unless the log has been lost since.
    pub(crate) fn rebuild(&mut self) -> Result<Option<PathBuf>, String> {
        let fail = |e: io::Error| format!("cannot set {} aside: {e}", self.root.display());
        let map = read_map(&self.root)?.ok_or("a node without a store has nothing to rebuild")?;
        let mine: Vec<_> = map.replicas_on(self.identity.node).map(|(shard, replica)| (shard, replica.id)).collect();
        if mine.iter().any(|pair| self.set_aside.contains(pair)) && self.has_log() {
            return Ok(None);
        }
        self.set_aside.extend(mine);
        write_pairs(&self.root, REBUILD_FILE, &self.set_aside).map_err(fail)?;
        let folder = (1..).map(|n| self.root.join(format!("aside-{n}"))).find(|folder| !folder.exists());
        let folder = folder.expect("there is always another number");
        std::fs::create_dir(&folder).map_err(fail)?;
        for name in ["log", "shards"].into_iter().filter(|name| self.root.join(name).exists()) {
            std::fs::rename(self.root.join(name), folder.join(name)).map_err(fail)?;
        }
        sync_folder(&self.root).map_err(fail)?;
        self.forget_groups()?;
        Ok(Some(folder))
    }

    /// Whether there are files of a log.
    pub(crate) fn has_log(&self) -> bool {
        let is_of_log = |path: PathBuf| path.extension().is_some_and(|end| LOG_FILES.iter().any(|of| end == *of));
        match std::fs::read_dir(self.log()) {
            Ok(entries) => entries.flatten().any(|entry| is_of_log(entry.path())),
            // What else is wrong with the folder is told when the log is opened.
            Err(e) => e.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Whether the map gives this node a replica that was not set aside.
    pub(crate) fn has_replicas(&self) -> Result<bool, String> {
        let Some(map) = read_map(&self.root)? else { return Ok(false) };
        let mut given = map.replicas_on(self.identity.node);
        Ok(given.any(|(shard, replica)| !self.is_set_aside(shard, replica.id)))
    }

    /// Whether it is noted that the log has groups.
    pub(crate) fn has_groups(&self) -> bool {
        *self.has_groups.lock()
    }

    /// Notes that the log has groups, durably: from here on one that has none has been lost. To be called behind the write that begins the
    /// first of them and before its replica promises anything to others.
    pub(crate) fn note_groups(&self) {
        let mut has_groups = self.has_groups.lock();
        if !*has_groups {
            match replace_in(&self.root, GROUPS_FILE, GROUPS_TEXT.as_bytes()) {
                Ok(()) => *has_groups = true,
                Err(e) => log::warn!("{}: a loss of the log would not be noticed: {e}", self.root.display()),
            }
        }
    }

    /// The log is about to have no group any more, and that is no loss. An error: the note may be there still, and the groups have to be, too.
    pub(crate) fn forget_groups(&self) -> Result<(), String> {
        let mut has_groups = self.has_groups.lock();
        if !*has_groups {
            return Ok(());
        }
        let path = self.root.join(GROUPS_FILE);
        let removed = std::fs::remove_file(&path).and_then(|()| sync_folder(&self.root));
        // A note that is gone, if only until a loss of power, is to be made again for the next group.
        *has_groups = removed.is_err() && path.exists();
        removed.map_err(|e| format!("cannot remove {}: {e}", path.display()))
    }

    /// Entries that replicas here go on without, as earlier starts have noted.
    pub(crate) fn skipped(&self) -> Result<BTreeSet<(ShardId, u64)>, String> {
        read_pairs(&self.root, SKIPPED_FILE)
    }

    /// Notes all of them.
    pub(crate) fn note_skipped(&self, skipped: &BTreeSet<(ShardId, u64)>) -> Result<(), String> {
        write_pairs(&self.root, SKIPPED_FILE, skipped).map_err(|e| format!("{}: {e}", self.root.display()))
    }

    /// Whether that replica has lost everything.
    pub(crate) fn is_set_aside(&self, shard: ShardId, replica: ReplicaId) -> bool {
        self.set_aside.contains(&(shard, replica))
    }

    /// What it was made with.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// Keeps a map: a crash leaves it or the one before.
    pub fn keep_map(&self, update: &MapUpdate) -> Result<(), String> {
        let mut files = self.map_files.lock();
        let write = files.write(update);
        let done = match &write {
            MapWrite::Whole(bytes) => {
                let done = replace_in(&self.root, MAP_FILE, bytes).and_then(|()| self.drop_map_changes());
                done.map_err(|e| (MAP_FILE, e))
            }
            MapWrite::Append(bytes) => self.append_map_changes(bytes).map_err(|e| (MAP_CHANGES_FILE, e)),
        };
        files.written(&write, done.is_ok());
        done.map_err(|(name, e)| format!("{}: {e}", self.root.join(name).display()))
    }

    fn append_map_changes(&self, bytes: &[u8]) -> io::Result<()> {
        let path = self.root.join(MAP_CHANGES_FILE);
        let is_new = !path.exists();
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        if is_new { sync_folder(&self.root) } else { Ok(()) }
    }

    /// The whole map has them: a crash before they are gone does no harm.
    fn drop_map_changes(&self) -> io::Result<()> {
        match OpenOptions::new().write(true).open(self.root.join(MAP_CHANGES_FILE)) {
            Ok(file) => file.set_len(0),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Makes the folders of trees that have none, durable together: by itself each would cost an fsync of the one above.
    pub(crate) fn make_folders(&self, shards: impl Iterator<Item = ShardId>) -> Result<(), String> {
        let above = self.root.join("shards");
        let fail = |e: io::Error| format!("cannot make folders in {}: {e}", above.display());
        if !above.is_dir() {
            std::fs::create_dir(&above).and_then(|()| sync_folder(&self.root)).map_err(fail)?;
        }
        let mut made = false;
        for folder in shards.map(|shard| self.shard(shard)) {
            match std::fs::create_dir(&folder) {
                Ok(()) => made = true,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(fail(e)),
            }
        }
        if made { sync_folder(&above).map_err(fail) } else { Ok(()) }
    }

    /// The folder of one shard's tree.
    #[must_use]
    pub fn shard(&self, shard: ShardId) -> PathBuf {
        self.root.join("shards").join(shard.to_string())
    }

    /// Removes a tree, as one: a crash leaves it or nothing of it.
    pub(crate) fn remove_tree(&self, shard: ShardId) -> Result<(), String> {
        let folder = self.shard(shard);
        if !folder.exists() {
            return Ok(());
        }
        let gone = folder.with_extension(GONE);
        let fail = |e: std::io::Error| format!("cannot remove {}: {e}", folder.display());
        if gone.exists() {
            std::fs::remove_dir_all(&gone).map_err(fail)?;
        }
        std::fs::rename(&folder, &gone).map_err(fail)?;
        folder.parent().map_or(Ok(()), sync_folder).map_err(fail)?;
        std::fs::remove_dir_all(&gone).map_err(fail)
    }

    /// The shards that have a folder.
    pub(crate) fn trees(&self) -> Vec<ShardId> {
        let Ok(entries) = std::fs::read_dir(self.root().join("shards")) else { return Vec::new() };
        let shard = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok().map(ShardId);
        entries.flatten().filter_map(shard).collect()
    }

    /// Removes what a crash has left of trees that were being removed.
    pub(crate) fn remove_gone(&self) {
        let Ok(entries) = std::fs::read_dir(self.root().join("shards")) else { return };
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.extension() == Some(GONE.as_ref())) {
            if let Err(e) = std::fs::remove_dir_all(&path) {
                log::warn!("cannot remove {}: {e}", path.display());
            }
        }
    }
}

/// Makes a folder, and those above it that are missing; their names are on the disk then.
fn make_durably(folder: &Path) -> io::Result<()> {
    let missing = folder.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let missing: Vec<&Path> = missing.collect();
    std::fs::create_dir_all(folder)?;
    for above in missing.iter().filter_map(|made| made.parent()) {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        // It may be one that this user may write, and not read.
        if let Err(e) = sync_folder(above) {
            log::warn!("{}: a loss of power may take {} back: {e}", above.display(), folder.display());
        }
    }
    Ok(())
}

fn sync_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::File::open(folder)?.sync_all()
}

impl Identity {
    /// The number of the directory's layout.
    pub const FORMAT: u32 = 2;

    /// Reads what a directory was made with; `None` if there is no such file.
    pub fn read(root: &Path) -> Result<Option<Self>, String> {
        let path = root.join(IDENTITY_FILE);
        let mut text = String::new();
        match File::open(&path).and_then(|mut file| file.read_to_string(&mut text)) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(format!("{}: {e}", path.display())),
        }
        let shown = path.display();
        match Self::parse(&text).map_err(|detail| format!("corrupt data in {shown}: {detail}"))? {
            Ok(identity) => Ok(Some(identity)),
            Err(format) if format < Self::FORMAT => Err(format!(
                "{shown} is of format {format}, which an earlier version of basalt wrote; this one reads format {} only, and \
                 nothing was changed: start the earlier version on it and copy the data over (KV.RANGE or SCAN with DUMP \
                 and RESTORE), or start with an empty --data",
                Self::FORMAT
            )),
            Err(format) => Err(format!(
                "{shown} is of format {format}, which a later version of basalt wrote; this one reads format {} only, and \
                 nothing was changed: start the later version",
                Self::FORMAT
            )),
        }
    }

    /// `Err` within: the number of another format, of which no more can be said.
    fn parse(text: &str) -> Result<Result<Self, u32>, String> {
        let (body, check) = text.rsplit_once("check ").ok_or("no checksum")?;
        let expected = u32::from_str_radix(check.trim(), 16).map_err(|_| "the checksum cannot be read")?;
        if crc32fast::hash(body.as_bytes()) != expected {
            return Err("the checksum does not match".to_owned());
        }
        let field = |name: &str| {
            let line = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.ok_or_else(|| format!("no {name}"))
        };
        let format: u32 = field("format")?.parse().map_err(|_| "the format cannot be read")?;
        if format != Self::FORMAT {
            return Ok(Err(format));
        }
        let name = field("node")?.to_owned();
        let node = name.get(..16).and_then(|hex| u64::from_str_radix(hex, 16).ok()).ok_or("the node cannot be read")?;
        let shards = field("shards")?.parse().map_err(|_| "the shards cannot be read")?;
        let engine = field("engine")?.parse()?;
        Ok(Ok(Self { node: NodeId(node), name, shards, engine }))
    }

    fn write(&self, root: &Path) -> io::Result<()> {
        let (format, engine) = (Self::FORMAT, self.engine.name());
        let body = format!("format {format}\nnode {}\nshards {}\nengine {engine}\n", self.name, self.shards);
        let check = crc32fast::hash(body.as_bytes());
        replace_in(root, IDENTITY_FILE, format!("{body}check {check:08x}\n").as_bytes())
    }
}

/// Reads a file with a shard and a number a line; without one there are none.
fn read_pairs(root: &Path, name: &str) -> Result<BTreeSet<(ShardId, u64)>, String> {
    let path = root.join(name);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(e) => return Err(format!("{}: {e}", path.display())),
    };
    let pair = |line: &str| {
        let (shard, number) = line.split_once(' ')?;
        Some((ShardId(shard.parse().ok()?), number.parse().ok()?))
    };
    let pairs: Option<_> = text.lines().map(pair).collect();
    pairs.ok_or_else(|| format!("corrupt data in {}: not a shard and a number a line", path.display()))
}

fn write_pairs<T: Display>(root: &Path, name: &str, pairs: &BTreeSet<(ShardId, T)>) -> io::Result<()> {
    let lines: String = pairs.iter().map(|(shard, number)| format!("{shard} {number}\n")).collect();
    replace_in(root, name, lines.as_bytes())
}

/// The newest changes of the map that a directory holds, and what is damaged of them.
pub fn read_map_changes(root: &Path) -> (Vec<MadeChange>, Option<String>) {
    let path = root.join(MAP_CHANGES_FILE);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return (Vec::new(), None),
        Err(e) => return (Vec::new(), Some(format!("{}: {e}", path.display()))),
    };
    let (changes, damaged_at) = cluster::read_changes(&bytes);
    let damage = damaged_at.map(|at| {
        format!("{}: damaged at byte {at}, and whole changes follow: the map here is older than it was", path.display())
    });
    (changes, damage)
}

/// The map that a directory holds; `None` if its node belongs to no store yet.
pub fn read_map(root: &Path) -> Result<Option<Map>, String> {
    let read = |name: &str| match std::fs::read(root.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(format!("{}: {e}", root.join(name).display())),
    };
    let Some(whole) = read(MAP_FILE)? else { return Ok(None) };
    let changes = read(MAP_CHANGES_FILE)?.unwrap_or_default();
    let path = root.join(MAP_FILE);
    MapFiles::read(&whole, &changes).map(Some).map_err(|e| format!("corrupt data in {}: {e}", path.display()))
}

/// Puts a file of the directory in the place of another.
fn replace_in(root: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    replace_file(&root.join(name), &root.join(format!("{name}.new")), bytes)
}

/// Puts a file in the place of another, as one: a crash leaves the old one or the new one. It is written `aside`, in the same folder;
/// who may read the old one may read it.
pub(crate) fn replace_file(path: &Path, aside: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(aside)?;
    if let Ok(before) = std::fs::metadata(path) {
        file.set_permissions(before.permissions())?;
    }
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(aside, path)?;
    let path = std::path::absolute(path)?;
    sync_folder(path.parent().unwrap_or(&path))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_file_in_the_place_of_another_has_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (path, aside) = (dir.path().join("users.acl"), dir.path().join("users.acl.new"));
        replace_file(&path, &aside, b"old").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        replace_file(&path, &aside, b"new").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left aside");
    }

    #[test]
    fn a_map_is_kept_by_its_changes() {
        let dir = tempfile::tempdir().unwrap();
        let open = || DataDir::open(dir.path(), 4, EngineKind::Lsm, 1).unwrap();
        let file = |name: &str| std::fs::read(dir.path().join(name)).unwrap_or_default();
        let info = cluster::NodeInfo {
            id: NodeId(1),
            peer_address: "a:1".to_owned(),
            client_host: "a".to_owned(),
            client_port: 1,
            zone: String::new(),
            capacity: 1,
        };
        let mut map = cluster::initial_map(vocab::StoreId(1), &[info], 2, 1).unwrap();
        let change = |map: &mut Map| {
            let (name, now) = ("moves-per-node".to_owned(), Some((map.epoch.0 % 7 + 1).to_string()));
            let change = cluster::Change::Setting { was: map.settings.get(&name).cloned(), name, now };
            cluster::apply(map, &change).unwrap();
            let made = cluster::MadeChange { epoch: map.epoch, bytes: change.encode().into() };
            MapUpdate { map: Arc::new(map.clone()), changes: vec![made] }
        };
        let data = open();
        data.keep_map(&MapUpdate::whole(Arc::new(map.clone()))).unwrap();
        let whole = file(MAP_FILE);
        for _ in 0..3 {
            data.keep_map(&change(&mut map)).unwrap();
            assert_eq!(read_map(dir.path()).unwrap().as_ref(), Some(&map));
        }
        assert!(file(MAP_FILE) == whole && file(MAP_CHANGES_FILE).len() < 200);
        // What a crash has left of a fourth.
        std::fs::write(dir.path().join(MAP_CHANGES_FILE), [&file(MAP_CHANGES_FILE)[..], &[7; 20]].concat()).unwrap();
        assert_eq!(read_map(dir.path()).unwrap().as_ref(), Some(&map));
        // The first one after a start is written whole: what is there may end in such a rest.
        drop(data);
        open().keep_map(&change(&mut map)).unwrap();
        assert!(file(MAP_FILE) == map.encode() && file(MAP_CHANGES_FILE).is_empty());
    }

    #[test]
    fn replicas_whose_log_is_lost_are_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let open = || DataDir::open(dir.path(), 4, EngineKind::Lsm, 1).unwrap();
        let data = open();
        assert!(!data.has_log() && !data.has_replicas().unwrap() && !data.has_groups());
        let info = cluster::NodeInfo {
            id: data.identity().node,
            peer_address: "a:1".to_owned(),
            client_host: "a".to_owned(),
            client_port: 1,
            zone: String::new(),
            capacity: 1,
        };
        let map = cluster::initial_map(vocab::StoreId(1), &[info], 2, 1).unwrap();
        data.keep_map(&MapUpdate::whole(Arc::new(map))).unwrap();
        let log = data.log();
        let make_log = || {
            std::fs::create_dir(&log).unwrap();
            std::fs::write(log.join("0000000000000001.raftlog"), b"").unwrap();
        };
        make_log();
        data.note_groups();
        drop(data);
        let mut data = open();
        assert!(data.has_log() && data.has_replicas().unwrap() && data.has_groups());
        let aside = data.rebuild().unwrap().unwrap();
        assert!(aside.join("log").exists() && !data.has_log());
        assert!(!data.has_replicas().unwrap() && !data.has_groups(), "none that relies on the log");
        make_log();
        assert_eq!(data.rebuild(), Ok(None), "they are being made anew");
        std::fs::remove_dir_all(&log).unwrap();
        assert!(data.rebuild().unwrap().is_some(), "it is lost again");
        data.forget_groups().unwrap();
        data.note_groups();
        data.forget_groups().unwrap();
        drop(data);
        let data = open();
        assert!(!data.has_groups() && !data.has_replicas().unwrap());
        let skipped = BTreeSet::from([(ShardId(1), 7), (ShardId(300), 1 << 40)]);
        data.note_skipped(&skipped).unwrap();
        assert_eq!(data.skipped(), Ok(skipped));
    }

    #[test]
    fn keeps_its_shape_and_names_damage() {
        let dir = tempfile::tempdir().unwrap();
        let made = DataDir::open(dir.path(), 4, EngineKind::Lsm, 1).unwrap().identity().clone();
        let again = DataDir::open(dir.path(), 16, EngineKind::Lsm, 2).unwrap();
        assert_eq!(again.identity(), &made);
        assert!(DataDir::open(dir.path(), 4, EngineKind::Lsm, 1).unwrap_err().contains("locked"));
        drop(again);
        assert!(DataDir::open(dir.path(), 4, EngineKind::Memory, 1).unwrap_err().contains("--engine lsm"));
        let path = dir.path().join(IDENTITY_FILE);
        let damaged = std::fs::read_to_string(&path).unwrap().replace("shards 4", "shards 5");
        std::fs::write(&path, damaged).unwrap();
        let error = DataDir::open(dir.path(), 4, EngineKind::Lsm, 1).unwrap_err();
        assert!(error.starts_with("corrupt") && error.contains(IDENTITY_FILE) && error.contains("checksum"), "{error}");
        for (format, words) in [(1, "which an earlier version of basalt wrote"), (3, "which a later version")] {
            let body = format!("format {format}\n");
            std::fs::write(&path, format!("{body}check {:08x}\n", crc32fast::hash(body.as_bytes()))).unwrap();
            let error = DataDir::open(dir.path(), 4, EngineKind::Lsm, 1).unwrap_err();
            let begins = format!("{} is of format {format}, {words}", path.display());
            assert!(error.starts_with(&begins) && !error.contains("corrupt"), "{error}");
        }
    }
}
