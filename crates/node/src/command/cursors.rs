//! The positions of SCANs, so that a cursor of 62 bits resumes at an exact key.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use vocab::limits::{SCAN_CURSORS_BYTES_MAX, SCAN_CURSORS_MAX};
use xxhash_rust::xxh3::xxh3_64;

const HASH_BITS: u32 = 48;

/// Where a SCAN goes on: in the shard that owns a slot, after a key.
///
/// As a number: 14 bits of slot, 48 bits of the key's hash, 0 standing for "before the first key". The number 0 is
/// both the beginning and the end of a scan.
///
/// A scan takes the shards in order of their first slot and the keys of each in byte order. The slot is the first of
/// its shard. When the shard splits, the scan goes on in the part that holds this slot, after the same key; the other
/// part comes later and is seen from its beginning. So a split repeats keys and loses none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// First slot of the shard being scanned.
    pub slot: u16,
    /// Hash of the last key returned, or 0.
    pub hash: u64,
}

impl Cursor {
    /// Before the first key of the shard that begins with `slot`.
    pub(super) fn before(slot: u16) -> Self {
        Self { slot, hash: 0 }
    }

    /// After `key` in the shard that begins with `slot`.
    pub(super) fn after(slot: u16, key: &[u8]) -> Self {
        Self { slot, hash: key_hash(key) }
    }

    /// The cursor of that number.
    pub(super) fn of_number(number: u64) -> Option<Self> {
        let slot = u16::try_from(number >> HASH_BITS).ok().filter(|slot| *slot < vocab::SLOT_COUNT)?;
        Some(Self { slot, hash: number & ((1 << HASH_BITS) - 1) })
    }

    /// Whether it can be one that a walk has answered.
    pub(super) fn is_valid(self) -> bool {
        self.hash < 1 << HASH_BITS
    }

    /// Its number, below 2^62.
    pub(super) fn number(self) -> i64 {
        i64::from(self.slot) << HASH_BITS | self.hash as i64
    }
}

/// The hash that stands for a key in a cursor; never 0.
pub(super) fn key_hash(key: &[u8]) -> u64 {
    (xxh3_64(key) >> (u64::BITS - HASH_BITS)).max(1)
}

/// Where the scans under way on a node stand: the key that each recent cursor stands for. The lock is held for single
/// look-ups only.
///
/// A cursor that is not here (given by another node, before a restart, or long ago) is found by looking for a key
/// of its hash. Bounded by `SCAN_CURSORS_MAX` and `SCAN_CURSORS_BYTES_MAX`: what was used longest ago goes first.
#[derive(Debug, Default)]
pub struct ScanCursors(Mutex<Remembered>);

impl ScanCursors {
    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock()
    }

    /// Notes that `cursor` stands for `key`. Of two keys with one cursor the smaller stays: going on after it
    /// repeats keys rather than losing some.
    pub(super) fn remember(&self, cursor: Cursor, key: &[u8]) {
        self.lock().remember(cursor, key);
    }

    /// The key that `cursor` stands for, if it is still known.
    pub(super) fn recall(&self, cursor: Cursor) -> Option<Vec<u8>> {
        self.lock().recall(cursor).map(<[u8]>::to_vec)
    }
}

/// The keys of recent cursors.
#[derive(Debug, Default)]
struct Remembered {
    keys: HashMap<i64, (Box<[u8]>, u64)>,
    by_age: BTreeMap<u64, i64>,
    bytes: usize,
    clock: u64,
}

impl Remembered {
    fn remember(&mut self, cursor: Cursor, key: &[u8]) {
        let number = cursor.number();
        let smaller = self.forget(number).filter(|known| known[..] < *key);
        let key = smaller.unwrap_or_else(|| key.into());
        self.bytes += key.len();
        self.clock += 1;
        self.by_age.insert(self.clock, number);
        self.keys.insert(number, (key, self.clock));
        while self.keys.len() > SCAN_CURSORS_MAX || self.bytes > SCAN_CURSORS_BYTES_MAX {
            let Some((_, oldest)) = self.by_age.first_key_value() else { break };
            self.forget(*oldest);
        }
    }

    fn recall(&mut self, cursor: Cursor) -> Option<&[u8]> {
        let (key, used) = self.keys.get_mut(&cursor.number())?;
        self.clock += 1;
        self.by_age.remove(used);
        self.by_age.insert(self.clock, cursor.number());
        *used = self.clock;
        Some(key)
    }

    fn forget(&mut self, number: i64) -> Option<Box<[u8]>> {
        let (key, used) = self.keys.remove(&number)?;
        self.by_age.remove(&used);
        self.bytes -= key.len();
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_cursors_are_one_to_one() {
        for cursor in [Cursor::before(1), Cursor::after(0, b""), Cursor::after(16383, b"key")] {
            assert!(cursor.number() > 0);
            assert_eq!(Cursor::of_number(cursor.number().unsigned_abs()), Some(cursor));
        }
        assert_eq!(Cursor::of_number(1 << 62), None);
        assert_eq!(Cursor::of_number(u64::MAX), None);
    }

    #[test]
    fn what_was_used_longest_ago_is_forgotten() {
        let mut cursors = Remembered::default();
        let place = |i: usize| Cursor { slot: 0, hash: i as u64 + 1 };
        for i in 0..SCAN_CURSORS_MAX {
            cursors.remember(place(i), b"key");
        }
        assert_eq!(cursors.recall(place(0)), Some(&b"key"[..]));
        cursors.remember(place(SCAN_CURSORS_MAX), b"new");
        assert_eq!(cursors.recall(place(1)), None);
        assert_eq!(cursors.recall(place(0)), Some(&b"key"[..]));
        cursors.remember(place(0), b"later");
        assert_eq!(cursors.recall(place(0)), Some(&b"key"[..]), "the smaller key stays");
        let long = vec![b'x'; SCAN_CURSORS_BYTES_MAX / 2];
        (0..4).for_each(|i| cursors.remember(place(i), &long));
        assert!(cursors.bytes <= SCAN_CURSORS_BYTES_MAX && cursors.keys.len() == cursors.by_age.len());
    }
}
