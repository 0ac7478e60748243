//! The functions that a node knows the store to have.

use arc_swap::ArcSwap;
use cluster::Map;
use node::Libraries;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::HashSet;
use std::sync::Arc;

/// The setting of the store that counts changes of functions.
pub(crate) const VERSION_SETTING: &str = "functions-version";

/// Libraries, as of one version.
#[derive(Default)]
pub(crate) struct VersionedLibraries {
    /// None: they have never been asked for.
    version: Option<u64>,
    pub(crate) libraries: Libraries,
    /// Functions that have written at this node: they do not begin as reads any more.
    writers: RwLock<HashSet<String>>,
}

impl VersionedLibraries {
    /// Whether a function has written at this node.
    pub(crate) fn writes(&self, function: &str) -> bool {
        self.writers.read().contains(function)
    }

    /// A function writes.
    pub(crate) fn note_writes(&self, function: &str) {
        self.writers.write().insert(function.to_owned());
    }
}

/// All libraries of the store as of the version that the map tells, once a client has asked for one.
#[derive(Default)]
pub(crate) struct KnownFunctions {
    libraries: ArcSwap<VersionedLibraries>,
    /// Held while the leader of the metadata group changes them.
    changing: Mutex<()>,
}

impl KnownFunctions {
    /// Their version, as the map tells.
    pub(crate) fn version_of(map: &Map) -> u64 {
        map.settings.get(VERSION_SETTING).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The libraries, if those of that version are known.
    pub(crate) fn of_version(&self, version: u64) -> Option<Arc<VersionedLibraries>> {
        let known = self.libraries.load_full();
        (known.version == Some(version)).then_some(known)
    }

    /// What is known, whichever version it is.
    pub(crate) fn newest(&self) -> Arc<VersionedLibraries> {
        self.libraries.load_full()
    }

    pub(crate) fn learn(&self, version: u64, libraries: Libraries) {
        let learned = VersionedLibraries { version: Some(version), libraries, writers: RwLock::default() };
        self.libraries.store(Arc::new(learned));
    }

    /// Only one change at a time.
    pub(crate) fn begin_change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }
}
