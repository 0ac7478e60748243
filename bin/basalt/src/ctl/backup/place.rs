//! Where backups are kept: a directory, or a bucket of an S3-compatible store.

use super::bucket::S3;
use super::listed::Listed;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A place for backups, as an operator writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlaceUrl {
    /// A directory.
    Folder(PathBuf),
    /// `s3://bucket/prefix`.
    Bucket { bucket: String, prefix: String },
}

impl FromStr for PlaceUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix("s3://") else {
            if text.is_empty() || text.contains("://") {
                return Err(format!("`{text}` is neither a directory nor s3://BUCKET/PREFIX"));
            }
            return Ok(Self::Folder(PathBuf::from(text)));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(format!("`{text}` names no bucket: s3://BUCKET/PREFIX"));
        }
        Ok(Self::Bucket { bucket: bucket.to_owned(), prefix: prefix.trim_matches('/').to_owned() })
    }
}

impl fmt::Display for PlaceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Bucket { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

/// A place for backups, open. Names have `/` in them.
pub(crate) enum Place {
    Folder(PathBuf),
    Bucket(Box<S3>),
}

impl Place {
    pub(crate) fn open(url: &PlaceUrl) -> Result<Self, String> {
        match url {
            PlaceUrl::Folder(path) => Ok(Self::Folder(path.clone())),
            PlaceUrl::Bucket { bucket, prefix } => Ok(Self::Bucket(Box::new(S3::open(bucket, prefix)?))),
        }
    }

    /// Opens a place that is there: where backups are looked for, one that is missing is not an empty one.
    pub(crate) fn open_present(url: &PlaceUrl) -> Result<Self, String> {
        match url {
            PlaceUrl::Folder(path) if !path.is_dir() => Err(format!("{url}: there is no such directory")),
            _ => Self::open(url),
        }
    }

    /// Makes the place, if it is not there, and finds out whether it can be written. Where it is a directory, takes a lock
    /// on it, shared or alone, which is let go when the answer is dropped: who has it alone is the only one that writes.
    ///
    /// # Errors
    /// It cannot be written, or another process has a lock that excludes this one.
    pub(crate) fn prepare(&self, alone: bool) -> Result<Option<PlaceLock>, String> {
        match self {
            Self::Folder(root) => PlaceLock::take(root, alone).map(Some),
            Self::Bucket(bucket) => bucket.put(MARK, b"").map(|_| None),
        }
    }

    /// Keeps what is there from being removed while it is read, until the answer is dropped. A place that cannot be locked,
    /// such as a read-only medium, cannot be removed from either.
    ///
    /// # Errors
    /// Backups are being removed.
    pub(crate) fn hold(&self) -> Result<Option<PlaceLock>, String> {
        match self {
            Self::Folder(root) => PlaceLock::hold(root),
            Self::Bucket(_) => Ok(None),
        }
    }

    /// Keeps `bytes` under a name: wholly, or not at all. Answers the tag that the place gives the content.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<Option<String>, String> {
        match self {
            Self::Folder(root) => {
                let path = root.join(name);
                write_file(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
                Ok(None)
            }
            Self::Bucket(bucket) => bucket.put(name, bytes),
        }
    }

    /// What is kept under a name.
    pub(crate) fn get(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, String> {
        match self {
            Self::Folder(root) => {
                let path = root.join(name);
                let fail = |e: std::io::Error| format!("{}: {e}", path.display());
                let length = std::fs::metadata(&path).map_err(fail)?.len();
                if length > bytes_max {
                    return Err(format!("{}: {length} bytes are more than {bytes_max}", path.display()));
                }
                std::fs::read(&path).map_err(fail)
            }
            Self::Bucket(bucket) => bucket.get(name, bytes_max),
        }
    }

    /// The files below a folder.
    pub(crate) fn list(&self, folder: &str) -> Result<Vec<Listed>, String> {
        match self {
            Self::Folder(root) => {
                let path = root.join(folder);
                let entries = match std::fs::read_dir(&path) {
                    Ok(entries) => entries,
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
                    Err(e) => return Err(format!("{}: {e}", path.display())),
                };
                let named = |entry: std::io::Result<std::fs::DirEntry>| {
                    let entry = entry?;
                    let name = entry.file_name().to_string_lossy().into_owned();
                    Ok(Listed { name, bytes: entry.metadata()?.len(), tag: None })
                };
                let files: std::io::Result<Vec<_>> = entries.map(named).collect();
                let mut files = files.map_err(|e| format!("{}: {e}", path.display()))?;
                files.retain(|file| !file.name.ends_with(UNFINISHED));
                files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
                Ok(files)
            }
            Self::Bucket(bucket) => bucket.list(folder),
        }
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), String> {
        match self {
            Self::Folder(root) => {
                let path = root.join(name);
                std::fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))
            }
            Self::Bucket(bucket) => bucket.remove(name),
        }
    }

    /// Has what was removed from a folder stay away, whatever happens behind that.
    pub(crate) fn settle(&self, folder: &str) -> Result<(), String> {
        let Self::Folder(root) = self else { return Ok(()) };
        let path = root.join(folder);
        match File::open(&path).and_then(|folder| folder.sync_all()) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {e}", path.display())),
            _ => Ok(()),
        }
    }
}

const UNFINISHED: &str = ".unfinished";
/// In a bucket: shows that it can be written.
const MARK: &str = "writable";
/// In a directory: the file whose lock backups share.
const LOCK: &str = "lock";

/// A lock on a directory of backups.
pub(crate) struct PlaceLock(File);

impl PlaceLock {
    fn take(root: &Path, alone: bool) -> Result<Self, String> {
        let path = root.join(LOCK);
        let named = |e: std::io::Error| format!("{}: {e}", path.display());
        std::fs::create_dir_all(root).map_err(|e| format!("{}: {e}", root.display()))?;
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(named)?;
        match file.try_lock() {
            Ok(()) => {
                // No backup is being written, so what is unfinished will stay so.
                remove_unfinished(root)?;
                if !alone {
                    file.lock_shared().map_err(named)?;
                }
                Ok(Self(file))
            }
            Err(TryLockError::WouldBlock) if alone => Err(format!(
                "{}: another command takes, reads or removes backups in this place; try again later",
                root.display()
            )),
            Err(TryLockError::WouldBlock) => Self::shared(file, root),
            Err(TryLockError::Error(e)) => Err(named(e)),
        }
    }

    fn hold(root: &Path) -> Result<Option<Self>, String> {
        File::open(root.join(LOCK)).ok().map(|file| Self::shared(file, root)).transpose()
    }

    fn shared(file: File, root: &Path) -> Result<Self, String> {
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => {
                Err(format!("{}: backups are being removed from this place; try again later", root.display()))
            }
            // A file system without locks has none to respect.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Self(file)),
        }
    }
}

impl Drop for PlaceLock {
    fn drop(&mut self) {
        // Closing the file lets it go as well.
        let _ = self.0.unlock();
    }
}

/// Removes what a backup that was broken off was writing.
fn remove_unfinished(root: &Path) -> Result<(), String> {
    for folder in ["files", "backups"] {
        let folder = root.join(folder);
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
            if path.to_string_lossy().ends_with(UNFINISHED) {
                std::fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            }
        }
    }
    Ok(())
}

/// On the disk when it returns, under its name only if it is whole.
fn write_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    if !folder.is_dir() {
        // All data is in it, and what proves users' passwords.
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        // The folder's own name is to be on the disk too.
        folder.parent().map_or(Ok(()), |above| File::open(above)?.sync_all())?;
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!("-{}{UNFINISHED}", std::process::id()));
    let written = write_aside(Path::new(&aside), bytes).and_then(|()| std::fs::rename(&aside, path));
    if let Err(e) = written {
        // What was written of it takes room that the disk may lack.
        let _ = std::fs::remove_file(&aside);
        return Err(e);
    }
    File::open(folder)?.sync_all()
}

fn write_aside(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn places_as_they_are_written() {
        let bucket = |bucket: &str, prefix: &str| PlaceUrl::Bucket { bucket: bucket.into(), prefix: prefix.into() };
        for (text, place) in [
            ("backups", PlaceUrl::Folder("backups".into())),
            ("/var/backups", PlaceUrl::Folder("/var/backups".into())),
            ("s3://b", bucket("b", "")),
            ("s3://b/", bucket("b", "")),
            ("s3://b/a/c/", bucket("b", "a/c")),
        ] {
            assert_eq!(text.parse::<PlaceUrl>().unwrap(), place, "{text}");
        }
        for bad in ["", "s3://", "s3:///x", "gs://b/x"] {
            assert!(bad.parse::<PlaceUrl>().is_err(), "{bad}");
        }
    }
}
