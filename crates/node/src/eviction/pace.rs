//! How much to evict, when the room of evicted keys comes back late.

/// What the data of a node takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataBytes {
    /// All of it.
    pub bytes: u64,
    /// About how many of them belong to rows that are removed already, and come back by a flush or compaction: as its trees say.
    pub removed_bytes: u64,
}

impl DataBytes {
    /// What it takes once flushes and compaction have given back what they will.
    #[must_use]
    pub fn kept(&self) -> u64 {
        self.bytes.saturating_sub(self.removed_bytes)
    }

    /// Both together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, removed_bytes: self.removed_bytes + other.removed_bytes }
    }
}

/// The excess of a node's data over its bound.
///
/// What was evicted and may still take room is not evicted again. A tree on disk tells how much compaction is to give back of single
/// rows, and that counts until compaction has given it back. The rows of large collections are collected later, and no tree tells
/// how many they are before: these are remembered here, until the data shrinks by as much, and no longer than a few half-lives.
#[derive(Debug, Default)]
pub struct Pace {
    /// Bytes that were evicted, and may still take room without a tree telling so.
    freed: u64,
    /// Those that were evicted since the memory of the trees was last sealed for them.
    unsealed: u64,
    /// The data at the last look, in bytes.
    last_bytes: u64,
    /// When that was, in ms.
    looked_ms: u64,
}

impl Pace {
    /// How many bytes are to be evicted of `data`, which may have `limit`. What was evicted counts half as much after
    /// `half_life_ms`.
    pub fn excess(&mut self, data: DataBytes, limit: u64, now_ms: u64, half_life_ms: u64) -> u64 {
        let shrunk = self.last_bytes.saturating_sub(data.bytes);
        let halvings = now_ms.saturating_sub(self.looked_ms) as f64 / half_life_ms.max(1) as f64;
        self.freed = (self.freed.saturating_sub(shrunk) as f64 * 0.5f64.powf(halvings)) as u64;
        (self.last_bytes, self.looked_ms) = (data.bytes, now_ms);
        data.kept().saturating_sub(limit).saturating_sub(self.freed)
    }

    /// About so many bytes were evicted that no tree tells of.
    pub fn evicted(&mut self, bytes: u64) {
        self.freed = self.freed.saturating_add(bytes);
        self.unsealed = self.unsealed.saturating_add(bytes);
    }

    /// Whether more than `most` bytes were evicted since this was last so: trees on disk tell what they take once that is flushed.
    pub fn wants_seal(&mut self, most: u64) -> bool {
        let is_due = self.unsealed > most;
        if is_due {
            self.unsealed = 0;
        }
        is_due
    }

    /// What was evicted is taken to have come back; false if there was nothing.
    pub fn forget(&mut self) -> bool {
        std::mem::take(&mut self.freed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(bytes: u64, removed_bytes: u64) -> DataBytes {
        DataBytes { bytes, removed_bytes }
    }

    #[test]
    fn what_was_evicted_is_not_evicted_again_before_its_room_may_be_back() {
        let mut pace = Pace::default();
        assert_eq!(pace.excess(data(1_000, 0), 1_000, 0, 100), 0);
        assert_eq!(pace.excess(data(1_500, 0), 1_000, 0, 100), 500);
        pace.evicted(500);
        assert_eq!(pace.excess(data(1_500, 0), 1_000, 0, 100), 0, "nothing has come back yet");
        assert_eq!(pace.excess(data(1_700, 0), 1_000, 0, 100), 200, "more was written meanwhile");
        assert_eq!(pace.excess(data(1_300, 0), 1_000, 0, 100), 200, "400 came back, and 100 are to come");
        assert_eq!(pace.excess(data(1_300, 0), 1_000, 200, 100), 275, "what does not come back is forgotten");
        assert!(pace.forget() && !pace.forget());
        assert_eq!(pace.excess(data(1_300, 0), 1_000, 200, 100), 300);
    }

    #[test]
    fn what_compaction_is_to_give_back_counts_until_it_has() {
        const HOUR_MS: u64 = 3_600_000;
        let mut pace = Pace::default();
        for (bytes, removed_bytes, now_ms, excess) in [
            (1_000, 0, 0, 0),
            (1_500, 0, 1, 500),
            // Some keys are gone, then as many as are to go.
            (1_500, 300, 2, 200),
            (1_500, 500, 3, 0),
            (1_500, 500, HOUR_MS, 0),
            // More is written meanwhile.
            (1_700, 500, HOUR_MS, 200),
            (1_700, 700, HOUR_MS, 0),
            // Compaction gives some of it back, then the rest; the trees took it for more than it was.
            (1_400, 400, HOUR_MS, 0),
            (1_050, 0, HOUR_MS, 50),
            // All keys are gone.
            (1_500, 1_500, HOUR_MS, 0),
        ] {
            let found = pace.excess(data(bytes, removed_bytes), 1_000, now_ms, 100);
            assert_eq!(found, excess, "of {bytes} bytes {removed_bytes} are removed, at {now_ms} ms");
        }
    }

    #[test]
    fn memory_is_sealed_once_for_as_much_as_was_evicted() {
        let mut pace = Pace::default();
        pace.evicted(100);
        assert!(!pace.wants_seal(100));
        pace.evicted(1);
        assert!(pace.wants_seal(100) && !pace.wants_seal(100));
    }
}
