//! Hashes: fields and values under one key. Sets (`command::set`) are kept as hashes are, with empty values.
//!
//! A small hash is one record (`format::packed_hash`). One with more than `INLINE_FIELDS_MAX` fields or
//! `INLINE_COLLECTION_BYTES_MAX` bytes is *large*: its record refers to rows, of which each holds one field
//! (`format::element`), so that no write costs the size of the hash. A large hash stays so until it is empty, as in Redis.
//! `stored` reads either form, `write` changes it, `build` makes a whole one.

mod build;
mod expiring;
mod fields;
mod increment;
mod lifetime;
mod random;
mod read;
mod scan;
mod stored;
mod write;

pub(crate) use crate::format::element::field_of;
pub(super) use crate::format::element::name_of;
pub(super) use crate::format::packed_hash::Varint;
pub(crate) use crate::format::packed_hash::fields_of;
pub use crate::format::packed_hash::fuzz_packed;
pub(super) use build::{Builder, TOO_LARGE_TO_COPY, copy, restore};
pub(super) use fields::Fields;
pub(super) use random::{below, distinct, one_of, srandmember};
pub(super) use read::smembers;
pub(super) use scan::{scan_of, value_of};
pub(super) use stored::{Form, Stored};
pub(super) use write::{put, remove_drawn, remove_told};

use super::call::{HandlerRow, read as reads, reads_in_steps, write as writes};

pub(super) const ROWS: &[HandlerRow] = &[
    writes("HSET", write::hset),
    writes("HSETNX", write::hsetnx),
    writes("HMSET", write::hmset),
    writes("HDEL", write::hdel),
    writes("HGETDEL", write::hgetdel),
    reads("HGET", read::hget),
    reads_in_steps("HMGET", read::hmget),
    reads_in_steps("HGETALL", read::hgetall),
    reads_in_steps("HKEYS", read::hkeys),
    reads_in_steps("HVALS", read::hvals),
    reads("HEXISTS", read::hexists),
    reads("HLEN", read::hlen),
    reads("HSTRLEN", read::hstrlen),
    writes("HINCRBY", increment::hincrby),
    writes("HINCRBYFLOAT", increment::hincrbyfloat),
    reads("HRANDFIELD", random::hrandfield),
    reads("HSCAN", scan::hscan),
    writes("HEXPIRE", |call| lifetime::expire(call, "hexpire", 1000, true)),
    writes("HPEXPIRE", |call| lifetime::expire(call, "hpexpire", 1, true)),
    writes("HEXPIREAT", |call| lifetime::expire(call, "hexpireat", 1000, false)),
    writes("HPEXPIREAT", |call| lifetime::expire(call, "hpexpireat", 1, false)),
    reads("HTTL", |call| lifetime::tell(call, |at, now| (at + 999 - now) / 1000)),
    reads("HPTTL", |call| lifetime::tell(call, |at, now| at - now)),
    reads("HEXPIRETIME", |call| lifetime::tell(call, |at, _| (at + 999) / 1000)),
    reads("HPEXPIRETIME", |call| lifetime::tell(call, |at, _| at)),
    writes("HPERSIST", lifetime::persist),
    writes("HGETEX", lifetime::hgetex),
    writes("HSETEX", lifetime::hsetex),
];

#[cfg(test)]
mod tests;
