//! Some bytes of an open file.

use std::fs::File;
use std::sync::Arc;

/// Some bytes of a file.
pub struct Extent {
    /// The file, open.
    pub file: Arc<File>,
    /// Where they begin.
    pub offset: u64,
    /// How many they are; fewer where the file ends.
    pub bytes: usize,
    /// What offset and length are multiples of.
    pub grain: u64,
}
