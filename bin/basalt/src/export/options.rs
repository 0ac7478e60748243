//! The options of `basalt export`.

use bench::options::TlsOptions;
use clap::{Args, ValueEnum};
use client::StoreUrl;
use std::path::{Path, PathBuf};

const AFTER: &str = "\
FILE gets all keys as of one moment between the start of the command and its first progress, while the store serves: if a client \
wrote A, was answered, and then wrote B, no export has B without A. `-` is standard output. A file appears under its name when it \
is complete; one that is there is replaced only with --force. A link is followed; a device or a pipe is written to as it is.

Formats:
  rdb      what redis-server loads (dump.rdb), and redis-cli, RedisShake and `basalt import` read
  ndjson   a key a line, in JSON: docs/FORMATS.md

To a Redis the keys of cluster clients are database 0, or that which they have chosen by SELECT, and database N is database N. If a \
store has keys of cluster clients and of the database of the same number, name one of them: --cluster-keys or --cluster-database N, or \
--database N.

Examples:
  basalt export dump.rdb --node 10.0.0.1:7000
  basalt export - --format ndjson --database 3 | gzip > three.ndjson.gz
  basalt export dump.rdb --rate 20000000        at most 20 MB a second

Exit codes: 0 everything is in the file; 1 something is not, or it broke off; 2 the command line is wrong.";

/// Write the keys of a store to an RDB or NDJSON file, as of one moment, while it serves
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub struct ExportOptions {
    /// Where the keys go
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How the store is reached with TLS
    #[command(flatten)]
    pub tls: TlsOptions,
    /// A node of the store; its password is better in the environment variable BASALT_PASSWORD
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7000", value_parser = StoreUrl::of_nodes)]
    pub node: StoreUrl,
    /// How they are written; by the file's name if it is not given
    #[arg(long)]
    pub format: Option<Format>,
    /// Only the keys of this database
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..16_384), conflicts_with_all = ["cluster_keys", "cluster_database"])]
    pub database: Option<u64>,
    /// Only the keys of cluster clients, without those of other databases than 0
    #[arg(long)]
    pub cluster_keys: bool,
    /// Only the keys of cluster clients in this database
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..930), conflicts_with = "cluster_keys")]
    pub cluster_database: Option<u64>,
    /// The version of RDB
    #[arg(long, value_name = "N", default_value = "10")]
    pub rdb_version: RdbVersion,
    /// At most so many bytes a second
    #[arg(long, value_name = "BYTES")]
    pub rate: Option<u64>,
    /// Replace a file that is there
    #[arg(long)]
    pub force: bool,
    /// Show the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// How keys are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// As redis-server does
    Rdb,
    /// A key a line, in JSON
    Ndjson,
}

/// Versions of RDB that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RdbVersion {
    /// For Redis 7.0 and later
    #[value(name = "10")]
    Redis70,
    /// For Redis 7.4 and later: fields of hashes may expire
    #[value(name = "12")]
    Redis74,
}

impl Format {
    /// The format that a file's name tells.
    pub(super) fn of_name(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "rdb" => Some(Self::Rdb),
            "ndjson" | "jsonl" | "json" => Some(Self::Ndjson),
            _ => None,
        }
    }
}
