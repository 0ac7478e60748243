//! Commands that changed the source after its copy, repeated on the store.

use super::checkpoints::{self, Checkpoints};
use super::copy::request;
use super::expiries::Expiries;
use super::outcome::{Outcome, shown};
use super::replayed;
use super::scope::Scope;
use super::source::Source;
use crate::store_writer::{Kind, StoreWriter, Write};
use node::blocking::BlockingCommand;
use node::session::other_number;
use resp::table::{self, CommandSpec, Group, behaviour, flag};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use vocab::{client_key, slot_of, wall_clock_ms};
use xxhash_rust::xxh3::xxh3_64;

/// Of so many keys it is remembered that they were read; beyond that all are read anew.
const READ_MAX: usize = 16 << 20;

/// Repeats commands, each once.
pub(super) struct Follower<'a> {
    target: &'a mut StoreWriter,
    /// Where keys are read again; none for a file.
    source: Option<Source>,
    /// Which databases are imported, and where they go.
    scope: Scope<'a>,
    /// Which one the stream is about.
    selected: u64,
    /// Keys, by the names that are stored, that were read at a later place of the stream than it was followed to: until then,
    /// their commands are done.
    ahead: BTreeMap<Vec<u8>, u64>,
    /// Up to this offset commands may be made already: their keys are read from the source instead.
    doubted: u64,
    /// Where no key of the store counts as the source's before it was read from there: the hashes of those that were.
    read: Option<HashSet<u64>>,
    /// For a file whose import may be interrupted.
    checkpoints: Option<Checkpoints>,
    /// Puts expiries off, in a history.
    expiries: Option<&'a mut Expiries>,
}

impl<'a> Follower<'a> {
    pub(super) fn new(target: &'a mut StoreWriter, source: Option<Source>, scope: Scope<'a>, selected: u64) -> Self {
        Self {
            target,
            source,
            scope,
            selected,
            ahead: BTreeMap::new(),
            doubted: 0,
            read: None,
            checkpoints: None,
            expiries: None,
        }
    }

    /// What is followed is a history: expiries in it are put off.
    pub(super) fn put_off(&mut self, expiries: Option<&'a mut Expiries>) {
        self.expiries = expiries;
    }

    /// Commands up to this offset may be made already.
    pub(super) fn doubt(&mut self, until: u64) {
        self.doubted = until;
    }

    /// The store may have keys of an earlier copy that the source has deleted since: a command on such a key would begin with what is left
    /// of it. So each key is read from the source before its first command is followed.
    pub(super) fn trust_none(&mut self) {
        self.read = Some(HashSet::new());
    }

    /// Each command leaves a checkpoint in the store, so that none is made twice.
    pub(super) fn keep(&mut self, checkpoints: Option<Checkpoints>) {
        self.checkpoints = checkpoints;
    }

    /// Which database the stream is about.
    pub(super) fn selected(&self) -> u64 {
        self.selected
    }

    /// How far the source's stream goes; `None` for a file.
    pub(super) fn stream_end(&mut self) -> Result<Option<u64>, String> {
        self.source.as_mut().map(Source::offset).transpose()
    }

    /// Repeats a command that has that place in the stream.
    pub(super) fn command(
        &mut self,
        mut args: Vec<Vec<u8>>,
        place: Range<u64>,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        replayed::rewrite(&mut args);
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let resolved = table::resolve(&words);
        let found = resolved.as_ref().ok().and_then(|spec| Some((*spec, spec.keys(&words).ok()?.collect::<Vec<_>>())));
        let refusal = resolved.err();
        let does = |bit| found.as_ref().is_some_and(|(spec, _)| spec.does(bit));
        if does(behaviour::CHOOSES_DATABASE) {
            let number = args.get(1).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
            self.selected = number.ok_or("a SELECT without a number")?;
            return Ok(());
        }
        // What the store does by itself, or by the commands in between.
        if found.as_ref().is_some_and(|(spec, _)| !changes_data(spec)) {
            return Ok(());
        }
        let is_of_all = does(behaviour::CLEARS_STORE) && !does(behaviour::EMPTIES_DATABASE);
        if is_of_all || does(behaviour::SWAPS_DATABASES) {
            return Err(told(&args[0]));
        }
        if does(behaviour::TO_DATABASE)
            && let Some((spec, keys)) = &found
            && let (Some(&from), Some(&to)) = (keys.first(), keys.last())
            && let Some(other) = other_number(spec, &words).and_then(|number| u64::try_from(number).ok())
        {
            return self.follow_to_another(other, (words[from], words[to]), place.end, outcome);
        }
        let Some(into) = self.scope.of(self.selected) else {
            outcome.other_databases += 1;
            return Ok(());
        };
        if does(behaviour::EMPTIES_DATABASE) {
            return Err(told(&args[0]));
        }
        let Some((spec, keys)) = found else {
            let name = args[0].to_ascii_uppercase();
            let why = refusal.as_deref().unwrap_or("ERR its keys cannot be told");
            outcome.problems.note(format!(
                "the source's {} at byte {} was not repeated: {why}",
                name.escape_ascii(),
                place.start
            ));
            return Ok(());
        };
        if BlockingCommand::is_one(spec, &words) {
            outcome
                .problems
                .note(format!("{} at byte {} was not repeated: it would wait for an element", spec.name, place.start));
            return Ok(());
        }
        if into.is_database() && spec.does(behaviour::RUNS_SCRIPT) {
            outcome.problems.note(format!(
                "{} at byte {} was not repeated: in a database, a script runs for its own clients alone (`redis-cli -u redis://…/NUMBER --pipe`)",
                spec.name, place.start
            ));
            return Ok(());
        }
        keys.iter().for_each(|at| args[*at] = into.stored(&args[*at]));
        self.on_keys(spec, &keys, args, place, outcome)
    }

    /// Repeats a command that took a key from the database that the stream is about to another one: MOVE and COPY do. The store's
    /// databases are not in one slot, so both keys are read again.
    fn follow_to_another(
        &mut self,
        other: u64,
        (from, to): (&[u8], &[u8]),
        end: u64,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        let imported = |(database, key)| self.scope.of(database).map(|into| into.stored(key));
        let stored: BTreeSet<Vec<u8>> = [(self.selected, from), (other, to)].into_iter().filter_map(imported).collect();
        if stored.is_empty() {
            outcome.other_databases += 1;
            return Ok(());
        }
        let is_ahead = |key: &Vec<u8>| self.ahead.get(key).is_some_and(|until| *until >= end);
        if stored.iter().all(is_ahead) { Ok(()) } else { self.read_again(stored, outcome) }
    }

    /// Repeats a command whose keys, by the names that are stored, are among its arguments.
    fn on_keys(
        &mut self,
        spec: &CommandSpec,
        keys: &[usize],
        mut args: Vec<Vec<u8>>,
        place: Range<u64>,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        let is_ahead = |at: &&usize| self.ahead.get(&args[**at]).is_some_and(|until| *until >= place.end);
        let ahead = keys.iter().filter(is_ahead).count();
        if ahead == keys.len() && ahead > 0 {
            return Ok(());
        }
        let Some(&first) = keys.first() else {
            return self.target.write(Write { kind: Kind::Once, args, key: 0 }, outcome);
        };
        let was_read = |key: &[u8]| self.read.as_ref().is_none_or(|read| read.contains(&xxh3_64(key)));
        let is_known = ahead == 0
            && (self.source.is_none() || place.end > self.doubted)
            && keys.iter().all(|at| was_read(&args[*at]));
        // A cluster's store refuses patterns: the keys that they stand for may be anywhere.
        let is_known = is_known && !(self.source.is_some() && spec.does(behaviour::READS_BY_PATTERN));
        if is_known && keys.iter().all(|at| slot_of(&args[*at]) == slot_of(&args[first])) {
            if let Some(expiries) = &mut self.expiries {
                expiries.command(spec.name, keys, &mut args);
            }
            let can_keep = spec.flags & flag::NOSCRIPT == 0;
            return self.write(args, first, (place.start, can_keep), outcome);
        }
        if is_known && let Some(commands) = spec.split_by_key(&args) {
            for (n, mut command) in commands.into_iter().enumerate() {
                if let Some(expiries) = &mut self.expiries {
                    expiries.command(spec.name, &[1], &mut command);
                }
                self.write(command, 1, (place.start + n as u64, true), outcome)?;
            }
            return Ok(());
        }
        self.read_again(keys.iter().map(|at| args[*at].clone()).collect(), outcome)
    }

    /// Makes a command whose key is `args[key]`: with its checkpoint, if it can have one.
    fn write(
        &mut self,
        args: Vec<Vec<u8>>,
        key: usize,
        (place, can_keep): (u64, bool),
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        match &mut self.checkpoints {
            Some(checkpoints) if can_keep && Checkpoints::fits(args.len()) => {
                // The key stands before the command, too.
                self.target.write(
                    Write { kind: Kind::InOrder, args: checkpoints.checked(args, key, place), key: checkpoints::KEY },
                    outcome,
                )
            }
            _ => self.target.write(Write { kind: Kind::Once, args, key }, outcome),
        }
    }

    /// Reads keys, which are told by the names that are stored, from the source and writes them as they are there, whatever they were.
    fn read_again(&mut self, keys: BTreeSet<Vec<u8>>, outcome: &mut Outcome) -> Result<(), String> {
        // What was sent before must not come behind.
        self.target.drain(outcome)?;
        for key in keys {
            let Some(source) = &mut self.source else {
                outcome.problems.note(format!("a command on {} and keys of other slots was not repeated", shown(&key)));
                continue;
            };
            source.select(self.scope.source_of(&key))?;
            let held = source.read(client_key(&key), wall_clock_ms())?;
            outcome.read_again += 1;
            if let Some(read) = &mut self.read {
                if read.len() >= READ_MAX {
                    read.clear();
                }
                read.insert(xxh3_64(&key));
            }
            self.ahead.insert(key.clone(), held.offset);
            let args = match held.value {
                None => vec![b"DEL".to_vec(), key],
                Some((mut value, mut expire_at_ms)) => {
                    if let Some(expiries) = &mut self.expiries {
                        expire_at_ms = expire_at_ms.map(|at_ms| expiries.of_key(&key, at_ms));
                        expiries.of_value(&key, &mut value);
                    }
                    match request(key, &value, expire_at_ms, true) {
                        Ok(args) => args,
                        Err(problem) => {
                            outcome.problems.note(problem);
                            continue;
                        }
                    }
                }
            };
            self.target.write(Write { kind: Kind::Free, args, key: 1 }, outcome)?;
        }
        self.target.drain(outcome)
    }

    /// Waits until everything so far is done, to the place `offset` of the stream.
    pub(super) fn settle(&mut self, offset: u64, outcome: &mut Outcome) -> Result<(), String> {
        self.target.drain(outcome)?;
        let doubtful = self.target.take_doubtful();
        if !doubtful.is_empty() {
            self.read_again(doubtful.into_iter().collect(), outcome)?;
        }
        self.ahead.retain(|_, until| *until > offset);
        Ok(())
    }

    /// Every command of a file is made: removes the checkpoints.
    pub(super) fn end(self, outcome: &mut Outcome) -> Result<(), String> {
        let Some(checkpoints) = self.checkpoints else { return Ok(()) };
        let before = outcome.written;
        for removal in checkpoints.removals() {
            self.target.write(Write { kind: Kind::Free, args: removal, key: 1 }, outcome)?;
        }
        self.target.drain(outcome)?;
        outcome.written = before;
        Ok(())
    }
}

/// What a trial says of a command of a file that stands there.
pub(super) fn look_at(args: &[Vec<u8>], start: u64, outcome: &mut Outcome) -> Result<(), String> {
    let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    match table::resolve(&words) {
        Err(why) => {
            let name = args[0].to_ascii_uppercase();
            outcome.problems.note(format!("{} at byte {start}: {why}", name.escape_ascii()));
        }
        Ok(spec) if spec.does(behaviour::CLEARS_STORE) || spec.does(behaviour::SWAPS_DATABASES) => {
            return Err(told(&args[0]));
        }
        Ok(spec) if spec.does(behaviour::TO_DATABASE) && other_number(spec, &words).is_some() => {
            outcome.problems.note(format!(
                "{} at byte {start} takes a key to another database, and would not be repeated: a file cannot be asked what the key holds",
                spec.name
            ));
        }
        Ok(spec) => outcome.commands += u64::from(changes_data(spec)),
    }
    Ok(())
}

/// Whether a command of a source's stream, or a script in it, may change what is stored, or the scripts that are known.
fn changes_data(spec: &CommandSpec) -> bool {
    spec.is_write() || spec.group == Group::Scripting
}

/// The error of what ends an import.
fn told(name: &[u8]) -> String {
    format!(
        "the source was told {}, and the import ends there: what was imported before stays. Remove what was imported, and the file of \
         --state if there is one, and begin again",
        name.to_ascii_uppercase().escape_ascii()
    )
}
