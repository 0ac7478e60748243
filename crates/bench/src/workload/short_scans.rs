//! Whether a store leaves out what should come at the end of scans: only records that are near to its end have too few after
//! them.

use parking_lot::Mutex;
use std::collections::HashSet;

/// Further records are not remembered: 16 MB at most. Nor is a store judged by more of them.
const REMEMBERED_MAX: u64 = 1 << 20;

/// The records from which scans have ended short.
#[derive(Debug, Default)]
pub struct ShortScans(Mutex<HashSet<u64>>);

/// Scans have ended short from more records than can be near to the store's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyShort {
    /// From so many records, at least.
    pub records: u64,
    /// So many can be.
    pub records_max: u64,
}

impl ShortScans {
    /// Notes that a scan from the record whose key has this hash ended short, of which there can be `records_max`.
    ///
    /// # Errors
    /// There are more.
    pub fn note(&self, key_hash: u64, records_max: u64) -> Result<(), TooManyShort> {
        let mut from = self.0.lock();
        if from.len() as u64 <= records_max.min(REMEMBERED_MAX) {
            from.insert(key_hash);
        }
        let records = from.len() as u64;
        if records > records_max { Err(TooManyShort { records, records_max }) } else { Ok(()) }
    }
}

/// From how many records a scan of up to `length` may end short in a store of `records`, of which the run has `inserted` more.
///
/// It is independent of how often each record is asked for. The last `length − 1` records are near to the end. An insert only
/// moves others away from it, and is near to it itself: always where keys ascend, and where they are scattered by
/// `(length − 1) / records` of all. Six standard deviations and five more make an error of chance as good as impossible.
pub(super) fn near_end_max(length: u64, records: u64, inserted: u64, scattered: bool) -> u64 {
    let near = length.saturating_sub(1);
    if !scattered {
        return near.saturating_add(inserted);
    }
    let expected = inserted as f64 * (near as f64 / records.max(1) as f64).min(1.0);
    near.saturating_add((expected + 6.0 * expected.sqrt() + 5.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_once() {
        let short = ShortScans::default();
        for (key, records_max, expected) in [
            (1, 2, Ok(())),
            (1, 2, Ok(())),
            (2, 2, Ok(())),
            (1, 2, Ok(())),
            (3, 2, Err(TooManyShort { records: 3, records_max: 2 })),
            (1, 2, Err(TooManyShort { records: 3, records_max: 2 })),
            (4, 4, Ok(())),
        ] {
            assert_eq!(short.note(key, records_max), expected, "{key}");
        }
    }

    #[test]
    fn how_many_records_are_near_the_end() {
        for (length, records, inserted, scattered, expected) in [
            (1, 1000, 0, true, 5),
            (100, 1_000_000, 0, true, 99 + 5),
            (101, 1000, 160, true, 100 + 16 + 24 + 5),
            (101, 50, 100, true, 100 + 100 + 60 + 5),
            (101, 1000, 160, false, 100 + 160),
        ] {
            assert_eq!(near_end_max(length, records, inserted, scattered), expected, "{length} {records} {inserted}");
        }
    }
}
