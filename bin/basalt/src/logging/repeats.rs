//! A bound for lines that come from one place of the program again and again.

use super::line::Line;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A place of the program: file and line.
type LogPlace = (&'static str, u32);

const WINDOW: Duration = Duration::from_secs(1);
/// The same while a flood goes on: behind a window in which lines were left out.
const WINDOW_OF_FLOOD: Duration = Duration::from_secs(10);
/// Lines of one place in a window. A flood of one message does not fill a disk, nor hide the others.
const LINES_MAX: u32 = 20;

/// How often each place has spoken. There are as many as the program has places that log.
pub struct Repeats {
    places: BTreeMap<LogPlace, Count>,
}

/// Invariant: `last` is there just if `left_out` is not 0.
struct Count {
    since: Instant,
    window: Duration,
    lines: u32,
    left_out: u64,
    /// The last line that was left out.
    last: Option<Line>,
}

impl Repeats {
    /// No place has spoken.
    pub const fn new() -> Self {
        Self { places: BTreeMap::new() }
    }

    /// The line, if it is to be written, with how many of its place were left out before it. None: it is left out itself.
    pub fn admit(&mut self, place: LogPlace, mut line: Line, now: Instant) -> Option<Line> {
        let begun = Count { since: now, window: WINDOW, lines: 0, left_out: 0, last: None };
        let count = self.places.entry(place).or_insert(begun);
        if now.duration_since(count.since) >= count.window {
            count.window = if count.left_out > 0 { WINDOW_OF_FLOOD } else { WINDOW };
            (count.since, count.lines) = (now, 0);
        }
        if count.lines == LINES_MAX {
            count.left_out += 1;
            count.last = Some(line);
            return None;
        }
        count.lines += 1;
        (line.left_out, count.last) = (std::mem::take(&mut count.left_out), None);
        Some(line)
    }

    /// The last line of each place that has been silent since its lines were left out: with how many were before it.
    /// `is_end`: the program ends, so nothing is waited for.
    pub fn ended(&mut self, now: Instant, is_end: bool) -> Vec<Line> {
        let due = |count: &mut Count| {
            if !is_end && now.duration_since(count.since) < count.window {
                return None;
            }
            let mut line = count.last.take()?;
            line.left_out = std::mem::take(&mut count.left_out) - 1;
            Some(line)
        };
        self.places.values_mut().filter_map(due).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]
    use super::*;
    use log::Level;

    fn line(n: u64) -> Line {
        Line { at_ms: n, level: Level::Warn, target: "node".to_owned(), message: n.to_string(), left_out: 0 }
    }

    #[test]
    fn a_flood_is_cut_and_counted() {
        let mut repeats = Repeats::new();
        let begun = Instant::now();
        for n in 0..100 {
            let is_written = repeats.admit(("a.rs", 1), line(n), begun).is_some();
            assert_eq!(is_written, n < u64::from(LINES_MAX), "{n}");
        }
        assert_eq!(repeats.admit(("a.rs", 2), line(0), begun).unwrap().left_out, 0, "other places are heard");
        assert_eq!(repeats.admit(("a.rs", 1), line(100), begun + WINDOW).unwrap().left_out, 80);
        assert_eq!(repeats.admit(("a.rs", 1), line(101), begun + WINDOW).unwrap().left_out, 0);
        assert!(repeats.ended(begun + 2 * WINDOW, true).is_empty(), "all is told");
        // Behind a flood the window is longer.
        let written = (0..100).filter(|n| repeats.admit(("a.rs", 1), line(*n), begun + 3 * WINDOW).is_some()).count();
        assert_eq!(written, 18);
        let after = begun + WINDOW + WINDOW_OF_FLOOD;
        assert!(repeats.ended(after - WINDOW, false).is_empty(), "the window lasts");
        assert_eq!(repeats.ended(after, false)[0].left_out, 81);
        for _ in 0..=LINES_MAX {
            repeats.admit(("a.rs", 1), line(0), after);
        }
        assert_eq!(repeats.ended(after + WINDOW, false).len(), 1, "it is short again");
    }

    #[test]
    fn the_count_is_told_though_the_flood_has_ended() {
        let mut repeats = Repeats::new();
        let begun = Instant::now();
        for n in 0..100 {
            repeats.admit(("a.rs", 1), line(n), begun);
        }
        assert!(repeats.ended(begun, false).is_empty(), "it may go on");
        let told = repeats.ended(begun + WINDOW, false);
        let [last] = &told[..] else { panic!("one place was flooded") };
        assert_eq!((last.at_ms, &*last.message, last.left_out), (99, "99", 79));
        assert!(repeats.ended(begun + WINDOW, true).is_empty(), "once");
        for n in 0..=LINES_MAX {
            repeats.admit(("a.rs", 1), line(n.into()), begun + WINDOW);
        }
        assert_eq!(repeats.ended(begun + WINDOW, true)[0].left_out, 0, "it is the only one");
    }
}
