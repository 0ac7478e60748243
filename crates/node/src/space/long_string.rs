//! A long string in pieces: to change a bit of it is to write one of them anew, and not the string.
//!
//! A string becomes one when a command changes a part of it and it has `LONG_STRING_BYTES_MIN` then; what is written as a whole stays
//! as it is. Its record has its length, and the rows below its id have its bytes. Commands that look at a string as a whole are given
//! it as one record (`ReadSpace::get`).

use crate::Fault;
use crate::format::record::{Kind, Record, Rows, Type};
use crate::space::{Patch, ReadSpace, WriteSpace};
use std::borrow::Cow;
use vocab::limits::STRING_INLINE_BYTES_MAX;

/// How many bytes of the string each piece has: of its format.
const PIECE_BYTES: usize = 4096;

/// So many pieces are read by their names, more by a scan.
const FEW_PIECES: usize = 4;

/// So many are checked at a time.
const PIECES_CHECKED: usize = 256;

static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];

/// A string in pieces.
///
/// Invariants: a piece that is not there is all zeros, and so is the rest of one that is shorter. No piece goes beyond the string's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongString {
    /// Where its pieces are, and how many bytes it has.
    rows: Rows,
}

/// The name of a piece below the string's rows.
fn name(number: usize) -> [u8; 4] {
    (number as u32).to_be_bytes()
}

fn number(name: &[u8]) -> Option<usize> {
    name.try_into().ok().map(|name| u32::from_be_bytes(name) as usize)
}

impl LongString {
    /// The string whose record is at `key`, if it is in pieces.
    pub(crate) fn of(key: &[u8], record: &Record) -> Option<Self> {
        let view = record.view();
        if view.kind != Kind::large(Type::String) {
            return None;
        }
        view.rows(key).map(|rows| Self { rows })
    }

    /// The string whose pieces, and how many bytes it has, are these.
    pub(crate) fn at(rows: Rows) -> Self {
        Self { rows }
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.rows.count as usize
    }

    /// The bytes from `from` on and before `until`, as far as there are any.
    pub(crate) fn read<S: ReadSpace + ?Sized>(
        &self,
        space: &mut S,
        from: usize,
        until: usize,
    ) -> Result<Vec<u8>, Fault> {
        let (from, until) = (from.min(self.len()), until.min(self.len()));
        if from >= until {
            return Ok(Vec::new());
        }
        if until - from > STRING_INLINE_BYTES_MAX && space.is_slice() {
            return Err(Fault::WouldBlock);
        }
        let (first, last) = (from / PIECE_BYTES, (until - 1) / PIECE_BYTES);
        let mut bytes = vec![0; until - from];
        let mut found = 0;
        let mut take = |at: usize, piece: &[u8]| {
            let (begin, end) = (at * PIECE_BYTES, at * PIECE_BYTES + piece.len());
            let (low, high) = (begin.max(from), end.min(until));
            if low < high {
                bytes[low - from..high - from].copy_from_slice(&piece[low - begin..high - begin]);
                found += high - low;
            }
        };
        if last - first < FEW_PIECES {
            for at in first..=last {
                if let Some(piece) = space.element_get(&self.rows, &name(at))? {
                    take(at, &piece);
                }
            }
        } else {
            let mut after = first.checked_sub(1).map(name);
            loop {
                let left = last - after.map_or(0, |after| u32::from_be_bytes(after) as usize + 1) + 1;
                let pieces =
                    space.elements_within(&self.rows, after.as_ref().map(|after| &after[..]), left, until - from)?;
                let behind = pieces.last().and_then(|(name, _)| number(name));
                for (of, piece) in pieces {
                    // What lies behind those asked for is not copied.
                    number(&of).into_iter().for_each(|at| take(at, &piece));
                }
                match behind {
                    Some(at) if at < last => after = Some(name(at)),
                    _ => break,
                }
            }
        }
        // Zeros are work, too.
        space.afford(until - from - found)?;
        Ok(bytes)
    }

    /// Writes into its pieces. Its record is to be put again.
    pub(crate) fn write(&mut self, space: &mut dyn WriteSpace, patch: &Patch) -> Result<(), Fault> {
        let (first, until) = (patch.offset / PIECE_BYTES, patch.end().div_ceil(PIECE_BYTES));
        for at in first..until {
            let begin = at * PIECE_BYTES;
            let (low, high) = (begin.max(patch.offset), (begin + PIECE_BYTES).min(patch.end()));
            let new = &patch.bytes[low - patch.offset..high - patch.offset];
            let is_whole = low == begin && (high == begin + PIECE_BYTES || high >= self.len());
            if is_whole {
                space.element_put(&self.rows, &name(at), new)?;
                continue;
            }
            space.edit_element(&self.rows, &name(at), &mut |old| {
                if old.is_none() && new == &ZEROS[..new.len()] {
                    return None;
                }
                let mut piece = old.map_or_else(Vec::new, <[u8]>::to_vec);
                let end = high - begin;
                if piece.len() < end {
                    piece.resize(end, 0);
                }
                piece[low - begin..end].copy_from_slice(new);
                Some(piece)
            })?;
        }
        self.rows.count = self.rows.count.max(patch.end() as u64);
        Ok(())
    }

    /// Makes one of these bytes, in place of what is at `key`.
    pub(crate) fn store(
        space: &mut dyn WriteSpace,
        key: &[u8],
        expire_at_ms: Option<u64>,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        space.may_store(bytes.len())?;
        let rows = space.new_rows(key)?.with_count(bytes.len() as u64);
        for (at, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
            if piece != &ZEROS[..piece.len()] {
                space.element_put(&rows, &name(at), piece)?;
            }
        }
        Self { rows }.put(space, key, expire_at_ms)
    }

    /// Checks that its pieces are where pieces may be. The error says what is wrong.
    pub(crate) fn check(&self, space: &mut dyn ReadSpace) -> Result<(), String> {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let pieces = space.elements(&self.rows, after.as_deref(), PIECES_CHECKED);
            let pieces = pieces.map_err(|fault| format!("its pieces cannot be read: {fault:?}"))?;
            for (of, piece) in &pieces {
                let at = number(of).ok_or("a piece without a number")?;
                if piece.len() > PIECE_BYTES || at * PIECE_BYTES + piece.len() > self.len() {
                    return Err(format!("piece {at} of {} bytes, and it says {} in all", piece.len(), self.len()));
                }
            }
            let Some((last, _)) = pieces.last() else { return Ok(()) };
            after = Some(last.to_vec());
        }
    }

    /// Puts its record.
    pub(crate) fn put(&self, space: &mut dyn WriteSpace, key: &[u8], expire_at_ms: Option<u64>) -> Result<(), Fault> {
        let record = Record::large(Type::String, space.version(), expire_at_ms, &self.rows);
        space.put(key, record)
    }
}

/// A record with all that a command may look at: of a string in pieces, its bytes.
pub(crate) fn whole<S: ReadSpace + ?Sized>(space: &mut S, key: &[u8], record: Record) -> Result<Record, Fault> {
    let Some(string) = LongString::of(key, &record) else { return Ok(record) };
    let bytes = string.read(space, 0, string.len())?;
    let view = record.view();
    Ok(Record::stamped_new(view.version, Kind::STRING, view.expire_at_ms, &[&bytes]))
}

/// What a command sees of a string of which it wants parts.
pub(crate) enum StringView<'a> {
    /// Its bytes; none if there is no string.
    Whole(&'a [u8]),
    /// One in pieces, and where they are read.
    Pieces(&'a LongString, &'a mut dyn ReadSpace),
}

impl StringView<'_> {
    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Pieces(string, _) => string.len(),
        }
    }

    /// The bytes from `from` on and before `until`, as far as there are any.
    pub(crate) fn part(&mut self, from: usize, until: usize) -> Result<Cow<'_, [u8]>, Fault> {
        match self {
            Self::Whole(bytes) => {
                Ok(Cow::Borrowed(&bytes[from.min(bytes.len())..until.min(bytes.len()).max(from.min(bytes.len()))]))
            }
            Self::Pieces(string, space) => string.read(&mut **space, from, until).map(Cow::Owned),
        }
    }

    /// One byte; 0 behind its end.
    pub(crate) fn byte(&mut self, at: usize) -> Result<u8, Fault> {
        Ok(self.part(at, at.saturating_add(1))?.first().copied().unwrap_or(0))
    }
}
