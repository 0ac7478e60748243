//! What every measurement needs.

use super::options::Options;
use std::path::PathBuf;

/// What every measurement needs.
pub struct Bench {
    /// What was asked for.
    pub options: Options,
    /// The optimised binary.
    pub basalt: PathBuf,
    /// The workspace.
    pub root: PathBuf,
    /// Where data goes: on the disk that the workspace is on.
    pub folder: PathBuf,
}

impl Bench {
    /// An empty folder for one side's data.
    pub fn empty_folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.folder.join(name);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("{}: {error}", folder.display()));
            }
            _ => {}
        }
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// Removes what folders hold.
    pub fn empty_folders(&self, names: &[&str]) -> Result<(), String> {
        names.iter().try_for_each(|name| self.empty_folder(name).map(drop))
    }
}
