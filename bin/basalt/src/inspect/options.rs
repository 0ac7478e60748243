//! What `inspect` can be asked.

use super::show::{Shown, unescape};
use clap::Args;
use std::path::{Path, PathBuf};

const AFTER: &str = "\
Nothing is written to the directory, not even a lock. A store that is running is refused unless --live is given.

Keys and values are printed as ASCII with \\n, \\r, \\t, \\\\, \\\" and \\xNN for other bytes; --key and --prefix \
take them in the same form.

Examples:
  basalt inspect data                             what there is, shard by shard
  basalt inspect data --key user:7                one key: in the tree, in the log, after a start
  basalt inspect data --shard 3 --entries 100..   what a shard's log says from entry 100 on
  basalt inspect data --scan --prefix user: --limit 20
  basalt inspect data --verify                    compare every checksum

Exit codes: 0 no damage in what was read, 1 damaged or unreadable, 2 the command line is wrong.";

/// Where to look, and at what.
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub struct InspectOptions {
    /// Data directory
    #[arg(value_name = "DATA_DIR")]
    directory: PathBuf,
    /// One shard in detail; or the shard that --entries and --scan look at
    #[arg(long, value_name = "N")]
    shard: Option<u32>,
    /// One key: its record in the tree, the log entries after it, and what recovery makes of them
    #[arg(long, value_name = "KEY", conflicts_with_all = ["shard", "entries", "scan", "verify"])]
    key: Option<String>,
    /// Log entries of a shard, decoded: FROM..TO (both included), FROM.., ..TO, or one index
    #[arg(long, value_name = "FROM..TO", requires = "shard", conflicts_with_all = ["scan", "verify"])]
    entries: Option<String>,
    /// Records as the trees' files have them, in order of keys within each shard
    #[arg(long, conflicts_with = "verify")]
    scan: bool,
    /// Only keys that begin with this
    #[arg(long, value_name = "PREFIX", requires = "scan", default_value = "", hide_default_value = true)]
    prefix: String,
    /// Most records that are listed
    #[arg(long, value_name = "N", default_value = "100", requires = "scan")]
    limit: usize,
    /// Read every file whole, compare every checksum, and check that everything can be decoded
    #[arg(long, conflicts_with_all = ["shard", "live"])]
    verify: bool,
    /// Print values whole rather than their first 64 bytes
    #[arg(long)]
    full: bool,
    /// Look at a store that is running: what it changes meanwhile may look damaged
    #[arg(long)]
    live: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is to be shown.
pub enum View {
    Overview,
    Shard(u32),
    Key(Vec<u8>),
    Entries { shard: u32, from: u64, to: u64 },
    Records { shard: Option<u32>, prefix: Vec<u8>, limit: usize },
    Verify,
}

impl InspectOptions {
    pub(super) fn view(&self) -> Result<View, String> {
        if let Some(key) = &self.key {
            return Ok(View::Key(unescape(key)?));
        }
        if let (Some(range), Some(shard)) = (&self.entries, self.shard) {
            let (from, to) = parse_range(range)?;
            return Ok(View::Entries { shard, from, to });
        }
        if self.scan {
            return Ok(View::Records { shard: self.shard, prefix: unescape(&self.prefix)?, limit: self.limit });
        }
        if self.verify {
            return Ok(View::Verify);
        }
        Ok(self.shard.map_or(View::Overview, View::Shard))
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn live(&self) -> bool {
        self.live
    }

    pub(super) fn json(&self) -> bool {
        self.json
    }

    /// How much of a value is shown.
    pub(super) fn shown(&self) -> Shown {
        if self.full { Shown::Whole } else { Shown::Beginning }
    }
}

fn parse_range(text: &str) -> Result<(u64, u64), String> {
    let number = |part: &str, otherwise: u64| match part {
        "" => Ok(otherwise),
        digits => digits.parse().map_err(|_| format!("'{text}' is not FROM..TO, two indexes of entries")),
    };
    match text.split_once("..") {
        Some((from, to)) => Ok((number(from, 0)?, number(to, u64::MAX)?)),
        None => number(text, 0).map(|index| (index, index)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let table = [
            ("3..7", Some((3, 7))),
            ("3..", Some((3, u64::MAX))),
            ("..7", Some((0, 7))),
            ("..", Some((0, u64::MAX))),
            ("5", Some((5, 5))),
            ("a..b", None),
            ("-1", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_range(text).ok(), expected, "{text}");
        }
    }
}
