//! `basalt import`: the keys of a Redis or Valkey, or of its files, into a store.

mod checkpoints;
mod commands;
mod copy;
mod emptied;
mod emptying;
mod expiries;
mod file_commands;
mod files;
mod follow;
mod large;
mod lines;
mod live;
mod options;
mod outcome;
mod own_slots;
mod replayed;
mod replica;
mod scope;
mod source;
mod state;
mod verify;
mod walk;

pub use options::ImportOptions;

use crate::database_places::{database_places, databases_of};
use crate::moment::{connect, said, text_of_setting};
use crate::pace::{Pace, Unit};
use crate::stop_flag::patient_stop_flag;
use crate::store_login::asked;
use crate::store_writer::StoreWriter;
use checkpoints::Checkpoints;
use client::{SlotMap, StoreUrl};
use cluster::Databases;
use commands::Form;
use copy::{Copy, Saves};
use emptied::{Emptied, Fate};
use expiries::Expiries;
use file_commands::FileCommands;
use files::{Opened, Part};
use follow::Follower;
use live::Live;
use outcome::Outcome;
use own_slots::OwnSlots;
use parking_lot::Mutex;
use scope::{Chosen, Scope};
use source::Source;
use state::StateFile;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use vocab::{Database, SLOT_COUNT, Slot, wall_clock_ms};

/// Runs `basalt import`.
pub fn run(options: &ImportOptions) -> ExitCode {
    let options = &ImportOptions { node: store(options), ..options.clone() };
    let live = match running(options) {
        Ok(live) => live,
        Err(problem) => {
            bench::note!("basalt: {problem}");
            return ExitCode::from(2);
        }
    };
    let kept = options.state.as_deref().filter(|_| !options.dry_run);
    let chosen = chosen(options, live.as_ref().map_or(options.database.unwrap_or(0), |(_, database)| *database));
    let (places, count) = match places(options, chosen) {
        Ok(found) => found,
        Err(problem) => {
            bench::note!("basalt: nothing was imported: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let scope = Scope { chosen, places: &places, count };
    // Without the password that may be in the URL.
    let source = live.as_ref().map_or_else(|| options.source.clone(), |(url, _)| url.to_string());
    let state = match StateFile::open(kept, &format!("{source}, {chosen:?}")) {
        Ok(state) => Mutex::new(state),
        Err(problem) => {
            bench::note!("basalt: {problem}");
            return ExitCode::from(2);
        }
    };
    let mut outcome = state.lock().outcome();
    let follows = live.is_some() && !options.no_follow && !options.dry_run && !options.quiet;
    let ended = match live {
        Some((url, _)) => of_servers(options, &url, scope, &state, &mut outcome),
        None => of_files(options, scope, &mut state.lock(), &mut outcome),
    };
    // Once nothing is put off any more, and what was to be compared is.
    if let (Ok(()), true) = (&ended, follows) {
        let (problems, place) = (outcome.problems.count(), served_at(options, chosen));
        match problems {
            0 => bench::note!("the application may use {place}"),
            _ => bench::note!("look at the problems before the application uses {place}"),
        }
    }
    let ended = ended.and_then(|()| if outcome.problems.count() == 0 { state.lock().remove() } else { Ok(()) });
    if let Err(problem) = &ended {
        outcome.problems.note(problem.clone());
    }
    if chosen == Chosen::All && outcome.other_databases > 0 {
        outcome.problems.note(format!(
            "{} keys are of databases that the store does not have: it has {count} (setting `databases`, read at a node's start)",
            outcome.other_databases
        ));
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
    if outcome.problems.count() == 0 && printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The running source, if it is one, and the number of its database.
fn running(options: &ImportOptions) -> Result<Option<(StoreUrl, u64)>, String> {
    let schemes = ["redis://", "rediss://"];
    let found = schemes.iter().find_map(|scheme| Some((scheme, options.source.strip_prefix(scheme)?)));
    let Some((scheme, rest)) = found else {
        let needs = [
            (options.cut_over, "--cut-over"),
            (options.follow_flushes, "--follow-flushes"),
            (options.verify > 0, "--verify"),
        ];
        return match needs.iter().find(|(given, _)| *given) {
            Some((_, name)) => Err(format!("{name} needs a running source, redis://HOST:PORT")),
            None => Ok(None),
        };
    };
    // An address has no slash: what stands behind one is a database.
    let login = rest.rfind('@').map_or(0, |at| at + 1);
    let (place, number) = match rest[login..].rsplit_once('/') {
        Some((place, number)) => (&rest[..login + place.len()], number),
        None => (rest, ""),
    };
    let url = format!("{scheme}{place}").parse::<StoreUrl>();
    // Without what may be a password.
    let url = url.map_err(|e| format!("SOURCE is no address of the form {scheme}[USER:PASSWORD@]HOST:PORT: {e}"))?;
    // The options' files are for both, and whether the source speaks TLS its URL says.
    let url = if url.secure.is_some() { options.tls.towards(&url) } else { url };
    let database = match (options.database, number.parse()) {
        (Some(database), _) | (None, Ok(database)) => database,
        (None, Err(_)) if number.is_empty() => 0,
        // A store's databases have names beside numbers.
        (None, Err(_)) => Source::open(&url)?.number_of(number)?,
    };
    Ok(Some((url, database)))
}

/// The store that takes the keys. Files that are named for a source do not make the store speak TLS.
fn store(options: &ImportOptions) -> StoreUrl {
    let are_for_source = options.source.starts_with("rediss://") && options.node.secure.is_none() && !options.tls.tls;
    let node = asked(&options.node);
    if are_for_source { node } else { options.tls.towards(&node) }
}

/// What is imported, if database `source` is unless all are.
fn chosen(options: &ImportOptions, source: u64) -> Chosen {
    if options.databases {
        return Chosen::All;
    }
    Chosen::One { source, into: options.into_database.and_then(Database::of_number) }
}

/// Where clients find the keys.
fn served_at(options: &ImportOptions, chosen: Chosen) -> String {
    if !chosen.has_databases() {
        return options.node.to_string();
    }
    let listeners =
        connect(&options.node).and_then(|mut node| said(&mut node, &[b"CONFIG", b"GET", b"database-listen"]));
    let address = listeners.ok().and_then(|answer| text_of_setting(&answer)).filter(|address| !address.is_empty());
    match address {
        Some(address) => format!("the databases of the store: redis://{address} is one node's"),
        None => "the databases of the store, once a node is started with --database-listen".to_owned(),
    }
}

/// In which slots the store has its databases, and how many there are.
fn places(options: &ImportOptions, chosen: Chosen) -> Result<(Databases, u64), String> {
    if options.dry_run || !chosen.has_databases() {
        return Ok((Databases::default(), u64::MAX));
    }
    let count = databases_of(&options.node)?;
    match options.into_database.filter(|into| *into >= count) {
        Some(into) => Err(format!("there is no database {into}: the store has {count} (setting `databases`)")),
        None => Ok((database_places(&options.node)?, count)),
    }
}

fn open_target(options: &ImportOptions) -> Result<Option<StoreWriter>, String> {
    if options.dry_run { Ok(None) } else { StoreWriter::open(&options.node).map(Some) }
}

/// Imports files.
fn of_files(
    options: &ImportOptions,
    scope: Scope<'_>,
    state: &mut StateFile,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let paths = files::paths(&options.source)?;
    let emptied = Emptied::find(&paths)?;
    state.note_emptied(emptied.told())?;
    let mut target = open_target(options)?;
    let mut expiries = files::have_history(&paths)?.then(|| Expiries::new(false));
    let goes_on = state.checkpoints().is_some();
    let was_interrupted = state.resumes();
    let read =
        OfFiles { options, scope, emptied: &emptied, state, target: target.as_mut(), expiries: expiries.as_mut() }
            .read(&paths, outcome);
    if let (Some(expiries), Some(target)) = (&mut expiries, &mut target) {
        if read.is_err() && goes_on {
            if !expiries.is_empty() {
                bench::note!("basalt: {}", expiries::STAY_PUT_OFF);
            }
            return read;
        }
        if read.is_ok() && was_interrupted {
            expiries.find(&options.node, scope)?;
        }
        let settled = expiries.settle(target, outcome);
        return read.and(settled);
    }
    read
}

const TO_MEND: &str = "the commands before it were made, and none behind it. Mend the file there (redis-check-aof shows such a place, and \
                       with --fix cuts the file off there), and import it into a store without its keys";

/// An import of files under way.
struct OfFiles<'a> {
    options: &'a ImportOptions,
    scope: Scope<'a>,
    emptied: &'a Emptied,
    state: &'a mut StateFile,
    target: Option<&'a mut StoreWriter>,
    expiries: Option<&'a mut Expiries>,
}

impl OfFiles<'_> {
    fn read(mut self, paths: &[PathBuf], outcome: &mut Outcome) -> Result<(), String> {
        let (first, mut done) = self.state.place();
        for (number, path) in paths.iter().enumerate().skip(first) {
            let mut file = files::open(path)?;
            let name = file.name.clone();
            let named = |problem: String| format!("{name}: {problem}");
            let mut pace = Pace::new(Unit::Bytes, file.bytes, self.options.rate, self.options.quiet);
            if !matches!(file.part, Part::Commands) {
                self.copy(&mut file, (number, std::mem::take(&mut done)), &mut pace, outcome).map_err(named)?;
            }
            if !matches!(file.part, Part::Lines) {
                self.follow(&mut file, number, &mut pace, outcome).map_err(named)?;
            }
            pace.end();
        }
        Ok(())
    }

    /// The copy that a file begins with, of which so many items were written before.
    fn copy(
        &mut self,
        file: &mut Opened,
        (number, done): (usize, u64),
        pace: &mut Pace,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        let is_lines = matches!(file.part, Part::Lines);
        let mut copy = Copy {
            scope: self.scope,
            replace: self.options.replace,
            target: self.target.as_deref_mut(),
            pace,
            now_ms: wall_clock_ms(),
            node: &self.options.node,
            gathered: None,
            saves: Some(Saves { state: self.state, file: number, done }),
            emptied: Some((self.emptied, number)),
            slots: None,
            expiries: self.expiries.as_deref_mut().filter(|_| !is_lines),
        };
        if is_lines {
            return copy.run_lines(&mut file.input, outcome);
        }
        copy.run(&mut file.input, outcome)?;
        // What the commands behind have changed must not be written again as it was.
        self.state.note_copied(number, u64::MAX, outcome)
    }

    /// The commands of a file.
    fn follow(
        &mut self,
        file: &mut Opened,
        number: usize,
        pace: &mut Pace,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        // Commands of an AOF file, behind a copy or not, begin in database 0.
        let (mut commands, first) =
            (FileCommands::new(&mut file.input, file.form), self.emptied.last_number(0, number));
        let mut follower = self.target.as_deref_mut().map(|target| Follower::new(target, None, self.scope, first));
        if let Some(follower) = &mut follower {
            // Places of the next file are behind those of this one.
            follower.keep(self.state.checkpoints().map(|id| Checkpoints::new(id.wrapping_add(number as u64))));
            follower.put_off(self.expiries.as_deref_mut().filter(|_| file.form == Form::Log));
        }
        let mut fates = self.emptied.of_file(number);
        let mut make_all = || {
            while let Some((mut args, place)) = commands.next().map_err(|problem| format!("{problem}; {TO_MEND}"))? {
                let fate = fates.next(&args, place.start);
                fate.rewrite(&mut args);
                match &mut follower {
                    _ if fate == Fate::LeftOut => {}
                    Some(follower) => {
                        pace.wait(1);
                        follower.command(args, place, outcome)?;
                    }
                    None => follow::look_at(&args, place.start, outcome)?,
                }
                pace.show(commands.position(), || outcome.progress());
            }
            Ok(())
        };
        let ended: Result<(), String> = make_all();
        let Some(mut follower) = follower else { return ended };
        // Also what was read of a file that breaks off.
        let settled = follower.settle(commands.position(), outcome);
        ended.and(settled)?;
        // Before the checkpoints go: without them the file's commands would be made again.
        self.state.note_copied(number + 1, 0, outcome)?;
        follower.end(outcome)
    }
}

/// Imports a running server, or all masters of a cluster.
fn of_servers(
    options: &ImportOptions,
    url: &StoreUrl,
    scope: Scope<'_>,
    state: &Mutex<StateFile>,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let stopped = patient_stop_flag().map_err(|e| e.to_string())?;
    let map = SlotMap::fetch(url, false).map_err(|e| format!("the source: {e}"))?;
    let of_slots: Vec<usize> = (0..SLOT_COUNT).map(|slot| map.leader(Slot(slot))).collect();
    let masters: BTreeSet<usize> = of_slots.iter().copied().collect();
    let is_begun = state.lock().resumes();
    if !is_begun && !options.dry_run && !options.no_follow && emptying::has_none(&options.node, scope)? {
        state.lock().note_was_empty(scope.places_hash())?;
    }
    let live = |master: usize| Live {
        options,
        url: url.with_seeds(vec![map.nodes()[master].clone()]),
        scope,
        stopped: &stopped,
        state,
        slots: (masters.len() > 1).then_some(OwnSlots { masters: &of_slots, own: master }),
    };
    let broke = AtomicBool::new(false);
    let run = |master: usize| {
        let mut outcome = Outcome::default();
        let ended = live(master).run(&mut outcome);
        if let Err(problem) = ended {
            // The others end as soon as nothing is missing: what is there counts.
            stopped.store(true, Ordering::Release);
            broke.store(true, Ordering::Release);
            outcome.problems.note(problem);
        }
        outcome
    };
    let run = &run;
    std::thread::scope(|scope| {
        let threads: Vec<_> = masters.iter().map(|master| scope.spawn(move || run(*master))).collect();
        for thread in threads {
            outcome.add(thread.join().map_err(|_| "a thread has panicked".to_owned())?);
        }
        Ok::<(), String>(())
    })?;
    if broke.into_inner() || options.dry_run {
        return Ok(());
    }
    state.lock().forget_was_empty()?;
    if state.lock().resumes() {
        // All have ended: what is still put off is of an import before this one.
        let mut expiries = Expiries::new(true);
        expiries.find(&options.node, scope)?;
        expiries.settle(&mut StoreWriter::open(&options.node)?, outcome)?;
    }
    if options.verify > 0 {
        for master in &masters {
            let mut source = Source::open(&live(*master).url)?;
            verify::compare(&mut source, (scope, &options.node), options.verify, outcome)?;
        }
    }
    if options.verify == u64::MAX {
        verify::find_others((url, masters.len() > 1), (scope, &options.node), outcome)?;
    }
    Ok(())
}
