//! Files that appear under their names when they are whole, and survive a crash then.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file in the making, beside the place where it will be. It is removed if it is dropped.
pub(crate) struct WholeFile {
    partial: NamedTempFile,
    folder: PathBuf,
    path: PathBuf,
}

impl WholeFile {
    /// Begins a file. Who runs this is the only one that may read it. A link stays one: the file that it leads to is meant.
    ///
    /// # Errors
    /// It cannot be written there, or what has the name is no file, such as a device: a file would take its place.
    pub(crate) fn begin(path: &Path) -> io::Result<Self> {
        let target = if path.is_symlink() { fs::canonicalize(path)? } else { path.to_owned() };
        let path = target.as_path();
        if path.exists() && !path.is_file() {
            return Err(io::Error::other("this is no regular file, and none takes its place"));
        }
        let name = path.file_name().ok_or_else(|| io::Error::other("this names no file"))?.to_string_lossy();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let partial = tempfile::Builder::new().prefix(&format!(".{name}.")).suffix(".partial").tempfile_in(folder)?;
        Ok(Self { partial, folder: folder.to_owned(), path: path.to_owned() })
    }

    /// What is written to.
    pub(crate) fn file(&self) -> &File {
        self.partial.as_file()
    }

    /// Everything is written: it is there under its name. `replaces`: in the place of one that was there, else there must be none.
    pub(crate) fn finish(self, replaces: bool) -> io::Result<()> {
        let Self { partial, folder, path } = self;
        partial.as_file().sync_all()?;
        if replaces {
            partial.persist(path)?
        } else {
            partial.persist_noclobber(path)?
        };
        File::open(folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write as _;
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_file_is_there_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let write = |text: &str| {
            let file = WholeFile::begin(&path).unwrap();
            file.file().write_all(text.as_bytes()).unwrap();
            file
        };
        drop(write("dropped"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        write("first").finish(false).unwrap();
        write("second").finish(false).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        write("third").finish(true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "third");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(WholeFile::begin(Path::new("/")).is_err());
    }

    #[test]
    fn a_link_and_what_is_no_file_stay_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "old").unwrap();
        symlink(at("file"), at("link")).unwrap();
        let whole = WholeFile::begin(&at("link")).unwrap();
        whole.file().write_all(b"new").unwrap();
        whole.finish(true).unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "new");
        let _socket = UnixListener::bind(at("socket")).unwrap();
        symlink(at("none"), at("nowhere")).unwrap();
        for name in ["socket", "nowhere", "."] {
            assert!(WholeFile::begin(&at(name)).is_err(), "{name}");
        }
        assert!(fs::symlink_metadata(at("socket")).unwrap().file_type().is_socket());
    }
}
