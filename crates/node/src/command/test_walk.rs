//! Walks over the keys of a store whose shards change meanwhile: for the tests of SCAN and CLUSTERSCAN.
#![allow(clippy::unwrap_used)]

use super::testspace::TestShards;
use super::{Outcome, ScanCursors, StoreCall};
use crate::{Kind, Record, Shards, WriteSpace};
use resp::{Proto, Reply};
use std::collections::BTreeSet;

/// Walks that take longer do not end.
const STEPS_MAX: usize = 5000;
/// Shards are split until there are so many.
const SHARDS_MAX: usize = 60;

/// A store, and the cursors of the node that is asked.
pub(super) struct Walk {
    pub(super) shards: TestShards,
    pub(super) cursors: ScanCursors,
    command: &'static str,
    run: fn(&mut StoreCall<'_>) -> Outcome,
}

/// What happens between two steps of a walk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event {
    Nothing,
    Split,
    Merge,
    /// The node forgets its cursors.
    Restart,
    LastKeyDeleted,
}

impl Walk {
    /// Walks by `command`, which `run` makes, over a store of so many shards.
    pub(super) fn new(command: &'static str, run: fn(&mut StoreCall<'_>) -> Outcome, shards: u16) -> Self {
        Self { shards: TestShards::new(shards), cursors: ScanCursors::default(), command, run }
    }

    pub(super) fn put(&mut self, key: &str) {
        self.shards.owner(key.as_bytes()).put(key.as_bytes(), Record::new(Kind::STRING, None, &[])).unwrap();
    }

    pub(super) fn delete(&mut self, key: &str) {
        self.shards.owner(key.as_bytes()).delete(key.as_bytes()).unwrap();
    }

    /// One step from `cursor` on: the next cursor, and the keys.
    pub(super) fn step(&mut self, cursor: &str, options: &[&str]) -> (String, Vec<String>) {
        let words = [&[self.command, cursor], options].concat();
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let mut reply = Reply::new(Proto::Resp2);
        let (shards, cursors) = (&mut self.shards, &self.cursors);
        (self.run)(&mut StoreCall { args: &args, shards, streams: false, cursors, reply: &mut reply }).unwrap();
        let text = String::from_utf8(reply.buf).unwrap();
        let mut lines = text.lines().skip(2);
        let cursor = lines.next().unwrap().to_owned();
        (cursor, lines.skip(1).filter(|line| !line.starts_with('$')).map(str::to_owned).collect())
    }

    /// All keys of a walk from its beginning to its end, with `between` after each step.
    pub(super) fn all(&mut self, options: &[&str], mut between: impl FnMut(&mut Self, &[String])) -> BTreeSet<String> {
        let (mut cursor, mut seen) = ("0".to_owned(), BTreeSet::new());
        for _ in 0..STEPS_MAX {
            let (next, found) = self.step(&cursor, options);
            between(self, &found);
            seen.extend(found);
            cursor = next;
            if cursor == "0" {
                return seen;
            }
        }
        panic!("the walk {options:?} does not end");
    }

    fn happen(&mut self, event: Event, at: usize, found: &[String]) {
        let count = self.shards.count();
        match event {
            Event::Split if count < SHARDS_MAX => {
                let slots = |i: &usize| self.shards.slots(*i).1 - self.shards.slots(*i).0;
                let largest = (0..count).max_by_key(slots).unwrap();
                self.shards.split(largest);
            }
            Event::Merge if count > 1 => self.shards.merge(at % (count - 1)),
            Event::Nothing | Event::Split | Event::Merge => {}
            Event::Restart => self.cursors = ScanCursors::default(),
            Event::LastKeyDeleted => {
                found.iter().filter(|key| key.ends_with("going")).for_each(|key| self.delete(key));
            }
        }
    }

    /// Checks that a walk, with `events` between its steps in turn, meets every key that stays.
    pub(super) fn meets_every_key(mut self, events: &[Event], count: &str) {
        let keys: BTreeSet<String> = (0..500).map(|i| format!("key:{i}")).collect();
        let going: Vec<String> = (0..500).map(|i| format!("key:{i}-going")).collect();
        keys.iter().chain(&going).for_each(|key| self.put(key));
        let mut at = 0;
        let seen = self.all(&["COUNT", count], |walk, found| {
            walk.happen(events[at % events.len()], at, found);
            at += 1;
        });
        assert!(keys.is_subset(&seen), "{events:?}, COUNT {count}: {:?} missed", keys.difference(&seen).next());
    }
}
