//! Where an export goes: a file that appears under its name when it is complete, or standard output.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

const BUFFER_BYTES: usize = 1 << 20;

/// What is written to.
pub(super) type Writer = BufWriter<Box<dyn Write + Send>>;

/// Where an export goes.
pub(super) enum Place {
    File {
        /// Beside it, under another name; removed if the export fails.
        partial: NamedTempFile,
        path: PathBuf,
        /// Whether a file that is there is replaced.
        replaces: bool,
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
        if path.is_dir() {
            return Err(named(&"this is a directory"));
        }
        if path.exists() && !replaces {
            return Err(named(&"it is there already; --force replaces it"));
        }
        let name = path.file_name().ok_or_else(|| named(&"this names no file"))?.to_string_lossy().into_owned();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let partial = tempfile::Builder::new().prefix(&format!(".{name}.")).suffix(".partial").tempfile_in(folder);
        let partial = partial.map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(Self::File { partial, path: path.to_owned(), replaces })
    }

    /// What the keys are written to.
    pub(super) fn writer(&self) -> Result<Writer, String> {
        let output: Box<dyn Write + Send> = match self {
            Self::File { partial, path, .. } => {
                Box::new(partial.as_file().try_clone().map_err(|e| format!("{}: {e}", path.display()))?)
            }
            Self::Output => Box::new(std::io::stdout()),
        };
        Ok(BufWriter::with_capacity(BUFFER_BYTES, output))
    }

    /// Everything is written: it is there under its name, and survives a crash.
    pub(super) fn finish(self) -> Result<(), String> {
        let Self::File { partial, path, replaces } = self else { return Ok(()) };
        let named = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        partial.as_file().sync_all().map_err(|e| named(&e))?;
        if replaces {
            partial.persist(&path).map_err(|e| named(&e.error))?;
        } else {
            partial.persist_noclobber(&path).map_err(|e| named(&e.error))?;
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| named(&e))
    }
}
