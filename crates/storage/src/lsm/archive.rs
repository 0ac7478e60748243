//! The end of an archive, as lsm-tree writes tables, value files and manifests. Its reader believes the length of the
//! table of contents before it has checked it, and a damaged one makes it ask for more memory than there is, which
//! ends the process; so every file is checked here first.
//!
//! ```text
//! contents   "TOC!", sections (u32) × …
//! trailer    "SFA!", version (u8, 1), kind of checksum (u8, 0), xxh3-128 of the contents (u128),
//!            where they begin (u64), their length (u64)
//! ```
//! All numbers are little-endian.

use super::fault::translate;
use crate::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_128;

const TRAILER_BYTES: usize = 38;
const TRAILER_HEAD: &[u8; 6] = b"SFA!\x01\0";
/// Half a dozen sections with short names.
const CONTENTS_BYTES_MAX: u64 = 64 * 1024;

/// Checks that the table of contents of the archive at `path` is whole.
pub(super) fn check_contents(path: &Path) -> Result<()> {
    let failed = |error: std::io::Error| translate(path, error.into());
    let corrupt = || Error::Corrupt { path: path.to_path_buf(), detail: "its table of contents is damaged".into() };
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let trailer_at = length.checked_sub(TRAILER_BYTES as u64).ok_or_else(corrupt)?;
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, trailer_at).map_err(failed)?;
    let number = |at: usize| u64::from_le_bytes(trailer[at..at + 8].try_into().expect("8 bytes"));
    let (begin, contents_length) = (number(22), number(30));
    let fits = contents_length <= CONTENTS_BYTES_MAX && begin.checked_add(contents_length) == Some(trailer_at);
    if &trailer[..6] != TRAILER_HEAD || !fits {
        return Err(corrupt());
    }
    let mut contents = vec![0; contents_length as usize];
    file.read_exact_at(&mut contents, begin).map_err(failed)?;
    let sum = u128::from_le_bytes(trailer[6..22].try_into().expect("16 bytes"));
    if xxh3_128(&contents) == sum { Ok(()) } else { Err(corrupt()) }
}
