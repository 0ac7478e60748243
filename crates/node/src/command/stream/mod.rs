//! Streams: entries of fields and values under ids that rise, and groups of consumers that share them out.
//!
//! A small stream without groups is one record. A larger one is a record, which says what is known of the stream as a whole
//! (`meta`), and rows: one for each entry, which are found by *ordinal* (`names`). Ordinals rise by one, so entries are
//! counted, and found by number or id, without reading those between; each row is read by its name. XDEL leaves a row
//! behind, unless it removes the first entry; neighbours that are gone are passed over in one step (`entry`).
//!
//! A group is a row, and below its number it has a row for each consumer and two for each pending entry (`group`): a delivery
//! writes these and not the record. Groups refer to entries by ordinal.
//!
//! XADD writes one row and the record. Trimming removes what the names of many rows begin with, at the cost of a few small
//! writes. `stored` reads either form, `write` changes it.

mod claim;
mod claim_look;
mod delivery;
mod edit;
mod entry;
mod excerpt;
mod export;
mod group;
mod groups;
mod id;
mod info;
mod known_requests;
mod meta;
mod nack;
mod names;
mod pending;
mod producers;
mod range;
mod read;
mod references;
mod requests;
mod stored;
mod trim;
mod write;

pub(crate) use claim_look::{ClaimLook, Claiming, claiming};
pub(crate) use excerpt::excerpt_of;
pub use excerpt::{StreamConsumer, StreamEntry, StreamExcerpt, StreamGroup, StreamPending};
pub(super) use export::{Export, Item, restore};
pub(crate) use read::{is_end, stream_end};

use super::call::{HandlerRow, read as reads, reads_in_steps, write as writes};

pub(super) const ROWS: &[HandlerRow] = &[
    writes("XADD", edit::xadd),
    writes("XTRIM", edit::xtrim),
    writes("XDEL", edit::xdel),
    writes("XDELEX", references::xdelex),
    writes("XACKDEL", references::xackdel),
    writes("XSETID", edit::xsetid),
    reads("XLEN", edit::xlen),
    reads_in_steps("XRANGE", range::xrange),
    reads_in_steps("XREVRANGE", range::xrevrange),
    reads_in_steps("XREAD", read::xread),
    writes("XREADGROUP", delivery::xreadgroup),
    writes("XACK", groups::xack),
    writes("XNACK", nack::xnack),
    writes("XCFGSET", requests::configure),
    writes("XIDMPRECORD", requests::record),
    writes("XGROUP|CREATE", groups::create),
    writes("XGROUP|SETID", groups::set_id),
    writes("XGROUP|DESTROY", groups::destroy),
    writes("XGROUP|CREATECONSUMER", groups::create_consumer),
    writes("XGROUP|DELCONSUMER", groups::delete_consumer),
    reads("XPENDING", pending::xpending),
    writes("XCLAIM", claim::xclaim),
    writes("XAUTOCLAIM", claim::xautoclaim),
    reads("XINFO|STREAM", info::stream),
    reads("XINFO|GROUPS", info::groups),
    reads("XINFO|CONSUMERS", info::consumers),
];

#[cfg(test)]
mod tests;
