//! How long a thread waits for a processor: busy-polling pays only for one that has a processor to itself.

use std::fs::read_to_string;
use std::time::{Duration, Instant};

/// Between two samples: one costs a read of a file.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);
/// The part of the time in which a thread wants a processor that it may wait for one. Measured with two processors: 0.01
/// to 0.04 for one node and its client, 0.5 to 0.6 for three nodes and theirs.
const OWN_BELOW: f64 = 0.1;
/// And the part from which on a processor is no longer its own.
const SHARED_FROM: f64 = 0.25;

/// What the system has counted for a thread since its start.
#[derive(Clone, Copy)]
struct Counted {
    /// On a processor.
    ran: Duration,
    /// Ready to run, and waiting for one.
    waited: Duration,
}

/// Whether the calling thread has a processor to itself, measured. It belongs to one thread.
pub(crate) struct RunQueue {
    last: Option<Counted>,
    at: Instant,
    has_own: bool,
}

impl RunQueue {
    /// For the thread that calls. Nothing is measured yet, so it has none.
    pub(crate) fn new() -> Self {
        Self { last: None, at: Instant::now(), has_own: false }
    }

    /// Whether the thread has had a processor to itself lately.
    pub(crate) fn has_own_processor(&self) -> bool {
        self.has_own
    }

    /// Measures, if the last time is long enough ago.
    pub(crate) fn tick(&mut self) {
        if self.at.elapsed() >= SAMPLE_EVERY {
            self.at = Instant::now();
            self.note(counted());
        }
    }

    /// `None`: the system does not tell, so there is nothing to poll by.
    fn note(&mut self, now: Option<Counted>) {
        let before = std::mem::replace(&mut self.last, now);
        let (Some(before), Some(now)) = (before, now) else {
            self.has_own = false;
            return;
        };
        let waited = now.waited.saturating_sub(before.waited).as_secs_f64();
        let wanted = waited + now.ran.saturating_sub(before.ran).as_secs_f64();
        let bound = if self.has_own { SHARED_FROM } else { OWN_BELOW };
        self.has_own = waited < bound * wanted.max(f64::EPSILON);
    }
}

/// From /proc/thread-self/schedstat, proc(5): nanoseconds on a processor, nanoseconds in a run queue. Nothing where there
/// is none, and where the process may use one processor only: to poll there keeps from running what is polled for.
fn counted() -> Option<Counted> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return None;
    }
    parsed(&read_to_string("/proc/thread-self/schedstat").ok()?)
}

fn parsed(schedstat: &str) -> Option<Counted> {
    let mut numbers = schedstat.split_whitespace().map(|number| number.parse().ok().map(Duration::from_nanos));
    Some(Counted { ran: numbers.next()??, waited: numbers.next()?? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_processor_is_its_own_until_others_want_it_often() {
        // Milliseconds run and waited since the sample before.
        let (mut queue, mut total) = (RunQueue::new(), Counted { ran: Duration::ZERO, waited: Duration::ZERO });
        queue.note(Some(total));
        assert!(!queue.has_own_processor(), "one sample measures nothing");
        for (ran, waited, own) in [
            (100, 5, true),
            (100, 20, true),
            (100, 40, false),
            (100, 20, false),
            (100, 9, true),
            (0, 0, true),
            (0, 3, false),
            (0, 0, true),
        ] {
            total.ran += Duration::from_millis(ran);
            total.waited += Duration::from_millis(waited);
            queue.note(Some(total));
            assert_eq!(queue.has_own_processor(), own, "{ran} {waited}");
        }
        queue.note(None);
        assert!(!queue.has_own_processor(), "the system does not tell");
        queue.note(Some(total));
        assert!(!queue.has_own_processor(), "there is nothing to compare with");
    }

    #[test]
    fn what_the_system_tells_is_read() {
        let counted = parsed("6840123 3785260 17\n").unwrap();
        assert_eq!((counted.ran, counted.waited), (Duration::from_nanos(6_840_123), Duration::from_nanos(3_785_260)));
        for broken in ["", "1", "a b c", "1 -2 3"] {
            assert!(parsed(broken).is_none(), "{broken}");
        }
    }
}
