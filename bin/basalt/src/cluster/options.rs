//! The options of `basalt cluster`, and what they make of a store.

use super::ports::{OutgoingPorts, peer_ports};
use super::roster::Roster;
use super::trouble::Trouble;
use clap::{Args, Subcommand};
use node::Config;
use std::path::PathBuf;

/// HTTP ports lie so far above client ports.
const HTTP_PORT_ABOVE: u16 = 1000;
/// What `up` decides itself.
const RESERVED: [&str; 10] = [
    "listen",
    "dir",
    "peer-listen",
    "http-listen",
    "join",
    "init",
    "announce-host",
    "announce-port",
    "announce-peer",
    "zone",
];

const AFTER: &str = "\
Each node is a `basalt start` process on 127.0.0.1, with an address for clients and one for other nodes. Its data is in \
DIR/node-N/data, its messages are in DIR/node-N/messages, and its process id is in DIR/cluster.json.

Examples:
  basalt cluster up                       three nodes on the ports 7000 to 7002, until Ctrl-C
  redis-cli -c -p 7000                    any client of Redis Cluster, at any node
  basalt cluster up --background          the same, but return when it serves
  basalt cluster up --tls                 the same with TLS; it shows how redis-cli connects
  basalt cluster kill 2                   kill -9 a node: the others take over
  basalt cluster restart 2                and bring it back
  basalt cluster down                     stop all nodes in order; `up` starts them again

Exit codes: 0 done (status: all nodes are up and all shards have leaders), 1 otherwise, 2 the command line is wrong.";

/// Run a store of several nodes on this machine
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub struct ClusterOptions {
    /// What to do
    #[command(subcommand)]
    pub(super) command: ClusterCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Start a store, new or as it was, and show how it is until Ctrl-C
    Up(Box<UpOptions>),
    /// Stop all nodes in order
    Down(StoreDir),
    /// Show the nodes, the shards that they lead, and what they do
    Status {
        /// Where the store is
        #[command(flatten)]
        place: StoreDir,
        /// Show it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Kill a node at once (kill -9), to see the others take over
    Kill {
        /// The node's number, from 1 on
        node: usize,
        /// Where the store is
        #[command(flatten)]
        place: StoreDir,
    },
    /// Start a node again; one that runs is stopped in order first
    Restart {
        /// The node's number, from 1 on
        node: usize,
        /// Where the store is
        #[command(flatten)]
        place: StoreDir,
    },
}

/// Where the store is.
#[derive(Args, Debug)]
pub struct StoreDir {
    /// The store's directory
    #[arg(long, value_name = "DIR", default_value = "./basalt-cluster")]
    pub data: PathBuf,
}

/// How a store is started.
#[derive(Args, Debug)]
pub struct UpOptions {
    /// Where the store is
    #[command(flatten)]
    pub place: StoreDir,
    /// What it is like
    #[command(flatten)]
    pub shape: StoreShape,
    /// Serve clients with TLS too, 2000 above --port, and have the nodes speak TLS to each other, by an authority that is made
    /// in DIR/tls for this store alone. A store that was started so goes on so
    #[arg(long)]
    pub tls: bool,
    /// Return when the store serves; `basalt cluster down` ends it
    #[arg(long)]
    pub background: bool,
}

/// What a store on this machine is like. What is not given is as it was, or else the default.
#[derive(Args, Clone, Debug, Default)]
pub struct StoreShape {
    /// Nodes [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub nodes: Option<u16>,
    /// Shards: Raft groups that share the slots evenly [default: 16]
    #[arg(long, value_name = "N")]
    pub shards: Option<String>,
    /// Replicas of each shard [default: 3, or one on each node if there are fewer]
    #[arg(long, value_name = "N")]
    pub replication_factor: Option<u16>,
    /// The first node's port for clients; the others follow [default: 7000]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// The first node's port for other nodes; the others follow [default: 10000 above --port, or 200 above or 10000 below it where
    /// the system gives those ports to connections that go out]
    #[arg(long, value_name = "PORT")]
    pub peer_port: Option<u16>,
    /// The first node's port for HTTP (metrics, admin API, console); the others follow; 0: none [default: 1000 above --port]
    #[arg(long, value_name = "PORT")]
    pub http_port: Option<u16>,
    /// When a write is answered: on disk (sync), or in the operating system's memory (nosync) [default: sync]
    #[arg(long, value_name = "sync|nosync")]
    pub durability: Option<String>,
    /// Where the data is: on disk (lsm), or in memory with the log on disk (memory) [default: lsm]
    #[arg(long, value_name = "lsm|memory")]
    pub engine: Option<String>,
    /// Bound for caches, memtables and buffers of each node [default: 4G, shared by the nodes]
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<String>,
    /// Any other setting of every node; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = crate::start::pair)]
    pub set: Vec<(String, String)>,
}

/// What memory all nodes share unless they are told otherwise, in MB.
const MEMORY_MB: u16 = 4000;

impl StoreShape {
    /// The roster of a store that is not there yet.
    pub fn fresh(&self) -> Result<Roster, Trouble> {
        let usage = |text: String| Err(Trouble::Usage(text));
        let nodes = self.nodes.unwrap_or(3);
        let replicas = self.replication_factor.unwrap_or(nodes.min(3));
        if replicas > nodes {
            return usage(format!(
                "--replication-factor {replicas}: there are {nodes} nodes, and each holds one replica"
            ));
        }
        let port = self.port.unwrap_or(7000);
        let drawn = || peer_ports(port, nodes, OutgoingPorts::of_system());
        let Some(peer_port) = self.peer_port.or_else(drawn) else {
            return usage(format!("--port {port}: no room for the other nodes' ports; give --peer-port"));
        };
        let fits = |first: u16| first > 0 && first.checked_add(nodes).is_some();
        if !fits(port) || !fits(peer_port) || port.abs_diff(peer_port) < nodes {
            return usage(format!("--port {port}, --peer-port {peer_port}: no room for the ports of {nodes} nodes"));
        }
        let http_port = self.http_ports(port, peer_port, nodes)?;
        let mut settings = vec![
            ("shards".to_owned(), self.shards.clone().unwrap_or_else(|| "16".to_owned())),
            ("replication-factor".to_owned(), replicas.to_string()),
            ("engine".to_owned(), self.engine.clone().unwrap_or_else(|| "lsm".to_owned())),
            ("durability".to_owned(), "sync".to_owned()),
            ("memory".to_owned(), format!("{}M", (MEMORY_MB / nodes).max(64))),
        ];
        self.add_changeable(&mut settings)?;
        let roster = Roster::new(nodes, port, peer_port, http_port, settings);
        check(&roster)?;
        Ok(roster)
    }

    /// The first port for HTTP: what was asked for, else one that fits.
    fn http_ports(&self, port: u16, peer_port: u16, nodes: u16) -> Result<Option<u16>, Trouble> {
        let apart = |first: u16| [port, peer_port].iter().all(|other| other.abs_diff(first) >= nodes);
        let fits = |first: &u16| first.checked_add(nodes).is_some() && apart(*first);
        match self.http_port {
            Some(0) => Ok(None),
            Some(first) if fits(&first) => Ok(Some(first)),
            Some(first) => Err(Trouble::Usage(format!("--http-port {first}: no room for the ports of {nodes} nodes"))),
            None => Ok(port.checked_add(HTTP_PORT_ABOVE).filter(fits)),
        }
    }

    /// The roster of a store that is there, with what may be different at every start.
    pub fn again(&self, known: &Roster) -> Result<Roster, Trouble> {
        let first = known.nodes.first();
        let was = |name: &str| known.setting(name).unwrap_or_default().to_owned();
        let asked = [
            ("--nodes", self.nodes.map(|nodes| nodes.to_string()), known.nodes.len().to_string()),
            ("--port", self.port.map(|port| port.to_string()), first.map_or(0, |node| node.port).to_string()),
            (
                "--peer-port",
                self.peer_port.map(|port| port.to_string()),
                first.map_or(0, |node| node.peer_port).to_string(),
            ),
            ("--shards", self.shards.clone(), was("shards")),
            ("--replication-factor", self.replication_factor.map(|n| n.to_string()), was("replication-factor")),
            ("--engine", self.engine.clone(), was("engine")),
        ];
        for (flag, asked, was) in asked {
            if let Some(asked) = asked.filter(|asked| *asked != was) {
                return Err(Trouble::Usage(format!("{flag} {asked}: this store was made with {was}, and keeps it")));
            }
        }
        let mut roster = known.clone();
        if let (Some(http_port), Some(first)) = (self.http_port, first) {
            let (nodes, last) = (known.nodes.len() as u16, known.nodes.last());
            let peer_port = last.map_or(0, |last| last.peer_port - (nodes - 1));
            let ports = Self { http_port: Some(http_port), ..Self::default() };
            let first = ports.http_ports(first.port, peer_port, nodes)?;
            for (node, above) in roster.nodes.iter_mut().zip(0..) {
                node.http_port = first.map(|first| first + above);
            }
        }
        self.add_changeable(&mut roster.settings)?;
        check(&roster)?;
        Ok(roster)
    }

    fn add_changeable(&self, settings: &mut Vec<(String, String)>) -> Result<(), Trouble> {
        let flags = [("durability", &self.durability), ("memory", &self.memory)];
        let flags = flags.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
        for (name, value) in flags.chain(self.set.iter().cloned()) {
            if RESERVED.contains(&name.as_str()) {
                return Err(Trouble::Usage(format!("--set {name}: `basalt cluster up` decides this for each node")));
            }
            settings.retain(|(known, _)| *known != name);
            settings.push((name, value));
        }
        Ok(())
    }
}

/// A setting that cannot be is told before anything is started.
fn check(roster: &Roster) -> Result<(), Trouble> {
    let pairs = roster.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let flags = ["shards", "replication-factor", "engine", "durability", "memory"];
    let refused = |e: node::config::SetError| Trouble::Usage(e.on_command_line(|name| flags.contains(&name)));
    Config::start(pairs).map(|_| ()).map_err(refused)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_store_has_the_shape_that_is_asked_for_and_keeps_it() {
        let roster = StoreShape::default().fresh().unwrap();
        assert_eq!((roster.nodes.len(), roster.nodes[2].port, roster.nodes[2].peer_port), (3, 7002, 17002));
        assert_eq!(roster.nodes[2].http_port, Some(8002));
        let none = StoreShape { http_port: Some(0), ..StoreShape::default() };
        assert_eq!(none.again(&roster).unwrap().nodes[1].http_port, None);
        assert_eq!((roster.setting("memory"), roster.setting("durability")), (Some("1333M"), Some("sync")));
        let set = vec![("acks".to_owned(), "all".to_owned())];
        let later = StoreShape { durability: Some("nosync".to_owned()), nodes: Some(3), set, ..StoreShape::default() };
        let roster = later.again(&roster).unwrap();
        assert_eq!((roster.setting("acks"), roster.setting("durability")), (Some("all"), Some("nosync")));
        assert_eq!(StoreShape::default().again(&roster).unwrap(), roster);
        let two = StoreShape { nodes: Some(2), ..StoreShape::default() };
        assert_eq!(two.fresh().unwrap().setting("replication-factor"), Some("2"));
        assert!(two.again(&roster).unwrap_err().to_string().contains("was made with 3"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let setting = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let none = StoreShape::default;
        for (shape, reason) in [
            (StoreShape { port: Some(65534), ..none() }, "no room"),
            (StoreShape { port: Some(7000), peer_port: Some(7002), ..none() }, "no room"),
            (StoreShape { http_port: Some(17_001), ..none() }, "no room"),
            (StoreShape { nodes: Some(2), replication_factor: Some(3), ..none() }, "there are 2 nodes"),
            (StoreShape { durability: Some("never".to_owned()), ..none() }, "--durability"),
            (StoreShape { set: setting("listen", "0.0.0.0:1"), ..none() }, "decides this"),
            (StoreShape { set: setting("nosuch", "1"), ..none() }, "nosuch"),
        ] {
            let refused = shape.fresh().unwrap_err();
            assert!(matches!(refused, Trouble::Usage(_)), "{refused}");
            assert!(refused.to_string().contains(reason), "{refused}");
        }
    }
}
