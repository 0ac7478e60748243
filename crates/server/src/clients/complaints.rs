//! Failures of clients that are no clients yet, for the log: each reason at most once in `EVERY`, so that one client which fails again and
//! again hides neither another reason nor the rest of the log.

use std::time::{Duration, Instant};

/// Between two lines with the same reason.
const EVERY: Duration = Duration::from_secs(10);
/// Most reasons that are remembered; beyond them the one that was told longest ago is forgotten.
const REASONS_MAX: usize = 32;

struct ToldReason {
    why: String,
    at: Instant,
    /// Failures since then.
    untold: u64,
}

/// The reasons that were told a while ago.
#[derive(Default)]
pub(super) struct Complaints(Vec<ToldReason>);

impl Complaints {
    /// A client has failed: what is to be logged behind the reason, if anything.
    pub(super) fn note(&mut self, why: &str, now: Instant) -> Option<String> {
        let Some(known) = self.0.iter_mut().find(|told| told.why == why) else {
            if self.0.len() >= REASONS_MAX
                && let Some(oldest) = (0..self.0.len()).min_by_key(|at| self.0[*at].at)
            {
                self.0.swap_remove(oldest);
            }
            self.0.push(ToldReason { why: why.to_owned(), at: now, untold: 0 });
            return Some(String::new());
        };
        if now.saturating_duration_since(known.at) < EVERY {
            known.untold += 1;
            return None;
        }
        known.at = now;
        Some(match std::mem::take(&mut known.untold) {
            0 => String::new(),
            more => format!(" ({more} more such failures were not logged)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Complaints, EVERY, REASONS_MAX};
    use std::time::{Duration, Instant};

    #[test]
    fn each_reason_is_told_by_itself() {
        let (mut complaints, start) = (Complaints::default(), Instant::now());
        let mut note = |why: &str, ms: u64| complaints.note(why, start + Duration::from_millis(ms));
        assert_eq!(note("expired", 0).as_deref(), Some(""));
        assert_eq!(note("plain", 1).as_deref(), Some(""));
        assert_eq!(note("expired", 2), None);
        assert_eq!(note("expired", 3), None);
        let later = EVERY.as_millis() as u64;
        assert_eq!(note("expired", later).as_deref(), Some(" (2 more such failures were not logged)"));
        assert_eq!(note("plain", later + 1).as_deref(), Some(""));
        for n in 0..REASONS_MAX * 2 {
            assert_eq!(note(&n.to_string(), later + 2).as_deref(), Some(""));
        }
        assert_eq!(complaints.0.len(), REASONS_MAX);
    }
}
