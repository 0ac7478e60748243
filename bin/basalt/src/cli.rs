//! The command line.

use crate::cluster::ClusterOptions;
use crate::config::ConfigOptions;
use crate::ctl::CtlOptions;
use crate::demo::DemoOptions;
use crate::export::ExportOptions;
use crate::import::ImportOptions;
use crate::inspect::InspectOptions;
use crate::sim::SimOptions;
use crate::start::StartOptions;
use bench::cli::BenchOptions;
use clap::{Parser, Subcommand};
use clap_complete::Shell;
use std::ffi::OsString;

/// What the image for containers begins with: what follows is a command, or flags of `start`.
const OF_CONTAINER: &str = "container";

/// The command line, as it is meant: in a container, flags alone are those of `start`, the program's name may be repeated, and the node
/// answers the container's health check.
pub fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut given: Vec<OsString> = given.collect();
    if given.get(1).is_none_or(|word| word != OF_CONTAINER) {
        return given;
    }
    given.remove(1);
    if given.get(1).is_some_and(|word| word == "basalt") {
        given.remove(1);
    }
    if given.get(1).is_none_or(|word| word.to_string_lossy().starts_with('-')) {
        given.insert(1, "start".into());
    }
    if given.get(1).is_some_and(|word| word == "start") {
        given.insert(2, "--answer-health".into());
    }
    given
}

const AFTER: &str = "\
Examples:
  basalt demo                                 watch a store of three nodes lose one under load
  basalt start                                serve 127.0.0.1:7000 from ./basalt-data
  redis-cli -p 7000                           talk to it with any Redis or Redis Cluster client
  basalt cluster up                           a store of three nodes on this machine
  basalt bench                                measure an embedded store: no server needed
  basalt bench run --target redis://127.0.0.1:7000 -P workloada
  basalt import redis://10.0.0.9:6379         take over the keys of a Redis, and follow it
  basalt export dump.rdb                      write all keys to a file that Redis loads
  basalt inspect ./basalt-data                look into a data directory without changing it

Exit codes: 0 done, 1 it failed or found errors, 2 the command line is wrong.";

/// A distributed key-value database that speaks the Redis Cluster protocol, and its laboratory.
#[derive(Debug, Parser)]
#[command(name = "basalt", version, about, after_help = AFTER, arg_required_else_help = true)]
pub struct Cli {
    /// Say more on standard error: -v for what it does, -vv for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a data directory
    Start(Box<StartOptions>),
    /// Run a store of several nodes on this machine
    Cluster(Box<ClusterOptions>),
    /// Make a store, see how it is, and change its shape and settings
    Ctl(Box<CtlOptions>),
    /// Watch a store of three nodes lose one under load, and take it back
    Demo(Box<DemoOptions>),
    /// Measure an embedded store, a server of the Redis kind, or a no-op server
    Bench(Box<BenchOptions>),
    /// Write the keys of a store to an RDB or NDJSON file, as of one moment, while it serves
    Export(Box<ExportOptions>),
    /// Copy a Redis or Valkey, or their files, into a store, and follow what changes
    Import(Box<ImportOptions>),
    /// Show all settings, and check a configuration file
    Config(ConfigOptions),
    /// Look into a data directory without changing it
    Inspect(Box<InspectOptions>),
    /// Run whole stores in virtual time, with faults, and check what they do
    Sim(SimOptions),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_takes_flags_or_commands() {
        for (given, meant) in [
            ("basalt", "basalt"),
            ("basalt start --memory 1g", "basalt start --memory 1g"),
            ("basalt container", "basalt start --answer-health"),
            ("basalt container --memory 1g", "basalt start --answer-health --memory 1g"),
            ("basalt container basalt start --memory 1g", "basalt start --answer-health --memory 1g"),
            ("basalt container basalt", "basalt start --answer-health"),
            ("basalt container ctl ping", "basalt ctl ping"),
        ] {
            let found = arguments(given.split(' ').map(OsString::from));
            assert_eq!(found.join(std::ffi::OsStr::new(" ")), meant, "{given}");
        }
    }
}
