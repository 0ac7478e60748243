//! Where an export goes: a file that appears under its name when it is complete, or standard output.

use crate::whole_file::WholeFile;
use std::io::{BufWriter, IsTerminal, Write};
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
        let whole = WholeFile::begin(path).map_err(|e| named(&e))?;
        Ok(Self::File { whole, path: path.to_owned(), replaces })
    }

    /// What the keys are written to.
    pub(super) fn writer(&self) -> Result<Writer, String> {
        let output: Box<dyn Write + Send> = match self {
            Self::File { whole, path, .. } => {
                Box::new(whole.file().try_clone().map_err(|e| format!("{}: {e}", path.display()))?)
            }
            Self::Output => Box::new(std::io::stdout()),
        };
        Ok(BufWriter::with_capacity(BUFFER_BYTES, output))
    }

    /// Everything is written: it is there under its name, and survives a crash.
    pub(super) fn finish(self) -> Result<(), String> {
        let Self::File { whole, path, replaces } = self else { return Ok(()) };
        whole.finish(replaces).map_err(|e| format!("{}: {e}", path.display()))
    }
}
