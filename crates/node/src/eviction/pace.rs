//! How much to evict, when the room of evicted keys comes back late.

/// The excess of a node's data over its bound.
///
/// A tree on disk gives room back when it compacts, and one in memory when it collects rows of large collections. What was
/// evicted and may still take room is not evicted again: it is remembered, until the data shrinks by as much, and no longer
/// than a few half-lives.
#[derive(Debug, Default)]
pub struct Pace {
    /// Bytes that were evicted, and may still take room.
    freed: u64,
    /// The data at the last look, in bytes.
    last_bytes: u64,
    /// When that was, in ms.
    looked_ms: u64,
}

impl Pace {
    /// How many bytes are to be evicted: the data has `bytes`, and may have `limit`. What was evicted counts half as much
    /// after `half_life_ms`.
    pub fn excess(&mut self, bytes: u64, limit: u64, now_ms: u64, half_life_ms: u64) -> u64 {
        let shrunk = self.last_bytes.saturating_sub(bytes);
        let halvings = now_ms.saturating_sub(self.looked_ms) as f64 / half_life_ms.max(1) as f64;
        self.freed = (self.freed.saturating_sub(shrunk) as f64 * 0.5f64.powf(halvings)) as u64;
        (self.last_bytes, self.looked_ms) = (bytes, now_ms);
        bytes.saturating_sub(limit).saturating_sub(self.freed)
    }

    /// About so many bytes were evicted.
    pub fn evicted(&mut self, bytes: u64) {
        self.freed = self.freed.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_evicted_is_not_evicted_again_before_its_room_may_be_back() {
        let mut pace = Pace::default();
        assert_eq!(pace.excess(1_000, 1_000, 0, 100), 0);
        assert_eq!(pace.excess(1_500, 1_000, 0, 100), 500);
        pace.evicted(500);
        assert_eq!(pace.excess(1_500, 1_000, 0, 100), 0, "nothing has come back yet");
        assert_eq!(pace.excess(1_700, 1_000, 0, 100), 200, "more was written meanwhile");
        assert_eq!(pace.excess(1_300, 1_000, 0, 100), 200, "400 came back, and 100 are to come");
        assert_eq!(pace.excess(1_300, 1_000, 200, 100), 275, "what does not come back is forgotten");
    }
}
