//! All backups of a place: those that can be read, and those that cannot, each with the reason. One that is torn hides no
//! other.

use super::manifest::{Manifest, Unreadable};
use super::place::Place;

/// One backup of a place.
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) manifest: Result<Manifest, Unreadable>,
}

/// The backups of a place, oldest first.
pub(crate) struct Catalog {
    pub(crate) entries: Vec<Entry>,
}

impl Catalog {
    /// Reads every manifest.
    ///
    /// # Errors
    /// The place cannot be listed.
    pub(crate) fn read(place: &Place) -> Result<Self, String> {
        let ids = Manifest::list(place)?;
        let read = |id: String| Entry { manifest: Manifest::read(place, &id), id };
        Ok(Self { entries: ids.into_iter().map(read).collect() })
    }

    /// The newest that can be read; those before it are left alone.
    ///
    /// # Errors
    /// The place cannot be listed.
    pub(crate) fn newest(place: &Place) -> Result<Option<Manifest>, String> {
        let ids = Manifest::list(place)?;
        Ok(ids.iter().rev().find_map(|id| Manifest::read(place, id).ok()))
    }

    /// Those that can be read, oldest first.
    pub(crate) fn readable(&self) -> impl DoubleEndedIterator<Item = &Manifest> {
        self.entries.iter().filter_map(|entry| entry.manifest.as_ref().ok())
    }

    /// Those that cannot, and why.
    pub(crate) fn unreadable(&self) -> impl Iterator<Item = (&str, &Unreadable)> {
        self.entries.iter().filter_map(|entry| Some((entry.id.as_str(), entry.manifest.as_ref().err()?)))
    }

    /// The backup of that name, or else the newest that can be read.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub(crate) fn choose(self, id: Option<&str>) -> Result<Manifest, String> {
        let Some(id) = id else {
            let newest = self.entries.into_iter().rev().find_map(|entry| entry.manifest.ok());
            return newest.ok_or_else(|| "there is no backup that can be read in that place".to_owned());
        };
        let entry = self.entries.into_iter().find(|entry| entry.id == id);
        let entry = entry.ok_or_else(|| format!("there is no backup `{id}` in that place"))?;
        entry.manifest.map_err(|unreadable| unreadable.to_string())
    }
}
