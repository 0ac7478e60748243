//! The elements of a list, read from a tree that no shard has opened.

use super::told::told;
use crate::Record;
use crate::command::Error;
use crate::command::list::{List, Side};
use crate::space::tree_rows::TreeRows;
use storage::Snapshot;

/// The first elements of the list whose record is at `key`, at most `most`, and how many there are. The error says what is
/// wrong.
pub fn list_elements(
    key: &[u8],
    record: &Record,
    tree: &dyn Snapshot,
    most: usize,
) -> Result<(Vec<Vec<u8>>, u64), String> {
    let read = || -> Result<_, Error> {
        let (list, mut rows) = (List::of(key, record.clone())?, TreeRows(tree));
        let (count, mut elements) = (list.count()?, Vec::new());
        let mut walk = list.walk(0, count.min(most as u64), Side::Left);
        while !walk.is_over() {
            walk.step(&list, &mut rows, |_, element| {
                elements.push(element.to_vec());
                Ok(true)
            })?;
        }
        Ok((elements, count))
    };
    read().map_err(told)
}
