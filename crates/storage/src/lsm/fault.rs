//! What goes wrong inside lsm-tree, in our words.

use crate::files::system_error;
use crate::{Error, Result};
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Translates an error that concerns `path`. What the tree cannot parse is corruption.
pub(super) fn translate(path: &Path, error: lsm_tree::Error) -> Error {
    match error {
        // A file too short for what it should hold: a read past its end, or a seek before its beginning.
        lsm_tree::Error::Io(source) if matches!(source.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidInput) => {
            Error::Corrupt { path: path.to_path_buf(), detail: format!("cut short: {source}") }
        }
        lsm_tree::Error::Io(source) if source.kind() == ErrorKind::NotFound => {
            Error::Corrupt { path: path.to_path_buf(), detail: "missing".into() }
        }
        lsm_tree::Error::Io(source) => system_error(path, source),
        lsm_tree::Error::ChecksumMismatch { .. } => {
            Error::Corrupt { path: path.to_path_buf(), detail: "checksum mismatch".into() }
        }
        other => Error::Corrupt { path: path.to_path_buf(), detail: format!("{other:?}") },
    }
}

/// Runs something that writes the tree in `folder`, which has no readers yet: a panic in there costs only that tree.
pub(super) fn contain(folder: &Path, write: impl FnOnce() -> lsm_tree::Result<()>) -> Result<()> {
    match catch_unwind(AssertUnwindSafe(write)) {
        Ok(result) => result.map_err(|error| translate(folder, error)),
        Err(_) => Err(Error::Corrupt { path: folder.to_path_buf(), detail: "lsm-tree panicked".into() }),
    }
}
