//! How a node keeps the map: one file has a whole map, a second one the changes since, which are appended. Pure: the shell
//! reads and writes the bytes. docs/FORMATS.md, "The data directory", has the layout.

use crate::error::MapError;
use crate::history::{MadeChange, MapUpdate};
use crate::map::Map;
use vocab::Epoch;

/// CRC32, length and epoch.
const HEAD_BYTES: usize = 16;
/// The changes of a small map take so much at least before the map is written whole, in bytes.
const CHANGES_BYTES_MIN: u64 = 64 * 1024;

/// What a node's two files hold, as far as it was written since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapFiles {
    /// The length of the file with the whole map; `None` if that is not known: the next map is written whole.
    whole_bytes: Option<u64>,
    /// The length of the file with the changes.
    change_bytes: u64,
}

/// What is to be written to keep a map. Once it is durable, [`MapFiles::written`] is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapWrite {
    /// This takes the place of the file with the whole map; then the file with the changes is removed.
    Whole(Vec<u8>),
    /// This is appended to the file with the changes.
    Append(Vec<u8>),
}

impl MapFiles {
    /// What is to be written for an update. A map is written whole once its changes take as much as it does itself: so a
    /// change costs a small multiple of its own bytes.
    #[must_use]
    pub fn write(&self, update: &MapUpdate) -> MapWrite {
        let appended = encode(&update.changes);
        let bytes = self.change_bytes + appended.len() as u64;
        let fits = self.whole_bytes.is_some_and(|whole| bytes <= whole.max(CHANGES_BYTES_MIN));
        if fits && !appended.is_empty() { MapWrite::Append(appended) } else { MapWrite::Whole(update.map.encode()) }
    }

    /// What was to be written is durable; if not, it is unknown what the files hold.
    pub fn written(&mut self, write: &MapWrite, is_durable: bool) {
        match write {
            _ if !is_durable => *self = Self::default(),
            MapWrite::Whole(bytes) => (self.whole_bytes, self.change_bytes) = (Some(bytes.len() as u64), 0),
            MapWrite::Append(bytes) => self.change_bytes += bytes.len() as u64,
        }
    }

    /// The map that the two files hold. What a crash has left of the last change is passed over.
    pub fn read(whole: &[u8], changes: &[u8]) -> Result<Map, MapError> {
        let map = Map::decode(whole)?;
        let update = MapUpdate::following(&map, &decode(changes));
        let update = update.map_err(|e| MapError::Invalid(format!("the file with its changes: {e}")))?;
        Ok(update.map_or(map, |update| Map::clone(&update.map)))
    }
}

/// The changes of a file with changes, and where it is damaged, if it is: whole changes follow there.
#[must_use]
pub fn read_changes(bytes: &[u8]) -> (Vec<MadeChange>, Option<usize>) {
    let changes = decode(bytes);
    let end: usize = changes.iter().map(|change| HEAD_BYTES + change.bytes.len()).sum();
    let follows = (end + 1..bytes.len()).any(|at| record(&bytes[at..]).is_some());
    (changes, follows.then_some(end))
}

fn encode(changes: &[MadeChange]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(changes.iter().map(|change| HEAD_BYTES + change.bytes.len()).sum());
    for change in changes {
        let mut record = Vec::with_capacity(HEAD_BYTES + change.bytes.len());
        record.extend_from_slice(&(change.bytes.len() as u32).to_le_bytes());
        record.extend_from_slice(&change.epoch.0.to_le_bytes());
        record.extend_from_slice(&change.bytes);
        bytes.extend_from_slice(&crc32fast::hash(&record).to_le_bytes());
        bytes.extend_from_slice(&record);
    }
    bytes
}

fn decode(mut bytes: &[u8]) -> Vec<MadeChange> {
    let mut changes = Vec::new();
    while let Some((change, rest)) = record(bytes) {
        changes.push(change);
        bytes = rest;
    }
    changes
}

/// The change that the bytes begin with, and what follows it.
fn record(bytes: &[u8]) -> Option<(MadeChange, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let [c0, c1, c2, c3, l0, l1, l2, l3, epoch @ ..] = *head;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let summed = bytes[4..].get(..HEAD_BYTES - 4 + length)?;
    let is_whole = crc32fast::hash(summed).to_le_bytes() == [c0, c1, c2, c3];
    let change = || MadeChange { epoch: Epoch(u64::from_le_bytes(epoch)), bytes: rest[..length].into() };
    is_whole.then(|| (change(), &rest[length..]))
}
