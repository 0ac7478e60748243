//! What bytes mean, on disk and in the log. No behaviour. docs/FORMATS.md has the layouts.

pub(crate) mod client_requests;
pub(crate) mod element;
pub(crate) mod entry;
pub(crate) mod field_expiry;
pub(crate) mod internal_commands;
pub(crate) mod key_bound;
pub(crate) mod keys;
pub(crate) mod long_string;
pub(crate) mod packed_hash;
pub(crate) mod packing;
pub(crate) mod record;
pub(crate) mod score;
pub(crate) mod slots;
pub(crate) mod snapshot_point;

use storage::Slice;

/// A record of the tree's meta space: name and value.
pub type Fact = (Slice, Slice);
