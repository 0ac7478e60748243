//! A node's map on its disk, as the server keeps it: a whole map, and the changes since.

use cluster::{Map, MapFiles, MapUpdate, MapWrite};
use std::sync::Arc;

/// The two files.
#[derive(Debug, Default)]
pub struct KeptMap {
    files: MapFiles,
    /// None: the node belongs to no store yet.
    whole: Option<Vec<u8>>,
    changes: Vec<u8>,
    /// What was kept last: the files have to say the same.
    newest: Option<Arc<Map>>,
}

impl KeptMap {
    /// Writes a newer map.
    pub fn keep(&mut self, update: &MapUpdate) {
        let write = self.files.write(update);
        self.files.written(&write, true);
        match write {
            MapWrite::Whole(bytes) => {
                self.whole = Some(bytes);
                self.changes.clear();
            }
            MapWrite::Append(bytes) => self.changes.extend_from_slice(&bytes),
        }
        self.newest = Some(update.map.clone());
    }

    /// The process begins anew, and reads what the files hold.
    #[must_use]
    pub fn start(&mut self) -> Option<Arc<Map>> {
        self.files = MapFiles::default();
        let map = MapFiles::read(self.whole.as_ref()?, &self.changes).expect("the map was kept whole");
        assert_eq!(Some(&map), self.newest.as_deref(), "a map that was kept is read as another one");
        Some(Arc::new(map))
    }
}
