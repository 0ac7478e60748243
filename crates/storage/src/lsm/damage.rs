//! What is known of the damage of a tree.
//!
//! To name a damaged file, all files of the tree are read. So the first damage that a rewrite meets is remembered, and
//! no other rewrite begins: it would meet the same file.

use crate::{Error, Result};
use std::path::PathBuf;
use std::sync::OnceLock;

/// The first damage that a rewrite of a tree has met.
#[derive(Default)]
pub(super) struct KnownDamage(OnceLock<DamagedFile>);

struct DamagedFile {
    path: PathBuf,
    detail: String,
}

impl KnownDamage {
    /// Fails with the damage that is known.
    pub(super) fn check(&self) -> Result<()> {
        match self.0.get() {
            Some(DamagedFile { path, detail }) => Err(Error::Corrupt { path: path.clone(), detail: detail.clone() }),
            None => Ok(()),
        }
    }

    /// Remembers `error` if it is damage, and the first, and hands it back.
    pub(super) fn note(&self, error: Error) -> Error {
        if let Error::Corrupt { path, detail } = &error {
            // An earlier one stays.
            let _ = self.0.set(DamagedFile { path: path.clone(), detail: detail.clone() });
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_damage_is_remembered_and_nothing_else_counts() {
        let known = KnownDamage::default();
        let corrupt = |detail: &str| Error::Corrupt { path: "tree-1/tables/7".into(), detail: detail.into() };
        let noted = known.note(Error::Full { path: "tree-1".into() });
        assert!(matches!(noted, Error::Full { .. }) && known.check().is_ok());
        for detail in ["missing", "checksum mismatch"] {
            let noted = known.note(corrupt(detail));
            assert_eq!(noted.to_string(), corrupt(detail).to_string());
            let error = known.check().expect_err("damage is known");
            assert_eq!(error.to_string(), corrupt("missing").to_string());
        }
    }
}
