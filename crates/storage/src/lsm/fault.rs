//! What goes wrong inside lsm-tree, in our words; and the poison after a failed write.

use crate::files::system_error;
use crate::{Error, Result};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::OnceLock;

/// Translates an error that concerns `path`. What the tree cannot parse is corruption.
pub(super) fn translate(path: &Path, error: lsm_tree::Error) -> Error {
    match error {
        lsm_tree::Error::Io(source) if source.kind() == ErrorKind::UnexpectedEof => {
            Error::Corrupt { path: path.to_path_buf(), detail: format!("cut short: {source}") }
        }
        lsm_tree::Error::Io(source) => system_error(path, source),
        lsm_tree::Error::ChecksumMismatch { .. } => {
            Error::Corrupt { path: path.to_path_buf(), detail: "checksum mismatch".into() }
        }
        other => Error::Corrupt { path: path.to_path_buf(), detail: format!("{other:?}") },
    }
}

/// Whether the engine may still write.
#[derive(Default)]
pub(super) struct Health(OnceLock<String>);

impl Health {
    pub(super) fn check(&self) -> Result<()> {
        match self.0.get() {
            Some(detail) => Err(Error::Poisoned { detail: detail.clone() }),
            None => Ok(()),
        }
    }

    pub(super) fn poison(&self, detail: String) {
        if self.0.set(detail.clone()).is_ok() {
            log::error!("a tree is poisoned: {detail}");
        }
    }

    /// Poisons if `error` leaves in doubt what reached the disk, and hands it back. A full disk and a lack of
    /// descriptors or memory leave no doubt: the write did not happen and may be tried again.
    pub(super) fn judge(&self, error: Error) -> Error {
        if let Error::Io { path, source } = &error {
            let passing = matches!(source.raw_os_error(), Some(EMFILE | ENFILE | ENOMEM | EINTR));
            if !passing {
                self.poison(format!("{}: {source}", path.display()));
            }
        }
        error
    }
}

const EINTR: i32 = 4;
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
