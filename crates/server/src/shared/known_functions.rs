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
    changing: Mutex<CountedChange>,
}

/// The last change that this node has made as the leader of the metadata group, and that its version counts.
#[derive(Default)]
pub(crate) struct CountedChange {
    /// The version, and the libraries as they are stored.
    made: Option<(u64, Vec<u8>)>,
}

impl CountedChange {
    /// Whether all nodes with a map of that version know these libraries, or ask for them.
    pub(crate) fn is(&self, version: u64, encoded: &[u8]) -> bool {
        self.made.as_ref().is_some_and(|(counted, libraries)| *counted == version && libraries == encoded)
    }

    /// A change begins: it may be written and not be counted.
    pub(crate) fn forget(&mut self) {
        self.made = None;
    }

    /// It is written and counted.
    pub(crate) fn note(&mut self, version: u64, encoded: &[u8]) {
        self.made = Some((version, encoded.to_vec()));
    }
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
    pub(crate) fn begin_change(&self) -> MutexGuard<'_, CountedChange> {
        self.changing.lock()
    }
}
