//! Committed entries that are not applied yet, and the rows that they wait for.
//!
//! While the disk is slow, what entries will find is prefetched before they are applied, and the event loop serves other
//! shards meanwhile. The queue works out which rows the entries lack, and asks its shell for them once.
//!
//! Invariants: an entry above `ready` is not applied; rows are asked for once at a time.

use super::effects::Effects;
use super::prefetch::items_of;
use crate::shard_handle::ShardHandle;
use replica::{Entry, Ready};
use std::collections::VecDeque;
use std::sync::Arc;
use vocab::limits::{APPLY_BACKLOG_BYTES_MAX, APPLY_INLINE_BYTES_MAX, PREFETCH_BYTES_MAX};

/// The committed entries of one shard that are not applied yet.
#[derive(Default)]
pub(super) struct ApplyQueue {
    /// What the replica has handed out, oldest first.
    turns: VecDeque<Ready>,
    /// Entries up to this index can be applied: their rows are in memory, or the disk is not slow.
    ready: u64,
    /// Entries up to this index wait for a prefetch that is under way.
    pending: Option<u64>,
}

impl ApplyQueue {
    pub(super) fn push(&mut self, turn: Ready) {
        self.turns.push_back(turn);
    }

    pub(super) fn pop(&mut self) -> Option<Ready> {
        self.turns.pop_front()
    }

    /// Puts back what could not be applied yet.
    pub(super) fn put_back(&mut self, turn: Ready) {
        self.turns.push_front(turn);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The entries that can be applied without waiting for a prefetch; none while one is under way.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        let turns = self.pending.is_none().then_some(&self.turns);
        turns.into_iter().flatten().flat_map(|turn| &turn.committed)
    }

    /// Whether the first of `committed` has to wait until what it will find is in memory.
    pub(super) fn waits_for_rows(
        &mut self,
        handle: &Arc<ShardHandle>,
        committed: &[Entry],
        effects: &mut dyn Effects,
    ) -> bool {
        let first = committed[0].index;
        if self.ready >= first || self.pending.is_some() {
            return self.ready < first;
        }
        if !effects.disk_is_slow() {
            self.ready = first;
            return false;
        }
        let mut bytes = 0;
        let fitting = committed.iter().take_while(|entry| {
            // A large one is evaluated by another thread, which may wait for the disk.
            let is_small = entry.data.len() <= APPLY_INLINE_BYTES_MAX;
            let fits = bytes < PREFETCH_BYTES_MAX && (bytes == 0 || is_small);
            bytes += entry.data.len();
            fits
        });
        let entries = &committed[..fitting.count()];
        let last = entries.last().map_or(first, |entry| entry.index);
        let items = items_of(handle, entries);
        if items.is_empty() {
            self.ready = last;
            return false;
        }
        self.pending = Some(last);
        effects.prefetch(handle, items);
        true
    }

    /// The rows that were asked for are in memory. True if entries waited for them.
    pub(super) fn prefetched(&mut self) -> bool {
        let pending = self.pending.take();
        self.ready = pending.unwrap_or(self.ready);
        pending.is_some()
    }

    /// Whether so much waits to be applied that no more should come.
    pub(super) fn is_behind(&self) -> bool {
        self.pending.is_some() && self.bytes() > APPLY_BACKLOG_BYTES_MAX
    }

    /// Bytes of the entries that are not applied yet.
    pub(super) fn bytes(&self) -> usize {
        self.turns.iter().flat_map(|turn| &turn.committed).map(|entry| entry.data.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::EntryBuilder;
    use crate::shard::fixture::{Member, Shell};
    use vocab::ShardId;

    fn entry(index: u64, command: &[&[u8]]) -> Entry {
        let mut builder = EntryBuilder::new();
        builder.command(command);
        Entry { index, data: builder.seal(1_000).into(), ..Entry::default() }
    }

    #[test]
    fn rows_are_asked_for_once_and_only_while_the_disk_is_slow() {
        let Member { handle, .. } = &Member::new(ShardId(1), 1, 1);
        let large = vec![b'x'; PREFETCH_BYTES_MAX];
        let entries = [
            entry(1, &[b"SET", b"a", b"1"]),
            entry(2, &[b"SET", b"b", b"1"]),
            entry(3, &[b"SET", b"c", &large]),
            entry(4, &[b"SET", b"d", b"1"]),
            entry(5, &[b"PING"]),
        ];
        let mut queue = ApplyQueue::default();
        // Per step: whether the disk is slow, the first entry, whether it waits, and the prefetches so far by their items.
        let steps: [(bool, usize, bool, &[usize]); 8] = [
            (false, 0, false, &[]),
            // It is asked again for each entry, since the disk may have become slow.
            (true, 1, true, &[2]),
            (true, 1, true, &[2]),
            // `prefetched` comes before this step. The bytes of one prefetch are bounded: it had entries 2 and 3.
            (true, 1, false, &[2]),
            (true, 2, false, &[2]),
            (true, 3, true, &[2, 1]),
            (true, 3, false, &[2, 1]),
            (true, 4, false, &[2, 1]),
        ];
        let mut shell = Shell::default();
        for (step, (is_slow, first, waits, asked)) in steps.into_iter().enumerate() {
            if [3, 6].contains(&step) {
                assert!(queue.prefetched() && !queue.prefetched(), "step {step}");
            }
            shell.is_slow = is_slow;
            assert_eq!(queue.waits_for_rows(handle, &entries[first..], &mut shell), waits, "step {step}");
            assert_eq!(shell.prefetches, asked, "step {step}");
        }
    }

    #[test]
    fn no_entry_is_at_hand_while_a_prefetch_is_under_way() {
        let mut queue = ApplyQueue::default();
        let turn = |first: u64| Ready {
            committed: vec![entry(first, &[b"GET", b"a"]), entry(first + 1, &[b"GET", b"b"])],
            ..Ready::default()
        };
        queue.push(turn(1));
        queue.push(turn(3));
        let indexes = |queue: &ApplyQueue| queue.entries().map(|entry| entry.index).collect::<Vec<_>>();
        assert_eq!(indexes(&queue), [1, 2, 3, 4]);
        queue.pending = Some(2);
        assert!(indexes(&queue).is_empty() && !queue.is_behind());
        let mut large = turn(5);
        large.committed[0].data = vec![0_u8; APPLY_BACKLOG_BYTES_MAX].into();
        queue.push(large);
        assert!(queue.is_behind(), "a follower takes no more");
        assert!(queue.prefetched() && !queue.is_behind());
        let first = queue.pop().unwrap();
        assert_eq!((first.committed[0].index, indexes(&queue)), (1, vec![3, 4, 5, 6]));
        queue.put_back(first);
        assert_eq!(indexes(&queue)[0], 1);
    }
}
