//! What clients ask: mostly short requests on few keys, so that they meet.

use crate::chance::Chance;
use crate::history::{Action, KEYS, Key};
use crate::request::{Form, Request};
use std::collections::BTreeMap;
use vocab::Prng;

/// Draws requests. Every value is written once.
pub struct Workload {
    prng: Prng,
    groups: usize,
    values: u64,
    /// The newest version of each key that a client was told of: what conditions name.
    versions: BTreeMap<(usize, Key), u64>,
}

impl Workload {
    /// Over `groups` groups of keys.
    #[must_use]
    pub fn new(groups: usize, prng: Prng) -> Self {
        Self { prng, groups, values: 0, versions: BTreeMap::new() }
    }

    /// Somebody was told of a version; `None`: that there is none.
    pub fn learn(&mut self, group: usize, key: Key, version: Option<u64>) {
        self.versions.insert((group, key), version.unwrap_or(0));
    }

    /// The next request.
    pub fn draw(&mut self) -> Request {
        let group = self.prng.below(self.groups as u64) as usize;
        let key = self.prng.below(KEYS as u64) as usize;
        let other = (key + 1 + self.prng.below(KEYS as u64 - 1) as usize) % KEYS;
        let (form, actions) = match self.prng.below(100) {
            0..45 => (Form::Get, vec![(key, Action::Get)]),
            45..65 => (Form::Put, vec![(key, self.put())]),
            65..80 => (Form::Put, vec![(key, self.put_if(group, key))]),
            80..85 => (Form::Exec, vec![(key, Action::Delete), (other, self.put())]),
            85..92 => {
                let check = (key, Action::Check(self.version(group, key)));
                (Form::Exec, vec![check, (other, self.put_if(group, other)), (key, Action::Get)])
            }
            92..96 => (Form::Multi, vec![(key, Action::Get), (other, self.put()), (other, Action::Get)]),
            _ => {
                let check = (key, Action::Check(self.version(group, key)));
                (Form::Multi, vec![check, (key, Action::Delete), (other, self.put())])
            }
        };
        Request { form, group, actions, id: None }
    }

    /// The last reads of a run: one of each key.
    #[must_use]
    pub fn all_reads(&self) -> Vec<Request> {
        let keys = (0..self.groups).flat_map(|group| (0..KEYS).map(move |key| (group, key)));
        keys.map(|(group, key)| Request { form: Form::Get, group, actions: vec![(key, Action::Get)], id: None })
            .collect()
    }

    fn put(&mut self) -> Action {
        self.values += 1;
        Action::Put(self.values)
    }

    fn put_if(&mut self, group: usize, key: Key) -> Action {
        self.values += 1;
        Action::PutIf(self.values, self.version(group, key))
    }

    /// Mostly the newest that is known, at times "absent".
    fn version(&mut self, group: usize, key: Key) -> u64 {
        if self.prng.happens(100) { 0 } else { self.versions.get(&(group, key)).copied().unwrap_or(0) }
    }
}
