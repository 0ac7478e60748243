//! `basalt bench peer`: other systems' servers on this machine.

use std::fmt;
use std::io;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Roster, up};
use crate::output::print;

/// What `bench peer` does.
#[derive(Clone, Debug, Subcommand)]
pub enum PeerCommand {
    /// Start a system's servers on this machine, and say what --target takes
    Up(UpOptions),
    /// Stop the servers that were started in a folder
    Down(DownOptions),
    /// Tell of the servers in a folder
    Status(StatusOptions),
}

/// How a system is started.
#[derive(Clone, Debug, Args)]
pub struct UpOptions {
    /// Which system
    #[arg(value_enum)]
    pub name: PeerName,
    /// An empty folder for its data
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Nodes; of a cluster of Redis as many masters
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub nodes: u16,
    /// Copies of each record in a cluster of Redis, and of VoltDB; the others have their own ways
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=5))]
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

/// Does what the command says. True when all went well.
pub(crate) fn run(command: &PeerCommand) -> io::Result<bool> {
    match command {
        PeerCommand::Up(options) => {
            crate::note!("starting {}…", options.name);
            let roster = up(options)?;
            show(&roster, options.json)?;
        }
        PeerCommand::Down(options) => {
            let roster = roster(&options.data)?;
            roster.end()?;
            if !options.keep_data {
                roster.remove(&options.data)?;
            }
            let data = if options.keep_data { "kept" } else { "removed" };
            crate::note!("{} is down; its data is {data}", roster.name);
        }
        PeerCommand::Status(options) => {
            let roster = roster(&options.data)?;
            show(&roster, options.json)?;
            return Ok(roster.alive() == roster.nodes.len());
        }
    }
    Ok(true)
}

fn roster(dir: &std::path::Path) -> io::Result<Roster> {
    let nothing = || io::Error::new(io::ErrorKind::NotFound, format!("no peer was started in {}", dir.display()));
    Roster::read(dir)?.ok_or_else(nothing)
}

fn show(roster: &Roster, json: bool) -> io::Result<()> {
    if json {
        return print(&(serde_json::to_string_pretty(roster)? + "\n")).map(drop);
    }
    let mut text = format!("{}: {} of {} servers are up\n", roster.name, roster.alive(), roster.nodes.len());
    text += &format!("settings  {}\n--target  {}\n", roster.settings, roster.target);
    for node in &roster.nodes {
        text += &format!("  {:<22} process {:<8} {}\n", node.address, node.process.id, node.data.display());
    }
    print(&text).map(drop)
}
