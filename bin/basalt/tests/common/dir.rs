//! A folder of a test's own, below cargo's folder for such things: on the real disk, not in memory.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Removed when dropped, unless the test failed: then it is evidence.
pub struct Dir {
    path: PathBuf,
}

impl Dir {
    pub fn new(name: &str) -> Self {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        if std::thread::panicking() {
            super::announce(&format!("kept: {}", self.path.display()));
        } else {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Every file below `root` with its length and a hash of its bytes, in order.
pub fn tree_hash(root: &Path) -> Vec<(PathBuf, u64, u64)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            found.push((path.strip_prefix(root).unwrap().to_path_buf(), bytes.len() as u64, hasher.finish()));
        }
    }
    found.sort();
    found
}
