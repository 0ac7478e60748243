//! When values that are kept out of the levels are collected without being asked for.
//!
//! lsm-tree knows that a value is stale once a merge has dropped the row that refers to it. It moves what is left of a file when
//! one merge has all tables that refer to the file. Ordinary compaction takes few tables at a time, and goes by the bytes of levels,
//! in which a value of any size is a handle. So the tree is rewritten as if its room were asked for, once much of its values is garbage.
//!
//! What removals hide is taken to be rows of the mean size, until a rewrite shows that they hid much less.
//!
//! Bound: garbage that is known ≤ max(`BYTES_MIN`, `GARBAGE_PART` × values + values / `NEW_PART`), but for what comes
//! during one rewrite, and while the device has no room for it. Each rewrite moves at most (1 − `FILE_STALE`) / `FILE_STALE` bytes
//! for one that it frees.

/// A value file is rewritten, by a merge of all tables that refer to it, when so much of it is stale.
pub(super) const FILE_STALE: f32 = 0.3;
/// Values are collected when so much of all value files of a tree is garbage. More than of one file, since heads of records do not
/// count as stale: some file is beyond its own bound then.
pub(super) const GARBAGE_PART: f64 = 0.35;
const _: () = assert!(GARBAGE_PART > FILE_STALE as f64);
/// Less garbage is not worth a rewrite.
const BYTES_MIN: u64 = 4 << 20;
/// Removals hid little if it was less than this part of what was taken.
const HIDDEN_PART: u64 = 4;
/// So many removals are always taken to hide rows of the mean size: what a flush and a rewrite cost is little beside them.
const REMOVALS_MANY: u64 = 4096;
/// What a rewrite has left is looked at again once so much of the values has become garbage besides.
const NEW_PART: u64 = 16;

/// The values of a tree that are kept out of its levels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Garbage {
    /// Bytes of all of them.
    pub(super) value_bytes: u64,
    /// Bytes of those that nothing refers to.
    pub(super) stale_bytes: u64,
    /// About how many bytes of the others removals hide.
    pub(super) removed_bytes: u64,
    /// How many removals are taken to hide them.
    pub(super) removals: u64,
}

impl Garbage {
    fn bytes(&self) -> u64 {
        (self.stale_bytes + self.removed_bytes).min(self.value_bytes)
    }

    /// Whether it is so much that the tree is to be rewritten, after a rewrite that has left `left_bytes` stale.
    pub(super) fn is_much(&self, left_bytes: u64) -> bool {
        let bytes = self.bytes();
        let is_new = bytes.saturating_sub(left_bytes) >= self.value_bytes / NEW_PART;
        bytes >= BYTES_MIN && bytes as f64 > self.value_bytes as f64 * GARBAGE_PART && is_new
    }

    /// Without what removals hide, if they are fewer than `removals_min`.
    pub(super) fn unless_few(self, removals_min: u64) -> Self {
        if self.removals < removals_min { Self { removed_bytes: 0, removals: 0, ..self } } else { self }
    }

    /// How many removals are to be taken for garbage from now on, after `removals_min`: these are merged, and so many bytes of values
    /// are there now, and so many stale. Where they hid much less than was taken, it is twice as many, so that small rows beside large
    /// values have the tree rewritten ever more seldom.
    pub(super) fn removals_min_after(&self, removals_min: u64, value_bytes: u64, stale_bytes: u64) -> u64 {
        // So few tell nothing about many.
        if self.removals < removals_min || self.removed_bytes == 0 {
            return removals_min;
        }
        let found = (self.value_bytes.saturating_sub(value_bytes) + stale_bytes).saturating_sub(self.stale_bytes);
        let hid_little = found < self.removed_bytes / HIDDEN_PART;
        if hid_little { (2 * self.removals).min(REMOVALS_MANY) } else { 0 }
    }

    /// The most that is moved when it is collected: what is left of files of which `FILE_STALE` and more is garbage.
    pub(super) fn moved_bytes(&self) -> u64 {
        let (garbage, per_byte) = (self.bytes(), f64::from((1.0 - FILE_STALE) / FILE_STALE));
        (self.value_bytes - garbage).min((garbage as f64 * per_byte) as u64)
    }

    /// The most that merges claim room for meanwhile: the first knows only what is stale already.
    pub(super) fn claimed_bytes(&self) -> u64 {
        self.moved_bytes().max(Self { removed_bytes: 0, ..*self }.moved_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_collected_when_much_of_them_is_garbage_that_no_rewrite_has_left() {
        const MIB: u64 = 1 << 20;
        for (value_mib, stale_mib, removed_mib, left_mib, is_much) in [
            (0, 0, 0, 0, false),
            (100, 0, 0, 0, false),
            (100, 35, 0, 0, false),
            (100, 36, 0, 0, true),
            (100, 20, 16, 0, true),
            (100, 0, 36, 0, true),
            // Too little, whatever part of all it is.
            (3, 3, 0, 0, false),
            // What a rewrite has left is not tried again before there is more.
            (100, 36, 0, 36, false),
            (100, 41, 0, 36, false),
            (100, 43, 0, 36, true),
            (100, 36, 7, 36, true),
            (100, 40, 0, 90, false),
        ] {
            let garbage = Garbage {
                value_bytes: value_mib * MIB,
                stale_bytes: stale_mib * MIB,
                removed_bytes: removed_mib * MIB,
                removals: 1,
            };
            assert_eq!(garbage.is_much(left_mib * MIB), is_much, "{garbage:?} {left_mib}");
        }
    }

    #[test]
    fn removals_count_from_twice_as_many_on_as_hid_little() {
        let before = |removals| Garbage { value_bytes: 1_000, stale_bytes: 100, removed_bytes: 400, removals };
        for (removals, removals_min, value_bytes, stale_bytes, expected) in [
            (30, 0, 1_000, 100, 60),
            (30, 0, 1_000, 199, 60),
            (30, 0, 1_000, 200, 0),
            // What was stale before is gone, and no more.
            (30, 0, 900, 0, 60),
            (30, 0, 600, 0, 0),
            // Others were written meanwhile.
            (30, 0, 2_000, 100, 60),
            (30, 0, 2_000, 500, 0),
            (60, 60, 1_000, 100, 120),
            (60, 60, 600, 0, 0),
            (59, 60, 1_000, 100, 60),
            (59, 60, 600, 0, 60),
            (3_000, 0, 1_000, 100, REMOVALS_MANY),
            (9_000, REMOVALS_MANY, 1_000, 100, REMOVALS_MANY),
        ] {
            let found = before(removals).removals_min_after(removals_min, value_bytes, stale_bytes);
            assert_eq!(found, expected, "{removals} {removals_min} {value_bytes} {stale_bytes}");
        }
        assert_eq!(Garbage { removed_bytes: 0, ..before(30) }.removals_min_after(7, 1_000, 100), 7);
        let counted = |removals_min| before(30).unless_few(removals_min).removed_bytes;
        assert_eq!((counted(0), counted(30), counted(31)), (400, 400, 0));
    }

    #[test]
    fn what_is_moved_is_bounded_by_the_garbage_and_by_what_is_no_garbage() {
        let garbage =
            |value_bytes, stale_bytes, removed_bytes| Garbage { value_bytes, stale_bytes, removed_bytes, removals: 1 };
        let moved =
            |value_bytes, stale_bytes, removed_bytes| garbage(value_bytes, stale_bytes, removed_bytes).moved_bytes();
        assert_eq!((moved(1_000, 0, 0), moved(1_000, 1_000, 0), moved(1_000, 900, 500)), (0, 0, 0));
        assert_eq!((moved(1_000, 500, 0), moved(1_000, 100, 500)), (500, 400));
        let mixed = garbage(1_000, 200, 400);
        assert_eq!((mixed.moved_bytes(), mixed.claimed_bytes()), (400, 466));
        // One file of which a third is stale, among many.
        assert!((230..=234).contains(&moved(1_000_000, 100, 0)));
    }
}
