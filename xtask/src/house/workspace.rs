//! All that the rules look at, read once.

use super::crates::{self, Crate};
use super::tree::{self, Breach, File};
use std::path::Path;

/// The workspace as the rules see it.
pub struct Workspace {
    /// Every file.
    pub files: Vec<File>,
    /// Every crate, without its tests.
    pub crates: Vec<Crate>,
    /// Rust that could not be read.
    pub unreadable: Vec<Breach>,
}

impl Workspace {
    /// Reads what lies below `root`.
    pub fn read(root: &Path) -> Result<Self, String> {
        tree::files(root).map(Self::of)
    }

    /// The workspace that these files are.
    pub fn of(files: Vec<File>) -> Self {
        let (crates, unreadable) = crates::read(&files);
        Self { files, crates, unreadable }
    }
}
