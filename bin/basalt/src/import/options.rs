//! The options of `basalt import`.

use bench::options::TlsOptions;
use clap::Args;
use client::StoreUrl;
use std::path::PathBuf;

const AFTER: &str = "\
SOURCE is one of
  redis://[USER:PASSWORD@]HOST:PORT[/DATABASE]   a running Redis or Valkey, as one of its replicas (PSYNC)
  rediss://…                                     the same with TLS
  dump.rdb                                       an RDB file, of Redis 1.2 to 8 or Valkey
  appendonlydir, appendonly.aof, commands.txt    AOF files, or commands as redis-cli --pipe takes them
  keys.ndjson                                    a key a line, as basalt export writes them
  -                                              any of these files, from standard input

From a running server it copies what is there, then follows what changes, and shows how far behind it is. With --cut-over it ends \
as soon as nothing is missing: stop the application's writes first, and start it on Basalt afterwards. Keys that are there already are \
left as they are, unless --replace is given; while it follows, the source's keys replace them. Ctrl-C ends it once nothing is missing, \
a second one at once. A source that is a Redis Cluster is imported as a whole: give one of its nodes.

With --state FILE an import that was interrupted, or whose connection broke, goes on when the same command is given again. Nothing is \
made twice: of commands in files the store keeps checkpoints until the import is complete, and changes that may have been made are \
read from the running source again. A source that no longer has the changes since then sends all keys again, and they replace those \
of the first time.

The keys of one database are imported, number 0 unless the URL or --database names another, and become keys of cluster clients. \
--into-database has them become keys of a database, which clients see at a node's --database-listen. --databases imports all \
databases, each into the one of its number. Commands of the source over keys of \
several slots are not repeated: their keys are read from the source instead. Values of modules, and values of more than 64 MiB, \
are left out, and told.

Examples:
  basalt import dump.rdb --dry-run
  basalt import redis://10.0.0.9:6379 --node 10.0.0.1:7000
  basalt import redis://10.0.0.9:6379 --databases --cut-over --verify 10000
  gunzip < keys.ndjson.gz | basalt import -

Exit codes: 0 everything is there; 1 some keys are not, or it broke off; 2 the command line is wrong.";

/// Copy a Redis or Valkey, or their files, into a store, and follow what changes
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER)]
pub struct ImportOptions {
    /// Where the keys are
    #[arg(value_name = "SOURCE")]
    pub source: String,
    /// A node of the store that takes them; its password is better in the environment variable BASALT_PASSWORD
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7000", value_parser = StoreUrl::of_nodes)]
    pub node: StoreUrl,
    /// How the store, and a source by rediss://, are reached with TLS
    #[command(flatten)]
    pub tls: TlsOptions,
    /// Which database of the source
    #[arg(long, value_name = "N")]
    pub database: Option<u64>,
    /// Whose keys they become: those of this database, not of cluster clients
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..16_384))]
    pub into_database: Option<u64>,
    /// Import all databases, each into the database of its number
    #[arg(long, conflicts_with_all = ["database", "into_database"])]
    pub databases: bool,
    /// Replace keys that are there
    #[arg(long)]
    pub replace: bool,
    /// Read the source and say what is in it; write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// End when the copy is done, and follow nothing
    #[arg(long, conflicts_with = "cut_over")]
    pub no_follow: bool,
    /// Make FLUSHDB, FLUSHALL and SWAPDB of a running source in the store too, else they end the import; only for a store where nothing else writes
    #[arg(long, conflicts_with_all = ["no_follow", "dry_run"])]
    pub follow_flushes: bool,
    /// End when nothing is missing
    #[arg(long)]
    pub cut_over: bool,
    /// At the end, compare so many keys of each database, drawn at random, with a running source; `all` also names keys that only the store has
    #[arg(long, value_name = "KEYS|all", default_value = "0", value_parser = keys_to_verify)]
    pub verify: u64,
    /// At most so many keys a second, and so many commands of the source while it is followed
    #[arg(long, value_name = "KEYS")]
    pub rate: Option<u64>,
    /// Keep in this file how far it is, and go on from there if it was interrupted
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Show the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// How many keys are compared; all, if there are no more.
fn keys_to_verify(text: &str) -> Result<u64, String> {
    if text == "all" { Ok(u64::MAX) } else { text.parse().map_err(|_| "neither a number nor `all`".to_owned()) }
}
