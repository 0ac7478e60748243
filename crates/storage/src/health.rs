//! Whether an engine may still write: after a failed write that leaves in doubt what reached the disk it may not.

use crate::{Error, Result};
use std::io::ErrorKind;
use std::sync::OnceLock;

/// See the module's words.
#[derive(Default)]
pub(crate) struct Health(OnceLock<String>);

impl Health {
    pub(crate) fn check(&self) -> Result<()> {
        match self.0.get() {
            Some(detail) => Err(Error::Poisoned { detail: detail.clone() }),
            None => Ok(()),
        }
    }

    pub(crate) fn poison(&self, detail: String) {
        if self.0.set(detail.clone()).is_ok() {
            log::error!("a tree is poisoned: {detail}");
        }
    }

    /// Poisons if `error` leaves in doubt what reached the disk, and hands it back. A full disk and a lack of
    /// descriptors or memory leave no doubt: the write did not happen and may be tried again.
    pub(crate) fn judge(&self, error: Error) -> Error {
        if let Error::Io { path, source } = &error {
            // Interrupted: by ourselves, when a node stops.
            let passing = source.kind() == ErrorKind::Interrupted
                || matches!(source.raw_os_error(), Some(EMFILE | ENFILE | ENOMEM));
            if !passing {
                self.poison(format!("{}: {source}", path.display()));
            }
        }
        error
    }

    /// The same for a write that reads nothing but what it has just written: damage is a failed write too.
    pub(crate) fn judge_write(&self, error: Error) -> Error {
        if let Error::Corrupt { .. } = &error {
            self.poison(error.to_string());
        }
        self.judge(error)
    }
}

const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
