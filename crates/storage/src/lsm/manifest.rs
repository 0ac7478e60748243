//! Checks what lsm-tree takes on trust when it opens a tree.
//!
//! The tree's `current` file names the manifest and has its checksum, but lsm-tree does not compare it: a damaged
//! list of tables would make it remove the tables that it misses. So nothing is opened before this check.
//!
//! ```text
//! current     version (u64), xxh3-128 of the manifest (u128), kind of checksum (u8, 0)
//! v<version>  an archive; of its sections these are read here:
//!   tables      levels (u8) × (runs (u8) × (tables (u32) × (id (u64), kind (u8, 0), xxh3-128 (u128), index (u64))))
//!   blob_files  files (u32) × (id (u64), kind (u8, 0), xxh3-128 (u128))
//! ```
//! All numbers are little-endian.

use super::archive::check_contents;
use crate::files::{replace_file, system_error, verify_file};
use crate::{Error, Result};
use std::fs;
use std::io::{Cursor, ErrorKind};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

/// The files of a tree, as its manifest has them.
pub(super) struct Manifest {
    /// The manifest itself.
    pub(super) path: PathBuf,
    /// Tables and value files, with the checksum of each.
    pub(super) files: Vec<(PathBuf, u128)>,
}

impl Manifest {
    /// Reads and checks the manifest of the tree in `folder`, which must exist.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let current = folder.join("current");
        let pointer = read(&current)?;
        let (Some(version), Some(sum), 25) = (u64_at(&pointer, 0), u128_at(&pointer, 8), pointer.len()) else {
            return Err(corrupt(&current, "not 25 bytes"));
        };
        let path = folder.join(format!("v{version}"));
        let bytes = match read(&path) {
            // The pointer has no checksum of its own.
            Err(Error::Corrupt { .. }) => return Err(corrupt(&current, "names a manifest that does not exist")),
            other => other?,
        };
        if xxh3_128(&bytes) != sum || pointer[24] != 0 {
            return Err(corrupt(&path, "checksum mismatch (or in the file 'current' beside it)"));
        }
        let files = parse(folder, &bytes).ok_or_else(|| corrupt(&path, "malformed"))?;
        Ok(Self { path, files })
    }

    /// Checks of every file what its reader takes on trust: that it is there, and where its parts are.
    pub(super) fn check(&self) -> Result<()> {
        self.files.iter().try_for_each(|(path, _)| check_contents(path))
    }

    /// Reads every file whole; the first that is missing or damaged is the error.
    pub(super) fn verify(&self) -> Result<()> {
        self.files.iter().try_for_each(|(path, sum)| verify_file(path, *sum))
    }
}

/// Lets `current` name the manifest of that version, which is in use, durably.
pub(super) fn restore(folder: &Path, version: u64) -> Result<()> {
    let path = folder.join(format!("v{version}"));
    let bytes = read(&path)?;
    if parse(folder, &bytes).is_none() {
        return Err(corrupt(&path, "malformed"));
    }
    let pointer = [&version.to_le_bytes()[..], &xxh3_128(&bytes).to_le_bytes(), &[0]].concat();
    replace_file(folder, "current", &pointer)
}

fn parse(folder: &Path, bytes: &[u8]) -> Option<Vec<(PathBuf, u128)>> {
    let archive = sfa::Reader::from_reader(&mut Cursor::new(bytes)).ok()?;
    let section = |name: &[u8]| {
        let section = archive.toc().section(name)?;
        let (start, length) = (usize::try_from(section.pos()).ok()?, usize::try_from(section.len()).ok()?);
        Some(Fields(bytes.get(start..start.checked_add(length)?)?))
    };
    let mut files = Vec::new();
    let mut tables = section(b"tables")?;
    for _ in 0..tables.u8()? {
        for _ in 0..tables.u8()? {
            for _ in 0..tables.u32()? {
                let (id, sum) = tables.file()?;
                tables.take(8)?;
                files.push((folder.join("tables").join(id.to_string()), sum));
            }
        }
    }
    let mut blobs = section(b"blob_files")?;
    for _ in 0..blobs.u32()? {
        let (id, sum) = blobs.file()?;
        files.push((folder.join("blobs").join(id.to_string()), sum));
    }
    Some(files)
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn file(&mut self) -> Option<(u64, u128)> {
        let record = self.take(25)?;
        Some((u64_at(record, 0)?, u128_at(record, 9)?))
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    bytes.get(at..at + 16)?.try_into().ok().map(u128::from_le_bytes)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => corrupt(path, "missing"),
        _ => system_error(path, error),
    })
}

fn corrupt(path: &Path, detail: &str) -> Error {
    Error::Corrupt { path: path.to_path_buf(), detail: detail.into() }
}
