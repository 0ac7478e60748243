//! Hashes: fields and values under one key.
//!
//! A small hash is one record (`packed`). One with more than `INLINE_FIELDS_MAX` fields or
//! `INLINE_COLLECTION_BYTES_MAX` bytes is *large*: its record refers to rows, of which each holds one field
//! (`element`), so that no write costs the size of the hash. A large hash stays so until it is empty, as in Redis. `stored` reads either form, `write` changes it, `build` makes a whole one.

mod build;
mod element;
mod increment;
mod packed;
mod random;
mod read;
mod scan;
mod stored;
mod write;

pub(super) use build::{copy, restore};
pub(crate) use element::field_of;
pub(crate) use packed::fields_of;
pub use packed::fuzz_packed;
pub(super) use stored::Stored;

use super::call::Handler;

/// The handler of a command over a hash, by its upper-case name.
pub(super) fn handler(name: &str) -> Option<Handler> {
    Some(match name {
        "HSET" => write::hset,
        "HSETNX" => write::hsetnx,
        "HMSET" => write::hmset,
        "HDEL" => write::hdel,
        "HGET" => read::hget,
        "HMGET" => read::hmget,
        "HGETALL" => read::hgetall,
        "HKEYS" => read::hkeys,
        "HVALS" => read::hvals,
        "HEXISTS" => read::hexists,
        "HLEN" => read::hlen,
        "HSTRLEN" => read::hstrlen,
        "HINCRBY" => increment::hincrby,
        "HINCRBYFLOAT" => increment::hincrbyfloat,
        "HRANDFIELD" => random::hrandfield,
        "HSCAN" => scan::hscan,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
