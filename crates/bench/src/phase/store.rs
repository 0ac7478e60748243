//! Opens the embedded store of a run, in a directory that is kept or removed.

use std::io;

use tempfile::TempDir;

use crate::options::StoreOptions;
use crate::program::Program;
use crate::report::RUNS;
use crate::target::EmbeddedTarget;
use crate::trouble::Trouble;

/// An open embedded store. Fields drop in order: the store is closed before its directory goes.
pub(crate) struct OpenStore {
    pub(crate) target: EmbeddedTarget,
    _temporary: Option<TempDir>,
}

/// Opens what `options` ask for.
pub(crate) fn open(options: &StoreOptions, program: &Program<'_>) -> Result<OpenStore, Trouble> {
    let mut settings = Vec::new();
    for setting in &options.settings {
        let pair = setting.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, value) = pair.ok_or_else(|| Trouble::Usage(format!("--set {setting}: expected name=value")))?;
        settings.push((name.to_owned(), value.to_owned()));
    }
    let (dir, temporary) = match &options.data {
        Some(dir) => (dir.clone(), None),
        None => {
            let temporary = temporary_dir()?;
            (temporary.path().to_owned(), Some(temporary))
        }
    };
    let store = (program.open_store)(&dir, &settings)?;
    Ok(OpenStore { target: EmbeddedTarget::new(store), _temporary: temporary })
}

/// Among the runs, where the disk is more often a real one than where the system keeps temporary files.
fn temporary_dir() -> io::Result<TempDir> {
    let named = || tempfile::Builder::new().prefix("store-").tempdir_in(RUNS);
    std::fs::create_dir_all(RUNS).and_then(|()| named()).or_else(|_| tempfile::tempdir())
}
