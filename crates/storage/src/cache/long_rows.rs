//! Rows that are too long for a segment: how long the last few are, as a hint, and the values of some.
//!
//! A bitmap of a hundred million bits is one row, and each of its bits is asked for by itself: it must not come from the disk each time. A
//! value is kept when it is read or written a second time while its length is remembered; all segments together keep as many bytes
//! of them as `RowCache` allows.

use crate::Slice;

/// How many of a segment are remembered.
const ROWS: usize = 4;

/// What is remembered of a row.
#[derive(Default)]
struct LongRow {
    hash: u64,
    epoch: u32,
    shard: u32,
    /// Bytes of its value; 0: there is none.
    bytes: usize,
    /// Its key and its value, if it is kept.
    kept: Option<(Slice, Slice)>,
}

impl LongRow {
    fn kept_bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, |(key, value)| key.len() + value.len())
    }
}

/// See the module's documentation. For the hint, a row with the hash of another is taken for it.
#[derive(Default)]
pub(super) struct LongRows {
    rows: [LongRow; ROWS],
    /// The place of the next.
    next: usize,
    count: usize,
}

/// Which row is meant.
#[derive(Clone, Copy)]
pub(super) struct LongKey<'a> {
    pub(super) hash: u64,
    pub(super) epoch: u32,
    pub(super) shard: u32,
    pub(super) key: &'a [u8],
}

impl LongRows {
    /// A row was found, or written, that is so long: its value is not kept. Returns how many bytes are kept no longer.
    pub(super) fn note(&mut self, of: LongKey<'_>, bytes: usize) -> usize {
        self.set(of, bytes, None)
    }

    /// The same of a row whose value is kept.
    pub(super) fn keep(&mut self, of: LongKey<'_>, value: Slice) -> usize {
        self.set(of, value.len(), Some((Slice::from(of.key), value)))
    }

    fn set(&mut self, of: LongKey<'_>, bytes: usize, kept: Option<(Slice, Slice)>) -> usize {
        let forgotten = self.forget(of.hash);
        if bytes == 0 {
            return forgotten;
        }
        let place = self.next % ROWS;
        self.next = place + 1;
        let row = LongRow { hash: of.hash, epoch: of.epoch, shard: of.shard, bytes, kept };
        let before = std::mem::replace(&mut self.rows[place], row);
        self.count += usize::from(before.bytes == 0);
        forgotten + before.kept_bytes()
    }

    /// It is no longer so. Returns how many bytes are kept no longer.
    pub(super) fn forget(&mut self, hash: u64) -> usize {
        let is_meant = |row: &&mut LongRow| row.bytes > 0 && row.hash == hash;
        match self.rows.iter_mut().find(is_meant).filter(|_| self.count > 0) {
            Some(row) => {
                self.count -= 1;
                std::mem::take(row).kept_bytes()
            }
            None => 0,
        }
    }

    /// How long it is, in bytes, if it is one of them.
    pub(super) fn bytes_of(&self, hash: u64, epoch: u32) -> Option<usize> {
        let is_meant = |row: &&LongRow| row.bytes > 0 && row.hash == hash && row.epoch == epoch;
        self.rows.iter().find(is_meant).map(|row| row.bytes)
    }

    /// Its value, if it is kept.
    pub(super) fn value_of(&self, of: LongKey<'_>) -> Option<&Slice> {
        if self.count == 0 {
            return None;
        }
        let is_meant = |row: &LongRow| row.hash == of.hash && row.epoch == of.epoch && row.shard == of.shard;
        let kept = self.rows.iter().filter(|row| is_meant(row)).find_map(|row| row.kept.as_ref());
        kept.filter(|(key, _)| **key == *of.key).map(|(_, value)| value)
    }

    /// Gives up the values that are kept. Returns how many bytes they had.
    pub(super) fn release(&mut self) -> usize {
        let kept = self.rows.iter_mut().map(|row| {
            let bytes = row.kept_bytes();
            row.kept = None;
            bytes
        });
        kept.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(hash: u64) -> LongKey<'static> {
        LongKey { hash, epoch: 0, shard: 7, key: b"k" }
    }

    #[test]
    fn the_last_few_are_remembered() {
        let mut rows = LongRows::default();
        (1..=6).for_each(|n| assert_eq!(rows.note(of(n), 100 * n as usize), 0));
        let known = |rows: &LongRows| (1..=6).filter_map(|n| rows.bytes_of(n, 0)).collect::<Vec<_>>();
        assert_eq!(known(&rows), [300, 400, 500, 600]);
        rows.note(of(4), 401);
        rows.forget(6);
        rows.note(of(7), 0);
        assert_eq!((known(&rows), rows.count), (vec![401, 500], 2), "one that is noted anew takes the oldest's place");
        assert_eq!(rows.bytes_of(4, 1), None, "of a shard that was cleared since");
        [4, 5, 1].iter().for_each(|n| assert_eq!(rows.forget(*n), 0));
        assert_eq!((known(&rows).len(), rows.count), (0, 0));
    }

    #[test]
    fn a_value_is_found_by_its_whole_key_until_it_is_given_up() {
        let mut rows = LongRows::default();
        let value = |n: u8| Slice::from(&[n; 50][..]);
        assert_eq!((rows.keep(of(1), value(1)), rows.keep(of(1), value(2))), (0, 51));
        let found = |rows: &LongRows, of| rows.value_of(of).map(|value| value[0]);
        assert_eq!(found(&rows, of(1)), Some(2));
        for other in
            [of(2), LongKey { epoch: 1, ..of(1) }, LongKey { shard: 8, ..of(1) }, LongKey { key: b"l", ..of(1) }]
        {
            assert_eq!(found(&rows, other), None);
        }
        assert_eq!((rows.note(of(1), 60), found(&rows, of(1)), rows.bytes_of(1, 0)), (51, None, Some(60)));
        (1..=4).for_each(|n| assert_eq!(rows.keep(of(n), value(3)), 0));
        assert_eq!((rows.keep(of(5), value(3)), rows.forget(2), rows.release()), (51, 51, 3 * 51));
        assert_eq!((found(&rows, of(5)), rows.bytes_of(5, 0), rows.release()), (None, Some(50), 0));
    }
}
