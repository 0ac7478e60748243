//! A shard while an entry is applied: commands see the tree with what the entry has written so far above it.

mod collect;
mod requests;
mod writes;

pub(crate) use collect::Collected;

use crate::config::SmallCollections;
use crate::format::entry::CollectFrom;
use crate::format::keys;
use crate::shard_handle::{ShardHandle, live};
use crate::space::read::element_span;
use crate::{Evaluation, Fault, ReadSpace, Record, Rows, WriteSpace};
use storage::Slice;
use vocab::{Prng, slot_of};
use writes::EntryWrites;

/// A shard within entry `index`. What its commands write is visible to those after them, and to no reader before
/// `commit`.
pub struct EntrySpace<'a> {
    index: u64,
    prng: Prng,
    writes: EntryWrites<'a>,
    /// Large collections that the entry has made.
    new_collections: u64,
}

/// Collections that one entry can make: bits of an id below the entry's index.
const COLLECTION_BITS: u32 = 20;

impl<'a> EntrySpace<'a> {
    /// The shard at the beginning of entry `index`.
    #[must_use]
    pub fn new(view: &'a ShardHandle, index: u64, now_ms: u64, evaluation: Evaluation) -> Self {
        let prng = Prng::new(index.rotate_left(32) ^ u64::from(view.id().0));
        Self { index, prng, writes: EntryWrites::new(view, now_ms, evaluation), new_collections: 0 }
    }

    /// What is written from here on can be taken back. Attempts do not nest.
    pub(crate) fn begin_attempt(&mut self) {
        self.writes.begin_attempt();
    }

    /// Keeps what was written since `begin_attempt`, or takes it back.
    pub(crate) fn end_attempt(&mut self, keep: bool) {
        self.writes.end_attempt(keep);
    }

    /// What the commands wrote so far.
    #[cfg(test)]
    pub(crate) fn writes(&self) -> &std::collections::BTreeMap<Slice, Option<Slice>> {
        self.writes.rows()
    }

    /// How many prefixes the commands dropped so far.
    #[cfg(test)]
    pub(crate) fn dropped(&self) -> usize {
        self.writes.dropped()
    }

    /// Writes what the commands wrote to the row cache and the tree, and makes it visible.
    pub fn commit(self) {
        self.writes.commit(self.index);
    }

    /// One step of background collection, from `from` on.
    pub(crate) fn collect(&mut self, from: &CollectFrom) -> Result<Collected, Fault> {
        collect::collect(&mut self.writes, from)
    }

    /// One step of background collection as entries of format 1 have it.
    pub fn housekeep(&mut self) -> Result<(), Fault> {
        collect::housekeep(&mut self.writes)
    }

    /// As entries of format 1 do: a number that no elements of `key` have, be they of a hash that is gone and not yet
    /// collected. 64 random bits, the same on every replica.
    fn new_keyed_rows(&mut self, key: &[u8]) -> Result<Rows, Fault> {
        let mut generation = self.random_u64()?;
        loop {
            let rows = Rows::of_key(key, generation, 0);
            if self.elements(&rows, None, 1)?.is_empty() {
                return Ok(rows);
            }
            generation = generation.wrapping_add(self.random_u64()? | 1);
        }
    }
}

impl ReadSpace for EntrySpace<'_> {
    fn now_ms(&self) -> u64 {
        self.writes.now_ms()
    }

    fn version(&self) -> u64 {
        self.index
    }

    fn random_u64(&mut self) -> Result<u64, Fault> {
        Ok(self.prng.next_u64())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Record>, Fault> {
        let now_ms = self.writes.now_ms();
        Ok(live(self.writes.record(key)?, now_ms))
    }

    fn element_get(&mut self, rows: &Rows, element: &[u8]) -> Result<Option<Slice>, Fault> {
        self.writes.row(&keys::element(&rows.prefix, element))
    }

    fn elements(&mut self, rows: &Rows, after: Option<&[u8]>, limit: usize) -> Result<Vec<(Slice, Slice)>, Fault> {
        let prefix = rows.prefix.len();
        let found = self.writes.merged(&element_span(rows, after), limit)?;
        Ok(found.into_iter().map(|(tree_key, value)| (Slice::from(&tree_key[prefix..]), value)).collect())
    }

    fn small_collections(&self) -> SmallCollections {
        self.writes.view().small_collections()
    }
}

impl WriteSpace for EntrySpace<'_> {
    fn evaluation(&self) -> Evaluation {
        self.writes.evaluation()
    }

    fn put(&mut self, key: &[u8], record: Record) -> Result<(), Fault> {
        self.writes.put(key, &record.stamped(self.index))
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, Fault> {
        self.writes.delete(key)
    }

    fn give_up(&mut self, key: &[u8]) -> Result<(), Fault> {
        if let Some(record) = self.writes.record(key)? {
            self.writes.remove_record(key, &record);
        }
        Ok(())
    }

    fn new_rows(&mut self, key: &[u8]) -> Result<Rows, Fault> {
        if self.writes.evaluation() == Evaluation::First {
            return self.new_keyed_rows(key);
        }
        let id = self.index << COLLECTION_BITS | self.new_collections;
        self.new_collections += 1;
        assert!(self.new_collections < 1 << COLLECTION_BITS, "an entry has fewer bytes than so many collections");
        Ok(Rows { prefix: keys::rows(slot_of(key), id), count: 0 })
    }

    fn element_put(&mut self, rows: &Rows, element: &[u8], value: &[u8]) -> Result<(), Fault> {
        self.writes.write_row(Slice::from(keys::element(&rows.prefix, element)), Some(Slice::from(value)));
        Ok(())
    }

    fn element_delete(&mut self, rows: &Rows, element: &[u8]) -> Result<(), Fault> {
        self.writes.write_row(Slice::from(keys::element(&rows.prefix, element)), None);
        Ok(())
    }

    fn requests(&mut self, client: &[u8]) -> Result<Option<Slice>, Fault> {
        requests::row_of(&self.writes, client)
    }

    fn put_requests(
        &mut self,
        client: &[u8],
        row: &[u8],
        until_ms: u64,
        was_until_ms: Option<u64>,
    ) -> Result<(), Fault> {
        requests::write(&mut self.writes, client, row, until_ms, was_until_ms)
    }

    fn request_clients(&mut self) -> Result<u64, Fault> {
        requests::client_count(&self.writes)
    }

    fn stage(&mut self, rows: &Rows, until_ms: u64) -> Result<(), Fault> {
        self.writes.write(&keys::staged(until_ms, &rows.prefix), Some(Slice::from(&[][..])));
        self.writes.view().expires_at(until_ms);
        Ok(())
    }

    fn is_staged(&mut self, rows: &Rows, until_ms: u64) -> Result<bool, Fault> {
        Ok(self.writes.row(&keys::staged(until_ms, &rows.prefix))?.is_some())
    }

    fn unstage(&mut self, rows: &Rows, until_ms: u64) -> Result<(), Fault> {
        self.writes.write(&keys::staged(until_ms, &rows.prefix), None);
        Ok(())
    }

    fn drop_rows(&mut self, rows: &Rows) -> Result<(), Fault> {
        self.writes.drop_rows(&rows.prefix);
        Ok(())
    }
}
