//! DUMP: a value as one string, of a large collection piece by piece.

use super::error::TOO_LARGE;
use super::value::{Element, Left, head, version_of, whole};
use crate::command::call::{Error, ReadCall};
use crate::command::hash::Stored;
use crate::command::list::List;
use crate::command::steps::{Progress, ReplySteps, Rest};
use crate::{ReadSpace, Record, Type};
use rdb::Checksum;
use resp::Reply;
use vocab::limits::BULK_BYTES_MAX;

/// A large collection is read twice: for the length of its dump, and to write it.
pub(super) fn dump(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    let key = call.args[1];
    let Some(record) = call.space.get(key)? else {
        call.reply.null();
        return Ok(None);
    };
    let ty = record.view().kind.ty;
    if record.view().fields(key).filter(|_| ty != Type::Stream).is_none() {
        let sealed = whole(call.space, key, record, BULK_BYTES_MAX)?.map(|whole| rdb::seal(whole.bytes, whole.version));
        // A dump that RESTORE could not take as one argument is refused.
        if sealed.as_ref().is_some_and(|sealed| sealed.len() > BULK_BYTES_MAX) {
            return Err(TOO_LARGE.into());
        }
        call.reply.bulk_or_null(sealed.as_deref());
        return Ok(None);
    }
    let Some(length) = Length::of(call.space, key, record.clone())? else {
        call.reply.null();
        return Ok(None);
    };
    let Some((_, left)) = Left::of(call.space, key, record)? else {
        call.reply.null();
        return Ok(None);
    };
    let mut dumped = Dumped::begin(call.reply, ty, &length)?;
    dumped.flush(call.reply);
    Ok(Some(Box::new(DumpLeft { left, dumped })))
}

/// The length of the elements of a large collection.
struct Length {
    count: u64,
    bytes: usize,
    /// Of a hash of which fields expire, when the first does.
    earliest_ms: Option<u64>,
}

impl Length {
    /// That of a collection; `None` if nothing is seen of it.
    fn of(space: &mut dyn ReadSpace, key: &[u8], record: Record) -> Result<Option<Self>, Error> {
        let ty = record.view().kind.ty;
        let mut length = Self { count: 0, bytes: 0, earliest_ms: None };
        if ty == Type::List {
            let list = List::of(key, record)?;
            list.each(space, |element| length.add(rdb::string_bytes(element.len())))?;
        } else {
            let hash = Stored::of(key, record, space.now_ms())?;
            let earliest_ms = hash.earliest_expiry_ms();
            length.earliest_ms = earliest_ms;
            hash.each_with_expiry(space, |_, field, value, at_ms| {
                length.add(Element { ty, earliest_ms, field, value, at_ms }.bytes())
            })?;
        }
        Ok(Some(length).filter(|length| length.count > 0))
    }

    fn add(&mut self, bytes: usize) -> Result<(), Error> {
        self.count += 1;
        self.bytes += bytes;
        if self.bytes > BULK_BYTES_MAX { Err(TOO_LARGE.into()) } else { Ok(()) }
    }
}

/// A dump that is answered in pieces.
struct Dumped {
    /// The checksum of everything that was answered.
    checksum: Checksum,
    /// The part that is still to be answered.
    piece: Vec<u8>,
    /// The version of the format.
    version: u16,
}

impl Dumped {
    /// Answers the length of a collection's dump.
    fn begin(reply: &mut Reply, ty: Type, length: &Length) -> Result<Self, Error> {
        let piece = head(ty, length.earliest_ms, length.count);
        let bytes = piece.len() + length.bytes + rdb::FOOTER_BYTES;
        if bytes > BULK_BYTES_MAX {
            return Err(TOO_LARGE.into());
        }
        reply.bulk_head(bytes);
        Ok(Self { checksum: Checksum::default(), piece, version: version_of(length.earliest_ms) })
    }

    fn flush(&mut self, reply: &mut Reply) {
        self.checksum.update(&self.piece);
        reply.bulk_piece(&self.piece);
        self.piece.clear();
    }

    /// Answers what stands behind the value.
    fn finish(&mut self, reply: &mut Reply) {
        self.flush(reply);
        reply.bulk_piece(&self.checksum.footer(self.version));
        reply.bulk_piece(b"\r\n");
    }
}

/// The elements that are still to be dumped.
struct DumpLeft {
    left: Left,
    dumped: Dumped,
}

impl ReplySteps for DumpLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let progress = self.left.fill(space, &mut self.dumped.piece)?;
        self.dumped.flush(reply);
        if progress == Progress::Done {
            self.dumped.finish(reply);
        }
        Ok(progress)
    }
}
