//! The future events of a run, in order of virtual time.
//!
//! Invariants: time never goes back; of two events of one moment, the one that was put in first comes first.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Virtual time: µs since the run began.
pub type Micros = u64;

/// One second.
pub const SECOND: Micros = 1_000_000;
/// One millisecond.
pub const MILLISECOND: Micros = 1_000;

struct Due<E> {
    at: Micros,
    number: u64,
    event: E,
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl<E> Eq for Due<E> {}

impl<E> PartialOrd for Due<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Due<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// The pending events, in order of virtual time.
pub struct Schedule<E> {
    heap: BinaryHeap<Reverse<Due<E>>>,
    now: Micros,
    number: u64,
}

impl<E> Default for Schedule<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), now: 0, number: 0 }
    }
}

impl<E> Schedule<E> {
    /// The time of the event that was taken last.
    #[must_use]
    pub fn now(&self) -> Micros {
        self.now
    }

    /// `event` is to happen `delay` from now.
    pub fn after(&mut self, delay: Micros, event: E) {
        self.number += 1;
        self.heap.push(Reverse(Due { at: self.now + delay, number: self.number, event }));
    }

    /// Moves to the next event.
    pub fn advance(&mut self) -> Option<E> {
        let Reverse(due) = self.heap.pop()?;
        assert!(due.at >= self.now, "time goes back from {} to {}", self.now, due.at);
        self.now = due.at;
        Some(due.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_then_of_their_number() {
        let mut schedule = Schedule::default();
        for (delay, name) in [(5, "c"), (3, "a"), (5, "d"), (3, "b"), (9, "e")] {
            schedule.after(delay, name);
        }
        let mut order = String::new();
        while let Some(name) = schedule.advance() {
            order.push_str(name);
            if name == "b" {
                schedule.after(2, "x");
            }
        }
        assert_eq!(order, "abcdxe");
        assert_eq!(schedule.now(), 9);
    }
}
