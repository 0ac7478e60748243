//! The options of `basalt demo`.

use crate::cluster::Trouble;
use bench::options::OutputOptions;
use clap::Args;

const AFTER: &str = "\
It needs two cores and, with the default number of records, 7 GB of disk below the current directory while it runs. Its nodes \
are processes of this program on free ports of 127.0.0.1. They end with the demonstration, and their data is removed (a kill -9 \
leaves it). Only the report stays.

Exit codes: 0 every acknowledged write is there, and every second had successful reads; 1 otherwise, or it could not go on; 2 the \
command line is wrong.";

/// Watch a store of three nodes lose one under load, and take it back
///
/// Starts three nodes, loads a million records of 1 KB, and runs YCSB's workload B (95 % reads of any replica, 5 %
/// updates) for a minute. After a third of it a node is killed (kill -9), after two thirds it is started again. At the
/// end: how long nothing was read or written, whether every acknowledged write is there, and a report with charts.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER)]
pub struct DemoOptions {
    /// Nodes; as many as three hold each shard
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(3..=64))]
    pub nodes: u16,
    /// Shards
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub shards: u16,
    /// Records of 10 fields of 100 bytes
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub records: u64,
    /// Seconds under load, of which the node is dead for a third
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub seconds: u64,
    /// Clients
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub clients: usize,
    /// When a write is answered: on disk (sync), or in the operating system's memory (nosync), of a majority
    #[arg(long, value_name = "sync|nosync", default_value = "nosync")]
    pub durability: String,
    /// Any other setting of every node; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = crate::start::pair)]
    pub set: Vec<(String, String)>,
    /// What is written, and where
    #[command(flatten)]
    pub output: OutputOptions,
}

impl DemoOptions {
    /// What clap cannot know.
    pub fn check(&self) -> Result<(), Trouble> {
        if self.records < 2 || self.seconds < 3 || self.clients == 0 {
            return Err(Trouble::Usage("at least two records, three seconds and one client".to_owned()));
        }
        Ok(())
    }

    /// Says what is being done, unless --quiet.
    pub fn say(&self, text: &str) {
        if !self.output.quiet {
            bench::note!("{text}");
        }
    }
}
