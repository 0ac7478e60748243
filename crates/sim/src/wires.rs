//! The links that keep order: messages over a link arrive once and in the order in which they were sent, until the link breaks.
//! Then everything under way is lost. Each end notices after a while, and a new link is made.
//!
//! A message for which a link has no room is dropped, and the link stays.

use crate::chance::Chance;
use crate::environment::Environment;
use crate::event::{Event, NodeEvent};
use crate::messages::WireNews;
use crate::places::{Place, node_id};
use crate::schedule::{MILLISECOND, Micros};
use vocab::Prng;

/// What becomes of a message that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// It arrives after this delay, over the link of that number.
    Arrives(Micros, u64),
    /// There is no link, as far as the sender knows, or it has broken before.
    Lost,
    /// There is no room for it.
    Dropped,
    /// The link breaks.
    Breaks,
}

/// The link of two nodes.
#[derive(Clone, Copy, Debug, Default)]
struct Wire {
    /// The number of the newest; 0: there was none.
    number: u64,
    /// Whether it has broken.
    is_broken: bool,
    /// The number of the link that each end has, of the lower place first.
    ends: [Option<u64>; 2],
    /// When what was sent last arrives at each end.
    arrives: [Micros; 2],
    /// One of the two calls the other.
    is_dialing: bool,
}

/// All links of a store that keep order.
pub struct Wires {
    places: usize,
    wires: Vec<Wire>,
    prng: Prng,
}

impl Wires {
    /// The links of a store with this number of places.
    #[must_use]
    pub fn new(places: usize, prng: Prng) -> Self {
        Self { places, wires: vec![Wire::default(); places * places], prng }
    }

    fn wire(&mut self, a: Place, b: Place) -> &mut Wire {
        &mut self.wires[a.min(b) * self.places + a.max(b)]
    }

    /// One of two nodes calls the other after a while, unless it does so already or they have a link.
    pub fn call(&mut self, a: Place, b: Place, env: &mut Environment) {
        let most = *self.prng.pick(&[5, 50, 1000]);
        let delay = self.prng.between(1, most) * MILLISECOND;
        let wire = self.wire(a, b);
        if !wire.is_dialing && (wire.number == 0 || wire.is_broken) {
            wire.is_dialing = true;
            env.after(delay, Event::Dial(a, b));
        }
    }

    /// The call is made. One that cannot get through is made again; where a node does not run, that calls when it is started.
    pub fn dial(&mut self, a: Place, b: Place, (run, are_reachable): (bool, bool), env: &mut Environment) {
        if run && !are_reachable {
            return env.after(self.prng.between(100, 500) * MILLISECOND, Event::Dial(a, b));
        }
        self.wire(a, b).is_dialing = false;
        if run {
            self.connect(a, b, env);
        }
    }

    /// A new link, which each of the two has after a while.
    fn connect(&mut self, a: Place, b: Place, env: &mut Environment) {
        let delays = [(); 2].map(|()| self.prng.between(100, 20 * MILLISECOND));
        let wire = self.wire(a, b);
        wire.number += 1;
        wire.is_broken = false;
        let number = wire.number;
        for ((at, other), delay) in [(a, b), (b, a)].into_iter().zip(delays) {
            // Nothing arrives before the link does.
            self.wire(a, b).arrives[end(at, other)] = env.now() + delay;
            env.later(delay, at, NodeEvent::Wire(node_id(other), number, WireNews::Up));
        }
    }

    /// A message goes out. `fails`: links break, and have no room.
    pub fn send(&mut self, from: Place, to: Place, now: Micros, (is_cut, fails): (bool, bool)) -> Sending {
        let (luck, is_slow) = (self.prng.below(1000), self.prng.happens(20));
        let delay = if is_slow { self.prng.between(50, 300) * MILLISECOND } else { self.prng.between(100, 2_000) };
        let (sender, receiver) = (end(from, to), end(to, from));
        let wire = self.wire(from, to);
        if wire.is_broken || wire.ends[sender] != Some(wire.number) {
            return Sending::Lost;
        }
        if is_cut || (fails && luck < 4) {
            return Sending::Breaks;
        }
        if fails && luck < 8 {
            return Sending::Dropped;
        }
        let arrives = (now + delay).max(wire.arrives[receiver]);
        wire.arrives[receiver] = arrives;
        Sending::Arrives(arrives - now, wire.number)
    }

    /// The link breaks; each end notices after a while. False if there is none.
    pub fn break_off(&mut self, a: Place, b: Place, env: &mut Environment) -> bool {
        let most = *self.prng.pick(&[10, 300, 3000]);
        let delays = [(); 2].map(|()| self.prng.between(1, most) * MILLISECOND);
        let wire = self.wire(a, b);
        if wire.number == 0 || wire.is_broken {
            return false;
        }
        wire.is_broken = true;
        let number = wire.number;
        env.note(format_args!("the link of nodes {} and {} breaks", a + 1, b + 1));
        for ((at, other), delay) in [(a, b), (b, a)].into_iter().zip(delays) {
            env.later(delay, at, NodeEvent::Wire(node_id(other), number, WireNews::Down));
        }
        self.call(a, b, env);
        true
    }

    /// A place has the link to another: answers whether it had another one, which is over; none if there is a newer one.
    pub fn has(&mut self, at: Place, other: Place, number: u64) -> Option<bool> {
        let own = end(at, other);
        let wire = self.wire(at, other);
        (wire.number == number).then(|| wire.ends[own].replace(number).is_some())
    }

    /// A place notices that a link has broken; false if it has another one, or none.
    pub fn noticed(&mut self, at: Place, other: Place, number: u64) -> bool {
        let own = end(at, other);
        self.wire(at, other).ends[own].take_if(|has| *has == number).is_some()
    }

    /// The process at a place is gone: answers with whom its links have broken.
    pub fn crashed(&mut self, at: Place, env: &mut Environment) -> Vec<Place> {
        let others: Vec<Place> = (0..self.places).filter(|other| *other != at).collect();
        let broken = others.iter().copied().filter(|other| self.break_off(at, *other, env)).collect();
        others.iter().for_each(|other| self.wire(at, *other).ends[end(at, *other)] = None);
        broken
    }

    /// Whether what comes over that link is read: it is the newest, has not broken, and this end has it.
    #[must_use]
    pub fn carries(&mut self, at: Place, other: Place, number: u64) -> bool {
        let own = end(at, other);
        let wire = self.wire(at, other);
        wire.number == number && !wire.is_broken && wire.ends[own] == Some(number)
    }

    /// Whether the newest link of two nodes has not broken, and both ends have it.
    #[must_use]
    pub fn is_whole(&mut self, a: Place, b: Place) -> bool {
        let wire = self.wire(a, b);
        wire.number > 0 && !wire.is_broken && wire.ends == [Some(wire.number); 2]
    }
}

/// Which end of the link to another place is this one.
fn end(at: Place, other: Place) -> usize {
    usize::from(at > other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::trace::Trace;

    fn environment() -> Environment {
        let mut prng = Prng::new(1);
        let plan = Plan::draw(&mut prng);
        Environment::new(plan, None, prng, Trace::new(None))
    }

    /// Two places whose link both have.
    fn linked(env: &mut Environment) -> (Wires, u64) {
        let mut wires = Wires::new(2, Prng::new(3));
        wires.call(1, 0, env);
        wires.call(0, 1, env);
        assert!(matches!(env.advance(), Some(Event::Dial(1, 0))));
        assert!(env.advance().is_none(), "one call is enough");
        wires.dial(1, 0, (true, true), env);
        let number = settle(&mut wires, env);
        assert!(wires.is_whole(0, 1));
        (wires, number)
    }

    /// What is under way comes; the number of the newest link.
    fn settle(wires: &mut Wires, env: &mut Environment) -> u64 {
        let mut newest = 0;
        while let Some(event) = env.advance() {
            match event {
                Event::At(at, _, NodeEvent::Wire(_, number, WireNews::Up)) => {
                    newest = number;
                    _ = wires.has(at, 1 - at, number);
                }
                Event::At(at, _, NodeEvent::Wire(_, number, WireNews::Down)) => _ = wires.noticed(at, 1 - at, number),
                Event::Dial(a, b) => wires.dial(a, b, (true, true), env),
                other => panic!("{other}"),
            }
        }
        newest
    }

    #[test]
    fn what_is_sent_over_a_link_arrives_in_order() {
        let (mut wires, number) = linked(&mut environment());
        let mut last = 0;
        for now in (0..2_000_000).step_by(100) {
            let Sending::Arrives(delay, over) = wires.send(0, 1, now, (false, false)) else { panic!("at {now}") };
            assert!(now + delay >= last && over == number);
            last = now + delay;
        }
        let sent: Vec<Sending> = (0..2000).map(|_| wires.send(0, 1, 0, (false, true))).collect();
        assert!(sent.contains(&Sending::Dropped) && sent.contains(&Sending::Breaks));
        assert_eq!(wires.send(0, 1, 0, (true, false)), Sending::Breaks);
    }

    #[test]
    fn a_link_that_breaks_carries_nothing_more_and_another_one_comes() {
        let mut env = environment();
        let (mut wires, number) = linked(&mut env);
        assert!(wires.carries(1, 0, number));
        assert!(wires.break_off(0, 1, &mut env) && !wires.break_off(1, 0, &mut env));
        assert_eq!((wires.carries(1, 0, number), wires.send(1, 0, 0, (false, false))), (false, Sending::Lost));
        let second = settle(&mut wires, &mut env);
        assert!(second > number && wires.is_whole(0, 1) && !wires.carries(0, 1, number));
        assert_eq!(wires.crashed(1, &mut env), [0]);
        assert!(!wires.is_whole(0, 1) && !wires.carries(1, 0, second));
        assert_eq!(wires.crashed(1, &mut env), [0; 0]);
        wires.dial(0, 1, (false, true), &mut env);
        assert!(!wires.is_whole(0, 1), "one of them does not run");
    }
}
