//! How an event loop waits for events.

use mio::{Events, Poll};
use std::io;
use std::time::{Duration, Instant};

/// For how long clients are looked for before the thread sleeps.
const FOR_CLIENTS: Duration = Duration::from_micros(20);
/// And reads that the disk has: about as long as a quick disk takes for as many as it is given at a time.
const FOR_READS: Duration = Duration::from_micros(200);
/// Fewer reads are not looked for: it would cost twice the processor time, and a lone client is slower for it.
const READS_MIN: usize = 4;
/// Between two glances. If it was longer, others want the processor.
const GLANCE_MAX: Duration = Duration::from_micros(50);
/// After looks that found nothing, at most so many waits are without one.
const WITHOUT_MAX: u32 = 16;

/// Waits for events. Whoever has something for a thread that sleeps wakes it, which on a virtual machine takes longer than
/// what it is woken for: a client its sending, and the disk's reads their being answered. So if events come soon, the
/// thread looks for them for a while before it sleeps (docs/adr/0001, "Looking for events").
pub(crate) struct BusyPoll {
    is_alone: bool,
    /// Waits until the next look.
    without: u32,
    /// How many it was after the last look, if that found nothing.
    penalty: u32,
}

impl BusyPoll {
    /// `is_alone`: no other worker needs the processors, and there are several: with one it would keep the client from
    /// sending.
    pub(crate) fn new(is_alone: bool) -> Self {
        Self { is_alone, without: 0, penalty: 0 }
    }

    /// How long to look. `patient`: rather many events late than few at once; `reads`: how many the disk has, 0 where there is
    /// one processor for all.
    pub(crate) fn span(&self, patient: bool, reads: usize) -> Duration {
        match reads {
            _ if patient => Duration::ZERO,
            READS_MIN.. => FOR_READS,
            _ if self.is_alone => FOR_CLIENTS,
            _ => Duration::ZERO,
        }
    }

    /// As `Poll::poll` with that timeout, with a look for as long as `span` first.
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
                looked = Self::look(poll, events, span)?;
                if !events.is_empty() {
                    self.penalty = 0;
                    return Ok(());
                }
                self.penalty = (2 * self.penalty + 1).min(WITHOUT_MAX);
                self.without = self.penalty;
            }
        }
        poll.poll(events, Some(timeout.saturating_sub(looked)))
    }

    /// Looks for events without sleeping, and tells for how long. Whoever wants the processor has it in between; then the look
    /// is over, since a thread that sleeps is given a processor sooner than one that goes on asking.
    fn look(poll: &mut Poll, events: &mut Events, span: Duration) -> io::Result<Duration> {
        let (begun, mut last) = (Instant::now(), Duration::ZERO);
        loop {
            poll.poll(events, Some(Duration::ZERO))?;
            let now = begun.elapsed();
            if !events.is_empty() || now >= span || now - last > GLANCE_MAX {
                return Ok(now);
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
        for (is_alone, patient, reads, expected) in [
            (true, false, 0, FOR_CLIENTS),
            (true, false, READS_MIN - 1, FOR_CLIENTS),
            (true, false, READS_MIN, FOR_READS),
            (true, true, READS_MIN, Duration::ZERO),
            (false, false, READS_MIN - 1, Duration::ZERO),
            (false, false, READS_MIN, FOR_READS),
        ] {
            assert_eq!(BusyPoll::new(is_alone).span(patient, reads), expected, "{is_alone} {patient} {reads}");
        }
    }

    #[test]
    fn events_are_found_by_looking_and_by_sleeping() {
        let mut poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(7)).unwrap();
        let mut events = Events::with_capacity(8);
        for span in [Duration::ZERO, FOR_CLIENTS, FOR_READS] {
            let mut wait = BusyPoll::new(true);
            for n in 0..2 * WITHOUT_MAX {
                waker.wake().unwrap();
                wait.poll(&mut poll, &mut events, Duration::from_secs(60), span).unwrap();
                assert_eq!(events.iter().map(|event| event.token()).collect::<Vec<_>>(), [Token(7)], "{n}");
            }
            // Looks that find nothing become rare.
            for expected in [1, 0, 3, 2, 1, 0, 7] {
                wait.poll(&mut poll, &mut events, FOR_READS, span).unwrap();
                assert!(events.is_empty(), "nobody woke it");
                assert_eq!(wait.without, if span.is_zero() { 0 } else { expected });
            }
            std::thread::scope(|scope| {
                scope.spawn(|| waker.wake().unwrap());
                wait.poll(&mut poll, &mut events, Duration::from_secs(60), span).unwrap();
            });
            assert!(!events.is_empty(), "woken while it waits, or before");
            // One that finds something makes up for it.
            wait.without = 0;
            waker.wake().unwrap();
            wait.poll(&mut poll, &mut events, Duration::from_secs(60), span).unwrap();
            assert_eq!((wait.without, wait.penalty == 0), (0, true));
        }
    }
}
