//! Sets: members under one key, kept as the fields of a hash with empty values (see `command::hash`).

mod combination;
mod read;
mod staged;
mod store;
mod write;

pub use staged::SetCopy;

use super::call::{HandlerRow, read as reads, reads_in_steps, write as writes};
use super::hash;
use crate::Type;

pub(super) const ROWS: &[HandlerRow] = &[
    writes("SADD", write::sadd),
    writes("SREM", write::srem),
    writes("SPOP", write::spop),
    writes("SMOVE", write::smove),
    reads("SCARD", read::scard),
    reads("SISMEMBER", read::sismember),
    reads("SMISMEMBER", read::smismember),
    reads_in_steps("SMEMBERS", hash::smembers),
    reads("SRANDMEMBER", hash::srandmember),
    reads("SSCAN", |call| hash::scan_of(Type::Set, call)),
    reads("SINTER", read::sinter),
    reads("SINTERCARD", read::sintercard),
    reads("SUNION", read::sunion),
    reads("SDIFF", read::sdiff),
    writes("SINTERSTORE", store::sinterstore),
    writes("SUNIONSTORE", store::sunionstore),
    writes("SDIFFSTORE", store::sdiffstore),
];

#[cfg(test)]
mod tests;
