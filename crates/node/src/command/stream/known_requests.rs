//! The ids of producers' requests that are known: how they are found and added, and how they go once their time is over. `producers` has
//! the layout of their rows.
//!
//! Invariants: the numbers of a producer's ids are consecutive. An id that was added by `Rules::Fourth` has a row by time until it goes, or
//! longer: a row by time whose id is gone, or has come again, means nothing.

use super::group::NameWalk;
use super::id::StreamId;
use super::names::{self, ByTime};
use super::producers::Producers;
use super::stored::Stream;
use crate::command::call::{Error, Outcome};
use crate::{ReadSpace, Rows, Rules, WriteSpace};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use vocab::{Malformed, Reader};

/// Ids of its own producer that a request removes because their time is over, at most.
const OWN_SWEPT_MAX: usize = 64;
/// Ids of any producers that it removes so, at most.
const SWEPT_MAX: usize = 32;
/// Bytes of their rows after which fewer are read.
const SWEPT_BYTES_SOFT: usize = 64 * 1024;
/// Between two looks for ids whose time is over lies so much, in ms, unless the first has left some: Redis looks each second.
const SWEEP_MS: u64 = 1000;
/// Ids whose time is over and that have not gone, of which `live` knows, at most.
const LOOKS_MAX: usize = 16_384;

/// The numbers of a producer's ids that are known: from `first` on, before `next`.
#[derive(Clone, Copy)]
struct Numbers {
    first: u64,
    next: u64,
}

impl Numbers {
    const NONE: Self = Self { first: 0, next: 0 };

    fn decode(row: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(row);
        Ok(Self { first: reader.u64_le()?, next: reader.u64_le()? })
    }

    fn is_empty(self) -> bool {
        self.first >= self.next
    }

    fn contains(self, number: u64) -> bool {
        (self.first..self.next).contains(&number)
    }
}

/// An id that is known.
struct KnownId {
    entry: StreamId,
    added_ms: u64,
    number: u64,
}

impl KnownId {
    fn decode(row: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(row);
        let entry = StreamId { ms: reader.u64_le()?, seq: reader.u64_le()? };
        Ok(Self { entry, added_ms: reader.u64_le()?, number: reader.u64_le()? })
    }

    fn encode(&self) -> Vec<u8> {
        [self.entry.ms, self.entry.seq, self.added_ms, self.number].iter().flat_map(|n| n.to_le_bytes()).collect()
    }
}

/// The ids that a stream knows of the requests of its producers.
pub(super) struct KnownRequests<'s, 'k> {
    stream: &'s Stream<'k>,
    rows: &'s Rows,
    producers: Producers,
}

impl<'s, 'k> KnownRequests<'s, 'k> {
    /// Those of a stream, whose rows these are.
    pub(super) fn of(stream: &'s Stream<'k>, rows: &'s Rows) -> Self {
        Self { stream, rows, producers: stream.producers.clone().unwrap_or_default() }
    }

    /// What the stream's record is to say of them.
    pub(super) fn into_producers(self) -> Producers {
        self.producers
    }

    /// The entry that a request of that id has added, if that is known.
    pub(super) fn entry_of(
        &self,
        space: &mut dyn ReadSpace,
        producer: u128,
        id: &[u8],
    ) -> Result<Option<StreamId>, Error> {
        let known = self.known(space, producer, id)?;
        let now_ms = space.now_ms();
        Ok(known.filter(|known| !self.is_over(known.added_ms, now_ms)).map(|known| known.entry))
    }

    /// A request has come again.
    pub(super) fn count_duplicate(&mut self) {
        self.producers.duplicates += 1;
    }

    /// Adds the id of a request, with the entry that it has added.
    pub(super) fn add(&mut self, space: &mut dyn WriteSpace, producer: u128, id: &[u8], entry: StreamId) -> Outcome {
        self.sweep(space)?;
        let Numbers { first, next: number } = self.make_room(space, producer)?;
        let (epoch, added_ms) = (self.producers.epoch, space.now_ms());
        let known = KnownId { entry, added_ms, number };
        space.element_put(self.rows, &names::request(epoch, producer, id), &known.encode())?;
        space.element_put(self.rows, &names::numbered_request(epoch, producer, number), id)?;
        self.put_numbers(space, producer, Numbers { first, next: number + 1 })?;
        if space.rules() >= Rules::Fourth {
            let by_time = ByTime { added_ms, producer, number };
            space.element_put(self.rows, &names::request_by_time(epoch, &by_time), b"")?;
        }
        self.producers.ids += 1;
        self.producers.ids_ever += 1;
        Ok(())
    }

    /// Removes some of the ids whose time is over, whatever their producers, and producers that have none left. Where it is too early to look
    /// for them that is one row to read: a scan would send each request to a thread.
    pub(super) fn sweep(&mut self, space: &mut dyn WriteSpace) -> Outcome {
        if space.rules() < Rules::Fourth {
            return Ok(());
        }
        let now_ms = space.now_ms();
        let name = names::next_sweep(self.producers.epoch);
        let row = space.element_get(self.rows, &name)?;
        let look_ms = row.map(|row| Reader::new(&row).u64_le()).transpose();
        let next_ms = match look_ms.map_err(|why| self.stream.malformed(why))? {
            // Those that are to come will be over then.
            None => Some(self.over_ms(now_ms)),
            Some(look_ms) if look_ms > now_ms => None,
            Some(_) => self.sweep_some(space)?,
        };
        match next_ms {
            Some(next_ms) => Ok(space.element_put(self.rows, &name, &next_ms.to_le_bytes())?),
            None => Ok(()),
        }
    }

    /// Removes ids whose time is over, the first first. When the next look is due; `None`: at once, for more are left.
    fn sweep_some(&mut self, space: &mut dyn WriteSpace) -> Result<Option<u64>, Error> {
        let now_ms = space.now_ms();
        let prefix = names::requests_by_time(self.producers.epoch);
        let found = space.elements_within(self.rows, Some(&prefix), SWEPT_MAX, SWEPT_BYTES_SOFT)?;
        let mut left = SWEPT_MAX;
        for (name, _) in &found {
            // Behind them lies another row.
            let Some(by_time) = names::by_time(name) else { break };
            if !self.is_over(by_time.added_ms, now_ms) {
                return Ok(Some(self.over_ms(by_time.added_ms).max(now_ms + SWEEP_MS)));
            }
            if self.remove_until(space, &by_time, &mut left)? {
                space.element_delete(self.rows, name)?;
            }
            if left == 0 {
                return Ok(None);
            }
        }
        Ok((found.len() < SWEPT_MAX).then_some(now_ms + SWEEP_MS))
    }

    /// Removes the ids of a producer up to a number, as far as their time is over, up to `left`. Whether none of them is left.
    fn remove_until(&mut self, space: &mut dyn WriteSpace, until: &ByTime, left: &mut usize) -> Result<bool, Error> {
        let Some(mut numbers) = self.numbers(space, until.producer)? else { return Ok(true) };
        let first = numbers.first;
        while *left > 0
            && !numbers.is_empty()
            && numbers.first <= until.number
            && self.remove_first(space, until.producer, numbers, false)?
        {
            numbers.first += 1;
            *left -= 1;
        }
        if numbers.is_empty() {
            space.element_delete(self.rows, &names::producer(self.producers.epoch, until.producer))?;
            self.producers.producers = self.producers.producers.saturating_sub(1);
        } else if numbers.first > first {
            self.put_numbers(space, until.producer, numbers)?;
        }
        Ok(numbers.is_empty() || numbers.first > until.number)
    }

    /// The numbers of a producer's ids. Removes those whose time is over, and as many that there is room for one more.
    fn make_room(&mut self, space: &mut dyn WriteSpace, producer: u128) -> Result<Numbers, Error> {
        let Some(mut numbers) = self.numbers(space, producer)? else {
            self.producers.producers += 1;
            return Ok(Numbers::NONE);
        };
        for _ in 0..OWN_SWEPT_MAX {
            if numbers.is_empty() {
                break;
            }
            let is_full = numbers.next - numbers.first >= self.producers.ids_max;
            if !self.remove_first(space, producer, numbers, is_full)? {
                break;
            }
            numbers.first += 1;
        }
        Ok(numbers)
    }

    /// Removes the first of a producer's ids; unless it `must` go, only if its time is over. Whether it is gone.
    fn remove_first(
        &mut self,
        space: &mut dyn WriteSpace,
        producer: u128,
        numbers: Numbers,
        must: bool,
    ) -> Result<bool, Error> {
        let (epoch, number) = (self.producers.epoch, numbers.first);
        let numbered = names::numbered_request(epoch, producer, number);
        let Some(id) = space.element_get(self.rows, &numbered)? else {
            return Err(self.stream.corrupt("producer without one of its ids"));
        };
        // The id may have come again since, and then it has another number.
        let known = self.known(space, producer, &id)?.filter(|known| known.number == number);
        if let Some(KnownId { added_ms, .. }) = known {
            if !must && !self.is_over(added_ms, space.now_ms()) {
                return Ok(false);
            }
            space.element_delete(self.rows, &names::request(epoch, producer, &id))?;
            if space.rules() >= Rules::Fourth {
                let by_time = ByTime { added_ms, producer, number };
                space.element_delete(self.rows, &names::request_by_time(epoch, &by_time))?;
            }
        }
        space.element_delete(self.rows, &numbered)?;
        self.producers.ids = self.producers.ids.saturating_sub(1);
        Ok(true)
    }

    /// How many producers and ids are known whose time is not over, beside what is counted in all. Of what is over and has not gone it looks
    /// at so much; the rest counts as known.
    pub(super) fn live(&self, space: &mut dyn ReadSpace) -> Result<Producers, Error> {
        let now_ms = space.now_ms();
        let mut live = self.producers.clone();
        let mut seen: BTreeMap<u128, Numbers> = BTreeMap::new();
        let mut walk = NameWalk::new(names::requests_by_time(live.epoch));
        let mut looks_left = LOOKS_MAX;
        while let Some(found) = walk.next(space, self.rows)? {
            for (name, _) in found {
                let by_time = names::by_time(&name).ok_or_else(|| self.stream.corrupt("request without a time"))?;
                if looks_left == 0 || !self.is_over(by_time.added_ms, now_ms) {
                    return Ok(live);
                }
                looks_left -= 1;
                let numbers = match seen.entry(by_time.producer) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(unknown) => {
                        unknown.insert(self.numbers(space, by_time.producer)?.unwrap_or(Numbers::NONE))
                    }
                };
                if numbers.contains(by_time.number) {
                    // Those before are over, too.
                    live.ids = live.ids.saturating_sub(by_time.number + 1 - numbers.first);
                    numbers.first = by_time.number + 1;
                    live.producers = live.producers.saturating_sub(u64::from(numbers.is_empty()));
                }
            }
        }
        Ok(live)
    }

    fn known(&self, space: &mut dyn ReadSpace, producer: u128, id: &[u8]) -> Result<Option<KnownId>, Error> {
        let row = space.element_get(self.rows, &names::request(self.producers.epoch, producer, id))?;
        row.map(|row| KnownId::decode(&row)).transpose().map_err(|why| self.stream.malformed(why))
    }

    fn numbers(&self, space: &mut dyn ReadSpace, producer: u128) -> Result<Option<Numbers>, Error> {
        let row = space.element_get(self.rows, &names::producer(self.producers.epoch, producer))?;
        row.map(|row| Numbers::decode(&row)).transpose().map_err(|why| self.stream.malformed(why))
    }

    fn put_numbers(&self, space: &mut dyn WriteSpace, producer: u128, numbers: Numbers) -> Outcome {
        let row = [numbers.first.to_le_bytes(), numbers.next.to_le_bytes()].concat();
        Ok(space.element_put(self.rows, &names::producer(self.producers.epoch, producer), &row)?)
    }

    /// When the time of an id is over, in ms.
    fn over_ms(&self, added_ms: u64) -> u64 {
        added_ms.saturating_add(self.producers.duration_s.saturating_mul(1000))
    }

    fn is_over(&self, added_ms: u64, now_ms: u64) -> bool {
        self.over_ms(added_ms) <= now_ms
    }
}
