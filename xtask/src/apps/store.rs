//! The store that applications use: one node, or three, each with a listener for databases.

use crate::perf::server::{Server, free_ports, wait_until_up};
use crate::perf::wire::Connection;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LED_BOUND: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
const MEMORY: &str = "256M";
const SHARDS: &str = "12";
/// What the databases' ports are above the clients'.
const DATABASES_ABOVE: u16 = 100;
/// What the peers' ports are above the clients': not so far that connections that go out may have taken them.
const PEERS_ABOVE: u16 = 200;
/// A key of slot 0, which holds database 0.
pub const DATABASE_0: &str = "06S";

/// The ports of a node.
#[derive(Clone, Copy, Debug)]
struct Ports {
    cluster: u16,
    databases: u16,
    peers: u16,
}

/// Nodes with the same settings; they end with it.
pub struct Store {
    program: PathBuf,
    folder: PathBuf,
    ports: Vec<Ports>,
    nodes: Vec<Server>,
}

impl Store {
    /// Starts `count` nodes on empty folders below `folder`, at ports from `base` on or at free ones, and waits until every
    /// slot is served.
    pub fn start(program: &Path, folder: &Path, count: usize, base: Option<u16>) -> Result<Self, String> {
        let mut store = Self {
            program: program.to_owned(),
            // Another run may use the same folder.
            folder: folder.join(format!("nodes-{count}-{}", std::process::id())),
            ports: ports(count, base)?,
            nodes: Vec::new(),
        };
        let _ = std::fs::remove_dir_all(&store.folder);
        for number in 0..count {
            let node = store.spawn(number, number == 0)?;
            store.nodes.push(node);
        }
        wait_until_up(&store.nodes)?;
        Ok(store)
    }

    fn spawn(&self, number: usize, is_first: bool) -> Result<Server, String> {
        let at = |port: u16| format!("127.0.0.1:{port}");
        let ports = self.ports[number];
        let folder = self.folder.join(number.to_string());
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut command = Command::new(&self.program);
        command.args(["start", "--listen", &at(ports.cluster), "--database-listen", &at(ports.databases)]);
        command.args(["--durability", "nosync", "--memory", MEMORY, "--shards", SHARDS, "--dir"]);
        command.arg(folder.join("data"));
        if self.ports.len() > 1 {
            let peers: Vec<String> = self.ports.iter().map(|ports| at(ports.peers)).collect();
            command.args(["--peer-listen", &at(ports.peers), "--join", &peers.join(",")]);
            if is_first {
                command.arg("--init");
            }
        }
        Server::start("basalt", &mut command, ports.cluster, &folder)
    }

    /// The node that leads the shard of a key.
    pub fn leader_of(&self, key: &str) -> Result<usize, String> {
        let start = Instant::now();
        // Another node answers that the key has moved.
        let leads = |node: &Server| {
            let mut connection = Connection::open(node.port)?;
            connection.ask(&["GET", key])?;
            connection.answer()
        };
        while start.elapsed() < LED_BOUND {
            if let Some(leader) = self.nodes.iter().position(|node| leads(node).is_ok()) {
                return Ok(leader);
            }
            std::thread::sleep(POLL);
        }
        Err(format!("no node leads the shard of {key} after {} s", LED_BOUND.as_secs()))
    }

    /// Removes all keys, also those of databases.
    pub fn empty(&self) -> Result<(), String> {
        let mut connection = Connection::open(self.nodes[0].port)?;
        connection.ask(&["FLUSHALL"])?;
        connection.answer().map(drop)
    }

    /// Kills a node at once (kill -9).
    pub fn kill(&mut self, number: usize) {
        self.nodes[number].kill();
    }

    /// Starts a node again that was killed, with its data, and waits until every slot is served.
    pub fn restart(&mut self, number: usize) -> Result<(), String> {
        self.nodes[number] = self.spawn(number, false)?;
        wait_until_up(&self.nodes)
    }

    /// Where databases are served, that of node `first` first.
    pub fn databases(&self, first: usize) -> Vec<String> {
        self.addresses(first, |ports| ports.databases)
    }

    /// Where the cluster is served, by node `first` first.
    pub fn cluster(&self, first: usize) -> Vec<String> {
        self.addresses(first, |ports| ports.cluster)
    }

    fn addresses(&self, first: usize, port: fn(&Ports) -> u16) -> Vec<String> {
        let count = self.ports.len();
        (first..first + count).map(|number| format!("127.0.0.1:{}", port(&self.ports[number % count]))).collect()
    }

    /// How many nodes it has.
    pub fn count(&self) -> usize {
        self.ports.len()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.nodes.clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn ports(count: usize, base: Option<u16>) -> Result<Vec<Ports>, String> {
    if let Some(base) = base {
        let ports = (base..).take(count).map(|cluster| Ports {
            cluster,
            databases: cluster + DATABASES_ABOVE,
            peers: cluster + PEERS_ABOVE,
        });
        return Ok(ports.collect());
    }
    let free = || free_ports().map(|[cluster, databases, peers]| Ports { cluster, databases, peers });
    (0..count).map(|_| free()).collect()
}
