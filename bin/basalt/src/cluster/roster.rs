//! What a store on this machine is made of: the nodes, where each listens, and which process it is. Kept in the store's
//! directory as `cluster.json`, so that one command finds what another has started.

use super::process::Process;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The layout's number: a file with another is refused.
const FORMAT: u32 = 1;
const FILE: &str = "cluster.json";
const LOCK: &str = "cluster.lock";
/// The file in the making.
const NEW: &str = "cluster.json.new";
/// What a directory may hold in which a store is made: what a start that failed has left, and what a file system makes.
const MAY_BE_THERE: [&str; 3] = [LOCK, NEW, "lost+found"];

/// The nodes of a store on this machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Roster {
    format: u32,
    /// Whether the store has been made: its first map is drawn once.
    pub made: bool,
    /// The settings that all nodes are started with.
    pub settings: Vec<(String, String)>,
    /// In order of their numbers.
    pub nodes: Vec<LocalNode>,
}

/// How far a node's port for clients of databases is above the one for clients of the cluster.
const DATABASES_ABOVE: u16 = 100;

/// How far a node's port for clients with TLS is above the one for clients without.
const TLS_ABOVE: u16 = 2000;

/// One node.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct LocalNode {
    /// From 1 on.
    pub number: usize,
    /// Where clients reach it.
    pub port: u16,
    /// Where other nodes reach it.
    pub peer_port: u16,
    /// Where operators reach it by HTTP; none if they do not.
    #[serde(default)]
    pub http_port: Option<u16>,
    /// The process that it is, or last was.
    pub process: Option<Process>,
}

impl LocalNode {
    /// Whether its process runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.process.is_some_and(Process::runs)
    }
}

impl Roster {
    /// A store that is not there yet: `nodes` nodes with ports that follow each other.
    #[must_use]
    pub fn new(nodes: u16, port: u16, peer_port: u16, http_port: Option<u16>, settings: Vec<(String, String)>) -> Self {
        let node = |index: u16| LocalNode {
            number: usize::from(index) + 1,
            port: port + index,
            peer_port: peer_port + index,
            http_port: http_port.map(|first| first + index),
            process: None,
        };
        Self { format: FORMAT, made: false, settings, nodes: (0..nodes).map(node).collect() }
    }

    /// What `dir` holds; none if it holds no store of this kind.
    pub fn read(dir: &Path) -> Result<Option<Self>, String> {
        let path = dir.join(FILE);
        let text = match fs::read_to_string(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|e| format!("{}: {e}", path.display()))?,
        };
        let roster: Self = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        if roster.format != FORMAT {
            let found = roster.format;
            return Err(format!("{}: format {found}; this version of basalt reads format {FORMAT}", path.display()));
        }
        Ok(Some(roster))
    }

    /// Something in `dir` that is not of a store of this kind, if it holds no store.
    pub fn foreign(dir: &Path) -> io::Result<Option<String>> {
        if dir.join(FILE).exists() {
            return Ok(None);
        }
        for entry in fs::read_dir(dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !MAY_BE_THERE.contains(&name.as_str()) {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Keeps it in `dir`: the file that was there, or all of the new one.
    pub fn write(&self, dir: &Path) -> Result<(), String> {
        let path = dir.join(FILE);
        let write = || -> io::Result<()> {
            let new = dir.join(NEW);
            // Settings may hold a password.
            let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.sync_all()?;
            fs::rename(new, &path)
        };
        write().map_err(|e| format!("{}: {e}", path.display()))
    }

    /// A further node, on the ports that follow the last one's.
    pub fn add(&mut self) {
        if let Some(last) = self.nodes.last() {
            let (number, port, peer_port) = (last.number + 1, last.port + 1, last.peer_port + 1);
            let http_port = last.http_port.map(|port| port + 1);
            self.nodes.push(LocalNode { number, port, peer_port, http_port, process: None });
        }
    }

    /// A node's port for clients of databases; none where ports that were asked for are in the way.
    #[must_use]
    pub fn database_port(&self, node: &LocalNode) -> Option<u16> {
        self.unused(node.port, DATABASES_ABOVE)
    }

    /// A node's port for clients with TLS.
    pub fn tls_port(&self, node: &LocalNode) -> Result<u16, String> {
        let none = || {
            format!(
                "port {}: the one {TLS_ABOVE} above it, for clients with TLS, is taken by the store itself",
                node.port
            )
        };
        self.unused(node.port, TLS_ABOVE).ok_or_else(none)
    }

    /// The port so far above another one, unless a node listens there for something else.
    fn unused(&self, port: u16, above: u16) -> Option<u16> {
        let is_used = |port| {
            self.nodes.iter().any(|node| [Some(node.port), Some(node.peer_port), node.http_port].contains(&Some(port)))
        };
        port.checked_add(above).filter(|port| !is_used(*port))
    }

    /// The value of a setting, if one is given.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The node of that number.
    #[must_use]
    pub fn node(&self, number: usize) -> Option<&LocalNode> {
        self.nodes.iter().find(|node| node.number == number)
    }

    /// The directory of one node in that of the store: its data and what it said.
    #[must_use]
    pub fn node_dir(dir: &Path, number: usize) -> PathBuf {
        dir.join(format!("node-{number}"))
    }
}

/// Held while a roster is changed. Let go when it is dropped, or when the process ends.
pub struct RosterLock(#[expect(dead_code, reason = "it is held, not read")] File);

impl RosterLock {
    /// Waits for it.
    pub fn take(dir: &Path) -> Result<Self, String> {
        let path = dir.join(LOCK);
        let lock = || -> io::Result<File> {
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        lock().map(Self).map_err(|e| format!("{}: {e}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_directory_with_other_content_is_told_from_an_empty_one_and_from_a_store() {
        let dir = tempfile::tempdir().unwrap();
        let foreign = || Roster::foreign(dir.path()).unwrap();
        assert_eq!(foreign(), None);
        drop(RosterLock::take(dir.path()).unwrap());
        assert_eq!(foreign(), None, "what a start has left that failed");
        fs::write(dir.path().join("passwd"), "root").unwrap();
        assert_eq!(foreign().as_deref(), Some("passwd"));
        Roster::new(1, 7000, 17000, None, Vec::new()).write(dir.path()).unwrap();
        assert_eq!(foreign(), None, "a store");
        assert!(Roster::foreign(&dir.path().join("none")).is_err());
    }

    #[test]
    fn what_is_written_is_read_and_other_formats_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Roster::read(dir.path()), Ok(None));
        let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut roster = Roster::new(3, 7000, 17000, Some(8000), vec![setting("a", "1"), setting("a", "2")]);
        roster.nodes[1].process = Process::of(std::process::id());
        roster.write(dir.path()).unwrap();
        assert_eq!(Roster::read(dir.path()).unwrap().as_ref(), Some(&roster));
        let ports: Vec<_> = roster.nodes.iter().map(|node| (node.number, node.port, node.peer_port)).collect();
        assert_eq!(ports, [(1, 7000, 17000), (2, 7001, 17001), (3, 7002, 17002)]);
        assert_eq!((roster.setting("a"), roster.setting("b")), (Some("2"), None));
        roster.format += 1;
        roster.write(dir.path()).unwrap();
        assert!(Roster::read(dir.path()).unwrap_err().contains("format 2; this version of basalt reads format 1"));
        fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(Roster::read(dir.path()).is_err());
    }
    #[test]
    fn ports_that_were_asked_for_are_not_taken_for_something_else() {
        let ports = |peer: u16, http: Option<u16>| {
            let roster = Roster::new(3, 7000, peer, http, Vec::new());
            let first = roster.nodes[0].clone();
            (roster.database_port(&first), roster.tls_port(&first).ok())
        };
        assert_eq!(ports(17000, Some(8000)), (Some(7100), Some(9000)));
        assert_eq!(ports(7098, Some(8000)), (None, Some(9000)), "7100 is the third node's, for other nodes");
        assert_eq!(ports(17000, Some(9000)), (Some(7100), None));
    }
}
