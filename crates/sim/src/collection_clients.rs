//! Clients of collections: each asks one thing at a time, follows leaders, and gives up after a while. None asks twice.

use crate::chance::Chance;
use crate::collections::{CollectionRequest, Told};
use crate::collections::{Draw, KEYS};
use crate::event::{Event, NodeEvent};
use crate::places::{Place, place_of};
use crate::schedule::{MILLISECOND, SECOND};
use crate::store::Store;
use std::collections::BTreeMap;
use vocab::{NodeId, Prng};

/// One client of collections.
#[derive(Default)]
struct CollectionClient {
    /// What it waits for.
    waits: Option<CollectionRequest>,
    /// Where it believes that groups of keys are led.
    leaders: BTreeMap<usize, Place>,
    /// The reads that it has yet to make at the end.
    last: Vec<LastRead>,
}

/// A read of the end: group, key, and of which of the types that there are.
#[derive(Clone, Copy)]
struct LastRead {
    group: usize,
    key: usize,
    turn: usize,
}

/// All clients of collections of a run.
pub struct CollectionClients {
    clients: Vec<CollectionClient>,
    groups: usize,
    draw: Draw,
    prng: Prng,
    /// Longest pause between two requests, in ms.
    think_ms: u64,
    /// They ask nothing new.
    closing: bool,
}

impl CollectionClients {
    /// This number of clients, over this number of groups of keys.
    #[must_use]
    pub fn new(count: usize, groups: usize, expires: bool, think_ms: u64, mut prng: Prng) -> Self {
        let draw = Draw::new(groups, expires, prng.fork());
        let clients = (0..count).map(|_| CollectionClient::default()).collect();
        Self { clients, groups, draw, prng, think_ms, closing: false }
    }

    /// They are to ask.
    pub fn begin(&mut self, store: &mut Store) {
        for number in 0..self.clients.len() {
            let delay = self.prng.between(0, 1000) * MILLISECOND;
            store.env.after(delay, Event::CollectionThink(number));
        }
    }

    /// A client asks.
    pub fn think(&mut self, store: &mut Store, number: usize) {
        let client = &mut self.clients[number];
        if client.waits.is_some() {
            return;
        }
        let request = match (self.closing, client.last.last()) {
            (_, Some(&LastRead { group, key, turn })) => self.draw.last_read(number, group, key, turn),
            (true, None) => return,
            (false, None) => self.draw.request(number),
        };
        let nodes = store.nodes.count() as u64;
        let known = client.leaders.get(&request.group).copied();
        let place = known.unwrap_or_else(|| self.prng.below(nodes) as usize);
        client.waits = Some(request.clone());
        let patience = *self.prng.pick(&[300 * MILLISECOND, 2 * SECOND, 7 * SECOND]);
        store.env.after(patience, Event::CollectionImpatient(number, request.tag));
        store.checks.asked_collection(&request, store.env.wall_ms());
        let delay = self.prng.between(50, 1000);
        let is_lost = !store.env.is_healing() && store.env.plan().faults.network && self.prng.happens(10);
        if !is_lost {
            store.env.after(delay, Event::At(place, None, NodeEvent::Collection(Box::new(request))));
        }
    }

    /// A client is answered.
    pub fn reply(&mut self, store: &mut Store, number: usize, tag: u64, told: &Told, leader: Option<NodeId>) {
        let client = &mut self.clients[number];
        let Some(request) = client.waits.take_if(|waits| waits.tag == tag) else { return };
        match (told, leader) {
            (Told::Refused, Some(leader)) => _ = client.leaders.insert(request.group, place_of(leader)),
            (Told::Refused | Told::Unknown, _) => _ = client.leaders.remove(&request.group),
            _ => {}
        }
        if matches!(told, Told::Done(_)) {
            client.last.pop();
            store.env.counts.answered += 1;
        }
        let think_ms = if matches!(told, Told::Done(_)) { self.think_ms } else { self.think_ms.max(50) };
        let pause = self.prng.between(100, think_ms * MILLISECOND);
        store.env.after(pause, Event::CollectionThink(number));
        store.checks.told_collection(tag, told.clone(), store.env.wall_ms());
    }

    /// A client gives up.
    pub fn impatient(&mut self, store: &mut Store, number: usize, tag: u64) {
        self.reply(store, number, tag, &Told::Unknown, None);
    }

    /// Nothing new is asked any more; every key is read once more.
    pub fn close(&mut self, store: &mut Store) {
        self.closing = true;
        if self.clients.is_empty() {
            return;
        }
        let keys = (0..self.groups).flat_map(|group| (0..KEYS).map(move |key| (group, key)));
        let turns = self.draw.turns();
        let reads = keys.flat_map(|(group, key)| (0..turns).map(move |turn| LastRead { group, key, turn }));
        for (i, read) in reads.enumerate() {
            let number = i % self.clients.len();
            self.clients[number].last.push(read);
        }
        for number in 0..self.clients.len() {
            store.env.after(SECOND, Event::CollectionThink(number));
        }
    }

    /// Whether every client has got what it wanted.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.clients.iter().all(|client| client.waits.is_none() && client.last.is_empty())
    }
}
