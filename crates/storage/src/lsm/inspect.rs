//! A look at a tree that never writes to it.
//!
//! Opening a tree removes what its manifest does not know. So what is opened here is a folder of links, made of the
//! files that the manifest names; what lsm-tree writes or removes, it does there.

use super::generation::{Generation, read_pointer, tree_folder};
use super::manifest::Manifest;
use super::snapshot::LsmSnapshot;
use super::view::{View, read_applied, read_dropped};
use crate::files::system_error;
use crate::{EngineStats, Error, Result, SharedResources, Slice, Snapshot};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A tree that is only read.
pub(crate) struct LsmInspection {
    snapshot: LsmSnapshot,
    manifest: Manifest,
    /// Goes last: the view has files in it.
    _links: TempDir,
}

impl LsmInspection {
    /// Looks at the tree of the shard in `folder`; `None` if there is none.
    pub(crate) fn open(folder: &Path, shared: &Arc<SharedResources>) -> Result<Option<Self>> {
        let Some(number) = read_pointer(folder)? else { return Ok(None) };
        let tree = tree_folder(folder, number);
        // Links must lead to the files from wherever they are.
        let tree = fs::canonicalize(&tree).map_err(|error| system_error(&tree, error))?;
        let manifest = Manifest::read(&tree)?;
        let links =
            TempDir::with_prefix("basalt-inspect-").map_err(|error| system_error(&std::env::temp_dir(), error))?;
        let target = tree_folder(links.path(), number);
        link_all(&tree, &target, &manifest)?;
        let generation = Generation::open(links.path(), number, shared).map_err(home)?;
        let dropped = read_dropped(&View::of_files(generation.clone(), 0)).map_err(home)?;
        generation.dropped.store(Arc::new(dropped));
        let view = Arc::new(View::of_files(generation, 0));
        let index = read_applied(&view).map_err(home)?;
        let hold = view.active.hold(|| index);
        Ok(Some(Self { snapshot: LsmSnapshot::new(view, hold), manifest, _links: links }))
    }

    pub(crate) fn snapshot(&self) -> &dyn Snapshot {
        &self.snapshot
    }

    pub(crate) fn stats(&self) -> EngineStats {
        self.snapshot.view.stats()
    }

    pub(crate) fn meta(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.snapshot.view.meta(key, self.snapshot.index).map_err(home)
    }

    /// The manifest, then the tables and the value files.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let files = self.manifest.files.iter().map(|(path, _)| path.clone());
        std::iter::once(self.manifest.path.clone()).chain(files).collect()
    }

    pub(crate) fn verify(&self) -> Result<()> {
        self.manifest.verify()
    }
}

fn link_all(tree: &Path, target: &Path, manifest: &Manifest) -> Result<()> {
    for name in ["tables", "blobs"] {
        let folder = target.join(name);
        fs::create_dir_all(&folder).map_err(|error| system_error(&folder, error))?;
    }
    let pointer = tree.join("current");
    let all = manifest.files.iter().map(|(path, _)| path).chain([&manifest.path, &pointer]);
    for path in all {
        let name = path.strip_prefix(tree).expect("the manifest names files of its tree");
        symlink(path, target.join(name)).map_err(|error| system_error(path, error))?;
    }
    Ok(())
}

/// Names the file that a link stands for.
fn home(error: Error) -> Error {
    let real = |path: PathBuf| fs::read_link(&path).unwrap_or(path);
    match error {
        Error::Corrupt { path, detail } => Error::Corrupt { path: real(path), detail },
        Error::Io { path, source } => Error::Io { path: real(path), source },
        other => other,
    }
}
