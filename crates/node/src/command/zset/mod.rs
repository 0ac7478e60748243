//! Sorted sets: members in the order of their scores.
//!
//! A small sorted set is one record, packed as a hash's is: its members are the fields, in order, and their scores the
//! values. One with more than `INLINE_FIELDS_MAX` members or `INLINE_COLLECTION_BYTES_MAX` bytes is *large*: its record
//! refers to rows, in three parts.
//!
//! ```text
//! m position member   8 bytes: the member's score (the name is that of a hash's element)
//! l bound             a leaf: some members in order, with their scores (`leaf`)
//! i …                 the tree that counts the leaves' members (`command::counted`)
//! ```
//! So a member is found by one row; its rank, the member of a rank and the first of a score by two rows a level of the
//! tree and a leaf; and a write changes a member's row, one leaf or two, and one small row a level. A large sorted set stays
//! so until it is empty, as in Redis.

mod build;
mod combination;
mod combine;
mod excerpt;
mod leaf;
mod leaves;
mod pop;
mod random;
mod range;
mod read;
mod remove;
mod scored;
mod stored;
#[cfg(test)]
mod tests;
mod write;

pub(super) use build::{Kept, copy, restore, stage, store_kept};
pub(super) use combination::{Answer, Combination, Operation};
pub(crate) use excerpt::excerpt_of;
pub use excerpt::{SortedSetExcerpt, SortedSetMember};
pub(super) use pop::{zmpop, zpopmax, zpopmin};
pub(super) use range::{Bounds, Grammar, Walk};
pub(super) use remove::Rest;
pub(super) use scored::{Scored, parse as parse_score};
pub(super) use stored::SortedSet;
pub(super) use write::{Conditions, add};

use super::call::{HandlerRow, read as reads, reads_in_steps, write as writes};
use super::hash;
use crate::Type;

pub(super) const ROWS: &[HandlerRow] = &[
    writes("ZADD", write::zadd),
    writes("ZINCRBY", write::zincrby),
    writes("ZREM", write::zrem),
    writes("ZREMRANGEBYRANK", remove::zremrangebyrank),
    writes("ZREMRANGEBYSCORE", remove::zremrangebyscore),
    writes("ZREMRANGEBYLEX", remove::zremrangebylex),
    writes("ZPOPMIN", zpopmin),
    writes("ZPOPMAX", zpopmax),
    writes("ZMPOP", zmpop),
    reads("ZCARD", read::zcard),
    reads("ZCOUNT", range::zcount),
    reads("ZLEXCOUNT", range::zlexcount),
    reads("ZSCORE", read::zscore),
    reads_in_steps("ZMSCORE", read::zmscore),
    reads("ZRANK", read::zrank),
    reads("ZREVRANK", read::zrevrank),
    reads_in_steps("ZRANGE", range::zrange),
    reads_in_steps("ZREVRANGE", range::zrevrange),
    reads_in_steps("ZRANGEBYSCORE", range::zrangebyscore),
    reads_in_steps("ZREVRANGEBYSCORE", range::zrevrangebyscore),
    reads_in_steps("ZRANGEBYLEX", range::zrangebylex),
    reads_in_steps("ZREVRANGEBYLEX", range::zrevrangebylex),
    reads("ZUNION", combine::zunion),
    reads("ZINTER", combine::zinter),
    reads("ZDIFF", combine::zdiff),
    reads("ZINTERCARD", combine::zintercard),
    writes("ZUNIONSTORE", combine::zunionstore),
    writes("ZINTERSTORE", combine::zinterstore),
    writes("ZDIFFSTORE", combine::zdiffstore),
    writes("ZRANGESTORE", combine::zrangestore),
    reads("ZRANDMEMBER", random::zrandmember),
    reads("ZSCAN", |call| hash::scan_of(Type::SortedSet, call)),
];
