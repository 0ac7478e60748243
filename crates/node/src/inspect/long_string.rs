//! A string in pieces, read from a tree that no shard has opened.

use super::told::told;
use crate::format::long_string::LongString;
use crate::space::long_string;
use crate::space::tree_rows::TreeRows;
use crate::{ReadSpace, Record};
use storage::Snapshot;

/// The record of `key` with its bytes, if it is a string in pieces; `None` if it is not.
pub fn whole_string(key: &[u8], record: &Record, tree: &dyn Snapshot) -> Result<Option<Record>, String> {
    if LongString::of(key, record).is_none() {
        return Ok(None);
    }
    TreeRows(tree).whole(key, record.clone()).map(Some).map_err(told)
}

/// Checks the pieces of a string that is kept so. The error says what is wrong.
pub fn check_string(key: &[u8], record: &Record, tree: &dyn Snapshot) -> Result<(), String> {
    LongString::of(key, record).map_or(Ok(()), |string| long_string::check(&string, &mut TreeRows(tree)))
}
