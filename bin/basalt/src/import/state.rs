//! Where an import stands, kept in a file: an import that was interrupted goes on from there.
//!
//! | what is imported | what is kept | what is in doubt after an interruption |
//! |-|-|-|
//! | a copy: RDB, NDJSON | how many items are written | items behind: they are written again, which changes nothing |
//! | commands of a file | nothing: the store has a checkpoint of each slot (`Checkpoints`) | nothing |
//! | changes of a running source | up to which offset all are made, and up to which some may be | between the two: keys are read from the source |

use super::outcome::Outcome;
use crate::whole_file::WholeFile;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vocab::{Prng, wall_clock_ms};

const FORMAT: u32 = 1;
/// Of an import that has not read yet what its files empty.
const NOT_LOOKED: &str = "not looked yet";
/// Between two times that the state of a copy is kept.
const SAVE_EVERY: Duration = Duration::from_secs(2);
/// Bytes of a running source's stream for which the state is kept ahead.
pub(super) const AHEAD_BYTES: u64 = 1 << 20;

/// Where an import stands.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ImportState {
    format: u32,
    /// What is imported: another source has another state.
    source: String,
    /// Drawn for this import: its checkpoints in the store have it in their names.
    id: u64,
    /// Which of the files is read, from 0 on.
    file: usize,
    /// Items of that file's copy that are written.
    items: u64,
    /// The newest key that was begun and is written in parts, by the name that is stored: what is there of it may be a part.
    #[serde(default)]
    begun: Option<Vec<u8>>,
    /// The hash of the places of the store where the keys go, if there was no key when the import began: all that are there are the source's.
    #[serde(default)]
    was_empty: Option<u64>,
    /// What the commands of the files empty and exchange, as of the beginning of the import; none in a state of an earlier release.
    #[serde(default)]
    emptied: Option<String>,
    /// Where each running source stands whose copy is complete.
    followed: BTreeMap<String, Followed>,
    outcome: Outcome,
}

/// Where the changes of a running source stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Followed {
    /// The id of the source's stream.
    pub(super) stream: String,
    /// Up to here all changes are made.
    pub(super) offset: u64,
    /// Up to here some may be made.
    pub(super) until: u64,
    /// The database that the stream is about at `offset`.
    pub(super) selected: u64,
    /// The copy before was made over an earlier one: the store may have keys that the source has not had since, or not as they were.
    #[serde(default)]
    pub(super) is_renewed: bool,
}

/// Keeps at which places of its stream keys of a running source were read.
pub(super) struct ReadPlaces<'a> {
    pub(super) state: &'a Mutex<StateFile>,
    /// The source, as the state names it.
    pub(super) source: String,
}

impl ReadPlaces<'_> {
    /// A key is about to be written as it was at that place: interrupted from here on, commands up to there may be made.
    pub(super) fn note(&self, at: u64) -> Result<(), String> {
        self.state.lock().note_read(&self.source, at)
    }
}

/// A state, and the file that keeps it, if one does.
pub(super) struct StateFile {
    path: Option<PathBuf>,
    state: ImportState,
    /// Whether an import before this one has begun.
    resumes: bool,
    saved: Instant,
}

impl StateFile {
    /// The state that a file keeps; a new one, if there is no file.
    pub(super) fn open(path: Option<&Path>, source: &str) -> Result<Self, String> {
        let id = Prng::new(wall_clock_ms() ^ u64::from(std::process::id()) << 40).next_u64();
        let new = ImportState {
            format: FORMAT,
            source: source.to_owned(),
            id,
            file: 0,
            items: 0,
            begun: None,
            was_empty: None,
            emptied: Some(NOT_LOOKED.to_owned()),
            followed: BTreeMap::new(),
            outcome: Outcome::default(),
        };
        let Some(path) = path else {
            return Ok(Self { path: None, state: new, resumes: false, saved: Instant::now() });
        };
        let named = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let mut file = match std::fs::read(path) {
            Ok(bytes) => {
                let state: ImportState = serde_json::from_slice(&bytes).map_err(|e| named(&e))?;
                if state.format != FORMAT {
                    return Err(named(&format!("format {}; this version of basalt reads {FORMAT}", state.format)));
                }
                if state.source != source {
                    return Err(named(&format!("this is the state of an import of {}", state.source)));
                }
                Self { path: Some(path.to_owned()), state, resumes: true, saved: Instant::now() }
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Self { path: Some(path.to_owned()), state: new, resumes: false, saved: Instant::now() }
            }
            Err(e) => return Err(named(&e)),
        };
        // What cannot be kept is found out before anything is done.
        file.save()?;
        Ok(file)
    }

    /// Whether an import before this one has begun.
    pub(super) fn resumes(&self) -> bool {
        self.resumes
    }

    /// The number that checkpoints in the store have in their names; none where nothing is kept.
    pub(super) fn checkpoints(&self) -> Option<u64> {
        self.path.is_some().then_some(self.state.id)
    }

    /// What was done before.
    pub(super) fn outcome(&self) -> Outcome {
        self.state.outcome.clone()
    }

    /// Which file is to be read, and how many items of its copy are written.
    pub(super) fn place(&self) -> (usize, u64) {
        (self.state.file, self.state.items)
    }

    /// Whether it is time to keep how far a copy is.
    pub(super) fn is_due(&self) -> bool {
        self.path.is_some() && self.saved.elapsed() >= SAVE_EVERY
    }

    /// So many items of a file's copy are written.
    pub(super) fn note_copied(&mut self, file: usize, items: u64, outcome: &Outcome) -> Result<(), String> {
        (self.state.file, self.state.items) = (file, items);
        self.state.outcome = outcome.clone();
        self.save()
    }

    /// Whether a key that is written in parts was begun: what is there of it may be a part.
    pub(super) fn has_begun(&self, key: &[u8]) -> bool {
        self.state.begun.as_deref() == Some(key)
    }

    /// A key that was not there is about to be written in parts.
    pub(super) fn note_begun(&mut self, key: Vec<u8>) -> Result<(), String> {
        self.state.begun = Some(key);
        self.save()
    }

    /// Whether all keys in these places of the store are the source's; they are told by their hash.
    pub(super) fn was_empty(&self, places: u64) -> bool {
        self.state.was_empty == Some(places)
    }

    /// There is no key in these places. The import begins.
    pub(super) fn note_was_empty(&mut self, places: u64) -> Result<(), String> {
        self.state.was_empty = Some(places);
        self.save()
    }

    /// The import was to end, and lacks nothing: from now on an application may have written to the store.
    pub(super) fn forget_was_empty(&mut self) -> Result<(), String> {
        if self.state.was_empty.take().is_some() { self.save() } else { Ok(()) }
    }

    /// What the commands of the files empty and exchange. What an import before this one has written went by that.
    pub(super) fn note_emptied(&mut self, emptied: String) -> Result<(), String> {
        let refusal = "the files empty or exchange databases (FLUSHALL, FLUSHDB, SWAPDB) elsewhere than when the import began: remove what \
                       was imported, and the file of --state, and begin again";
        match self.state.emptied.as_deref() {
            // An import that was killed before it came here has written nothing.
            Some(NOT_LOOKED) => {
                self.state.emptied = Some(emptied);
                self.save()
            }
            Some(before) if before == emptied => Ok(()),
            Some(_) => Err(refusal.to_owned()),
            None => Ok(()),
        }
    }

    /// Where a running source stands; none if its copy is not complete.
    pub(super) fn followed(&self, source: &str) -> Option<Followed> {
        self.state.followed.get(source).cloned()
    }

    /// A running source stands there. What was read of it at a later place stays in doubt.
    pub(super) fn note_followed(&mut self, source: &str, mut at: Followed) -> Result<(), String> {
        if let Some(before) = self.state.followed.get(source).filter(|before| before.stream == at.stream) {
            at.until = at.until.max(before.until);
        }
        self.state.followed.insert(source.to_owned(), at);
        self.save()
    }

    /// A key is about to be written as it was at that place of a running source's stream.
    fn note_read(&mut self, source: &str, at: u64) -> Result<(), String> {
        match self.state.followed.get_mut(source) {
            Some(followed) if followed.until < at => {
                followed.until = at + AHEAD_BYTES;
                self.save()
            }
            _ => Ok(()),
        }
    }

    /// A running source is copied anew.
    pub(super) fn forget_followed(&mut self, source: &str) -> Result<(), String> {
        self.state.followed.remove(source);
        self.save()
    }

    fn save(&mut self) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        let named = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let text = serde_json::to_vec(&self.state).map_err(|e| named(&e))?;
        let file = WholeFile::begin(path).map_err(|e| named(&e))?;
        file.file().write_all(&text).and_then(|()| file.finish(true)).map_err(|e| named(&e))?;
        self.saved = Instant::now();
        Ok(())
    }

    /// The import is complete: nothing is left to go on with.
    pub(super) fn remove(&self) -> Result<(), String> {
        match &self.path {
            Some(path) => std::fs::remove_file(path).map_err(|e| format!("{}: {e}", path.display())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_state_is_found_again_and_no_other_source_takes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let mut first = StateFile::open(Some(&path), "a.rdb").unwrap();
        assert!(!first.resumes());
        let outcome = Outcome { keys: 7, ..Outcome::default() };
        first.note_copied(2, 40, &outcome).unwrap();
        let at = Followed { stream: "s".to_owned(), offset: 5, until: 9, selected: 1, is_renewed: true };
        first.note_followed("h:1", at.clone()).unwrap();
        first.note_followed("h:3", at.clone()).unwrap();
        first.forget_followed("h:3").unwrap();
        first.note_begun(b"large".to_vec()).unwrap();
        first.note_was_empty(4).unwrap();
        first.note_emptied("here".to_owned()).unwrap();
        let mut again = StateFile::open(Some(&path), "a.rdb").unwrap();
        assert!(again.resumes() && again.checkpoints() == first.checkpoints());
        assert!(again.has_begun(b"large") && !again.has_begun(b"other"));
        assert!(again.was_empty(4) && !again.was_empty(5) && again.followed("h:3").is_none());
        assert!(again.note_emptied("here".to_owned()).is_ok() && again.note_emptied("there".to_owned()).is_err());
        assert_eq!((again.place(), again.outcome().keys), ((2, 40), 7));
        assert_eq!((again.followed("h:1"), again.followed("h:2")), (Some(at), None));
        assert!(StateFile::open(Some(&path), "b.rdb").is_err());
        again.remove().unwrap();
        assert!(!StateFile::open(Some(&path), "b.rdb").unwrap().resumes());
        assert!(StateFile::open(None, "c").unwrap().checkpoints().is_none());
    }

    /// An import may be killed between the file that keeps its state and the last of the files that it is to read.
    #[test]
    fn what_files_empty_is_kept_by_the_first_import_that_has_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let open = || StateFile::open(Some(&path), "a.aof").unwrap();
        assert!(!open().resumes());
        let mut second = open();
        assert!(second.resumes() && second.note_emptied("here".to_owned()).is_ok());
        assert!(open().note_emptied("there".to_owned()).is_err() && open().note_emptied("here".to_owned()).is_ok());
        // An earlier release kept nothing of the kind.
        let mut state: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        state.as_object_mut().unwrap().remove("emptied");
        std::fs::write(&path, state.to_string()).unwrap();
        assert!(open().note_emptied("there".to_owned()).is_ok() && open().note_emptied("here".to_owned()).is_ok());
    }

    #[test]
    fn a_store_that_may_be_in_use_is_not_taken_for_the_sources() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let open = || StateFile::open(Some(&path), "s").unwrap();
        open().note_was_empty(4).unwrap();
        assert!(open().was_empty(4));
        open().forget_was_empty().unwrap();
        assert!(!open().was_empty(4));
    }

    /// Commands on a key that was read ahead are in doubt up to where it was read, whenever the import is killed.
    #[test]
    fn places_of_keys_that_were_read_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let state = Mutex::new(StateFile::open(Some(&path), "s").unwrap());
        let until = |name: &str| StateFile::open(Some(&path), "s").unwrap().followed(name).map(|at| at.until);
        let places = ReadPlaces { state: &state, source: "h:1".to_owned() };
        places.note(7).unwrap();
        assert_eq!(until("h:1"), None);
        let at = |stream: &str, until| Followed {
            stream: stream.to_owned(),
            offset: 5,
            until,
            selected: 0,
            is_renewed: false,
        };
        state.lock().note_followed("h:1", at("s", 9)).unwrap();
        places.note(9).unwrap();
        assert_eq!(until("h:1"), Some(9));
        places.note(10).unwrap();
        assert_eq!(until("h:1"), Some(10 + AHEAD_BYTES));
        state.lock().note_followed("h:1", at("s", 12)).unwrap();
        assert_eq!(until("h:1"), Some(10 + AHEAD_BYTES));
        state.lock().note_followed("h:1", at("another", 12)).unwrap();
        assert_eq!(until("h:1"), Some(12));
    }
}
