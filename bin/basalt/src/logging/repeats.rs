//! A bound for lines that come from one place of the program again and again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A place of the program: file and line.
type LogPlace = (&'static str, u32);

const WINDOW: Duration = Duration::from_secs(1);
/// Lines of one place in a window. A flood of one message does not fill a disk, nor hide the others.
const LINES_MAX: u32 = 20;

/// How often each place has spoken. There are as many as the program has places that log.
pub struct Repeats {
    places: BTreeMap<LogPlace, Count>,
}

struct Count {
    since: Instant,
    lines: u32,
    left_out: u64,
}

impl Repeats {
    /// No place has spoken.
    pub const fn new() -> Self {
        Self { places: BTreeMap::new() }
    }

    /// Whether a line is written, and how many of its place were left out before it. `None`: it is left out.
    pub fn admit(&mut self, place: LogPlace, now: Instant) -> Option<u64> {
        let count = self.places.entry(place).or_insert(Count { since: now, lines: 0, left_out: 0 });
        if now.duration_since(count.since) >= WINDOW {
            (count.since, count.lines) = (now, 0);
        }
        if count.lines == LINES_MAX {
            count.left_out += 1;
            return None;
        }
        count.lines += 1;
        Some(std::mem::take(&mut count.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let mut repeats = Repeats::new();
        let begun = Instant::now();
        for n in 0..100 {
            assert_eq!(repeats.admit(("a.rs", 1), begun).is_some(), n < LINES_MAX, "{n}");
        }
        assert_eq!(repeats.admit(("a.rs", 2), begun), Some(0), "other places are heard");
        assert_eq!(repeats.admit(("a.rs", 1), begun + WINDOW), Some(80));
        assert_eq!(repeats.admit(("a.rs", 1), begun + WINDOW), Some(0));
    }
}
