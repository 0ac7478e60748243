//! The surroundings of a run's nodes and clients: time, randomness, the network, and the record of events.
//!
//! Every random draw of a run comes from here, in one order, so a seed repeats its run.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::clock::BEGIN_WALL_MS;
use crate::event::{Event, NodeEvent};
use crate::network::{Network, Parcel};
use crate::places::{Place, node_id, place_of};
use crate::plan::Plan;
use crate::schedule::{MILLISECOND, Micros, SECOND, Schedule};
use crate::trace::Trace;
use node::peer_protocol::PeerMessage;
use replica::MessageType;
use std::collections::BTreeMap;
use std::fmt::Arguments;
use vocab::{NodeId, Prng, ShardId};

/// What a run counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Crashes of nodes.
    pub crashes: u64,
    /// Snapshots that arrived.
    pub snapshots: u64,
    /// Changes of a group's members.
    pub changes: u64,
    /// Requests that were answered with what they asked for.
    pub answered: u64,
    /// Elections that were won.
    pub elections: u64,
    /// Shards that were split off.
    pub splits: u64,
    /// Shards that went on without their majority.
    pub recoveries: u64,
    /// Entries that event loops have given up, to be evaluated again.
    pub given_up: u64,
}

/// A replica that is told to stand for election does so within this time.
const HAND_OVER: Micros = 2 * SECOND;

/// Time, chance, the network and the record of a run.
pub struct Environment {
    schedule: Schedule<Event>,
    trace: Trace,
    prng: Prng,
    network: Network,
    plan: Plan,
    bug: Option<Bug>,
    /// All faults have stopped.
    healing: bool,
    /// By place: how many processes have been started there. What is meant for an earlier one is void.
    lives: Vec<u64>,
    /// When a leader last told another replica to stand for election, by shard.
    handed_over: BTreeMap<ShardId, Micros>,
    /// What has happened so far.
    pub counts: Counts,
}

impl Chance for Environment {
    fn source(&mut self) -> &mut Prng {
        &mut self.prng
    }
}

impl Environment {
    /// The environment of a plan, which was drawn from `prng`.
    pub fn new(plan: Plan, bug: Option<Bug>, mut prng: Prng, trace: Trace) -> Self {
        Self {
            schedule: Schedule::default(),
            trace,
            network: Network::new(plan.nodes, prng.fork()),
            prng,
            plan,
            bug,
            healing: false,
            lives: vec![0; plan.nodes],
            handed_over: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// Whether a leader of a shard has handed over a moment ago.
    #[must_use]
    pub fn was_handed_over(&self, shard: ShardId) -> bool {
        self.handed_over.get(&shard).is_some_and(|at| self.now() <= at + HAND_OVER)
    }

    /// What kind of run this is.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The planted bug.
    #[must_use]
    pub fn bug(&self) -> Option<Bug> {
        self.bug
    }

    /// Whether this bug is planted.
    #[must_use]
    pub fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether all faults have stopped.
    #[must_use]
    pub fn is_healing(&self) -> bool {
        self.healing
    }

    /// Whether disks answer soon: all faults have stopped, or there are none but hostile clients.
    #[must_use]
    pub fn is_gentle(&self) -> bool {
        self.healing || self.plan.bulk.is_some_and(|bulk| bulk.is_calm)
    }

    /// All faults of the environment stop.
    pub fn heal(&mut self) {
        self.healing = true;
        self.note(format_args!("all faults stop"));
        self.network.heal();
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Micros {
        self.schedule.now()
    }

    /// The time that a correct wall clock shows.
    #[must_use]
    pub fn wall_ms(&self) -> u64 {
        BEGIN_WALL_MS + self.now() / MILLISECOND
    }

    /// `event` is to happen after `delay`.
    pub fn after(&mut self, delay: Micros, event: Event) {
        self.schedule.after(delay, event);
    }

    /// Something is to come to the process that runs at a place now.
    pub fn later(&mut self, delay: Micros, place: Place, event: NodeEvent) {
        let life = self.lives[place];
        self.schedule.after(delay, Event::At(place, Some(life), event));
    }

    /// Moves to the next event and records it; none if nothing is to happen any more.
    pub fn advance(&mut self) -> Option<Event> {
        let event = self.schedule.advance()?;
        self.trace.line(self.schedule.now(), format_args!("{event}"));
        Some(event)
    }

    /// Records something.
    pub fn note(&mut self, text: Arguments<'_>) {
        self.trace.line(self.schedule.now(), text);
    }

    /// The record so far.
    pub fn trace(&mut self) -> &mut Trace {
        &mut self.trace
    }

    /// The number of the newest process at a place.
    #[must_use]
    pub fn life(&self, place: Place) -> u64 {
        self.lives[place]
    }

    /// A process is started at a place.
    pub fn started(&mut self, place: Place) {
        self.lives[place] += 1;
    }

    /// The links between nodes.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// How long a fault lasts: mostly short.
    pub fn a_while(&mut self) -> Micros {
        let most = *self.pick(&[300, 1500, 10_000]);
        self.between(10, most) * MILLISECOND
    }

    /// A message goes out, through its bytes.
    pub fn post(&mut self, from: Place, to: NodeId, mut message: PeerMessage) {
        if self.has(Bug::TwistEntry)
            && let PeerMessage::Raft { message, .. } = &mut message
            && let Some(entry) = message.entries.iter_mut().find(|entry| entry.data.len() > 20)
            && self.happens(2)
        {
            let mut data = entry.data.to_vec();
            data[4] ^= 1;
            entry.data = data.into();
        }
        if let PeerMessage::Raft { shard, message } = &message
            && message.get_msg_type() == MessageType::MsgTimeoutNow
        {
            self.handed_over.insert(*shard, self.now());
        }
        let to = place_of(to);
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let is_urgent = message.is_urgent() && !self.has(Bug::BulkFirst);
        let parcel = Parcel { bytes: bytes.len(), is_urgent };
        let [first, second] = self.network.send(from, to, parcel, self.schedule.now());
        if let Some(delay) = second {
            self.later(delay, to, NodeEvent::Message(node_id(from), bytes.clone()));
        }
        if let Some(delay) = first {
            self.later(delay, to, NodeEvent::Message(node_id(from), bytes));
        }
    }

    /// Whether nothing gets through between two places, one way or the other.
    pub fn is_cut(&mut self, a: Place, b: Place) -> bool {
        self.network.link(a, b).cut || self.network.link(b, a).cut
    }

    /// Whether a link carries anything now.
    pub fn carries(&mut self, from: Place, to: Place) -> bool {
        let parcel = Parcel { bytes: 0, is_urgent: false };
        self.network.send(from, to, parcel, self.schedule.now())[0].is_some()
    }

    /// Sends a message to a node, which may be the sender itself.
    pub fn tell(&mut self, from: Place, to: NodeId, message: PeerMessage) {
        if place_of(to) == from {
            self.later(0, from, NodeEvent::message(to, &message));
        } else {
            self.post(from, to, message);
        }
    }

    /// A node has been started: it and the others, where `runs`, find each other.
    pub fn link_up(&mut self, place: Place, runs: impl Fn(Place) -> bool) {
        for other in (0..self.plan.nodes).filter(|other| *other != place) {
            let delay = self.between(1, 50) * MILLISECOND;
            if runs(other) {
                self.later(delay, other, NodeEvent::LinkUp(node_id(place)));
                self.later(delay, place, NodeEvent::LinkUp(node_id(other)));
            }
        }
    }

    /// A node is gone: the others notice.
    pub fn link_down(&mut self, place: Place) {
        let id = node_id(place);
        for other in (0..self.plan.nodes).filter(|other| *other != place) {
            let delay = self.between(1, 100) * MILLISECOND;
            self.later(delay, other, NodeEvent::LinkDown(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_for_an_earlier_process_names_it() {
        let mut prng = Prng::new(1);
        let plan = Plan::draw(&mut prng);
        let mut environment = Environment::new(plan, None, prng, Trace::new(None));
        environment.started(1);
        environment.later(5, 1, NodeEvent::Tick);
        environment.started(1);
        environment.after(3, Event::Join);
        assert!(matches!(environment.advance(), Some(Event::Join)));
        let Some(Event::At(1, Some(life), NodeEvent::Tick)) = environment.advance() else { panic!("no tick") };
        assert_eq!((life, environment.life(1), environment.now()), (1, 2, 5));
        assert!(environment.advance().is_none());
    }
}
