//! The entries and groups of a stream, read from a tree that no shard has opened.

use super::told::told;
use crate::Record;
use crate::command::stream::{StreamExcerpt, excerpt_of};
use crate::space::tree_rows::TreeRows;
use storage::Snapshot;

/// The first entries and groups of the stream whose record is at `key`, at most `most` of each, and how many there are. The
/// error says what is wrong.
pub fn stream_excerpt(key: &[u8], record: &Record, tree: &dyn Snapshot, most: usize) -> Result<StreamExcerpt, String> {
    excerpt_of(&mut TreeRows(tree), key, record, most).map_err(told)
}
