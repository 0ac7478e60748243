//! The mark that a forked tree holds rows which it does not want.
//!
//! ```text
//! <tree>/unwanted   "basalt unwanted 1\n<number>\n": tables up to that number may hold such rows
//! ```
//!
//! The file goes when no such table is left. It is a hint: without it, unwanted rows go as compaction meets them. With it,
//! compaction leaves the first level to the purge as long as it can: what is rewritten once need not be rewritten twice.

use crate::Result;
use crate::files::{replace_file, system_error};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

const FILE: &str = "unwanted";
const HEAD: &str = "basalt unwanted 1";
/// All tables that there are when compaction next looks: one that is being made may hold unwanted rows yet.
pub(super) const EVERYTHING: u64 = u64::MAX;

/// Tables up to number `last` of the tree in `folder` may hold unwanted rows.
pub(super) fn write_mark(folder: &Path, last: u64) -> Result<()> {
    replace_file(folder, FILE, format!("{HEAD}\n{last}\n").as_bytes())
}

/// What `write_mark` said of the tree in `folder`; a file that cannot be read says that all tables are to be looked at.
pub(super) fn read_mark(folder: &Path) -> Result<Option<u64>> {
    let path = folder.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let number = text.strip_prefix(HEAD).and_then(|rest| rest.trim().parse().ok());
            Ok(Some(number.unwrap_or(EVERYTHING)))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidData => Ok(Some(EVERYTHING)),
        Err(error) => Err(system_error(&path, error)),
    }
}

/// No table of the tree in `folder` holds unwanted rows any more.
pub(super) fn remove_mark(folder: &Path) -> Result<()> {
    let path = folder.join(FILE);
    fs::remove_file(&path).map_err(|error| system_error(&path, error))
}
