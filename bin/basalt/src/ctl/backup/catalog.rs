//! All backups of a place: those that can be read, and those that cannot, each with the reason. One that is torn hides no
//! other.

use super::manifest::{Manifest, Unreadable};
use super::place::Place;

/// What a list shows of a backup.
pub(crate) struct Summary {
    /// The moment that it shows, in ms since the epoch.
    pub(crate) at_ms: u64,
    /// The store that it is of.
    pub(crate) store: String,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) files: usize,
}

impl Summary {
    fn of(manifest: &Manifest) -> Self {
        Self {
            at_ms: manifest.at_ms,
            store: manifest.store.clone(),
            rows: manifest.rows(),
            bytes: manifest.bytes(),
            files: manifest.files().count(),
        }
    }
}

/// One backup of a place.
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) summary: Result<Summary, Unreadable>,
}

/// The backups of a place, oldest first.
pub(crate) struct Catalog {
    pub(crate) entries: Vec<Entry>,
}

impl Catalog {
    /// Reads every manifest, one after the other: none is kept, since each names all files of its backup.
    ///
    /// # Errors
    /// The place cannot be listed.
    pub(crate) fn read(place: &Place) -> Result<Self, String> {
        let ids = Manifest::list(place)?;
        let read =
            |id: String| Entry { summary: Manifest::read(place, &id).map(|manifest| Summary::of(&manifest)), id };
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
    pub(crate) fn readable(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.entries.iter().filter(|entry| entry.summary.is_ok()).map(|entry| entry.id.as_str())
    }

    /// Those that cannot, and why.
    pub(crate) fn unreadable(&self) -> impl Iterator<Item = (&str, &Unreadable)> {
        self.entries.iter().filter_map(|entry| Some((entry.id.as_str(), entry.summary.as_ref().err()?)))
    }

    /// The backup of that name, or else the newest that can be read.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub(crate) fn choose(&self, place: &Place, id: Option<&str>) -> Result<Manifest, String> {
        let id = match id {
            Some(id) if self.entries.iter().any(|entry| entry.id == id) => id,
            Some(id) => return Err(format!("there is no backup `{id}` in that place")),
            None => self.readable().next_back().ok_or("there is no backup that can be read in that place")?,
        };
        Manifest::read(place, id).map_err(|unreadable| unreadable.to_string())
    }
}
