//! Which records a run is about: one range that the load, the delete and every key chooser share.

use super::properties::{BadProperty, bad};

/// Key numbers `first..first + count` of a store of `whole` records, and those that the run inserts, from `whole` on.
///
/// Choosers draw *offsets*: 0 is the first record of the range, `count` the first that the run inserts. So none of them
/// can meet a record of another process. `first + count ≤ whole`, `count ≥ 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRange {
    first: u64,
    count: u64,
    whole: u64,
}

impl RecordRange {
    /// The range that recordcount, insertstart and insertcount name; without an insertcount all from insertstart on.
    ///
    /// # Errors
    /// They do not fit together.
    pub fn new(whole: u64, first: u64, count: Option<u64>) -> Result<Self, BadProperty> {
        if whole == 0 {
            return Err(bad("recordcount", "there must be at least one record: it is not given, or 0"));
        }
        if first >= whole {
            let problem =
                format!("{first} is beyond the last record: recordcount is {whole}, and the first record is 0");
            return Err(bad("insertstart", problem));
        }
        let count = count.unwrap_or(whole - first);
        if count == 0 || first.saturating_add(count) > whole {
            let problem = format!("insertstart {first} and insertcount {count} do not fit recordcount {whole}");
            return Err(bad("insertcount", problem));
        }
        Ok(Self { first, count, whole })
    }

    /// The first key number.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// How many records there are before the run inserts any.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The key number at an offset.
    #[must_use]
    pub fn number(&self, offset: u64) -> u64 {
        if offset < self.count { self.first + offset } else { self.whole + (offset - self.count) }
    }

    /// How many offsets may be read when all key numbers from `whole` up to `inserted_end` have been inserted.
    #[must_use]
    pub fn readable(&self, inserted_end: u64) -> u64 {
        self.count + inserted_end.saturating_sub(self.whole)
    }

    /// The part of the range that one of several processes loads.
    #[must_use]
    pub fn part(&self, process: u64, processes: u64) -> Self {
        let edge = |process: u64| (u128::from(self.count) * u128::from(process) / u128::from(processes)) as u64;
        let (start, end) = (edge(process), edge(process + 1));
        Self { first: self.first + start, count: end - start, ..*self }
    }
}
