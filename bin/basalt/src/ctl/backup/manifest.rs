//! What a backup consists of: one JSON document, written last. A backup without one is none.

use super::place::Place;
use super::programs::Programs;
use super::rows::FileFacts;
use super::users::Users;
use serde::{Deserialize, Serialize};
use std::fmt;

const FORMAT: u32 = 1;
const FOLDER: &str = "backups";
const BYTES_MAX: u64 = 1 << 30;

/// One backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Of this layout.
    pub(crate) format: u32,
    /// Its name: when it was made, in UTC, as digits down to the millisecond.
    pub(crate) id: String,
    /// The store that it is of.
    pub(crate) store: String,
    /// The moment that it shows, in ms since the epoch.
    pub(crate) at_ms: u64,
    /// The map's number then.
    pub(crate) epoch: u64,
    /// Keys, as the store counted them: those that had expired and were not yet collected included.
    pub(crate) keys: u64,
    /// Its functions and scripts; none of a backup of an older release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) programs: Option<Programs>,
    /// Its users; none of a backup of an older release, or if its maker may not administer users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) users: Option<Users>,
    pub(crate) shards: Vec<ShardFacts>,
}

/// One shard of a backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ShardFacts {
    pub(crate) shard: u64,
    pub(crate) slots: String,
    /// The log index of its snapshot.
    pub(crate) index: u64,
    pub(crate) keys: u64,
    pub(crate) files: Vec<FileFacts>,
}

/// Why a manifest could not be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// The place does not give it.
    NotThere(String),
    /// It is not what a backup wrote: cut short, overwritten, damaged. No backup.
    Torn(String),
    /// Another version of the program wrote it. It may be whole.
    OtherFormat(String),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere(text) | Self::OtherFormat(text) => out.write_str(text),
            Self::Torn(text) => write!(out, "torn: {text}"),
        }
    }
}

/// The part of a manifest that every format has.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Manifest {
    pub(crate) fn new(
        store: String,
        (at_ms, epoch): (u64, u64),
        (programs, users): (Option<Programs>, Option<Users>),
        shards: Vec<ShardFacts>,
    ) -> Self {
        let keys = shards.iter().map(|shard| shard.keys).sum();
        Self { format: FORMAT, id: name_of(at_ms), store, at_ms, epoch, keys, programs, users, shards }
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &FileFacts> {
        self.shards.iter().flat_map(|shard| &shard.files)
    }

    pub(crate) fn rows(&self) -> u64 {
        self.files().map(|file| file.rows).sum()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files().map(|file| file.bytes).sum()
    }

    pub(crate) fn write(&self, place: &Place) -> Result<(), String> {
        let text = serde_json::to_vec_pretty(self).map_err(|e| e.to_string())?;
        place.put(&format!("{FOLDER}/{}.json", self.id), &text).map(|_| ())
    }

    /// The names of all backups, oldest first.
    pub(crate) fn list(place: &Place) -> Result<Vec<String>, String> {
        let files = place.list(FOLDER)?;
        let mut names: Vec<String> =
            files.into_iter().filter_map(|file| Some(file.name.strip_suffix(".json")?.to_owned())).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// One backup.
    pub(crate) fn read(place: &Place, id: &str) -> Result<Self, Unreadable> {
        let name = format!("{FOLDER}/{id}.json");
        let bytes = place.get(&name, BYTES_MAX).map_err(Unreadable::NotThere)?;
        // The number comes first: a later format may have other fields.
        let format = serde_json::from_slice::<Format>(&bytes).map_err(|e| Unreadable::Torn(format!("{name}: {e}")))?;
        if format.format != FORMAT {
            let text = format!("{name}: format {}; this version of basalt reads {FORMAT}", format.format);
            return Err(Unreadable::OtherFormat(text));
        }
        let manifest: Self = serde_json::from_slice(&bytes).map_err(|e| Unreadable::Torn(format!("{name}: {e}")))?;
        let sound = |file: &FileFacts| file.sha256.len() == 64 && file.sha256.bytes().all(|b| b.is_ascii_hexdigit());
        if !manifest.files().all(sound) {
            return Err(Unreadable::Torn(format!("{name}: a file has no SHA-256")));
        }
        Ok(manifest)
    }

    pub(crate) fn remove(place: &Place, id: &str) -> Result<(), String> {
        place.remove(&format!("{FOLDER}/{id}.json"))
    }
}

/// Year, month, day, hour, minute, second and millisecond, as digits.
fn name_of(at_ms: u64) -> String {
    bench::report::rfc3339(at_ms)
        .chars()
        .filter(char::is_ascii_digit)
        .chain(format!("{:03}", at_ms % 1000).chars())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_times() {
        assert_eq!(name_of(1_795_320_900_007), "20261122041500007");
    }
}
