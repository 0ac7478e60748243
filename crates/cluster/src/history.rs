//! The newest changes of the map, for nodes that have an older one: with them a change costs its own bytes, not the map's.

use crate::apply::apply;
use crate::change::Change;
use crate::map::Map;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use vocab::Epoch;
use vocab::limits::{MAP_CHANGES_BYTES_MAX, MAP_HISTORY_BYTES_MAX};

/// What a change takes in memory besides its bytes.
const OVERHEAD_BYTES: usize = 64;

/// A change that made a map, and that map's epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeChange {
    /// The epoch of the map that it made, of the map of the epoch before.
    pub epoch: Epoch,
    /// The change, encoded.
    pub bytes: Arc<[u8]>,
}

/// A newer map, and how it was made.
#[derive(Clone, Debug)]
pub struct MapUpdate {
    /// The map.
    pub map: Arc<Map>,
    /// The changes that made it of the map that is known, the oldest first; none if they are not known.
    pub changes: Vec<MadeChange>,
}

/// The newest changes, without a gap.
///
/// Invariant: `changes[i + 1].epoch = changes[i].epoch + 1`; `bytes ≤ MAP_HISTORY_BYTES_MAX`, unless it is one change.
#[derive(Clone, Debug, Default)]
pub struct History {
    changes: VecDeque<MadeChange>,
    /// What they take in memory.
    bytes: usize,
}

/// Why changes do not lead from a map to a newer one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFollowed {
    /// The first of them does not follow on the map's epoch, which is this.
    Gap(Epoch),
    /// One of them cannot be read, or changes nothing of the map; says which, and why.
    Refused(String),
}

impl fmt::Display for NotFollowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap(epoch) => write!(f, "the changes do not follow on map {epoch}"),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

impl History {
    /// Adds the newest change. One that does not follow on the last begins the history anew.
    pub fn push(&mut self, change: MadeChange) {
        if self.changes.back().is_some_and(|last| last.epoch.0 + 1 != change.epoch.0) {
            self.clear();
        }
        self.bytes += OVERHEAD_BYTES + change.bytes.len();
        self.changes.push_back(change);
        while self.bytes > MAP_HISTORY_BYTES_MAX && self.changes.len() > 1 {
            let oldest = self.changes.pop_front().map_or(0, |oldest| oldest.bytes.len());
            self.bytes -= OVERHEAD_BYTES + oldest;
        }
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The changes that lead from the map of `epoch` to newer ones, as many as one message may carry; none if the history
    /// does not reach back so far.
    #[must_use]
    pub fn since(&self, epoch: Epoch) -> Option<Vec<MadeChange>> {
        let first = self.changes.front()?.epoch.0;
        let skipped = usize::try_from((epoch.0 + 1).checked_sub(first)?).ok()?;
        let mut bytes = 0;
        let fits = |change: &&MadeChange| {
            bytes += change.bytes.len();
            bytes <= MAP_CHANGES_BYTES_MAX || bytes == change.bytes.len()
        };
        let changes: Vec<MadeChange> = self.changes.iter().skip(skipped).take_while(fits).cloned().collect();
        (!changes.is_empty()).then_some(changes)
    }
}

impl MapUpdate {
    /// A map of which it is not known how it was made.
    #[must_use]
    pub fn whole(map: Arc<Map>) -> Self {
        Self { map, changes: Vec::new() }
    }

    /// The newer map that changes make of `map`. Those that it has already are passed over. `None` if it has all of them.
    pub fn following(map: &Map, changes: &[MadeChange]) -> Result<Option<Self>, NotFollowed> {
        let new = || changes.iter().filter(|change| change.epoch > map.epoch);
        if new().next().is_none() {
            return Ok(None);
        }
        let mut next = map.clone();
        for made in new() {
            if next.epoch.0 + 1 != made.epoch.0 {
                return Err(NotFollowed::Gap(next.epoch));
            }
            let refused = |why: &dyn fmt::Display| NotFollowed::Refused(format!("change {}: {why}", made.epoch));
            let change = Change::decode(&made.bytes).map_err(|e| refused(&e))?;
            let outcome = apply(&mut next, &change).map_err(|e| refused(&e))?;
            if !outcome.changed {
                return Err(refused(&"it changes nothing here"));
            }
        }
        Ok(Some(Self { map: Arc::new(next), changes: new().cloned().collect() }))
    }

    /// This update and one that came after it, as one.
    #[must_use]
    pub fn then(mut self, newer: Self) -> Self {
        let ends = self.changes.last().map(|last| last.epoch.0 + 1);
        // Without what came before, a change is of no use.
        if ends.is_some() && ends == newer.changes.first().map(|first| first.epoch.0) {
            self.changes.extend(newer.changes);
        } else {
            self.changes.clear();
        }
        Self { map: newer.map, changes: self.changes }
    }

    /// Leaves only the changes that make the map of that of `epoch`; none of them, if there is a gap between.
    #[must_use]
    pub fn since(mut self, epoch: Epoch) -> Self {
        self.changes.retain(|change| change.epoch > epoch);
        if self.changes.first().is_none_or(|first| first.epoch.0 != epoch.0 + 1) {
            self.changes.clear();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn change(epoch: u64, bytes: usize) -> MadeChange {
        MadeChange { epoch: Epoch(epoch), bytes: vec![7; bytes].into() }
    }

    fn epochs(changes: Option<Vec<MadeChange>>) -> Option<(u64, u64)> {
        let changes = changes?;
        assert!(changes.windows(2).all(|pair| pair[0].epoch.0 + 1 == pair[1].epoch.0));
        Some((changes.first()?.epoch.0, changes.last()?.epoch.0))
    }

    #[test]
    fn a_history_is_bounded_and_has_no_gap() {
        let mut history = History::default();
        assert_eq!(history.since(Epoch(0)), None);
        (5..=9).for_each(|epoch| history.push(change(epoch, 10)));
        assert_eq!(epochs(history.since(Epoch(4))), Some((5, 9)));
        assert_eq!(epochs(history.since(Epoch(8))), Some((9, 9)));
        for too_far in [0, 3, 9, 10] {
            assert_eq!(history.since(Epoch(too_far)), None, "{too_far}");
        }
        history.push(change(11, 10));
        assert_eq!((history.since(Epoch(8)), epochs(history.since(Epoch(10)))), (None, Some((11, 11))));
        let count = 3 * MAP_HISTORY_BYTES_MAX as u64 / (100 + OVERHEAD_BYTES as u64);
        (12..=count).for_each(|epoch| history.push(change(epoch, 100)));
        assert!(history.bytes <= MAP_HISTORY_BYTES_MAX && history.since(Epoch(11)).is_none());
        assert_eq!(epochs(history.since(Epoch(count - 1))), Some((count, count)));
    }

    #[test]
    fn a_message_carries_a_bounded_part() {
        let mut history = History::default();
        (1..=9).for_each(|epoch| history.push(change(epoch, MAP_CHANGES_BYTES_MAX / 3)));
        assert_eq!(epochs(history.since(Epoch(4))), Some((5, 7)));
        history.push(change(10, 2 * MAP_CHANGES_BYTES_MAX));
        assert_eq!(epochs(history.since(Epoch(9))), Some((10, 10)), "one that is larger goes alone");
    }
}
