//! `basalt import`: the keys of a Redis or Valkey, or of its files, into a store.

mod commands;
mod copy;
mod files;
mod follow;
mod options;
mod outcome;
mod pace;
mod replica;
mod source;
mod target;
mod verify;

pub use options::ImportOptions;

use crate::stop_flag::patient_stop_flag;
use client::StoreUrl;
use commands::Commands;
use copy::Copy;
use files::Part;
use follow::Follower;
use outcome::Outcome;
use pace::Pace;
use replica::Replica;
use source::Source;
use std::io::BufRead as _;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use target::Target;
use vocab::wall_clock_ms;

/// Between two lines that say how far behind the store is.
const LAG_EVERY: Duration = Duration::from_secs(1);

/// Runs `basalt import`.
pub fn run(options: &ImportOptions) -> ExitCode {
    let live = match live(options) {
        Ok(live) => live,
        Err(problem) => {
            bench::note!("basalt: {problem}");
            return ExitCode::from(2);
        }
    };
    let mut outcome = Outcome::default();
    let ended = match live {
        Some((url, database)) => of_server(options, &url, database, &mut outcome),
        None => of_files(options, &mut outcome),
    };
    if let Err(problem) = &ended {
        outcome.problem(problem.clone());
    }
    let text = if options.json {
        serde_json::to_string(&outcome).map(|text| text + "\n").map_err(|e| e.to_string())
    } else {
        Ok(outcome.text(options.dry_run))
    };
    let printed = text.and_then(|text| bench::output::print(&text).map_err(|e| e.to_string()));
    if let Err(problem) = &printed {
        bench::note!("basalt: {problem}");
    }
    if outcome.problems == 0 && printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The running source, if it is one, and the number of its database.
fn live(options: &ImportOptions) -> Result<Option<(StoreUrl, u64)>, String> {
    let Some(rest) = options.source.strip_prefix("redis://") else {
        let needs = [(options.cut_over, "--cut-over"), (options.verify > 0, "--verify")];
        return match needs.iter().find(|(given, _)| *given) {
            Some((_, name)) => Err(format!("{name} needs a running source, redis://HOST:PORT")),
            None => Ok(None),
        };
    };
    // An address has no slash: what stands behind one is a database.
    let (place, number) = rest.rsplit_once('/').unwrap_or((rest, ""));
    let in_url = if number.is_empty() { Ok(None) } else { number.parse().map(Some) };
    let in_url = in_url.map_err(|_| format!("\"{number}\" is not the number of a database"))?;
    let database = options.database.or(in_url).unwrap_or(0);
    let url = format!("redis://{place}").parse().map_err(|e| format!("{}: {e}", options.source))?;
    Ok(Some((url, database)))
}

fn open_target(options: &ImportOptions) -> Result<Option<Target>, String> {
    if options.dry_run { Ok(None) } else { Target::open(&options.node).map(Some) }
}

/// Imports files.
fn of_files(options: &ImportOptions, outcome: &mut Outcome) -> Result<(), String> {
    let paths = files::paths(&options.source)?;
    let mut target = open_target(options)?;
    let database = options.database.unwrap_or(0);
    let mut selected = 0;
    for path in paths {
        let mut file = files::open(&path)?;
        let named = |problem: String| format!("{}: {problem}", file.name);
        let mut pace = Pace::new(file.bytes, options.rate, options.quiet);
        if matches!(file.part, Part::Copy) {
            let replace = options.replace;
            let now_ms = wall_clock_ms();
            let mut copy = Copy { database, replace, target: target.as_mut(), pace: &mut pace, now_ms };
            selected = copy.run(&mut file.input, outcome).map_err(named)?;
            if file.input.fill_buf().map_err(|e| named(e.to_string()))?.is_empty() {
                continue;
            }
            // Commands of an AOF file behind a copy begin in database 0.
            selected = 0;
        }
        let mut commands = Commands::new(&mut file.input, 0);
        let mut follower = target.as_mut().map(|target| Follower::new(target, None, database, selected));
        while let Some(args) = commands.next().map_err(named)? {
            outcome.keys += u64::from(follower.is_none());
            if let Some(follower) = &mut follower {
                pace.wait();
                follower.command(args, commands.position(), outcome).map_err(named)?;
            }
            pace.show(commands.position(), outcome);
        }
        if let Some(follower) = &mut follower {
            follower.settle(commands.position(), outcome).map_err(named)?;
        }
        pace.end();
    }
    Ok(())
}

/// Imports a running server.
fn of_server(options: &ImportOptions, url: &StoreUrl, database: u64, outcome: &mut Outcome) -> Result<(), String> {
    let mut target = open_target(options)?;
    let mut source = Source::open(url, database)?;
    let mut replica = Replica::open(url)?;
    let mut pace = Pace::new(replica.copy_bytes, options.rate, options.quiet);
    let follows = !options.no_follow && !options.dry_run;
    let replace = options.replace;
    let mut copy = Copy { database, replace, target: target.as_mut(), pace: &mut pace, now_ms: wall_clock_ms() };
    copy.run(&mut replica.input, outcome)?;
    pace.end();
    replica.end_copy()?;
    if let Some(target) = target.as_mut().filter(|_| follows) {
        follow(options, target, source, &mut replica, database, outcome)?;
        source = Source::open(url, database)?;
    }
    if options.verify > 0 && !options.dry_run {
        verify::compare(&mut source, &options.node, options.verify, outcome)?;
    }
    Ok(())
}

/// Repeats what the source is told, until the store lacks nothing (`--cut-over`) or someone ends it.
fn follow(
    options: &ImportOptions,
    target: &mut Target,
    source: Source,
    replica: &mut Replica,
    database: u64,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let stopped = patient_stop_flag().map_err(|e| e.to_string())?;
    if !options.quiet {
        bench::note!("the copy is there ({} keys); following what changes", outcome.written);
    }
    let mut follower = Follower::new(target, Some(source), database, 0);
    let mut offset = replica.offset;
    // The stream is read while nothing waits in its buffer only if there is more of it.
    let mut told = Instant::now();
    let mut end = follower.end()?.unwrap_or(offset);
    loop {
        while offset < end {
            let mut commands = Commands::new(&mut replica.input, offset);
            let args = commands.next().map_err(|e| format!("the source: {e}"))?;
            let args = args.ok_or("the source has closed the connection")?;
            offset = commands.position();
            follower.command(args, offset, outcome)?;
            if told.elapsed() > LAG_EVERY {
                break;
            }
        }
        follower.settle(offset, outcome)?;
        replica.report(offset);
        end = follower.end()?.unwrap_or(offset);
        let lag = end.saturating_sub(offset);
        if lag == 0 && (options.cut_over || stopped.load(Ordering::Acquire)) {
            if !options.quiet {
                bench::note!("nothing is missing; the application may use {}", options.node);
            }
            return Ok(());
        }
        if told.elapsed() > LAG_EVERY {
            told = Instant::now();
            if !options.quiet {
                bench::note!(
                    "{lag} bytes behind; {} commands followed, {} problems",
                    outcome.commands,
                    outcome.problems
                );
            }
        }
        if lag == 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
