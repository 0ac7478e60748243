//! The members of a sorted set, read from a tree that no shard has opened.

use super::told::told;
use crate::Record;
use crate::command::zset::{SortedSetExcerpt, excerpt_of};
use crate::space::tree_rows::TreeRows;
use storage::Snapshot;

/// The first members of the sorted set whose record is at `key`, at most `most`, and how many there are. The error says
/// what is wrong.
pub fn sorted_set_excerpt(
    key: &[u8],
    record: &Record,
    tree: &dyn Snapshot,
    most: usize,
) -> Result<SortedSetExcerpt, String> {
    excerpt_of(&mut TreeRows(tree), key, record, most).map_err(told)
}
