//! Clients that listen and clients that publish. Each has a connection to some node, and another one when that is gone.

use crate::chance::Chance;
use crate::event::{Event, NodeEvent};
use crate::messages::{Listened, MessageRequest, Party, Published};
use crate::places::{Place, place_of};
use crate::schedule::{MILLISECOND, Micros, SECOND};
use crate::store::Store;
use node::pubsub::SubscriptionKind;
use vocab::{NodeId, Prng, slot_of};

static CHANNELS: [&str; 4] = ["news", "now", "other", "a"];
static PATTERNS: [&str; 3] = ["*", "n*", "?"];
static SHARD_CHANNELS: [&str; 3] = ["s1", "s2", "news"];
/// How long a request takes to its node: all the same, so that those of a connection keep their order.
const WAY: Micros = 200;
/// What was published last has arrived after this time.
const LAST: Micros = 5 * SECOND;

/// A client's connection.
#[derive(Clone, Debug)]
struct Connection {
    party: Party,
    place: Place,
    /// The number of the process that it is connected to.
    life: u64,
    /// What a listener has asked for.
    names: Vec<Listened>,
    /// The number of a publisher's last message.
    number: u64,
}

/// All listeners and publishers of a run.
pub struct MessageClients {
    listeners: Vec<Option<Connection>>,
    publishers: Vec<Option<Connection>>,
    /// The last connection.
    last: u32,
    prng: Prng,
    /// Since when nothing new is asked.
    closed: Option<Micros>,
}

impl MessageClients {
    /// This number of listeners, with three publishers if there are any.
    #[must_use]
    pub fn new(count: usize, prng: Prng) -> Self {
        let publishers = if count == 0 { 0 } else { 3 };
        Self { listeners: vec![None; count], publishers: vec![None; publishers], last: 0, prng, closed: None }
    }

    /// They are to begin.
    pub fn begin(&mut self, store: &mut Store) {
        for number in 0..self.listeners.len() {
            store.env.after(self.prng.between(1, 1000) * MILLISECOND, Event::Listen(number));
        }
        for number in 0..self.publishers.len() {
            store.env.after(self.prng.between(1, 1000) * MILLISECOND, Event::Publish(number));
        }
    }

    /// A connection to a node that runs, if one does.
    fn connect(&mut self, store: &Store, wanted: Option<Place>) -> Option<Connection> {
        let running: Vec<Place> =
            (0..store.nodes.count()).filter(|place| store.nodes[*place].process.is_some()).collect();
        if running.is_empty() {
            return None;
        }
        let drawn = *self.prng.pick(&running);
        let place = wanted.filter(|wanted| running.contains(wanted)).unwrap_or(drawn);
        self.last += 1;
        let life = store.env.life(place);
        Some(Connection { party: Party(self.last), place, life, names: Vec::new(), number: 0 })
    }

    /// A listener does something.
    pub fn listen(&mut self, store: &mut Store, number: usize) {
        if self.closed.is_some() {
            return;
        }
        let pause = *self.prng.pick(&[50, 400, 3000]);
        store.env.after(self.prng.between(10, pause) * MILLISECOND, Event::Listen(number));
        let known = self.listeners[number].take().filter(|at| at.is_alive(store));
        let Some(mut at) = known.or_else(|| self.connect(store, None)) else { return };
        let request = match self.prng.below(20) {
            0 => {
                at.send(store, MessageRequest::Leave(at.party));
                return;
            }
            1..5 if !at.names.is_empty() => {
                let gone = self.prng.below(at.names.len() as u64) as usize;
                MessageRequest::Unsubscribe(at.names.swap_remove(gone))
            }
            _ => {
                let (kind, names) = *self.prng.pick(&[
                    (SubscriptionKind::Channel, &CHANNELS[..]),
                    (SubscriptionKind::Channel, &CHANNELS[..]),
                    (SubscriptionKind::Pattern, &PATTERNS[..]),
                    (SubscriptionKind::ShardChannel, &SHARD_CHANNELS[..]),
                ]);
                let &name = self.prng.pick(names);
                let listened = Listened { party: at.party, kind, name };
                if at.names.contains(&listened) {
                    self.listeners[number] = Some(at);
                    return;
                }
                at.names.push(listened.clone());
                MessageRequest::Subscribe(listened)
            }
        };
        at.send(store, request);
        self.listeners[number] = Some(at);
    }

    /// A listener is told that another node leads the slot of its channel: it goes there.
    pub fn not_here(&mut self, store: &mut Store, party: Party, leader: Option<NodeId>) {
        let is_it = |at: &Option<Connection>| at.as_ref().is_some_and(|at| at.party == party);
        let Some(number) = self.listeners.iter().position(is_it) else { return };
        if let Some(at) = self.listeners[number].take().filter(|at| at.is_alive(store)) {
            at.send(store, MessageRequest::Leave(party));
        }
        self.listeners[number] = self.connect(store, leader.map(place_of));
    }

    /// A publisher sends some messages.
    pub fn publish(&mut self, store: &mut Store, number: usize) {
        if self.closed.is_some() {
            return;
        }
        let pause = *self.prng.pick(&[10, 100, 500]);
        store.env.after(self.prng.between(1, pause) * MILLISECOND, Event::Publish(number));
        let is_shard = self.prng.happens(200);
        let channel = *self.prng.pick(if is_shard { &SHARD_CHANNELS[..] } else { &CHANNELS[..3] });
        let kind = if is_shard { SubscriptionKind::ShardChannel } else { SubscriptionKind::Channel };
        let stays = self.prng.happens(950);
        let known = self.publishers[number].take().filter(|at| stays && at.is_alive(store));
        let leader = store.nodes.leader_place(store.checks.shard_of(slot_of(channel.as_bytes())));
        let wanted = if is_shard { leader } else { None };
        let known = known.filter(|at| wanted.is_none_or(|wanted| at.place == wanted));
        let Some(mut at) = known.or_else(|| self.connect(store, wanted)) else { return };
        for _ in 0..self.prng.between(1, 5) {
            at.number += 1;
            let message = Published { party: at.party, number: at.number };
            at.send(store, MessageRequest::Publish(message, kind, channel));
        }
        self.publishers[number] = Some(at);
    }

    /// Nothing new is asked any more.
    pub fn close(&mut self, store: &Store) {
        self.closed = Some(store.env.now());
    }

    /// Whether what was published last has arrived.
    #[must_use]
    pub fn is_quiet(&self, store: &Store) -> bool {
        self.listeners.is_empty() || self.closed.is_some_and(|closed| store.env.now() > closed + LAST)
    }
}

impl Connection {
    fn is_alive(&self, store: &Store) -> bool {
        store.nodes[self.place].process.is_some() && store.env.life(self.place) == self.life
    }

    fn send(&self, store: &mut Store, request: MessageRequest) {
        store.env.later(WAY, self.place, NodeEvent::Messages(Box::new(request)));
    }
}
