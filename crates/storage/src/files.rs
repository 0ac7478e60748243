//! Small durable files, and what the system's errors mean to a store.

use crate::{Error, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3Default;

/// An error of the system at `path`, told apart as the store must treat it.
pub(crate) fn system_error(path: &Path, source: io::Error) -> Error {
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            Error::Full { path: path.to_path_buf() }
        }
        _ => Error::Io { path: path.to_path_buf(), source },
    }
}

/// Opens a file to be read past the page cache.
pub(crate) fn open_direct(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    // Who does not own the file has the time of each read noted.
    let file = match rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::open(path, flags, Mode::empty())?,
        opened => opened?,
    };
    Ok(file.into())
}

/// Opens a file to be read and written past the page cache.
///
/// # Errors
/// The system's; `InvalidInput` where the file system knows no such way.
pub fn open_direct_to_write(path: &Path) -> io::Result<File> {
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Makes the entries of a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(|error| system_error(folder, error))
}

/// Writes a small file whole or not at all: a crash leaves the old one or the new one. After a passing error (see
/// `Error::is_passing`) it is the old one.
pub(crate) fn replace_file(folder: &Path, name: &str, content: &[u8]) -> Result<()> {
    let temporary = folder.join(format!("{name}.new"));
    // Opened before anything is replaced: a lack of descriptors leaves the old file.
    let entries = File::open(folder).map_err(|error| system_error(folder, error))?;
    make_file(&temporary, content)?;
    take_place(&temporary, folder, &entries, name).inspect_err(|_| _ = fs::remove_file(&temporary))
}

/// Makes a file with that content, durably: all but its name in its folder.
pub(crate) fn make_file(path: &Path, content: &[u8]) -> Result<()> {
    let write = || -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(content)?;
        file.sync_all()
    };
    write().map_err(|error| {
        // What is left is overwritten next time; it only takes room.
        let _ = fs::remove_file(path);
        system_error(path, error)
    })
}

/// Puts the file `made`, which is durable, in the place of `name`, durably. No room on the disk is needed for that. After a
/// passing error it may be called again.
pub(crate) fn put_in_place(made: &Path, folder: &Path, name: &str) -> Result<()> {
    let entries = File::open(folder).map_err(|error| system_error(folder, error))?;
    take_place(made, folder, &entries, name)
}

fn take_place(made: &Path, folder: &Path, entries: &File, name: &str) -> Result<()> {
    fs::rename(made, folder.join(name)).map_err(|error| system_error(&folder.join(name), error))?;
    // Whatever the reason, whether the new name is on the disk is in doubt now.
    let in_doubt = |error: io::Error| io::Error::other(format!("its entries cannot be made durable: {error}"));
    entries.sync_all().map_err(|error| system_error(folder, in_doubt(error)))
}

/// Reads a file whole; its xxh3-128 must be `sum`.
pub(crate) fn verify_file(path: &Path, sum: u128) -> Result<()> {
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => Error::Corrupt { path: path.to_path_buf(), detail: "missing".into() },
        _ => system_error(path, error),
    };
    let mut file = File::open(path).map_err(failed)?;
    let mut hasher = Xxh3Default::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let length = file.read(&mut buffer).map_err(failed)?;
        if length == 0 {
            break;
        }
        hasher.update(&buffer[..length]);
    }
    if hasher.digest128() == sum {
        return Ok(());
    }
    Err(Error::Corrupt { path: path.to_path_buf(), detail: "checksum mismatch".into() })
}

/// Creates a folder and makes it durable in its parent.
pub(crate) fn create_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(|error| system_error(folder, error))?;
    match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_folder(parent),
        _ => Ok(()),
    }
}
