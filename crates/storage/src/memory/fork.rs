//! A map in memory that begins as another one is: the rows that are wanted, written to a file of its own.

use super::file::Writer;
use crate::files::create_folder;
use crate::{Keep, Result, Slice, Snapshot, Span};
use std::collections::BTreeMap;
use std::path::Path;

/// Writes the map of entry `index`, of the rows of `snapshot` that `keep` wants, to a new folder.
pub(super) fn write_fork(
    folder: &Path,
    index: u64,
    meta: &BTreeMap<Slice, Slice>,
    snapshot: &dyn Snapshot,
    keep: &Keep,
) -> Result<()> {
    create_folder(folder)?;
    let mut writer = Writer::create(folder, index)?;
    for (key, value) in meta {
        writer.meta(key, value)?;
    }
    let mut rows = snapshot.cursor(Span { start: Vec::new(), end: Vec::new() }, false);
    while let Some(key) = rows.advance()? {
        if keep(&key) {
            writer.row(&key, &rows.value()?)?;
        }
    }
    drop(rows);
    writer.finish()?.publish()
}
