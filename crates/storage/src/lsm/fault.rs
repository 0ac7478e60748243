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

/// Whether a read was interrupted (EINTR): it is only to be made again.
pub(super) fn is_interrupted(error: &lsm_tree::Error) -> bool {
    matches!(error, lsm_tree::Error::Io(source) if source.kind() == ErrorKind::Interrupted)
}

/// Makes a read, and makes it again while it is interrupted (EINTR): lsm-tree does not.
pub(super) fn uninterrupted<T>(mut read: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match read() {
            Err(error) if error.is_interrupted() => {}
            done => return done,
        }
    }
}

/// Runs something that writes the tree in `folder`, which has no readers yet: a panic in there costs only that tree.
pub(super) fn contain(folder: &Path, write: impl FnOnce() -> lsm_tree::Result<()>) -> Result<()> {
    match catch_unwind(AssertUnwindSafe(write)) {
        Ok(result) => result.map_err(|error| translate(folder, error)),
        Err(_) => Err(Error::Corrupt { path: folder.to_path_buf(), detail: "lsm-tree panicked".into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_read_is_made_again_while_it_is_interrupted() {
        let io = |number| Err(Error::Io { path: "1.table".into(), source: io::Error::from_raw_os_error(number) });
        let (eintr, eio) = (4, 5);
        for (fails, reads) in [(&[][..], 1), (&[eintr, eintr], 3), (&[eio, eintr], 1), (&[eintr, eio], 2)] {
            let mut made = 0;
            let done = uninterrupted(|| {
                made += 1;
                fails.get(made - 1).map_or(Ok(made), |number| io(*number))
            });
            assert_eq!((made, done.is_ok()), (reads, !fails.contains(&eio)), "{fails:?}");
        }
    }
}
