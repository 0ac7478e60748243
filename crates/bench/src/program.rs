//! What the laboratory needs from the program that it is part of.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::driver::EventLog;
use crate::suite_stores::Stores;
use crate::target::EmbeddedStore;

/// Opens an embedded store in a directory, with settings as name and value.
pub type OpenStore = dyn Fn(&std::path::Path, &[(String, String)]) -> io::Result<Arc<dyn EmbeddedStore>>;

/// What the laboratory needs from the program that it is part of.
pub struct Program<'a> {
    /// Its version.
    pub version: &'a str,
    /// The commit that it was built from, when known.
    pub commit: Option<&'a str>,
    /// Opens an embedded store in a directory, with settings as `name=value`.
    pub open_store: &'a OpenStore,
    /// Starts stores of several nodes, for suites.
    pub stores: &'a dyn Stores,
    /// Set when the user wants the run to end.
    pub stop: &'a AtomicBool,
    /// What the program does to the store meanwhile: marks in the charts of the phase that it falls into.
    pub events: EventLog,
}
