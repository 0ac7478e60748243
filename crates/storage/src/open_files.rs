//! Files and folders that this process holds by their path.
//!
//! Why: a reader may outlive the engine that it read from, and what it reads is removed when the last one lets go. By
//! then another engine may have opened the same folder: it must not give such a path to something new, nor sweep it away.
//!
//! Invariant: a condemned path is removed once, when the last hold on it ends, and is claimed again only after that.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

static PATHS: Mutex<BTreeMap<PathBuf, PathState>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct PathState {
    holds: usize,
    condemned: bool,
}

/// A hold on a path.
pub(crate) struct OpenPath {
    key: PathBuf,
}

impl OpenPath {
    /// Holds something that is to stay, whatever was said of it before.
    pub(crate) fn hold(path: &Path) -> Self {
        let key = key_of(path);
        let mut paths = paths();
        let state = paths.entry(key.clone()).or_default();
        state.holds += 1;
        state.condemned = false;
        drop(paths);
        Self { key }
    }

    /// Holds the first of `candidates` that is not held, and condemns it until it is spared.
    pub(crate) fn claim(mut candidates: impl Iterator<Item = PathBuf>) -> (Self, PathBuf) {
        let mut paths = paths();
        let path = candidates.find(|path| !paths.contains_key(&key_of(path))).expect("candidates do not end");
        let key = key_of(&path);
        paths.insert(key.clone(), PathState { holds: 1, condemned: true });
        drop(paths);
        (Self { key }, path)
    }

    /// What it stands for goes with the last hold.
    pub(crate) fn condemn(&self) {
        self.set_condemned(true);
    }

    /// What it stands for stays.
    pub(crate) fn spare(&self) {
        self.set_condemned(false);
    }

    fn set_condemned(&self, condemned: bool) {
        paths().get_mut(&self.key).expect("a path is known while it is held").condemned = condemned;
    }
}

impl Drop for OpenPath {
    fn drop(&mut self) {
        let mut paths = paths();
        let state = paths.get_mut(&self.key).expect("a path is known while it is held");
        state.holds -= 1;
        if state.holds > 0 {
            return;
        }
        if state.condemned {
            // It stays known until it is gone, so that it is not claimed meanwhile.
            drop(paths);
            if let Err(error) = remove(&self.key) {
                log::warn!("{}: cannot be removed now, will be at the next start: {error}", self.key.display());
            }
            paths = self::paths();
        }
        paths.remove(&self.key);
    }
}

/// Removes a file or a folder: now, or when the last hold on it ends.
pub(crate) fn remove_or_condemn(path: &Path) -> std::io::Result<()> {
    if let Some(state) = paths().get_mut(&key_of(path)) {
        state.condemned = true;
        return Ok(());
    }
    remove(path)
}

fn remove(path: &Path) -> std::io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn paths() -> MutexGuard<'static, BTreeMap<PathBuf, PathState>> {
    PATHS.lock().expect("nothing panics while it is held")
}

/// One spelling a path, as far as that can be had without asking the system.
fn key_of(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_condemned_folder_goes_with_its_last_hold_and_is_not_claimed_before() {
        let folder = tempfile::tempdir().unwrap();
        let candidates = || (1..).map(|i| folder.path().join(format!("tree-{i}")));
        let (first, path) = OpenPath::claim(candidates());
        assert_eq!(path, folder.path().join("tree-1"));
        fs::create_dir(&path).unwrap();
        first.spare();
        let again = OpenPath::hold(&path);
        let (second, other) = OpenPath::claim(candidates());
        assert_eq!(other, folder.path().join("tree-2"));
        first.condemn();
        drop(first);
        assert!(path.exists());
        drop(again);
        assert!(!path.exists());
        assert_eq!(OpenPath::claim(candidates()).1, path);
        // What never came to be leaves no trace.
        drop(second);
        fs::create_dir(&path).unwrap();
        let kept = OpenPath::hold(&path);
        remove_or_condemn(&path).unwrap();
        assert!(path.exists());
        kept.spare();
        drop(kept);
        assert!(path.exists());
        remove_or_condemn(&path).unwrap();
        assert!(!path.exists());
    }
}
