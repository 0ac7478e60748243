//! What clients ask: mostly short requests on few keys, so that they meet.

use crate::chance::Chance;
use crate::history::{Action, KEYS, Key};
use crate::request::{Form, Request};
use node::session::Consistency;
use std::collections::BTreeMap;
use vocab::Prng;

/// Which requests there are beside the usual ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkShape {
    /// Values that expire.
    pub expires: bool,
    /// FLUSHALL.
    pub clears: bool,
    /// Writes whose answers no client waits for.
    pub careless: bool,
    /// Reads that any replica may answer, of a thousand.
    pub weak: u64,
}

/// Draws requests. Every value is written once.
pub struct Workload {
    prng: Prng,
    groups: usize,
    shape: WorkShape,
    values: u64,
    /// The newest version of each key that a client was told of: what conditions name.
    versions: BTreeMap<(usize, Key), u64>,
}

impl Workload {
    /// Over `groups` groups of keys.
    #[must_use]
    pub fn new(groups: usize, shape: WorkShape, prng: Prng) -> Self {
        Self { prng, groups, shape, values: 0, versions: BTreeMap::new() }
    }

    /// A client was told of a version; `None`: that there is none.
    pub fn learn(&mut self, group: usize, key: Key, version: Option<u64>) {
        self.versions.insert((group, key), version.unwrap_or(0));
    }

    /// The next request.
    pub fn draw(&mut self) -> Request {
        if self.shape.clears && self.prng.happens(3) {
            let group = self.prng.below(self.groups as u64) as usize;
            return Request { form: Form::Clear, group, actions: vec![(0, Action::Clear)], id: None, weak: None };
        }
        let group = self.prng.below(self.groups as u64) as usize;
        let key = self.prng.below(KEYS as u64) as usize;
        let other = (key + 1 + self.prng.below(KEYS as u64 - 1) as usize) % KEYS;
        let (form, actions) = match self.prng.below(100) {
            0..45 => (Form::Get, vec![(key, Action::Get)]),
            45..50 if self.shape.expires => (Form::Put, vec![(key, self.put_for())]),
            50..52 if self.shape.careless => (Form::Set, vec![(key, self.put())]),
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
        let weak =
            if form == Form::Get && self.prng.happens(self.shape.weak) { Some(self.weak(group, key)) } else { None };
        Request { form, group, actions, id: None, weak }
    }

    /// The last reads of a run: one of each key.
    #[must_use]
    pub fn all_reads(&self) -> Vec<Request> {
        let keys = (0..self.groups).flat_map(|group| (0..KEYS).map(move |key| (group, key)));
        keys.map(|(group, key)| Request {
            form: Form::Get,
            group,
            actions: vec![(key, Action::Get)],
            id: None,
            weak: None,
        })
        .collect()
    }

    fn put(&mut self) -> Action {
        self.values += 1;
        Action::Put(self.values)
    }

    fn put_for(&mut self) -> Action {
        self.values += 1;
        Action::PutFor(self.values, *self.prng.pick(&[1, 30, 300, 3000]))
    }

    fn weak(&mut self, group: usize, key: Key) -> Consistency {
        match self.prng.below(3) {
            0 => Consistency::Any,
            1 => Consistency::Lag { ms: *self.prng.pick(&[200, 1000, 5000]) },
            _ => Consistency::Version { token: self.versions.get(&(group, key)).copied().unwrap_or(0) },
        }
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
