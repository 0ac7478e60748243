//! How long rows are that are too long to be cached: of the last few, as a hint.

/// How many of a segment are remembered.
const ROWS: usize = 4;

/// What is remembered of a row.
#[derive(Clone, Copy, Default)]
struct LongRow {
    hash: u64,
    epoch: u32,
    /// Bytes of its value; 0: there is none.
    bytes: usize,
}

/// See the module's documentation. A row with the hash of another is taken for it.
#[derive(Default)]
pub(super) struct LongRows {
    rows: [LongRow; ROWS],
    /// The place of the next.
    next: usize,
    count: usize,
}

impl LongRows {
    /// A row was found, or written, that is so long.
    pub(super) fn note(&mut self, hash: u64, epoch: u32, bytes: usize) {
        self.forget(hash);
        if bytes == 0 {
            return;
        }
        let place = self.next % ROWS;
        self.count += usize::from(self.rows[place].bytes == 0);
        self.rows[place] = LongRow { hash, epoch, bytes };
        self.next = place + 1;
    }

    /// It is no longer so.
    pub(super) fn forget(&mut self, hash: u64) {
        if self.count > 0
            && let Some(row) = self.rows.iter_mut().find(|row| row.bytes > 0 && row.hash == hash)
        {
            *row = LongRow::default();
            self.count -= 1;
        }
    }

    /// How long it is, in bytes, if it is one of them.
    pub(super) fn bytes_of(&self, hash: u64, epoch: u32) -> Option<usize> {
        let is_meant = |row: &&LongRow| row.bytes > 0 && row.hash == hash && row.epoch == epoch;
        self.rows.iter().find(is_meant).map(|row| row.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_few_are_remembered() {
        let mut rows = LongRows::default();
        (1..=6).for_each(|n| rows.note(n, 0, 100 * n as usize));
        let known = |rows: &LongRows| (1..=6).filter_map(|n| rows.bytes_of(n, 0)).collect::<Vec<_>>();
        assert_eq!(known(&rows), [300, 400, 500, 600]);
        rows.note(4, 0, 401);
        rows.forget(6);
        rows.note(7, 0, 0);
        assert_eq!((known(&rows), rows.count), (vec![401, 500], 2), "one that is noted anew takes the oldest's place");
        assert_eq!(rows.bytes_of(4, 1), None, "of a shard that was cleared since");
        [4, 5, 1].iter().for_each(|n| rows.forget(*n));
        assert_eq!((known(&rows).len(), rows.count), (0, 0));
    }
}
