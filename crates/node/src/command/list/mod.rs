//! Lists: elements in an order, pushed and popped at both ends.
//!
//! A small list is one record (`run`). One with more than `INLINE_FIELDS_MAX` elements or `INLINE_COLLECTION_BYTES_MAX`
//! bytes is *large*: its record holds the first and the last elements (`ends`), so that a push or a pop writes one record
//! and reads no row; what lies between them is in leaves, below a tree of counts (`edges`), so that an index costs
//! O(log n) row reads. `large` changes the tree, `stored` reads either form.

mod edges;
mod ends;
mod large;
mod read;
mod run;
mod stored;
mod trimmed;
mod write;

pub(super) use large::Large;
pub(crate) use run::Side;
pub(crate) use stored::List;
pub(super) use stored::Walk;
pub(super) use write::{
    copy, edit, insert_options, lmove, lmpop, lpop, put_whole, remove_options, restore, rpop, sides_of,
};

use super::call::{HandlerRow, read as reads, reads_in_steps, write as writes};

pub(super) const ROWS: &[HandlerRow] = &[
    writes("LPUSH", |call| write::push_handler(call, Side::Left, false)),
    writes("RPUSH", |call| write::push_handler(call, Side::Right, false)),
    writes("LPUSHX", |call| write::push_handler(call, Side::Left, true)),
    writes("RPUSHX", |call| write::push_handler(call, Side::Right, true)),
    writes("LPOP", lpop),
    writes("RPOP", rpop),
    writes("LMPOP", lmpop),
    writes("LMOVE", lmove),
    writes("RPOPLPUSH", write::rpoplpush),
    writes("LSET", write::lset),
    writes("LINSERT", write::linsert),
    writes("LREM", write::lrem),
    writes("LTRIM", write::ltrim),
    reads("LLEN", read::llen),
    reads("LINDEX", read::lindex),
    reads_in_steps("LRANGE", read::lrange),
    reads_in_steps("LPOS", read::lpos),
];

#[cfg(test)]
mod tests;
