//! A tree that begins as another one is: files that never change have a name in both folders, so that nothing is copied,
//! and each tree forgets its name for a file when it needs it no more.
//!
//! ```text
//! <folder>/forking         empty; there until the pointer is
//! <folder>/tree-<number>/  current and the manifest are copies, all tables and value files have a second name here
//! ```
//!
//! Invariant: without a pointer, a folder with `forking` in it holds nothing: a fork that is made again begins anew.

use super::fault::{contain, translate};
use super::generation::{self, FORKING, Generation};
use super::manifest::Manifest;
use super::unwanted::EVERYTHING;
use crate::files::{create_folder, replace_file, sync_folder, system_error};
use crate::health::Health;
use crate::{Error, Result, SharedResources};
use lsm_tree::AbstractTree;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Makes another tree in `folder`, which has none, of the files of `parent`, which is flushed, and of what `stamp` writes.
pub(super) fn fork(
    parent: &Generation,
    folder: &Path,
    shared: &Arc<SharedResources>,
    health: &Health,
    stamp: impl FnOnce(&Generation) -> lsm_tree::Result<()>,
) -> Result<Arc<Generation>> {
    let begun = Instant::now();
    // Leftovers of a failed write are not removed meanwhile: what is linked may look like them.
    let _writing = parent.writing.read().expect("a panic while writing is not survived");
    create_folder(folder)?;
    if generation::read_pointer(folder)?.is_some() {
        let detail = "is to be made by a fork, and there is a map already".to_owned();
        return Err(Error::Mismatch { path: folder.to_path_buf(), detail });
    }
    generation::check_unused(folder)?;
    replace_file(folder, FORKING, b"")?;
    generation::remove_others(folder, 0)?;
    let child = Generation::create_with(folder, 0, shared, |tree| link_tree(parent, tree))?;
    let linked = begun.elapsed();
    contain(&child.folder, || stamp(&child)).map_err(|error| health.judge(error))?;
    // From here on both trees hold rows that they do not want.
    child.mark_unwanted(Some(child.table_ids().into_iter().max().unwrap_or(0)))?;
    parent.mark_unwanted(Some(EVERYTHING))?;
    child.spare();
    generation::write_pointer(folder, &child).inspect_err(|_| child.condemn())?;
    generation::end_fork(folder);
    log::debug!("{}: forked: linked and opened after {linked:?}, done after {:?}", folder.display(), begun.elapsed());
    Ok(child)
}

/// Gives all files of `parent`'s tree a second name in `folder`, durably.
fn link_tree(parent: &Generation, folder: &Path) -> Result<()> {
    let (tables, blobs) = (folder.join("tables"), folder.join("blobs"));
    for folder in [&tables, &blobs] {
        fs::create_dir(folder).map_err(|error| system_error(folder, error))?;
    }
    loop {
        // As long as a version is held, its files stay, whatever compaction does.
        let version = parent.index().current_version();
        let read = || -> Result<(Manifest, Vec<u8>)> {
            Ok((Manifest::read(&parent.folder)?, read_file(&parent.folder.join("current"))?))
        };
        let found = read();
        let same = found.as_ref().is_ok_and(|(manifest, _)| manifest.path.ends_with(format!("v{}", version.id())));
        if !same && (found.is_ok() || parent.index().current_version().id() != version.id()) {
            // It is being replaced.
            continue;
        }
        let (manifest, current) = found?;
        for (path, _) in &manifest.files {
            let name = path.file_name().expect("a table or a value file");
            let of_tables = path.parent().is_some_and(|parent| parent.ends_with("tables"));
            link(path, &if of_tables { &tables } else { &blobs }.join(name))?;
        }
        let name = manifest.path.file_name().expect("a manifest");
        write_file(&folder.join(name), &read_file(&manifest.path)?)?;
        write_file(&folder.join("current"), &current)?;
        return [&tables, &blobs, folder].into_iter().try_for_each(sync_folder);
    }
}

/// A second name for a file that never changes; on a file system that has no such thing, a copy.
fn link(from: &Path, to: &Path) -> Result<()> {
    let copied = |error: std::io::Error| match error.kind() {
        ErrorKind::Unsupported | ErrorKind::PermissionDenied | ErrorKind::TooManyLinks => {
            fs::copy(from, to).and_then(|_| File::open(to)?.sync_all())
        }
        _ => Err(error),
    };
    fs::hard_link(from, to).or_else(copied).map_err(|error| translate(from, error.into()))
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| translate(path, error.into()))
}

fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(content)?;
        file.sync_all()
    };
    write().map_err(|error| system_error(path, error))
}
