//! Failures of clients that are no clients yet, for the log: each reason at most once in `EVERY`, so that one client which fails again and
//! again hides neither another reason nor the rest of the log.

use std::time::{Duration, Instant};

/// Between two lines with the same reason.
const EVERY: Duration = Duration::from_secs(10);
/// Most reasons that are remembered; beyond them the one that was told longest ago is forgotten.
const REASONS_MAX: usize = 32;

/// Invariant: `last` is there just if `untold` is not 0.
struct ToldReason {
    why: String,
    at: Instant,
    /// Failures since then.
    untold: u64,
    /// What would have been logged of the last of these.
    last: Option<String>,
}

/// The reasons that were told a while ago.
#[derive(Default)]
pub(super) struct Complaints(Vec<ToldReason>);

impl Complaints {
    /// A client has failed for that reason: what is to be logged, if anything. `line`: with the client's address.
    pub(super) fn note(&mut self, why: &str, line: String, now: Instant) -> Option<String> {
        let Some(known) = self.0.iter_mut().find(|told| told.why == why) else {
            if self.0.len() >= REASONS_MAX
                && let Some(oldest) = (0..self.0.len()).min_by_key(|at| self.0[*at].at)
            {
                self.0.swap_remove(oldest);
            }
            self.0.push(ToldReason { why: why.to_owned(), at: now, untold: 0, last: None });
            return Some(line);
        };
        if now.saturating_duration_since(known.at) < EVERY {
            known.untold += 1;
            known.last = Some(line);
            return None;
        }
        (known.at, known.last) = (now, None);
        Some(with_count(line, std::mem::take(&mut known.untold)))
    }

    /// What is to be logged of clients that failed a while ago and were not told of.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<String> {
        let told = |known: &mut ToldReason| {
            if now.saturating_duration_since(known.at) < EVERY {
                return None;
            }
            let line = known.last.take()?;
            known.at = now;
            Some(with_count(line, std::mem::take(&mut known.untold) - 1))
        };
        self.0.iter_mut().filter_map(told).collect()
    }
}

fn with_count(line: String, more: u64) -> String {
    if more == 0 { line } else { format!("{line} ({more} more such failures were not logged)") }
}

#[cfg(test)]
mod tests {
    use super::{Complaints, EVERY, REASONS_MAX};
    use std::time::{Duration, Instant};

    #[test]
    fn each_reason_is_told_by_itself() {
        let (mut complaints, start) = (Complaints::default(), Instant::now());
        let mut note =
            |why: &str, ms: u64| complaints.note(why, format!("{why} {ms}"), start + Duration::from_millis(ms));
        assert_eq!(note("expired", 0).as_deref(), Some("expired 0"));
        assert_eq!(note("plain", 1).as_deref(), Some("plain 1"));
        assert_eq!(note("expired", 2), None);
        assert_eq!(note("expired", 3), None);
        let later = EVERY.as_millis() as u64;
        let line = note("expired", later).unwrap_or_default();
        assert_eq!(line, format!("expired {later} (2 more such failures were not logged)"));
        assert_eq!(note("plain", later + 1), Some(format!("plain {}", later + 1)));
        for n in 0..REASONS_MAX * 2 {
            assert!(note(&n.to_string(), later + 2).is_some());
        }
        assert_eq!(complaints.0.len(), REASONS_MAX);
    }

    #[test]
    fn what_was_not_told_is_told_though_nothing_follows() {
        let (mut complaints, start) = (Complaints::default(), Instant::now());
        for n in 0..5 {
            complaints.note("expired", format!("expired {n}"), start);
        }
        assert!(complaints.overdue(start).is_empty(), "more may follow");
        let told = complaints.overdue(start + EVERY);
        assert_eq!(told, ["expired 4 (3 more such failures were not logged)"]);
        assert!(complaints.overdue(start + 2 * EVERY).is_empty(), "once");
    }
}
