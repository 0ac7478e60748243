//! The keys of a copy: an RDB file, what a server sends first, or lines of NDJSON.

use super::emptied::Emptied;
use super::expiries::Expiries;
use super::large::LargeKey;
use super::lines::{Lines, Record};
use super::outcome::{Outcome, shown};
use super::own_slots::OwnSlots;
use super::scope::{Destination, Scope};
use super::state::StateFile;
use crate::pace::Pace;
use crate::store_writer::{Kind, StoreWriter, Write};
use client::StoreUrl;
use rdb::{Error, FileReader, Item, Value};
use std::io::{BufRead, Read};
use vocab::limits::{BULK_BYTES_MAX, FIELD_BYTES_MAX, KEY_BYTES_MAX, RESTORED_BYTES_MAX};

/// A value of up to so many bytes in several parts is put together and written as one.
const WHOLE_BYTES_MAX: usize = 16 << 20;
/// The note of a copy that tells which database the stream behind it is about.
const STREAM_DATABASE: &[u8] = b"repl-stream-db";
/// Items between two looks at the clock.
const LOOK_EVERY: u64 = 256;

/// What becomes of the keys of a copy.
pub(super) struct Copy<'a> {
    /// Which databases are imported, and where they go.
    pub(super) scope: Scope<'a>,
    /// Whether keys that are there are replaced.
    pub(super) replace: bool,
    /// Where they go; none for a trial.
    pub(super) target: Option<&'a mut StoreWriter>,
    pub(super) pace: &'a mut Pace,
    /// The time by which keys have expired, in milliseconds since 1970.
    pub(super) now_ms: u64,
    /// The store's node.
    pub(super) node: &'a StoreUrl,
    /// Of a key that comes in parts.
    pub(super) gathered: Option<Gathered>,
    /// Where is kept how far it is; none for a copy that cannot be taken up again.
    pub(super) saves: Option<Saves<'a>>,
    /// What commands behind it empty, and which of the files it is.
    pub(super) emptied: Option<(&'a Emptied, usize)>,
    /// The slots of the source, if it is one of several masters.
    pub(super) slots: Option<OwnSlots<'a>>,
    /// Puts expiries off, where a history is behind the copy.
    pub(super) expiries: Option<&'a mut Expiries>,
}

/// Where is kept how far a copy of a file is.
pub(super) struct Saves<'a> {
    pub(super) state: &'a mut StateFile,
    /// Which of the files it is.
    pub(super) file: usize,
    /// Items that were written before.
    pub(super) done: u64,
}

impl Copy<'_> {
    /// Copies everything that `input` holds, also what comes before a place where it breaks off. Answers which database the stream behind it
    /// is about, as far as the copy tells: one that a replica has passed on does not begin with a SELECT.
    pub(super) fn run(&mut self, input: impl Read, outcome: &mut Outcome) -> Result<u64, String> {
        let copied = self.copy_all(input, outcome);
        let drained = self.drain(outcome);
        copied.and_then(|database| drained.map(|()| database))
    }

    fn copy_all(&mut self, input: impl Read, outcome: &mut Outcome) -> Result<u64, String> {
        let place = |position: u64, error: &Error| format!("at byte {position} of the copy: {error}");
        let mut file = FileReader::new(input, RESTORED_BYTES_MAX).map_err(|error| place(0, &error))?;
        // Where SWAPDB gives it another number later, it has that from the beginning.
        let emptied = self.emptied;
        let last_number = |number| emptied.map_or(number, |(by, file)| by.last_number(number, file));
        let (mut database, mut items, mut behind) = (last_number(0), 0, 0);
        loop {
            let item = file.next_item();
            let position = file.position();
            let item = item.map_err(|error| place(position, &error))?;
            items += 1;
            if self.is_done(items, outcome)? && item.is_some() && !matches!(item, Some(Item::Database(_))) {
                continue;
            }
            if let (Some(slots), Some(Item::Key { key, .. } | Item::TooLarge { key, .. })) = (self.slots, &item) {
                slots.check(key)?;
            }
            match item {
                None => break,
                Some(Item::Note { name, text }) if name == STREAM_DATABASE => {
                    behind = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
                }
                Some(Item::Note { .. }) => {}
                Some(Item::Database(number)) => database = last_number(number),
                Some(Item::Library(source)) => self.library(source, outcome)?,
                Some(Item::ModuleNotes(name)) => {
                    outcome.problems.note(format!("what module {name} wrote was left out"))
                }
                Some(Item::Key { .. } | Item::TooLarge { .. })
                    if emptied.is_some_and(|(by, file)| by.takes_copied(database, file)) => {}
                Some(Item::Key { key, value, lifetime, more }) => match self.scope.of(database) {
                    Some(into) => {
                        let part = Part { into, key: &key, expire_at_ms: lifetime.expire_at_ms };
                        self.part(&part, value, more, outcome)?;
                    }
                    None => outcome.other_databases += u64::from(!more),
                },
                Some(Item::TooLarge { key, .. }) => note_too_large(&key, self.scope.of(database), outcome),
            }
            self.pace.show(position, || outcome.progress());
        }
        Ok(behind)
    }

    /// Copies all keys of lines of NDJSON, also those before a place where they break off.
    pub(super) fn run_lines(&mut self, input: impl BufRead, outcome: &mut Outcome) -> Result<(), String> {
        let copied = self.copy_lines(input, outcome);
        let drained = self.drain(outcome);
        copied.and(drained)
    }

    fn copy_lines(&mut self, input: impl BufRead, outcome: &mut Outcome) -> Result<(), String> {
        let (mut lines, mut items) = (Lines::new(input), 0);
        while let Some(record) = lines.next()? {
            items += 1;
            if self.is_done(items, outcome)? {
                continue;
            }
            match record {
                Record::Library(source) => self.library(source, outcome)?,
                Record::TooLarge { place, key } => note_too_large(&key, self.scope.of_line(place), outcome),
                Record::Key { place, key, expire_at_ms, value, more } => match self.scope.of_line(place) {
                    None => outcome.other_databases += u64::from(!more),
                    Some(into) => self.part(&Part { into, key: &key, expire_at_ms }, value, more, outcome)?,
                },
            }
            self.pace.show(lines.position(), || outcome.progress());
        }
        Ok(())
    }

    /// Whether item number `items`, from 1 on, was written before. From time to time, keeps that all before it are.
    fn is_done(&mut self, items: u64, outcome: &mut Outcome) -> Result<bool, String> {
        let Some(saves) = &mut self.saves else { return Ok(false) };
        if items <= saves.done {
            return Ok(true);
        }
        // The clock is not asked for every item.
        if self.gathered.is_none() && items.is_multiple_of(LOOK_EVERY) && saves.state.is_due() {
            if let Some(target) = &mut self.target {
                target.drain(outcome)?;
            }
            saves.state.note_copied(saves.file, items - 1, outcome)?;
        }
        Ok(false)
    }

    /// Waits until everything so far is answered.
    fn drain(&mut self, outcome: &mut Outcome) -> Result<(), String> {
        match &mut self.target {
            Some(target) => target.drain(outcome),
            None => Ok(()),
        }
    }

    /// A library of functions.
    fn library(&mut self, source: Vec<u8>, outcome: &mut Outcome) -> Result<(), String> {
        let Some(target) = &mut self.target else { return Ok(()) };
        let args = vec![b"FUNCTION".to_vec(), b"LOAD".to_vec(), b"REPLACE".to_vec(), source];
        target.write(Write { kind: Kind::Free, args, key: 0 }, outcome)
    }

    /// A part of a key's value. `more`: the next one is of the same key.
    fn part(&mut self, part: &Part<'_>, mut value: Value, more: bool, outcome: &mut Outcome) -> Result<(), String> {
        let mut part = Part { ..*part };
        if let Some(expiries) = self.expiries.as_mut().filter(|_| self.target.is_some()) {
            let stored = part.into.stored(part.key);
            part.expire_at_ms = part.expire_at_ms.map(|at_ms| expiries.of_key(&stored, at_ms));
            expiries.of_value(&stored, &mut value);
        }
        let part = &part;
        let gathered = match self.gathered.take() {
            None if !more => return self.key(part, &value, outcome),
            begun if !takes(&value) => Some(self.leave_out(begun, part.key, outcome)?),
            None => Some(Gathered::Small(value)),
            Some(Gathered::Small(mut small)) if small.bytes() + value.bytes() <= WHOLE_BYTES_MAX => {
                if !small.append(value) {
                    return Err(format!("the value of {} is of two types", shown(part.key)));
                }
                Some(Gathered::Small(small))
            }
            Some(Gathered::Small(small)) => {
                let mut large = self.begin_large(part, outcome)?;
                if let Some(large) = &mut large {
                    large.write(small, self.now_ms)?;
                    large.write(value, self.now_ms)?;
                }
                Some(Gathered::Large(large.map(Box::new)))
            }
            Some(Gathered::Large(mut large)) => {
                if let Some(large) = &mut large {
                    large.write(value, self.now_ms)?;
                }
                Some(Gathered::Large(large))
            }
        };
        match gathered {
            gathered if more => self.gathered = gathered,
            Some(Gathered::Small(value)) => return self.key(part, &value, outcome),
            Some(Gathered::Large(Some(large))) => {
                outcome.keys += 1;
                large.end(outcome);
            }
            _ => outcome.keys += 1,
        }
        Ok(())
    }

    /// A key of which a part cannot be written is left out, and told once.
    fn leave_out(&mut self, begun: Option<Gathered>, key: &[u8], outcome: &mut Outcome) -> Result<Gathered, String> {
        match begun {
            Some(Gathered::Large(large)) if large.as_ref().is_none_or(|large| large.is_present()) => {
                return Ok(Gathered::Large(large));
            }
            Some(Gathered::Large(Some(large))) => large.discard(self.node)?,
            _ => {}
        }
        outcome.problems.note(format!("the value of {} has an element that is too large", shown(key)));
        Ok(Gathered::Large(None))
    }

    /// Begins a key that is written part by part; none in a trial, or if it has expired.
    fn begin_large(&mut self, part: &Part<'_>, outcome: &mut Outcome) -> Result<Option<LargeKey>, String> {
        let is_over = part.expire_at_ms.is_some_and(|at| at <= self.now_ms);
        outcome.expired += u64::from(is_over);
        if self.target.is_none() || is_over {
            return Ok(None);
        }
        let key = part.into.stored(part.key);
        // What an import before this one has written of it goes.
        let was_begun = self.saves.as_ref().is_some_and(|saves| saves.state.has_begun(&key));
        let large = LargeKey::begin(self.node, key.clone(), part.expire_at_ms, self.replace || was_begun)?;
        if let Some(saves) = self.saves.as_mut().filter(|_| !large.is_present()) {
            saves.state.note_begun(key)?;
        }
        Ok(Some(large))
    }

    fn key(&mut self, part: &Part<'_>, value: &Value, outcome: &mut Outcome) -> Result<(), String> {
        outcome.keys += 1;
        if part.expire_at_ms.is_some_and(|at| at <= self.now_ms) {
            outcome.expired += 1;
            return Ok(());
        }
        self.pace.wait(1);
        match request(part.into.stored(part.key), value, part.expire_at_ms, self.replace) {
            Ok(args) => match &mut self.target {
                Some(target) => target.write(Write { kind: Kind::Free, args, key: 1 }, outcome),
                None => Ok(()),
            },
            Err(problem) => {
                outcome.problems.note(problem);
                Ok(())
            }
        }
    }
}

/// Whose value a part is.
struct Part<'a> {
    into: Destination,
    /// By its name at the source.
    key: &'a [u8],
    expire_at_ms: Option<u64>,
}

/// Parts of a value that have come.
pub(super) enum Gathered {
    /// In memory.
    Small(Value),
    /// In the store; none if it is not to be written.
    Large(Option<Box<LargeKey>>),
}

/// Whether the store takes each element of a part of a value.
fn takes(value: &Value) -> bool {
    match value {
        Value::List(elements) => elements.iter().all(|element| element.len() <= BULK_BYTES_MAX),
        Value::Set(members) => members.iter().all(|member| member.len() <= FIELD_BYTES_MAX),
        Value::SortedSet(members) => members.iter().all(|(member, _)| member.len() <= FIELD_BYTES_MAX),
        Value::Hash(fields) => {
            fields.iter().all(|field| field.name.len() <= FIELD_BYTES_MAX && field.value.len() <= BULK_BYTES_MAX)
        }
        Value::String(_) | Value::Stream(_) | Value::Module(_) => true,
    }
}

/// A value is left out that cannot be in memory whole.
fn note_too_large(key: &[u8], into: Option<Destination>, outcome: &mut Outcome) {
    if into.is_none() {
        outcome.other_databases += 1;
        return;
    }
    outcome.keys += 1;
    outcome.problems.note(format!("the value of {} has more than {RESTORED_BYTES_MAX} bytes", shown(key)));
}

/// What writes a key; else, why it cannot be written.
pub(super) fn request(
    key: Vec<u8>,
    value: &Value,
    expire_at_ms: Option<u64>,
    replace: bool,
) -> Result<Vec<Vec<u8>>, String> {
    if key.len() > KEY_BYTES_MAX {
        return Err(format!("key {} has {} bytes, more than {KEY_BYTES_MAX}", shown(&key), key.len()));
    }
    let too_large = |bytes| format!("the value of {} has {bytes} bytes, more than {BULK_BYTES_MAX}", shown(&key));
    if let Value::String(string) = value {
        if string.len() > BULK_BYTES_MAX {
            return Err(too_large(string.len()));
        }
        let mut args = vec![b"SET".to_vec(), key, string.clone()];
        args.extend(expire_at_ms.into_iter().flat_map(|at| [b"PXAT".to_vec(), at.to_string().into_bytes()]));
        args.extend((!replace).then(|| b"NX".to_vec()));
        return Ok(args);
    }
    let dumped = match (value, rdb::write_dump(value)) {
        (_, Some(dumped)) => dumped,
        (Value::Module(name), None) => return Err(format!("the value of {} is of module {name}", shown(&key))),
        (_, None) => return Err(format!("the value of {} cannot be written", shown(&key))),
    };
    if dumped.len() > BULK_BYTES_MAX {
        return Err(too_large(dumped.len()));
    }
    let at = expire_at_ms.unwrap_or(0).to_string().into_bytes();
    let mut args = vec![b"RESTORE".to_vec(), key, at, dumped, b"ABSTTL".to_vec()];
    args.extend(replace.then(|| b"REPLACE".to_vec()));
    Ok(args)
}
