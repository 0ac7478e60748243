//! A long string in pieces: to change a bit of it is to write one of them anew, and not the string.
//!
//! A string becomes one when a command changes a part of it and it has `LONG_STRING_BYTES_MIN` then; what is written as a whole stays
//! as it is. Its record has its length, and the rows below its id have its bytes. Commands that look at a string as a whole are given
//! it as one record (`ReadSpace::get`).

use crate::Fault;
use crate::format::long_string::{LongString, PIECE_BYTES, ZEROS, piece_name, piece_number};
use crate::format::record::{Record, Type};
use crate::space::{Patch, ReadSpace, WriteSpace};
use std::borrow::Cow;

/// So many pieces are checked at a time.
const PIECES_CHECKED: usize = 256;

/// Writes into its pieces. Its record is to be put again.
pub(crate) fn write(string: &mut LongString, space: &mut dyn WriteSpace, patch: &Patch) -> Result<(), Fault> {
    let (first, until) = (patch.offset / PIECE_BYTES, patch.end().div_ceil(PIECE_BYTES));
    for at in first..until {
        let begin = at * PIECE_BYTES;
        let (low, high) = (begin.max(patch.offset), (begin + PIECE_BYTES).min(patch.end()));
        let new = &patch.bytes[low - patch.offset..high - patch.offset];
        let is_whole = low == begin && (high == begin + PIECE_BYTES || high >= string.len());
        if is_whole {
            space.element_put(string.rows(), &piece_name(at), new)?;
            continue;
        }
        space.edit_element(string.rows(), &piece_name(at), &mut |old| {
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
    string.grow_to(patch.end());
    Ok(())
}

/// Makes one of these bytes, in place of what is at `key`.
pub(crate) fn store(
    space: &mut dyn WriteSpace,
    key: &[u8],
    expire_at_ms: Option<u64>,
    bytes: &[u8],
) -> Result<(), Fault> {
    let rows = space.new_rows(key)?.with_count(bytes.len() as u64);
    for (at, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
        if piece != &ZEROS[..piece.len()] {
            space.element_put(&rows, &piece_name(at), piece)?;
        }
    }
    put(&LongString::at(rows), space, key, expire_at_ms)
}

/// Checks that its pieces are where pieces may be. The error says what is wrong.
pub(crate) fn check(string: &LongString, space: &mut dyn ReadSpace) -> Result<(), String> {
    let mut after: Option<Vec<u8>> = None;
    loop {
        let pieces = space.elements(string.rows(), after.as_deref(), PIECES_CHECKED);
        let pieces = pieces.map_err(|fault| format!("its pieces cannot be read: {fault:?}"))?;
        for (of, piece) in &pieces {
            let at = piece_number(of).ok_or("a piece without a number")?;
            if piece.len() > PIECE_BYTES || at * PIECE_BYTES + piece.len() > string.len() {
                return Err(format!("piece {at} of {} bytes, and it says {} in all", piece.len(), string.len()));
            }
        }
        let Some((last, _)) = pieces.last() else { return Ok(()) };
        after = Some(last.to_vec());
    }
}

/// Puts its record.
pub(crate) fn put(
    string: &LongString,
    space: &mut dyn WriteSpace,
    key: &[u8],
    expire_at_ms: Option<u64>,
) -> Result<(), Fault> {
    let record = Record::large(Type::String, space.version(), expire_at_ms, string.rows());
    space.put(key, record)
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
            Self::Pieces(string, space) => space.string_part(string.rows(), from, until).map(Cow::Owned),
        }
    }

    /// One byte; 0 behind its end.
    pub(crate) fn byte(&mut self, at: usize) -> Result<u8, Fault> {
        Ok(self.part(at, at.saturating_add(1))?.first().copied().unwrap_or(0))
    }
}
