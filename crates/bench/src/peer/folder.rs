//! Where the sources of adapters are, and where what is built of them goes.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

/// Names the folder `peers` of the source tree, where it is not found by itself.
pub(super) const PEERS_VARIABLE: &str = "BASALT_PEERS";
/// Names a folder for what is built and fetched.
const BUILT_VARIABLE: &str = "BASALT_PEERS_BUILT";
/// What the folder must hold.
const MARK: &str = "adapter-java/pom.xml";

/// The folder `peers` of the source tree: as told, here, or above this program.
pub(super) fn peers() -> io::Result<PathBuf> {
    let found = match env::var_os(PEERS_VARIABLE) {
        Some(told) => Some(PathBuf::from(told)),
        None => {
            let here = env::current_dir().ok();
            let program = env::current_exe().ok();
            let above = |path: Option<&Path>| {
                path.and_then(|path| path.ancestors().map(|dir| dir.join("peers")).find(|dir| is_it(dir)))
            };
            above(here.as_deref()).or_else(|| above(program.as_deref()))
        }
    };
    let found = found.filter(|dir| is_it(dir)).ok_or_else(|| {
        let text = format!(
            "the sources of the adapters are not here: set {PEERS_VARIABLE} to the folder `peers` of Basalt's source tree"
        );
        io::Error::new(io::ErrorKind::NotFound, text)
    })?;
    std::path::absolute(found)
}

fn is_it(dir: &Path) -> bool {
    dir.join(MARK).is_file()
}

/// A folder for what is built and fetched; it is made.
pub(super) fn built() -> io::Result<PathBuf> {
    let dir = match env::var_os(BUILT_VARIABLE) {
        Some(told) => PathBuf::from(told),
        None => peers()?.with_file_name("target").join("peers"),
    };
    std::fs::create_dir_all(&dir)?;
    std::path::absolute(dir)
}
