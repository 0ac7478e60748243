//! How many requests an entry takes.
//!
//! An event loop gives up an entry that is too much work, and a thread evaluates it again from the beginning. What a request
//! costs is not known before it is evaluated. So the entries after one that was given up, or took long, take fewer requests, and
//! later ones slowly more.

/// An entry of fewer requests is not made smaller: one of them is the work. A request may well cost 40 µs: one that changes two
/// leaves of a sorted set beyond memory.
const REQUESTS_MIN: usize = 8;
/// Most requests of an entry.
const REQUESTS_MAX: usize = 4096;
/// By one part of so many the number grows with each full entry.
const GROWTH_DIVISOR: usize = 64;

/// See the module's documentation.
pub(super) struct EntryFill {
    /// Most requests of the next entry, in parts of `GROWTH_DIVISOR`. Invariant: `REQUESTS_MIN ≤ requests_max() ≤ REQUESTS_MAX`.
    parts_max: usize,
}

impl Default for EntryFill {
    fn default() -> Self {
        Self { parts_max: REQUESTS_MAX * GROWTH_DIVISOR }
    }
}

impl EntryFill {
    fn requests_max(&self) -> usize {
        self.parts_max / GROWTH_DIVISOR
    }

    /// Whether an entry of so many requests takes no more.
    pub(super) fn is_full(&self, requests: usize) -> bool {
        requests >= self.requests_max()
    }

    /// Whether entries of so many requests may become smaller.
    pub(super) fn can_be_less(requests: usize) -> bool {
        requests > REQUESTS_MIN
    }

    /// An event loop has given up an entry of so many requests, or was at it for long.
    pub(super) fn given_up(&mut self, requests: usize) {
        if Self::can_be_less(requests) {
            self.parts_max = self.parts_max.min(requests / 2 * GROWTH_DIVISOR).max(REQUESTS_MIN * GROWTH_DIVISOR);
        }
    }

    /// An event loop has applied an entry of so many requests.
    pub(super) fn applied(&mut self, requests: usize) {
        if self.is_full(requests) {
            self.parts_max = (self.parts_max + self.requests_max()).min(REQUESTS_MAX * GROWTH_DIVISOR);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_become_as_large_as_an_event_loop_can_apply_them() {
        for bearable in [1, 12, 40, 300, 5000] {
            let mut fill = EntryFill::default();
            let mut given_up = 0;
            for _ in 0..10_000 {
                let requests = fill.requests_max();
                assert!((REQUESTS_MIN..=REQUESTS_MAX).contains(&requests) && fill.is_full(requests));
                if requests > bearable {
                    given_up += 1;
                    fill.given_up(requests);
                } else {
                    fill.applied(requests);
                }
            }
            match bearable {
                1 => assert_eq!(fill.requests_max(), REQUESTS_MIN, "one request is too much"),
                5000 => assert_eq!((given_up, fill.requests_max()), (0, REQUESTS_MAX)),
                _ => assert!(given_up < 500 && fill.requests_max() >= bearable / 2, "{given_up} of 10,000"),
            }
        }
    }

    #[test]
    fn a_request_that_is_too_much_by_itself_leaves_the_others_together() {
        let mut fill = EntryFill::default();
        fill.given_up(1);
        assert!(!fill.is_full(REQUESTS_MAX - 1));
    }
}
