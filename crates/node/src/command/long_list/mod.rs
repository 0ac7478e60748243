//! Lists that are too long for an entry: searched in a snapshot, and written on the condition that they are unchanged, or
//! anew in slices.

mod search;
mod staged;

pub use search::LongEdit;
pub use staged::ListCopy;
pub(super) use staged::Replaces;
