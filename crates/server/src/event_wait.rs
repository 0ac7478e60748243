//! How an event loop waits for events.

use mio::{Events, Poll};
use std::io;
use std::time::{Duration, Instant};

/// For how long events are looked for before the thread sleeps.
const LOOK: Duration = Duration::from_micros(20);
/// After a look that found nothing, so many waits are without one.
const WITHOUT: u32 = 16;

/// Waits for events. A client that sends to a thread that sleeps wakes it, which takes the client longer than its sending
/// does; so if they come one soon after the other, the thread looks for them for a little while first
/// (docs/adr/0001, "Looking for events").
pub(crate) struct EventWait {
    looks: bool,
    /// Waits until the next look.
    without: u32,
}

impl EventWait {
    /// `looks`: no other event loop needs the processors, and there are several: with one it would keep the client from
    /// sending.
    pub(crate) fn new(looks: bool) -> Self {
        Self { looks, without: 0 }
    }

    /// As `Poll::poll` with that timeout. `patient`: rather many events late than few at once.
    pub(crate) fn poll(
        &mut self,
        poll: &mut Poll,
        events: &mut Events,
        mut timeout: Duration,
        patient: bool,
    ) -> io::Result<()> {
        if self.looks && !patient && timeout >= LOOK {
            if let Some(left) = self.without.checked_sub(1) {
                self.without = left;
            } else {
                let begun = Instant::now();
                while begun.elapsed() < LOOK {
                    poll.poll(events, Some(Duration::ZERO))?;
                    if !events.is_empty() {
                        return Ok(());
                    }
                    std::hint::spin_loop();
                }
                self.without = WITHOUT;
                timeout -= LOOK;
            }
        }
        poll.poll(events, Some(timeout))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use mio::{Token, Waker};

    #[test]
    fn events_are_found_by_looking_and_by_sleeping() {
        let mut poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(7)).unwrap();
        let mut events = Events::with_capacity(8);
        for looks in [false, true] {
            let mut wait = EventWait::new(looks);
            for n in 0..2 * WITHOUT {
                waker.wake().unwrap();
                wait.poll(&mut poll, &mut events, Duration::from_secs(60), n % 3 == 0).unwrap();
                assert_eq!(events.iter().map(|event| event.token()).collect::<Vec<_>>(), [Token(7)], "{n}");
            }
            // A look that was kept from the processor found nothing, it may be.
            wait.without = 0;
            wait.poll(&mut poll, &mut events, Duration::from_micros(100), false).unwrap();
            assert!(events.is_empty(), "nobody woke it");
            assert_eq!(wait.without, if wait.looks { WITHOUT } else { 0 });
            std::thread::scope(|scope| {
                scope.spawn(|| waker.wake().unwrap());
                wait.poll(&mut poll, &mut events, Duration::from_secs(60), false).unwrap();
            });
            assert!(!events.is_empty(), "woken while it waits, or before");
        }
    }
}
