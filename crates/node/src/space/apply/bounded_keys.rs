//! The databases of which an entry bounds the keys, and how many they have by now.
//!
//! An item is judged when it is over: one that leaves a database with more keys than it may have, and with more than it has found, is refused. So
//! it is whatever the item is: a command, a transaction, a script.

use crate::counters::Counted;
use crate::format::key_bound::KeyBound;
use crate::shard_handle::ShardHandle;
use std::collections::BTreeMap;

/// A database, and how many keys it has where the item under way began.
struct BoundedDatabase {
    bound: KeyBound,
    keys: u64,
}

/// See the module's documentation.
pub(super) struct BoundedKeys {
    /// By slot.
    databases: Vec<BoundedDatabase>,
    /// So many of the entry's counts are in `BoundedDatabase::keys`.
    noted: usize,
}

impl BoundedKeys {
    /// These databases have bounds.
    pub(super) fn of(bounds: &[KeyBound], handle: &ShardHandle) -> Self {
        let with_keys =
            |bound: &KeyBound| BoundedDatabase { bound: *bound, keys: handle.database_keys_in_slot(bound.slot) };
        let mut databases: Vec<BoundedDatabase> = bounds.iter().map(with_keys).collect();
        databases.sort_by_key(|database| database.bound.slot);
        Self { databases, noted: 0 }
    }

    /// How many keys each database has won since the item began, by its place; those of which no key came or went are left out.
    fn won(&self, counts: &[(Counted, i64)]) -> BTreeMap<usize, i64> {
        let mut won = BTreeMap::new();
        for (counted, by) in &counts[self.noted..] {
            if counted.is_of_database()
                && let Ok(at) = self.databases.binary_search_by_key(&counted.slot, |database| database.bound.slot)
            {
                *won.entry(at).or_default() += by;
            }
        }
        won
    }

    /// The next item begins; these keys came and went so far.
    pub(super) fn begin_item(&mut self, counts: &[(Counted, i64)]) {
        for (at, won) in self.won(counts) {
            let keys = &mut self.databases[at].keys;
            *keys = keys.saturating_add_signed(won);
        }
        self.noted = counts.len();
    }

    /// Whether the item under way has passed a bound.
    pub(super) fn are_passed(&self, counts: &[(Counted, i64)]) -> bool {
        self.won(counts).into_iter().any(|(at, won)| {
            let BoundedDatabase { bound, keys } = &self.databases[at];
            won > 0 && keys.saturating_add_signed(won) > bound.keys_max
        })
    }
}
