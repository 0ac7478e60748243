//! The keys of a copy: an RDB file, or what a server sends first.

use super::outcome::{Outcome, shown};
use super::pace::Pace;
use super::target::{Kind, Target};
use rdb::{Error, FileReader, Item, Lifetime, Value};
use std::io::Read;
use vocab::limits::{BULK_BYTES_MAX, KEY_BYTES_MAX, RESTORED_BYTES_MAX};

/// What becomes of the keys of a copy.
pub(super) struct Copy<'a> {
    /// Which database is imported.
    pub(super) database: u64,
    /// Whether keys that are there are replaced.
    pub(super) replace: bool,
    /// Where they go; none for a trial.
    pub(super) target: Option<&'a mut Target>,
    pub(super) pace: &'a mut Pace,
    /// The time by which keys have expired, in milliseconds since 1970.
    pub(super) now_ms: u64,
}

impl Copy<'_> {
    /// Copies everything that `input` holds. Answers which database was selected last.
    pub(super) fn run(&mut self, input: impl Read, outcome: &mut Outcome) -> Result<u64, String> {
        let place = |position: u64, error: &Error| format!("at byte {position} of the copy: {error}");
        let mut file = FileReader::new(input, RESTORED_BYTES_MAX).map_err(|error| place(0, &error))?;
        let mut database = 0;
        loop {
            let item = file.next_item();
            let position = file.position();
            match item.map_err(|error| place(position, &error))? {
                None => break,
                Some(Item::Note { .. }) => {}
                Some(Item::Database(number)) => database = number,
                Some(Item::Library(source)) => self.library(source, outcome)?,
                Some(Item::ModuleNotes(name)) => outcome.problem(format!("what module {name} wrote was left out")),
                Some(Item::Key { .. }) if database != self.database => outcome.other_databases += 1,
                Some(Item::Key { key, value, lifetime }) => self.key(key, value, lifetime, outcome)?,
            }
            self.pace.show(position, outcome);
        }
        if let Some(target) = &mut self.target {
            target.drain(outcome)?;
        }
        Ok(database)
    }

    /// A library of functions.
    fn library(&mut self, source: Vec<u8>, outcome: &mut Outcome) -> Result<(), String> {
        let Some(target) = &mut self.target else { return Ok(()) };
        let args = vec![b"FUNCTION".to_vec(), b"LOAD".to_vec(), b"REPLACE".to_vec(), source];
        target.write(Kind::Key, 0, args, outcome)
    }

    fn key(&mut self, key: Vec<u8>, value: Value, lifetime: Lifetime, outcome: &mut Outcome) -> Result<(), String> {
        outcome.keys += 1;
        if lifetime.expire_at_ms.is_some_and(|at| at <= self.now_ms) {
            outcome.expired += 1;
            return Ok(());
        }
        self.pace.wait();
        match request(key, &value, lifetime.expire_at_ms, self.replace) {
            Ok(args) => match &mut self.target {
                Some(target) => target.write(Kind::Key, 1, args, outcome),
                None => Ok(()),
            },
            Err(problem) => {
                outcome.problem(problem);
                Ok(())
            }
        }
    }
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
