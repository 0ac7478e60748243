//! Other systems' stores, started on this machine as `bench peer up` does.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use clap::ValueEnum;

use crate::model::{ActionFile, StoreFile};
use crate::peer::{DurabilityOfPeer, PeerName, Roster, UpOptions, up};
use crate::suite_stores::{SuiteStore, words};

/// The heap of a system that needs one told, where the suite gives none.
const MEMORY_MIB: u32 = 512;

/// A peer's servers. They end when it is dropped.
pub(super) struct PeerStore {
    roster: Roster,
    ended: bool,
}

/// The system called `name`, if it is one that can be started here.
pub(super) fn named(name: &str) -> Option<PeerName> {
    PeerName::from_str(name, false).ok()
}

/// Every system that can be started here.
pub(super) fn names() -> Vec<String> {
    PeerName::value_variants().iter().map(ToString::to_string).collect()
}

/// Whether `name` can be a store of that shape.
pub(super) fn check(name: PeerName, shape: &StoreFile) -> Result<(), String> {
    // Where it will be is another matter.
    options(name, shape, Path::new(""), 1)?.check()
}

/// How a store of that shape is started.
fn options(name: PeerName, shape: &StoreFile, dir: &Path, port: u16) -> Result<UpOptions, String> {
    let durability = match shape.durability.as_str() {
        "nosync" => DurabilityOfPeer::Nosync,
        "sync" | "" => DurabilityOfPeer::Sync,
        other => return Err(format!("durability `{other}`: expected sync or nosync")),
    };
    let memory_mib = match shape.memory.as_str() {
        "" => MEMORY_MIB,
        memory => mebibytes(memory).ok_or_else(|| format!("memory `{memory}`: expected megabytes, such as 512M"))?,
    };
    Ok(UpOptions {
        name,
        data: dir.join("peer"),
        nodes: Some(shape.nodes.max(1)),
        replication_factor: shape.replication_factor.unwrap_or(1),
        port,
        durability,
        memory_mib: memory_mib.max(256),
        json: false,
    })
}

impl PeerStore {
    /// Starts `name` in `dir`, which holds nothing, unless `stop` is set meanwhile.
    pub(super) fn start(
        name: PeerName,
        shape: &StoreFile,
        dir: &Path,
        port: u16,
        stop: &AtomicBool,
    ) -> io::Result<Self> {
        let options = options(name, shape, dir, port).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        Ok(Self { roster: up(&options, stop)?, ended: false })
    }
}

/// `256M` as a number.
fn mebibytes(text: &str) -> Option<u32> {
    text.trim_end_matches(['M', 'm']).parse().ok()
}

impl SuiteStore for PeerStore {
    fn url(&self) -> String {
        self.roster.target.clone()
    }

    fn act(&mut self, action: &ActionFile) -> io::Result<String> {
        let text = format!("`{}`: not for {}", words(action).join(" "), self.roster.name);
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }

    fn notes(&self) -> Vec<String> {
        vec![format!("{}: {}.", self.roster.name, self.roster.settings)]
    }

    fn ended(&self) -> Vec<String> {
        let told = self.roster.ended().map(|node| {
            format!("{} at {} has ended by itself, see {}", self.roster.name, node.address, node.log.display())
        });
        told.collect()
    }

    fn stop(&mut self) -> io::Result<()> {
        self.ended = true;
        self.roster.end()
    }
}

impl Drop for PeerStore {
    fn drop(&mut self) {
        if !self.ended
            && let Err(e) = self.roster.end()
        {
            log::warn!("{}: {e}", self.roster.name);
        }
    }
}
