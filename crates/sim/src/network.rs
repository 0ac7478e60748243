//! The links between nodes: when a message arrives, how often, and whether at all.
//!
//! Faults are of a link in one direction; a partition cuts many at once. A restarted node is reached by none of the
//! messages that were sent to it before: its connections are gone. The caller sees to that.

use crate::chance::Chance;
use crate::schedule::{MILLISECOND, Micros, SECOND};
use vocab::Prng;

/// How a link behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Least time under way.
    pub latency: Micros,
    /// Most time on top of it: what makes messages overtake each other.
    pub jitter: Micros,
    /// Messages that are lost, in a thousand.
    pub lost_per_mille: u64,
    /// Messages that come twice, in a thousand.
    pub doubled_per_mille: u64,
    /// Messages that take a hundred times as long, in a thousand.
    pub late_per_mille: u64,
    /// Nothing gets through.
    pub cut: bool,
}

/// What would wait for longer than this for its turn on a link is dropped.
const QUEUE_MAX: Micros = 10 * SECOND;

impl Default for LinkState {
    fn default() -> Self {
        let (latency, jitter) = (200, 300);
        Self { latency, jitter, lost_per_mille: 0, doubled_per_mille: 0, late_per_mille: 0, cut: false }
    }
}

/// A message, as far as links see it.
#[derive(Clone, Copy, Debug)]
pub struct Parcel {
    /// Its length.
    pub bytes: usize,
    /// It goes before bulk.
    pub is_urgent: bool,
}

/// The links between nodes. Places are numbers of nodes.
pub struct Network {
    places: usize,
    links: Vec<LinkState>,
    /// Until when each link carries bulk that was sent before.
    busy_until: Vec<Micros>,
    /// Bytes that a link carries in a millisecond; `None`: any number.
    bytes_per_ms: Option<u64>,
    prng: Prng,
    /// Messages that got through, and those that did not.
    pub delivered: u64,
    /// See `delivered`.
    pub lost: u64,
}

impl Network {
    /// A network of `places` without faults.
    #[must_use]
    pub fn new(places: usize, prng: Prng) -> Self {
        let links = vec![LinkState::default(); places * places];
        let busy_until = vec![0; links.len()];
        Self { places, links, busy_until, bytes_per_ms: None, prng, delivered: 0, lost: 0 }
    }

    /// Links carry no more than so many bytes in a millisecond.
    pub fn narrow(&mut self, bytes_per_ms: u64) {
        self.bytes_per_ms = Some(bytes_per_ms);
    }

    /// The link from one place to another.
    pub fn link(&mut self, from: usize, to: usize) -> &mut LinkState {
        &mut self.links[from * self.places + to]
    }

    /// After how long a message that is sent at `now` arrives: never, once or twice.
    pub fn send(&mut self, from: usize, to: usize, parcel: Parcel, now: Micros) -> [Option<Micros>; 2] {
        let link = self.links[from * self.places + to];
        if link.cut || self.prng.happens(link.lost_per_mille) {
            self.lost += 1;
            return [None, None];
        }
        let waits = self.waits(from * self.places + to, parcel, now);
        if waits > QUEUE_MAX {
            self.lost += 1;
            return [None, None];
        }
        self.delivered += 1;
        let mut delay = || {
            let usual = waits + link.latency + self.prng.below(link.jitter + 1);
            if self.prng.happens(link.late_per_mille) { usual * 100 } else { usual }
        };
        let first = delay();
        let second = delay();
        [Some(first), self.prng.happens(link.doubled_per_mille).then_some(second)]
    }

    /// How long it takes until a link has carried a message, behind the bulk that was sent before, unless it is urgent.
    fn waits(&mut self, link: usize, parcel: Parcel, now: Micros) -> Micros {
        let Some(bytes_per_ms) = self.bytes_per_ms else { return 0 };
        let takes = parcel.bytes as u64 * MILLISECOND / bytes_per_ms;
        if parcel.is_urgent {
            return takes;
        }
        let busy_until = &mut self.busy_until[link];
        let until = (*busy_until).max(now) + takes;
        if until - now <= QUEUE_MAX {
            *busy_until = until;
        }
        until - now
    }

    /// Every link gets a character of its own, as bad as `severity` of 0 to 3.
    pub fn degrade(&mut self, severity: u64) {
        for i in 0..self.links.len() {
            let worst = [0, 10, 50, 200][severity.min(3) as usize];
            self.links[i] = LinkState {
                latency: self.prng.between(100, 2 * MILLISECOND),
                jitter: self.prng.between(100, 1 + 10 * MILLISECOND * (severity + 1)),
                lost_per_mille: self.prng.below(worst + 1),
                doubled_per_mille: self.prng.below(worst + 1),
                late_per_mille: self.prng.below(worst + 1) / 4,
                cut: self.links[i].cut,
            };
        }
    }

    /// Cuts what goes from `side` to the others and, unless it is `one_way`, what comes back.
    pub fn partition(&mut self, side: &[usize], one_way: bool) {
        for &inside in side {
            for outside in (0..self.places).filter(|place| !side.contains(place)) {
                self.link(inside, outside).cut = true;
                if !one_way {
                    self.link(outside, inside).cut = true;
                }
            }
        }
    }

    /// Nothing is cut any more.
    pub fn join(&mut self) {
        self.links.iter_mut().for_each(|link| link.cut = false);
    }

    /// All faults stop.
    pub fn heal(&mut self) {
        self.links.fill(LinkState::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_do_what_they_say() {
        let mut network = Network::new(3, Prng::new(5));
        let small = Parcel { bytes: 100, is_urgent: false };
        let count = |network: &mut Network| {
            let sent = (0..2000).flat_map(|_| network.send(0, 1, small, 0)).flatten();
            let delays: Vec<Micros> = sent.collect();
            (delays.len(), delays.iter().copied().max().unwrap_or(0))
        };
        assert_eq!(count(&mut network), (2000, 500));
        *network.link(0, 1) = LinkState { lost_per_mille: 500, ..LinkState::default() };
        assert!((900..1100).contains(&count(&mut network).0));
        *network.link(0, 1) = LinkState { doubled_per_mille: 500, ..LinkState::default() };
        assert!((2900..3100).contains(&count(&mut network).0));
        *network.link(0, 1) = LinkState { late_per_mille: 10, ..LinkState::default() };
        assert!(count(&mut network).1 > 20_000);
        network.heal();
        network.partition(&[0], true);
        assert_eq!(network.send(0, 1, small, 0)[0], None);
        assert!(network.send(1, 0, small, 0)[0].is_some());
        network.partition(&[0], false);
        assert_eq!((network.send(2, 0, small, 0)[0], network.send(1, 2, small, 0)[0].is_some()), (None, true));
        network.join();
        assert!(network.send(0, 2, small, 0)[0].is_some());
    }

    #[test]
    fn bulk_waits_for_bulk_and_urgent_messages_for_none() {
        let mut network = Network::new(2, Prng::new(5));
        network.narrow(100);
        let bulk = Parcel { bytes: 100_000, is_urgent: false };
        let delay =
            |network: &mut Network, parcel: Parcel, now| network.send(0, 1, parcel, now)[0].unwrap_or(0) / SECOND;
        assert_eq!([delay(&mut network, bulk, 0), delay(&mut network, bulk, 0)], [1, 2]);
        assert_eq!(delay(&mut network, Parcel { bytes: 10, is_urgent: true }, 0), 0);
        assert_eq!(delay(&mut network, Parcel { bytes: 10, is_urgent: false }, SECOND), 1);
        assert_eq!(delay(&mut network, bulk, 5 * SECOND), 1);
        let lost = (0..20).filter(|_| network.send(0, 1, bulk, 6 * SECOND)[0].is_none()).count();
        assert!(lost > 5, "the queue has a bound");
    }
}
