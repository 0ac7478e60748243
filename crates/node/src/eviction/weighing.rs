//! About how many bytes the keys of a database take.
//!
//! Keys are counted exactly, and looked at a few at a time, from the first to the last and again.
//!
//! ```text
//! bytes = keys × mean(those looked at in this sweep, and in the last whole one)
//! ```
//! Of a database of few keys each look is a whole sweep: then the figure is that of all its keys.

use crate::command::about_bytes;
use crate::{Fault, Record, RecordRange, ShardHandle, ShardSpace, SnapshotSpace};
use vocab::Database;

/// The most keys that one step looks at.
const KEYS_MAX: usize = 512;
/// A step ends after this many bytes of records.
const BYTES_SOFT: usize = 4 << 20;
/// The number of elements of a large collection that are taken as a sample.
const SAMPLES: usize = 5;

/// The number of keys that were looked at, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    keys: u64,
    bytes: u64,
}

/// Weighs one database.
#[derive(Debug, Default)]
pub struct Weighing {
    /// The key from which the next step begins; empty: the first one.
    from: Vec<u8>,
    /// The figures of the present sweep.
    swept: Sum,
    /// The figures of the last whole sweep.
    last: Sum,
    /// What the shard had applied at the last look.
    applied: u64,
}

impl Weighing {
    /// Looks at some keys of the database that is at `place`; answers about how many bytes all of them take.
    pub fn look(&mut self, space: &mut SnapshotSpace<'_>, handle: &ShardHandle, place: Database) -> Result<u64, Fault> {
        let keys = handle.database_keys_in_slot(place.slot());
        let applied = handle.engine().applied_index();
        // Of a shard that has written nothing since, all is known once it was swept.
        if applied != self.applied || !self.from.is_empty() {
            self.sweep(space, place)?;
            self.applied = applied;
        }
        Ok(self.estimate(keys))
    }

    fn sweep(&mut self, space: &mut SnapshotSpace<'_>, place: Database) -> Result<(), Fault> {
        let prefix = place.prefix();
        let start = if self.from.is_empty() { &prefix[..] } else { &self.from };
        let page = page(space, start, &place.end())?;
        for (key, record) in page.records {
            let plain = (key.len() + record.bytes().len()) as u64;
            // A damaged record is reported to clients that ask for it, not here.
            self.swept.bytes += about_bytes(space, &key, record, SAMPLES).unwrap_or(plain);
            self.swept.keys += 1;
        }
        self.from = page.next;
        if page.is_last {
            self.from.clear();
            self.last = std::mem::take(&mut self.swept);
        }
        Ok(())
    }

    fn estimate(&self, keys: u64) -> u64 {
        let (known_keys, known_bytes) = (self.swept.keys + self.last.keys, self.swept.bytes + self.last.bytes);
        match known_keys {
            0 => 0,
            known if known == keys => known_bytes,
            known => (u128::from(known_bytes) * u128::from(keys) / u128::from(known)) as u64,
        }
    }
}

/// Records that lie next to each other.
struct Page {
    records: Vec<(Vec<u8>, Record)>,
    /// Where the next page begins.
    next: Vec<u8>,
    is_last: bool,
}

fn page(space: &mut SnapshotSpace<'_>, start: &[u8], end: &[u8]) -> Result<Page, Fault> {
    let mut records = space.records(&RecordRange::heads(start, end, KEYS_MAX))?;
    let mut page = Page { records: Vec::new(), next: start.to_vec(), is_last: false };
    let (mut looked, mut bytes) = (0, 0);
    while looked < KEYS_MAX && bytes < BYTES_SOFT {
        let Some(key) = records.advance()? else {
            page.is_last = true;
            break;
        };
        looked += 1;
        page.next = [&key, &[0][..]].concat();
        if let Some(record) = records.record()? {
            bytes += record.bytes().len();
            page.records.push((key.to_vec(), record));
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_shard::empty_shard;
    use crate::{EntrySpace, Evaluation, Kind, WriteSpace};
    use vocab::ShardId;

    const NOW_MS: u64 = 1_700_000_000_000;

    #[test]
    fn a_database_is_weighed_by_its_own_keys_whatever_lies_beside_them() {
        let (handle, _folder) = empty_shard(ShardId(1));
        let place = Database::of_number(3).unwrap();
        let mut index = 0;
        let mut put = |prefix: &[u8], keys: std::ops::Range<u32>, bytes: usize| {
            index += 1;
            let mut space = EntrySpace::new(&handle, index, NOW_MS, Evaluation::Second);
            for n in keys {
                let key = [prefix, format!("k{n:06}").as_bytes()].concat();
                space.put(&key, Record::new(Kind::STRING, None, &[&vec![b'v'; bytes]])).unwrap();
            }
            space.commit();
        };
        let mut weighing = Weighing::default();
        let mut look = || {
            let mut space = SnapshotSpace::new(&handle, NOW_MS, 1);
            weighing.look(&mut space, &handle, place).unwrap()
        };
        assert_eq!(look(), 0);
        put(b"", 0..1_000, 10_000);
        put(&Database::of_number(4).unwrap().prefix(), 0..1_000, 10_000);
        assert_eq!(look(), 0, "they are others' keys");
        put(&place.prefix(), 0..100, 1_000);
        let hundred = look();
        assert!((100_000..110_000).contains(&hundred), "{hundred}");
        assert_eq!(look(), hundred, "nothing has changed");
        // More than one look looks at: the figure of the first ones stands for the others, until these are looked at.
        put(&place.prefix(), 100..2_000, 1_000);
        for _ in 0..10 {
            let bytes = look();
            assert!((1_990_000..2_200_000).contains(&bytes), "{bytes}");
        }
        put(&place.prefix(), 0..2_000, 100);
        let last = (0..10).map(|_| look()).last().unwrap();
        assert!((190_000..300_000).contains(&last), "{last}");
    }
}
