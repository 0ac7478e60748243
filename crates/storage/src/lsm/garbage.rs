//! When values that are kept out of the levels are collected without being asked for.
//!
//! lsm-tree knows that a value is stale once a merge has dropped the row that refers to it. It moves what is left of a file when
//! one merge has all tables that refer to the file. Ordinary compaction takes few tables at a time, and goes by the bytes of levels,
//! in which a value of any size is a handle. So the tree is rewritten as if its room were asked for, once much of its values is garbage.
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

    /// Whether removals hid much less than was taken, where so many bytes of values are there after they were merged, and so many stale.
    pub(super) fn hid_little(&self, value_bytes: u64, stale_bytes: u64) -> bool {
        let found = (self.value_bytes.saturating_sub(value_bytes) + stale_bytes).saturating_sub(self.stale_bytes);
        found < self.removed_bytes / HIDDEN_PART
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
            };
            assert_eq!(garbage.is_much(left_mib * MIB), is_much, "{garbage:?} {left_mib}");
        }
    }

    #[test]
    fn removals_hid_little_where_values_are_as_they_were() {
        let before = Garbage { value_bytes: 1_000, stale_bytes: 100, removed_bytes: 400 };
        for (value_bytes, stale_bytes, hid_little) in [
            (1_000, 100, true),
            (1_000, 199, true),
            (1_000, 200, false),
            // What was stale before is gone, and no more.
            (900, 0, true),
            (600, 0, false),
            // Others were written meanwhile.
            (2_000, 100, true),
            (2_000, 500, false),
        ] {
            assert_eq!(before.hid_little(value_bytes, stale_bytes), hid_little, "{value_bytes} {stale_bytes}");
        }
    }

    #[test]
    fn what_is_moved_is_bounded_by_the_garbage_and_by_what_is_no_garbage() {
        let moved =
            |value_bytes, stale_bytes, removed_bytes| Garbage { value_bytes, stale_bytes, removed_bytes }.moved_bytes();
        assert_eq!((moved(1_000, 0, 0), moved(1_000, 1_000, 0), moved(1_000, 900, 500)), (0, 0, 0));
        assert_eq!((moved(1_000, 500, 0), moved(1_000, 100, 500)), (500, 400));
        let garbage = Garbage { value_bytes: 1_000, stale_bytes: 200, removed_bytes: 400 };
        assert_eq!((garbage.moved_bytes(), garbage.claimed_bytes()), (400, 466));
        // One file of which a third is stale, among many.
        assert!((230..=234).contains(&moved(1_000_000, 100, 0)));
    }
}
