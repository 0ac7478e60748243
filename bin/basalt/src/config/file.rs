//! What a configuration file says.

use super::given::Given;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Something that a file says and that is not a setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The file.
    pub path: Arc<Path>,
    /// The line, from 1.
    pub line: usize,
    /// What is to be said about it.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.text)
    }
}

/// What a file says.
#[derive(Debug, Default)]
pub struct FileSettings {
    /// Values, in the order of the file.
    pub given: Vec<Given>,
    /// What has no effect here, or another than in Redis: the file can be used.
    pub warnings: Vec<Note>,
    /// What is wrong: the file cannot be used.
    pub errors: Vec<Note>,
}
