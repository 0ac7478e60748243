//! Whether an engine may still write: after a failed write that leaves in doubt what reached the disk it may not.

use crate::{Error, Result};
use std::sync::OnceLock;

/// Set once a failed write leaves in doubt what reached the disk.
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

    /// Poisons if `error` leaves in doubt what reached the disk, and hands it back. A full disk and a
    /// passing lack of descriptors or memory leave no doubt: the write did not happen and may be tried again.
    pub(crate) fn judge(&self, error: Error) -> Error {
        if let Error::Io { path, source } = &error
            && !error.is_passing()
        {
            self.poison(format!("{}: {source}", path.display()));
        }
        error
    }

    /// The same for a write that reads only what it has just written: there damage counts as a failed write.
    pub(crate) fn judge_write(&self, error: Error) -> Error {
        if let Error::Corrupt { .. } = &error {
            self.poison(error.to_string());
        }
        self.judge(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, ErrorKind};
    use std::path::PathBuf;

    #[test]
    fn what_the_process_lacks_for_a_moment_does_not_poison() {
        let (passing, lasting) = ([4, 11, 12, 23, 24], [5, 9, 13, 30]);
        for code in passing.into_iter().chain(lasting) {
            let health = Health::default();
            let error = Error::Io { path: PathBuf::from("x"), source: io::Error::from_raw_os_error(code) };
            let error = health.judge_write(error);
            assert_eq!(
                (error.is_passing(), health.check().is_ok()),
                (passing.contains(&code), passing.contains(&code))
            );
        }
        let interrupted = Error::Io { path: PathBuf::from("x"), source: ErrorKind::Interrupted.into() };
        assert!(interrupted.is_passing() && !Error::Full { path: PathBuf::new() }.is_passing());
    }
}
