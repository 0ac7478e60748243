//! What storage can fail with.

use std::fmt;
use std::path::PathBuf;
use vocab::is_shortage;

/// What storage can fail with. None of these may be answered as "not found".
#[derive(Debug)]
pub enum Error {
    /// The operating system refused; names the file or folder.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No room on the device: writes are refused, reads go on, and it heals by itself when there is room.
    Full {
        /// The folder that is full.
        path: PathBuf,
    },
    /// A checksum does not match or a structure cannot be parsed; names the file where it can be told.
    Corrupt {
        /// The file or folder.
        path: PathBuf,
        /// What was wrong.
        detail: String,
    },
    /// The folder holds something else than what it was opened as.
    Mismatch {
        /// The folder.
        path: PathBuf,
        /// What it holds.
        detail: String,
    },
    /// An fsync failed: nothing more is written until restart.
    Poisoned {
        /// What failed.
        detail: String,
    },
    /// A scan that was to pass over few removals has met more.
    ManyRemovals,
}

/// The result of a storage call.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Full { path } => write!(f, "no space left on the device of {}", path.display()),
            Self::Corrupt { path, detail } => write!(f, "corrupt data in {}: {detail}", path.display()),
            Self::Mismatch { path, detail } => write!(f, "{} {detail}", path.display()),
            Self::ManyRemovals => f.write_str("a scan has met more removals than it was to pass over"),
            Self::Poisoned { detail } => write!(f, "the store is poisoned until restart: {detail}"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// Whether the process lacked something for a moment (descriptors, memory) or was interrupted: nothing was written,
    /// nothing is in doubt, and it may be tried again. This says nothing about the disk.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_shortage(source))
    }

    /// Whether a call was interrupted: there is nothing to wait for, it is only to be made again.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::Interrupted)
    }

    /// Whether another thread has to get on first: nothing lacks, and it is only to be tried again later.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        // Not what the system said: EAGAIN tells of a shortage.
        matches!(self, Self::Io { source, .. }
            if source.kind() == std::io::ErrorKind::WouldBlock && source.raw_os_error().is_none())
    }

    /// Whether room, descriptors or memory lacked: nothing was written, and it may be tried again once there are some.
    #[must_use]
    pub fn is_lack(&self) -> bool {
        self.is_passing() || matches!(self, Self::Full { .. })
    }
}
