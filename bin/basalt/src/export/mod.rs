//! `basalt export`: the keys of a store, or of one of its databases, to a file that other programs read.

mod options;
mod outcome;
mod place;
mod rdb_file;
mod sink;

pub use options::ExportOptions;

use crate::database_places::database_places;
use crate::moment::{BackupRow, NodePages, ShardMoment, StoreMoment, connect, said};
use crate::pace::{Pace, Unit};
use crate::stop_flag::patient_stop_flag;
use crate::store_login::asked;
use client::{StoreUrl, Value};
use cluster::Databases;
use options::Format;
use outcome::Outcome;
use parking_lot::{Mutex, MutexGuard};
use place::Place;
use sink::{Chosen, Sink, What};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use vocab::{ClusterDatabase, Database};

/// Runs `basalt export`.
pub fn run(options: &ExportOptions) -> ExitCode {
    let Some(format) = options.format.or_else(|| Format::of_name(&options.file)) else {
        bench::note!("basalt: the name of {} tells no format: say --format rdb or ndjson", options.file.display());
        return ExitCode::from(2);
    };
    let outcome = match export(options, format) {
        Ok(outcome) => outcome,
        Err(problem) => {
            bench::note!("basalt: nothing was exported: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let text = if options.json {
        serde_json::to_string(&outcome).map(|text| text + "\n").map_err(|e| e.to_string())
    } else {
        Ok(outcome.text())
    };
    // Standard output may be the export.
    let is_output = options.file.as_os_str() == "-";
    let told = text.and_then(|text| {
        if is_output {
            bench::output::remark(format_args!("{text}"));
            return Ok(());
        }
        bench::output::print(&text).map(drop).map_err(|e| e.to_string())
    });
    if let Err(problem) = &told {
        bench::note!("basalt: {problem}");
    }
    if outcome.problems.count() == 0 && told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn export(options: &ExportOptions, format: Format) -> Result<Outcome, String> {
    let place = Place::open(&options.file, options.force)?;
    let stopped = patient_stop_flag().map_err(|e| e.to_string())?;
    let started = Instant::now();
    let chosen = match options.database.and_then(Database::of_number) {
        Some(database) => Chosen::Database(database),
        None if options.cluster_keys => Chosen::ClusterKeys,
        None => match options.cluster_database.and_then(ClusterDatabase::of_number) {
            Some(database) => Chosen::ClusterDatabase(database),
            None => Chosen::All,
        },
    };
    let store = options.tls.towards(&asked(&options.node));
    let (moment, databases) = begin(&store)?;
    let pace = Pace::new(Unit::Keys, Some(moment.keys()), options.rate, options.quiet);
    let version = (format, options.rdb_version);
    let what = What { chosen, databases };
    let mut sink = Sink::begin(place.writer()?, version, (moment.at_ms, &moment.store), what, pace)?;
    for source in libraries(&store)? {
        sink.library(source)?;
    }
    let sink = Mutex::new(sink);
    let by_node = moment.by_node();
    std::thread::scope(|scope| {
        let read = |address: &str, shards: &[&ShardMoment]| {
            let read = read_node(&store, address, shards, &moment, &sink, &stopped);
            // The others need not go on.
            read.inspect_err(|_| stopped.store(true, Ordering::Release))
        };
        let threads: Vec<_> =
            by_node.iter().map(|(address, shards)| scope.spawn(move || read(address, shards))).collect();
        let mut first = Ok(());
        for thread in threads {
            let read = thread.join().map_err(|_| "a thread has panicked".to_owned())?;
            // Of several errors, the one that is not "interrupted" tells more.
            first = match (first, read) {
                (Err(e), Err(other)) if e == INTERRUPTED => Err(other),
                (Err(e), _) => Err(e),
                (Ok(()), read) => read,
            };
        }
        first
    })?;
    let mut outcome = sink.into_inner().finish()?;
    place.finish()?;
    outcome.seconds = started.elapsed().as_secs_f64();
    Ok(outcome)
}

/// How often a moment is tried to which databases are exchanged.
const MOMENTS_MAX: usize = 5;

/// A moment, and which databases have the slots of which then.
fn begin(store: &StoreUrl) -> Result<(StoreMoment, Databases), String> {
    let mut before = database_places(store)?;
    for _ in 0..MOMENTS_MAX {
        let moment = StoreMoment::begin(store)?;
        let databases = database_places(store)?;
        if databases.are_ordered_as(&before) {
            return Ok((moment, databases));
        }
        before = databases;
    }
    Err("databases are exchanged all the time (SWAPDB): try again later".to_owned())
}

const INTERRUPTED: &str = "it was interrupted";

/// The sources of all libraries of functions.
fn libraries(store: &StoreUrl) -> Result<Vec<Vec<u8>>, String> {
    let answer = said(&mut connect(store)?, &[b"FUNCTION", b"LIST", b"WITHCODE"])?;
    let Value::Array(libraries) = answer else { return Ok(Vec::new()) };
    let source = |library: Value| {
        let Value::Array(words) = library else { return None };
        let at = words.iter().position(|word| word.as_bytes() == Some(b"library_code"))?;
        words.get(at + 1)?.as_bytes().map(<[u8]>::to_vec)
    };
    libraries.into_iter().map(|library| source(library).ok_or("FUNCTION LIST cannot be read".to_owned())).collect()
}

/// Reads all shards that one node holds.
fn read_node(
    store: &StoreUrl,
    address: &str,
    shards: &[&ShardMoment],
    moment: &StoreMoment,
    sink: &Mutex<Sink>,
    stopped: &AtomicBool,
) -> Result<(), String> {
    let mut pages = NodePages::open(store, address, moment)?;
    for shard in shards {
        let mut feed = Feed { sink, held: None, open: None };
        pages.read(shard, |row| {
            if stopped.load(Ordering::Acquire) {
                return Err(INTERRUPTED.to_owned());
            }
            feed.push(row)
        })?;
        feed.finish()?;
    }
    Ok(())
}

/// The rows of a shard on their way into the file: those of one key stay together.
struct Feed<'a> {
    sink: &'a Mutex<Sink>,
    /// The newest row: whether more of its key follow is known with the next one.
    held: Option<BackupRow>,
    /// The file, while a key of several rows is written.
    open: Option<MutexGuard<'a, Sink>>,
}

impl Feed<'_> {
    fn push(&mut self, row: BackupRow) -> Result<(), String> {
        let is_same = self.held.as_ref().is_some_and(|held| held.key == row.key);
        match self.held.replace(row) {
            Some(before) => self.write(before, is_same),
            None => Ok(()),
        }
    }

    fn finish(mut self) -> Result<(), String> {
        match self.held.take() {
            Some(last) => self.write(last, false),
            None => Ok(()),
        }
    }

    fn write(&mut self, row: BackupRow, more: bool) -> Result<(), String> {
        let mut sink = self.open.take().unwrap_or_else(|| self.sink.lock());
        sink.row(row, more)?;
        if more {
            self.open = Some(sink);
        }
        Ok(())
    }
}
