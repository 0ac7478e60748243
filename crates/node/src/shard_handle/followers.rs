//! What a leader's followers hold of its log, as WAIT counts them.
//!
//! An entry that is applied stays at its index, so the index says enough. One that a client was told of before it was committed
//! may be replaced while another replica leads: it counts as long as this replica leads in the entry's term, and for good
//! once it is known to have been applied here.

use crate::entry_id::EntryId;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Terms that are over and whose last entry is remembered.
const ENDED_MAX: usize = 16;

/// What followers hold. The thread that owns the shard tells it, and any thread asks.
#[derive(Debug, Default)]
pub struct Followers {
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// The term in which this replica leads; 0: it does not.
    term: u64,
    /// Up to which entry each voting follower that is heard of holds the log; none if this replica does not lead.
    matched: Vec<u64>,
    /// The newest entry of this term that a client was told of before it was committed.
    early: Option<EntryId>,
    /// The term of the entry that was applied last, and its index. Term 0: there was none.
    applied_term: u64,
    applied_index: u64,
    /// Of terms that are over: the term, and the last of its entries that was applied here. The terms rise.
    ended: VecDeque<(u64, u64)>,
}

impl Told {
    fn with(&self, index: u64) -> u64 {
        self.matched.iter().filter(|matched| **matched >= index).count() as u64
    }

    /// Of a term, all entries up to one that was applied are those of its leader.
    fn has_applied(&self, entry: EntryId) -> bool {
        if self.applied_term == entry.term {
            return self.applied_index >= entry.index;
        }
        self.ended.iter().any(|(term, last)| *term == entry.term && *last >= entry.index)
    }

    fn keeps(&self, entry: EntryId) -> bool {
        self.term == entry.term || self.has_applied(entry)
    }
}

impl Followers {
    /// What each voting follower that is heard of holds, of a leader of that term; 0 and nothing if this replica does not lead.
    pub(crate) fn tell(&self, term: u64, matched: Vec<u64>) {
        let mut told = self.told.lock();
        if told.term != term {
            told.term = term;
            told.early = None;
        }
        told.matched = matched;
    }

    /// A client is about to be told that a write is made which is in this entry, and the entry is not committed.
    pub(crate) fn note_early(&self, entry: EntryId) {
        self.told.lock().early = Some(entry);
    }

    /// The next entry is being applied, or a snapshot as of it has been installed. To be called for each, in their order.
    pub(crate) fn comes_to(&self, index: u64, term: u64) {
        let mut told = self.told.lock();
        let (before, last) = (told.applied_term, told.applied_index);
        if before != term && before > 0 {
            told.ended.push_back((before, last));
            if told.ended.len() > ENDED_MAX {
                told.ended.pop_front();
            }
        }
        (told.applied_term, told.applied_index) = (term, index);
    }

    /// How many voting followers that are heard of hold entry `index`, which is applied here; none if this replica does not lead.
    #[must_use]
    pub fn with(&self, index: u64) -> u64 {
        self.told.lock().with(index)
    }

    /// How many of them hold that entry; none if it is not known whether another one has its place.
    #[must_use]
    pub fn holding(&self, entry: EntryId) -> u64 {
        let told = self.told.lock();
        if told.keeps(entry) { told.with(entry.index) } else { 0 }
    }

    /// The entry that was applied last, if this replica leads in its term: all that leaders before have committed is before it.
    #[must_use]
    pub fn applied_in_own_term(&self) -> Option<u64> {
        let told = self.told.lock();
        (told.term > 0 && told.term == told.applied_term).then_some(told.applied_index)
    }

    /// Whether that entry is in the log of this replica: it leads in the entry's term, or has applied it.
    #[must_use]
    pub fn keeps(&self, entry: EntryId) -> bool {
        self.told.lock().keeps(entry)
    }

    /// Whether that entry is known to have been applied here: then no other one takes its place.
    #[must_use]
    pub fn has_applied(&self, entry: EntryId) -> bool {
        self.told.lock().has_applied(entry)
    }

    /// The newest entry of this leader that a client was told of before it was committed.
    #[must_use]
    pub fn early(&self) -> Option<EntryId> {
        self.told.lock().early
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::ShardId;

    fn entry(index: u64, term: u64) -> EntryId {
        EntryId { shard: ShardId(1), index, term }
    }

    /// Entries up to an index are applied, all of one term.
    fn apply(followers: &Followers, entries: std::ops::RangeInclusive<u64>, term: u64) {
        entries.for_each(|index| followers.comes_to(index, term));
    }

    #[test]
    fn those_that_hold_an_entry_are_counted_while_this_replica_leads() {
        let followers = Followers::default();
        assert_eq!((followers.with(0), followers.holding(entry(1, 1))), (0, 0), "it does not lead");
        followers.tell(2, vec![100, 99, 0]);
        assert_eq!([0, 99, 100, 101].map(|index| followers.with(index)), [3, 2, 1, 0]);
        assert_eq!([99, 100, 101].map(|index| followers.holding(entry(index, 2))), [2, 1, 0]);
        followers.tell(0, Vec::new());
        assert_eq!((followers.with(0), followers.holding(entry(99, 2))), (0, 0));
    }

    /// A client was told of entries 101 and 102 of term 5 at once; then another replica has led in term 6, and this one leads in term 7.
    #[test]
    fn an_entry_that_was_told_early_counts_only_if_it_was_not_replaced() {
        // Up to which entry term 5 was applied, and how many hold entries 101 and 102 once term 7 has followers up to 200.
        for (last, expected) in [(100, [0, 0]), (101, [2, 0]), (102, [2, 2])] {
            let followers = Followers::default();
            followers.tell(5, vec![100, 100]);
            apply(&followers, 90..=100, 5);
            followers.note_early(entry(102, 5));
            assert_eq!(followers.early(), Some(entry(102, 5)));
            assert_eq!(followers.holding(entry(101, 5)), 0, "no follower has it");
            followers.tell(5, vec![101, 100]);
            assert_eq!(followers.holding(entry(101, 5)), 1);
            apply(&followers, 101..=last, 5);
            followers.tell(0, Vec::new());
            assert_eq!(followers.early(), None, "it leads no more");
            followers.tell(7, vec![200, 200]);
            // Nothing of a later term has come: of what was not applied nothing is known yet.
            assert_eq!([101, 102].map(|index| followers.holding(entry(index, 5))), expected, "up to {last}");
            apply(&followers, last + 1..=last + 1, 6);
            apply(&followers, last + 2..=200, 7);
            assert_eq!([101, 102].map(|index| followers.holding(entry(index, 5))), expected, "up to {last}");
            assert_eq!([101, 102].map(|index| followers.has_applied(entry(index, 5))), expected.map(|held| held > 0));
            assert_eq!(followers.with(150), 2, "of what is applied the index says enough");
        }
    }

    /// What a new leader had applied before may lack entries that the one before has committed.
    #[test]
    fn what_a_leader_has_applied_is_all_once_an_entry_of_its_term_is() {
        let followers = Followers::default();
        apply(&followers, 90..=100, 5);
        assert_eq!(followers.applied_in_own_term(), None, "it does not lead");
        followers.tell(6, vec![100, 100]);
        assert_eq!(followers.applied_in_own_term(), None);
        apply(&followers, 101..=102, 5);
        assert_eq!(followers.applied_in_own_term(), None);
        apply(&followers, 103..=103, 6);
        assert_eq!(followers.applied_in_own_term(), Some(103));
        followers.tell(0, Vec::new());
        assert_eq!(followers.applied_in_own_term(), None, "it leads no more");
    }

    #[test]
    fn so_many_terms_are_remembered() {
        let followers = Followers::default();
        let terms = ENDED_MAX as u64 + 2;
        (1..=terms).for_each(|term| followers.comes_to(term, term));
        assert!(!followers.has_applied(entry(1, 1)), "the oldest is forgotten");
        assert!((2..=terms).all(|term| followers.has_applied(entry(term, term))));
        assert!(!followers.has_applied(entry(terms + 1, terms)), "it is still to come");
    }

    #[test]
    fn of_what_a_snapshot_brings_the_entries_of_its_own_term_are_known() {
        let followers = Followers::default();
        apply(&followers, 90..=100, 5);
        assert!(followers.has_applied(entry(100, 5)) && !followers.has_applied(entry(101, 5)));
        followers.comes_to(150, 6);
        assert!(!followers.has_applied(entry(101, 5)), "term 5 may have ended before it");
        assert!(followers.has_applied(entry(120, 6)) && !followers.has_applied(entry(151, 6)));
    }
}
