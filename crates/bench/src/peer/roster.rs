//! Which servers were started in a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::process::{self, Process};

const FILE: &str = "peer.json";

/// One server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerNode {
    /// Where its clients reach it.
    pub address: String,
    /// Its process.
    pub process: Process,
    /// Its data.
    pub data: PathBuf,
    /// Its output.
    pub log: PathBuf,
}

/// The servers of one store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// Which system.
    pub name: String,
    /// What `--target` takes.
    pub target: String,
    /// How it is set, in words.
    pub settings: String,
    /// Its servers.
    pub nodes: Vec<PeerNode>,
}

impl Roster {
    /// The roster of the store in `dir`; none if there is no store.
    ///
    /// # Errors
    /// The file cannot be read or understood.
    pub fn read(dir: &Path) -> io::Result<Option<Self>> {
        match fs::read(dir.join(FILE)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes it, whole or not at all: by the file alone are servers found whose starter has died.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        let new = dir.join(format!("{FILE}.new"));
        fs::write(&new, serde_json::to_vec_pretty(self)?)?;
        fs::rename(new, dir.join(FILE))
    }

    /// Removes the file: its servers have ended.
    pub(super) fn forget(&self, dir: &Path) -> io::Result<()> {
        gone(fs::remove_file(dir.join(FILE)))
    }

    /// How many of its servers are up.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.nodes.len() - self.ended().count()
    }

    /// Its servers that are not up.
    pub fn ended(&self) -> impl Iterator<Item = &PeerNode> {
        self.nodes.iter().filter(|node| !process::is_alive(node.process))
    }

    /// Ends its servers; their data stays.
    ///
    /// # Errors
    /// One of them cannot be ended.
    pub fn end(&self) -> io::Result<()> {
        let all: Vec<Process> = self.nodes.iter().map(|node| node.process).collect();
        process::end(&all)
    }

    /// Removes data and logs of its servers, and the roster.
    pub(super) fn remove(&self, dir: &Path) -> io::Result<()> {
        for node in &self.nodes {
            gone(fs::remove_dir_all(&node.data))?;
            gone(fs::remove_file(&node.log))?;
        }
        self.forget(dir)
    }
}

/// What was not there needs no removal.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}
