//! What a backup consists of: one JSON document, written last. A backup without one is none.

use super::place::Place;
use super::programs::Programs;
use super::rows::FileFacts;
use super::seal::{Seal, sealed};
use super::users::Users;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use vocab::SLOT_COUNT;

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
    /// # Errors
    /// The shards are not all of a store.
    pub(crate) fn new(
        store: String,
        (at_ms, epoch): (u64, u64),
        (programs, users): (Option<Programs>, Option<Users>),
        shards: Vec<ShardFacts>,
    ) -> Result<Self, String> {
        let keys = shards.iter().map(|shard| shard.keys).sum();
        let manifest = Self { format: FORMAT, id: name_of(at_ms), store, at_ms, epoch, keys, programs, users, shards };
        manifest.require_all_slots()?;
        Ok(manifest)
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
        let text = sealed(&text).ok_or("a manifest cannot be given its checksum")?;
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
        Self::checked(&bytes).map_err(|why| Unreadable::Torn(format!("{name}: {why}")))
    }

    /// The manifest that a document is.
    fn checked(bytes: &[u8]) -> Result<Self, String> {
        let read = |bytes: &[u8]| serde_json::from_slice::<Self>(bytes).map_err(|e| e.to_string());
        let manifest = match Seal::of(bytes) {
            Seal::Whole(document) => read(&document)?,
            Seal::Broken => return Err("its checksum is another one: it was changed since it was written".to_owned()),
            Seal::Missing => {
                let manifest = read(bytes)?;
                manifest.check_unsealed(bytes)?;
                manifest
            }
        };
        // They are names of files.
        if manifest.files().all(FileFacts::has_digits) { Ok(manifest) } else { Err("a file has no SHA-256".to_owned()) }
    }

    /// What can be told of a manifest of a release that wrote no checksum.
    fn check_unsealed(&self, document: &[u8]) -> Result<(), String> {
        let found: Value = serde_json::from_slice(document).map_err(|e| e.to_string())?;
        if serde_json::to_value(self).map_err(|e| e.to_string())? != found {
            return Err("it has a field that no release has written without a checksum".to_owned());
        }
        if self.id != name_of(self.at_ms) {
            return Err(format!("its moment is not {}", self.id));
        }
        let keys = self.shards.iter().try_fold(0u64, |sum, shard| sum.checked_add(shard.keys));
        if keys != Some(self.keys) {
            return Err(format!("its shards have other keys than {}", self.keys));
        }
        self.require_all_slots()?;
        self.programs.as_ref().map_or(Ok(()), Programs::check)?;
        self.users.as_ref().map_or(Ok(()), Users::check)
    }

    /// Each slot is in one shard.
    fn require_all_slots(&self) -> Result<(), String> {
        let mut ranges = Vec::new();
        for shard in &self.shards {
            for range in shard.slots.split(',').filter(|range| !range.is_empty()) {
                let ends = range.split_once('-').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                let ends: (u16, u16) = ends
                    .filter(|(first, last)| first <= last)
                    .ok_or_else(|| format!("shard {}: `{}` are no slots", shard.shard, shard.slots))?;
                ranges.push(ends);
            }
        }
        ranges.sort_unstable();
        let mut next = 0;
        for (first, last) in ranges {
            if first != next {
                return Err(format!("its shards have slot {} not at all, or twice", first.min(next)));
            }
            next = last.saturating_add(1);
        }
        if next == SLOT_COUNT { Ok(()) } else { Err(format!("its shards have no slot from {next} on")) }
    }

    pub(crate) fn remove(place: &Place, id: &str) -> Result<(), String> {
        place.remove(&format!("{FOLDER}/{id}.json"))
    }

    /// Has the manifests that were removed stay away, before any file goes that they name.
    pub(crate) fn settle_removals(place: &Place) -> Result<(), String> {
        place.settle(FOLDER)
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
    #![allow(clippy::unwrap_used)]
    use super::super::rows::Stored;
    use super::*;

    fn manifest() -> Manifest {
        let stored = Some(Stored { bytes: 9, xxh3: "0123456789abcdef".to_owned(), tag: None });
        let file = FileFacts { sha256: "0a".repeat(32), rows: 3, bytes: 20, stored };
        let shard =
            |shard, slots: &str, keys, files| ShardFacts { shard, slots: slots.to_owned(), index: 7, keys, files };
        let shards = vec![shard(0, "0-99,8192-16383", 3, vec![file]), shard(1, "100-8191", 0, Vec::new())];
        let users = serde_json::from_str(r#"{"app":"6f6e207e2a202b676574"}"#).unwrap();
        let programs = Some(Programs::default());
        Manifest::new("store".to_owned(), (1_795_320_900_007, 5), (programs, Some(users)), shards).unwrap()
    }

    #[test]
    fn a_manifest_with_a_checksum_is_as_it_was_written() {
        let text = serde_json::to_vec_pretty(&manifest()).unwrap();
        let whole = sealed(&text).unwrap();
        assert_eq!(serde_json::to_vec_pretty(&Manifest::checked(&whole).unwrap()).unwrap(), text);
        // Earlier releases read over it.
        serde_json::from_slice::<Manifest>(&whole).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            Manifest::checked(&changed).unwrap_err();
        }
    }

    #[test]
    fn what_can_be_told_of_a_manifest_without_a_checksum_is() {
        let text = String::from_utf8(serde_json::to_vec_pretty(&manifest()).unwrap()).unwrap();
        Manifest::checked(text.as_bytes()).unwrap();
        for (what, damaged, said) in [
            ("\"users\"", "\"usdrs\"", "a field"),
            ("6f6e207e2a202b676574", "6f6e207e2a202b67657", "user"),
            ("6f6e207e2a202b676574", "6f6e207e2a202b676575", "user"),
            ("100-8191", "100-8190", "slot 8191"),
            ("100-8191", "99-8191", "slot 99"),
            ("100-8191", "100~8191", "no slots"),
            ("16383", "16382", "slot from 16383 on"),
            ("\"keys\": 0", "\"keys\": 1", "other keys"),
            ("20261122041500007", "20261122041500006", "its moment"),
            ("abcdef", "abcdeg", "SHA-256"),
            ("0a0a0a", "0A0a0a", "SHA-256"),
            ("\"functions\": \"\"", "\"functions\": \"x\"", "functions"),
        ] {
            let changed = text.replacen(what, damaged, 1);
            assert_ne!(changed, text, "{what}");
            let found = Manifest::checked(changed.as_bytes()).unwrap_err();
            assert!(found.contains(said), "{what}: {found}");
        }
    }

    #[test]
    fn names_are_times() {
        assert_eq!(name_of(1_795_320_900_007), "20261122041500007");
    }
}
