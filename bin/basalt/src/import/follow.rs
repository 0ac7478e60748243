//! Commands that changed the source after its copy, repeated on the store.

use super::checkpoints::{self, Checkpoints};
use super::copy::request;
use super::emptying::{self, Empties};
use super::expiries::Expiries;
use super::outcome::{Outcome, shown};
use super::own_slots::OwnSlots;
use super::replayed;
use super::scope::{Destination, Scope};
use super::source::Source;
use super::state::ReadPlaces;
use crate::store_writer::{Kind, Listener, StoreWriter, Write};
use client::Frame;
use node::blocking::BlockingCommand;
use node::session::other_number;
use resp::table::{self, CommandSpec, Group, behaviour, flag};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use vocab::limits::{BULK_BYTES_MAX, QUERY_BUFFER_BYTES_MAX};
use vocab::{client_key, slot_of, wall_clock_ms};
use xxhash_rust::xxh3::xxh3_64;

/// Of so many keys it is remembered that they were read; beyond that all are read anew.
const READ_MAX: usize = 16 << 20;
/// Bytes that a request may have besides its command: those of a script with its checkpoint.
const BESIDES_BYTES_MAX: usize = 64 << 10;

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
    /// Keeps at which places keys were read; none for a file.
    places: Option<ReadPlaces<'a>>,
    /// For a file whose import may be interrupted.
    checkpoints: Option<Checkpoints>,
    /// Puts expiries off, in a history.
    expiries: Option<&'a mut Expiries>,
    /// Whether databases are emptied; none for a file.
    empties: Option<Empties<'a>>,
    /// The slots of the source, if it is one of several masters.
    slots: Option<OwnSlots<'a>>,
    /// The source has exchanged databases, and nothing of it is left in the store.
    needs_copy: bool,
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
            places: None,
            checkpoints: None,
            expiries: None,
            empties: None,
            slots: None,
            needs_copy: false,
        }
    }

    /// Whether databases are emptied because those of the source were.
    pub(super) fn may_empty(&mut self, empties: Empties<'a>) {
        self.empties = Some(empties);
    }

    /// The source is one of several masters.
    pub(super) fn own(&mut self, slots: Option<OwnSlots<'a>>) {
        self.slots = slots;
    }

    /// Whether the source is to be copied anew.
    pub(super) fn needs_copy(&self) -> bool {
        self.needs_copy
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

    /// It is kept at which places of the stream keys were read.
    pub(super) fn note_reads(&mut self, places: ReadPlaces<'a>) {
        self.places = Some(places);
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
        if does(behaviour::CLEARS_STORE) {
            return self.follow_emptying(does(behaviour::EMPTIES_DATABASE), &args[0], place.end, outcome);
        }
        if does(behaviour::SWAPS_DATABASES) {
            return self.follow_swap(&words, outcome);
        }
        // Libraries and scripts are of no database.
        let is_of_all = |(spec, keys): &(&CommandSpec, Vec<usize>)| {
            spec.group == Group::Scripting && !spec.does(behaviour::RUNS_SCRIPT) && keys.is_empty()
        };
        if found.as_ref().is_some_and(is_of_all) {
            return self.target.write(Write { kind: Kind::Once, args, key: 0 }, outcome);
        }
        if let (Some(slots), Some((_, keys))) = (self.slots, &found) {
            keys.iter().try_for_each(|at| slots.check(words[*at]))?;
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
        let Some((spec, keys)) = found else {
            let why = refusal.as_deref().unwrap_or("ERR its keys cannot be told");
            let name = args[0].to_ascii_uppercase().escape_ascii().to_string();
            outcome.problems.note(format!("the source's {name} at byte {} was not repeated: {why}", place.start));
            return Ok(());
        };
        if let Some(why) = why_not(spec, &words, into) {
            outcome.problems.note(format!("{} at byte {} was not repeated: {why}", spec.name, place.start));
            return Ok(());
        }
        // What a running source has made of it is read instead.
        if self.source.is_none() && !is_request(&args) {
            outcome.problems.note(format!("{} at byte {} was not repeated: it is too large", spec.name, place.start));
            return Ok(());
        }
        keys.iter().for_each(|at| args[*at] = into.stored(&args[*at]));
        self.on_keys(spec, &keys, args, place, outcome)
    }

    /// Repeats a command that has emptied a database, or all.
    fn follow_emptying(&mut self, is_of_one: bool, name: &[u8], end: u64, outcome: &mut Outcome) -> Result<(), String> {
        let one = || self.scope.of(self.selected).into_iter().collect();
        let databases: Vec<Destination> = if is_of_one { one() } else { self.scope.destinations() };
        if databases.is_empty() {
            outcome.other_databases += 1;
            return Ok(());
        }
        // What was read at a later place is as it is there.
        self.empty(name, (&databases, is_of_one), Some(end), outcome)
    }

    /// Removes all keys of these databases because the source was told so, but those that were read from there on.
    fn empty(
        &mut self,
        name: &[u8],
        (databases, is_of_one): (&[Destination], bool),
        end: Option<u64>,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        // Also where the import ends: what was told before is in the store.
        self.target.drain(outcome)?;
        let node = self.empties.ok_or_else(|| told(name))?.node(name)?;
        let source = self.places.as_ref().map_or("the source", |places| places.source.as_str());
        let of = match self.scope.number().or_else(|| is_of_one.then_some(self.selected)) {
            Some(number) => format!("its database {number}"),
            None => "all its databases".to_owned(),
        };
        let shown_name = name.to_ascii_uppercase();
        bench::note!("{source} was told {}: the keys of {of} are removed from the store", shown_name.escape_ascii());
        let Self { ahead, slots, target, expiries, .. } = self;
        let is_ahead = |key: &[u8]| end.is_some_and(|end| ahead.get(key).is_some_and(|until| *until >= end));
        let stays = |key: &[u8]| is_ahead(key) || is_foreign(*slots, key);
        emptying::empty(node, databases, target, stays, expiries.as_deref_mut(), outcome)?;
        outcome.commands += 1;
        Ok(())
    }

    /// Two databases were exchanged. If one of them is imported, nothing of the source is left in the store: it is to be copied anew.
    fn follow_swap(&mut self, words: &[&[u8]], outcome: &mut Outcome) -> Result<(), String> {
        let number = |at: usize| words.get(at).and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
        let (Some(one), Some(other)) = (number(1), number(2)) else {
            return Err("a SWAPDB without numbers".to_owned());
        };
        if one == other || [one, other].iter().all(|number| self.scope.of(*number).is_none()) {
            return Ok(());
        }
        self.empty(words[0], (&self.scope.destinations(), false), None, outcome)?;
        self.needs_copy = true;
        Ok(())
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
        let is_known =
            is_known && (self.source.is_none() || !spec.does(behaviour::READS_BY_PATTERN) && is_request(&args));
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
            Some(_) => self.write_beside(args, key, place, outcome),
            None => self.target.write(Write { kind: Kind::Once, args, key }, outcome),
        }
    }

    /// Makes a command that no script can make, unless its slot's checkpoint says that it was made. The checkpoint follows it: interrupted
    /// in between, it is made twice.
    fn write_beside(
        &mut self,
        args: Vec<Vec<u8>>,
        key: usize,
        place: u64,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        let Some(checkpoints) = &mut self.checkpoints else { return Ok(()) };
        let name = checkpoints.beside(&args[key]);
        self.target.drain(outcome)?;
        let mut told = ToldPlace::default();
        let asked = vec![b"GET".to_vec(), name.clone()];
        told.ask(self.target, asked)?;
        if told.place.is_some_and(|made| made >= place) {
            return Ok(());
        }
        self.target.write(Write { kind: Kind::Once, args, key }, outcome)?;
        self.target.drain(outcome)?;
        told.ask(self.target, vec![b"SET".to_vec(), name, place.to_string().into_bytes()])
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
            self.places.as_ref().map_or(Ok(()), |places| places.note(held.offset))?;
            outcome.read_again += 1;
            if let Some(read) = &mut self.read {
                if read.len() >= READ_MAX {
                    read.clear();
                }
                read.insert(xxh3_64(&key));
            }
            self.ahead.insert(key.clone(), held.offset);
            let args = match held.value {
                Err(why) => {
                    outcome.problems.note(format!("{} cannot be read from the source: {why}", shown(&key)));
                    continue;
                }
                Ok(None) => vec![b"DEL".to_vec(), key],
                Ok(Some((mut value, mut expire_at_ms))) => {
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

/// What the store tells of a checkpoint.
#[derive(Default)]
struct ToldPlace {
    place: Option<u64>,
    refusal: Option<String>,
}

impl ToldPlace {
    /// Makes a request about a checkpoint, and waits for its answer. Nothing else is under way.
    fn ask(&mut self, target: &mut StoreWriter, args: Vec<Vec<u8>>) -> Result<(), String> {
        target.write(Write { kind: Kind::Free, args, key: 1 }, self)?;
        target.drain(self)?;
        self.refusal.take().map_or(Ok(()), Err)
    }
}

impl Listener for ToldPlace {
    fn done(&mut self, _: &Write, reply: &Frame<'_>) {
        if let Frame::Bulk(place) = reply {
            self.place = std::str::from_utf8(place).ok().and_then(|place| place.parse().ok());
        }
    }

    fn refused(&mut self, _: &Write, why: &str) {
        self.refusal = Some(format!("the store: {why}"));
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

/// Whether a key, by the name that is stored, is of another master than the source: one empties its own slots alone.
fn is_foreign(slots: Option<OwnSlots<'_>>, stored: &[u8]) -> bool {
    slots.is_some_and(|slots| !slots.has(client_key(stored)))
}

/// Whether the store takes a request of these words.
fn is_request(args: &[Vec<u8>]) -> bool {
    /// What stands before a word and behind it.
    const HEAD_BYTES: usize = 16;
    let bytes: usize = args.iter().map(|arg| HEAD_BYTES + arg.len()).sum();
    bytes <= QUERY_BUFFER_BYTES_MAX - BESIDES_BYTES_MAX && args.iter().all(|arg| arg.len() <= BULK_BYTES_MAX)
}

/// Why a command is not repeated, if it is not.
fn why_not(spec: &CommandSpec, words: &[&[u8]], into: Destination) -> Option<&'static str> {
    if BlockingCommand::is_one(spec, words) {
        return Some("it would wait for an element");
    }
    let is_foreign = into.is_database() && spec.does(behaviour::RUNS_SCRIPT);
    is_foreign
        .then_some("in a database, a script runs for its own clients alone (`redis-cli -u redis://…/NUMBER --pipe`)")
}

/// Whether a command of a source's stream, or a script in it, may change what is stored, or the scripts that are known.
fn changes_data(spec: &CommandSpec) -> bool {
    spec.is_write() || spec.group == Group::Scripting
}

/// The error of what ends an import of a file.
fn told(name: &[u8]) -> String {
    format!(
        "the source was told {}, and the import ends there: what was imported before stays. Remove what was imported, and the file of \
         --state if there is one, and begin again",
        name.to_ascii_uppercase().escape_ascii()
    )
}
