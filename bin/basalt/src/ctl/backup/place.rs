//! Where backups are kept: a directory, or a bucket of an S3-compatible store.

use super::bucket::S3;
use std::fmt;
use std::io::Write;
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

    /// Keeps `bytes` under a name: wholly, or not at all.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        match self {
            Self::Folder(root) => {
                let path = root.join(name);
                write_file(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))
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

    /// The names below a folder, and how many bytes each has.
    pub(crate) fn list(&self, folder: &str) -> Result<Vec<(String, u64)>, String> {
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
                    Ok((entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len()))
                };
                let names: std::io::Result<Vec<_>> = entries.map(named).collect();
                let mut names = names.map_err(|e| format!("{}: {e}", path.display()))?;
                names.retain(|(name, _)| !name.ends_with(UNFINISHED));
                names.sort_unstable();
                Ok(names)
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
}

const UNFINISHED: &str = ".unfinished";

/// On the disk when it returns, under its name only if it is whole.
fn write_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!("-{}{UNFINISHED}", std::process::id()));
    let mut file = std::fs::File::create(&aside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&aside, path)?;
    std::fs::File::open(folder)?.sync_all()
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
