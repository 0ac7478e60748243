//! How other systems' servers are started, stopped and looked at.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Most nodes of a system.
const NODES_MAX: i64 = 64;
/// Most copies of a record.
const COPIES_MAX: i64 = 5;

/// How a system is started.
#[derive(Clone, Debug, Args)]
pub struct UpOptions {
    /// Which system
    #[arg(value_enum)]
    pub name: PeerName,
    /// An empty folder for its data
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Nodes; of a cluster of Redis as many masters [default: 3; of redis and valkey 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=NODES_MAX))]
    pub nodes: Option<u16>,
    /// Copies of each record in a cluster of Redis, and of VoltDB; the others have their own ways
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=COPIES_MAX))]
    pub replication_factor: u16,
    /// The first of its ports; it takes as many as it needs from there on, on loopback addresses
    #[arg(long, default_value_t = 17000, value_parser = clap::value_parser!(u16).range(1..=65000))]
    pub port: u16,
    /// When a write is on disk
    #[arg(long, value_enum, default_value_t = DurabilityOfPeer::Sync)]
    pub durability: DurabilityOfPeer,
    /// Heap of each of Cassandra's and VoltDB's nodes, in MiB
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(256..))]
    pub memory_mib: u32,
    /// Print the roster as JSON
    #[arg(long)]
    pub json: bool,
}

impl UpOptions {
    /// How many nodes: what was asked for, else what the system can have.
    #[must_use]
    pub fn nodes(&self) -> u16 {
        let usual = match self.name {
            PeerName::Redis | PeerName::Valkey => 1,
            PeerName::RedisCluster
            | PeerName::ValkeyCluster
            | PeerName::Etcd
            | PeerName::Cassandra
            | PeerName::Voltdb => 3,
        };
        self.nodes.unwrap_or(usual)
    }

    /// Whether the system can have that shape.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), String> {
        let (nodes, copies) = (self.nodes(), self.replication_factor);
        for (what, count, most) in [("nodes", nodes, NODES_MAX), ("replication-factor", copies, COPIES_MAX)] {
            if !(1..=most).contains(&i64::from(count)) {
                return Err(format!("{what} {count}: there may be 1 to {most}"));
            }
        }
        match self.name {
            PeerName::Redis | PeerName::Valkey if nodes != 1 => {
                Err(format!("{} is one server: use {}-cluster for more", self.name, self.name))
            }
            PeerName::RedisCluster | PeerName::ValkeyCluster if nodes < 3 || copies > nodes => {
                Err("a cluster has three nodes at least, and not more copies than nodes".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Which servers are stopped.
#[derive(Clone, Debug, Args)]
pub struct DownOptions {
    /// The folder that they were started in
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Keep their data; the folder cannot be used again then
    #[arg(long)]
    pub keep_data: bool,
}

/// Which servers are told of.
#[derive(Clone, Debug, Args)]
pub struct StatusOptions {
    /// The folder that they were started in
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Print the roster as JSON
    #[arg(long)]
    pub json: bool,
}

/// A system whose servers can be started here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PeerName {
    /// One Redis server
    Redis,
    /// A cluster of Redis servers
    RedisCluster,
    /// One Valkey server
    Valkey,
    /// A cluster of Valkey servers
    ValkeyCluster,
    /// etcd
    Etcd,
    /// Apache Cassandra, from its Maven artefact
    Cassandra,
    /// VoltDB's community edition, from its Maven artefact
    Voltdb,
}

impl fmt::Display for PeerName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no name is skipped");
        out.write_str(value.get_name())
    }
}

/// When a peer's write is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DurabilityOfPeer {
    /// Before it is answered
    Sync,
    /// Soon after: within 100 ms, or what comes nearest to it
    Nosync,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_options::Given;

    #[test]
    fn shapes_that_a_system_cannot_have_are_refused() {
        for (name, nodes, copies, why) in [
            ("redis", None, 2, ""),
            ("redis", Some(3), 1, "redis is one server: use redis-cluster for more"),
            ("redis-cluster", None, 2, ""),
            ("redis-cluster", Some(2), 2, "three nodes at least"),
            ("valkey-cluster", Some(3), 4, "not more copies than nodes"),
            ("voltdb", Some(1), 2, ""),
            ("voltdb", Some(3), 0, "replication-factor 0: there may be 1 to 5"),
            ("etcd", Some(0), 1, "nodes 0: there may be 1 to 64"),
            ("cassandra", Some(65), 1, "nodes 65"),
        ] {
            let given: UpOptions = Given::by(["up", name, "--data", "d"]);
            let found = UpOptions { nodes, replication_factor: copies, ..given }.check();
            assert_eq!(found.is_ok(), why.is_empty(), "{name} {nodes:?} {copies}: {found:?}");
            assert!(found.err().unwrap_or_default().contains(why), "{name} {nodes:?} {copies}");
        }
    }
}
