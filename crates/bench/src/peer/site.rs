//! A store being started: its folder, its settings, and what it comes to.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::options::{DurabilityOfPeer, UpOptions};
use super::process;
use super::roster::{PeerNode, Roster};

/// How a store is wanted, and the servers that have been started.
pub(super) struct Site<'a> {
    pub(super) options: &'a UpOptions,
    /// The folder, as an absolute path.
    pub(super) dir: PathBuf,
    pub(super) nodes: Vec<PeerNode>,
    /// Set when the user wants it to end.
    pub(super) stop: &'a AtomicBool,
}

/// What a started store tells.
pub(super) struct Up {
    pub(super) target: String,
    pub(super) settings: String,
}

impl Site<'_> {
    pub(super) fn syncs(&self) -> bool {
        self.options.durability == DurabilityOfPeer::Sync
    }

    /// A server's folder, made if need be.
    pub(super) fn node_dir(&self, number: usize) -> io::Result<PathBuf> {
        let dir = self.dir.join(format!("node-{number}"));
        fs::create_dir_all(&dir)?;
        Ok(dir)
    }

    /// Starts the next server, and writes down that it was: `peer down` finds it even if this process is killed.
    pub(super) fn start(&mut self, address: String, command: Command) -> io::Result<()> {
        self.require_wanted()?;
        let data = self.node_dir(self.nodes.len())?;
        let log = self.dir.join(format!("node-{}.log", self.nodes.len()));
        let process = process::start(command, &data, &log)?;
        self.nodes.push(PeerNode { address, process, data, log });
        self.roster().write(&self.dir)
    }

    /// The servers that have been started, of a store that does not serve yet.
    pub(super) fn roster(&self) -> Roster {
        let settings = "not all of its servers have come up".to_owned();
        Roster { name: self.options.name.to_string(), target: String::new(), settings, nodes: self.nodes.clone() }
    }

    fn require_wanted(&self) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "stopped while its servers were started"));
        }
        Ok(())
    }

    /// Asks again and again whether it `holds`, for so long.
    ///
    /// # Errors
    /// It is to end.
    pub(super) fn until(&self, bound: Duration, mut holds: impl FnMut() -> bool) -> io::Result<bool> {
        let held = process::until(bound, || self.stop.load(Ordering::Relaxed) || holds());
        self.require_wanted().map(|()| held)
    }

    /// Waits until each server satisfies `serves`. An error names the one that does not, and quotes its log; or it is to end.
    pub(super) fn await_all(&self, bound: Duration, mut serves: impl FnMut(&PeerNode) -> bool) -> io::Result<()> {
        for node in &self.nodes {
            let mut alive = true;
            let served = self.until(bound, || {
                alive = process::is_alive(node.process);
                !alive || serves(node)
            })?;
            // What answers may be another program that took the port meanwhile: the server's own process must be there.
            alive = alive && process::is_alive(node.process);
            if !alive || !served {
                let what =
                    if alive { format!("does not serve after {} s", bound.as_secs()) } else { "has ended".into() };
                let text = format!("{} at {} {what}; {}", self.options.name, node.address, process::quote(&node.log));
                return Err(io::Error::other(text));
            }
        }
        Ok(())
    }
}

/// Whether it accepts connections.
pub(super) fn listens(node: &PeerNode) -> bool {
    let place = node.address.parse::<SocketAddr>();
    place.is_ok_and(|place| TcpStream::connect_timeout(&place, Duration::from_secs(1)).is_ok())
}
