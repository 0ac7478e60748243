//! Reads the rows of a table's block one after the other, from any of them on.
//!
//! ```text
//! block    rows, 0xFF, pointers (u16 or u32), more, trailer
//! row      kind (u8), seqno, then key length and key, or how many bytes the key has in common with the last whole key,
//!          length of the rest and the rest; unless it is a removal, value length and value. Numbers are varints.
//! trailer  31 bytes, of which the first: one key of so many is whole (u8), bytes of a pointer (u8), how many pointers
//!          (u32), where they are (u32)
//! ```
//! Numbers that are no varints are little-endian. Pointers are to the rows with whole keys.
//!
//! Whose bytes these are was checked when they were read; still, whatever they are, this does not panic.

use crate::Slice;
use byteview::ByteView;
use lsm_tree::{InternalValue, ValueType};
use std::cmp::Ordering;
use std::ops::Range;
use vocab::Reader;

const END: u8 = 0xFF;
const TRAILER_BYTES: usize = 31;
const MALFORMED: lsm_tree::Error = lsm_tree::Error::InvalidTrailer;

/// Reads the rows of one block.
pub(super) struct Rows {
    block: ByteView,
    /// The next row.
    at: usize,
    /// How many rows after it have no whole key.
    left: u8,
    /// The last whole key.
    whole: Range<usize>,
    /// One key of so many is whole.
    interval: u8,
    pointers: Range<usize>,
    pointer_bytes: usize,
}

/// Where a row's parts are.
struct Row {
    kind: ValueType,
    seqno: u64,
    /// How many bytes of the last whole key precede `rest`; none if this one is whole.
    shared: Option<usize>,
    rest: Range<usize>,
    value: Range<usize>,
}

/// Where the parts of a row are, as they are read one after the other.
struct Places<'a> {
    block_bytes: usize,
    reader: Reader<'a>,
}

impl<'a> Places<'a> {
    fn new(block: &'a [u8], at: usize) -> Option<Self> {
        Some(Self { block_bytes: block.len(), reader: Reader::new(block.get(at..)?) })
    }

    fn at(&self) -> usize {
        self.block_bytes - self.reader.left()
    }

    fn range(&mut self) -> Option<Range<usize>> {
        let length = self.reader.bytes().ok()?.len();
        Some(self.at() - length..self.at())
    }
}

impl Rows {
    /// The rows of a block.
    pub(super) fn new(block: Slice) -> lsm_tree::Result<Self> {
        Self::of(ByteView::from(block)).ok_or(MALFORMED)
    }

    fn of(block: ByteView) -> Option<Self> {
        let trailer = block.len().checked_sub(TRAILER_BYTES)?;
        let (interval, pointer_bytes) = (block[trailer], usize::from(block[trailer + 1]));
        let number = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("4 bytes")) as usize;
        let (count, start) = (number(trailer + 2), number(trailer + 6));
        let end = start.checked_add(count.checked_mul(pointer_bytes)?)?;
        let is_sound = interval > 0 && matches!(pointer_bytes, 2 | 4) && end <= trailer;
        is_sound.then_some(Self { block, at: 0, left: 0, whole: 0..0, interval, pointers: start..end, pointer_bytes })
    }

    /// Moves to the first row whose key is not below `key`.
    pub(super) fn seek(&mut self, key: &[u8]) -> lsm_tree::Result<()> {
        self.try_seek(key).ok_or(MALFORMED)
    }

    /// The newest version of `key`, if the block has one.
    pub(super) fn get(&mut self, key: &[u8]) -> lsm_tree::Result<Option<InternalValue>> {
        self.seek(key)?;
        let row = self.parse(self.at, self.left == 0).ok_or(MALFORMED)?;
        match row {
            Some((row, _)) if self.compare(&row, key).is_eq() => self.next(),
            _ => Ok(None),
        }
    }

    fn try_seek(&mut self, key: &[u8]) -> Option<()> {
        let (mut low, mut high) = (0, self.pointers.len() / self.pointer_bytes);
        // After that, the row of pointer `low - 1` is the last with a whole key that is below.
        while low < high {
            let middle = usize::midpoint(low, high);
            let (row, _) = self.parse(self.pointer(middle), true)??;
            if self.block[row.rest] < *key { low = middle + 1 } else { high = middle }
        }
        (self.at, self.left) = (self.pointer(low.saturating_sub(1)), 0);
        while let Some((row, end)) = self.parse(self.at, self.left == 0)? {
            if self.compare(&row, key).is_ge() {
                break;
            }
            self.pass(&row, end);
        }
        Some(())
    }

    /// Where the row of a pointer begins; 0 if there is none.
    fn pointer(&self, i: usize) -> usize {
        let pointers = &self.block[self.pointers.clone()];
        match pointers.get(i * self.pointer_bytes..(i + 1) * self.pointer_bytes) {
            Some(&[a, b]) => usize::from(u16::from_le_bytes([a, b])),
            Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]) as usize,
            _ => 0,
        }
    }

    /// The next row, and moves behind it.
    pub(super) fn next(&mut self) -> lsm_tree::Result<Option<InternalValue>> {
        let Some((row, end)) = self.parse(self.at, self.left == 0).ok_or(MALFORMED)? else { return Ok(None) };
        let key = match row.shared {
            None => self.block.slice(row.rest.clone()),
            Some(shared) => ByteView::fused(&self.block[self.shared(shared)], &self.block[row.rest.clone()]),
        };
        if key.is_empty() {
            return Err(MALFORMED);
        }
        let value = Slice::from(self.block.slice(row.value.clone()));
        let entry = InternalValue::from_components(Slice::from(key), value, row.seqno, row.kind);
        self.pass(&row, end);
        Ok(Some(entry))
    }

    /// The row that begins at a place and where it ends, or that there are no more; `None` if it makes no sense.
    #[expect(clippy::option_option, reason = "nothing more is not the same as nonsense")]
    fn parse(&self, at: usize, is_whole: bool) -> Option<Option<(Row, usize)>> {
        let mut places = Places::new(&self.block, at)?;
        let kind = places.reader.u8().ok()?;
        if kind == END {
            return Some(None);
        }
        let (kind, seqno) = (ValueType::try_from(kind).ok()?, places.reader.varint().ok()?);
        let shared = if is_whole { None } else { Some(places.reader.number::<usize>().ok()?) };
        if shared.is_some_and(|shared| shared > self.whole.len()) {
            return None;
        }
        let rest = places.range()?;
        if shared.unwrap_or(0) + rest.len() > usize::from(u16::MAX) {
            return None;
        }
        let value = if kind.is_tombstone() { 0..0 } else { places.range()? };
        Some(Some((Row { kind, seqno, shared, rest, value }, places.at())))
    }

    fn pass(&mut self, row: &Row, end: usize) {
        self.at = end;
        if row.shared.is_none() {
            self.whole = row.rest.clone();
            self.left = self.interval;
        }
        self.left -= 1;
    }

    /// The beginning of the last whole key.
    fn shared(&self, length: usize) -> Range<usize> {
        self.whole.start..self.whole.start + length
    }

    fn compare(&self, row: &Row, key: &[u8]) -> Ordering {
        let rest = &self.block[row.rest.clone()];
        let Some(shared) = row.shared else { return rest.cmp(key) };
        let shared = &self.block[self.shared(shared)];
        let (beginning, end) = key.split_at(shared.len().min(key.len()));
        shared.cmp(beginning).then_with(|| rest.cmp(end))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use lsm_tree::table::DataBlock;
    use vocab::Prng;

    type Plain = (Vec<u8>, u64, Option<Vec<u8>>);

    fn any_rows(prng: &mut Prng) -> Vec<InternalValue> {
        let mut keys: Vec<(Vec<u8>, u64)> = (0..=prng.below(60))
            .map(|_| (format!("key{:0w$}", prng.below(500), w = prng.below(30) as usize).into_bytes(), prng.below(400)))
            .collect();
        // Falling seqnos of the same key.
        keys.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        keys.dedup();
        let row = |(key, seqno): (Vec<u8>, u64)| match prng.below(4) {
            0 => InternalValue::from_components(key, Vec::new(), seqno, ValueType::Tombstone),
            _ => InternalValue::from_components(key, vec![7; prng.below(300) as usize], seqno, ValueType::Value),
        };
        keys.into_iter().map(row).collect()
    }

    fn plain(row: &InternalValue) -> Plain {
        let value = (!row.key.is_tombstone()).then(|| row.value.to_vec());
        (row.key.user_key.to_vec(), row.key.seqno, value)
    }

    fn read(block: &[u8], from: Option<&[u8]>) -> lsm_tree::Result<Vec<Plain>> {
        let mut rows = Rows::new(Slice::from(block))?;
        if let Some(key) = from {
            rows.seek(key)?;
        }
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(plain(&row));
        }
        Ok(found)
    }

    #[test]
    fn what_lsm_tree_writes_is_read_from_any_key_on() {
        let mut prng = Prng::new(1);
        for round in 0..250 {
            let rows = any_rows(&mut prng);
            let block = DataBlock::encode_into_vec(&rows, 1 + round % 20, 0.0).unwrap();
            let all: Vec<Plain> = rows.iter().map(plain).collect();
            assert_eq!(read(&block, None).unwrap(), all);
            for _ in 0..10 {
                let key = format!("key{:0w$}", prng.below(500), w = prng.below(30) as usize).into_bytes();
                let rest: Vec<Plain> = all.iter().filter(|row| row.0 >= key).cloned().collect();
                assert_eq!(read(&block, Some(&key)).unwrap(), rest, "{}", key.escape_ascii());
            }
        }
    }

    #[test]
    fn fuzz_blocks() {
        let mut prng = Prng::new(2);
        for _ in 0..3000 {
            let rows = any_rows(&mut prng);
            let mut block = DataBlock::encode_into_vec(&rows, 1 + prng.below(20) as u8, 0.0).unwrap();
            for _ in 0..=prng.below(4) {
                let at = prng.below(block.len() as u64) as usize;
                match prng.below(4) {
                    0 => block.truncate(at),
                    _ => block[at] = prng.next_u64() as u8,
                }
                if block.is_empty() {
                    break;
                }
            }
            // Whatever comes of it, it ends.
            let _ = (read(&block, None), read(&block, Some(b"key1")));
        }
    }
}
