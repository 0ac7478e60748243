//! Where an export goes: a file that appears under its name when it is complete, a device or pipe, or standard output.

use crate::whole_file::WholeFile;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 1 << 20;

/// What is written to.
pub(super) type Writer = BufWriter<Box<dyn Write + Send>>;

/// Where an export goes.
pub(super) enum Place {
    File {
        /// Removed if the export fails.
        whole: WholeFile,
        path: PathBuf,
        /// Whether a file that is there is replaced.
        replaces: bool,
    },
    /// A device or a pipe, which is written to as it is.
    Device {
        file: File,
        path: PathBuf,
    },
    Output,
}

impl Place {
    /// Finds out whether the export can be written there.
    pub(super) fn open(path: &Path, replaces: bool) -> Result<Self, String> {
        if path == Path::new("-") {
            let is_terminal = std::io::stdout().is_terminal();
            return if is_terminal {
                Err("standard output is a terminal: name a file".to_owned())
            } else {
                Ok(Self::Output)
            };
        }
        let named = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let there = || named(&"it is there already; --force replaces it");
        match fs::metadata(path).map(|found| found.file_type()) {
            Ok(kind) if kind.is_dir() => return Err(named(&"this is a directory")),
            Ok(kind) if (kind.is_file() || kind.is_block_device()) && !replaces => return Err(there()),
            Ok(kind) if !kind.is_file() => {
                let file = OpenOptions::new().write(true).open(path).map_err(|e| named(&e))?;
                return Ok(Self::Device { file, path: path.to_owned() });
            }
            // Where it cannot be looked at, it cannot be written either.
            Ok(_) | Err(_) => {}
        }
        let whole = WholeFile::begin(path).map_err(|e| named(&e))?;
        Ok(Self::File { whole, path: path.to_owned(), replaces })
    }

    /// What the keys are written to.
    pub(super) fn writer(&self) -> Result<Writer, String> {
        let output: Box<dyn Write + Send> = match self {
            Self::File { whole, path, .. } => {
                Box::new(whole.file().try_clone().map_err(|e| format!("{}: {e}", path.display()))?)
            }
            Self::Device { file, path } => Box::new(file.try_clone().map_err(|e| format!("{}: {e}", path.display()))?),
            Self::Output => Box::new(std::io::stdout()),
        };
        Ok(BufWriter::with_capacity(BUFFER_BYTES, output))
    }

    /// Everything is written: it is there under its name, and survives a crash.
    pub(super) fn finish(self) -> Result<(), String> {
        let (path, done) = match self {
            Self::File { whole, path, replaces } => (path, whole.finish(replaces)),
            // What has no disk below it cannot be synced.
            Self::Device { file, path } => {
                let synced = file.sync_all();
                (path, synced.or_else(|e| if e.kind() == ErrorKind::InvalidInput { Ok(()) } else { Err(e) }))
            }
            Self::Output => return Ok(()),
        };
        done.map_err(|e| format!("{}: {e}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_no_file_is_written_to_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("/dev/null", &link).unwrap();
        for path in [Path::new("/dev/null"), &link] {
            let place = Place::open(path, true).unwrap();
            assert!(matches!(place, Place::Device { .. }), "{}", path.display());
            let mut writer = place.writer().unwrap();
            writer.write_all(b"keys").unwrap();
            writer.flush().unwrap();
            place.finish().unwrap();
        }
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let mut full = Place::open(Path::new("/dev/full"), false).unwrap().writer().unwrap();
        full.write_all(b"keys").unwrap();
        assert_eq!(full.flush().unwrap_err().kind(), ErrorKind::StorageFull);
        drop(full.into_parts());
        let file = folder.path().join("file");
        fs::write(&file, "old").unwrap();
        let refused = Place::open(&file, false).err().unwrap();
        assert!(refused.contains("--force"), "{refused}");
        assert!(Place::open(folder.path(), true).err().unwrap().contains("directory"));
    }
}
