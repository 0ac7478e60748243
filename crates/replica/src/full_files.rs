//! Log files that are full, whose pages the kernel may still have: raft-engine uses such files again, and a write past the page
//! cache first has to drop the pages that it goes over, which is a fifth of what it costs the processor.

use parking_lot::Mutex;
use rustix::fs::{Advice, fadvise};
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};

/// More files than a log has as a rule. Of more, the oldest are not remembered: they are slower to write over, and no more.
const FILES_MAX: usize = 64;

/// Which they are.
#[derive(Debug, Default)]
pub(crate) struct FullFiles(Mutex<VecDeque<PathBuf>>);

impl FullFiles {
    /// This one may have pages. It has been fsynced.
    pub(crate) fn add(&self, path: &Path) {
        let mut files = self.0.lock();
        if files.len() == FILES_MAX {
            files.pop_front();
        }
        files.push_back(path.to_owned());
    }

    /// Has the kernel drop their pages.
    pub(crate) fn drop_pages(&self) {
        let files = std::mem::take(&mut *self.0.lock());
        // What was removed or renamed since has its pages; it is a hint.
        for file in files.iter().filter_map(|path| File::open(path).ok()) {
            let _ = fadvise(file, 0, None, Advice::DontNeed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FILES_MAX, FullFiles};
    use std::path::Path;

    #[test]
    fn so_many_are_remembered_and_each_until_its_pages_are_dropped() {
        let files = FullFiles::default();
        (0..FILES_MAX + 5).for_each(|n| files.add(Path::new(&format!("removed since {n}"))));
        let known = || files.0.lock().clone();
        assert_eq!(
            (known().len(), known().front().map(|path| path.ends_with("removed since 5"))),
            (FILES_MAX, Some(true))
        );
        files.drop_pages();
        assert!(known().is_empty());
    }
}
