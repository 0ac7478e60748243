//! How often a shard is asked, and where it would be divided: what its leader tells the director.

use super::ShardView;
use crate::director::DivisionReport;
use std::sync::atomic::Ordering;
use vocab::{ShardId, Slot};

impl ShardView {
    /// So many operations were asked of a slot: counted, or guessed from a part of them.
    pub fn note_operations(&self, slot: Slot, count: u64) {
        self.counters.note_operations(slot, count);
    }

    /// Of a leader: where the shard would be divided. To be asked in about equal intervals: what was asked long ago fades.
    #[must_use]
    pub fn division(&self) -> Option<DivisionReport> {
        if self.id == ShardId::META || !self.leading.load(Ordering::Relaxed) {
            return None;
        }
        let slots = self.slots.load();
        Some(DivisionReport {
            operations: self.counters.operations(),
            by_keys: self.counters.halves_by_keys(&slots).map(|(slot, _)| slot),
            by_load: self.counters.halves_by_load(&slots),
        })
    }
}
