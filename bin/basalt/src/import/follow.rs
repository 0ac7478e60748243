//! Commands that changed the source after its copy, repeated on the store.

use super::copy::request;
use super::outcome::{Outcome, shown};
use super::source::Source;
use super::target::{Kind, Target};
use resp::table;
use std::collections::{BTreeMap, BTreeSet};
use vocab::{slot_of, wall_clock_ms};

/// Repeats commands, each once.
pub(super) struct Follower<'a> {
    target: &'a mut Target,
    /// Where keys are read again; none for a file.
    source: Option<Source>,
    /// Which database is imported.
    wanted: u64,
    /// Which one the stream is about.
    selected: u64,
    /// Keys that were read at a later place of the stream than it was followed to: until then, their commands are done.
    ahead: BTreeMap<Vec<u8>, u64>,
}

impl<'a> Follower<'a> {
    pub(super) fn new(target: &'a mut Target, source: Option<Source>, wanted: u64, selected: u64) -> Self {
        Self { target, source, wanted, selected, ahead: BTreeMap::new() }
    }

    /// How far the source's stream goes; `None` for a file.
    pub(super) fn end(&mut self) -> Result<Option<u64>, String> {
        self.source.as_mut().map(Source::offset).transpose()
    }

    /// Repeats a command that ends at `offset`.
    pub(super) fn command(&mut self, args: Vec<Vec<u8>>, offset: u64, outcome: &mut Outcome) -> Result<(), String> {
        let name = args[0].to_ascii_uppercase();
        match name.as_slice() {
            b"SELECT" => {
                let number = args.get(1).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
                self.selected = number.ok_or("a SELECT without a number")?;
                return Ok(());
            }
            // What the store does by itself, or by the commands in between.
            b"PING" | b"REPLCONF" | b"MULTI" | b"EXEC" | b"PUBLISH" | b"SPUBLISH" => return Ok(()),
            b"FLUSHALL" | b"SWAPDB" => return Err(format!("the source was told {}", name.escape_ascii())),
            b"FLUSHDB" if self.selected == self.wanted => return Err("the source was told FLUSHDB".to_owned()),
            _ if self.selected != self.wanted => {
                outcome.other_databases += 1;
                return Ok(());
            }
            _ => {}
        }
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let keys = match table::resolve(&words).map(|spec| spec.keys(&words)) {
            Ok(Ok(keys)) => keys.collect::<Vec<usize>>(),
            _ => {
                outcome.problem(format!("the source's command {} is not known", name.escape_ascii()));
                return Ok(());
            }
        };
        let ahead = keys.iter().filter(|at| self.ahead.get(&args[**at]).is_some_and(|until| *until >= offset)).count();
        if ahead == keys.len() && ahead > 0 {
            return Ok(());
        }
        let Some(&first) = keys.first() else {
            return self.target.write(Kind::Command, 0, args, outcome);
        };
        if ahead == 0 && keys.iter().all(|at| slot_of(&args[*at]) == slot_of(&args[first])) {
            return self.target.write(Kind::Command, first, args, outcome);
        }
        if ahead == 0 && matches!(name.as_slice(), b"DEL" | b"UNLINK") {
            for at in keys {
                self.target.write(Kind::Command, 1, vec![b"DEL".to_vec(), args[at].clone()], outcome)?;
            }
            return Ok(());
        }
        if ahead == 0 && name == b"MSET" {
            for pair in args[1..].chunks_exact(2) {
                let set = vec![b"SET".to_vec(), pair[0].clone(), pair[1].clone()];
                self.target.write(Kind::Command, 1, set, outcome)?;
            }
            return Ok(());
        }
        self.read_again(keys.into_iter().map(|at| args[at].clone()).collect(), outcome)
    }

    /// Reads keys from the source and writes them as they are there, whatever they were.
    fn read_again(&mut self, keys: BTreeSet<Vec<u8>>, outcome: &mut Outcome) -> Result<(), String> {
        // What was sent before must not come behind.
        self.target.drain(outcome)?;
        for key in keys {
            let Some(source) = &mut self.source else {
                outcome.problem(format!("a command on {} and keys of other slots was not repeated", shown(&key)));
                continue;
            };
            let held = source.read(&key, wall_clock_ms())?;
            outcome.read_again += 1;
            self.ahead.insert(key.clone(), held.offset);
            let args = match held.value {
                None => vec![b"DEL".to_vec(), key],
                Some((value, expire_at_ms)) => match request(key, &value, expire_at_ms, true) {
                    Ok(args) => args,
                    Err(problem) => {
                        outcome.problem(problem);
                        continue;
                    }
                },
            };
            self.target.write(Kind::Key, 1, args, outcome)?;
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
}
