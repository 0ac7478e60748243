//! What a backup consists of: one JSON document, written last. A backup without one is none.

use super::place::Place;
use super::rows::FileFacts;
use serde::{Deserialize, Serialize};

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

impl Manifest {
    pub(crate) fn new(store: String, at_ms: u64, epoch: u64, shards: Vec<ShardFacts>) -> Self {
        let keys = shards.iter().map(|shard| shard.keys).sum();
        Self { format: FORMAT, id: name_of(at_ms), store, at_ms, epoch, keys, shards }
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
        place.put(&format!("{FOLDER}/{}.json", self.id), &text)
    }

    /// The names of all backups, oldest first.
    pub(crate) fn list(place: &Place) -> Result<Vec<String>, String> {
        let names = place.list(FOLDER)?;
        let mut names: Vec<String> =
            names.into_iter().filter_map(|(name, _)| Some(name.strip_suffix(".json")?.to_owned())).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// One backup, or the newest.
    pub(crate) fn read(place: &Place, id: Option<&str>) -> Result<Self, String> {
        let id = match id {
            Some(id) if id.bytes().all(|b| b.is_ascii_digit()) => id.to_owned(),
            Some(id) => return Err(format!("`{id}` is no backup's name")),
            None => Self::list(place)?.pop().ok_or("there is no backup in that place")?,
        };
        let name = format!("{FOLDER}/{id}.json");
        let manifest: Self =
            serde_json::from_slice(&place.get(&name, BYTES_MAX)?).map_err(|e| format!("{name} cannot be read: {e}"))?;
        if manifest.format != FORMAT {
            return Err(format!("{name}: format {}; this version of basalt reads {FORMAT}", manifest.format));
        }
        let sound = |file: &FileFacts| file.sha256.len() == 64 && file.sha256.bytes().all(|b| b.is_ascii_hexdigit());
        if !manifest.files().all(sound) {
            return Err(format!("{name}: a file has no SHA-256"));
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
