//! How an event loop waits for events: it busy-polls for a while before it blocks.
//!
//! On a virtual machine, waking a blocked thread costs more than serving its request (docs/adr/0001, "Looking for
//! events").

use mio::{Events, Poll};
use std::io;
use std::time::{Duration, Instant};

/// For how long clients' requests are awaited before the thread blocks.
const FOR_CLIENTS: Duration = Duration::from_micros(20);
/// And disk reads: about as long as a quick disk takes for as many as it is given at a time.
const FOR_READS: Duration = Duration::from_micros(200);
/// Fewer reads are not awaited: that would cost twice the processor time, and a client that is alone gets slower.
const READS_MIN: usize = 4;
/// The longest time between two looks. A longer one means that another thread had the processor.
const GLANCE_MAX: Duration = Duration::from_micros(10);
/// After busy-polls that found nothing, at most so many waits go without one.
const WITHOUT_MAX: u32 = 16;

/// Waits for events.
#[derive(Default)]
pub(crate) struct BusyPoll {
    /// Waits until the next busy-poll.
    without: u32,
    /// How many follow a busy-poll that does not pay: doubled by each of these, halved by each that pays. So busy-polls are
    /// rare unless more than half of them pay.
    penalty: u32,
}

/// What a busy-poll cost.
struct Look {
    took: Duration,
    /// Another thread had the processor meanwhile, so to block would have cost no more.
    lost_processor: bool,
}

impl BusyPoll {
    /// For how long to busy-poll. `has_own_processor`: no other thread wants the one that it runs on; `patient`: many events late are
    /// better than few at once; `reads`: how many reads the disk has, 0 on a machine with one processor.
    pub(crate) fn span(&self, has_own_processor: bool, patient: bool, reads: usize) -> Duration {
        match reads {
            _ if patient => Duration::ZERO,
            READS_MIN.. => FOR_READS,
            _ if has_own_processor => FOR_CLIENTS,
            _ => Duration::ZERO,
        }
    }

    /// Busy-polls for `span`, then waits for events for at most the timeout.
    pub(crate) fn poll(
        &mut self,
        poll: &mut Poll,
        events: &mut Events,
        timeout: Duration,
        span: Duration,
    ) -> io::Result<()> {
        let mut looked = Duration::ZERO;
        if !span.is_zero() && timeout >= span {
            if let Some(left) = self.without.checked_sub(1) {
                self.without = left;
            } else {
                let look = Self::look(poll, events, span)?;
                looked = look.took;
                self.note(!events.is_empty() && !look.lost_processor);
                if !events.is_empty() {
                    return Ok(());
                }
            }
        }
        poll.poll(events, Some(timeout.saturating_sub(looked)))
    }

    /// Whether a busy-poll has paid.
    fn note(&mut self, has_paid: bool) {
        if has_paid {
            self.penalty /= 2;
        } else {
            self.penalty = (2 * self.penalty + 1).min(WITHOUT_MAX);
            self.without = self.penalty;
        }
    }

    /// Looks for events without blocking. It yields the processor between two looks. If another thread takes it, the
    /// busy-poll is over: a blocked thread is given a processor sooner than one that goes on.
    fn look(poll: &mut Poll, events: &mut Events, span: Duration) -> io::Result<Look> {
        let (begun, mut last) = (Instant::now(), Duration::ZERO);
        loop {
            poll.poll(events, Some(Duration::ZERO))?;
            let now = begun.elapsed();
            let lost_processor = now - last > GLANCE_MAX;
            if !events.is_empty() || now >= span || lost_processor {
                return Ok(Look { took: now, lost_processor });
            }
            last = now;
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use mio::{Token, Waker};

    #[test]
    fn who_looks_and_for_how_long() {
        for (has_own_processor, patient, reads, expected) in [
            (true, false, 0, FOR_CLIENTS),
            (true, false, READS_MIN - 1, FOR_CLIENTS),
            (true, false, READS_MIN, FOR_READS),
            (true, true, READS_MIN, Duration::ZERO),
            (false, false, READS_MIN - 1, Duration::ZERO),
            (false, false, READS_MIN, FOR_READS),
        ] {
            assert_eq!(
                BusyPoll::default().span(has_own_processor, patient, reads),
                expected,
                "{has_own_processor} {patient} {reads}"
            );
        }
    }

    #[test]
    fn events_are_found_by_looking_and_by_sleeping() {
        let mut poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(7)).unwrap();
        let mut events = Events::with_capacity(8);
        for span in [Duration::ZERO, FOR_CLIENTS, FOR_READS] {
            let mut wait = BusyPoll::default();
            for n in 0..2 * WITHOUT_MAX {
                waker.wake().unwrap();
                wait.poll(&mut poll, &mut events, Duration::from_secs(60), span).unwrap();
                assert_eq!(events.iter().map(|event| event.token()).collect::<Vec<_>>(), [Token(7)], "{n}");
            }
            // Whether those looks paid depends on who else wanted the processor.
            wait = BusyPoll::default();
            // Looks that find nothing become rare.
            for expected in [1, 0, 3, 2, 1, 0, 7] {
                wait.poll(&mut poll, &mut events, FOR_READS, span).unwrap();
                assert!(events.is_empty(), "no thread woke it");
                assert_eq!(wait.without, if span.is_zero() { 0 } else { expected });
            }
            std::thread::scope(|scope| {
                scope.spawn(|| waker.wake().unwrap());
                wait.poll(&mut poll, &mut events, Duration::from_secs(60), span).unwrap();
            });
            assert!(!events.is_empty(), "woken while it waits, or before");
            waker.wake().unwrap();
            wait.without = 0;
            wait.poll(&mut poll, &mut events, Duration::from_secs(60), span).unwrap();
            assert!(!events.is_empty(), "found by looking, if it looks");
        }
    }

    #[test]
    fn a_look_that_pays_makes_up_for_one_that_did_not() {
        let mut wait = BusyPoll::default();
        let noted = [false, false, false, true, true, false, true, true, true].map(|has_paid| {
            wait.note(has_paid);
            (wait.penalty, wait.without)
        });
        let expected = [(1, 1), (3, 3), (7, 7), (3, 7), (1, 7), (3, 3), (1, 3), (0, 3), (0, 3)];
        assert_eq!(noted, expected);
    }
}
