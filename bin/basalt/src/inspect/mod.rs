//! `basalt inspect`: looks into a data directory and never writes to it.

mod entries;
mod fields;
mod key;
mod logged;
mod options;
mod overview;
mod records;
mod report;
mod shard;
mod show;
mod source;
mod stored;
mod stored_stream;
mod table;
mod verify;

pub use options::InspectOptions;

use options::View;
use report::Report;
use serde_json::json;
use source::Source;
use std::io::{self, Write};
use std::process::ExitCode;

/// Shows what was asked for. 1: it cannot be shown, or something is damaged.
pub fn run(options: &InspectOptions) -> ExitCode {
    let shown = options.view().map_err(Failure::Usage).and_then(|view| show(options, &view));
    match shown {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            let (why, code) = match failure {
                Failure::Usage(why) => (why, 2),
                Failure::Store(why) => (why, 1),
            };
            if options.json() {
                bench::note!("{}", json!({ "error": why, "exit_code": code }));
            } else {
                bench::note!("basalt inspect: {why}");
            }
            ExitCode::from(code)
        }
    }
}

enum Failure {
    Usage(String),
    Store(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Store(why)
    }
}

/// True if nothing that was looked at is damaged.
fn show(options: &InspectOptions, view: &View) -> Result<bool, Failure> {
    let source = Source::open(options.directory(), options.live())?;
    // A shard that is not there was asked for wrongly, unless the map is damaged that would name it.
    let named = |shard: u32| source.shard(shard).map_err(Failure::Usage);
    let is_sound = match view {
        View::Overview => print(&overview::Overview::of(&source), options.json()),
        View::Shard(shard) => print(&shard::ShardDetail::of(&source, named(*shard)?), options.json()),
        View::Key(key) => print(&key::KeyReport::of(&source, key, options.shown())?, options.json()),
        View::Entries { shard, from, to } => {
            let shard = named(*shard)?;
            print(&entries::EntriesReport::of(&source, shard, *from, *to, options.shown())?, options.json())
        }
        View::Records { shard, prefix, limit } => {
            let shards = match shard {
                Some(shard) => vec![named(*shard)?],
                None => source.shards().collect(),
            };
            print(&records::RecordsReport::of(&source, &shards, prefix, *limit, options.shown())?, options.json())
        }
        View::Verify => print(&verify::Verification::of(&source), options.json()),
    };
    Ok(is_sound?)
}

fn print<R: Report>(report: &R, json: bool) -> Result<bool, String> {
    let write = |out: &mut dyn Write| {
        if json {
            serde_json::to_writer_pretty(&mut *out, report).map_err(io::Error::from).and_then(|()| writeln!(out))
        } else {
            report.text(out)
        }
    };
    bench::output::print_with(write).map(|_| report.is_sound()).map_err(|error| error.to_string())
}
