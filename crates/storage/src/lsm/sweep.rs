//! Removes what a failed flush or compaction left half-written.
//!
//! A file is rubbish if neither the tree nor any view that a reader still holds knows it. That can be told only while
//! nothing is being written. Files go by their folder's name and their own: lsm-tree has absolute paths, and the tree's
//! folder may be spelled in another way.

use super::generation::Generation;
use super::view::View;
use lsm_tree::AbstractTree;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

/// The views that were published and may still be held.
#[derive(Default)]
pub(super) struct Views(Mutex<Vec<Weak<View>>>);

impl Views {
    pub(super) fn add(&self, view: &Arc<View>) {
        let mut views = self.0.lock().expect("nothing panics while it is held");
        views.retain(|one| one.strong_count() > 0);
        views.push(Arc::downgrade(view));
    }

    fn files(&self) -> HashSet<Name> {
        let views: Vec<_> =
            self.0.lock().expect("nothing panics while it is held").iter().filter_map(Weak::upgrade).collect();
        let tables = views.iter().flat_map(|view| view.tables()).map(|table| name_of(&table.path));
        let blobs = views.iter().flat_map(|view| view.blob_files()).map(|file| name_of(file.path()));
        tables.chain(blobs).collect()
    }
}

/// A file's folder and its own name.
type Name = (OsString, OsString);

fn name_of(path: &Path) -> Name {
    let name = |path: Option<&Path>| path.and_then(Path::file_name).unwrap_or_default().to_owned();
    (name(path.parent()), name(Some(path)))
}

/// Removes rubbish if there may be some and nothing is being written; else leaves it for the next call.
pub(super) fn sweep(generation: &Generation, views: &Views) {
    if !generation.littered.load(Ordering::Acquire) {
        return;
    }
    let Ok(_exclusive) = generation.writing.try_write() else { return };
    let mut known = views.files();
    let version = generation.index().current_version();
    known.extend(version.iter_tables().map(|table| name_of(&table.path)));
    known.extend(version.blob_files.iter().map(|file| name_of(file.path())));
    let mut removed = 0;
    let mut folders = ["tables", "blobs"].iter().map(|name| generation.folder.join(name));
    let swept = folders.all(|folder| remove_unknown(&folder, &known, &mut removed));
    // A disk that stays full makes the same litter several times a second.
    if removed > 0 && !generation.litter_told.swap(true, Ordering::Relaxed) {
        log::info!("{}: files that a failed write left behind are removed", generation.folder.display());
    }
    if swept {
        generation.littered.store(false, Ordering::Release);
    }
}

/// Counts the files that it removes; true if none is left.
fn remove_unknown(folder: &Path, known: &HashSet<Name>, removed: &mut usize) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    for entry in entries {
        let Ok(entry) = entry else { return false };
        let path = entry.path();
        if !known.contains(&name_of(&path)) {
            if fs::remove_file(&path).is_err() {
                return false;
            }
            *removed += 1;
        }
    }
    true
}
