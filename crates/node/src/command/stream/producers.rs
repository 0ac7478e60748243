//! Requests of producers that are applied once: IDMP and IDMPAUTO of XADD, XIDMPRECORD, and XCFGSET.
//!
//! A producer gives a request an id, or has it made of the fields. A request of a producer with an id that is known is answered
//! with the id of the entry that the first one added. Ids are known for a time, and so many of each producer.
//!
//! Behind what the record of a large stream says of it (`meta`), once a request has had an id or XCFGSET was used:
//! ```text
//! u64  for how long ids are known, in s
//! u64  how many ids of a producer are known
//! u64  epoch: rows of others are gone
//! u64  producers of which ids are known
//! u64  ids that are known
//! u64  ids that there ever were
//! u64  requests whose id was known
//! ```
//! Rows, which `names` names; a producer and an id are called by their hashes of 16 bytes:
//! ```text
//! producer   u64 number of the first id that is known, u64 number of the next one
//! id         u64 ms, u64 number: the entry; u64 when it was added, in ms; u64 the id's number
//! numbered   16 bytes: the id
//! by time    nothing
//! next look  u64: when ids are looked for whose time is over, in ms
//! ```
//! Little-endian. The ids of a producer are numbered in the order in which they came. Those that were added before `Rules::Fourth` have no
//! row by time, and a producer of earlier releases stays although its ids are over: both go once it comes again, or by XCFGSET.

use vocab::{Malformed, Reader};

/// How long it is in the record.
pub(super) const PRODUCERS_BYTES: usize = 7 * 8;

/// What a stream knows of the requests of its producers. See the module's layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Producers {
    pub(super) duration_s: u64,
    pub(super) ids_max: u64,
    pub(super) epoch: u64,
    pub(super) producers: u64,
    pub(super) ids: u64,
    pub(super) ids_ever: u64,
    pub(super) duplicates: u64,
}

impl Default for Producers {
    fn default() -> Self {
        Self { duration_s: 100, ids_max: 100, epoch: 0, producers: 0, ids: 0, ids_ever: 0, duplicates: 0 }
    }
}

impl Producers {
    pub(super) fn encode(&self) -> [u8; PRODUCERS_BYTES] {
        let words =
            [self.duration_s, self.ids_max, self.epoch, self.producers, self.ids, self.ids_ever, self.duplicates];
        let mut bytes = [0; PRODUCERS_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            duration_s: reader.u64_le()?,
            ids_max: reader.u64_le()?,
            epoch: reader.u64_le()?,
            producers: reader.u64_le()?,
            ids: reader.u64_le()?,
            ids_ever: reader.u64_le()?,
            duplicates: reader.u64_le()?,
        })
    }
}
